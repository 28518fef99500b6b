"""Table of the layers of a dense network, checked as it comes."""

from amaranth.hdl import Cat, Module, Mux, Signal
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
    lanes = config.gemv.lanes
    if not config.gemv.trellis:
        lanes = min(lanes, config.gemv.plain_lanes)
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
    incomplete : Out(1)
        A table has begun to come, and its last row has not come.
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
                "incomplete": Out(1),
                "begins": Out(1),
                "inputs": Out(config.row_width),
                "layers": Out(range(config.layers + 1)),
                "index": In(range(max(2, config.layers))),
                "o": Out(layer_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        self._layer = layer = Signal(self.o.shape(), name="layer", reset_less=True)
        m.submodules.layers = table = memory.Memory(
            shape=self.o.shape(), depth=max(2, config.layers), init=[]
        )
        write, read = table.write_port(), table.read_port()
        # How many layers came before, how many entries they have, and the rows of the last one.
        self._count = Signal(range(config.layers + 1), name="count")
        self._first = Signal.like(layer.first, name="first")
        self._before = Signal.like(layer.rows, name="before", reset_less=True)
        self._bad = Signal(name="bad")
        # Columns that the beats of a row cover so far, and rows whose beats are not counted yet.
        self._covered = Signal(range(config.columns + config.gemv.lanes), name="covered")
        self._rows = Signal(config.row_width, name="rows_left", reset_less=True)
        m.d.comb += [
            write.addr.eq(self._count),
            write.data.eq(layer),
            read.addr.eq(self.index),
            self.o.eq(read.data),
            self.incomplete.eq(self.busy & ~layer.last),
        ]
        with m.FSM():
            with m.State("TAKE"):
                self._take(m)
            with m.State("CHECK"):
                m.d.sync += self._bad.eq(self._bad | self._wrong(m))
                m.next = "COLUMNS"
            self._count_states(m)
            with m.State("STORE"):
                m.d.comb += write.en.eq(~self._bad)
                self._store(m)
                m.next = "TAKE"
        return m

    def _take(self, m):
        """Take a row, and begin a table with the first one."""
        layer, given = self._layer, self.i.payload
        m.d.comb += [
            self.i.ready.eq(self.accepts | self.busy),
            self.begins.eq(self.i.valid & self.i.ready & ~self.busy),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [layer[name].eq(given[name]) for name, _ in given.shape()]
            m.d.sync += [
                self._covered.eq(0),
                self._rows.eq(given.rows),
                layer.first.eq(self._first),
                layer.row_beats.eq(0),
                layer.beats.eq(0),
                self.busy.eq(1),
            ]
            with m.If(self.begins):
                m.d.sync += [self.valid.eq(0), self.inputs.eq(given.columns)]
            m.next = "CHECK"

    def _count_states(self, m):
        """Count the beats of a row of weights, and those of all rows; none of a refused layer."""
        config, layer = self.config, self._layer
        covered, rows = self._covered, self._rows
        lanes = config.gemv.lanes
        if not config.gemv.trellis:
            lanes = Mux(layer.plain, config.gemv.plain_lanes, lanes)
        with m.State("COLUMNS"):
            with m.If(self._bad):
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

    def _store(self, m):
        """Count a layer; with the last one, the table is valid or refused."""
        layer = self._layer
        m.d.sync += [
            self._count.eq(self._count + ~self._bad),
            self._first.eq(self._first + layer.entries),
            self._before.eq(layer.rows),
        ]
        with m.If(layer.last):
            m.d.sync += [
                self.valid.eq(~self._bad),
                self.layers.eq(self._count + 1),
                self.busy.eq(0),
                self._bad.eq(0),
                self._count.eq(0),
                self._first.eq(0),
            ]

    def _wrong(self, m):
        """Return whether a row is not allowed."""
        config, layer = self.config, self._layer
        wrong = [
            layer.columns == 0,
            layer.columns > config.columns,
            layer.rows == 0,
            layer.rows > config.columns,
            (self._count != 0) & (layer.columns != self._before),
            self._count == config.layers,
            layer.last & (layer.rows > config.classes),
            layer.shift > MOST_SHIFT,
            self._first + layer.entries > config.entries,
        ]
        if config.gemv.trellis:
            wrong.append(layer.plain)
        # A field of as many bits as the greatest shift cannot be greater.
        if config.most_shift + 1 < 1 << len(layer.sparse_shift):
            wrong += [
                shift > config.most_shift for shift in (layer.sparse_shift, layer.update_shift)
            ]
        found = Signal(name="wrong_row")
        m.d.comb += found.eq(Cat(wrong).any())
        return found
