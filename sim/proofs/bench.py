"""Building blocks of the proofs' harnesses: free inputs, the stream rules, past values.

A harness has a clock and no reset: it starts from the reset state. With reset as a free input, a
valid beat could be dropped at any time.
"""

import re
from collections.abc import Iterator

from amaranth.hdl import Assert, ClockDomain, Cover, Fragment, Module, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.sim.harness import stream_ports

__all__ = [
    "cover",
    "duplicates_equal",
    "free",
    "free_inputs",
    "inside_of",
    "past",
    "serial_step",
    "steady",
    "stream_rules",
    "transfer",
]


def free_inputs(
    component: wiring.Component, *, idle: tuple[str, ...] = ()
) -> tuple[Module, dict[str, Signal]]:
    """Return a harness of ``component`` whose stream inputs are unconstrained.

    The second result is the component's internal signals by name, those of submodules as
    ``submodule.name``: an induction often needs them. The streams in ``idle`` transfer nothing.
    """
    m = Module()
    m.domains.sync = ClockDomain(reset_less=True)
    fragment = Fragment.get(component, None)
    m.submodules.dut = fragment
    for name, flow in stream_ports(component.signature):
        port = getattr(component, name)
        if name not in idle:
            free(m, *([port.valid, port.payload] if flow is In else [port.ready]))
    return m, dict(inside_of(fragment))


def free(m: Module, *ports) -> None:
    """Let inputs have any values in every cycle."""
    for port in map(Value.cast, ports):
        m.d.comb += port.eq(AnySeq(len(port)))


def steady(m: Module, *ports) -> None:
    """Let inputs have any values, the same ones in all cycles."""
    for port in map(Value.cast, ports):
        m.d.comb += port.eq(AnyConst(len(port)))


def inside_of(fragment, prefix: str = "") -> Iterator[tuple[str, Signal]]:
    """Return the signals that a fragment drives, those of its submodules as ``submodule.name``."""
    for statements in fragment.statements.values():
        for signal in statements._lhs_signals():
            yield prefix + signal.name, signal
    for child, name, _ in fragment.subfragments:
        yield from inside_of(child, f"{prefix}{name}.")


def duplicates_equal(m: Module, inside: dict[str, Signal], names: str, value: Value) -> None:
    """Assert that all duplicates of a register, found by a pattern of names, equal ``value``."""
    for name, copy in inside.items():
        if re.fullmatch(names, name):
            m.d.comb += Assert(copy == value)


def transfer(stream) -> Value:
    """Return whether a beat is transferred in this cycle."""
    return stream.valid & stream.ready


def past(m: Module, value) -> Signal:
    """Return ``value`` of the previous cycle; 0 in the first cycle."""
    value = Value.cast(value)
    before = Signal(value.shape())
    m.d.sync += before.eq(value)
    return before


def cover(m: Module, *conditions) -> None:
    """Add a cover of each condition, which must be reached."""
    for condition in conditions:
        m.d.comb += Cover(condition)


def stream_rules(m: Module, stream) -> None:
    """Assert that a valid beat is stable until its transfer."""
    payload = Value.cast(stream.payload)
    pending, before = past(m, stream.valid & ~stream.ready), past(m, payload)
    with m.If(pending):
        m.d.comb += [Assert(stream.valid), Assert(payload == before)]
    cover(m, pending & transfer(stream) & (payload != 0))


def serial_step(config, state, steps: int) -> Value:
    """Return the state after ``steps`` bit-serial steps of an LFSR, by the definition.

    It does not use the matrices that the components are built from.
    """
    value = Value.cast(state)
    for _ in range(steps):
        new = value[config.taps[0]]
        for tap in config.taps[1:]:
            new = new ^ value[tap]
        value = (value >> 1) | (new << (config.width - 1))
        value = value[: config.width]
    return value
