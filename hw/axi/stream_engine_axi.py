"""The engine of programs with AXI4, AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import ClockDomain, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.hw.axi.axi_memory import ADDRESS_BITS, axi_memory, connect_memory, connect_reads
from seedbed.hw.axi.program_axi import connect_blocks, program_streams, result_beat
from seedbed.hw.axi.registers import RegisterBlock, register_members, status_word
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.spec import StreamEngineConfig
from seedbed.spec.axi_registers import held

__all__ = ["StreamEngineAxi"]


class StreamEngineAxi(wiring.Component):
    """:class:`~seedbed.hw.stream.stream_engine.StreamEngine` with AXI's names, clock and reset.

    The registers are ``stream_engine`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`, of
    which ``seed`` and ``delta`` are there with ``tune`` only.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing. So are writes to registers with access ``write`` while busy.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with at most 32 bits of a byte's address in
        memory: another one is refused with a ``ValueError``.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 5 of address, 6 with ``tune``
        AXI4-Lite, control registers
    s_axis_tokens_* : In(32 bits)
        AXI4-Stream, tokens. One block per packet, one token per beat. A number of more than 24 bits
        is an unknown token. With ``classes``, bits 31..24 are its class.
    s_axis_vectors_* : In(``lanes`` x 16 bits)
        AXI4-Stream, vectors of a block, one packet per block. With ``inputs`` only.
    m_axis_results_* : Out
        AXI4-Stream, vectors of the result, one packet per command. A beat has ``lanes`` elements,
        each sign-extended to 32 bits. The vectors follow one another, each in whole beats. The last
        beat is no vector's, and has the status in its low byte.
    m_axi_* : ``beat_bits`` bits of data
        AXI4 to the memory, which is written only with external or tune. Bursts are
        incrementing, of whole beats, all with identifier 0, and cross no boundary of 4,096 bytes.

    Latency: that of stream_engine.
    Throughput: that of stream_engine.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(held("stream_engine", config))
            | program_streams(config)
            | axi_memory(config.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = StreamEngine(self.config)
        connect_blocks(m, self, core)
        self._results(m, core)
        connect = connect_memory if self.config.writes else connect_reads
        connect(m, self, core, self._registers(m, core))
        return m

    def _results(self, m, core) -> None:
        """Connect vectors, and the status after them."""
        out, end = core.o, core.o_status
        beat = result_beat(out.payload)
        # No vector comes with the status.
        m.d.comb += [
            self.m_axis_results_tdata.eq(Mux(end.valid, end.payload.status, beat)),
            self.m_axis_results_tlast.eq(end.valid),
            self.m_axis_results_tvalid.eq(out.valid | end.valid),
            out.ready.eq(self.m_axis_results_tready & ~end.valid),
            end.ready.eq(self.m_axis_results_tready),
        ]

    def _registers(self, m, core) -> Signal:
        """Hold the registers, and set the status of a command that ends; return the base."""
        block = RegisterBlock(m, self, held("stream_engine", self.config))
        command, end, lite = core.i, core.o_status, block.lite
        base = Signal(ADDRESS_BITS)
        busy = Signal()
        done = Signal()
        pending = Signal()
        status = Signal.like(end.payload.status, name="status")
        kept = block.command(command, pending)
        if not self.config.writes:
            # They are in the map of every configuration.
            kept |= {"first": Signal(32), "end": Signal(32)}
        with m.If(command.ready):
            m.d.sync += pending.eq(0)
        with block.writes():
            with block.write("control"):
                word = block.strobed(Const(0, 32))
                m.d.comb += lite.write_refused.eq((busy & word[0]) | word[1:].any())
                with m.If(lite.write & ~lite.write_refused & word[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0)]
            block.hold(kept | {"base": base}, busy)
        with m.If(end.valid & end.ready):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(end.payload.status)]
        block.show(kept | {"base": base, "status": status_word(busy, done, status)})
        return base
