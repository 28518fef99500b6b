"""The trainer of programs with AXI4, AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_stream
from seedbed.hw.axi.axi_memory import axi_memory, connect_memory
from seedbed.hw.axi.program_axi import connect_blocks, program_streams, result_beat
from seedbed.hw.axi.registers import RegisterBlock, register_members
from seedbed.hw.axi.trainer_axi import connect_registers, connect_results, extended
from seedbed.hw.kept.stream_trainer import StreamTrainer
from seedbed.hw.parts.codes import codes
from seedbed.spec import STREAM_TRAINER_KINDS, StreamTrainerConfig
from seedbed.spec.axi_registers import held

__all__ = ["LOG_FIELDS", "StreamTrainerAxi"]

#: Bits of the fields of a step in the log, the first one lowest; the change is sign-extended.
LOG_FIELDS = {"seed": 32, "change": 32}
_KINDS = codes(STREAM_TRAINER_KINDS)


class StreamTrainerAxi(wiring.Component):
    """:class:`~seedbed.hw.kept.stream_trainer.StreamTrainer` with AXI's names, clock and reset.

    The registers are ``stream_trainer`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`, of
    which ``vectors`` is there with ``inputs`` only.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing. So are writes to registers with access ``write`` while busy.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamTrainerConfig`, with at most 32 bits of a byte's address in
        memory: another one is refused with a ``ValueError``.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 7 of address
        AXI4-Lite, control registers
    s_axis_tokens_* : In(32 bits)
        AXI4-Stream, tokens of a block, after a command to run. One block per packet, one token per
        beat. Bits 31..24 are its class.
    s_axis_vectors_* : In(``lanes`` x 16 bits)
        AXI4-Stream, vectors of a block, one packet per block. With ``inputs`` only.
    m_axis_results_* : Out
        AXI4-Stream, one packet per command. A beat has ``lanes`` elements, each sign-extended to 32
        bits. Those of a run are of its block, those of a training of each sample in its second
        pass. The last beat is no result, and has the status in its low byte.
    m_axis_log_* : Out(64 bits)
        AXI4-Stream, one packet per training, one beat per step. See :data:`LOG_FIELDS`. The last
        beat is 0, and no step's.
    m_axi_* : ``beat_bits`` bits of data
        AXI4 to the memory. Bursts are incrementing, of whole beats, all with identifier 0, and
        cross no boundary of 4,096 bytes.

    Latency: that of stream_trainer.
    Throughput: that of stream_trainer.
    """

    def __init__(self, config: StreamTrainerConfig):
        self.config = config
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(held("stream_trainer", config))
            | program_streams(config)
            | axi_stream("m_axis_log", sum(LOG_FIELDS.values()), Out)
            | axi_memory(config.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = StreamTrainer(self.config)
        block = RegisterBlock(m, self, held("stream_trainer", self.config))
        end, step = core.o_status.payload, core.o_log.payload
        connect_blocks(m, self, core)
        logged = Cat(extended(step[name], bits) for name, bits in LOG_FIELDS.items())
        results = result_beat(core.o.payload)
        ended = connect_results(m, self, core, results, logged, end.status, _KINDS["train"])
        _, base = connect_registers(
            m, block, core, ended, abort=_KINDS["abort"], status=end.status,
            # A step whose weights were not changed is in the log, but does not count.
            results={"steps": end.steps},
        )  # fmt: skip
        connect_memory(m, self, core, base)
        return m
