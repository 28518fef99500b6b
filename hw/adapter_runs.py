"""Walks over the adapters' rows: outer products of a sample, and the update of all."""

from functools import partial

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.activation_store import ActivationStore
from seedbed.hw.step_constants import select
from seedbed.spec.engine import EngineConfig

__all__ = ["AdapterRows", "AdapterRuns"]


class AdapterRuns(wiring.Component):
    """Gives the addresses of a plan's runs, one a cycle.

    Members
    -------
    start, buffer_select : In
        Begins, in a half of the store.
    busy : Out(1)
        Until the last beat has been given.
    beat : Out(struct)
        ``address``, ``left`` (the factors that belong to the ways are there) or ``right`` (those
        that belong to the lanes), ``row`` of the accumulators, and ``counts``: whether what
        saturates is counted.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        fields = {"address": ActivationStore.width(config), "left": 1, "right": 1, "counts": 1}
        fields |= {"row": range(config.plan.trainable_rows)}
        super().__init__(
            {
                "start": In(1),
                "buffer_select": In(1),
                "busy": Out(1),
                "beat": Out(data.StructLayout(fields)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, beat = self.config.plan, self.beat
        runs = plan.runs
        number = Signal(range(len(runs)))
        # Rows that are left of the run; 0 where its left factors are to be read.
        left = Signal(range(max(run.count for run in runs) + 1))
        address = Signal.like(beat.address, reset_less=True)
        row = Signal.like(beat.row, reset_less=True)

        rom = partial(select, number)
        top = self.buffer_select << (len(address) - 1)
        begins = Signal()
        m.d.comb += begins.eq(left == 0)
        m.d.sync += [
            beat.left.eq(self.busy & begins),
            beat.right.eq(self.busy & ~begins),
            beat.counts.eq(rom([not run.copy for run in runs])),
            beat.address.eq(Mux(begins, rom([run.left for run in runs]) + top, address)),
            beat.row.eq(row),
        ]
        with m.If(self.busy):
            with m.If(begins):
                m.d.sync += [
                    left.eq(rom([run.count for run in runs])),
                    address.eq(rom([run.right for run in runs]) + top),
                    row.eq(rom([run.row for run in runs])),
                ]
            with m.Else():
                m.d.sync += [
                    left.eq(left - 1),
                    address.eq(address + plan.lanes),
                    row.eq(row + 1),
                ]
                with m.If(left == 1):
                    m.d.sync += [
                        number.eq(number + 1),
                        self.busy.eq(number != len(runs) - 1),
                    ]
        with m.If(self.start):
            m.d.sync += [number.eq(0), left.eq(0), self.busy.eq(1)]
        return m


class AdapterRows(wiring.Component):
    """Gives every row of the adapters, one every other cycle.

    Members
    -------
    start : In(1)
        Begins with row 0.
    busy : Out(1)
        Until the last row has been given.
    beat : Out(struct)
        ``valid``, ``row``; ``blank``, where it is B's; ``counts``, where it is not there twice.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        fields = {"valid": 1, "row": range(config.plan.trainable_rows), "blank": 1, "counts": 1}
        super().__init__({"start": In(1), "busy": Out(1), "beat": Out(data.StructLayout(fields))})

    def elaborate(self, platform):
        m = Module()
        plan, beat = self.config.plan, self.beat
        row = Signal.like(beat.row)
        odd = Signal()
        copies = [k for run in plan.runs if run.copy for k in range(run.row, run.row + run.count)]
        gives = Signal()
        m.d.comb += gives.eq(self.busy & ~odd)
        m.d.sync += [
            beat.valid.eq(gives),
            beat.row.eq(row),
            beat.blank.eq(row.matches(*plan.blank)),
            beat.counts.eq(~row.matches(*copies)),
            odd.eq(gives),
        ]
        with m.If(gives):
            m.d.sync += [row.eq(row + 1), self.busy.eq(row != plan.trainable_rows - 1)]
        with m.If(self.start):
            m.d.sync += [row.eq(0), self.busy.eq(1)]
        return m
