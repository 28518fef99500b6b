"""Checks of reads in the cycle of a write, for memories without bypass logic."""

from collections.abc import Iterator

from amaranth.hdl import Assert, Format, Fragment, Module
from amaranth.hdl._ast import SignalSet
from amaranth.hdl._mem import MemoryInstance

__all__ = ["ATTRIBUTE", "checked", "memories"]

#: With it, yosys adds no bypass logic: a read of a row in the cycle of its write is undefined.
ATTRIBUTE = "no_rw_check"


def checked(design: object) -> Fragment:
    """Elaborate ``design`` for the simulator; check its memories that have no bypass logic.

    A read port with an enable raises an ``AssertionError`` if it reads a row in the cycle in which
    the row is written. A read port without an enable reads in every cycle, whether its data is used
    or not: it then outputs the inverse of what is written. A use of the data shows as a wrong
    response.
    """
    top = Fragment.get(design, None)
    found = list(memories(top))
    driven = SignalSet()
    for _, fragment in _fragments(top, "") if found else ():
        for statements in fragment.statements.values():
            driven |= statements._lhs_signals()
    for path, memory in found:
        _check(memory, path, driven)
    return top


def memories(design: object) -> Iterator[tuple[str, MemoryInstance]]:
    """Yield the memories of ``design`` that have no bypass logic, with their paths."""
    for path, fragment in _fragments(Fragment.get(design, None), ""):
        if isinstance(fragment, MemoryInstance) and fragment._attrs.get(ATTRIBUTE):
            yield path, fragment


def _fragments(fragment: Fragment, path: str) -> Iterator[tuple[str, Fragment]]:
    yield path, fragment
    for inner, name, _ in fragment.subfragments:
        yield from _fragments(inner, f"{path}.{name}".strip("."))


def _check(memory: MemoryInstance, path: str, driven: SignalSet) -> None:
    m = Module()
    for read in memory._read_ports:
        for write in memory._write_ports:
            clash = read._en & write._en.any() & (read._addr == write._addr)
            if read._en._rhs_signals() & driven:
                message = Format(f"{path}: row {{}} is read while it is written", read._addr)
                m.d[read._domain] += Assert(~clash, message)
            else:
                # The simulator runs the statements of a memory before its reads.
                with m.If(clash):
                    m.d[read._domain] += read._data.eq(~write._data)
                read._en = read._en & ~clash
    for domain, statements in Fragment.get(m, None).statements.items():
        memory.add_statements(domain, statements)
