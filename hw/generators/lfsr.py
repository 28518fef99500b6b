"""One linear-feedback shift register as a stream of words."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.gf2 import product
from seedbed.spec import LfsrConfig, gf2

__all__ = ["Lfsr"]


class Lfsr(wiring.Component):
    """A Fibonacci LFSR with one word per beat, ``leap`` steps apart.

    With taps T and width K, one bit-serial step is::

        new = XOR of state[t] for t in T;   state' = (state >> 1) | (new << (K - 1))

    and a beat is ``leap`` steps: one XOR network, derived from the matrix ``A ** leap``. The words
    after a seed s are ``A**leap s, A**(2 leap) s, ..``; the seed itself is never output.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LfsrConfig`: width, leap, taps, and the seed after reset.

    Members
    -------
    i_seed : In(stream of unsigned(width))
        seed: next state, nonzero. The all-zero state is absorbing; the source must not send it. It
        is accepted in the cycle that transfers the pending word, so that a valid word is stable.
    o : Out(stream of unsigned(width))
        LFSR state: one word of the sequence. Valid from reset on.

    Latency: ``latency`` cycles from seed to first word.
    Throughput: 1 word per cycle.
    Source: SeedLM (arXiv:2410.10714), section 3.1 and appendix A.1.
    """

    latency = 1
    interval = 1

    def __init__(self, config: LfsrConfig):
        self.config = config
        super().__init__(
            {
                "i_seed": In(stream.Signature(config.width)),
                "o": Out(stream.Signature(config.width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        word = Signal(config.width, init=gf2.apply(config.matrix, config.seed))
        state = Mux(self.i_seed.valid, self.i_seed.payload, word)
        m.d.comb += [
            self.o.payload.eq(word),
            self.o.valid.eq(1),
            self.i_seed.ready.eq(self.o.ready),
        ]
        with m.If(self.o.ready):
            m.d.sync += word.eq(product(config.matrix, state))
        return m
