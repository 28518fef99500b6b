"""Commands of the zeroth-order trainer: jobs, their samples, and how they end."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.sample_intake import SampleIntake, sample_layout
from seedbed.hw.engine.store_writes import put_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.job_counter import JobCounter
from seedbed.hw.zeroth_order.zo_schedule import ZoSchedule, entry_layout
from seedbed.hw.zeroth_order.zo_steps import EXPONENT, handover_layout
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["ZoControl", "job_layout", "status_layout"]

_KINDS, _STATUS = codes(ZO_TRAINER_KINDS), codes(ZO_TRAINER_STATUS)


def job_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of a command of :class:`~seedbed.hw.zeroth_order.zo_trainer.ZoTrainer`."""
    fields = {"kind": 2, "samples": 32, "epochs": 16, "batch": 13, "seed": 32}
    return data.StructLayout(fields | {"exponent": EXPONENT})


def status_layout() -> data.StructLayout:
    """Return the layout of how a command ended: ``kind``, ``status``, ``steps`` of training."""
    return data.StructLayout({"kind": 2, "status": 3, "steps": 32})


class _Job:
    """Signals of the command that runs, which its states share."""

    def __init__(self, config: ZoTrainerConfig):
        self.command = Signal(job_layout(config), reset_less=True)
        # Reset, because the kind without a command is seen outside.
        self.kind = Signal(2)
        self.status = Signal(3)
        self.counter = JobCounter(self.command)
        self.seed = Signal(32)
        self.first_step = Signal(32)
        self.buffer_select = Signal()
        self.discard = Signal()
        # The batch is the first one: only with levels.
        self.fresh = Signal()


class ZoControl(wiring.Component):
    """Takes commands and images, and hands samples over to the passes.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    i : In(stream of :func:`job_layout`)
    i_schedule : In(stream of :func:`~seedbed.hw.zeroth_order.zo_schedule.entry_layout`)
    i_samples : In(stream of :func:`~seedbed.hw.engine.sample_intake.sample_layout`)
    o_put : Out(stream of :func:`~seedbed.hw.engine.store_writes.put_layout`)
    o_sample : Out(stream of :func:`~seedbed.hw.zeroth_order.zo_steps.handover_layout`)
        Ready when no sample is in a pass.
    o_status : Out(stream of :func:`status_layout`)
    idle : Out(1)
        No command runs: parameters may come.
    hold : In(1)
        No command is to be taken: a packet of parameters has begun.
    whole : In(1)
        There are parameters: the last packet was whole, and no reset ended an update.
    read, reading : Out(1), In(1)
        A pulse that begins the read-out; whether it runs.
    steps : In(32)
        Updates so far.
    """

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "i_schedule": In(stream.Signature(entry_layout(config))),
                "i_samples": In(stream.Signature(sample_layout(config))),
                "o_put": Out(stream.Signature(put_layout(config.engine))),
                "o_sample": Out(stream.Signature(handover_layout(config))),
                "o_status": Out(stream.Signature(status_layout())),
                "idle": Out(1),
                "hold": In(1),
                "whole": In(1),
                "read": Out(1),
                "reading": In(1),
                "steps": In(32),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.intake = intake = SampleIntake(config)
        m.submodules.schedule = schedule = ZoSchedule(config)
        wiring.connect(m, wiring.flipped(self.i_samples), intake.i)
        wiring.connect(m, wiring.flipped(self.i_schedule), schedule.i)
        wiring.connect(m, intake.o, wiring.flipped(self.o_put))
        job = _Job(config)
        m.d.comb += [
            intake.buffer_select.eq(job.buffer_select),
            # What comes with the next command, or after it, is that command's.
            intake.discard.eq(job.discard & ~(self.idle & self.i.valid)),
            self.o_status.payload.kind.eq(job.kind),
            self.o_status.payload.status.eq(job.status),
            self.o_status.payload.steps.eq(self.steps - job.first_step),
        ]
        with m.FSM() as machine:
            m.d.comb += [
                self.idle.eq(machine.ongoing("COMMAND")),
                schedule.accepts.eq(self.idle),
            ]
            self._command_states(m, job, schedule)
            self._sample_states(m, job, intake, schedule)
            with m.State("READ"), m.If(~self.reading):
                m.next = "END"
            with m.State("DRAIN"), m.If(self.o_sample.ready):
                m.next = "END"
            with m.State("END"):
                m.d.comb += self.o_status.valid.eq(1)
                with m.If(self.o_status.ready):
                    m.next = "COMMAND"
        return m

    def _fail(self, m, job, status: str):
        """End the command; samples are discarded until the next one."""
        m.d.sync += [job.status.eq(_STATUS[status]), job.discard.eq(1)]
        m.next = "DRAIN"

    def _command_states(self, m, job, schedule):
        """Take a command, check it, and begin."""
        command = self.i.payload
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.hold)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    job.command.eq(command),
                    job.kind.eq(command.kind),
                    job.status.eq(_STATUS["ok"]),
                    job.seed.eq(command.seed),
                    job.discard.eq(0),
                    job.first_step.eq(self.steps),
                ]
                if self.config.levels > 1:
                    m.d.sync += job.fresh.eq(1)
                job.counter.begin(m, command)
                m.d.comb += schedule.start.eq(1)
                m.next = "BEGIN"
        with m.State("BEGIN"), m.Switch(job.kind):
            with m.Case(_KINDS["train"], _KINDS["infer"]):
                m.next = "IMAGE"
                trains = job.kind == _KINDS["train"]
                with m.If(job.counter.refused(trains, self.config.batch)):
                    self._fail(m, job, "command")
                with m.Elif(~self.whole):
                    self._fail(m, job, "parameters")
                with m.Elif(trains & ~schedule.valid):
                    self._fail(m, job, "schedule")
            with m.Case(_KINDS["read"]):
                m.d.comb += self.read.eq(1)
                m.next = "READ"
                with m.If(~self.whole):
                    m.d.comb += self.read.eq(0)
                    self._fail(m, job, "parameters")
            with m.Default():
                self._fail(m, job, "command")

    def _sample_states(self, m, job, intake, schedule):
        """Take an image, and hand it over when the one before is done with."""
        sample, counter = self.o_sample, job.counter
        m.d.comb += [
            sample.payload.train.eq(job.kind == _KINDS["train"]),
            sample.payload.label.eq(intake.label),
            sample.payload.first.eq(counter.batch_begins),
            sample.payload.last.eq(counter.batch_ends),
            sample.payload.seed.eq(job.seed),
            sample.payload.phase.eq(schedule.phase),
            sample.payload.exponent.eq(job.command.exponent),
            sample.payload.buffer_select.eq(job.buffer_select),
        ]
        if self.config.levels > 1:
            m.d.comb += sample.payload.fresh.eq(job.fresh)
        with m.State("IMAGE"):
            m.d.comb += intake.enable.eq(1)
            with m.If(intake.length_error):
                self._fail(m, job, "sample")
            with m.If(intake.done):
                m.next = "HANDOVER"
        with m.State("HANDOVER"):
            m.d.comb += sample.valid.eq(1)
            with m.If(sample.ready):
                m.d.sync += [
                    job.buffer_select.eq(~job.buffer_select),
                    job.seed.eq(job.seed + counter.batch_ends),
                ]
                if self.config.levels > 1:
                    m.d.sync += job.fresh.eq(job.fresh & ~counter.batch_ends)
                m.next = "IMAGE"
                with counter.step(m):
                    m.d.comb += schedule.next.eq(1)
                    with m.If(counter.last_epoch):
                        m.next = "DRAIN"
