"""A memory behind the port of the forward cache, for Amaranth's simulator: slow, and in fits."""

from collections import deque
from random import Random

from amaranth.hdl import Value
from amaranth.lib import wiring

from seedbed.sim.pins import Pins

__all__ = ["Memory"]


class Memory:
    """Answers bursts in order, each after 20 to 60 cycles; its streams pause in half of all cycles.

    ``cells`` has what was written, by the address of a beat; what was not reads as 0. A burst that
    crosses a boundary, or whose ``last`` stands at another beat, raises ``AssertionError``.

    Parameters
    ----------
    dut
        The component whose ports it serves.
    page
        Beats between two boundaries.
    random
        Where latencies and pauses are drawn from.
    """

    def __init__(self, dut: wiring.Component, *, page: int, random: Random):
        self.page, self.random = page, random
        self.cells: dict[int, int] = {}
        # Bursts that are not over: when they may go on, the next beat, how many are left.
        self.reads: deque[list[int]] = deque()
        self.writes: deque[list[int]] = deque()
        # When each burst that was written may be answered.
        self.answers: deque[int] = deque()
        self.now = 0
        self._given = {"response": dut.i_response, "read": dut.i_read}
        self._taken = {"command": dut.o_command, "write": dut.o_write}
        self._pins = Pins(self._given, self._taken)

    def drop(self, ctx, *, answers: bool = True) -> None:
        """Break off what is under way, answers to bursts included; what was written stays."""
        self.writes.clear()
        if answers:
            self.reads.clear()
            self.answers.clear()
            for name in self._given:
                self._pins.put(name, "valid", 0)
        self._pins.settle(ctx)

    async def run(self, ctx) -> None:
        """Serve the component, for ever: a testbench that runs in the background."""
        pins = self._pins
        sampled = [Value.cast(s.payload) for s in self._taken.values()]
        sampled += [s.valid & s.ready for s in (self._taken | self._given).values()]
        command, word, data = (
            stream.payload.shape() for stream in (*self._taken.values(), self._given["read"])
        )
        ticks = aiter(ctx.tick().sample(*sampled))
        while True:
            if not pins.get("response", "valid") and self._goes(self.answers and self.answers[0]):
                pins.put("response", "valid", 1)
            if not pins.get("read", "valid") and self._goes(self.reads and self.reads[0][0]):
                _, address, left = self.reads[0]
                beat = {"data": self.cells.get(address, 0), "error": 0, "last": left == 1}
                pins.put("read", "payload", Value.cast(data.const(beat)).value)
                pins.put("read", "valid", 1)
            pins.put("command", "ready", self._goes(self.now))
            pins.put("write", "ready", self._goes(self.writes and self.writes[0][0]))
            pins.settle(ctx)
            _, _, asked, given, *moved = await anext(ticks)
            self.now += 1
            if moved[0]:
                burst = command.from_bits(asked)
                self._burst(burst.address, burst.length + 1, write=burst.write)
            if moved[1]:
                beat = word.from_bits(given)
                self._store(beat.data, last=beat.last)
            if moved[2]:
                self.answers.popleft()
                pins.put("response", "valid", 0)
            if moved[3]:
                pins.put("read", "valid", 0)
                self._step(self.reads)

    def _goes(self, since: object) -> bool:
        """Return whether a stream that may go on ``since`` then does so now; never if empty."""
        return isinstance(since, int) and since <= self.now and self.random.random() >= 0.5

    def _later(self) -> int:
        return self.now + self.random.randint(20, 60)

    def _burst(self, address: int, beats: int, *, write: int) -> None:
        assert address // self.page == (address + beats - 1) // self.page, "crosses a boundary"
        (self.writes if write else self.reads).append([self._later(), address, beats])

    def _store(self, word: int, *, last: int) -> None:
        _, address, left = self.writes[0]
        assert bool(last) == (left == 1), f"last is {last} with {left} beats left"
        self.cells[address] = word
        self._step(self.writes)
        if left == 1:
            self.answers.append(self._later())

    def _step(self, bursts: deque[list[int]]) -> None:
        bursts[0][1] += 1
        bursts[0][2] -= 1
        if not bursts[0][2]:
            bursts.popleft()
