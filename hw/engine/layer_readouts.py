"""Read-outs of an engine's memories: trained rows, and the vectors that a cache keeps."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.parts.delay_line import delay_line
from seedbed.spec.engine import EngineConfig
from seedbed.spec.planner import ALIGN

__all__ = ["CacheReadout", "PartReadout", "RowParts", "RowReadout", "rows_layout"]


def rows_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a row of lanes; ``last`` with a vector's last one."""
    values = data.ArrayLayout(signed(config.values.width), config.plan.lanes)
    return data.StructLayout({"values": values, "last": 1})


class RowReadout(wiring.Component):
    """Gives trained rows out, two numbers at a time; its address is steady meanwhile.

    Members
    -------
    start, first : In
        Begins with a row.
    busy : Out(1)
        Until the last word has been taken.
    row, pair : Out
        What the memory is to read, while ``busy``, and which two numbers of it come next.
    given : In
        The memory's row, ``ParameterMemory.latency`` cycles later.
    o : Out(stream of struct)
        ``word`` (two numbers) and ``last``.

    Words come from the lanes over multiplexers of four neighbours with a register each: one of all
    would have nets across the device. Throughput: a word every 2 + ``stages`` cycles.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        #: Of multiplexers.
        self.stages = ((plan.ways * plan.lanes // 2 - 1).bit_length() + 1) // 2
        numbers = data.ArrayLayout(signed(config.mac.weight_width), plan.ways * plan.lanes)
        super().__init__(
            {
                "start": In(1),
                "first": In(range(max(config.written_rows, 2))),
                "busy": Out(1),
                "row": Out(range(max(config.written_rows, 2))),
                "pair": Out(range(plan.ways * plan.lanes // 2)),
                "given": In(self._given(numbers)),
                "o": Out(stream.Signature(words_layout(config))),
            }
        )

    def _given(self, row):
        """Return the shape of ``given``, of a row's."""
        return row

    @property
    def again(self) -> int:
        """Cycles from another pair of the same row to its word."""
        return self.stages

    def elaborate(self, platform):
        m = Module()
        plan, out = self.config.plan, self.o
        pairs = plan.ways * plan.lanes // 2
        pair = self.pair
        fresh = ParameterMemory.latency + self.stages
        wait = Signal(range(fresh + 1), init=fresh)
        shown = Signal(out.payload.word.shape(), reset_less=True)
        selected = self._selected(m)
        ends = Signal()
        over = Signal()
        m.d.comb += [
            ends.eq(pair == pairs - 1),
            over.eq(ends & (self.row == self.config.written_rows - 1)),
            out.payload.word.eq(shown),
            out.payload.last.eq(over),
        ]
        with m.If(self.busy):
            with m.If(wait != 0):
                m.d.sync += wait.eq(wait - 1)
            with m.Elif(~out.valid):
                m.d.sync += [shown.eq(selected), out.valid.eq(1)]
        with m.If(out.valid & out.ready):
            m.d.sync += [out.valid.eq(0), pair.eq(pair + 1), wait.eq(self.again)]
            with m.If(ends):
                m.d.sync += [pair.eq(0), self.row.eq(self.row + 1), wait.eq(fresh)]
            with m.If(over):
                m.d.sync += self.busy.eq(0)
        with m.If(self.start):
            m.d.sync += [self.busy.eq(1), self.row.eq(self.first)]
        return m

    def _selected(self, m):
        """Return the word of the pair."""
        pairs, pair, word = len(self.given) // 2, self.pair, self.config.word
        some = [
            Cat(number[:word] for number in self.given[k : k + 2]) for k in range(0, 2 * pairs, 2)
        ]
        for stage in range(self.stages):
            kept = []
            for k in range(0, len(some), 4):
                kept.append(Signal(2 * word, name=f"some_{stage}_{k}", reset_less=True))
                four = [some[min(k + n, len(some) - 1)] for n in range(4)]
                m.d.sync += kept[-1].eq(Array(four)[pair[2 * stage : 2 * stage + 2]])
            some = kept
        return some[0]


class RowParts(wiring.Component):
    """Selects a part of a row: ``LANES`` neighbouring numbers.

    Members
    -------
    part : In
        Which part; with the row's request to the memory.
    given : In
        The memory's row, ``ParameterMemory.latency`` cycles later.
    o : Out(LANES numbers)
        The part, ``latency`` cycles after ``part``.

    Throughput: a part a cycle, over multiplexers of four with a register each.
    """

    #: Numbers of a part.
    LANES = 8

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        count, number = plan.ways * plan.lanes, signed(config.mac.weight_width)
        self.latency = self.latency_of(config)
        super().__init__(
            {
                "part": In(range(max(self.parts_of(config), 2))),
                "given": In(data.ArrayLayout(number, count)),
                "o": Out(data.ArrayLayout(number, self.LANES)),
            }
        )

    @classmethod
    def parts_of(cls, config: EngineConfig) -> int:
        """Return the parts of a row."""
        return config.plan.ways * config.plan.lanes // cls.LANES

    @classmethod
    def latency_of(cls, config: EngineConfig) -> int:
        """Return :attr:`latency`."""
        return ParameterMemory.latency + ((cls.parts_of(config) - 1).bit_length() + 1) // 2

    def elaborate(self, platform):
        m = Module()
        size = self.LANES * self.config.mac.weight_width
        row = Value.cast(self.given)
        some = [row[k : k + size] for k in range(0, len(row), size)]
        parts = delay_line(m, self.part, self.latency - 1, "part")[ParameterMemory.latency :]
        high = (self.parts_of(self.config) - 1).bit_length()
        # The most significant bits of a part's number come first: lanes far apart are near in it.
        for stage, part in enumerate(parts):
            low = max(high - 2, 0)
            kept = []
            for k in range(1 << low):
                kept.append(Signal(size, name=f"part_{stage}_{k}", reset_less=True))
                m.d.sync += kept[-1].eq(Array(some[k :: 1 << low])[part[low:high]])
            some, high = kept, low
        m.d.comb += Value.cast(self.o).eq(some[0])
        return m


class PartReadout(RowReadout):
    """Gives trained rows out as :class:`RowReadout` does, of the parts that :class:`RowParts` has.

    Members
    -------
    given : In
        The part of ``pair``.

    Throughput: a word every 5 + ``stages`` cycles.
    """

    def _given(self, row):
        return data.ArrayLayout(row.elem_shape, RowParts.LANES)

    @property
    def part(self):
        """The part that a pair is of."""
        return self.pair[2:]

    @property
    def again(self) -> int:
        """Cycles from another pair of the same row to its word."""
        return ParameterMemory.latency + self.stages

    def _selected(self, m):
        """Return the word of the pair."""
        shown = Signal(2 * self.config.word, reset_less=True)
        words = [Value.cast(self.given).word_select(k, len(shown)) for k in range(4)]
        m.d.sync += shown.eq(Array(words)[self.pair[:2]])
        return shown


class CacheReadout(wiring.Component):
    """Gives the vectors that a cache keeps, a row of lanes at a time; its address is steady.

    Members
    -------
    start, buffer_select : In
        Begins, in a buffer of the store, which is steady while it is ``busy``.
    busy : Out(1)
        Until the last row has been taken.
    address : Out
        What the store is to read, while ``busy``.
    lanes : In
        What the store gives, ``ActivationStore.latency`` cycles later.
    o : Out(stream of struct)
        ``values`` (lanes) and ``last`` (of a vector).

    Throughput: a row every ``ActivationStore.latency`` + 1 cycles, and one more a vector.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "buffer_select": In(1),
                "busy": Out(1),
                "address": Out(ActivationStore.width(config)),
                "lanes": In(data.ArrayLayout(signed(config.number), config.plan.lanes)),
                "o": Out(stream.Signature(rows_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, out = self.config.plan, self.o
        unit = max(plan.lanes, ALIGN) // plan.lanes
        # Vectors in whole beats of the cache.
        parts = [(r.first // plan.lanes, -(-r.rows // unit) * unit) for r in plan.schedule.cached]
        number = Signal(range(len(parts)))
        row = Signal(range(plan.store_rows))
        left = Signal(range(max(count for _, count in parts) + 1))
        wait = Signal(range(ActivationStore.latency + 1))
        begins = Signal(init=1)
        last = number == len(parts) - 1
        low = (plan.lanes - 1).bit_length()
        m.d.comb += [
            self.address.eq((row << low) + (self.buffer_select << (len(self.address) - 1))),
            out.valid.eq(self.busy & ~begins & (wait == 0)),
            out.payload.last.eq(left == 0),
            *(to.eq(lane) for to, lane in zip(out.payload.values, self.lanes, strict=True)),
        ]
        with m.If(self.busy & begins):
            with m.Switch(number):
                for k, (first, count) in enumerate(parts):
                    with m.Case(k):
                        m.d.sync += [row.eq(first), left.eq(count - 1)]
            m.d.sync += [begins.eq(0), wait.eq(ActivationStore.latency)]
        with m.Elif(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(out.valid & out.ready):
            m.d.sync += [wait.eq(ActivationStore.latency), row.eq(row + 1), left.eq(left - 1)]
            with m.If(left == 0):
                # Ready for the next vector, or the next start.
                m.d.sync += [number.eq(Mux(last, 0, number + 1)), begins.eq(1), self.busy.eq(~last)]
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        return m
