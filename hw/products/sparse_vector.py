"""Memory of vectors for the sparse part, written a group at a time, and read one by one."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.sparse_layouts import vector_layout
from seedbed.spec import SparseMacConfig

__all__ = ["SparseVector"]

#: Activations that one memory takes at once: 2 bits of each are the 32 bits of a block RAM's port.
BANK = 16


class SparseVector(wiring.Component):
    """Keeps each x; gives the activation of any column.

    The memories have a wide port for writes and a narrow one for reads, which block RAM has without
    a multiplexer.

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
        With ``read``, the activations of this column are at ``o`` in the next cycle. Not during a
        load.
    o : Out(vectors x signed(activation_width))
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        beat = vector_layout(config)
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
                "o": Out(data.ArrayLayout(signed(config.activation_width), config.vectors)),
            }
        )

    @property
    def _groups(self) -> int:
        """Groups of the longest vector. A memory of one row would have no address."""
        return max(2, -(-self.config.columns // self.config.group))

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.i.payload
        lane_bits = config.group.bit_length() - 1
        row = Signal(range(self._groups))
        following = Signal(len(row) + 1)
        fire = Signal()
        ends = Signal()
        partial = self.columns[:lane_bits].any()
        m.d.comb += [
            self.i.ready.eq(self.load),
            fire.eq(self.load & self.i.valid),
            following.eq(row + 1),
            ends.eq(Mux(partial, row, following) == self.columns[lane_bits:]),
            self.done.eq(fire & ends & beat.last),
            self.length_error.eq(fire & (ends != beat.last)),
        ]
        with m.If(self.start):
            m.d.sync += row.eq(0)
        with m.Elif(fire):
            m.d.sync += row.eq(following)
        lanes = [beat.lanes] if config.vectors == 1 else beat.lanes
        for vector, (given, activation) in enumerate(zip(lanes, self.o, strict=True)):
            m.d.comb += activation.eq(self._store(m, f"vector_{vector}", [*given], row, fire))
        return m

    def _store(self, m, name, given, row, fire):
        """Write a group to the memories of a vector; return the activation that is read."""
        config, width = self.config, min(BANK, self.config.group)
        bits, lane_bits = width.bit_length() - 1, config.group.bit_length() - 1
        shown = []
        for first in range(0, config.group, width):
            m.submodules[f"{name}_{first // width}"] = bank = memory.Memory(
                shape=signed(config.activation_width), depth=width * self._groups, init=[]
            )
            for k, value in enumerate(given[first : first + width]):
                put = bank.write_port()
                m.d.comb += [
                    put.addr.eq(Cat(Const(k, bits), row)),
                    put.data.eq(value),
                    put.en.eq(fire),
                ]
            get = bank.read_port()
            m.d.comb += [
                get.addr.eq(Cat(self.column[:bits], self.column[lane_bits:])),
                # Never together with a write: what a memory shows then differs by family.
                get.en.eq(self.read & ~self.load),
            ]
            shown.append(get.data)
        choice = self.column[bits:lane_bits]
        for bit in delayed(m, choice, 1, f"{name}_bank", enable=self.read) if len(choice) else ():
            shown = [Mux(bit, odd, even) for even, odd in zip(shown[::2], shown[1::2], strict=True)]
        return shown[0]
