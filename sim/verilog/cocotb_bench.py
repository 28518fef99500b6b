"""Testbench that runs a case on emitted Verilog, with the stream models of cocotbext-axi.

It runs inside the simulator: :func:`seedbed.sim.verilog.verilate.run` starts it. ``SEEDBED_RUN``
names a JSON file with the case, the ports, whether to stall, and the seed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from json import loads
from math import inf
from pathlib import Path
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

from seedbed.sim.case import Case, Phase
from seedbed.sim.verilog import cocotb_streams as streams

__all__ = ["Bench", "runs_case_after_resets", "runs_case_from_power_up"]


class Bench:
    """Sources and sinks on every stream of ``dut``; the stream rules are checked every cycle.

    ``stalls`` pauses every port at random. With ``ready_after_valid``, ready also waits for valid:
    a core whose valid waits for ready then times out.
    """

    def __init__(self, dut, setup: dict, *, ready_after_valid: bool = False):
        self.dut, self.ready_after_valid = dut, ready_after_valid
        self.case = Case.from_json(setup["case"])
        self.stalls, self.seed = setup["stalls"], setup["seed"]
        dut.rst.value = 0
        self.sources = {name: self._model(streams.source, name) for name in setup["inputs"]}
        self.sinks = {name: self._model(streams.sink, name) for name in setup["outputs"]}
        self.monitors = {name: streams.Monitor(model, name) for name, model in self.sinks.items()}
        Clock(dut.clk, 10, unit="ns").start()

    def _model(self, kind, name: str):
        model = kind(self.dut, name)
        if self.stalls:
            waits_for_valid = self.ready_after_valid and kind is streams.sink
            paused = streams.pauses(Random(f"{self.seed} {name}"))
            if waits_for_valid:
                paused = (each or not model.bus.valid.value for each in paused)
            model.set_pause_generator(paused)
        return model

    @contextmanager
    def _repeatable(self) -> Iterator[None]:
        """Add the settings that repeat the run to the message of a failed check."""
        try:
            yield
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n  stalls={self.stalls} seed={self.seed}") from None

    def check(self, condition: bool, message: str) -> None:
        """Unless ``condition``, fail with ``message`` and the settings that repeat the run."""
        with self._repeatable():
            if not condition:
                raise AssertionError(message)

    async def reset(self) -> None:
        """Reset the core and discard all beats in the models."""
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        for model in [*self.sources.values(), *self.sinks.values(), *self.monitors.values()]:
            model.clear()

    async def cycle(self) -> dict[str, bool]:
        """Wait for the middle of the next cycle; return which ports transfer at its end.

        Models and core change at rising edges only, so the values at the falling edge are those at
        the next rising edge. The stream rules of the outputs are checked here.
        """
        await FallingEdge(self.dut.clk)
        fired = {}
        for name, model in self.sources.items():
            fired[name] = bool(model.bus.valid.value) and bool(model.bus.ready.value)
        with self._repeatable():
            fired |= {name: monitor.sample() for name, monitor in self.monitors.items()}
        return fired

    async def phase(self, number: int, phase: Phase) -> None:
        """Run one phase, and compare the beats of the sinks."""
        expected = {name: phase.outputs.get(name, []) for name in self.sinks}
        dropped = dict.fromkeys(self.sinks, 0)
        waiting = {name: list(payloads) for name, payloads in phase.inputs.items()}
        transfers = dict.fromkeys(self.sinks, 0)
        self._send(phase, waiting, transfers)
        draining = phase.drain and any(phase.inputs.values())
        for name, sink in self.sinks.items():
            sink.allow(inf if draining else len(expected[name]))
        waited = 0
        while waited < self.case.timeout_cycles:
            fired = await self.cycle()
            for name in transfers:
                transfers[name] += fired[name]
            if phase.after:
                self._send(phase, waiting, transfers)
            # Discarded beats are no progress.
            progress = any(fired[name] for name in (self.sources if draining else fired))
            waited = 0 if progress else waited + 1
            # A source takes the next beat from its queue after the transfer of the last one.
            sent = not any(waiting.values()) and all(
                source.empty() and (not source.bus.valid.value or fired[name])
                for name, source in self.sources.items()
            )
            if draining and sent:
                draining = False
                for name, sink in self.sinks.items():
                    dropped[name] = sink.count() + fired[name]
                    sink.allow(dropped[name] + len(expected[name]))
            elif sent and not any(fired.values()) and all(s.full() for s in self.sinks.values()):
                break
        timed_out = f"phase {number} timed out: not all inputs were accepted"
        self.check(not draining, timed_out)
        board = streams.Scoreboard(f", phase {number}")
        with self._repeatable():
            for name, sink in self.sinks.items():
                beats = [sink.take() for _ in range(sink.count())]
                board.expect(name, *expected[name])
                for beat in beats[dropped[name] :]:
                    board.add(name, beat)
            board.check()
        self.check(waited < self.case.timeout_cycles, timed_out)

    def _send(self, phase: Phase, waiting: dict, transfers: dict[str, int]) -> None:
        """Queue the beats that may be sent now."""
        for name, left in waiting.items():
            first = len(phase.inputs[name]) - len(left)
            while left and phase.may_send(name, first, transfers):
                self.sources[name].put(left.pop(0))
                first += 1

    async def run(self) -> None:
        """Run the whole case."""
        for number, phase in enumerate(self.case.phases):
            await self.phase(number, phase)
        if self.case.quiet:
            for sink in self.sinks.values():
                sink.allow(inf)
            await ClockCycles(self.dut.clk, 20)
            for name, sink in self.sinks.items():
                self.check(sink.empty(), f"{name}: a beat after the last one")


def _setup() -> dict:
    return loads(Path(os.environ["SEEDBED_RUN"]).read_text())


@cocotb.test()
async def runs_case_from_power_up(dut):
    """The initial values suffice: there is no reset before the case."""
    await Bench(dut, _setup(), ready_after_valid=True).run()


@cocotb.test()
async def runs_case_after_resets(dut):
    """A reset at any time restores the state after power-up."""
    bench = Bench(dut, _setup())
    case, random = bench.case, Random(f"{bench.seed} resets")
    ports = [p.inputs | p.outputs for p in (case.phases[:1] if case.retains else case.phases)]
    # A phase takes at least as many cycles as its busiest port has beats.
    cycles = sum(max(map(len, port.values()), default=0) for port in ports)
    for _ in range(3):
        await bench.reset()
        run = cocotb.start_soon(bench.run())
        await ClockCycles(dut.clk, random.randint(1, max(1, cycles)))
        run.cancel()
    await bench.reset()
    await bench.run()
