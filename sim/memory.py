"""A memory behind the port of the forward cache, for Amaranth's simulator: slow, and in fits."""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from amaranth.hdl import Value

__all__ = ["Memory"]


@dataclass(kw_only=True)
class Memory:
    """Answers bursts in order, each after 20 to 60 cycles, and pauses every stream at random.

    ``cells`` has what was written, by the address of a beat; what was not reads as 0. A burst that
    crosses a boundary, or whose ``last`` stands at another beat, raises ``AssertionError``.

    Parameters
    ----------
    page
        Beats between two boundaries.
    random
        Where latencies and pauses are drawn from.
    stall
        How likely a stream pauses in a cycle.
    """

    page: int
    random: Random
    stall: float = 0.5
    cells: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Bursts that are not over: when they may go on, the next beat, how many are left.
        self.reads: deque[list[int]] = deque()
        self.writes: deque[list[int]] = deque()
        # When each burst that was written may be answered.
        self.answers: deque[int] = deque()
        self.now = 0

    def reset(self, ctx, dut) -> None:
        """Break off what is under way; what was written stays."""
        for waiting in (self.reads, self.writes, self.answers):
            waiting.clear()
        ctx.set(dut.i_response.valid, 0)
        ctx.set(dut.i_read.valid, 0)

    async def run(self, ctx, dut) -> None:
        """Serve ``dut``, for ever: a testbench that runs in the background."""
        command, write, response, read = dut.o_command, dut.o_write, dut.i_response, dut.i_read
        while True:
            if not ctx.get(response.valid) and self._goes(self.answers and self.answers[0]):
                ctx.set(response.valid, 1)
            if not ctx.get(read.valid) and self._goes(self.reads and self.reads[0][0]):
                _, address, left = self.reads[0]
                beat = {"data": self.cells.get(address, 0), "error": 0, "last": left == 1}
                ctx.set(read.payload, beat)
                ctx.set(read.valid, 1)
            ctx.set(command.ready, self._goes(self.now))
            ctx.set(write.ready, self._goes(self.writes and self.writes[0][0]))
            streams = (command, write, response, read)
            _, _, asked, word, *moved = await ctx.tick().sample(
                command.payload, write.payload, *(Value.cast(s.valid & s.ready) for s in streams)
            )
            self.now += 1
            if moved[0]:
                self._burst(asked.address, asked.length + 1, write=asked.write)
            if moved[1]:
                self._write(word.data, last=word.last)
            if moved[2]:
                self.answers.popleft()
                ctx.set(response.valid, 0)
            if moved[3]:
                ctx.set(read.valid, 0)
                self._step(self.reads)

    def _goes(self, since: object) -> bool:
        """Return whether a stream that may go on ``since`` then does so now; never if empty."""
        return isinstance(since, int) and since <= self.now and self.random.random() >= self.stall

    def _later(self) -> int:
        return self.now + self.random.randint(20, 60)

    def _burst(self, address: int, beats: int, *, write: int) -> None:
        assert address // self.page == (address + beats - 1) // self.page, "crosses a boundary"
        (self.writes if write else self.reads).append([self._later(), address, beats])

    def _write(self, word: int, *, last: int) -> None:
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
