"""Keeps two samples and the outputs of a layer on the chip; gives them as vectors."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_layouts import vector_layout
from seedbed.spec import SparseTrainerConfig

__all__ = ["HIDDEN", "VectorStore", "put_layout"]

#: The bank of a layer's outputs; samples are in the others.
HIDDEN = 2


def put_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a group that is written: ``bank``, ``row``, ``lanes``."""
    group = config.gemv.group
    rows = max(2, -(-config.columns // group))
    lanes = data.ArrayLayout(signed(config.activation_width), group)
    return data.StructLayout({"bank": 1, "row": range(rows), "lanes": lanes})


class VectorStore(wiring.Component):
    """Three banks of a vector each, written and read a group at a time.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    i : In(stream of :func:`put_layout`)
        Groups of samples.
    valid, value, last : In
        The next output of a layer, for the bank ``HIDDEN``.
    stored : Out(1)
        A pulse: the last one has been written.
    start, bank, columns : In
        A pulse: give the vector of a bank, which has so many elements.
    o : Out(stream of struct)
        ``lanes``, ``last``.

    Latency: 2 cycles from ``start`` to the first group. Throughput: a group every cycle.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(put_layout(config))),
                "valid": In(1),
                "value": In(signed(config.activation_width)),
                "last": In(1),
                "stored": Out(1),
                "start": In(1),
                "bank": In(2),
                "columns": In(config.row_width),
                "o": Out(stream.Signature(vector_layout(config.gemv))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        group, put = self.config.gemv.group, self.i.payload
        bits = group.bit_length() - 1
        row_bits = len(put.row)
        m.submodules.vectors = store = memory.Memory(
            shape=put.lanes.shape(), depth=3 << row_bits, init=[]
        )
        write, read = store.write_port(), store.read_port()
        gathered = Signal(put.lanes.shape(), reset_less=True)
        place = Signal(max(1, bits))
        row = Signal.like(put.row)
        write_hidden = Signal()
        m.d.sync += [write_hidden.eq(0), self.stored.eq(0)]
        with m.If(self.valid):
            m.d.sync += Array(gathered)[place if bits else 0].eq(self.value)
            with m.If(self.last | (place == group - 1)):
                m.d.sync += [write_hidden.eq(1), self.stored.eq(self.last), place.eq(0)]
            with m.Else():
                m.d.sync += place.eq(place + 1)
        with m.If(write_hidden):
            m.d.sync += row.eq(Mux(self.stored, 0, row + 1))
        m.d.comb += [
            self.i.ready.eq(~write_hidden),
            write.en.eq(write_hidden | self.i.valid),
            write.addr.eq(Mux(write_hidden, Cat(row, Const(HIDDEN, 2)), Cat(put.row, put.bank))),
            write.data.eq(Mux(write_hidden, gathered, put.lanes)),
        ]
        self._feed(m, read, bits)
        return m

    def _feed(self, m, read, bits):
        """Read a vector: a register before the output holds what the memory shows."""
        out = self.o
        row = Signal.like(self.i.payload.row)
        final = Signal(self.config.row_width)
        active = Signal()
        shown = Signal()
        shown_last = Signal()
        ce = Signal()
        m.d.comb += [
            ce.eq(~shown | out.ready),
            final.eq((self.columns - 1) >> bits),
            read.addr.eq(Cat(row, self.bank)),
            read.en.eq(ce & active),
            out.valid.eq(shown),
            out.payload.lanes.eq(read.data),
            out.payload.last.eq(shown_last),
        ]
        with m.If(ce):
            m.d.sync += [shown.eq(active), shown_last.eq(row == final)]
            with m.If(active):
                m.d.sync += row.eq(row + 1)
                with m.If(row == final):
                    m.d.sync += active.eq(0)
        with m.If(self.start):
            m.d.sync += [active.eq(1), row.eq(0)]
