"""Commands of the trainer of kept weights: jobs, their steps, and how they end."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.job_counter import JobCounter
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS, SPARSE_MAC_STATUS
from seedbed.spec.sparse_trainer import (
    RATE_BITS,
    RATE_SHIFT_BITS,
    SPARSE_TRAINER_KINDS,
    SPARSE_TRAINER_STATUS,
)

__all__ = ["SparseTrainerControl"]

_KINDS, _STATUS = codes(SPARSE_TRAINER_KINDS), codes(SPARSE_TRAINER_STATUS)
_PASSES, _PASS_STATUS = codes(SPARSE_MAC_KINDS), codes(SPARSE_MAC_STATUS)


class _Job:
    """Signals of the command that runs, which its states share."""

    def __init__(self, config: SparseTrainerConfig):
        self.command = Signal(job_layout(config), reset_less=True)
        self.counter = JobCounter(self.command)
        # All samples have been used; the entries are whole; the job is to end.
        self.over = Signal()
        self.loaded = Signal()
        self.aborted = Signal()
        self.memory_error = Signal()
        self.failed = Signal()


class SparseTrainerControl(wiring.Component):
    """Takes commands, and asks for passes: of each sample, and over the entries.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    i, o_status, o_log : In(stream), Out(stream), Out(stream)
        Of :func:`job_layout`, :func:`status_layout` and :func:`log_layout`.
    idle : Out(1)
        No command runs, and none comes: a table of layers may begin.
    table_busy, table_valid, table_begins, layers : In
        See :class:`~seedbed.hw.kept.layer_table.LayerTable`.
    begin, want, release, discard : Out(1)
        A command begins; a sample may begin; one is not needed any more; samples and entries are
        discarded.
    full, bad : In(1)
        See :class:`~seedbed.hw.kept.sample_banks.SampleBanks`.
    start, pass_kind, perturb, negative, frozen, seed : Out
        A pulse: a pass begins; and of which kind it is.
    done, failed, status, settled : In
        See :class:`~seedbed.hw.kept.trainer_passes.TrainerPasses`.
    results : In(1)
        A result waits for its transfer.
    differentiate, rate, shift : Out
        A pulse: compute the gain.
    differentiated, gain, saturated : In
    fault, drain, drained : In(1), Out(1), In(1)
        Of the memory, see :class:`~seedbed.hw.kept.weight_reader.WeightReader`.
    restart : Out(1)
        A pulse: all passes are reset.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        inputs = (
            "table_busy", "table_valid", "table_begins", "full", "bad", "done", "failed",
            "settled", "results", "differentiated", "saturated", "fault", "drained",
        )  # fmt: skip
        outputs = (
            "idle", "begin", "want", "release", "discard", "start", "perturb", "negative",
            "frozen", "differentiate", "drain", "restart",
        )  # fmt: skip
        super().__init__(
            {
                "i": In(stream.Signature(job_layout(config))),
                "o_status": Out(stream.Signature(status_layout())),
                "o_log": Out(stream.Signature(log_layout(config))),
                "layers": In(range(config.layers + 1)),
                "status": In(3),
                "gain": In(signed(config.gain_width)),
                "pass_kind": Out(2),
                "seed": Out(SEED_BITS),
                "rate": Out(RATE_BITS),
                "shift": Out(RATE_SHIFT_BITS),
            }
            | {name: In(1) for name in inputs}
            | {name: Out(1) for name in outputs}
        )

    def elaborate(self, platform):
        m = Module()
        job = _Job(self.config)
        answer, log = self.o_status.payload, self.o_log.payload
        m.d.comb += [
            log.seed.eq(self.seed),
            log.gain.eq(self.gain),
            self.shift.eq(job.command.shift),
            answer.kind.eq(job.command.kind),
            self.frozen.eq(job.command.kind == _KINDS["read"]),
        ]
        with m.If(self.table_begins):
            m.d.sync += job.loaded.eq(0)
        with m.If(self.fault):
            m.d.sync += job.memory_error.eq(1)
        with m.FSM() as machine:
            self._command_states(m, job)
            self._sample_states(m, job)
            self._step_states(m, job)
            self._end_states(m, job)
        idle, aborts = machine.ongoing("COMMAND"), self.i.payload.kind == _KINDS["abort"]
        # What comes with the next command, or after it, is that command's.
        m.d.comb += [
            self.discard.eq(job.failed & ~(self.i.valid & ~aborts)),
            self.idle.eq(idle & ~self.i.valid),
        ]
        # Of a running command, only an abort is accepted.
        with m.If(~idle & aborts):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += job.aborted.eq(1)
        with m.If(machine.ongoing("PASS")):
            m.d.comb += self.want.eq(~(job.counter.epoch_ends & job.counter.last_epoch))
        return m

    def _fail(self, m, job, status: str):
        """End the command; samples and entries are discarded until the next one."""
        answer = self.o_status.payload
        m.d.sync += [answer.status.eq(_STATUS[status]), job.failed.eq(1), self.start.eq(0)]
        m.next = "FAIL"

    def _stops(self, m, job, *, early: bool = True):
        """End the command at an error of a pass or, if ``early``, of the memory or at an abort."""
        with m.If(self.failed):
            m.d.sync += job.loaded.eq(0)
            self._fail(m, job, "layers")
            for name in ("order", "repeated", "range"):
                with m.If(self.status == _PASS_STATUS[name]):
                    m.d.sync += self.o_status.payload.status.eq(_STATUS[name])
        if early:
            with m.If(job.memory_error):
                self._fail(m, job, "memory")
            with m.Elif(job.aborted):
                self._fail(m, job, "aborted")

    def _command_states(self, m, job):
        """Take a command, check it, and begin."""
        command, answer = self.i.payload, self.o_status.payload
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.table_busy)
            m.d.sync += [
                job.aborted.eq(0),
                job.command.eq(command),
                self.seed.eq(command.seed),
                self.rate.eq(command.rate),
            ]
            job.counter.begin(m, command)
            with m.If(self.i.valid & self.i.ready):
                m.d.comb += self.begin.eq(1)
                m.d.sync += [
                    answer.status.eq(_STATUS["ok"]),
                    answer.steps.eq(0),
                    answer.saturated.eq(0),
                    job.over.eq(0),
                    job.failed.eq(0),
                    self.negative.eq(0),
                ]
                m.next = "BEGIN"
        with m.State("BEGIN"):
            kind = job.command.kind
            trains = kind == _KINDS["train"]
            refused = job.counter.refused(trains, self.config.batch)
            m.d.sync += [self.perturb.eq(trains), self.pass_kind.eq(_PASSES["product"])]
            with m.If(job.memory_error):
                self._fail(m, job, "memory")
            with m.Elif(kind == _KINDS["abort"]):
                m.next = "END"
            with m.Elif(kind > _KINDS["abort"]):
                self._fail(m, job, "command")
            with m.Elif((kind <= _KINDS["infer"]) & refused):
                self._fail(m, job, "command")
            with m.Elif(~self.table_valid):
                self._fail(m, job, "layers")
            with m.Elif(kind == _KINDS["load"]):
                m.d.sync += [job.loaded.eq(0), self.pass_kind.eq(_PASSES["load"])]
                m.next = "LOAD"
                m.d.sync += self.start.eq(1)
            with m.Elif(~job.loaded):
                self._fail(m, job, "entries")
            with m.Elif(kind == _KINDS["read"]):
                m.d.sync += self.pass_kind.eq(_PASSES["update"])
                m.next = "READ"
                m.d.sync += self.start.eq(1)
            with m.Else():
                m.next = "SAMPLE"

    def _sample_states(self, m, job):
        """Wait for a sample, and pass it once, or twice in training."""
        # A pass begins in the next cycle, with the kind that is set in this one.
        m.d.sync += self.start.eq(0)
        with m.State("SAMPLE"):
            m.d.comb += self.want.eq(1)
            with m.If(self.full):
                m.next = "PASS"
                m.d.sync += self.start.eq(1)
                with m.If(self.bad):
                    self._fail(m, job, "sample")
            self._stops(m, job)
        with m.State("PASS"):
            with m.If(self.done):
                with m.If(self.perturb & ~self.negative):
                    m.d.sync += self.negative.eq(1)
                    m.d.sync += self.start.eq(1)
                with m.Else():
                    m.d.sync += self.negative.eq(0)
                    m.d.comb += self.release.eq(1)
                    self._count(m, job)
            self._stops(m, job)

    def _count(self, m, job):
        """Count a sample, and say what is next."""
        counter = job.counter
        m.next = "SAMPLE"
        with counter.step(m), m.If(counter.last_epoch):
            m.d.sync += job.over.eq(1)
            m.next = "END"
        with m.If(self.perturb & counter.batch_ends):
            m.next = "SETTLE"

    def _step_states(self, m, job):
        """Compute the gain of a batch, log it, and update the values."""
        answer = self.o_status.payload
        with m.State("SETTLE"), m.If(self.settled):
            m.d.comb += self.differentiate.eq(1)
            m.next = "GAIN"
        with m.State("GAIN"), m.If(self.differentiated):
            m.next = "LOG"
        with m.State("LOG"):
            m.d.comb += self.o_log.valid.eq(1)
            m.d.sync += self.pass_kind.eq(_PASSES["update"])
            with m.If(self.o_log.ready):
                m.next = "UPDATE"
                m.d.sync += self.start.eq(1)
        with m.State("UPDATE"):
            with m.If(self.done):
                m.d.sync += [
                    self.pass_kind.eq(_PASSES["product"]),
                    self.seed.eq(self.seed + self.layers),
                    answer.steps.eq(answer.steps + 1),
                    answer.saturated.eq(answer.saturated + self.saturated),
                ]
                # At the end of an epoch.
                with m.If(job.counter.epoch_begins):
                    decay = job.command.decay
                    m.d.sync += self.rate.eq(Mux(self.rate > decay, self.rate - decay, 0))
                m.next = "SAMPLE"
                with m.If(job.over):
                    m.next = "END"
            self._stops(m, job, early=False)
        for state in ("LOAD", "READ"):
            with m.State(state):
                with m.If(self.done):
                    m.d.sync += job.loaded.eq(1)
                    m.next = "END"
                with m.Else():
                    # Values that are read are written again: a read is not broken off.
                    self._stops(m, job, early=state == "LOAD")

    def _end_states(self, m, job):
        """Let what runs end or stop, and answer."""
        with m.State("FAIL"), m.If(self.settled & ~self.results):
            m.d.comb += self.restart.eq(1)
            m.next = "DRAIN"
        with m.State("DRAIN"):
            m.d.comb += self.drain.eq(1)
            with m.If(self.drained):
                m.d.sync += job.memory_error.eq(0)
                m.next = "END"
        with m.State("END"):
            m.d.comb += self.o_status.valid.eq(self.settled & ~self.results)
            with m.If(self.o_status.valid & self.o_status.ready):
                m.next = "COMMAND"
