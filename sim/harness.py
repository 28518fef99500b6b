"""Runs a case on a component in Amaranth's simulator, with stalls and a protocol monitor."""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import Enum
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from amaranth.hdl import Shape, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from seedbed.sim.case import Case
from seedbed.sim.memories import checked
from seedbed.sim.pins import Pins
from seedbed.sim.split import split

__all__ = [
    "Mismatch",
    "Result",
    "Stalls",
    "payload_bits",
    "simulate",
    "stream_ports",
    "with_stalls",
]

T = TypeVar("T")


class Mismatch(AssertionError):
    """A wrong response or a broken stream rule; the message has the seed that repeats the run."""


class Stalls(Enum):
    """Which side of the handshakes pauses at random."""

    NONE = "none"
    VALID = "valid"
    READY = "ready"
    BOTH = "both"


def with_stalls(configs: Sequence[T]) -> list[tuple[T, Stalls]]:
    """Pair each configuration with one kind of random stalls, cyclically.

    This is for slow simulations whose latency and throughput are tested without stalls.
    """
    return list(zip(configs, cycle([Stalls.BOTH, Stalls.READY, Stalls.VALID])))


@dataclass
class Result:
    """The total of cycles, and the cycle of every transfer, by port."""

    cycles: int = 0
    transfers: dict[str, list[int]] = field(default_factory=dict)


def stream_ports(signature: wiring.Signature) -> Iterator[tuple[str, wiring.Flow]]:
    """Yield name and direction of each stream of a component."""
    for name, member in signature.members.items():
        if member.is_signature and isinstance(member.signature, stream.Signature):
            yield name, member.flow


def payload_bits(signature: wiring.Signature, name: str) -> int:
    """Return the width of a stream's payload."""
    return Shape.cast(signature.members[name].signature.members["payload"].shape).width


class _Monitor:
    """Checks the stream rules of an output: a valid beat is stable until its transfer."""

    def __init__(self, port: str):
        self.port = port
        self.pending: int | None = None

    def check(self, valid: int, ready: int, payload: int) -> None:
        if self.pending is not None:
            if not valid:
                raise Mismatch(f"{self.port}: valid fell before the transfer")
            if payload != self.pending:
                raise Mismatch(f"{self.port}: the payload changed before the transfer")
        self.pending = payload if valid and not ready else None


class _Bench:
    """Drives every port in each cycle; one instance per run."""

    def __init__(self, dut, case: Case, stalls: Stalls, random: Random):
        self.case, self.random = case, random
        self.inputs = {n: getattr(dut, n) for n, flow in stream_ports(dut.signature) if flow is In}
        self.outputs = {
            n: getattr(dut, n) for n, flow in stream_ports(dut.signature) if flow is not In
        }
        self.pauses_valid = stalls in (Stalls.VALID, Stalls.BOTH)
        self.pauses_ready = stalls in (Stalls.READY, Stalls.BOTH)
        # Ready waits for valid: a core whose valid waits for ready then times out.
        self.ready_after_valid = stalls is Stalls.READY
        self.result = Result(transfers={name: [] for name in [*self.inputs, *self.outputs]})
        self.monitors = {name: _Monitor(name) for name in self.outputs}
        self.offered: dict[str, bool] = dict.fromkeys(self.inputs, False)
        self.valid = {name: Value.cast(port.valid) for name, port in self.outputs.items()}
        self.pins = Pins(self.inputs, self.outputs)
        self.ticks: Any = None

    async def cycle(self, ctx, send, ready) -> dict[str, int | None]:
        """Run one cycle; return each port's transferred payload, or None."""
        if self.ticks is None:
            self.ticks = aiter(ctx.tick().sample(*self.pins.sampled))
        for name in self.inputs:
            if send.get(name) and not self.offered[name]:
                self.offered[name] = not (self.pauses_valid and self.random.random() < 0.5)
                if self.offered[name]:
                    self.pins.put(name, "valid", 1)
                    self.pins.put(name, "payload", send[name][0])
        if self.ready_after_valid:
            self.pins.settle(ctx)
        for name, valid in self.valid.items():
            self.pins.put(
                name, "ready", ready(name, ctx.get(valid) if self.ready_after_valid else 0)
            )
        self.pins.settle(ctx)
        _, _, *seen = await anext(self.ticks)
        fired: dict[str, int | None] = {}
        for name, (valid, ready_now, payload) in self.pins.ports(seen).items():
            if name in self.monitors:
                self.monitors[name].check(valid, ready_now, payload)
            fired[name] = payload if valid and ready_now else None
            if fired[name] is not None:
                self.result.transfers[name].append(self.result.cycles)
                if name in self.inputs:
                    self.offered[name] = False
                    self.pins.put(name, "valid", 0)
        self.result.cycles += 1
        return fired

    def ready(self, wanted: bool, valid: int) -> bool:
        if not self.pauses_ready:
            return wanted
        return wanted and (not self.ready_after_valid or bool(valid)) and self.random.random() < 0.5

    async def run(self, ctx) -> None:
        for number, phase in enumerate(self.case.phases):
            send = {name: list(payloads) for name, payloads in phase.inputs.items()}
            expect = {name: list(payloads) for name, payloads in phase.outputs.items()}
            waited = 0
            transfers = dict.fromkeys(self.outputs, 0)
            while any(send.values()) or any(expect.values()):
                sending = any(send.values())
                draining = phase.drain and sending
                fired = await self.cycle(
                    ctx,
                    {
                        name: queue
                        for name, queue in send.items()
                        if queue
                        and phase.may_send(name, len(phase.inputs[name]) - len(queue), transfers)
                    },
                    lambda name, valid, d=draining, e=expect: self.ready(
                        d or bool(e.get(name)), valid
                    ),
                )
                waited += 1
                for name, payload in fired.items():
                    if payload is None:
                        continue
                    # Discarded beats are no progress: a seed that is never accepted times out.
                    if name in self.inputs:
                        waited = 0
                        send[name].pop(0)
                    elif not draining:
                        waited = 0
                        transfers[name] += 1
                        self.compare(phase, number, name, expect[name].pop(0), payload)
                if waited > self.case.timeout_cycles:
                    counts = {n: len(p) for n, p in (send | expect).items() if p}
                    raise Mismatch(f"phase {number} timed out with payloads left at {counts}")
        for _ in range(20 if self.case.quiet else 0):
            fired = await self.cycle(ctx, {}, lambda *_: True)
            for name in self.outputs:
                if fired[name] is not None:
                    raise Mismatch(f"{name}: a beat after the last one")

    def compare(self, phase, number: int, name: str, expected: int, payload: int) -> None:
        if payload == expected:
            return
        port = self.outputs[name].payload
        beat = len(self.result.transfers[name]) - 1
        shape = port.shape()
        show = shape.from_bits if hasattr(shape, "from_bits") else lambda bits: bits
        raise Mismatch(
            f"{name}, phase {number}, beat {beat} of the run:\n"
            f"  expected {show(expected)}\n  got      {show(payload)}"
        )


def simulate(
    component: wiring.Component,
    case: Case,
    *,
    stalls: Stalls = Stalls.NONE,
    seed: int = 1,
    vcd: Path | None = None,
    around: Callable[[Any], Coroutine[Any, Any, None]] | None = None,
) -> Result:
    """Run ``case`` on ``component``, bit-exactly, from the reset state.

    Parameters
    ----------
    component
        A component whose top-level members are streams.
    case
        The stimulus and the expected response.
    stalls, seed
        Which side pauses, in about half of the cycles, and the random seed.
    vcd
        Where to write the waveform, if one is wanted.
    around
        A process that drives the ports that are no streams, such as the pins of a memory.

    Raises :class:`Mismatch` at the first beat that differs, at a broken stream rule, at a read of a
    memory that :func:`~seedbed.sim.memories.checked` refuses, or after
    ``case.timeout_cycles`` cycles without a transfer.
    """
    bench = _Bench(component, case, stalls, Random(seed))
    design = checked(component)
    # A waveform keeps the modules of the design.
    simulator = Simulator(design if vcd else split(design))
    simulator.add_clock(1e-8)
    with simulator.write_vcd(str(vcd)) if vcd else nullcontext():
        simulator.add_testbench(bench.run)
        if around:
            simulator.add_testbench(around, background=True)
        try:
            simulator.run()
        except AssertionError as error:
            # A model around the component has errors of its own.
            if type(error) not in (AssertionError, Mismatch):
                raise
            raise Mismatch(f"{error}\n  stalls={stalls.value} seed={seed}") from None
    return bench.result
