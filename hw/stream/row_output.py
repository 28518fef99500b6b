"""Makes elements of a vector of the sums of a matrix's rows."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Member, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.fixed_requantize import overflows
from seedbed.hw.products.gemv_layouts import sums_layout
from seedbed.hw.stream.stream_layouts import SHIFT_BITS, element_layout, result_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD

__all__ = ["SUM", "RowOutput", "constants_layout", "output_members"]

#: Bits of a row's sum, which the program guarantees, and of a bias.
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
        "lane": Out(range(config.lanes)),
        "value": Out(signed(config.unit.residual_width)),
        "given": In(1),
        "o": Out(stream.Signature(result_layout(config))),
        "done": Out(1),
    }


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
        The store's port; data comes a cycle after its address.
    write, write_at, lane, value : Out
        An element is written to the store.
    given, o : In(1), Out(stream)
        Elements of one token go out, and not to the store.
    done : Out(1)
        All elements have been written.

    Latency: ``latency`` cycles. Throughput: an element every cycle.
    """

    latency = 5

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(output_members(config))

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        vector = Signal(range(max(2, config.vectors)))
        left = Signal.like(self.rows)
        lane = Signal(range(lanes))
        # The beat of this row of the first vector, and of the next element.
        base = Signal.like(self.at)
        place = Signal.like(self.at)
        takes = Signal()
        fire = Signal()
        ends = Signal()
        room = Signal()
        valid = self.i.valid & self.i_constants.valid
        m.d.comb += [
            ends.eq(vector == config.vectors - 1),
            takes.eq(valid & (left != 0) & (room | ~self.given)),
            fire.eq(takes & ends),
            self.i.ready.eq(fire),
            self.i_constants.ready.eq(fire),
            self.read.eq(takes),
            self.address.eq(place),
        ]
        with m.If(takes):
            m.d.sync += [vector.eq(vector + 1), place.eq(place + self.stride)]
        with m.If(fire):
            wraps = lane == lanes - 1
            m.d.sync += [
                vector.eq(0),
                left.eq(left - 1),
                lane.eq(lane + 1),
                base.eq(base + wraps),
                place.eq(base + wraps),
            ]
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.rows), base.eq(self.at), place.eq(self.at), lane.eq(0), vector.eq(0),
            ]  # fmt: skip
        written = takes & (vector < self.tokens)
        pending = delay_line(m, written, self.latency, "written", reset=True)
        whole = delayed(m, (lane == lanes - 1) | (left == 1), self.latency, "whole")
        given = self._given(m, pending[-1], whole, delayed(m, left == 1, self.latency, "last"))
        m.d.comb += [
            room.eq(given.level < QUEUE_ROOM),
            self.write.eq(pending[-1] & ~self.given),
            self.write_at.eq(delayed(m, place, self.latency, "place")),
            self.lane.eq(delayed(m, lane, self.latency, "lane")),
            self.done.eq(~self.start & (left == 0) & ~Cat(pending[1:]).any() & (given.level == 0)),
        ]
        self._element(m, vector, lane)
        return m

    def _given(self, m, comes, whole, last) -> SyncFIFO:
        """Put the elements of a beat together, and into the queue; return the queue."""
        layout = result_layout(self.config)
        m.submodules.queue = queue = SyncFIFO(width=layout.size, depth=QUEUE)
        collected = Signal(element_layout(self.config))
        beat = Signal(layout)
        for k, to in enumerate(beat.values):
            m.d.comb += to.eq(Mux(self.lane == k, self.value, collected[k]))
        fire = comes & self.given
        m.d.comb += [
            beat.last.eq(last),
            queue.w_data.eq(beat),
            queue.w_en.eq(fire & whole),
            self.o.valid.eq(queue.r_rdy),
            Value.cast(self.o.payload).eq(queue.r_data),
            queue.r_en.eq(self.o.ready),
        ]
        with m.If(fire):
            m.d.sync += [Value.cast(collected).eq(Mux(whole, 0, beat.values))]
        return queue

    def _element(self, m, vector, lane) -> None:
        """Multiply, shift, add, saturate: five registers."""
        config, unit = self.config, self.config.unit
        sums = [self.i.payload.sum] if config.vectors == 1 else [*self.i.payload.sum]
        constants = self.i_constants.payload
        factor = constants.multiplier[: unit.factor_bits]
        product = Signal(signed(SUM + unit.factor_bits + 1), reset_less=True)
        m.d.sync += product.eq(
            Array([each[:SUM].as_signed() for each in sums])[vector]
            * Cat(factor, Const(0, 1)).as_signed()
        )
        product_2 = delayed(m, product, 1, "product")
        shift = Signal.like(self.shift, reset_less=True)
        m.d.sync += shift.eq(self.shift - Array(self.shifts)[vector])
        shift_2 = delayed(m, shift, 1, "shift")
        # The bit below the last one rounds.
        shifted = Signal(signed(len(product) + 1), reset_less=True)
        m.d.sync += shifted.eq(Cat(Const(0, 1), product_2).as_signed() >> shift_2)
        before = Signal(signed(unit.residual_width), reset_less=True)
        m.d.sync += before.eq(Mux(self.add, Array(self.data)[delayed(m, lane, 1, "read_lane")], 0))
        addend = Signal(signed(BIAS + 1), reset_less=True)
        bias_2 = delayed(m, constants.bias, 2, "bias")
        m.d.sync += addend.eq(bias_2 + before)
        total = Signal(signed(len(product) + 2), reset_less=True)
        m.d.sync += total.eq((shifted >> 1) + shifted[0] + addend)
        value = Signal.like(self.value, reset_less=True)
        m.d.sync += value.eq(total)
        for wide, form in ((1, unit.residual), (0, unit.vector)):
            with m.If((self.wide == wide) & overflows(total, form)):
                m.d.sync += value.eq(Mux(total[-1], form.low, form.high))
        m.d.comb += self.value.eq(value)
