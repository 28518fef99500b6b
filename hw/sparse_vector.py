"""Memory of vectors for the sparse part, written and read a group at a time."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.sparse_layouts import vector_layout
from seedbed.spec import SparseMacConfig

__all__ = ["SparseVector"]


class SparseVector(wiring.Component):
    """Keeps each x; gives the groups of activations around any column.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    start : In(1)
        A pulse before a vector.
    columns : In
        How many activations the vector has; steady from the cycle after ``start`` on.
    load : In(1)
        The vector is accepted.
    i : In(stream of struct)
        ``lanes`` (group x signed(activation_width); of several vectors, a group of each), ``last``.
    done, length_error : Out(1)
        With a transfer: all has come; ``last`` is missing or early. One of them ends the load.
    column, read : In
        With ``read``, the group of this column is at ``o`` in the next cycle. Not during a load.
    o : Out(vectors * group x signed(activation_width))
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        beat = vector_layout(config)
        numbers = config.vectors * config.group
        super().__init__(
            {
                "start": In(1),
                "columns": In(range(config.columns + 1)),
                "load": In(1),
                "i": In(stream.Signature(beat)),
                "done": Out(1),
                "length_error": Out(1),
                "column": In(range(max(2, config.columns))),
                "read": In(1),
                "o": Out(data.ArrayLayout(signed(config.activation_width), numbers)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.i.payload
        lane_bits = config.group.bit_length() - 1
        depth = max(2, -(-config.columns // config.group))
        m.submodules.store = store = memory.Memory(shape=self.o.shape(), depth=depth, init=[])
        put, get = store.write_port(), store.read_port()
        row = Signal(range(depth))
        final = Signal.like(self.columns)
        fire = Signal()
        ends = Signal()
        m.d.comb += [
            self.i.ready.eq(self.load),
            fire.eq(self.load & self.i.valid),
            final.eq(self.columns - 1),
            ends.eq(row == final[lane_bits:]),
            self.done.eq(fire & ends & beat.last),
            self.length_error.eq(fire & (ends != beat.last)),
            put.addr.eq(row),
            put.data.eq(beat.lanes),
            put.en.eq(fire),
            get.addr.eq(self.column[lane_bits:]),
            # Never together with a write: what a memory shows then differs by family.
            get.en.eq(self.read & ~self.load),
            self.o.eq(get.data),
        ]
        with m.If(self.start):
            m.d.sync += row.eq(0)
        with m.Elif(fire):
            m.d.sync += row.eq(row + 1)
        return m
