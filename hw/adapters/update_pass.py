"""Walks over the rows that an update rewrites."""

from itertools import pairwise

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["UpdatePass"]


class UpdatePass(wiring.Component):
    """Gives every row of a schedule's updates, one every other cycle.

    Each is read twice on its way: as accumulators, and as parameters.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with a schedule.

    Members
    -------
    start : In(1)
        Begins with the first row.
    busy : Out(1)
        Until the last row has been given.
    beat : Out(struct)
        ``valid``, ``row``; ``cleared``, where it is 0 before training; ``counts``, where its
        parameters are not counted with another row; ``last``.

    Latency: ``latency`` cycle after ``busy`` to a beat. Throughput: a row every two cycles.
    """

    latency = 1

    def __init__(self, config: EngineConfig):
        self.config = config
        fields = {"valid": 1, "row": range(config.plan.trainable_rows)}
        fields |= {"cleared": 1, "counts": 1, "last": 1}
        super().__init__({"start": In(1), "busy": Out(1), "beat": Out(data.StructLayout(fields))})

    def elaborate(self, platform):
        m = Module()
        schedule, beat = self.config.plan.schedule, self.beat
        row = Signal.like(beat.row, init=schedule.updates[0][0])
        odd = Signal()
        issue = Signal()
        last = Signal()
        m.d.comb += [issue.eq(self.busy & ~odd), last.eq(row == schedule.updates[-1][-1])]
        m.d.sync += [
            beat.valid.eq(issue),
            beat.row.eq(row),
            beat.cleared.eq(row.matches(*schedule.cleared)),
            beat.counts.eq(~row.matches(*schedule.duplicates)),
            beat.last.eq(last),
            odd.eq(issue),
        ]
        with m.If(issue):
            m.d.sync += [row.eq(row + 1), self.busy.eq(~last)]
            with m.Switch(row):
                # From the last row to the first one: ready for the next start.
                for before, after in pairwise([*schedule.updates, schedule.updates[0]]):
                    with m.Case(before[-1]):
                        m.d.sync += row.eq(after[0])
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        return m
