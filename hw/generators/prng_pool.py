"""A pool of pre-generated numbers, read as a circular buffer."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import PoolConfig

__all__ = ["PrngPool", "at_least", "beat_layout", "latency", "number_layout"]


def at_least(value: Value, bound: int) -> Value:
    """Return ``value >= bound`` as a chain of AND and OR: fewer LUTs than a carry chain."""
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
    """Gives n consecutive numbers per beat of a circular sequence of N, from any index.

    With numbers x and position p, a beat is::

        lanes[j] = x[(p + j) mod N];   p' = (p + count) mod N

    There are S banks. Row r of the memory holds the numbers S r .. S r + S + n - 2 (mod N), so that
    every window lies in the one row p div S. All banks have the same address, no wrap-around is
    needed after the memory, and lane j is column j + p mod S. Column c is stored in bank c mod S,
    and number i in bank i mod S. N = 4095 in 8 banks gives 512 rows of two numbers per bank.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PoolConfig`.

    Members
    -------
    i : In(stream of struct)
        read request. One request per beat.
        seek : 1: read from start; 0: continue at the read position
        start : start address in the pool. Range 0 to N - 1.
        count : numbers used, and increment of the read position; 0: position unchanged. Range 0 to
            n.
        last : last flag, returned with the beat
    o : Out(stream of struct)
        numbers read from the pool
        lanes (n x signed(b)) : consecutive numbers of the pool. All of them are valid.
        count : number of valid lanes
        last : last flag of the request
    i_pool : In(stream of struct)
        pool contents, write stream. While it is valid no request is accepted; a request between two
        numbers reads the numbers written so far.
        number (signed(b)) : next number of the pool. The first is number 0. After ``last``, or
            number N - 1, the next is number 0 again.
        last : last number of the pool

    Latency: ``latency`` cycles from request to beat. It is 2, or 1 without ``register``.
    Throughput: 1 beat per cycle. A number is loaded in ``load_interval`` cycles, each of the first
    n - 1 in twice as many.
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
        """Cycles to load a number: the greatest number of columns in a bank."""
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
            [config.numbers[(config.banks * r + c) % config.size] for c in columns]
            for r in range(config.rows)
        ]
        bank = memory.Memory(shape=shape, depth=config.rows, init=init)
        m.submodules[f"bank_{b}"] = bank
        return bank

    def _read(self, m, reads):
        config, request = self.config, self.i.payload
        size, stride = config.size, config.banks.bit_length() - 1
        # The end of the last window, before reduction mod N. The remainder after a wrap is below n.
        end = Signal(range(size + config.lanes))
        position = Signal(range(size))
        start = Signal(range(size))
        advance = Signal()
        # Verilog has no empty vector.
        select = Signal(max(1, stride))
        valid = Signal()
        beat = Signal.like(self.o.payload)
        rest = (end - size)[: (config.lanes - 1).bit_length()]
        m.d.comb += [
            position.eq(Mux(at_least(end, size), rest, end)),
            start.eq(Mux(request.seek, request.start, position)),
            advance.eq(~self.o.valid | self.o.ready),
            # No read during a write: otherwise the memories would need extra logic that defines the
            # read data of a simultaneous write.
            self.i.ready.eq(advance & ~self.i_pool.valid),
        ]
        for read in reads:
            m.d.comb += [read.addr.eq(start[stride:]), read.en.eq(self.i.ready)]
        count, last = Signal.like(request.count), Signal()
        with m.If(advance):
            m.d.sync += [
                valid.eq(self.i.valid & self.i.ready),
                select.eq(start[:stride]),
                count.eq(request.count),
                last.eq(request.last),
            ]
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += end.eq(start + request.count)
        columns = [
            reads[c % config.banks].data[c // config.banks].as_unsigned()
            for c in range(config.columns)
        ]
        # A barrel shifter, two bits of the select per stage, as sums of products: one LUT6 per bit.
        # The largest shifts come first: the lanes share all stages but the last.
        while stride:
            stride, above = max(0, stride - 2), stride
            one_hot = Signal(1 << (above - stride), name=f"one_hot_{stride}")
            m.d.comb += [bit.eq(select[stride:above] == o) for o, bit in enumerate(one_hot)]
            shifted = data.ArrayLayout(config.width, config.lanes - 1 + (1 << stride))
            shifted = Signal(shifted, name=f"shifted_{stride}")
            for c, column in enumerate(shifted):
                products = [
                    Mux(bit, columns[c + (o << stride)], 0) for o, bit in enumerate(one_hot)
                ]
                m.d.comb += column.eq(reduce(or_, products))
            columns = list(shifted)
        m.d.comb += [beat.count.eq(count), beat.last.eq(last)]
        m.d.comb += [lane.eq(column) for lane, column in zip(beat.lanes, columns, strict=True)]
        if config.register:
            with m.If(advance):
                m.d.sync += [self.o.payload.eq(beat), self.o.valid.eq(valid)]
        else:
            m.d.comb += [self.o.payload.eq(beat), self.o.valid.eq(valid)]

    def _load(self, m, writes):
        config, number = self.config, self.i_pool.payload
        size, stride = config.size, config.banks.bit_length() - 1
        # Number i is written to address i and, if a window reaches it past the end, to N + i.
        # Address a is in columns a mod S + k S of the rows a div S - k, for all k.
        index = Signal(range(size))
        second_pass = Signal()
        # The copy k of the number, as -k, to be added to the row.
        copy = Signal(range(min(-1, 1 - self.load_interval), 1))
        target = Signal(range(size + config.lanes))
        early = ~at_least(index, config.lanes - 1)
        head = index[: (config.lanes - 1).bit_length()]
        final_copy = copy == 1 - self.load_interval
        # Wide enough that the rows after the last and before the first are out of range.
        highest = (size + config.lanes) // config.banks + self.load_interval
        depth = config.rows.bit_length() - 1
        row = Signal(max(depth + 1, highest.bit_length()))
        m.d.comb += [
            target.eq(Mux(second_pass, head + size, index)),
            row.eq(copy + target[stride:]),
            self.i_pool.ready.eq(final_copy & (second_pass | ~early)),
        ]
        for b, write in enumerate(writes):
            m.d.comb += write.addr.eq(row)
            here = self.i_pool.valid & (target[:stride] == b) & ~row[depth:].any()
            for k, word in enumerate(write.data):
                m.d.comb += [word.eq(number.number), write.en[k].eq(here & (copy == -k))]
        stored = Signal()
        m.d.comb += stored.eq(self.i_pool.valid & self.i_pool.ready)
        with m.If(self.i_pool.valid):
            m.d.sync += copy.eq(Mux(final_copy, 0, copy - 1))
            with m.If(final_copy):
                m.d.sync += second_pass.eq(early & ~second_pass)
        with m.If(stored):
            m.d.sync += index.eq(index + 1)
        with m.If(stored & (number.last | (index == size - 1))):
            m.d.sync += index.eq(0)
