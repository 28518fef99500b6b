"""The zeroth-order trainer with AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_stream, octets
from seedbed.hw.axi.registers import RegisterBlock, register_members, status_word
from seedbed.hw.axi.trainer_axi import connect_results, in_bytes
from seedbed.hw.engine.sample_intake import label_shape
from seedbed.hw.parts.codes import codes
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer
from seedbed.spec.axi_registers import AXI_REGISTERS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZoTrainerConfig

__all__ = ["ZoTrainerAxi"]

#: In an entry of the schedule: bits of the epoch, of each field of the phase, and ``last``.
EPOCH_BITS, FIELD_BITS, LAST_BIT = 16, 4, 31
#: Bits of a beat of results, and of the log.
RESULT_BITS, LOG_BITS = 32, 64


class ZoTrainerAxi(wiring.Component):
    """:class:`~seedbed.hw.zeroth_order.zo_trainer.ZoTrainer` with AXI's names, clock and reset.

    The registers are ``zo_trainer`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing. So are all writes while busy, and a write of a part of ``schedule``.

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
        sign, the fields of the phase, and with ``levels`` the level in one byte each. The last beat
        is no batch's: it is 0, as no magnitude is.

    Raises ``ValueError`` for levels and a tail: the log's beat has no room for the fields of both.

    Latency: that of zo_trainer.
    Throughput: 1 sample at a time.
    """

    def __init__(self, config: ZoTrainerConfig):
        if config.levels > 1 and config.tail:
            raise ValueError(
                f"levels must be 1 with AXI ports and tail={config.tail}, not {config.levels}"
            )
        self.config = config
        word = 2 * octets(config.engine.word)
        label = label_shape(config).width
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(AXI_REGISTERS["zo_trainer"])
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
        block = RegisterBlock(m, self, AXI_REGISTERS["zo_trainer"])
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
        level = [entry.level] if self.config.levels > 1 else []
        batch = in_bytes(entry.seed, entry.sign, *_fields(entry.phase), *level)
        status = Cat(Const(0, len(sample)), core.o_status.payload.status)
        train = codes(ZO_TRAINER_KINDS)["train"]
        ended = connect_results(m, self, core, sample, batch, status, train)
        self._registers(m, block, core, ended)
        return m

    def _registers(self, m, block, core, ended):
        """Hold the registers."""
        command, log, lite = core.i, core.o_log, block.lite
        busy = Signal()
        done = Signal()
        pending = Signal()
        status = Signal.like(core.o_status.payload.status, name="status")
        steps = Signal.like(core.o_status.payload.steps, name="steps")
        kept = block.command(command, pending)
        with m.If(command.ready):
            m.d.sync += pending.eq(0)
        with m.If(log.valid & log.ready):
            m.d.sync += steps.eq(steps + 1)
        with m.If(ended):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(core.o_status.payload.status)]
        with block.writes():
            with block.write("control"):
                word = block.strobed(Const(0, 32))
                m.d.comb += lite.write_refused.eq(busy | word[1:].any())
                with m.If(lite.write & ~lite.write_refused & word[0]):
                    m.d.sync += [pending.eq(1), busy.eq(1), done.eq(0), steps.eq(0)]
            with block.write("schedule"):
                self._schedule(m, lite, core, busy)
            block.hold(kept, busy)
        block.show(kept | {"status": status_word(busy, done, status), "steps": steps})

    def _schedule(self, m, lite, core, busy):
        """Hand a written entry to the core, which takes one a cycle between commands."""
        entry, word = core.i_schedule.payload, lite.write_data
        fields = [(entry.epoch, EPOCH_BITS), *((f, FIELD_BITS) for f in _fields(entry.phase))]
        overflow, at = [], 0
        for field, bits in fields:
            assert len(field) <= bits
            m.d.comb += field.eq(word[at : at + bits])
            overflow.append(word[at + len(field) : at + bits])
            at += bits
        overflow.append(word[at:LAST_BIT])
        m.d.comb += [
            entry.last.eq(word[LAST_BIT]),
            lite.write_refused.eq(busy | ~lite.write_strobe.all() | Cat(overflow).any()),
            core.i_schedule.valid.eq(lite.write & ~lite.write_refused),
        ]


def _fields(view: data.View) -> list[Value]:
    """Return the fields of a struct in order."""
    return [view[name] for name, _ in view.shape()]
