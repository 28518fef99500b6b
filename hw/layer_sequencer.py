"""Walks over the windows of a plan's steps: what is read each cycle, and which weights are."""

from collections.abc import Iterable

from amaranth.hdl import Array, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.activation_store import ActivationStore
from seedbed.spec.engine import FRAMES, EngineConfig

__all__ = ["LayerSequencer", "chosen", "constants"]


def constants(m: Module, number: Signal, name: str, values: Iterable[int], *, now: Value) -> Signal:
    """Return a register that is loaded with the ``number``-th of ``values`` when ``now``."""
    values = [int(value) for value in values]
    kept = Signal(range(min(*values, 0), max(*values, 1) + 1), name=name, reset_less=True)
    with m.If(now), m.Switch(number):
        for k, value in enumerate(values):
            with m.Case(k):
                m.d.sync += kept.eq(value)
    return kept


def chosen(number: Signal, values: Iterable[int]) -> Value:
    """Return the ``number``-th of ``values``, and the last of them beyond."""
    values = list(values)
    return Array(values + values[-1:] * ((1 << len(number)) - len(values)))[number]


class LayerSequencer(wiring.Component):
    """Gives the addresses of a program's beats, one a cycle.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    start, first, behind, half : In
        Runs the plan's steps from ``first`` to the one before ``behind``, in a half of the store.
    busy : Out(1)
        From the cycle behind ``start`` until the last beat has been given.
    written : In
        How many steps' outputs are in the store, counted from ``first``: a step waits for all
        before it where the plan says so.
    retired : In(1)
        A frame has left the array: no more than ``FRAMES`` are on their way.
    beat : Out(struct)
        ``valid``, ``address``, ``spread``, ``row`` of the weights, ``learned``, ``last`` (of the
        frame), ``begins`` and ``bias``.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        steps, plan = config.plan.steps, config.plan
        rows = max(plan.frozen_rows, plan.learned_rows, 2)
        count = range(len(steps) + 1)
        fields = {
            "valid": 1,
            "address": ActivationStore.width(config),
            "spread": range(max(2, len(plan.spreads))),
            "row": range(rows),
            "learned": 1,
            "begins": 1,
            "last": 1,
            "bias": 1,
        }
        super().__init__(
            {
                "start": In(1),
                "first": In(count),
                "behind": In(count),
                "half": In(1),
                "busy": Out(1),
                "written": In(count),
                "retired": In(1),
                "beat": Out(data.StructLayout(fields)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.beat
        steps, ways = config.plan.steps, config.plan.ways
        number = Signal.like(self.first)
        begun = Signal.like(self.first)
        behind = Signal.like(self.behind)
        loading = Signal()
        running = Signal()
        flying = Signal(range(FRAMES + 1))
        m.d.comb += self.busy.eq(loading | running)

        def rom(name, values):
            return constants(m, number, name, list(values), now=loading)

        window = rom("window", [s.window for s in steps])
        weights = rom("weights", [s.weights for s in steps])
        spread = rom("spread", [config.plan.spreads.index(s.spread) for s in steps])
        learned = rom("learned", [s.learned for s in steps])
        bias = rom("bias", [s.bias for s in steps])
        waits = rom("waits", [s.waits for s in steps])
        moves = [rom(f"move_{k}", [s.moves[k] for s in steps]) for k in range(7)]
        again = rom("again", [1 - s.beats for s in steps])
        whole = rom("whole", [1 - s.beats * s.groups(ways) for s in steps])
        # The loops, from the inside: how often each goes on.
        sizes = [
            [s.pieces for s in steps],
            [s.reads for s in steps],
            [s.pool for s in steps],
            [s.pool for s in steps],
            [s.groups(ways) for s in steps],
            [s.width for s in steps],
            [s.height for s in steps],
        ]
        tops = [rom(f"top_{k}", [n - 1 for n in size]) for k, size in enumerate(sizes)]
        left = [Signal.like(top, name=f"left_{k}", reset_less=True) for k, top in enumerate(tops)]
        ends = [Signal(name=f"ends_{k}") for k in range(7)]
        m.d.comb += [end.eq(count == 0) for end, count in zip(ends, left, strict=True)]
        level = Signal(3)
        m.d.comb += level.eq(7)
        for k in reversed(range(7)):
            with m.If(~ends[k]):
                m.d.comb += level.eq(k)
        # Loads and the first cycle that counts are apart: the constants are registers.
        settled = Signal()
        address = Signal.like(beat.address, reset_less=True)
        row = Signal.like(beat.row, reset_less=True)
        fresh = Signal()
        ready = Signal()
        gives = Signal()
        issued = Signal()
        m.d.comb += [
            ready.eq(~waits | (self.written == begun)),
            gives.eq(running & (~fresh | ready) & (flying != FRAMES)),
            issued.eq(gives & ends[0] & ends[1]),
        ]
        m.d.sync += flying.eq(flying + issued - self.retired)
        m.d.sync += [
            beat.valid.eq(gives),
            beat.address.eq(address),
            beat.spread.eq(spread),
            beat.row.eq(row),
            beat.learned.eq(learned),
            beat.begins.eq((left[0] == tops[0]) & (left[1] == tops[1])),
            beat.last.eq(ends[0] & ends[1]),
            beat.bias.eq(bias & ends[0] & ends[1]),
        ]
        with m.If(loading):
            m.d.sync += settled.eq(1)
            with m.If(settled):
                m.d.sync += [
                    loading.eq(0),
                    running.eq(1),
                    fresh.eq(1),
                    address.eq(window.as_unsigned() + (self.half << (len(address) - 1))),
                    row.eq(weights),
                ]
                m.d.sync += [count.eq(top) for count, top in zip(left, tops, strict=True)]
        with m.If(gives):
            m.d.sync += [
                fresh.eq(0),
                address.eq(address + Array([*moves, moves[-1]])[level]),
                row.eq(row + Array([1, 1, again, again, 1, whole, whole, 1])[level]),
            ]
            for k in range(7):
                with m.If(level == k):
                    m.d.sync += left[k].eq(left[k] - 1)
                with m.Elif(level > k):
                    m.d.sync += left[k].eq(tops[k])
            with m.If(level == 7):
                m.d.sync += [
                    running.eq(0),
                    number.eq(number + 1),
                    begun.eq(begun + 1),
                    settled.eq(0),
                    loading.eq(number + 1 != behind),
                ]
        with m.If(self.start):
            m.d.sync += [
                number.eq(self.first),
                begun.eq(0),
                behind.eq(self.behind),
                loading.eq(1),
                settled.eq(0),
            ]
        return m
