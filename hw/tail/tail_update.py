"""The updates of a batch: the greatest gradient of a layer, and pseudo-stochastic rounding."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import BP_TAIL_ERRORS, BpTailConfig

__all__ = ["TailUpdate", "response_layout"]

#: Most bits of the magnitude of an update.
UPDATE_BITS = 7
#: Cycles from the last pair of the first walk to the shift, and from a pair to its updates.
SETTLING = 5
LATENCY = 6


def response_layout() -> data.StructLayout:
    """Return the layout of a beat at the port ``o`` of the core."""
    values = data.ArrayLayout(signed(UPDATE_BITS + 1), 2)
    return data.StructLayout({"values": values, "last": 1} | dict.fromkeys(BP_TAIL_ERRORS, 1))


class TailUpdate(wiring.Component):
    """Walks the gradients of each layer twice: for the greatest, and to round them.

    With b the update bits::

        shift = max(bits(max |G|) - b, 0)
        update = G / 2^shift, rounded pseudo-stochastically, in -(2^b - 1) .. 2^b - 1

    The remainder's low floor(shift / 2) bits are the random number, doubled where shift is odd; the
    bits above them are the probability. A magnitude is rounded up where the probability is greater.
    Only the leading one of the greatest magnitude counts: the magnitudes are combined by OR.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.

    Members
    -------
    start : In(1)
        Begins the updates of a batch, while not ``busy``.
    update_bits : In(3)
        b, with ``start``.
    errors : In(3)
        What was wrong with the batch, with ``start``.
    empty : In(1)
        The gradients count as 0. Steady while ``busy``.
    busy : Out(1)
    layer, load, advance : Out
        Of a :class:`~seedbed.hw.tail.row_walk.RowWalk`.
    padding, last : In(1)
        Of the word that it is at.
    read : Out(1)
        That word's gradients are read.
    ce : Out(1)
        Clock enable of the pipeline.
    gradients : In(lanes x signed(accumulator_bits))
        After two enabled cycles.
    o : Out(stream of struct)
        ``values`` (two updates) and ``last``: all rows of all layers. The errors.

    Latency: :meth:`latency_of`. Throughput: two updates a cycle.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "update_bits": In(3),
                "errors": In(len(BP_TAIL_ERRORS)),
                "empty": In(1),
                "busy": Out(1),
                "layer": Out(range(max(2, len(config.inputs)))),
                "load": Out(1),
                "advance": Out(1),
                "padding": In(1),
                "last": In(1),
                "read": Out(1),
                "ce": Out(1),
                "gradients": In(data.ArrayLayout(signed(config.accumulator_bits), config.lanes)),
                "o": Out(stream.Signature(response_layout())),
            }
        )

    @staticmethod
    def latency_of(config: BpTailConfig) -> int:
        """Return the cycles from ``start`` to the first updates: a walk of the first layer."""
        return 1 + TailUpdate.pairs_of(config)[0] + 1 + SETTLING + 1 + LATENCY

    @staticmethod
    def cycles_of(config: BpTailConfig) -> int:
        """Return the cycles from ``start`` to the last updates, if each is accepted at once."""
        return sum(2 + SETTLING + 2 * pairs for pairs in TailUpdate.pairs_of(config)) + LATENCY

    @staticmethod
    def pairs_of(config: BpTailConfig) -> list[int]:
        """Return the pairs of each layer's rows."""
        pairs = config.ways * config.row_lanes // 2
        return [layer.groups * layer.group_rows * pairs for layer in config.layers]

    def elaborate(self, platform):
        m = Module()
        config = self.config
        ce = self.ce
        valid = Signal()
        ends = Signal()
        rounding = Signal()
        settled = Signal()
        pair = Signal(range(max(2, config.lanes // 2)))
        bits = Signal(3, reset_less=True)
        with m.If(self.start & ~self.busy):
            m.d.sync += bits.eq(self.update_bits)
            m.d.sync += [
                self.o.payload[name].eq(self.errors[k]) for k, name in enumerate(BP_TAIL_ERRORS)
            ]
        m.d.comb += [ce.eq(~self.o.valid | self.o.ready), self.read.eq(valid & ce)]
        self._walk(m, ce, valid, ends, rounding, settled, pair)
        magnitudes, signs = self._magnitudes(m, ce, pair)
        peak = Signal(self._width, reset_less=True)
        searching = delayed(m, valid & ~rounding, LATENCY - 3, "searching", enable=ce, reset=True)
        with m.If(searching & ce):
            m.d.sync += peak.eq(peak | magnitudes[0] | magnitudes[1])
        with m.If(self.load & ~rounding):
            m.d.sync += peak.eq(0)
        values = self._round(m, ce, bits, self._shift(m, peak, bits, settled), magnitudes, signs)
        valid_last = delayed(m, valid & rounding, LATENCY - 1, "valid", enable=ce, reset=True)
        ends_last = delayed(m, ends & rounding, LATENCY - 1, "ends", enable=ce, reset=True)
        with m.If(ce):
            m.d.sync += [self.o.valid.eq(valid_last), self.o.payload.last.eq(ends_last)]
            m.d.sync += [each.eq(v) for each, v in zip(self.o.payload.values, values, strict=True)]
        return m

    @property
    def _width(self):
        """Bits of a gradient's magnitude."""
        return self.config.accumulator_bits - 1

    def _walk(self, m, ce, valid, ends, rounding, settled, pair):
        """Walk each layer to find the greatest gradient, and once more to round."""
        count = Signal(range(SETTLING))
        layers, lanes = len(self.config.inputs), self.config.lanes
        word_ends = Signal()
        layer_ends = Signal()
        final = Signal()
        flushed = Signal()
        m.d.comb += [
            word_ends.eq(pair == lanes // 2 - 1),
            layer_ends.eq(word_ends & self.last),
            final.eq(self.layer == layers - 1),
            ends.eq(layer_ends & final),
            self.busy.eq(1),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.busy.eq(0)
                m.d.sync += [self.layer.eq(0), rounding.eq(0)]
                with m.If(self.start):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.comb += self.load.eq(1)
                m.next = "WALK"
            with m.State("WALK"):
                m.d.comb += [valid.eq(1), self.advance.eq(ce & word_ends)]
                with m.If(ce):
                    m.d.sync += pair.eq(Mux(word_ends, 0, pair + 1))
                    with m.If(layer_ends):
                        m.next = "SETTLE"
                        with m.If(rounding):
                            m.d.sync += [rounding.eq(0), self.layer.eq(self.layer + 1)]
                            m.next = "LOAD"
                            with m.If(final):
                                m.next = "FLUSH"
            # Updates of the layer before may still wait in the pipeline.
            with m.State("SETTLE"), m.If(ce):
                m.d.sync += count.eq(count + 1)
                with m.If(count == SETTLING - 1):
                    m.d.comb += settled.eq(1)
                    m.d.sync += [count.eq(0), rounding.eq(1)]
                    m.next = "LOAD"
            with m.State("FLUSH"):
                m.d.comb += flushed.eq(self.o.valid & self.o.ready & self.o.payload.last)
                with m.If(flushed):
                    m.next = "IDLE"

    def _magnitudes(self, m, ce, pair):
        """Return magnitudes and signs of the pair of three enabled cycles before."""
        pair_d2 = delayed(m, pair, 2, "pair", enable=ce)
        blank = delayed(m, self.padding | self.empty, 2, "blank", enable=ce)
        magnitudes, signs = [], []
        for k in range(2):
            gradient = Signal(signed(self._width + 1), name=f"gradient_{k}")
            magnitude = Signal(self._width, name=f"magnitude_{k}", reset_less=True)
            sign = Signal(name=f"sign_{k}", reset_less=True)
            choices = [self.gradients[n] for n in range(k, self.config.lanes, 2)]
            choice = Array(choices)[pair_d2] if len(choices) > 1 else choices[0]
            m.d.comb += gradient.eq(choice)
            with m.If(ce):
                m.d.sync += sign.eq(gradient[-1])
                m.d.sync += magnitude.eq(Mux(blank, 0, Mux(gradient[-1], -gradient, gradient)))
            magnitudes.append(magnitude)
            signs.append(sign)
        return magnitudes, signs

    def _shift(self, m, peak, bits, settled):
        """Return registers: the two halves of the shift, the lower the smaller one."""
        length = Signal(range(self._width + 1), reset_less=True)
        for k in range(self._width):
            with m.If(peak[k]):
                m.d.sync += length.eq(k + 1)
        with m.If(peak == 0):
            m.d.sync += length.eq(0)
        shift = Signal(range(self._width + 1))
        m.d.comb += shift.eq(Mux(length > bits, length - bits, 0))
        low = Signal(range(self._width // 2 + 1), reset_less=True)
        high = Signal(range((self._width + 1) // 2 + 1), reset_less=True)
        with m.If(settled):
            m.d.sync += [low.eq(shift >> 1), high.eq(shift - (shift >> 1))]
        return low, high

    def _round(self, m, ce, bits, shifts, magnitudes, signs):
        """Return the updates, whose register is the output's."""
        low, high = shifts
        half = (self._width + 1) // 2
        limit = Cat(bits > k for k in range(UPDATE_BITS))
        values = []
        for k, (magnitude, sign) in enumerate(zip(magnitudes, signs, strict=True)):
            partial = Signal(self._width, name=f"partial_{k}", reset_less=True)
            random = Signal(half, name=f"random_{k}", reset_less=True)
            quotient = Signal(UPDATE_BITS, name=f"quotient_{k}", reset_less=True)
            up = Signal(name=f"up_{k}", reset_less=True)
            rounded = Signal(UPDATE_BITS + 1, name=f"rounded_{k}")
            value = Signal(signed(UPDATE_BITS + 1), name=f"value_{k}")
            remainder = Cat(magnitude[n] & (low > n) for n in range(half))
            probability = Cat(partial[n] & (high > n) for n in range(half))
            with m.If(ce):
                m.d.sync += [
                    partial.eq(magnitude >> low),
                    # The halves differ where the shift is odd.
                    random.eq(Mux(low == high, remainder, remainder << 1)),
                    quotient.eq(partial >> high),
                    up.eq(probability > random),
                ]
            sign_d2 = delayed(m, sign, 2, f"sign_{k}", enable=ce)
            m.d.comb += [
                rounded.eq(quotient + up),
                value.eq(Mux(rounded > limit, limit, rounded)),
            ]
            values.append(Mux(sign_d2, -value, value))
        return values
