"""Makes elements of a vector of the sums of a matrix's rows."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Member, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.fixed_requantize import overflows
from seedbed.hw.products.gemv_layouts import sums_layout
from seedbed.hw.stream.stream_layouts import (
    SHIFT_BITS,
    STORE_CYCLES,
    element_layout,
    result_layout,
    unwritten_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD

__all__ = ["SUM", "RowOutput", "constants_layout", "output_members", "row_layout"]

#: Bits of a row's sum, which the program guarantees unless its weights are packed in a core with
#: ``wide_sums``, and of a bias.
SUM, BIAS = 32, 32
#: Beats that go out and wait at most, and with how many of them no element is begun.
QUEUE, QUEUE_ROOM = 8, 3


def constants_layout() -> data.StructLayout:
    """Return the layout of the constants of a row in memory."""
    return data.StructLayout({"multiplier": 32, "bias": signed(BIAS)})


def output_members(config: StreamEngineConfig) -> dict[str, Member]:
    """Return the members of :class:`RowOutput`."""
    return {
        "start": In(1),
        "at": In(PLACE["place"]),
        "stride": In(PLACE["place"]),
        "tokens": In(range(config.vectors + 1)),
        "rows": In(RECORD["rows"]),
        "shift": In(RECORD["shift"]),
        "add": In(1),
        "wide": In(1),
        "shifts": In(data.ArrayLayout(SHIFT_BITS, config.vectors)),
        "i": In(stream.Signature(sums_layout(config.gemv))),
        "i_constants": In(stream.Signature(constants_layout())),
        "read": Out(1),
        "address": Out(range(config.store)),
        "data": In(element_layout(config)),
        "write": Out(1),
        "write_at": Out(range(config.store)),
        "mask": Out(config.lanes),
        "results": Out(element_layout(config)),
        "given": In(1),
        "o": Out(stream.Signature(result_layout(config))),
        "done": Out(1),
        **({"wide_sums": In(1)} if config.wide_sums else {}),
        **({"unwritten": Out(unwritten_layout())} if config.chains else {}),
    }


def row_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a row that has been taken: where it belongs, and its constants."""
    return data.StructLayout(
        {
            "place": PLACE["place"], "lane": range(config.lanes),
            # The first or the last row of a beat; the last of the matrix.
            "first": 1, "whole": 1, "last": 1,
            "bias": signed(BIAS), "factor": config.unit.factor_bits,
        }
    )  # fmt: skip


class RowOutput(wiring.Component):
    """Gives ``round(sum multiplier / 2^shift) + bias``, plus what the store has there, saturated.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the end:
    at, stride, tokens : In
        The place of the first token's vector, the beats to the next one, the tokens.
    rows, shift, add, wide : In
        Rows of the matrix; the shift; whether the store's element is added; whether results have
        the width of the residual.
    shifts : In
        What the vector of each token was shifted by.
    i : In(stream)
        The sums of a row, one of each vector.
    i_constants : In(stream)
        The constants of that row.
    read, address, data : Out, Out, In
        The store's port; data comes ``STORE_CYCLES`` after its address.
    write, write_at, mask, results : Out
        Elements of a beat are written to the store: those that ``mask`` has a 1 for.
    wide_sums : In(1)
        In a core that has them: sums have all of their bits, and are not multiplied.
    given, o : In(1), Out(stream)
        Elements of one token go out, and not to the store.
    done : Out(1)
        All elements have been written. In the cycle of ``start``, it is of the matrix before.
    unwritten : Out
        Where results are read as they come: the beats that are not in the store yet.

    Each vector has a multiplier and a shifter of its own, a cycle behind those of the vector
    before: their beats of the store follow each other.

    Latency: ``latency`` cycles to the element of the first vector, one more to that of each other.
    Throughput: a row every cycle where the store has a place for it: beats of all vectors begin and
    end at most every ``vectors`` cycles.
    """

    latency = STORE_CYCLES + 5

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(output_members(config))

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        left = Signal.like(self.rows)
        row = Signal(row_layout(config))
        takes = Signal()
        # Rows are to come, or are on their way.
        busy = Signal()
        crowded = Signal()
        room = Signal()
        constants = self.i_constants.payload
        valid = self.i.valid & self.i_constants.valid
        m.d.comb += [
            row.first.eq(row.lane == 0),
            row.whole.eq((row.lane == lanes - 1) | (left == 1)),
            row.last.eq(left == 1),
            row.bias.eq(constants.bias),
            row.factor.eq(constants.multiplier),
            takes.eq(valid & (left != 0) & (room | ~self.given) & ~crowded),
            self.i.ready.eq(takes),
            self.i_constants.ready.eq(takes),
        ]
        with m.If(takes):
            m.d.sync += [
                left.eq(left - 1),
                row.lane.eq(row.lane + 1),
                row.place.eq(row.place + (row.lane == lanes - 1)),
            ]
        with m.If(self.start):
            m.d.sync += [left.eq(self.rows), row.place.eq(self.at), row.lane.eq(0)]
        # The rows of the cycles before: stage s of vector v has the one of v + s.
        count = self.latency + config.vectors - 1
        taken = delay_line(m, takes, count, "taken", reset=True)
        rows = delay_line(m, row, count, "row")
        # Beats of two rows would be read or written in the same cycle.
        m.d.comb += crowded.eq(
            Cat(
                taken[k] & ((rows[k].first & row.first) | (rows[k].whole & row.whole))
                for k in range(1, config.vectors)
            ).any()
        )
        beats = self._vectors(m, taken, rows)
        with m.If(self.start):
            m.d.sync += busy.eq(1)
        with m.Elif(taken[-1] & rows[-1].last):
            m.d.sync += busy.eq(0)
        if config.chains:
            self._unwritten(m, busy)
        level = self._given(m, taken[self.latency], rows[self.latency], beats[0])
        m.d.comb += [
            room.eq(level < QUEUE_ROOM),
            self.done.eq(~busy & (level == 0)),
        ]
        return m

    def _vectors(self, m, taken, rows) -> list:
        """Read and write beats of the store, of each vector in turn; return the beats written."""
        config, lanes = self.config, self.config.lanes
        reads = Signal(config.vectors)
        writes = Signal(config.vectors)
        m.d.comb += [self.read.eq(reads.any()), self.write.eq(writes.any())]
        offset, found = 0, []
        for v in range(config.vectors):
            ends = v + self.latency
            m.d.comb += [
                reads[v].eq(taken[v + 1] & rows[v + 1].first & self.add),
                writes[v].eq(taken[ends] & rows[ends].whole & (v < self.tokens) & ~self.given),
            ]
            before = Signal(element_layout(config), name=f"before_{v}", reset_less=True)
            with m.If(delayed(m, reads[v], STORE_CYCLES, f"read_{v}", reset=True)):
                m.d.sync += before.eq(self.data)
            value = self._element(m, v, rows[v + 1], rows[v + STORE_CYCLES + 2], before)
            # The elements of this beat so far.
            collected = Signal(element_layout(config), name=f"collected_{v}")
            beat = Signal(element_layout(config), name=f"beat_{v}")
            lane = rows[ends].lane
            m.d.comb += [to.eq(Mux(lane == k, value, collected[k])) for k, to in enumerate(beat)]
            with m.If(taken[ends]):
                m.d.sync += collected.eq(Mux(rows[ends].whole, 0, beat))
            with m.If(reads[v]):
                m.d.comb += self.address.eq(rows[v + 1].place + offset)
            with m.If(writes[v]):
                m.d.comb += [
                    self.write_at.eq(rows[ends].place + offset),
                    self.mask.eq(Cat(Const(1, 1), *(lane >= k for k in range(1, lanes)))),
                    self.results.eq(beat),
                ]
            found.append(beat)
            # It is steady before the first sum comes.
            after = Signal.like(self.stride, name=f"offset_{v + 1}")
            m.d.sync += after.eq(offset + self.stride)
            offset = after
        return found

    def _unwritten(self, m, busy) -> None:
        """Say which beats are not in the store yet: they are written in their order."""
        beats, bits = self.unwritten, self.config.lanes.bit_length() - 1
        m.d.comb += beats.on.eq(busy & ~self.given)
        with m.If(self.start):
            m.d.sync += [
                beats.first.eq(self.at),
                beats.end.eq(self.at + (self.rows + (1 << bits) - 1 >> bits)),
            ]
        with m.Elif(self.write):
            m.d.sync += beats.first.eq(beats.first + 1)

    def _given(self, m, comes, row, values) -> Value:
        """Put the beats that go out into the queue; return how many wait."""
        layout = result_layout(self.config)
        m.submodules.queue = queue = SyncFIFO(width=layout.size, depth=QUEUE)
        m.d.comb += [
            queue.w_data.eq(Cat(values, row.last)),
            queue.w_en.eq(comes & row.whole & self.given),
            self.o.valid.eq(queue.r_rdy),
            Value.cast(self.o.payload).eq(queue.r_data),
            queue.r_en.eq(self.o.ready),
        ]
        return queue.level

    def _element(self, m, v, row, later, before) -> Value:
        """Multiply, shift, add, saturate; return the element of a vector.

        The constants are those of ``row``; when ``before`` has come, it is ``later``. The registers
        until then are the multiplier's.
        """
        config, unit = self.config, self.config.unit
        sums = [self.i.payload.sum] if config.vectors == 1 else [*self.i.payload.sum]
        number = delayed(m, sums[v][:SUM].as_signed(), v + 1, f"sum_{v}")
        bits = SUM + unit.factor_bits + 1
        if config.wide_sums:
            bits = max(bits, len(sums[v]))
        product = Signal(signed(bits), name=f"product_{v}", reset_less=True)
        m.d.sync += product.eq(number * Cat(row.factor, Const(0, 1)).as_signed())
        if config.wide_sums:
            whole = delayed(m, sums[v], v + 1, f"whole_sum_{v}")
            with m.If(self.wide_sums):
                m.d.sync += product.eq(whole)
        product_there = delayed(m, product, STORE_CYCLES, f"product_{v}")
        shift = Signal.like(self.shift, name=f"shift_{v}", reset_less=True)
        m.d.sync += shift.eq(self.shift - self.shifts[v])
        # The bit below the last one rounds.
        shifted = Signal(signed(len(product) + 1), name=f"shifted_{v}", reset_less=True)
        m.d.sync += shifted.eq(Cat(Const(0, 1), product_there).as_signed() >> shift)
        addend = Signal(signed(BIAS + 1), name=f"addend_{v}", reset_less=True)
        m.d.sync += addend.eq(later.bias + Mux(self.add, Array(before)[later.lane], 0))
        total = Signal(signed(len(product) + 2), name=f"total_{v}", reset_less=True)
        m.d.sync += total.eq((shifted >> 1) + shifted[0] + addend)
        value = Signal(signed(unit.residual_width), name=f"value_{v}", reset_less=True)
        m.d.sync += value.eq(total)
        for wide, form in ((1, unit.residual), (0, unit.vector)):
            with m.If((self.wide == wide) & overflows(total, form)):
                m.d.sync += value.eq(Mux(total[-1], form.low, form.high))
        return value
