"""Decompressor of trellis-coded weights: every lane reads a window of the stored bits."""

from functools import reduce
from itertools import zip_longest
from operator import xor

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import TrellisDecompressConfig

__all__ = ["TrellisDecompress", "beat_layout", "latency", "symbols_layout"]


def symbols_layout(config: TrellisDecompressConfig) -> data.StructLayout:
    """Return the layout of a beat of symbols, see :class:`TrellisDecompress`."""
    symbols = data.ArrayLayout(config.bits, config.lanes)
    return data.StructLayout({"symbols": symbols, "last": 1})


def beat_layout(config: TrellisDecompressConfig) -> data.StructLayout:
    """Return the layout of a beat of weights, see :class:`TrellisDecompress`."""
    weights = data.ArrayLayout(signed(config.width), config.lanes)
    return data.StructLayout({"weights": weights, "last": 1})


def latency(config: TrellisDecompressConfig) -> int:
    """Return :attr:`TrellisDecompress.latency`."""
    return max(1, (len(config.masks) - 1).bit_length())


class TrellisDecompress(wiring.Component):
    """Gives the weights of a row whose stored bits are a path through a trellis.

    The state of weight t is the last L bits of its row, k of them new. Its value is the sum of
    fields, whose bits are XORs of state bits. With state_(-1) = 0 at the start of each row::

        state_t = (state_(t-1) 2^k + symbol_t) mod 2^L
        bit_fb  = XOR of the state bits in the mask code[f][b]
        field_f = sum over b < B of bit_fb 2^b
        w_t     = sum over f < F of (2 field_f - (2^B - 1))

    The state of every lane is a window of the beat and of the L - k bits before the beat. It does
    not depend on the state of another lane: there is no recurrence, no table and no multiplier.

    Numbers have an offset of half their range, 2^(B - 1) for a field. They are added two by two,
    with registers after each addition: a sum has twice the offset and no sign to extend. The first
    additions have a carry input, which gives 2^B - 1 of two fields its 1; the lowest bit of a
    weight gives that of an odd field. The last addition has a constant highest bit, which takes the
    offset away. All stages have a common enable: the last one is empty or its beat is transferred.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.TrellisDecompressConfig`.

    Members
    -------
    i : In(stream of struct)
        symbols of a row. Every row begins in a new beat.
        symbols (lanes x unsigned(k)) : next symbols of the row. Those after its last weight are
            ignored: the weights of their lanes are arbitrary.
        last : last beat of the row. The next beat begins a row, from state 0.
    o : Out(stream of struct)
        weights of the row
        weights (lanes x signed(width)) : weights, without the scale of the row
        last : last flag of the input beat

    Latency: ``latency`` cycles. It is 2 by default.
    Throughput: 1 beat per cycle.
    Source: QTIP (arXiv:2406.11235), section 3, for the trellis; the code is this project's.
    """

    interval = 1

    def __init__(self, config: TrellisDecompressConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(symbols_layout(config))),
                "o": Out(stream.Signature(beat_layout(config))),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from symbols to their weights."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        beat, enable = self.i.payload, Signal()
        m.d.comb += [
            enable.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(enable),
            self.o.valid.eq(
                delayed(m, self.i.valid, self.latency, "valid", enable=enable, reset=True)
            ),
            self.o.payload.last.eq(delayed(m, beat.last, self.latency, "last", enable=enable)),
        ]
        for lane, state in enumerate(self._states(m, enable)):
            m.d.comb += self.o.payload.weights[lane].eq(self._weight(m, state, enable, lane))
        return m

    def _states(self, m, enable) -> list[Value]:
        """Return the state of each lane, from the beat and the bits of its row before it."""
        config, beat = self.config, self.i.payload
        history = Signal(config.history)
        window = Signal(config.bits * config.lanes + config.history)
        # The newest symbol is lowest, as in a state.
        m.d.comb += window.eq(Cat(*reversed(list(beat.symbols)), history))
        with m.If(enable & self.i.valid):
            m.d.sync += history.eq(window)
            with m.If(beat.last):
                m.d.sync += history.eq(0)
        newer = [config.bits * (config.lanes - 1 - lane) for lane in range(config.lanes)]
        return [window[start : start + config.state_bits] for start in newer]

    def _weight(self, m, state, enable, lane) -> Value:
        """Return the weight of a state, ``latency`` cycles later."""
        terms = [Cat(_parity(state, mask) for mask in masks) for masks in self.config.masks]
        for stage in range(self.latency):
            last, sums = len(terms) <= 2, []
            for number, (a, b) in enumerate(zip_longest(terms[::2], terms[1::2])):
                if b is None:
                    total = a ^ (last << len(a) - 1)
                    shape = len(a)
                else:
                    # The bit below the lowest one is the carry input.
                    carry = Const(not stage, 1)
                    total = (Cat(carry, a) + Cat(carry, _extended(b, len(a)), Const(last, 1))) >> 1
                    shape = len(a) + 1
                term = Signal(shape, reset_less=True, name=f"sum_{lane}_{stage}_{number}")
                with m.If(enable):
                    m.d.sync += term.eq(total)
                sums.append(term)
            terms = sums
        return Cat(Const(len(self.config.masks) % 2, 1), terms[0]).as_signed()


def _extended(term, width) -> Value:
    """Return a number with an offset of half its range as one of ``width`` bits."""
    high = term[-1]
    return Cat(term[:-1], (~high).replicate(width - len(term)), high)


def _parity(state, mask) -> Value:
    """Return the XOR of the state bits in ``mask``."""
    return reduce(xor, (bit for place, bit in enumerate(state) if mask >> place & 1))
