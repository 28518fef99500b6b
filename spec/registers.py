"""Registers: the type of a map, of which RTL, host, page and testbench are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Field", "Register", "addresses", "codes", "meaning", "table"]


@dataclass(frozen=True)
class Field:
    """``width`` bits of a register, of which ``low`` is the lowest.

    ``values`` are the names of its values from 0 on, if they have names.
    """

    name: str
    low: int
    width: int
    meaning: str
    values: tuple[str, ...] = ()

    @property
    def bits(self) -> str:
        """The bits as text, such as ``6..4``."""
        return f"{self.low + self.width - 1}..{self.low}" if self.width > 1 else f"{self.low}"


@dataclass(frozen=True)
class Register:
    """A register of 32 bits, 0 after reset. Its address is its place in the map.

    ``access`` is ``read`` (the host reads it), ``write`` (the host writes and reads it) or
    ``strobe`` (the host writes it; each write acts once). The low ``zeros`` bits must be 0.
    ``fields`` are the parts of its word; without them, the word is one value, whose ``values`` from
    0 on may have names. ``option`` is the parameter without which a core lacks the register.
    """

    name: str
    access: str
    meaning: str
    zeros: int = 0
    fields: tuple[Field, ...] = ()
    values: tuple[str, ...] = ()
    option: str = ""


def codes(names: Sequence[str]) -> str:
    """Return numbers from 0 on with their names, as text."""
    return ", ".join(f"{code} {name}" for code, name in enumerate(names))


def meaning(*fields: Field) -> str:
    """Return the text of a register with ``fields``."""
    return "; ".join(
        f"bit{'s' if f.width > 1 else ''} {f.bits}: {f.meaning}"
        + (f": {codes(f.values)}" if f.values else "")
        for f in fields
    )


def addresses(registers: Sequence[Register], step: int = 1) -> dict[str, int]:
    """Return the address of each register by name, ``step`` apart: 4 where bytes are counted."""
    return {register.name: step * k for k, register in enumerate(registers)}


def table(registers: Mapping[str, Register]) -> str:
    """Return a map as a table in Markdown; the keys are the addresses as text."""
    lines = ["| address | register | access | meaning |", "| ---: | --- | --- | --- |"]
    lines += [f"| {k} | `{r.name}` | {r.access} | {r.meaning} |" for k, r in registers.items()]
    return "\n".join(lines) + "\n"
