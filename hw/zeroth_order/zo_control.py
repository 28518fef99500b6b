"""Commands of the zeroth-order trainer: jobs, their samples, and how they end."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.sample_intake import SampleIntake, sample_layout
from seedbed.hw.engine.store_writes import put_layout
from seedbed.hw.zeroth_order.zo_schedule import ZoSchedule, entry_layout
from seedbed.hw.zeroth_order.zo_steps import EXPONENT, handover_layout
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["ZoControl", "job_layout", "status_layout"]

_TRAIN, _INFER, _READ = map(ZO_TRAINER_KINDS.index, ("train", "infer", "read"))
_OK, _COMMAND, _SAMPLE, _PARAMETERS, _SCHEDULE = range(len(ZO_TRAINER_STATUS))


def job_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of a command of :class:`~seedbed.hw.zeroth_order.zo_trainer.ZoTrainer`."""
    fields = {"kind": 2, "samples": 32, "epochs": 16, "batch": 13, "seed": 32}
    return data.StructLayout(fields | {"exponent": EXPONENT})


def status_layout() -> data.StructLayout:
    """Return the layout of how a command ended: ``kind``, ``status``, ``steps`` of training."""
    return data.StructLayout({"kind": 2, "status": 3, "steps": 32})


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
        m.submodules.intake = self._intake = intake = SampleIntake(config)
        m.submodules.schedule = self._schedule = schedule = ZoSchedule(config)
        wiring.connect(m, wiring.flipped(self.i_samples), intake.i)
        wiring.connect(m, wiring.flipped(self.i_schedule), schedule.i)
        wiring.connect(m, intake.o, wiring.flipped(self.o_put))
        self._job = Signal(job_layout(config), reset_less=True)
        self._kind = Signal(2)
        self._status = Signal(3)
        # Samples left in the epoch, epochs left, and samples of the batch so far.
        self._left = Signal(32)
        self._epochs = Signal(16)
        self._batch = Signal(13)
        self._seed = Signal(32)
        self._first_step = Signal(32)
        self._buffer_select = Signal()
        self._discard = Signal()
        m.d.comb += [
            intake.buffer_select.eq(self._buffer_select),
            # What comes with the next command, or after it, is that command's.
            intake.discard.eq(self._discard & ~(self.idle & self.i.valid)),
            self.o_status.payload.kind.eq(self._kind),
            self.o_status.payload.status.eq(self._status),
            self.o_status.payload.steps.eq(self.steps - self._first_step),
        ]
        with m.FSM() as machine:
            m.d.comb += [
                self.idle.eq(machine.ongoing("COMMAND")),
                schedule.accepts.eq(self.idle),
            ]
            self._command_states(m)
            self._sample_states(m)
            with m.State("READ"), m.If(~self.reading):
                m.next = "END"
            with m.State("DRAIN"), m.If(self.o_sample.ready):
                m.next = "END"
            with m.State("END"):
                m.d.comb += self.o_status.valid.eq(1)
                with m.If(self.o_status.ready):
                    m.next = "COMMAND"
        return m

    def _fail(self, m, status):
        """End the command; samples are discarded until the next one."""
        m.d.sync += [self._status.eq(status), self._discard.eq(1)]
        m.next = "DRAIN"

    def _command_states(self, m):
        """Take a command, check it, and begin."""
        job, schedule = self._job, self._schedule
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.hold)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += [
                    job.eq(self.i.payload),
                    self._kind.eq(self.i.payload.kind),
                    self._status.eq(_OK),
                    self._left.eq(self.i.payload.samples),
                    self._epochs.eq(self.i.payload.epochs),
                    self._seed.eq(self.i.payload.seed),
                    self._batch.eq(0),
                    self._discard.eq(0),
                    self._first_step.eq(self.steps),
                ]
                m.d.comb += schedule.start.eq(1)
                m.next = "BEGIN"
        with m.State("BEGIN"), m.Switch(self._kind):
            with m.Case(_TRAIN, _INFER):
                m.next = "IMAGE"
                trains = self._kind == _TRAIN
                no_samples = (job.samples == 0) | (job.epochs == 0)
                bad_batch = (job.batch == 0) | (job.batch > self.config.batch)
                with m.If(no_samples | (trains & bad_batch)):
                    self._fail(m, _COMMAND)
                with m.Elif(~self.whole):
                    self._fail(m, _PARAMETERS)
                with m.Elif(trains & ~schedule.valid):
                    self._fail(m, _SCHEDULE)
            with m.Case(_READ):
                m.d.comb += self.read.eq(1)
                m.next = "READ"
                with m.If(~self.whole):
                    m.d.comb += self.read.eq(0)
                    self._fail(m, _PARAMETERS)
            with m.Default():
                self._fail(m, _COMMAND)

    def _sample_states(self, m):
        """Take an image, and hand it over when the one before is done with."""
        job, intake, sample = self._job, self._intake, self.o_sample
        last = (self._batch == job.batch - 1) | (self._left == 1)
        m.d.comb += [
            sample.payload.train.eq(self._kind == _TRAIN),
            sample.payload.label.eq(intake.label),
            sample.payload.first.eq(self._batch == 0),
            sample.payload.last.eq(last),
            sample.payload.seed.eq(self._seed),
            sample.payload.phase.eq(self._schedule.phase),
            sample.payload.exponent.eq(job.exponent),
            sample.payload.buffer_select.eq(self._buffer_select),
        ]
        with m.State("IMAGE"):
            m.d.comb += intake.enable.eq(1)
            with m.If(intake.length_error):
                self._fail(m, _SAMPLE)
            with m.If(intake.done):
                m.next = "HANDOVER"
        with m.State("HANDOVER"):
            m.d.comb += sample.valid.eq(1)
            with m.If(sample.ready):
                m.d.sync += [
                    self._buffer_select.eq(~self._buffer_select),
                    self._left.eq(self._left - 1),
                    self._batch.eq(Mux(last, 0, self._batch + 1)),
                    self._seed.eq(self._seed + last),
                ]
                m.next = "IMAGE"
                with m.If(self._left == 1):
                    m.d.sync += [self._left.eq(job.samples), self._epochs.eq(self._epochs - 1)]
                    m.d.comb += self._schedule.next.eq(1)
                    with m.If(self._epochs == 1):
                        m.next = "DRAIN"
