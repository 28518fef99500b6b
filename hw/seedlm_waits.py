"""How a lane's values wait for their turn: in registers, or in memories."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.memory import Memory

__all__ = ["Waits"]

#: Beats that a memory has places for, and its bits at most: on UltraScale+ 14 take what one takes.
PLACES, WIDE = 16, 14
#: Flip-flops that a wait in a memory is worth, and those that may bring several waits together.
WORTH, TOGETHER = 13, 20
#: Memories that share an address.
SHARING = 8


class _Numbers:
    """The number of the beat in each stage, which goes along with it: its place in memories.

    Those that ask for the same stage get the same register in turns of ``SHARING``.
    """

    def __init__(self, m: Module, moves: Value):
        self._m, self._moves = m, moves
        first = Signal(range(PLACES), name="number_0_0", reset_less=True)
        with m.If(moves[0]):
            m.d.sync += first.eq(first + 1)
        self._copies = {0: [first]}
        self._asked: Counter[int] = Counter()

    def at(self, stage: int) -> Signal:
        """Return a register with the number of the beat in a stage."""
        copies, asked = self._copies.setdefault(stage, []), self._asked[stage]
        self._asked[stage] += 1
        if stage and asked // SHARING == len(copies):
            name, init = f"number_{stage}_{len(copies)}", -stage % PLACES
            how = {"init": init, "reset_less": True, "attrs": {"keep": True}}
            copies.append(Signal(range(PLACES), name=name, **how))
            before = self.at(stage - 1)
            with self._m.If(self._moves[stage - 1]):
                self._m.d.sync += copies[-1].eq(before)
        return copies[min(asked // SHARING, len(copies) - 1)]


class _Wait(NamedTuple):
    """A value that is there in stage ``begin``, and the register that has it in stage ``end``."""

    name: str
    value: Value
    begin: int
    end: int
    into: Signal


class Waits:
    """Brings values from stage to stage, as ``moves`` says, a bit for each stage.

    What waits long does so in a memory, if there are ``memories``: a beat has a number, which goes
    along with it and says where. Values of a bit or two share one, which no family has as narrow:
    they go into it together, when the last of them is there, and come out of it together, a stage
    before the first of them is asked for. :meth:`finish` makes the memories of all that was asked.
    """

    def __init__(self, m: Module, moves: Value, *, memories: bool):
        self._m, self._moves, self._memories = m, moves, memories
        self._far: list[_Wait] = []

    def step(
        self, name: str, value: Value, begin: int, end: int, *, near: bool
    ) -> tuple[Signal, int]:
        """Return a register with ``value`` of stage ``begin``, and its stage: up to ``end``.

        ``near`` asks for the next stage's: an addition has no time for the way to a memory.
        """
        far = min(end, begin + PLACES)
        if near or not self._memories or len(value) * (far - begin - 1) < WORTH:
            return self._near(name, value, begin, begin + 1), begin + 1
        self._far.append(_Wait(name, value, begin, far, self._register(name, value, far)))
        return self._far[-1].into, far

    def finish(self) -> None:
        """Make the memories. Nothing can be asked for afterwards."""
        numbers = _Numbers(self._m, self._moves) if self._far else None
        for waits in _together(self._far):
            begin, end = max(w.begin for w in waits), min(w.end for w in waits)
            values = [self._near(w.name, w.value, w.begin, begin) for w in waits]
            name = f"{waits[0].name}_{begin}_{end}"
            width = sum(len(value) for value in values)
            self._m.submodules[name] = memory = Memory(shape=width, depth=PLACES, init=[])
            put, get = memory.write_port(), memory.read_port(domain="comb")
            self._m.d.comb += [
                put.en.eq(self._moves[begin]),
                put.addr.eq(numbers.at(begin)),
                put.data.eq(Cat(values)),
                get.addr.eq(numbers.at(end - 1)),
            ]
            place = 0
            for w in waits:
                found = get.data[place : place + len(w.value)]
                place += len(w.value)
                self._near(w.name, found, end - 1, w.end, w.into)

    def _register(self, name: str, value: Value, stage: int) -> Signal:
        # Marked `keep`: otherwise the longer of these delays are mapped to shift registers on
        # some families, each bit to a LUT. A reset would do it too, with lines to all of them.
        how = {"reset_less": True, "attrs": {"keep": True}}
        return Signal(value.shape(), name=f"{name}_{stage}", **how)

    def _near(
        self, name: str, value: Value, begin: int, end: int, last: Signal | None = None
    ) -> Value:
        """Return ``value`` of stage ``begin`` in stage ``end``, through registers to ``last``."""
        for stage in range(begin + 1, end + 1):
            step = last if stage == end and last is not None else self._register(name, value, stage)
            with self._m.If(self._moves[stage - 1]):
                self._m.d.sync += step.eq(value)
            value = step
        return value


def _together(waits: list[_Wait]) -> Iterator[list[_Wait]]:
    """Give the waits in groups, each for a memory."""
    group: list[_Wait] = []
    for wait in sorted(waits, key=lambda w: (w.begin, w.end)):
        with_it = [*group, wait]
        bits = sum(len(w.value) for w in with_it)
        begin, end = wait.begin, min(w.end for w in with_it)
        # What it costs to bring them together, of what it saves not to.
        moved = sum(len(w.value) * (begin - w.begin + w.end - end) for w in with_it)
        if group and (bits > WIDE or moved > TOGETHER or end - begin < 3):
            yield group
            with_it = [wait]
        group = with_it
    if group:
        yield group
