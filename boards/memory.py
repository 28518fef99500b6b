"""The memory port of an application: an SDRAM with its controller, its registers and its pins."""

import time
from types import ModuleType
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Member, Out

from seedbed.boards.registers import Register
from seedbed.golden.sdram import lines_of_pin
from seedbed.hw.memory.memory_crossing import MemoryCrossing
from seedbed.hw.memory.memory_port import connect_memory, user_members
from seedbed.hw.memory.sdram import Sdram, pin_signature
from seedbed.spec import SdramConfig

if TYPE_CHECKING:
    # It imports pyserial, which a bitstream does not need.
    from seedbed.boards.device import Device

__all__ = [
    "CLOCK_MHZ",
    "DOMAIN",
    "MEMORY_REGISTERS",
    "add_memory",
    "application_mhz",
    "has_own_clock",
    "memory_of",
    "memory_ports",
    "pin_members",
    "require_memory",
]

#: The clock of an application with a memory that asks for no other one.
CLOCK_MHZ = 60
#: Cycles that the pads add to a read, with the application's clock and with one of the memory's
#: own. A register in each direction is two cycles; the delay of the chip's clock makes it one less
#: where a cycle is long enough.
PAD_CYCLES = {False: 1, True: 2}
#: The domain of a memory's own clock.
DOMAIN = "memory"
#: The registers of the self-test, a part of the map of every application with a memory.
MEMORY_REGISTERS = (
    Register("memory", "read", "bit 0: the self-test has ended; bit 1: it failed"),
    Register("memory_lines", "read", "bits of a beat's address at which the self-test failed"),
    Register("memory_bits", "read", "data pins at which the self-test failed"),
)


def memory_of(app: ModuleType) -> SdramConfig | None:
    """Return the memory that an application asks for by ``MEMORY``, or ``None``.

    Raises ``ValueError`` if its registers of the pads are not those of the boards, or the
    application has no registers for it.
    """
    found: SdramConfig | None = getattr(app, "MEMORY", None)
    if found is None:
        return None
    pads = PAD_CYCLES[has_own_clock(app)]
    if found.pad_cycles != pads:
        raise ValueError(
            f"the memory of the application with clock_mhz={found.clock_mhz} has "
            f"pad_cycles={pads}, not {found.pad_cycles}"
        )
    if not set(MEMORY_REGISTERS) <= set(app.REGISTERS):
        raise ValueError("the registers of an application with a memory are MEMORY_REGISTERS, too")
    return found


def application_mhz(app: ModuleType) -> int:
    """Return the clock of an application with a memory, in MHz."""
    mhz: int = getattr(app, "CLOCK_MHZ", CLOCK_MHZ)
    return mhz


def has_own_clock(app: ModuleType) -> bool:
    """Return whether the clock of an application's memory is not that of the application."""
    mhz: int = app.MEMORY.clock_mhz
    return mhz != application_mhz(app)


def memory_ports(config: SdramConfig) -> dict[str, Member]:
    """Return the ports of a design with a memory.

    They are :func:`seedbed.hw.memory.memory_port.user_members`, and come in addition to those of
    :func:`seedbed.boards.registers.ports`.
    """
    return user_members(config.address_bits, config.beat_bits)


def pin_members(config: SdramConfig) -> dict[str, Member]:
    """Return the pins of the memory as members of a top, each with the prefix ``sdram_``."""
    return {
        f"sdram_{name}": (In if member.flow is In else Out)(member.shape)
        for name, member in pin_signature(config).members.items()
    }


def add_memory(
    m: Module,
    top: wiring.Component,
    app: wiring.Component,
    config: SdramConfig,
    *,
    own_clock: bool = False,
):
    """Connect an application to the memory's pins at the top; return the registers' values.

    With ``own_clock``, the memory and its pins are in the domain :data:`DOMAIN`.
    """
    memory = Sdram(config)
    m.submodules.memory = DomainRenamer(DOMAIN)(memory) if own_clock else memory
    values = {name: getattr(memory.status, name) for name in ("done", "failed", "lines", "bits")}
    user: wiring.Component = app
    if own_clock:
        m.submodules.crossing = user = MemoryCrossing(
            config.address_bits, config.beat_bits, domain=DOMAIN
        )
        connect_memory(m, app, user)
        for name, value in values.items():
            values[name] = Signal.like(value, name=f"memory_{name}")
            # The end of the test comes after its result.
            m.submodules[f"status_{name}"] = FFSynchronizer(
                value, values[name], stages=3 if name == "done" else 2
            )
    connect_memory(m, user, memory)
    for name, member in memory.pins.signature.members.items():
        inner, outer = getattr(memory.pins, name), getattr(top, f"sdram_{name}")
        m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)
    return {
        "memory": Cat(values["done"], values["failed"]),
        "memory_lines": values["lines"],
        "memory_bits": values["bits"],
    }


def require_memory(device: "Device", config: SdramConfig, *, patience: float = 300) -> str:
    """Wait for the end of the memory's self-test, and return a sentence on it.

    It takes milliseconds on a board, and a million cycles of a simulation.

    Raises ``RuntimeError`` with the pins if it failed, or if it does not end.
    """
    limit = time.monotonic() + patience
    while not (status := device.read("memory")) & 1:
        if time.monotonic() > limit:
            raise RuntimeError("the memory's self-test does not end: does its clock run?")
    if status & 2:
        lines, bits = device.read("memory_lines"), device.read("memory_bits")
        if bits:
            raise RuntimeError(
                f"the memory failed its self-test: look at its data pins {_pins('dq', bits)}"
            )
        suspects = sum(
            1 << pin
            for pin in range(config.figures.row_bits)
            if lines_of_pin(config, pin) and not lines_of_pin(config, pin) & ~lines
        )
        raise RuntimeError(
            f"the memory failed its self-test at the address bits {_pins('', lines)}: look at its "
            f"pins {_pins('a', suspects) or 'ba0, ba1'}"
        )
    return f"the memory, {config.bytes >> 20} MiB, passed its self-test"


def _pins(name: str, ones: int) -> str:
    return ", ".join(f"{name}{k}" for k in range(ones.bit_length()) if ones >> k & 1)
