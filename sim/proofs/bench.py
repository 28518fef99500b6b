"""What the proofs' harnesses are made of: free inputs, the stream rules, past values.

A harness has a clock and no reset: it starts from the state that reset leaves. Reset as a free
input would break every rule about waiting beats.
"""

import re
from collections.abc import Iterator

from amaranth.hdl import Assert, ClockDomain, Cover, Fragment, Module, Signal, Value
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim.harness import stream_ports

__all__ = ["around", "copies_agree", "happens", "past", "serial_step", "stream_rules", "transfer"]


def around(
    component: wiring.Component, *, idle: tuple[str, ...] = ()
) -> tuple[Module, dict[str, Signal]]:
    """Return a module around ``component`` whose streams do anything at any time.

    The second result is the component's own registers and wires by name, those of submodules as
    ``submodule.name``: an induction often needs to speak of them. The streams in ``idle`` carry
    nothing.
    """
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    fragment = Fragment.get(component, None)
    m.submodules.dut = fragment
    for name, flow in stream_ports(component.signature):
        port = getattr(component, name)
        driven = [port.valid, port.payload] if flow is In else [port.ready]
        for value in map(Value.cast, driven if name not in idle else []):
            m.d.comb += value.eq(AnySeq(len(value)))
    return m, dict(_inside(fragment))


def _inside(fragment, prefix: str = "") -> Iterator[tuple[str, Signal]]:
    for statements in fragment.statements.values():
        for signal in statements._lhs_signals():
            yield prefix + signal.name, signal
    for child, name, _ in fragment.subfragments:
        yield from _inside(child, f"{prefix}{name}.")


def copies_agree(m: Module, inside: dict[str, Signal], names: str, value: Value) -> None:
    """Assert that all registers whose names match are ``value``."""
    for name, copy in inside.items():
        if re.fullmatch(names, name):
            m.d.comb += Assert(copy == value)


def transfer(stream) -> Value:
    """Return whether a beat is transferred in this cycle."""
    return stream.valid & stream.ready


def past(m: Module, value) -> Signal:
    """Return ``value`` of the cycle before; 0 in the first one."""
    value = Value.cast(value)
    before = Signal(value.shape())
    m.d.sync += before.eq(value)
    return before


def happens(m: Module, *conditions) -> None:
    """Demand that each condition can come true within the proof's reach."""
    for condition in conditions:
        m.d.comb += Cover(condition)


def stream_rules(m: Module, stream) -> None:
    """Assert that a beat, once valid, stays and does not change until it is taken."""
    payload = Value.cast(stream.payload)
    waiting, before = past(m, stream.valid & ~stream.ready), past(m, payload)
    with m.If(waiting):
        m.d.comb += [Assert(stream.valid), Assert(payload == before)]
    happens(m, waiting & transfer(stream) & (payload != 0))


def serial_step(config, state, steps: int) -> Value:
    """Return the state after ``steps`` bit-serial steps of an LFSR, straight from the definition.

    Not by way of the matrices that the components are built of.
    """
    value = Value.cast(state)
    for _ in range(steps):
        new = value[config.taps[0]]
        for tap in config.taps[1:]:
            new = new ^ value[tap]
        value = (value >> 1) | (new << (config.width - 1))
        value = value[: config.width]
    return value
