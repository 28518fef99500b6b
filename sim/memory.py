"""Model of external memory for Amaranth's simulator, with random latency and back-pressure."""

from collections import deque
from random import Random

from amaranth.hdl import Value
from amaranth.lib import wiring

from seedbed.sim.pins import Pins

__all__ = ["Memory"]


class Memory:
    """Serves bursts in order, each after 20 to 60 cycles; its streams pause in half of all cycles.

    ``cells`` is the contents, by the address of a beat; other addresses read as 0. A burst that
    crosses a page boundary, or has ``last`` at a wrong beat, raises ``AssertionError``.

    Parameters
    ----------
    dut
        The component with the memory ports of the forward cache.
    page
        Beats per page.
    random
        Generator of latencies and pauses.
    """

    def __init__(self, dut: wiring.Component, *, page: int, random: Random):
        self.page, self.random = page, random
        self.cells: dict[int, int] = {}
        # Outstanding bursts: the cycle from which they may continue, the next beat, beats left.
        self.reads: deque[list[int]] = deque()
        self.writes: deque[list[int]] = deque()
        # From which cycle on each write burst may have its response.
        self.responses: deque[int] = deque()
        self.now = 0
        self._inputs = {"response": dut.i_response, "read": dut.i_read}
        self._outputs = {"command": dut.o_command, "write": dut.o_write}
        self._pins = Pins(self._inputs, self._outputs)

    def abort(self, ctx, *, responses: bool = True) -> None:
        """Discard write bursts and, with ``responses``, outstanding reads and responses."""
        self.writes.clear()
        if responses:
            self.reads.clear()
            self.responses.clear()
            for name in self._inputs:
                self._pins.put(name, "valid", 0)
        self._pins.settle(ctx)

    async def run(self, ctx) -> None:
        """Serve the component, endlessly, as a background testbench."""
        pins = self._pins
        sampled = [Value.cast(s.payload) for s in self._outputs.values()]
        sampled += [s.valid & s.ready for s in (self._outputs | self._inputs).values()]
        command, word, data = (
            stream.payload.shape() for stream in (*self._outputs.values(), self._inputs["read"])
        )
        ticks = aiter(ctx.tick().sample(*sampled))
        while True:
            if not pins.get("response", "valid") and self._ready(
                self.responses and self.responses[0]
            ):
                pins.put("response", "valid", 1)
            if not pins.get("read", "valid") and self._ready(self.reads and self.reads[0][0]):
                _, address, left = self.reads[0]
                beat = {"data": self.cells.get(address, 0), "error": 0, "last": left == 1}
                pins.put("read", "payload", Value.cast(data.const(beat)).value)
                pins.put("read", "valid", 1)
            pins.put("command", "ready", self._ready(self.now))
            pins.put("write", "ready", self._ready(self.writes and self.writes[0][0]))
            pins.settle(ctx)
            _, _, command_bits, write_bits, *fired = await anext(ticks)
            self.now += 1
            if fired[0]:
                burst = command.from_bits(command_bits)
                self._burst(burst.address, burst.length + 1, write=burst.write)
            if fired[1]:
                beat = word.from_bits(write_bits)
                self._store(beat.data, last=beat.last)
            if fired[2]:
                self.responses.popleft()
                pins.put("response", "valid", 0)
            if fired[3]:
                pins.put("read", "valid", 0)
                self._advance(self.reads)

    def _ready(self, since: object) -> bool:
        """Return whether a stream may transfer now: from cycle ``since`` on, unless it pauses."""
        return isinstance(since, int) and since <= self.now and self.random.random() >= 0.5

    def _due(self) -> int:
        return self.now + self.random.randint(20, 60)

    def _burst(self, address: int, beats: int, *, write: int) -> None:
        assert address // self.page == (address + beats - 1) // self.page, "crosses a boundary"
        (self.writes if write else self.reads).append([self._due(), address, beats])

    def _store(self, word: int, *, last: int) -> None:
        _, address, left = self.writes[0]
        assert bool(last) == (left == 1), f"last is {last} with {left} beats left"
        self.cells[address] = word
        self._advance(self.writes)
        if left == 1:
            self.responses.append(self._due())

    def _advance(self, bursts: deque[list[int]]) -> None:
        bursts[0][1] += 1
        bursts[0][2] -= 1
        if not bursts[0][2]:
            bursts.popleft()
