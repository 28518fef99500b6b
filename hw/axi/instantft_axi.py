"""The fine-tuning core with AXI4, AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.instantft import InstantFt
from seedbed.hw.axi.axi import axi_stream, octets
from seedbed.hw.axi.axi_memory import ADDRESS_BITS, axi_memory, connect_memory
from seedbed.hw.axi.registers import RegisterBlock, register_members, status_word
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.instantft import COUNTERS, InstantFtConfig

__all__ = ["InstantFtAxi"]


class InstantFtAxi(wiring.Component):
    """:class:`~seedbed.hw.adapters.instantft.InstantFt` with AXI's names, clock and reset.

    The registers are ``instantft`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing. So are writes to registers with access ``write`` while busy.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 6 of address
        AXI4-Lite, control registers
    s_axis_parameters_* : In
        AXI4-Stream, packets of parameter rows. A beat has two parameters, each in whole bytes.
        tuser of the first: 0 for the network's, 1 for adapters.
    m_axis_adapters_* : Out
        AXI4-Stream, one packet per read job. A beat has two parameters, each in whole bytes.
    s_axis_samples_* : In
        AXI4-Stream, images. One image a packet: ``ways`` bytes a beat. tuser: the label in bits
        15..0, the index in 31..16.
    m_axis_results_* : Out
        AXI4-Stream, one beat per sample. One command a packet: the loss, its sign extended to whole
        bytes. tuser: the class in bits 7..0, hit in bit 8, status in 11..9. The last beat is no
        sample's.
    m_axi_* : 128 bits of data
        AXI4 to the memory. Bursts are incrementing, of whole beats, all with identifier 0.

    Latency: that of instantft.
    Throughput: 1 sample at a time.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        word = 2 * octets(config.engine.word)
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(AXI_REGISTERS["instantft"])
            | axi_stream("s_axis_parameters", word, In, user=1)
            | axi_stream("s_axis_samples", 8 * config.ways, In, user=32)
            | axi_stream("m_axis_results", octets(config.values.width), Out, user=12)
            | axi_stream("m_axis_adapters", word, Out)
            | axi_memory(config.forward_cache.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = InstantFt(self.config)
        block = RegisterBlock(m, self, AXI_REGISTERS["instantft"])
        size = octets(self.config.engine.word)
        parameters, samples = core.i_parameters, core.i_samples
        results, adapters = core.o, core.o_parameters
        for k, word in enumerate(parameters.payload.word):
            m.d.comb += word.eq(self.s_axis_parameters_tdata[k * size : (k + 1) * size])
        for k, word in enumerate(adapters.payload.word):
            m.d.comb += self.m_axis_adapters_tdata[k * size : (k + 1) * size].eq(word)
        for k, pixel in enumerate(samples.payload.pixels):
            m.d.comb += pixel.eq(self.s_axis_samples_tdata[8 * k : 8 * k + 8])
        best = Signal(8)
        m.d.comb += [
            parameters.payload.trainable.eq(self.s_axis_parameters_tuser),
            parameters.payload.last.eq(self.s_axis_parameters_tlast),
            parameters.valid.eq(self.s_axis_parameters_tvalid),
            self.s_axis_parameters_tready.eq(parameters.ready),
            samples.payload.label.eq(self.s_axis_samples_tuser[:16]),
            samples.payload.index.eq(self.s_axis_samples_tuser[16:]),
            samples.payload.last.eq(self.s_axis_samples_tlast),
            samples.valid.eq(self.s_axis_samples_tvalid),
            self.s_axis_samples_tready.eq(samples.ready),
            best.eq(results.payload.best),
            self.m_axis_results_tdata.eq(results.payload.loss),
            self.m_axis_results_tuser.eq(Cat(best, results.payload.hit, results.payload.status)),
            self.m_axis_results_tlast.eq(results.payload.last),
            self.m_axis_results_tvalid.eq(results.valid),
            results.ready.eq(self.m_axis_results_tready),
            self.m_axis_adapters_tlast.eq(adapters.payload.last),
            self.m_axis_adapters_tvalid.eq(adapters.valid),
            adapters.ready.eq(self.m_axis_adapters_tready),
        ]
        base = self._registers(m, block, core)
        connect_memory(m, self, core, base)
        return m

    def _registers(self, m, block, core) -> Signal:
        """Hold the registers; return the base address."""
        results, lite = core.o, block.lite
        base = Signal(ADDRESS_BITS)
        busy = Signal()
        done = Signal()
        pending = Signal()
        status = Signal(3)
        kept = block.command(core.i, pending)
        with m.If(core.i.ready):
            m.d.sync += pending.eq(0)
        with m.If(results.valid & results.ready & results.payload.last):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(results.payload.status)]
        with block.writes():
            with block.write("control"):
                m.d.comb += lite.write_refused.eq(busy)
                with m.If(lite.write & ~busy & lite.write_strobe[0] & lite.write_data[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0)]
            block.hold(kept | {"base": base}, busy)
        shown = kept | {"base": base, "status": status_word(busy, done, status)}
        block.show(shown | {f"counted_{name}": core.counters[name] for name in COUNTERS})
        return base
