"""A pool of pre-generated numbers, read as a circle."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import PoolConfig

__all__ = ["PrngPool", "at_least", "beat_layout", "latency", "number_layout"]


def at_least(value: Value, bound: int) -> Value:
    """Return ``value >= bound`` as a tree of AND and OR: smaller than a subtraction's carry."""
    result = Const(1)
    for k in range(len(value)):
        result = value[k] & result if bound >> k & 1 else value[k] | result
    return result if bound < 1 << len(value) else Const(0)


def beat_layout(config: PoolConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o``."""
    lanes = data.ArrayLayout(signed(config.width), config.lanes)
    count = Shape.cast(range(config.lanes + 1))
    return data.StructLayout({"lanes": lanes, "count": count, "last": 1})


def number_layout(config: PoolConfig) -> data.StructLayout:
    """Return the layout of a number that is loaded, see :class:`PrngPool`."""
    return data.StructLayout({"number": signed(config.width), "last": 1})


def latency(config: PoolConfig) -> int:
    """Return :attr:`PrngPool.latency`."""
    return 2 if config.register else 1


class PrngPool(wiring.Component):
    """Shows n consecutive numbers a beat of a circular sequence of N, from any place.

    With numbers x and position p, a beat is::

        lanes[j] = x[(p + j) mod N];   p' = (p + count) mod N

    A row r of the memory holds the numbers S r .. S r + S + n - 2 (mod N), S banks, so that every
    window lies in the one row p div S: all banks have the same address, nothing wraps around behind
    the memory, and lane j is column j + p mod S. Column c belongs to bank c mod S, and number i so
    to bank i mod S; N = 4095 in 8 banks is 512 rows, and a word of a bank is two numbers.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PoolConfig`.

    Members
    -------
    i : In(stream of struct)
        One request a beat: ``seek`` (1: from ``start``, 0: from the position), ``start`` (0..N-1),
        ``count`` (0..n: how far the position moves on), ``last``.
    o : Out(stream of struct)
        ``lanes`` (n x signed(b); those beyond ``count`` too); ``count`` and ``last`` as asked.
    i_pool : In(stream of struct)
        ``number`` (signed(b)) for places 0, 1, 2, .. and, after ``last`` or place N - 1, from 0
        again. Requests wait while a number does; between numbers they see what is written so far.

    Latency: 2 cycles from the request to its beat, or 1 without ``register``. Throughput: a beat
    every cycle. A number is loaded in ``load_interval`` cycles, the first n - 1 in twice as many.
    Source: PeZO (ICCAD 2025), sections 3.1 and 4.2.
    """

    interval = 1

    def __init__(self, config: PoolConfig):
        self.config = config
        count = beat_layout(config)["count"].shape
        request = {"seek": 1, "start": Shape.cast(range(config.size)), "count": count, "last": 1}
        super().__init__(
            {
                "i": In(stream.Signature(data.StructLayout(request))),
                "i_pool": In(stream.Signature(number_layout(config))),
                "o": Out(stream.Signature(beat_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a request to its beat."""
        return latency(self.config)

    @property
    def load_interval(self) -> int:
        """Cycles to load a number: the most columns that a bank holds."""
        return -(-self.config.columns // self.config.banks)

    def elaborate(self, platform):
        m = Module()
        banks = [self._bank(m, b) for b in range(self.config.banks)]
        reads = [bank.read_port() for bank in banks]
        writes = [bank.write_port(granularity=1) for bank in banks]
        self._read(m, reads)
        self._load(m, writes)
        return m

    def _bank(self, m, b):
        config = self.config
        columns = range(b, config.columns, config.banks)
        shape = data.ArrayLayout(signed(config.width), len(columns))
        init = [
            [config.contents[(config.banks * r + c) % config.size] for c in columns]
            for r in range(config.rows)
        ]
        bank = memory.Memory(shape=shape, depth=config.rows, init=init)
        m.submodules[f"bank_{b}"] = bank
        return bank

    def _read(self, m, reads):
        config, request = self.config, self.i.payload
        size, stride = config.size, config.banks.bit_length() - 1
        # The end of the last window, not yet reduced; what is left behind a wrap is below n.
        end = Signal(range(size + config.lanes))
        position = Signal(range(size))
        place = Signal(range(size))
        moves = Signal()
        # Verilog has no empty vector.
        select = Signal(max(1, stride))
        valid = Signal()
        beat = Signal.like(self.o.payload)
        rest = (end - size)[: (config.lanes - 1).bit_length()]
        m.d.comb += [
            position.eq(Mux(at_least(end, size), rest, end)),
            place.eq(Mux(request.seek, request.start, position)),
            moves.eq(~self.o.valid | self.o.ready),
            # While a number is written nothing is read: else the memories would need logic around
            # them that settles what a read sees of a write.
            self.i.ready.eq(moves & ~self.i_pool.valid),
        ]
        for read in reads:
            m.d.comb += [read.addr.eq(place[stride:]), read.en.eq(self.i.ready)]
        count, last = Signal.like(request.count), Signal()
        with m.If(moves):
            m.d.sync += [
                valid.eq(self.i.valid & self.i.ready),
                select.eq(place[:stride]),
                count.eq(request.count),
                last.eq(request.last),
            ]
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += end.eq(place + request.count)
        columns = [
            reads[c % config.banks].data[c // config.banks].as_unsigned()
            for c in range(config.columns)
        ]
        # Two bits of the selection at a time, as sums of products: one LUT6 each. The largest steps
        # come first, as the lanes share all but the last.
        while stride:
            stride, above = max(0, stride - 2), stride
            ways = Signal(1 << (above - stride), name=f"ways_{stride}")
            m.d.comb += [way.eq(select[stride:above] == o) for o, way in enumerate(ways)]
            step = data.ArrayLayout(config.width, config.lanes - 1 + (1 << stride))
            step = Signal(step, name=f"step_{stride}")
            for c, column in enumerate(step):
                chosen = [Mux(way, columns[c + (o << stride)], 0) for o, way in enumerate(ways)]
                m.d.comb += column.eq(reduce(or_, chosen))
            columns = list(step)
        m.d.comb += [beat.count.eq(count), beat.last.eq(last)]
        m.d.comb += [lane.eq(column) for lane, column in zip(beat.lanes, columns, strict=True)]
        if config.register:
            with m.If(moves):
                m.d.sync += [self.o.payload.eq(beat), self.o.valid.eq(valid)]
        else:
            m.d.comb += [self.o.payload.eq(beat), self.o.valid.eq(valid)]

    def _load(self, m, writes):
        config, number = self.config, self.i_pool.payload
        size, stride = config.size, config.banks.bit_length() - 1
        # Number i belongs to places i and, if a window reaches it over the end, N + i; a place
        # a belongs to columns a mod S + k S of the rows a div S - k, for all k.
        index = Signal(range(size))
        again = Signal()
        # Counts down from 0, to be added to a row.
        turn = Signal(range(min(-1, 1 - self.load_interval), 1))
        target = Signal(range(size + config.lanes))
        early = ~at_least(index, config.lanes - 1)
        head = index[: (config.lanes - 1).bit_length()]
        final = turn == 1 - self.load_interval
        # Wide enough for a row above the last and one below the first to stay out of range.
        highest = (size + config.lanes) // config.banks + self.load_interval
        depth = config.rows.bit_length() - 1
        row = Signal(max(depth + 1, highest.bit_length()))
        m.d.comb += [
            target.eq(Mux(again, head + size, index)),
            row.eq(turn + target[stride:]),
            self.i_pool.ready.eq(final & (again | ~early)),
        ]
        for b, write in enumerate(writes):
            m.d.comb += write.addr.eq(row)
            here = self.i_pool.valid & (target[:stride] == b) & ~row[depth:].any()
            for k, word in enumerate(write.data):
                m.d.comb += [word.eq(number.number), write.en[k].eq(here & (turn == -k))]
        stored = Signal()
        m.d.comb += stored.eq(self.i_pool.valid & self.i_pool.ready)
        with m.If(self.i_pool.valid):
            m.d.sync += turn.eq(Mux(final, 0, turn - 1))
            with m.If(final):
                m.d.sync += again.eq(early & ~again)
        with m.If(stored):
            m.d.sync += index.eq(index + 1)
        with m.If(stored & (number.last | (index == size - 1))):
            m.d.sync += index.eq(0)
