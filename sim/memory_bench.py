"""A bench of a component with a memory behind it that keeps what it is given, and with resets."""

from collections.abc import Awaitable, Callable
from random import Random

from amaranth.hdl import ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from seedbed.sim.case import Phase
from seedbed.sim.harness import stream_ports
from seedbed.sim.memory import Memory

__all__ = ["PORTS", "MemoryBench"]

#: The ports that the memory serves.
PORTS = ("o_command", "o_write", "i_response", "i_read")


class MemoryBench:
    """Plays phases on the ports of ``dut`` that do not go to the memory; all ports pause at random.

    Parameters
    ----------
    dut
        The component, with the ports of the forward cache to a memory.
    page
        Beats between two boundaries that no burst crosses.
    seed
        Where latencies and pauses are drawn from.
    """

    def __init__(self, dut: wiring.Component, page: int, seed: int):
        self.dut, self.random, self._reset = dut, Random(seed), Signal()
        self.memory = Memory(page=page, random=self.random)
        flows = {name: flow for name, flow in stream_ports(dut.signature) if name not in PORTS}
        self._inputs = [name for name, flow in flows.items() if flow is In]
        self.outputs = [name for name in flows if name not in self._inputs]

    def run(self, process: Callable[..., Awaitable[None]]) -> None:
        """Run ``process(ctx)`` in the simulator."""

        async def memory(ctx):
            await self.memory.run(ctx, self.dut)

        simulator = Simulator(ResetInserter({"sync": self._reset})(self.dut))
        simulator.add_clock(1e-8)
        simulator.add_testbench(memory, background=True)
        simulator.add_testbench(process)
        simulator.run()

    async def play(
        self,
        ctx,
        phase: Phase,
        *,
        cycles: int = 20000,
        until: Signal | None = None,
    ) -> dict[str, list[int]]:
        """Send what ``phase`` has; return what came until as much as it expects has.

        It ends after so many cycles at the latest, or when ``until`` is 1.
        """
        send = {name: list(phase.inputs.get(name, [])) for name in self._inputs}
        came: dict[str, list[int]] = {name: [] for name in self.outputs}
        names = [*send, *came]
        ports = [getattr(self.dut, name) for name in names]
        for _ in range(cycles):
            if until is not None and ctx.get(until):
                break
            for name, left in send.items():
                port = getattr(self.dut, name)
                if left and not ctx.get(port.valid) and self._half():
                    ctx.set(Value.cast(port.payload), left[0])
                    ctx.set(port.valid, 1)
            for name in came:
                ctx.set(getattr(self.dut, name).ready, self._half())
            sampled = [Value.cast(s) for p in ports for s in (p.payload, p.valid & p.ready)]
            _, _, *seen = await ctx.tick().sample(*sampled)
            for name, payload, moved in zip(names, seen[::2], seen[1::2], strict=True):
                if moved and name in send:
                    send[name].pop(0)
                    ctx.set(getattr(self.dut, name).valid, 0)
                elif moved:
                    came[name].append(payload)
            if not any(send.values()) and all(
                len(came[name]) >= len(phase.outputs.get(name, [])) for name in came
            ):
                break
        return came

    def _half(self) -> bool:
        return self.random.random() < 0.5

    def expected(self, phase: Phase) -> dict[str, list[int]]:
        """Return what ``play`` returns where all comes as it should."""
        return {name: list(phase.outputs.get(name, [])) for name in self.outputs}

    async def reset(self, ctx) -> None:
        """Reset the component, and break off what the memory and the ports have under way."""
        ctx.set(self._reset, 1)
        await ctx.tick()
        self.memory.reset(ctx, self.dut)
        for name in self._inputs:
            ctx.set(getattr(self.dut, name).valid, 0)
        await ctx.tick()
        ctx.set(self._reset, 0)
