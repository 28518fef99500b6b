"""Delay lines of a lane's values: in registers, or in LUTRAM with a circular write pointer."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.memory import Memory

__all__ = ["DelayLines"]

#: Entries of a LUTRAM, and its greatest width: on UltraScale+ 14 bits take as much as one bit.
DEPTH, MAX_WIDTH = 16, 14
#: Flip-flops that a LUTRAM must save, and those that may be added to align several delay lines.
MIN_SAVED, MAX_ADDED = 13, 20
#: LUTRAM ports per copy of an address.
FANOUT = 8


class _Tags:
    """A tag of the beat in each stage: its address in the LUTRAMs, pipelined with the beat.

    Up to ``FANOUT`` readers share a copy of a stage's tag.
    """

    def __init__(self, m: Module, enable: Value):
        self._m, self._enable = m, enable
        first = Signal(range(DEPTH), name="tag_0_0", reset_less=True)
        with m.If(enable[0]):
            m.d.sync += first.eq(first + 1)
        self._copies = {0: [first]}
        self._readers: Counter[int] = Counter()

    def at(self, stage: int) -> Signal:
        """Return a register with the tag of the beat in a stage."""
        copies, readers = self._copies.setdefault(stage, []), self._readers[stage]
        self._readers[stage] += 1
        if stage and readers // FANOUT == len(copies):
            name, init = f"tag_{stage}_{len(copies)}", -stage % DEPTH
            options = {"init": init, "reset_less": True, "attrs": {"keep": True}}
            copies.append(Signal(range(DEPTH), name=name, **options))
            before = self.at(stage - 1)
            with self._m.If(self._enable[stage - 1]):
                self._m.d.sync += copies[-1].eq(before)
        return copies[min(readers // FANOUT, len(copies) - 1)]


class _Line(NamedTuple):
    """A delay line: a value of stage ``begin``, and its register in stage ``end``."""

    name: str
    value: Value
    begin: int
    end: int
    output: Signal


class DelayLines:
    """Delays values by pipeline stages, each of which has a bit of the clock ``enable``.

    With ``lutram``, long delays are in LUTRAM: a beat has a tag, which is pipelined with it and is
    its address. LUTRAMs are wider than a bit or two, so several values share one. They are written
    together, when the last of them is valid, and read together, a stage before the first of them is
    needed. :meth:`finish` creates the memories of all delay lines.
    """

    def __init__(self, m: Module, enable: Value, *, lutram: bool):
        self._m, self._enable, self._lutram = m, enable, lutram
        self._lines: list[_Line] = []

    def delay(
        self, name: str, value: Value, begin: int, end: int, *, register: bool
    ) -> tuple[Signal, int]:
        """Return a register with ``value`` of stage ``begin``, and the register's stage.

        The stage is ``end`` at most. With ``register`` it is the next one: after an addition there
        is no time for the route to a memory.
        """
        last = min(end, begin + DEPTH)
        if register or not self._lutram or len(value) * (last - begin - 1) < MIN_SAVED:
            return self._registers(name, value, begin, begin + 1), begin + 1
        self._lines.append(_Line(name, value, begin, last, self._register(name, value, last)))
        return self._lines[-1].output, last

    def finish(self) -> None:
        """Create the memories. No delay can be added afterwards."""
        if not self._lines:
            return
        tags = _Tags(self._m, self._enable)
        for lines in _groups(self._lines):
            begin, end = max(w.begin for w in lines), min(w.end for w in lines)
            values = [self._registers(w.name, w.value, w.begin, begin) for w in lines]
            name = f"{lines[0].name}_{begin}_{end}"
            width = sum(len(value) for value in values)
            self._m.submodules[name] = memory = Memory(shape=width, depth=DEPTH, init=[])
            put, get = memory.write_port(), memory.read_port(domain="comb")
            self._m.d.comb += [
                put.en.eq(self._enable[begin]),
                put.addr.eq(tags.at(begin)),
                put.data.eq(Cat(values)),
                get.addr.eq(tags.at(end - 1)),
            ]
            offset = 0
            for w in lines:
                found = get.data[offset : offset + len(w.value)]
                offset += len(w.value)
                self._registers(w.name, found, end - 1, w.end, w.output)

    def _register(self, name: str, value: Value, stage: int) -> Signal:
        # Without `keep`, some families map the longer delays to shift registers, a LUT per bit. A
        # reset would prevent that too, but its net would reach all of them.
        options = {"reset_less": True, "attrs": {"keep": True}}
        return Signal(value.shape(), name=f"{name}_{stage}", **options)

    def _registers(
        self, name: str, value: Value, begin: int, end: int, last: Signal | None = None
    ) -> Value:
        """Return ``value`` of stage ``begin`` in stage ``end``; ``last`` is the last register."""
        for stage in range(begin + 1, end + 1):
            step = last if stage == end and last is not None else self._register(name, value, stage)
            with self._m.If(self._enable[stage - 1]):
                self._m.d.sync += step.eq(value)
            value = step
        return value


def _groups(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Yield the delay lines in groups, each for one memory."""
    group: list[_Line] = []
    for line in sorted(lines, key=lambda w: (w.begin, w.end)):
        extended = [*group, line]
        bits = sum(len(w.value) for w in extended)
        begin, end = line.begin, min(w.end for w in extended)
        # Flip-flops that align the lines before and after the memory.
        added = sum(len(w.value) * (begin - w.begin + w.end - end) for w in extended)
        if group and (bits > MAX_WIDTH or added > MAX_ADDED or end - begin < 3):
            yield group
            extended = [line]
        group = extended
    if group:
        yield group
