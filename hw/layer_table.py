"""Table of the layers of a dense network, checked as it comes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import SparseTrainerConfig
from seedbed.spec.sparse_mac import MOST_SCALE
from seedbed.spec.sparse_trainer import MOST_BIAS_SHIFT, MOST_SHIFT

__all__ = ["LayerTable", "layer_layout", "row_layout"]


def row_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return the layout of a row of the table, see :class:`~seedbed.spec.DenseLayer`."""
    return data.StructLayout(
        {
            "columns": config.row_width,
            "rows": config.row_width,
            "address": config.address_bits,
            "plain": 1,
            "relu": 1,
            "bias_shift": range(MOST_BIAS_SHIFT + 1),
            "shift": range(MOST_SHIFT + 1),
            "entries": range(config.entries + 1),
            "sparse_shift": range(max(2, config.most_shift + 1)),
            "update_shift": range(max(2, config.most_shift + 1)),
            "scale": range(MOST_SCALE + 1),
            "last": 1,
        }
    )


def layer_layout(config: SparseTrainerConfig) -> data.StructLayout:
    """Return a row of the table, with ``first`` of its entries, beats of a row, and all beats."""
    row = dict(row_layout(config))
    fields = {name: field.shape for name, field in row.items()}
    lanes = min(config.gemv.lanes, config.gemv.plain_lanes)
    row_beats = -(-config.columns // lanes)
    fields |= {
        "first": range(config.entries + 1),
        "row_beats": range(row_beats + 1),
        "beats": range(config.columns * row_beats + 1),
    }
    return data.StructLayout(fields)


class LayerTable(wiring.Component):
    """Keeps a network's layers; counts the beats of each, and its place among the entries.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    i : In(stream of :func:`row_layout`)
        The rows of a table, the last one with ``last``. A row is accepted every
        ``rows + columns / lanes + 3`` cycles.
    accepts : In(1)
        Rows may come.
    valid : Out(1)
        The table is whole, and all its rows are allowed.
    busy : Out(1)
        A table has begun to come, and is not whole.
    begins : Out(1)
        A pulse: a table begins, and replaces the one before.
    inputs, layers : Out
        Columns of the first layer, and how many layers there are.
    index : In(range(layers))
        A layer.
    o : Out(struct)
        It, as :func:`layer_layout` has it, a cycle later.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(row_layout(config))),
                "accepts": In(1),
                "valid": Out(1),
                "busy": Out(1),
                "begins": Out(1),
                "inputs": Out(config.row_width),
                "layers": Out(range(config.layers + 1)),
                "index": In(range(max(2, config.layers))),
                "o": Out(layer_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, given = self.config, self.i.payload
        layer = Signal(self.o.shape(), reset_less=True)
        m.submodules.layers = table = memory.Memory(
            shape=self.o.shape(), depth=max(2, config.layers), init=[]
        )
        write, read = table.write_port(), table.read_port()
        count = Signal(range(config.layers + 1))
        covered = Signal(range(config.columns + config.gemv.lanes))
        rows = Signal(config.row_width, reset_less=True)
        first = Signal.like(layer.first)
        before = Signal.like(layer.rows, reset_less=True)
        bad = Signal()
        lanes = Mux(layer.plain, config.gemv.plain_lanes, config.gemv.lanes)
        m.d.comb += [
            write.addr.eq(count),
            write.data.eq(layer),
            read.addr.eq(self.index),
            self.o.eq(read.data),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += [
                    self.i.ready.eq(self.accepts | self.busy),
                    self.begins.eq(self.i.valid & self.i.ready & ~self.busy),
                ]
                with m.If(self.i.valid & self.i.ready):
                    m.d.sync += [layer[name].eq(given[name]) for name, _ in given.shape()]
                    m.d.sync += [
                        layer.first.eq(first),
                        layer.row_beats.eq(0),
                        layer.beats.eq(0),
                        covered.eq(0),
                        rows.eq(given.rows),
                        self.busy.eq(1),
                    ]
                    with m.If(self.begins):
                        m.d.sync += [self.valid.eq(0), self.inputs.eq(given.columns)]
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += bad.eq(bad | self._wrong(m, layer, count, before, first))
                # Of a row that is not allowed no beats are counted.
                m.next = "COLUMNS"
            with m.State("COLUMNS"):
                with m.If(bad):
                    m.next = "STORE"
                with m.Elif(covered >= layer.columns):
                    m.next = "ROWS"
                with m.Else():
                    m.d.sync += [
                        covered.eq(covered + lanes),
                        layer.row_beats.eq(layer.row_beats + 1),
                    ]
            with m.State("ROWS"):
                m.d.sync += [layer.beats.eq(layer.beats + layer.row_beats), rows.eq(rows - 1)]
                with m.If(rows == 1):
                    m.next = "STORE"
            with m.State("STORE"):
                m.d.comb += write.en.eq(~bad)
                m.d.sync += [
                    count.eq(count + ~bad),
                    first.eq(first + layer.entries),
                    before.eq(layer.rows),
                ]
                with m.If(layer.last):
                    m.d.sync += [
                        self.valid.eq(~bad),
                        self.layers.eq(count + 1),
                        self.busy.eq(0),
                        bad.eq(0),
                        count.eq(0),
                        first.eq(0),
                    ]
                m.next = "TAKE"
        return m

    def _wrong(self, m, layer, count, before, first):
        """Return whether a row is not allowed."""
        config = self.config
        wrong = [
            layer.columns == 0,
            layer.columns > config.columns,
            layer.rows == 0,
            layer.rows > config.columns,
            (count != 0) & (layer.columns != before),
            count == config.layers,
            layer.last & (layer.rows > config.classes),
            layer.shift > MOST_SHIFT,
            layer.sparse_shift > config.most_shift,
            layer.update_shift > config.most_shift,
            first + layer.entries > config.entries,
        ]
        found = Signal(name="wrong_row")
        m.d.comb += found.eq(Cat(Const(0, 1), *wrong).any())
        return found
