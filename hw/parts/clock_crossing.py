"""A stream from one clock domain to another one."""

from amaranth.hdl import Module, ShapeLike, Value
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

__all__ = ["ClockCrossing"]


class ClockCrossing(wiring.Component):
    """A FIFO between two clocks: neither their frequencies nor their phases are related.

    Both domains are reset together. The synchronizers have two registers.

    Parameters
    ----------
    shape
        Of the payload.
    i_domain, o_domain
        The clock domains of the input and of the output.
    depth
        Beats, a power of two, 4 or more.

    Members
    -------
    i : In(stream of shape)
        beat, in ``i_domain``
    o : Out(stream of shape)
        beat, in ``o_domain``

    Latency: a cycle of ``i_domain``, then 3 of ``o_domain``, and up to one more for the phase.
    Throughput: a beat per cycle of the slower clock with 16 beats, half of that with 4.
    """

    def __init__(
        self,
        shape: ShapeLike,
        *,
        i_domain: str = "sync",
        o_domain: str = "memory",
        depth: int = 4,
    ):
        self.i_domain, self.o_domain, self.depth = i_domain, o_domain, depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        given, taken = Value.cast(self.i.payload), Value.cast(self.o.payload)
        m.submodules.fifo = fifo = AsyncFIFO(
            width=len(given), depth=self.depth, exact_depth=True,
            w_domain=self.i_domain, r_domain=self.o_domain,
        )  # fmt: skip
        m.d.comb += [
            fifo.w_data.eq(given),
            fifo.w_en.eq(self.i.valid),
            self.i.ready.eq(fifo.w_rdy),
            taken.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        return m
