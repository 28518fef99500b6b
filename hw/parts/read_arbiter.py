"""Arbiter of a memory's read port, by a written table of priorities."""

from collections.abc import Mapping, Sequence

from amaranth.hdl import Module, Mux, ShapeLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

__all__ = ["ReadArbiter", "request_layout"]


def request_layout(address: Mapping[str, ShapeLike]) -> data.StructLayout:
    """Return the layout of a reader's ``request`` bit and its address."""
    return data.StructLayout({"request": 1, **address})


class ReadArbiter(wiring.Component):
    """Gives a read port to the first of its readers that asks.

    Readers are never refused and never wait, so at most one may ask in a cycle: ``conflict`` is
    for assertions in simulation and in proofs.

    Parameters
    ----------
    address
        Fields of an address, by name.
    readers
        Names of the readers, highest priority first. The last one has the port while no other asks.

    Members
    -------
    READER : In(struct)
        ``request`` and the fields of the address.
    o : Out(struct)
        The address.
    conflict : Out(1)
        More than one reader asks.

    No latency.
    """

    def __init__(self, address: Mapping[str, ShapeLike], readers: Sequence[str]):
        self.readers = tuple(readers)
        super().__init__(
            {name: In(request_layout(address)) for name in readers}
            | {"o": Out(data.StructLayout(dict(address))), "conflict": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        *first, last = (getattr(self, name) for name in self.readers)
        for field in self.o.shape().members:
            found = last[field]
            for reader in reversed(first):
                found = Mux(reader.request, reader[field], found)
            m.d.comb += self.o[field].eq(found)
        if first:
            requests = [reader.request for reader in (*first, last)]
            m.d.comb += self.conflict.eq(sum(requests[1:], requests[0]) > 1)
        return m
