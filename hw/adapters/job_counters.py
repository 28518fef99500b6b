"""Counters of a job of the fine-tuning core."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.instantft import COUNTERS, INSTANTFT_KINDS, InstantFtConfig

__all__ = ["JobCounters", "counters_layout"]


def counters_layout() -> data.StructLayout:
    """Return the layout of the counters."""
    return data.StructLayout(dict.fromkeys(COUNTERS, 32))


class JobCounters(wiring.Component):
    """Counts from the command of a job on.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    start, kind : In
        A command is transferred, and its kind: that of a job clears the counters.
    running : In(1)
        A command runs.
    sample, hit : In(1)
        A sample's result is transferred, and whether it came from the cache.
    batch : In(1)
        An update begins.
    saturated : In
        Numbers that did not fit their format, in this cycle.
    o : Out(struct)
        ``COUNTERS``.
    """

    def __init__(self, config: InstantFtConfig):
        plan = config.engine.plan
        super().__init__(
            {
                "start": In(1),
                "kind": In(3),
                "running": In(1),
                "sample": In(1),
                "hit": In(1),
                "batch": In(1),
                "saturated": In(range(plan.ways * (plan.lanes + 1) + 2)),
                "o": Out(counters_layout()),
            }
        )

    def elaborate(self, platform):
        m = Module()
        steps = {
            "samples": self.sample,
            "hits": self.sample & self.hit,
            "misses": self.sample & ~self.hit,
            "batches": self.batch,
            "saturations": self.saturated,
            "cycles": self.running,
        }
        jobs = [INSTANTFT_KINDS.index(kind) for kind in ("train", "infer")]
        # A cycle later, and with what that cycle counts: no path from a command to all counters.
        begins = Signal()
        m.d.sync += begins.eq(self.start & self.kind.matches(*jobs))
        for name, step in steps.items():
            counter = getattr(self.o, name)
            m.d.sync += counter.eq(Mux(begins, 0, counter) + step)
        return m
