"""A bench that plays phases one by one and resets in between, with the component open to view."""

from collections.abc import Awaitable, Callable, Collection
from random import Random

from amaranth.hdl import ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from seedbed.sim.apart import apart
from seedbed.sim.case import Phase
from seedbed.sim.harness import stream_ports
from seedbed.sim.pins import Pins

__all__ = ["ResetBench"]


class ResetBench:
    """Plays phases on the streams of ``dut``.

    Parameters
    ----------
    dut
        The component.
    random
        Where pauses of every port are drawn from, in about half of the cycles; none without it.
    others
        Streams that are not played.
    """

    def __init__(
        self,
        dut: wiring.Component,
        *,
        random: Random | None = None,
        others: Collection[str] = (),
    ):
        self.dut, self._random, self._reset = dut, random, Signal()
        flows = {name: flow for name, flow in stream_ports(dut.signature) if name not in others}
        self._inputs = {name: getattr(dut, name) for name, flow in flows.items() if flow is In}
        self._outputs = {name: getattr(dut, name) for name in flows if name not in self._inputs}
        self._pins = Pins(self._inputs, self._outputs)

    def run(
        self, process: Callable[..., Awaitable[None]], *background: Callable[..., Awaitable[None]]
    ) -> None:
        """Run ``process(ctx)`` in the simulator, and others beside it until it ends."""
        simulator = Simulator(apart(ResetInserter({"sync": self._reset})(self.dut)))
        simulator.add_clock(1e-8)
        for other in background:
            simulator.add_testbench(other, background=True)
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
        pins = self._pins
        send = {name: list(phase.inputs.get(name, [])) for name in self._inputs}
        came: dict[str, list[int]] = {name: [] for name in self._outputs}
        ticks = aiter(ctx.tick().sample(*pins.sampled))
        for _ in range(cycles):
            if until is not None:
                pins.settle(ctx)
                if ctx.get(until):
                    break
            transfers = {name: len(beats) for name, beats in came.items()}
            for name, left in send.items():
                if not left or pins.get(name, "valid"):
                    continue
                beat = len(phase.inputs[name]) - len(left)
                if phase.may_send(name, beat, transfers) and self._goes():
                    pins.put(name, "payload", left[0])
                    pins.put(name, "valid", 1)
            for name in came:
                pins.put(name, "ready", self._goes())
            pins.settle(ctx)
            _, _, *seen = await anext(ticks)
            for name, (valid, ready, payload) in pins.ports(seen).items():
                if valid and ready and name in send:
                    send[name].pop(0)
                    pins.put(name, "valid", 0)
                elif valid and ready:
                    came[name].append(payload)
            if not any(send.values()) and all(
                len(came[name]) >= len(phase.outputs.get(name, [])) for name in came
            ):
                break
        pins.settle(ctx)
        return came

    def _goes(self) -> bool:
        return self._random is None or self._random.random() < 0.5

    def expected(self, phase: Phase) -> dict[str, list[int]]:
        """Return what ``play`` returns where all comes as it should."""
        return {name: list(phase.outputs.get(name, [])) for name in self._outputs}

    def drop(self, ctx) -> None:
        """Take back what waits at the inputs."""
        for name in self._inputs:
            self._pins.put(name, "valid", 0)
        self._pins.settle(ctx)

    async def reset(self, ctx) -> None:
        """Reset the component, and :meth:`drop` what is under way."""
        ctx.set(self._reset, 1)
        await ctx.tick()
        self.drop(ctx)
        await ctx.tick()
        ctx.set(self._reset, 0)
