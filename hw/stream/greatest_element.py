"""Finds the greatest element of a vector."""

from amaranth.hdl import Array, Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.stream_layouts import result_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD

__all__ = ["GreatestElement"]


class GreatestElement(wiring.Component):
    """Gives the number of the greatest element of a vector, the lowest one of several equal ones.

    Other vectors go through.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    on, count : In
        Whether the number is given; elements of the vector. Both are steady to its end.
    i : In(stream)
        The beats of the vector.
    o : Out(stream)
        The number, as the first element of a vector of one beat.

    Latency: 1 cycle. Throughput: an element every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        vector = stream.Signature(result_layout(config))
        super().__init__(
            {"on": In(1), "count": In(RECORD["rows"]), "i": In(vector), "o": Out(vector)}
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self.config.lanes
        lane = Signal(range(lanes))
        number = Signal(len(self.count) + 1)
        best = Signal(signed(self.config.unit.residual_width), reset_less=True)
        best_number = Signal(len(self.count), reset_less=True)
        value = Array(self.i.payload.values)[lane]
        ends = lane == lanes - 1
        # The number has been found, and not been taken.
        found = Signal()
        with m.If(self.on):
            m.d.comb += [
                # A vector that waits for its transfer has ended: the lane is the first one.
                self.i.ready.eq(ends),
                self.o.valid.eq(found),
                self.o.payload.values[0].eq(best_number),
                self.o.payload.last.eq(1),
            ]
        with m.Else():
            wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        with m.If(self.o.ready):
            m.d.sync += found.eq(0)
        with m.If(self.i.valid & self.on & ~found):
            m.d.sync += [lane.eq(lane + 1), number.eq(number + 1)]
            with m.If((number == 0) | ((number < self.count) & (value > best))):
                m.d.sync += [best.eq(value), best_number.eq(number)]
            with m.If(ends & self.i.payload.last):
                m.d.sync += [found.eq(1), number.eq(0)]
        return m
