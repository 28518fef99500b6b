"""The bench that plays a case on emitted Verilog, with the stream models of cocotbext-axi.

It runs inside the simulator: :func:`seedbed.sim.verilate.run` starts it, and ``SEEDBED_RUN`` names
the file that says which case, which ports, whether to stall, and the seed.
"""

import os
from collections.abc import Iterator
from json import loads
from math import inf
from pathlib import Path
from random import Random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge
from cocotbext.axi.stream import define_stream

from seedbed.sim.case import TIMEOUT_CYCLES, Case, Phase

__all__ = ["Bench", "Bus", "Sink", "Source", "runs_case_after_resets", "runs_case_from_power_up"]

#: Every stream of the emitted Verilog has these names: ``o_payload``, ``o_valid``, ``o_ready``.
Bus, Beat, Source, _AnySink, _ = define_stream("Beat", signals=["payload", "valid", "ready"])


class Sink(_AnySink):
    """Takes up to ``limit`` beats into its queue; its parent cannot be told to take none."""

    limit: float = 0

    def full(self) -> bool:
        return self.count() >= self.limit

    def allow(self, limit: float) -> None:
        """Take beats until ``limit`` are in the queue."""
        self.limit = limit
        self.wake_event.set()


class Bench:
    """Sources and sinks on every stream of ``dut``, and the stream rules checked every cycle.

    ``stalls`` pauses every port at random; with ``patient`` as well, no ready comes before its
    valid: a core whose valid waits for ready hangs.
    """

    def __init__(self, dut, setup: dict, *, patient: bool = False):
        self.dut, self.patient = dut, patient
        self.case = Case.from_json(setup["case"])
        self.stalls, self.seed = setup["stalls"], setup["seed"]
        self.pending: dict[str, int | None] = {}
        dut.rst.value = 0
        self.sources = {name: self._model(Source, name) for name in setup["inputs"]}
        self.sinks = {name: self._model(Sink, name) for name in setup["outputs"]}
        Clock(dut.clk, 10, unit="ns").start()

    def _model(self, kind, name: str):
        bus = Bus.from_prefix(self.dut, name)
        model = kind(bus, self.dut.clk, self.dut.rst)
        if self.stalls:
            model.set_pause_generator(self._pauses(model, Random(f"{self.seed} {name}")))
        return model

    def _pauses(self, model, random: Random) -> Iterator[bool]:
        waits = self.patient and isinstance(model, Sink)
        while True:
            yield random.random() < 0.5 or (waits and not model.bus.valid.value)

    def check(self, holds: bool, message: str) -> None:
        """Fail with ``message`` and what repeats the run, unless ``holds``."""
        if not holds:
            raise AssertionError(f"{message}\n  stalls={self.stalls} seed={self.seed}")

    async def reset(self) -> None:
        """Reset the core and forget what was under way."""
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 2)
        await FallingEdge(self.dut.clk)
        self.dut.rst.value = 0
        self.pending.clear()
        for model in [*self.sources.values(), *self.sinks.values()]:
            model.clear()

    async def cycle(self) -> dict[str, bool]:
        """Wait for the middle of the next cycle; return which ports transfer at its end.

        Models and core change at rising edges alone, so that the falling edge shows what the next
        rising edge will see. The outputs are held to the stream rules here.
        """
        await FallingEdge(self.dut.clk)
        moves = {}
        for name, model in (self.sources | self.sinks).items():
            valid, ready = bool(model.bus.valid.value), bool(model.bus.ready.value)
            moves[name] = valid and ready
            if name not in self.sinks:
                continue
            pending = self.pending.get(name)
            payload = int(model.bus.payload.value) if valid else None
            if pending is not None:
                self.check(valid, f"{name}: valid fell before the beat was taken")
                self.check(payload == pending, f"{name}: the payload changed while it waited")
            self.pending[name] = None if ready else payload
        return moves

    async def phase(self, number: int, phase: Phase) -> None:
        """Play one phase and compare what the sinks took."""
        expected = {name: phase.outputs.get(name, []) for name in self.sinks}
        dropped = dict.fromkeys(self.sinks, 0)
        waiting = {name: list(payloads) for name, payloads in phase.inputs.items()}
        transfers = dict.fromkeys(self.sinks, 0)
        self._send(phase, waiting, transfers)
        draining = phase.drain and any(phase.inputs.values())
        for name, sink in self.sinks.items():
            sink.allow(inf if draining else len(expected[name]))
        waited = 0
        while waited < TIMEOUT_CYCLES:
            moves = await self.cycle()
            for name in transfers:
                transfers[name] += moves[name]
            if phase.after:
                self._send(phase, waiting, transfers)
            # What is thrown away is no progress.
            moved = any(moves[name] for name in (self.sources if draining else moves))
            waited = 0 if moved else waited + 1
            # A source takes the next beat from its queue when the last one has gone.
            sent = not any(waiting.values()) and all(
                source.empty() and (not source.bus.valid.value or moves[name])
                for name, source in self.sources.items()
            )
            if draining and sent:
                draining = False
                for name, sink in self.sinks.items():
                    dropped[name] = sink.count() + moves[name]
                    sink.allow(dropped[name] + len(expected[name]))
            elif sent and not any(moves.values()) and all(s.full() for s in self.sinks.values()):
                break
        hangs = f"phase {number} hangs: not all inputs were accepted"
        self.check(not draining, hangs)
        for name, sink in self.sinks.items():
            beats = [int(sink.recv_nowait().payload) for _ in range(sink.count())]
            beats = beats[dropped[name] :]
            for beat, (want, got) in enumerate(zip(expected[name], beats, strict=False)):
                self.check(
                    want == got,
                    f"{name}, phase {number}, beat {beat} of the phase:\n"
                    f"  expected {want:#x}\n  got      {got:#x}",
                )
            self.check(
                len(beats) == len(expected[name]),
                f"{name}, phase {number} hangs: {len(beats)} beats of {len(expected[name])} came",
            )
        self.check(waited < TIMEOUT_CYCLES, hangs)

    def _send(self, phase: Phase, waiting: dict, transfers: dict[str, int]) -> None:
        """Give the sources the beats that may be sent by now."""
        for name, left in waiting.items():
            first = len(phase.inputs[name]) - len(left)
            while left and phase.may_send(name, first, transfers):
                self.sources[name].send_nowait(Beat(payload=left.pop(0)))
                first += 1

    async def run(self) -> None:
        """Play the whole case."""
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
    """The initial values are enough: no reset comes before the case."""
    await Bench(dut, _setup(), patient=True).run()


@cocotb.test()
async def runs_case_after_resets(dut):
    """A reset anywhere brings the core back to where power-up left it."""
    bench = Bench(dut, _setup())
    case, random = bench.case, Random(f"{bench.seed} resets")
    ports = [p.inputs | p.outputs for p in (case.phases[:1] if case.retains else case.phases)]
    # No phase is over in fewer cycles than its busiest port has beats.
    cycles = sum(max(map(len, port.values()), default=0) for port in ports)
    for _ in range(3):
        await bench.reset()
        run = cocotb.start_soon(bench.run())
        await ClockCycles(dut.clk, random.randint(1, max(1, cycles)))
        run.cancel()
    await bench.reset()
    await bench.run()
