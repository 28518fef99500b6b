"""Counts the samples of a job, in batches and epochs."""

from collections.abc import Iterator
from contextlib import contextmanager

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data

__all__ = ["JobCounter"]


class JobCounter:
    """The place of a sample in a job of ``samples`` an epoch, ``epochs``, and batches of ``batch``.

    An epoch's last batch may be shorter.

    Parameters
    ----------
    job
        The job, which has these three fields, steady while it runs.
    """

    def __init__(self, job: data.View):
        self._job = job
        # Samples left in the epoch, epochs left, and samples of the batch so far.
        self._left = Signal.like(job.samples, name="left")
        self._epochs = Signal.like(job.epochs, name="epochs")
        self._batch = Signal.like(job.batch, name="batch")
        self.batch_begins = self._batch == 0
        self.epoch_begins = self._left == job.samples
        self.epoch_ends = self._left == 1
        self.last_epoch = self._epochs == 1
        self.batch_ends = (self._batch == job.batch - 1) | self.epoch_ends

    def refused(self, trains: Value, batch: int) -> Value:
        """Return whether the job has no samples, or no batch or one of more than ``batch``."""
        job = self._job
        no_samples = (job.samples == 0) | (job.epochs == 0)
        bad_batch = (job.batch == 0) | (job.batch > batch)
        return no_samples | (trains & bad_batch)

    def begin(self, m: Module, job: data.View) -> None:
        """Begin with the first sample of a job, which is being taken."""
        m.d.sync += [
            self._left.eq(job.samples),
            self._epochs.eq(job.epochs),
            self._batch.eq(0),
        ]

    @contextmanager
    def step(self, m: Module) -> Iterator[None]:
        """Go on to the next sample; give the context of the last one of an epoch."""
        m.d.sync += [
            self._left.eq(self._left - 1),
            self._batch.eq(Mux(self.batch_ends, 0, self._batch + 1)),
        ]
        with m.If(self.epoch_ends):
            m.d.sync += [self._left.eq(self._job.samples), self._epochs.eq(self._epochs - 1)]
            yield
