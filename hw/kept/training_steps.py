"""The steps of a training: what the engine is asked for, sample by sample, and what changes."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lfsr import Lfsr
from seedbed.hw.kept.sample_reader import sample_beats
from seedbed.hw.kept.stream_trainer_layouts import (
    CHANGE_BITS,
    job_layout,
    log_layout,
    status_layout,
)
from seedbed.hw.parts.codes import codes
from seedbed.hw.stream import stream_layouts
from seedbed.spec.sparse_trainer import RATE_BITS
from seedbed.spec.stream_trainer import (
    STREAM_TRAINER_KINDS,
    STREAM_TRAINER_STATUS,
    StreamTrainerConfig,
)

__all__ = ["TrainingSteps"]

_KINDS, _STATUS = codes(STREAM_TRAINER_KINDS), codes(STREAM_TRAINER_STATUS)
#: What the engine is doing: a command of the host's; both passes; the change after them; the
#: perturbation is taken back.
_PHASES = ("given", "plus", "minus", "change", "restore")
_IS = codes(_PHASES)


class TrainingSteps(wiring.Component):
    """Takes commands, and has the engine do them: those of the engine, and each step of a training.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamTrainerConfig`.

    Members
    -------
    i, o_log, o_status : In(stream), Out(stream), Out(stream)
        As of :class:`~seedbed.hw.kept.stream_trainer.StreamTrainer`.
    o_call, i_done : Out(stream), In(stream)
        Commands of the engine, and how they ended.
    job : Out
        The command that runs.
    trains, silent : Out(1)
        The engine runs samples; results are not for the host.
    fetch, address : Out
        A pulse: the sample there is to be read.
    beats, fetched, failed, settled, stuck : In
        Of it, see :class:`~seedbed.hw.kept.sample_reader.SampleReader`.
    give : Out(1)
        A pulse: the sample is to be given to the engine.
    fetching : Out(1)
        The memory is the reader's.
    clear : Out(1)
        A pulse: a training begins.
    differentiate, rate : Out
        A pulse: the losses of both passes have come; the factor of their difference.
    differentiated, gain : In
        See :class:`~seedbed.hw.kept.projected_gradient.ProjectedGradient`.
    """

    def __init__(self, config: StreamTrainerConfig):
        self.config = config
        engine = config.engine
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "o_log": Out(stream.Signature(log_layout(config))),
                "o_status": Out(stream.Signature(status_layout())),
                "o_call": Out(stream.Signature(stream_layouts.job_layout(engine))),
                "i_done": In(stream.Signature(stream_layouts.status_layout(engine))),
                "job": Out(job_layout(config)),
                "trains": Out(1),
                "silent": Out(1),
                "fetch": Out(1),
                "address": Out(config.address_bits),
                "beats": In(config.address_bits),
                "fetched": In(1),
                "failed": In(1),
                "settled": In(1),
                "stuck": In(1),
                "give": Out(1),
                "fetching": Out(1),
                "clear": Out(1),
                "differentiate": Out(1),
                "rate": Out(RATE_BITS),
                "differentiated": In(1),
                "gain": In(signed(CHANGE_BITS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.seeds = self._seeds = Lfsr(config.seeds)
        self._phase = Signal(range(len(_PHASES)), name="phase")
        # The engine runs a sample, and does not change weights.
        self._runs = Signal(name="runs")
        self._delta = Signal(signed(CHANGE_BITS), reset_less=True, name="delta")
        # Where a batch begins; its samples, and those that are left in this pass; samples left in
        # the epoch, and epochs.
        self._base = Signal.like(self.address, reset_less=True, name="base")
        self._size = Signal.like(self.job.batch, reset_less=True, name="size")
        self._left = Signal.like(self._size, reset_less=True, name="left")
        self._rest = Signal.like(self.job.samples, reset_less=True, name="rest")
        self._epochs = Signal.like(self.job.epochs, reset_less=True, name="epochs")
        self._aborted = Signal(name="aborted")
        # Beats of a sample had an error.
        self._lost = Signal(name="lost")
        m.d.comb += [
            self.trains.eq((self._phase == _IS["plus"]) | (self._phase == _IS["minus"])),
            self.silent.eq(self._phase == _IS["plus"]),
            self._seeds.i_seed.valid.eq(self.clear),
            self.o_log.payload.seed.eq(self._seeds.o.payload),
            self._seeds.i_seed.payload.eq(self.i.payload.seed),
        ]
        self._call(m)
        self._sequence(m)
        return m

    def _call(self, m) -> None:
        """Name what the engine is asked for."""
        job, call = self.job, self.o_call.payload
        given = self._phase == _IS["given"]
        kind = Mux(self._runs, _KINDS["run"], _KINDS["tune"])
        m.d.comb += [
            call.kind.eq(Mux(given, job.kind, kind)),
            call.address.eq(job.address),
            call.start.eq(~given | job.start),
            call.first.eq(job.first),
            call.end.eq(job.end),
            call.seed.eq(Mux(given, job.seed, self._seeds.o.payload)),
            call.delta.eq(Mux(given, job.delta, self._delta)),
        ]

    def _refused(self) -> Value:
        """Return whether a training that is offered cannot be run."""
        config, job = self.config, self.i.payload
        none = (job.samples == 0) | (job.epochs == 0) | (job.head == 0)
        if config.inputs:
            none |= job.vectors == 0
        beats = sample_beats(config, job.head, job.vectors if config.inputs else 0)
        half = 1 << (CHANGE_BITS - 1)
        seed = job.seed[: config.seeds.width]
        batch = (job.batch == 0) | (job.batch > config.batch)
        # Each change of a step fits.
        size = (job.delta <= 0) | (job.delta > half // 2) | (job.delta + job.most >= half)
        return none | batch | size | (beats > config.sample) | (seed == 0)

    def _sequence(self, m) -> None:
        out, job = self.o_status, self.job
        m.d.comb += out.payload.kind.eq(job.kind)
        with m.FSM() as states:
            idle = states.ongoing("IDLE")
            with m.State("IDLE"):
                self._take(m)
            with m.State("CALL"):
                m.d.comb += self.o_call.valid.eq(1)
                with m.If(self.o_call.ready):
                    m.d.comb += self.give.eq(self._runs)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.i_done.ready.eq(1)
                with m.If(self.i_done.valid):
                    self._answered(m)
            with m.State("NEXT"):
                with m.If(self._aborted):
                    self._restore(m, _STATUS["aborted"])
                with m.Else():
                    m.d.comb += self.fetch.eq(1)
                    m.d.sync += self.fetching.eq(1)
                    m.next = "FETCH"
            with m.State("FETCH"):
                self._fetched(m)
            self._step(m)
            with m.State("STATUS"):
                m.d.comb += out.valid.eq(1)
                with m.If(out.ready):
                    m.next = "IDLE"
        # A command of the reader's that is not taken stays, and so does the reader.
        with m.If(self.failed):
            m.d.sync += self._lost.eq(1)
        with m.If(self.fetched | (self._lost & self.settled)):
            m.d.sync += [self.fetching.eq(0), self._lost.eq(0)]
        # While a training runs, only an abort is taken.
        aborts = self.i.valid & (self.i.payload.kind == _KINDS["abort"])
        with m.If(~idle & (job.kind == _KINDS["train"]) & aborts):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += self._aborted.eq(1)

    def _take(self, m) -> None:
        """Take a command."""
        given, out = self.i.payload, self.o_status.payload
        m.d.comb += self.i.ready.eq(1)
        with m.If(self.i.valid):
            m.d.sync += [
                self.job.eq(given), out.steps.eq(0), self._aborted.eq(0), self._runs.eq(0),
                self._phase.eq(_IS["given"]), out.status.eq(_STATUS["ok"]),
            ]  # fmt: skip
            m.next = "CALL"
            with m.If(given.kind == _KINDS["abort"]):
                m.next = "STATUS"
            with m.Elif(given.kind == _KINDS["train"]):
                m.d.comb += [self.clear.eq(1), self._seeds.o.ready.eq(1)]
                m.d.sync += [
                    self._base.eq(given.address), self._rest.eq(given.samples),
                    self._epochs.eq(given.epochs), self.rate.eq(given.rate),
                ]  # fmt: skip
                m.next = "BATCH"
                with m.If(self._refused()):
                    m.d.sync += out.status.eq(_STATUS["command"])
                    m.next = "STATUS"

    def _begin(self, m, phase: str, delta) -> None:
        """Have weights changed for a phase."""
        m.d.sync += [self._phase.eq(_IS[phase]), self._delta.eq(delta), self._runs.eq(0)]
        m.next = "CALL"

    def _restore(self, m, status) -> None:
        """End the training, after the perturbation has been taken back."""
        plus = self._phase == _IS["plus"]
        m.d.sync += self.o_status.payload.status.eq(status)
        self._begin(m, "restore", Mux(plus, -self.job.delta, self.job.delta))

    def _answered(self, m) -> None:
        """Go on when the engine has done what it was asked for."""
        out, status = self.o_status.payload, self.i_done.payload.status
        with m.If(status != _STATUS["ok"]):
            with m.If(self._runs):
                self._restore(m, status)
            with m.Else():
                # The status is that of the first error.
                with m.If(self._phase != _IS["restore"]):
                    m.d.sync += out.status.eq(status)
                m.next = "STATUS"
        with m.Elif(self._runs):
            m.d.sync += [self.address.eq(self.address + self.beats), self._left.eq(self._left - 1)]
            m.next = "NEXT"
            with m.If(self._left == 1):
                m.next = "DIFFERENCE"
                with m.If(self._phase == _IS["plus"]):
                    self._begin(m, "minus", -(self.job.delta << 1))
        with m.Elif(self.trains):
            m.d.sync += [self.address.eq(self._base), self._left.eq(self._size)]
            m.next = "NEXT"
        with m.Elif(self._phase == _IS["change"]):
            m.d.comb += self._seeds.o.ready.eq(1)
            m.next = "STEP"
        with m.Else():
            m.next = "STATUS"

    def _fetched(self, m) -> None:
        """Wait for a sample; after an error, until the memory can be the engine's again."""
        with m.If(self.fetched):
            m.d.sync += self._runs.eq(1)
            m.next = "CALL"
        with m.Elif(self._lost & self.settled):
            self._restore(m, _STATUS["memory"])
        with m.Elif(self._lost & self.stuck):
            m.d.sync += self.o_status.payload.status.eq(_STATUS["memory"])
            m.next = "STATUS"

    def _step(self, m) -> None:
        """From the losses of both passes to the change, and to the next batch."""
        job, log = self.job, self.o_log
        most = Signal(signed(CHANGE_BITS))
        change = Signal(signed(CHANGE_BITS), reset_less=True)
        ends = Signal()
        less = Signal(signed(len(self.rate) + 1))
        m.d.comb += [most.eq(job.most), log.payload.change.eq(change)]
        with m.State("BATCH"):
            whole = self._rest < job.batch
            m.d.sync += self._size.eq(Mux(whole, self._rest, job.batch))
            self._begin(m, "plus", job.delta)
        with m.State("DIFFERENCE"):
            m.d.comb += self.differentiate.eq(1)
            m.next = "GAIN"
        with m.State("GAIN"), m.If(self.differentiated):
            low, high = self.gain < -most, self.gain > most
            m.d.sync += change.eq(Mux(low, -most, Mux(high, most, self.gain)))
            m.next = "LOG"
        with m.State("LOG"):
            m.d.comb += log.valid.eq(1)
            with m.If(log.ready):
                self._begin(m, "change", job.delta - change)
        with m.State("STEP"):
            # The rest of this epoch, or the next one.
            m.d.comb += [ends.eq(self._rest == self._size), less.eq(self.rate - job.decay)]
            steps = self.o_status.payload.steps
            m.d.sync += [
                steps.eq(steps + 1), self._base.eq(self.address),
                self._rest.eq(self._rest - self._size),
            ]  # fmt: skip
            m.next = "BATCH"
            with m.If(ends):
                m.d.sync += [
                    self._base.eq(job.address), self._rest.eq(job.samples),
                    self._epochs.eq(self._epochs - 1), self.rate.eq(Mux(less < 0, 0, less)),
                ]  # fmt: skip
            with m.If(ends & (self._epochs == 1)):
                m.next = "STATUS"
            with m.Elif(self._aborted):
                m.d.sync += self.o_status.payload.status.eq(_STATUS["aborted"])
                m.next = "STATUS"
