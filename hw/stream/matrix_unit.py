"""Products of a matrix and the vectors of some tokens: weights are streamed from memory."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.products.gemv_engine import GemvEngine
from seedbed.hw.stream.group_totals import GroupTotals
from seedbed.hw.stream.kept_sums import KeptSums
from seedbed.hw.stream.row_groups import RowGroups
from seedbed.hw.stream.row_output import RowOutput, constants_layout, output_members
from seedbed.hw.stream.row_products import RowProducts
from seedbed.hw.stream.stream_layouts import values_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD

__all__ = ["MatrixUnit"]


class MatrixUnit(wiring.Component):
    """Gives vectors to the multipliers, and rows of weights, and writes what comes to the store.

    In memory, there is a beat with the constants of as many rows as fit, then these rows: one after
    another, or some of a trellis code together.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the end:
    columns, rows, row_beats, shift, add, wide, target_at, stride, tokens : In
        The matrix, and its results: see :class:`~seedbed.hw.stream.row_output.RowOutput`.
    packed : In(1)
        Weights of the rows are packed, where the core has packed weights.
    whole : In(1)
        Codes of groups have 8 bits, where the core has groups.
    kept : In
        Beats of kept weights before the rows, where the core has any.
    fractional : In(1)
        Kept weights have fraction bits, where the core can tune them.
    load : Out(1)
        A pulse: vectors are to come, those of this ``start`` or, with ``ahead``, of the next one.
    follows : In(1)
        With ``ahead``: ``columns`` are those of the next ``start``.
    loaded, loading : Out(1)
        With ``ahead``: the vectors of this ``start`` have come, from where on what is given with it
        may change; those of the next one come.
    shifts : In
        What the vector of each token was shifted by.
    values, valid, pop : In, In, Out
        Beats of the vectors, interleaved as the multipliers take them.
    i : In(stream)
        Beats of memory.
    given, o : In(1), Out(stream)
        Results go out.
    unwritten : Out
        As of :class:`~seedbed.hw.stream.row_output.RowOutput`.
    read, address, data, write, write_at, mask, results : Out, Out, In, Out, Out, Out, Out
        The store's ports.
    done : Out(1)
        All results have been written. In the cycle of ``start``, it is of the matrix before.

    Throughput: a beat of weights every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        output = output_members(config)
        names = (
            "shift", "add", "wide", "stride", "tokens", "rows", "shifts", "read", "address",
            "data", "write", "write_at", "mask", "results", "given", "o", "done",
        )  # fmt: skip
        super().__init__(
            {name: output[name] for name in names}
            | {
                "start": In(1),
                "load": Out(1),
                "columns": In(RECORD["length"]),
                "row_beats": In(RECORD["length"]),
                "target_at": In(PLACE["place"]),
                "values": In(values_layout(config)),
                "valid": In(1),
                "pop": Out(1),
                "i": In(stream.Signature(config.beat_bits)),
            }
            | ({"packed": In(1)} if config.packed else {})
            | ({"whole": In(1)} if config.groups else {})
            | ({"kept": In(range(config.kept_beats + 1))} if config.kept else {})
            | ({"fractional": In(1)} if config.tune else {})
            | ({"unwritten": output["unwritten"]} if config.chains else {})
            | ({"follows": In(1), "loaded": Out(1), "loading": Out(1)} if config.ahead else {})
        )

    @property
    def runs(self) -> int:
        """Beats of a vector that the multipliers take at once."""
        return self.config.gemv.group // self.config.lanes

    def elaborate(self, platform):
        m = Module()
        if self.config.trellis:
            m.submodules.products = engine = RowProducts(self.config)
        else:
            m.submodules.engine = engine = GemvEngine(self.config.gemv)
        m.submodules.output = output = RowOutput(self.config)
        m.submodules.constants = fifo = SyncFIFO(width=self.config.beat_bits, depth=16)
        begun = Signal()
        m.d.comb += [
            engine.i.valid.eq(begun),
            engine.i.payload.columns.eq(self.columns),
            engine.i.payload.rows.eq(self.rows),
            output.start.eq(self.start),
            output.at.eq(self.target_at),
            output.data.eq(self.data),
            self.done.eq(output.done),
        ]
        held = {name: self._held(m, name) for name in ("tokens", "shift", "add", "wide", "given")}
        for name, value in {**held, "stride": self.stride, "rows": self.rows}.items():
            m.d.comb += getattr(output, name).eq(value)
        packed = self._held(m, "packed") if self.config.packed else 0
        if self.config.trellis:
            m.d.comb += engine.trellis.eq(packed)
        if self.config.wide_sums:
            # That of the vectors that come next, which are stored as beats of their rows need them.
            whole = ~self.packed | self.whole if self.config.groups else ~self.packed
            m.d.comb += [engine.i.payload.plain.eq(whole), output.wide_sums.eq(packed)]
        chain = ["unwritten"] if self.config.chains else []
        for name in ("read", "address", "write", "write_at", "mask", "results", *chain):
            m.d.comb += getattr(self, name).eq(getattr(output, name))
        with m.If(self.start):
            m.d.sync += begun.eq(1)
        with m.Elif(engine.i.ready):
            m.d.sync += begun.eq(0)
        wiring.connect(m, output.o, wiring.flipped(self.o))
        last = self._vectors(m, engine)
        if self.config.ahead:
            ahead = self._ahead(m, engine, output, begun, last)
        else:
            ahead = Const(0)
            m.d.comb += [self.load.eq(self.start), output.shifts.eq(self.shifts)]
        if self.config.kept:
            sums, constants, keeping = self._kept(m, engine, output, ahead, last)
        else:
            sums, constants, keeping = output.i, output.i_constants, 0
        wiring.connect(m, engine.o, sums)
        if self.config.groups:
            m.submodules.groups = groups = RowGroups(self.config)
            m.d.comb += [
                groups.start.eq(self.start),
                groups.packed.eq(packed),
                groups.whole.eq(self._held(m, "whole")),
            ]
            keeping = self._groups(m, engine, groups, fifo)
        row_beats = self._weights(m, engine, fifo, keeping, packed)
        if self.config.groups:
            m.d.comb += groups.row_beats.eq(row_beats)
        self._constants(m, fifo, constants)
        return m

    def _kept(self, m, engine, output, ahead, last) -> tuple:
        """Add kept weights to the sums, when the ``last`` beat of the vectors has been taken.

        Return the streams of sums and constants without them, and whether kept weights come.
        """
        m.submodules.kept = kept = KeptSums(self.config)
        left = Signal.like(self.kept)
        loaded = Signal()
        entries = kept.i_entries
        with m.If(entries.valid):
            m.d.sync += left.eq(left - 1)
        with m.If(last):
            m.d.sync += loaded.eq(1)
        with m.If(self.start):
            m.d.sync += [left.eq(self.kept), loaded.eq(ahead)]
        m.d.comb += [
            entries.valid.eq(self.i.valid & (left != 0)),
            entries.payload.eq(self.i.payload),
            kept.start.eq(self.start),
            kept.load.eq(self.load),
            *([kept.ahead.eq(ahead)] if self.config.ahead else []),
            kept.write.eq(self.pop),
            kept.values.eq(self.values),
            kept.loaded.eq(loaded & (left == 0)),
        ]
        if self.config.tune:
            m.d.comb += kept.fractional.eq(self.fractional)
        wiring.connect(m, kept.o, output.i)
        wiring.connect(m, kept.o_constants, output.i_constants)
        return kept.i, kept.i_constants, left != 0

    def _groups(self, m, engine, groups, fifo) -> Value:
        """Give the groups of rows to those of weights; return whether groups come."""
        weights = engine.i_weights
        m.d.comb += [
            groups.begin.eq(fifo.w_en & fifo.w_rdy),
            groups.i.valid.eq(self.i.valid),
            groups.i.payload.eq(self.i.payload),
            groups.take.eq(weights.valid & weights.ready),
            weights.payload.groups.eq(groups.o),
        ]
        return groups.i.ready

    def _held(self, m, name: str) -> Value:
        """Return an input, as it was with ``start`` where it changes while the matrix runs."""
        given = getattr(self, name)
        if not self.config.ahead:
            return given
        held = Signal.like(given, name=f"held_{name}")
        with m.If(self.start):
            m.d.sync += held.eq(given)
        return held

    def _ahead(self, m, engine, output, begun, last) -> Signal:
        """Give the vectors of the next start to the multipliers while they run.

        Return whether they come or have come.
        """
        # Those of the next start; those of this one had come before it.
        ahead, swap, later, loaded = (
            Signal(name=name) for name in ("ahead", "swap", "later", "all_loaded")
        )
        m.d.comb += [
            later.eq(self.follows & self.loaded & engine.free & ~ahead),
            self.load.eq(later | (self.start & ~ahead)),
            self.loaded.eq(loaded & ~begun),
            self.loading.eq(engine.loading),
            engine.load.eq(later),
            engine.swap.eq(swap),
        ]
        with m.If(self.start):
            m.d.sync += [swap.eq(ahead), ahead.eq(0), loaded.eq(ahead)]
        with m.Else():
            with m.If(later):
                m.d.sync += ahead.eq(1)
            with m.If(last & ~loaded):
                m.d.sync += loaded.eq(1)
        # The shifts of vectors that come later are not those of these rows.
        with m.If(self.start | ~loaded):
            m.d.sync += output.shifts.eq(self.shifts)
        return ahead

    def _vectors(self, m, engine) -> Signal:
        """Collect a group of each vector, and give it to the multipliers.

        Return whether the last one is taken.
        """
        config = self.config
        lane_bits = values_layout(config).size
        beats = self.runs * config.vectors
        held = Signal(lane_bits * beats, reset_less=True)
        count = Signal(range(beats + 1))
        left = Signal(range(2 << RECORD["length"]))
        to = engine.i_vector
        full = Signal()
        group = config.gemv.group
        if config.groups:
            m.submodules.totals = totals = GroupTotals(config)
            m.d.comb += [
                totals.load.eq(self.load),
                totals.columns.eq(self.columns),
                totals.take.eq(self.pop),
                totals.values.eq(self.values),
                Value.cast(to.payload.totals).eq(Value.cast(totals.o)),
            ]
        m.d.comb += [
            full.eq(count == beats),
            self.pop.eq(self.valid & (~full | to.ready)),
            to.valid.eq(full),
            Value.cast(to.payload.lanes).eq(held),
            to.payload.last.eq(left <= group),
        ]
        with m.If(self.pop):
            m.d.sync += [
                held.eq(Cat(held[lane_bits:], self.values)),
                count.eq(Mux(full, 1, count + 1)),
            ]
        with m.Elif(to.ready & full):
            m.d.sync += count.eq(0)
        with m.If(to.valid & to.ready):
            m.d.sync += left.eq(left - group)
        with m.If(self.load):
            m.d.sync += left.eq(self.columns)
        return to.valid & to.ready & to.payload.last

    def _weights(self, m, engine, fifo, keeping, packed) -> Value:
        """Tell beats of constants from beats of weights; return the beats of a row.

        ``keeping``: kept weights, or the groups of rows, come.
        """
        config = self.config
        # Rows until the next beat of constants, and beats of this row.
        rows = Signal(range(config.entries + 1))
        row_beats = self._held(m, "row_beats")
        beat = Signal.like(self.row_beats)
        # A register: a beat of constants comes before the first one of weights.
        last = Signal.like(beat, name="last_of_row")
        m.d.sync += last.eq(row_beats - 1)
        head = Signal()
        fire = Signal()
        to = engine.i_weights
        valid = Signal()
        m.d.comb += [
            valid.eq(self.i.valid & ~Value.cast(keeping)),
            head.eq(rows == 0),
            fifo.w_data.eq(self.i.payload),
            fifo.w_en.eq(valid & head),
            to.valid.eq(valid & ~head),
            to.payload.data.eq(self.i.payload),
            to.payload.last.eq(beat == last),
            self.i.ready.eq(Mux(head, fifo.w_rdy, to.ready) | keeping),
            fire.eq(valid & self.i.ready),
        ]
        with m.If(fire):
            with m.If(head):
                m.d.sync += rows.eq(config.entries)
                if config.trellis:
                    # Rows that are read together count as one.
                    with m.If(packed):
                        m.d.sync += rows.eq(config.entries // config.ways)
            with m.Elif(to.payload.last):
                m.d.sync += [rows.eq(rows - 1), beat.eq(0)]
            with m.Else():
                m.d.sync += beat.eq(beat + 1)
        with m.If(self.start):
            m.d.sync += [rows.eq(0), beat.eq(0)]
        return row_beats

    def _constants(self, m, fifo, out) -> None:
        """Give the constants of each row."""
        config = self.config
        entry = Signal(range(max(2, config.entries)))
        layout = data.ArrayLayout(constants_layout(), config.entries)
        last = entry == config.entries - 1
        rest = Signal.like(self.rows)
        m.d.comb += [
            out.valid.eq(fifo.r_rdy),
            Value.cast(out.payload).eq(Array(map(Value.cast, layout(fifo.r_data)))[entry]),
            fifo.r_en.eq(out.valid & out.ready & (last | (rest == 1))),
        ]
        with m.If(out.valid & out.ready):
            m.d.sync += [entry.eq(Mux(last, 0, entry + 1)), rest.eq(rest - 1)]
        with m.If(self.start):
            m.d.sync += [entry.eq(0), rest.eq(self.rows)]
