"""Constants of the step that runs, for whatever walks over a plan's steps."""

from collections.abc import Iterable

from amaranth.hdl import Array, Module, Signal, Value

from seedbed.hw.parts.loop_nest import LoopNest

__all__ = ["StepConstants", "select"]


def select(number: Signal, values: Iterable[int]) -> Value:
    """Return the ``number``-th of ``values``; where there is none, the last of them."""
    values = list(values)
    return Array(values + values[-1:] * ((1 << len(number)) - len(values)))[number]


class StepConstants:
    """Goes from step to step, and keeps the running one's constants in registers.

    Parameters
    ----------
    start, first, stop
        A pulse, and with it the first step and the one after the last.
    done
        A pulse, in the last cycle of a step.

    Attributes
    ----------
    number
        The step.
    load
        A pulse: constants are there, counters take them, and the step runs from the next cycle on.
    loading, running
        What the walk is at: neither of them between programs.
    """

    #: Cycles from ``start`` to the first one of a step, and from a step's last one to the next one.
    latency = 3

    def __init__(self, m: Module, *, start: Value, first: Value, stop: Value, done: Value):
        self._m = m
        self.number = Signal.like(first, name="number")
        self.loading = Signal(name="loading")
        self.running = Signal(name="running")
        self.load = Signal(name="load")
        end = Signal.like(stop, name="stop")
        loaded = Signal(name="loaded")
        m.d.comb += self.load.eq(self.loading & loaded)
        with m.If(self.loading):
            m.d.sync += loaded.eq(1)
        with m.If(self.load):
            m.d.sync += [self.loading.eq(0), self.running.eq(1)]
        with m.If(done):
            m.d.sync += [
                self.running.eq(0),
                self.number.eq(self.number + 1),
                loaded.eq(0),
                self.loading.eq(self.number + 1 != end),
            ]
        with m.If(start):
            m.d.sync += [self.number.eq(first), end.eq(stop), self.loading.eq(1), loaded.eq(0)]

    def register(self, name: str, values: Iterable[int]) -> Signal:
        """Return a register with the running step's one of ``values``."""
        values = [int(value) for value in values]
        shape = range(min(*values, 0), max(*values, 1) + 1)
        kept = Signal(shape, name=name, reset_less=True)
        with self._m.If(self.loading), self._m.Switch(self.number):
            for k, value in enumerate(values):
                with self._m.Case(k):
                    self._m.d.sync += kept.eq(value)
        return kept

    def nest(self, loops: Iterable[Iterable[int]], name: str = "nest") -> LoopNest:
        """Return counters of the running step's loops: ``loops`` has the iterations by step."""
        m, loops = self._m, [list(loop) for loop in loops]
        m.submodules[name] = nest = LoopNest([max(loop) for loop in loops])
        m.d.comb += nest.load.eq(self.load)
        for k, loop in enumerate(loops):
            limit = self.register(f"{name}_limit_{k}", [count - 1 for count in loop])
            m.d.comb += nest.limits[f"loop_{k}"].eq(limit)
        return nest
