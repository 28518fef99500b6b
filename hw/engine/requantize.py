"""A layer's sums to int8, by the greatest magnitude: a maximum search and a second pass."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.rounding_shifter import RoundingShifter
from seedbed.spec import RequantizeConfig
from seedbed.spec.requantize import VALUE_BITS

__all__ = ["Requantize", "latency", "sums_layout", "values_layout"]


def latency(config: RequantizeConfig) -> int:
    """Return :attr:`Requantize.latency`."""
    # The sum, the maximum, the begin of the reads; the buffer and a register after it. With
    # the magnitudes of maxima, the peak is found one cycle later.
    return 5 + config.pool_first + RoundingShifter.latency_of(config)


def sums_layout(config: RequantizeConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i``."""
    sums = data.ArrayLayout(signed(config.width), config.ways)
    count = range(config.ways + 1)
    return data.StructLayout({"sums": sums, "count": count, "square_last": 1, "relu": 1, "last": 1})


def values_layout(config: RequantizeConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o``."""
    return data.StructLayout(
        {
            "values": data.ArrayLayout(signed(VALUE_BITS + 1), config.ways),
            "count": range(config.ways + 1),
            "shift": range(config.most_shift + 1),
            "length_error": 1,
            "last": 1,
        }
    )


class Requantize(wiring.Component):
    """Shifts a layer's sums to int8, after ReLU and pooling, by a shift that is found from them.

    With b the bits of the greatest magnitude in the layer::

        shift = max(b - 7, 0),  value = max of a pooling square, at least 0 with ReLU
        output = value / 2^shift, rounded, in -127..127

    Two passes over a layer. The first takes the maximum of each pooling square, stores it in the
    sum buffer, and combines all magnitudes by OR: only the leading one of the greatest counts. The
    second reads the buffer, shifts, and rounds. With rounding to nearest, magnitudes are those of
    all sums; otherwise, of the squares' maxima, before ReLU.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.RequantizeConfig`.

    Members
    -------
    i : In(stream of struct)
        sums of a layer
        sums (ways x signed(width)) : sums
        count : number of valid sums; the others count as 0. Range 0 to ``ways``.
        square_last : last beat of the pooling square. The next beat begins one.
        relu : 1: negative maxima become 0; valid with the last beat of the square
        last : last beat of the layer. It also ends the last square.
    o : Out(stream of struct)
        values of a layer, one beat per pooling square
        values (ways x signed(8)) : values: -127 to 127. Each way has the maximum of the whole
            square.
        count : count of the last beat of the square
        shift : shift of the layer: added to the exponent. Range 0 to ``most_shift``; the same in
            all beats of a layer.
        length_error : 1: the layer has more squares than the sum buffer has entries. The same in
            all beats of a layer.
        last : last beat of the layer

    A layer with more squares than the buffer has entries: the first ones are output, with
    ``length_error``; the sums of all count for the shift.

    Latency: ``latency`` cycles from the last beat of a layer to its first output.
    Throughput: 1 beat per cycle in each pass. The input is not ready during the second pass: a
    layer of n beats and m squares takes n + m + latency - 1 cycles.
    Source: NITI; ElasticZO, section 4.2.
    """

    def __init__(self, config: RequantizeConfig):
        self.config = config
        #: Flags that are pipelined with a beat of the first pass.
        self.flags = data.StructLayout(
            {
                "valid": 1,
                "first": 1,
                "square_last": 1,
                "relu": 1,
                "last": 1,
                "count": range(config.ways + 1),
            }
        )
        super().__init__(
            {
                "i": In(stream.Signature(sums_layout(config))),
                "o": Out(stream.Signature(values_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a layer's last beat to its first output."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        number = data.ArrayLayout(signed(config.width + 1), config.ways)
        entry = data.StructLayout({"numbers": number, "count": range(config.ways + 1), "relu": 1})
        m.submodules.buffer = buffer = memory.Memory(shape=entry, depth=config.entries, init=[])
        layer_done = Signal()
        m.d.comb += layer_done.eq(self.o.valid & self.o.ready & self.o.payload.last)
        stages, numbers, pooled = self._first_pass(m, layer_done)
        stored, length_error = self._store(m, buffer.write_port(), stages[-1], pooled, layer_done)
        if config.pool_first:
            shift = self._shift(m, pooled, stages[2].valid & stages[2].square_last, layer_done)
        else:
            shift = self._shift(m, numbers, stages[1].valid, layer_done)
        ended = delayed(m, stages[2].valid & stages[2].last, config.pool_first, "ended", reset=True)
        self._second_pass(m, buffer.read_port(), stages[2].valid, ended, stored, shift)
        m.d.comb += [self.o.payload.shift.eq(shift), self.o.payload.length_error.eq(length_error)]
        return m

    def _first_pass(self, m, layer_done):
        """Return a beat's flags in each stage, its numbers, and the maxima of its square.

        Numbers are in ones' complement, whose order is that of the sums. The magnitude is then an
        exclusive or, which needs no carry chain after this one.
        """
        config, beat = self.config, self.i.payload
        collecting = Signal(init=1)
        first = Signal(init=1)
        fire = Signal()
        flags = Signal(self.flags)
        m.d.comb += [
            self.i.ready.eq(collecting),
            fire.eq(self.i.valid & self.i.ready),
            flags.valid.eq(fire),
            flags.first.eq(first),
            flags.square_last.eq(beat.square_last | beat.last),
            *(flags[name].eq(beat[name]) for name in ("relu", "last", "count")),
        ]
        with m.If(fire):
            m.d.sync += [first.eq(flags.square_last), collecting.eq(~beat.last)]
        with m.If(layer_done):
            m.d.sync += collecting.eq(1)
        stages = delay_line(m, flags, 2, "flags", reset=True)
        numbers, pooled = [], []
        for k, total in enumerate(beat.sums):
            number = Signal(signed(config.width + 1), name=f"number_{k}", reset_less=True)
            maximum = Signal(signed(config.width + 1), name=f"maximum_{k}", reset_less=True)
            m.d.sync += number.eq(Mux(beat.count > k, total - total[-1], 0))
            # The sign of a difference is one LUT less than a signed comparison.
            with m.If(stages[1].valid & (stages[1].first | (maximum - number)[-1])):
                m.d.sync += maximum.eq(number)
            numbers.append(number)
            pooled.append(maximum)
        return stages, numbers, pooled

    def _store(self, m, write, flags, pooled, layer_done):
        """Store the squares' maxima; return how many are stored, and whether one was discarded."""
        stored = Signal(range(self.config.entries + 1))
        full = Signal()
        square_end = Signal()
        length_error = Signal()
        m.d.comb += [
            full.eq(stored == self.config.entries),
            square_end.eq(flags.valid & flags.square_last),
            write.en.eq(square_end & ~full),
            write.addr.eq(stored),
            write.data.count.eq(flags.count),
            write.data.relu.eq(flags.relu),
            *(to.eq(maximum) for to, maximum in zip(write.data.numbers, pooled, strict=True)),
        ]
        with m.If(square_end):
            m.d.sync += [stored.eq(stored + ~full), length_error.eq(length_error | full)]
        with m.If(layer_done):
            m.d.sync += [stored.eq(0), length_error.eq(0)]
        return stored, length_error

    def _shift(self, m, numbers: list[Value], valid: Value, layer_done):
        """Return the shift: the place of the leading one of all magnitudes, above the seventh bit.

        A magnitude's bits are valid together with ``valid``.
        """
        most = self.config.most_shift
        bits = [(x[:-1] ^ x[-1].replicate(self.config.width))[VALUE_BITS:] for x in numbers]
        seen = Signal(most)
        peak = Signal(most)
        leading_one = Signal(most)
        shift = Signal(range(most + 1))
        m.d.sync += [
            seen.eq(Mux(valid, reduce(or_, bits), 0)),
            peak.eq(Mux(layer_done, 0, peak | seen)),
            leading_one.eq(Cat(bit & ~peak[k + 1 :].any() for k, bit in enumerate(peak))),
            shift.eq(reduce(or_, (Mux(bit, k + 1, 0) for k, bit in enumerate(leading_one)))),
        ]
        return shift

    def _second_pass(self, m, read, collected, ended, stored, shift):
        """Read the maxima, shift, round, and output them."""
        config = self.config
        m.submodules.shifter = shifter = RoundingShifter(config)
        latency = shifter.latency_of(config)
        reading = Signal()
        ce = Signal()
        index = Signal(range(config.entries))
        issued = Signal(data.StructLayout({"valid": 1, "last": 1}))
        m.d.comb += [
            ce.eq(~self.o.valid | self.o.ready),
            read.addr.eq(index),
            # No read during a write: with that, a block memory has no logic around it.
            read.en.eq(ce & ~collected),
            issued.valid.eq(reading),
            issued.last.eq(reading & (index + 1 == stored)),
        ]
        with m.If(ended):
            m.d.sync += reading.eq(1)
        with m.If(ce & reading):
            m.d.sync += index.eq(index + 1)
            with m.If(issued.last):
                m.d.sync += [index.eq(0), reading.eq(0)]
        entry = delayed(m, read.data, 1, "entry", enable=ce)
        count = delayed(m, entry.count, latency, "count", enable=ce)
        given = delayed(m, issued, 2 + latency, "given", enable=ce, reset=True)
        m.d.comb += [
            shifter.ce.eq(ce),
            shifter.shift.eq(shift),
            shifter.relu.eq(entry.relu),
            shifter.i.eq(entry.numbers),
            self.o.payload.values.eq(shifter.o),
            self.o.payload.count.eq(count),
            self.o.payload.last.eq(given.last),
            self.o.valid.eq(given.valid),
        ]
