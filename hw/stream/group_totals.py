"""Sums of the elements of each group of a vector, while the vector goes to the multipliers."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_layouts import totals_layout
from seedbed.hw.stream.stream_layouts import values_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD
from seedbed.spec.gemv import GROUP

__all__ = ["GroupTotals"]


class GroupTotals(wiring.Component):
    """Adds up groups of 32 elements of vectors, of which beats come as the multipliers take them.

    The multipliers take a part of each vector in turn.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with ``groups``.

    Members
    -------
    load, columns : In
        A pulse before the vectors, and how many elements they have. Those beyond count as 0.
    take, values : In
        A beat of a vector.
    o : Out(array)
        The sums of the part of each vector that has been taken last, vector by vector, from the
        cycle after its last beat on.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "load": In(1),
                "columns": In(RECORD["length"]),
                "take": In(1),
                "values": In(values_layout(config)),
                "o": Out(totals_layout(config.gemv, config.gemv.group)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        beats, runs = GROUP // lanes, config.gemv.group // lanes
        shape = self.o[0].shape()
        # Elements of this vector that are to come, beats of this part, and which vector has it.
        left = Signal(signed(RECORD["length"] + 2))
        beat, vector = Signal(range(runs)), Signal(range(max(2, config.vectors)))
        run_ends, vectors_end = beat == runs - 1, vector == config.vectors - 1
        with m.If(self.take):
            m.d.sync += [beat.eq(Mux(run_ends, 0, beat + 1)), left.eq(left - lanes)]
            with m.If(run_ends):
                m.d.sync += vector.eq(Mux(vectors_end, 0, vector + 1))
                # The next vector has the same elements.
                with m.If(~vectors_end):
                    m.d.sync += left.eq(left + lanes * (runs - 1))
        with m.If(self.load):
            m.d.sync += [beat.eq(0), vector.eq(0), left.eq(self.columns)]
        # The sum of a beat, in the next cycle; whether it is the first or the last of its group.
        given = [Mux(left > k, value, 0) for k, value in enumerate(self.values)]
        of_group = beat[: beats.bit_length() - 1]
        partial, total, kept = (
            Signal(shape, name=name, reset_less=True) for name in ("partial", "total", "kept")
        )
        came, first, ends = (Signal(name=name) for name in ("came", "first", "ends"))
        m.d.comb += total.eq(Mux(first, 0, kept) + partial)
        m.d.sync += [
            came.eq(self.take),
            partial.eq(sum(given[1:], given[0])),
            first.eq(of_group == 0),
            ends.eq(of_group == beats - 1),
        ]
        with m.If(came):
            m.d.sync += kept.eq(total)
        before = Signal(Value.cast(self.o).shape(), reset_less=True)
        after = Signal.like(before)
        m.d.comb += [after.eq(before), Value.cast(self.o).eq(after)]
        with m.If(came & ends):
            m.d.comb += after.eq(Cat(before[len(total) :], total))
        m.d.sync += before.eq(after)
        return m
