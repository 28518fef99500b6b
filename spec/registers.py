"""Registers: the type of a map, of which RTL, host, page and testbench are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Register", "addresses", "table"]


@dataclass(frozen=True)
class Register:
    """A register of 32 bits, 0 after reset. Its address is its place in the map.

    ``access`` is ``read`` (the host reads it), ``write`` (the host writes and reads it) or
    ``strobe`` (the host writes it; each write acts once). The low ``zeros`` bits must be 0.
    """

    name: str
    access: str
    meaning: str
    zeros: int = 0


def addresses(registers: Sequence[Register], step: int = 1) -> dict[str, int]:
    """Return the address of each register by name, ``step`` apart: 4 where bytes are counted."""
    return {register.name: step * k for k, register in enumerate(registers)}


def table(registers: Mapping[str, Register]) -> str:
    """Return a map as a table in Markdown; the keys are the addresses as text."""
    lines = ["| address | register | access | meaning |", "| ---: | --- | --- | --- |"]
    lines += [f"| {k} | `{r.name}` | {r.access} | {r.meaning} |" for k, r in registers.items()]
    return "\n".join(lines) + "\n"
