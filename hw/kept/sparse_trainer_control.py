"""Commands of the trainer of kept weights: jobs, their steps, and how they end."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS, SPARSE_MAC_STATUS
from seedbed.spec.sparse_trainer import (
    BATCH_BITS,
    RATE_BITS,
    RATE_SHIFT_BITS,
    SPARSE_TRAINER_KINDS,
    SPARSE_TRAINER_STATUS,
)

__all__ = ["SparseTrainerControl"]

_TRAIN, _INFER, _LOAD, _READ, _ABORT = range(len(SPARSE_TRAINER_KINDS))
_STATUS = {name: code for code, name in enumerate(SPARSE_TRAINER_STATUS)}
_PASSES = {name: code for code, name in enumerate(SPARSE_MAC_KINDS)}


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
        self._job = job = Signal(job_layout(self.config), reset_less=True)
        # Samples left in the epoch, epochs left, and samples of the batch so far.
        self._left = Signal(32, name="left")
        self._epochs = Signal(16, name="epochs")
        self._batch = Signal(BATCH_BITS, name="batch")
        # All samples have been used; the entries are whole; the job is to end.
        self._over = Signal(name="over")
        self._loaded = Signal(name="loaded")
        self._aborted = Signal(name="aborted")
        self._distrusts, self._failed = Signal(name="distrusts"), Signal(name="failed_job")
        answer, log = self.o_status.payload, self.o_log.payload
        m.d.comb += [
            log.seed.eq(self.seed),
            log.gain.eq(self.gain),
            self.shift.eq(job.shift),
            answer.kind.eq(job.kind),
            self.frozen.eq(job.kind == _READ),
        ]
        with m.If(self.table_begins):
            m.d.sync += self._loaded.eq(0)
        with m.If(self.fault):
            m.d.sync += self._distrusts.eq(1)
        with m.FSM() as machine:
            self._command_states(m)
            self._sample_states(m)
            self._step_states(m)
            self._end_states(m)
        idle, aborts = machine.ongoing("COMMAND"), self.i.payload.kind == _ABORT
        # What comes with the next command, or after it, is that command's.
        m.d.comb += [
            self.discard.eq(self._failed & ~(self.i.valid & ~aborts)),
            self.idle.eq(idle & ~self.i.valid),
        ]
        # Of a running command, only an abort is accepted.
        with m.If(~idle & aborts):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += self._aborted.eq(1)
        with m.If(machine.ongoing("PASS")):
            m.d.comb += self.want.eq(~((self._left == 1) & (self._epochs == 1)))
        return m

    def _fail(self, m, status):
        """End the command; samples and entries are discarded until the next one."""
        answer = self.o_status.payload
        m.d.sync += [answer.status.eq(status), self._failed.eq(1), self.start.eq(0)]
        m.next = "FAIL"

    def _stops(self, m, *, early: bool = True):
        """End the command at an error of a pass or, if ``early``, of the memory or at an abort."""
        with m.If(self.failed):
            m.d.sync += self._loaded.eq(0)
            self._fail(m, _STATUS["layers"])
            for name in ("order", "repeated", "range"):
                with m.If(self.status == SPARSE_MAC_STATUS.index(name)):
                    m.d.sync += self.o_status.payload.status.eq(_STATUS[name])
        if early:
            with m.If(self._distrusts):
                self._fail(m, _STATUS["memory"])
            with m.Elif(self._aborted):
                self._fail(m, _STATUS["aborted"])

    def _command_states(self, m):
        """Take a command, check it, and begin."""
        job, answer = self._job, self.o_status.payload
        with m.State("COMMAND"):
            m.d.comb += self.i.ready.eq(~self.table_busy)
            m.d.sync += [
                self._aborted.eq(0),
                job.eq(self.i.payload),
                self._left.eq(self.i.payload.samples),
                self._epochs.eq(self.i.payload.epochs),
                self.seed.eq(self.i.payload.seed),
                self.rate.eq(self.i.payload.rate),
            ]
            with m.If(self.i.valid & self.i.ready):
                m.d.comb += self.begin.eq(1)
                m.d.sync += [
                    answer.status.eq(_STATUS["ok"]),
                    answer.steps.eq(0),
                    answer.saturated.eq(0),
                    self._batch.eq(0),
                    self._over.eq(0),
                    self._failed.eq(0),
                    self.negative.eq(0),
                ]
                m.next = "BEGIN"
        with m.State("BEGIN"):
            trains = job.kind == _TRAIN
            bad_batch = (job.batch == 0) | (job.batch > self.config.batch)
            no_samples = (job.samples == 0) | (job.epochs == 0)
            m.d.sync += [self.perturb.eq(trains), self.pass_kind.eq(_PASSES["product"])]
            with m.If(self._distrusts):
                self._fail(m, _STATUS["memory"])
            with m.Elif(job.kind == _ABORT):
                m.next = "END"
            with m.Elif(job.kind > _ABORT):
                self._fail(m, _STATUS["command"])
            with m.Elif((job.kind <= _INFER) & (no_samples | (trains & bad_batch))):
                self._fail(m, _STATUS["command"])
            with m.Elif(~self.table_valid):
                self._fail(m, _STATUS["layers"])
            with m.Elif(job.kind == _LOAD):
                m.d.sync += [self._loaded.eq(0), self.pass_kind.eq(_PASSES["load"])]
                m.next = "LOAD"
                m.d.sync += self.start.eq(1)
            with m.Elif(~self._loaded):
                self._fail(m, _STATUS["entries"])
            with m.Elif(job.kind == _READ):
                m.d.sync += self.pass_kind.eq(_PASSES["update"])
                m.next = "READ"
                m.d.sync += self.start.eq(1)
            with m.Else():
                m.next = "SAMPLE"

    def _sample_states(self, m):
        """Wait for a sample, and pass it once, or twice in training."""
        # A pass begins in the next cycle, with the kind that is set in this one.
        m.d.sync += self.start.eq(0)
        with m.State("SAMPLE"):
            m.d.comb += self.want.eq(1)
            with m.If(self.full):
                m.next = "PASS"
                m.d.sync += self.start.eq(1)
                with m.If(self.bad):
                    self._fail(m, _STATUS["sample"])
            self._stops(m)
        with m.State("PASS"):
            with m.If(self.done):
                with m.If(self.perturb & ~self.negative):
                    m.d.sync += self.negative.eq(1)
                    m.d.sync += self.start.eq(1)
                with m.Else():
                    m.d.sync += self.negative.eq(0)
                    m.d.comb += self.release.eq(1)
                    self._count(m)
            self._stops(m)

    def _count(self, m):
        """Count a sample, and say what is next."""
        job = self._job
        last = self._left == 1
        over = last & (self._epochs == 1)
        batch_ends = (self._batch == job.batch - 1) | last
        m.d.sync += [
            self._left.eq(Mux(last, job.samples, self._left - 1)),
            self._epochs.eq(self._epochs - last),
            self._batch.eq(Mux(batch_ends, 0, self._batch + 1)),
            self._over.eq(over),
        ]
        m.next = "SAMPLE"
        with m.If(self.perturb & batch_ends):
            m.next = "SETTLE"
        with m.Elif(over):
            m.next = "END"

    def _step_states(self, m):
        """Compute the gain of a batch, log it, and update the values."""
        job, answer = self._job, self.o_status.payload
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
                with m.If(self._left == job.samples):
                    m.d.sync += self.rate.eq(Mux(self.rate > job.decay, self.rate - job.decay, 0))
                m.next = "SAMPLE"
                with m.If(self._over):
                    m.next = "END"
            self._stops(m, early=False)
        for state in ("LOAD", "READ"):
            with m.State(state):
                with m.If(self.done):
                    m.d.sync += self._loaded.eq(1)
                    m.next = "END"
                with m.Else():
                    # Values that are read are written again: a read is not broken off.
                    self._stops(m, early=state == "LOAD")

    def _end_states(self, m):
        """Let what runs end or stop, and answer."""
        with m.State("FAIL"), m.If(self.settled & ~self.results):
            m.d.comb += self.restart.eq(1)
            m.next = "DRAIN"
        with m.State("DRAIN"):
            m.d.comb += self.drain.eq(1)
            with m.If(self.drained):
                m.d.sync += self._distrusts.eq(0)
                m.next = "END"
        with m.State("END"):
            m.d.comb += self.o_status.valid.eq(self.settled & ~self.results)
            with m.If(self.o_status.valid & self.o_status.ready):
                m.next = "COMMAND"
