"""Streams of emitted Verilog in cocotb: drivers, monitor and scoreboard, also for other benches.

A stream ``o`` has the ports ``o_payload``, ``o_valid`` and ``o_ready``, or a port for each field of
its payload, such as ``o_data`` and ``o_last``. The drivers are those of cocotbext-axi.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

from cocotb.triggers import FallingEdge
from cocotbext.axi.stream import define_stream

__all__ = ["PAYLOAD", "Monitor", "Scoreboard", "pauses", "sink", "source"]

#: The fields of a stream whose payload is one port.
PAYLOAD = ("payload",)


@cache
def _classes(fields: tuple[str, ...]) -> tuple[Any, ...]:
    """Return bus, beat, source and sink of streams with these fields."""
    bus, beat, source, sink, _ = define_stream("Beat", signals=[*fields, "valid", "ready"])

    class Source(source):  # type: ignore[misc, valid-type]
        """Sends beats, each when the one before is transferred."""

        def put(self, *values: int, **named: int) -> None:
            """Queue a beat, whose fields are given in order or by name."""
            self.send_nowait(beat(**dict(zip(fields, values, strict=False)), **named))

    class Sink(sink):  # type: ignore[misc, valid-type]
        """Accepts up to ``limit`` beats into its queue; its base class has no limit of 0."""

        limit: float = 0

        def full(self) -> bool:
            return self.count() >= self.limit

        def allow(self, limit: float) -> None:
            """Accept beats until ``limit`` are in the queue."""
            self.limit = limit
            self.wake_event.set()

        def take(self) -> Any:
            """Return the next beat of the queue: its value, or its fields by name."""
            beat = self.recv_nowait()
            return _payload({field: int(getattr(beat, field)) for field in fields})

    return bus, beat, Source, Sink


def _payload(values: dict[str, int]) -> Any:
    """Return a payload that is one port as a number, and fields by name otherwise."""
    return values["payload"] if (*values,) == PAYLOAD else values


def source(dut: Any, name: str, fields: Sequence[str] = PAYLOAD, *, clk="clk", rst="rst") -> Any:
    """Return a driver of the input stream ``name``; ``put`` queues a beat."""
    bus, _, kind, _ = _classes(tuple(fields))
    return kind(bus.from_prefix(dut, name), getattr(dut, clk), getattr(dut, rst))


def sink(dut: Any, name: str, fields: Sequence[str] = PAYLOAD, *, clk="clk", rst="rst") -> Any:
    """Return a driver of the output stream ``name``, which accepts nothing until ``allow``."""
    bus, _, _, kind = _classes(tuple(fields))
    return kind(bus.from_prefix(dut, name), getattr(dut, clk), getattr(dut, rst))


def pauses(random: Random, share: float = 0.5) -> Iterator[bool]:
    """Pause a driver in so large a share of the cycles: for ``set_pause_generator``."""
    while True:
        yield random.random() < share


class Monitor:
    """Checks the rules of a stream in every cycle, and collects its beats in ``beats``.

    Once valid is high, it stays high and the payload stays the same until the transfer.

    Parameters
    ----------
    driver
        A source or a sink of the stream.
    name
        The name of the stream in messages.
    fields
        Those of its payload.
    """

    def __init__(self, driver: Any, name: str, fields: Sequence[str] = PAYLOAD):
        self.bus, self.name, self.fields = driver.bus, name, fields
        self.beats: list[Any] = []
        self.beat: Any = None
        self._pending: Any = None

    def clear(self) -> None:
        """Forget the beat that waits and those that were collected, as at a reset."""
        self._pending = None
        self.beats.clear()

    def sample(self) -> bool:
        """Return whether the stream transfers at the next rising edge.

        To be called once a cycle, at the falling edge: drivers and core change at rising edges.
        Raises ``AssertionError`` for a broken rule.
        """
        valid, ready = bool(self.bus.valid.value), bool(self.bus.ready.value)
        if self._pending is not None:
            _require(valid, f"{self.name}: valid fell before the transfer")
        payload = None
        if valid:
            values = {field: int(getattr(self.bus, field).value) for field in self.fields}
            payload = _payload(values)
        if self._pending is not None:
            same = payload == self._pending
            _require(same, f"{self.name}: the payload changed before the transfer")
        self._pending = None if ready else payload
        self.beat = payload if ready else None
        return valid and ready

    async def run(self, clk: Any) -> None:
        """Sample in every cycle of a clock: for ``cocotb.start_soon``."""
        while True:
            await FallingEdge(clk)
            if self.sample():
                self.beats.append(self.beat)


class Scoreboard:
    """Compares the beats of streams with those that are expected, in order.

    ``where`` is added to the names of streams in messages.
    """

    def __init__(self, where: str = ""):
        self.where = where
        self.count: dict[str, int] = {}
        self.expected: dict[str, deque[Any]] = {}

    def expect(self, name: str, *beats: Any) -> None:
        """Expect further beats of a stream."""
        self.count.setdefault(name, 0)
        self.expected.setdefault(name, deque()).extend(beats)

    def add(self, name: str, beat: Any) -> None:
        """Compare the next beat of a stream; raise ``AssertionError`` for another one."""
        number = self.count.get(name, 0)
        _require(bool(self.expected.get(name)), f"{name}{self.where}: a beat after the last one")
        want = self.expected[name].popleft()
        self.count[name] = number + 1
        values = f"  expected {_shown(want)}\n  got      {_shown(beat)}"
        _require(beat == want, f"{name}{self.where}, beat {number}:\n{values}")

    def check(self) -> None:
        """Raise ``AssertionError`` if a beat is missing."""
        for name, left in self.expected.items():
            seen = self.count[name]
            message = f"{name}{self.where} timed out: {seen} beats of {seen + len(left)}"
            _require(not left, message)


def _require(condition: bool, message: str) -> None:
    # An assert of a module of tests has more text: that of pytest.
    if not condition:
        raise AssertionError(message)


def _shown(beat: Any) -> str:
    if isinstance(beat, dict):
        return ", ".join(f"{name}={value:#x}" for name, value in beat.items())
    return f"{beat:#x}"
