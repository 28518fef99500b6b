"""Testbench for phases with resets in between, with access to the component's signals."""

from collections.abc import Awaitable, Callable, Collection
from random import Random

from amaranth.hdl import ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from seedbed.sim.case import Phase
from seedbed.sim.harness import stream_ports
from seedbed.sim.memories import checked
from seedbed.sim.pins import Pins
from seedbed.sim.split import split

__all__ = ["ResetBench"]


class ResetBench:
    """Runs phases on the streams of ``dut``.

    Parameters
    ----------
    dut
        The component.
    random
        Generator of pauses of every port, in about half of the cycles; without it there are none.
    others
        Streams that are not driven.
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
        """Run ``process(ctx)`` in the simulator, with background processes."""
        simulator = Simulator(split(checked(ResetInserter({"sync": self._reset})(self.dut))))
        simulator.add_clock(1e-8)
        for other in background:
            simulator.add_testbench(other, background=True)
        simulator.add_testbench(process)
        simulator.run()

    async def run_phase(
        self,
        ctx,
        phase: Phase,
        *,
        cycles: int = 20000,
        until: Signal | None = None,
    ) -> dict[str, list[int]]:
        """Send the inputs of ``phase``; return the output beats when all expected ones came.

        It ends after ``cycles`` cycles at the latest, or when ``until`` is 1.
        """
        pins = self._pins
        send = {name: list(phase.inputs.get(name, [])) for name in self._inputs}
        received: dict[str, list[int]] = {name: [] for name in self._outputs}
        ticks = aiter(ctx.tick().sample(*pins.sampled))
        for _ in range(cycles):
            if until is not None:
                pins.settle(ctx)
                if ctx.get(until):
                    break
            transfers = {name: len(beats) for name, beats in received.items()}
            for name, queue in send.items():
                if not queue or pins.get(name, "valid"):
                    continue
                beat = len(phase.inputs[name]) - len(queue)
                if phase.may_send(name, beat, transfers) and self._unpaused():
                    pins.put(name, "payload", queue[0])
                    pins.put(name, "valid", 1)
            for name in received:
                pins.put(name, "ready", self._unpaused())
            pins.settle(ctx)
            _, _, *seen = await anext(ticks)
            for name, (valid, ready, payload) in pins.ports(seen).items():
                if valid and ready and name in send:
                    send[name].pop(0)
                    pins.put(name, "valid", 0)
                elif valid and ready:
                    received[name].append(payload)
            if not any(send.values()) and all(
                len(received[name]) >= len(phase.outputs.get(name, [])) for name in received
            ):
                break
        pins.settle(ctx)
        return received

    def _unpaused(self) -> bool:
        return self._random is None or self._random.random() < 0.5

    def expected(self, phase: Phase) -> dict[str, list[int]]:
        """Return what :meth:`run_phase` returns without an error."""
        return {name: list(phase.outputs.get(name, [])) for name in self._outputs}

    def clear_inputs(self, ctx) -> None:
        """Set valid of all inputs to 0."""
        for name in self._inputs:
            self._pins.put(name, "valid", 0)
        self._pins.settle(ctx)

    async def reset(self, ctx) -> None:
        """Reset the component, and clear its inputs."""
        ctx.set(self._reset, 1)
        await ctx.tick()
        self.clear_inputs(ctx)
        await ctx.tick()
        ctx.set(self._reset, 0)
