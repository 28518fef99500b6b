"""Sums of the weights that are kept beside a trellis code, which are added to those of rows."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.gemv_layouts import sums_layout
from seedbed.hw.stream.row_output import SUM, constants_layout
from seedbed.hw.stream.stream_layouts import values_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import KEPT, KEPT_BITS, KEPT_COUNT

__all__ = ["KeptSums"]

#: Rows that are begun and not taken at most.
DEPTH = 16


def kept_weight_layout() -> data.StructLayout:
    """Return the layout of a kept weight in memory."""
    return data.StructLayout({"difference": signed(KEPT["difference"]), "column": KEPT["column"]})


class KeptSums(wiring.Component):
    """Adds to the sum of a row ``sum over its kept weights of difference x_column``.

    The kept weights of a matrix come before its rows, and wait in a memory. A row's constants say
    how many of them it has. They are multiplied one a cycle, some rows ahead of the sums. Where
    they have fraction bits, the sum of a row is rounded: floor(sum / 2^fraction + 1/2).

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with weights that are kept.

    Members
    -------
    start : In(1)
        A pulse before a matrix.
    load : In(1)
        A pulse before its vectors.
    ahead : In(1)
        With ``ahead``: vectors that come or have come are those of the next ``start``.
    fractional : In(1)
        Kept weights have ``tune`` fraction bits, where the core can tune them.
    write, values : In
        A beat of the vectors, in the order of the multipliers.
    loaded : In(1)
        All vectors and all kept weights have come.
    i_entries : In(stream)
        Beats of kept weights.
    i, i_constants : In(stream)
        The sums and the constants of a row.
    o, o_constants : Out(stream)
        The same with the kept weights, both valid in the same cycles and taken together.

    Throughput: a kept weight every cycle; a row without one takes a cycle, too.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        sums = stream.Signature(sums_layout(config.gemv))
        constants = stream.Signature(constants_layout())
        super().__init__(
            {
                "start": In(1),
                "load": In(1),
                "write": In(1),
                "values": In(values_layout(config)),
                "loaded": In(1),
                "i_entries": In(stream.Signature(config.beat_bits)),
                "i": In(sums),
                "i_constants": In(constants),
                "o": Out(sums),
                "o_constants": Out(constants),
            }
            | ({"ahead": In(1)} if config.ahead else {})
            | ({"fractional": In(1)} if config.tune else {})
        )

    def elaborate(self, platform):
        m = Module()
        vectors = self.config.vectors
        m.submodules.constants = constants = SyncFIFO(width=constants_layout().size, depth=DEPTH)
        m.submodules.sums = sums = SyncFIFO(width=SUM * vectors, depth=DEPTH)
        issue, first, last, entry = self._issue(m, constants)
        # From the entry's register on: the vector's word, its element, the product.
        column = entry.column
        lane_bits = self.config.lanes.bit_length() - 1
        lane = delayed(m, column[:lane_bits], 1, "lane")
        difference = delayed(m, entry.difference, 2, "difference")
        valid, begins, ends = (
            delayed(m, each, 5, name, reset=True)
            for each, name in ((issue, "valid"), (first, "first"), (last, "last"))
        )
        m.d.comb += sums.w_en.eq(valid & ends)
        for v, x in enumerate(self._vectors(m, column >> lane_bits)):
            element = Signal(x[0].shape(), name=f"element_{v}", reset_less=True)
            product = Signal(signed(SUM), name=f"product_{v}", reset_less=True)
            total = Signal(signed(SUM + self.config.tune), name=f"total_{v}")
            held = Signal.like(total, name=f"held_{v}", reset_less=True)
            first_addend, found = self._rounding(total)
            m.d.sync += [element.eq(Array(x)[lane]), product.eq(element * difference)]
            m.d.comb += [
                total.eq(Mux(begins, first_addend, held) + product),
                sums.w_data[SUM * v :][:SUM].eq(found),
            ]
            with m.If(valid):
                m.d.sync += held.eq(total)
        self._join(m, constants, sums)
        return m

    def _rounding(self, total) -> tuple:
        """Return what a sum begins with, half its unit, and the integer that it is then."""
        tune = self.config.tune
        if not tune:
            return 0, total
        return Mux(self.fractional, 1 << tune - 1, 0), Mux(self.fractional, total >> tune, total)

    def _issue(self, m, constants):
        """Walk the kept weights of each row; return whether one comes, and two cycles later it.

        A row without one has a difference of 0.
        """
        config = self.config
        count_of_beat = config.beat_bits // KEPT_BITS
        beat = data.ArrayLayout(KEPT_BITS, count_of_beat)
        m.submodules.entries = entries = memory.Memory(
            shape=config.beat_bits,
            depth=max(2, config.kept_beats),
            init=[],
            attrs={"no_rw_check": True},
        )
        write, read = entries.write_port(), entries.read_port()
        filled = Signal.like(write.addr)
        bits = count_of_beat.bit_length() - 1
        index = Signal(len(filled) + bits)
        done = Signal(KEPT_COUNT)
        issue = Signal()
        last = Signal()
        given = self.i_constants
        count = given.payload.multiplier[-KEPT_COUNT:]
        m.d.comb += [
            self.i_entries.ready.eq(1),
            write.addr.eq(filled),
            write.data.eq(self.i_entries.payload),
            write.en.eq(self.i_entries.valid),
            read.addr.eq(index >> bits),
            issue.eq(self.loaded & given.valid & constants.w_rdy),
            last.eq(done + 1 >= count),
            given.ready.eq(issue & last),
            constants.w_en.eq(given.ready),
            constants.w_data.eq(given.payload),
        ]
        with m.If(write.en):
            m.d.sync += filled.eq(filled + 1)
        with m.If(issue):
            m.d.sync += [done.eq(Mux(last, 0, done + 1)), index.eq(index + (count != 0))]
        with m.If(self.start):
            m.d.sync += [filled.eq(0), index.eq(0)]
        found = Array(beat(read.data))[delayed(m, index[:bits], 1, "place")]
        entry = Signal(kept_weight_layout(), reset_less=True)
        m.d.sync += Value.cast(entry).eq(Mux(delayed(m, count != 0, 1, "any"), found, 0))
        return issue, done == 0, last, entry

    def _vectors(self, m, address) -> list:
        """Keep the vectors; return the word of each at an address, a cycle later."""
        config = self.config
        runs = config.gemv.group // config.lanes
        depth = max(2, -(-config.columns // config.gemv.group) * runs)
        run = Signal(range(max(2, runs)))
        vector = Signal(range(max(2, config.vectors)))
        base = Signal(range(depth))
        with m.If(self.write):
            m.d.sync += run.eq(run + 1)
            with m.If(run == runs - 1):
                m.d.sync += [run.eq(0), vector.eq(vector + 1)]
                with m.If(vector == config.vectors - 1):
                    m.d.sync += [vector.eq(0), base.eq(base + runs)]
        with m.If(self.load):
            m.d.sync += [run.eq(0), vector.eq(0), base.eq(0)]
        read_at, write_at = address, base + run
        if config.ahead:
            # A matrix has the other half than the one before, which may still run when they come.
            half = Signal()
            with m.If(self.start):
                m.d.sync += half.eq(~half)
            depth *= 2
            read_at, write_at = Cat(half, read_at), Cat(half ^ self.ahead, base + run)
        found = []
        for v in range(config.vectors):
            m.submodules[f"vector_{v}"] = words = memory.Memory(
                shape=values_layout(config), depth=depth, init=[], attrs={"no_rw_check": True}
            )
            write, read = words.write_port(), words.read_port()
            m.d.comb += [
                write.addr.eq(write_at),
                write.data.eq(self.values),
                write.en.eq(self.write & (vector == v)),
                read.addr.eq(read_at),
            ]
            found.append([*read.data])
        return found

    def _join(self, m, constants, sums) -> None:
        """Add both sums of a row, in a register."""
        full = Signal()
        takes = Signal()
        m.d.comb += [
            takes.eq(self.i.valid & sums.r_rdy & (~full | self.o.ready)),
            self.i.ready.eq(takes),
            sums.r_en.eq(takes),
            constants.r_en.eq(takes),
            self.o.valid.eq(full),
            self.o_constants.valid.eq(full),
        ]
        with m.If(takes):
            m.d.sync += [full.eq(1), Value.cast(self.o_constants.payload).eq(constants.r_data)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        vectors = self.config.vectors
        given, to = (each.payload.sum for each in (self.i, self.o))
        pairs = zip([*given], [*to], strict=True) if vectors > 1 else [(given, to)]
        with m.If(takes):
            for v, (dense, out) in enumerate(pairs):
                m.d.sync += out.eq(dense + sums.r_data[SUM * v :][:SUM].as_signed())
