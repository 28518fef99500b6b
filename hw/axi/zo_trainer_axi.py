"""The zeroth-order trainer with AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import (
    AxiLite,
    axi_stream,
    connect_lite,
    lite_members,
    octets,
    strobed,
    write_register,
)
from seedbed.hw.axi.trainer_axi import connect_results, in_bytes
from seedbed.hw.engine.sample_intake import label_shape
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZoTrainerConfig

__all__ = ["REGISTERS", "ZoTrainerAxi"]

#: Names of the registers, one a word of 32 bits; those of a command have the names of its fields.
_WORDS = ["control", "status", "steps", "schedule"]
_WORDS += ["kind", "samples", "epochs", "batch", "seed", "exponent"]
#: Byte addresses of the registers.
REGISTERS = {name: 4 * k for k, name in enumerate(_WORDS)}
REGISTER_BITS = 6
#: In an entry of the schedule: bits of the epoch, of each field of the phase, and ``last``.
EPOCH_BITS, FIELD_BITS, LAST_BIT = 16, 4, 31
#: Bits of a beat of results, and of the log.
RESULT_BITS, LOG_BITS = 32, 64


class ZoTrainerAxi(wiring.Component):
    """:class:`~seedbed.hw.zeroth_order.zo_trainer.ZoTrainer` with AXI's names, clock and reset.

    Registers, of 32 bits each, by byte address; another address, or a value that a register does
    not hold, is answered with SLVERR and changes nothing::

        0x00 control  w   bit 0: start the command that the registers below hold; refused while busy
        0x04 status   r   bit 0: busy, from start until the last beats of the command are taken
                          bit 1: done, from then until the next start
                          bits 6..4: how it ended, see seedbed.spec.ZO_TRAINER_STATUS
        0x08 steps    r   batches trained in the current or last command
        0x0C schedule w   an entry of the schedule: the epoch in bits 15..0; the fields of the
                          phase, 4 bits each, from bit 16 on; last in bit 31
        0x10 kind     rw  see seedbed.spec.ZO_TRAINER_KINDS
        0x14 samples, 0x18 epochs, 0x1C batch, 0x20 seed
                      rw  as in a command of the core
        0x24 exponent rw  as in a command of the core, sign-extended

    Those that are written are refused while busy; ``schedule`` also without all four byte strobes.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 6 of address
        AXI4-Lite, control registers
    s_axis_parameters_* : In(16 bits)
        AXI4-Stream, packets of network rows. A beat has two parameters.
    m_axis_parameters_* : Out(16 bits)
        AXI4-Stream, one packet per read job. A beat has two parameters.
    s_axis_samples_* : In
        AXI4-Stream, images, labels in tuser. One image a packet: ``ways`` bytes a beat.
    m_axis_results_* : Out(32 bits)
        AXI4-Stream, one packet per job, one beat per sample. From the lowest byte on the class, the
        error, and the status. The last beat is no sample's, and has the status.
    m_axis_log_* : Out(64 bits)
        AXI4-Stream, one packet per training job, one beat per batch. The seed in 4 bytes, then the
        sign and the fields of the phase in one byte each. The last beat is no batch's: it is 0, as
        no magnitude is.

    Latency: that of zo_trainer.
    Throughput: 1 sample at a time.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        word = 2 * octets(config.engine.word)
        label = label_shape(config).width
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | lite_members("s_axi_control", REGISTER_BITS)
            | axi_stream("s_axis_parameters", word, In)
            | axi_stream("s_axis_samples", 8 * config.ways, In, user=label)
            | axi_stream("m_axis_results", RESULT_BITS, Out)
            | axi_stream("m_axis_log", LOG_BITS, Out)
            | axi_stream("m_axis_parameters", word, Out)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.core = core = ZoTrainer(self.config)
        m.submodules.lite = lite = AxiLite(REGISTER_BITS)
        connect_lite(m, self, lite, "s_axi_control")
        parameters, samples, weights = core.i_parameters, core.i_samples, core.o_parameters
        size = octets(self.config.engine.word)
        for k, word in enumerate(parameters.payload.word):
            m.d.comb += word.eq(self.s_axis_parameters_tdata[k * size : (k + 1) * size])
        for k, pixel in enumerate(samples.payload.pixels):
            m.d.comb += pixel.eq(self.s_axis_samples_tdata[8 * k : 8 * k + 8])
        m.d.comb += [
            parameters.payload.last.eq(self.s_axis_parameters_tlast),
            parameters.valid.eq(self.s_axis_parameters_tvalid),
            self.s_axis_parameters_tready.eq(parameters.ready),
            samples.payload.label.eq(self.s_axis_samples_tuser),
            samples.payload.last.eq(self.s_axis_samples_tlast),
            samples.valid.eq(self.s_axis_samples_tvalid),
            self.s_axis_samples_tready.eq(samples.ready),
            self.m_axis_parameters_tdata.eq(in_bytes(*weights.payload.word)),
            self.m_axis_parameters_tlast.eq(weights.payload.last),
            self.m_axis_parameters_tvalid.eq(weights.valid),
            weights.ready.eq(self.m_axis_parameters_tready),
        ]
        result, entry = core.o.payload, core.o_log.payload
        sample = in_bytes(result.best, result.error)
        batch = in_bytes(entry.seed, entry.sign, *_fields(entry.phase))
        status = Cat(Const(0, len(sample)), core.o_status.payload.status)
        train = ZO_TRAINER_KINDS.index("train")
        ended = connect_results(m, self, core, sample, batch, status, train)
        self._registers(m, lite, core, ended)
        return m

    def _registers(self, m, lite, core, ended):
        """Hold the registers."""
        command, log = core.i, core.o_log
        kept = {name: Signal(field.shape, name=name) for name, field in command.payload.shape()}
        busy = Signal()
        done = Signal()
        pending = Signal()
        status = Signal.like(core.o_status.payload.status, name="status")
        steps = Signal.like(core.o_status.payload.steps, name="steps")
        m.d.comb += command.valid.eq(pending)
        m.d.comb += [command.payload[name].eq(register) for name, register in kept.items()]
        with m.If(command.ready):
            m.d.sync += pending.eq(0)
        with m.If(log.valid & log.ready):
            m.d.sync += steps.eq(steps + 1)
        with m.If(ended):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(core.o_status.payload.status)]
        # What is not named below is refused.
        m.d.comb += [lite.write_refused.eq(1), lite.read_refused.eq(1)]
        with m.Switch(lite.write_word):
            with m.Case(REGISTERS["control"] >> 2):
                word = strobed(lite, Const(0, 32))
                m.d.comb += lite.write_refused.eq(busy | word[1:].any())
                with m.If(lite.write & ~lite.write_refused & word[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0), steps.eq(0)]
            with m.Case(REGISTERS["schedule"] >> 2):
                self._schedule(m, lite, core, busy)
            for name, register in kept.items():
                with m.Case(REGISTERS[name] >> 2):
                    write_register(m, lite, register, busy)
        shown = kept | {"status": Cat(busy, done, Const(0, 2), status), "steps": steps}
        with m.Switch(lite.read_word):
            for name, value in shown.items():
                with m.Case(REGISTERS[name] >> 2):
                    m.d.comb += [lite.read_refused.eq(0), lite.read_data.eq(value)]

    def _schedule(self, m, lite, core, busy):
        """Hand a written entry to the core, which takes one a cycle between commands."""
        entry, word = core.i_schedule.payload, lite.write_data
        fields = [(entry.epoch, EPOCH_BITS), *((f, FIELD_BITS) for f in _fields(entry.phase))]
        unfit, at = [], 0
        for field, bits in fields:
            assert len(field) <= bits
            m.d.comb += field.eq(word[at : at + bits])
            unfit.append(word[at + len(field) : at + bits])
            at += bits
        unfit.append(word[at:LAST_BIT])
        m.d.comb += [
            entry.last.eq(word[LAST_BIT]),
            lite.write_refused.eq(busy | ~lite.write_strobe.all() | Cat(unfit).any()),
            core.i_schedule.valid.eq(lite.write & ~lite.write_refused),
        ]


def _fields(view: data.View) -> list[Value]:
    """Return the fields of a struct in order."""
    return [view[name] for name, _ in view.shape()]
