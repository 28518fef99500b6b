"""The fine-tuning core with AXI4, AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.instantft import COUNTERS, InstantFt
from seedbed.hw.axi.axi import (
    AxiLite,
    axi_memory,
    axi_stream,
    connect_lite,
    lite_members,
    octets,
    write_register,
)
from seedbed.hw.axi.forward_cache_axi import ADDRESS_BITS, PAGE_BITS, connect_memory
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["REGISTERS", "InstantFtAxi"]

#: Names of the registers, one a word of 32 bits.
_WORDS = ["control", "status", "kind", "samples", "epochs", "batch", "rate", "base"]
_WORDS += [f"counted_{name}" for name in COUNTERS]
#: Byte addresses of the registers.
REGISTERS = {name: 4 * k for k, name in enumerate(_WORDS)}
REGISTER_BITS = 6


class InstantFtAxi(wiring.Component):
    """:class:`~seedbed.hw.adapters.instantft.InstantFt` with AXI's names, clock and reset.

    Registers, of 32 bits each, by byte address; another address, or a value that a register does
    not hold, is answered with SLVERR and changes nothing::

        0x00 control  w   bit 0: start the command that the registers below hold; refused while busy
        0x04 status   r   bit 0: busy, from start until the command's last result is taken
                          bit 1: done, from then until the next start
                          bits 6..4: how it ended, see seedbed.spec.INSTANTFT_STATUS
        0x08 kind     rw  see seedbed.spec.INSTANTFT_KINDS
        0x0C samples, 0x10 epochs, 0x14 batch, 0x18 rate
                      rw  as in a command of the core
        0x1C base     rw  where the cache begins in memory: its low 12 bits are 0
        0x20 ..       r   the counters, in the order of seedbed.hw.adapters.instantft.COUNTERS

    Those that are rw are refused while busy.

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
            | lite_members("s_axi_control", REGISTER_BITS)
            | axi_stream("s_axis_parameters", word, In, user=1)
            | axi_stream("s_axis_samples", 8 * config.ways, In, user=32)
            | axi_stream("m_axis_results", octets(config.values.width), Out, user=12)
            | axi_stream("m_axis_adapters", word, Out)
            | axi_memory("m_axi", ADDRESS_BITS, config.forward_cache.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = InstantFt(self.config)
        m.submodules.lite = lite = AxiLite(REGISTER_BITS)
        connect_lite(m, self, lite, "s_axi_control")
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
        base = self._registers(m, lite, core)
        connect_memory(m, self, core, base, self.config.forward_cache.beat_bytes)
        return m

    def _registers(self, m, lite, core) -> Signal:
        """Hold the registers; return the base address."""
        command, results = core.i.payload, core.o
        names = ("kind", "samples", "epochs", "batch", "rate")
        kept = {name: Signal(len(getattr(command, name)), name=name) for name in names}
        base = Signal(ADDRESS_BITS)
        busy = Signal()
        done = Signal()
        pending = Signal()
        status = Signal(3)
        m.d.comb += core.i.valid.eq(pending)
        m.d.comb += [getattr(command, name).eq(register) for name, register in kept.items()]
        with m.If(core.i.ready):
            m.d.sync += pending.eq(0)
        with m.If(results.valid & results.ready & results.payload.last):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(results.payload.status)]
        # What is not named below is refused.
        m.d.comb += [lite.write_refused.eq(1), lite.read_refused.eq(1)]
        with m.Switch(lite.write_word):
            with m.Case(REGISTERS["control"] >> 2):
                m.d.comb += lite.write_refused.eq(busy)
                with m.If(lite.write & ~busy & lite.write_strobe[0] & lite.write_data[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0)]
            for name, register in (kept | {"base": base}).items():
                with m.Case(REGISTERS[name] >> 2):
                    write_register(
                        m, lite, register, busy, zeros=PAGE_BITS if register is base else 0
                    )
        shown = kept | {"base": base, "status": Cat(busy, done, Const(0, 2), status)}
        shown |= {f"counted_{name}": getattr(core.counters, name) for name in COUNTERS}
        with m.Switch(lite.read_word):
            for name, value in shown.items():
                with m.Case(REGISTERS[name] >> 2):
                    m.d.comb += [lite.read_refused.eq(0), lite.read_data.eq(value)]
        return base
