"""Integer softmax of a sample's logits, less the label: the error, one class after the other."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import BpTailConfig
from seedbed.spec.bp_tail import (
    EXPONENT_BITS,
    EXPONENT_LOW,
    EXPONENT_SMALL,
    POWER_RANGE,
    SHARE_BITS,
)
from seedbed.spec.elasticzo import LIMIT, LOG2_E

__all__ = ["LogitError", "error_write_layout"]

#: From this exponent on, logits that differ have powers that differ by at least ``POWER_RANGE``.
EXPONENT_HIGH = 3
#: Bits of a share that pseudo-stochastic rounding drops.
DROPPED = 4


def error_write_layout(entries: int) -> data.StructLayout:
    """Return the layout of a write to the memory of errors."""
    return data.StructLayout({"enable": 1, "address": range(entries), "error": signed(8)})


class LogitError(wiring.Component):
    """From int8 logits a_k 2^s and the label t: the error of each, in units of 2^-7.

    With e_k = floor(47274 a_k 2^(s - 15)), for s > -7, and n = -s otherwise::

        term_k = 2^max(e_k - max e + 10, 0) - 1    or    2^(1 + 2 n) + a_k 2^(1 + n) + a_k^2
        share_k = floor(2^11 term_k / sum of terms)
        error_k = share_k, for k = t less the sum of all shares; rounded pseudo-stochastically
                  by 4 bits, in -127..127

    Three passes over the logits find the greatest, add the terms, and divide each by the sum. A
    term is shifted, and divided, by one bit a cycle, in one register.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.

    Members
    -------
    start : In(1)
        Begins a sample.
    exponent, label : In
        s, of which less than -24 counts as -24, and t. Steady from ``start`` to ``done``.
    index : Out(range(classes))
        The class whose logit is read.
    logit : In(signed(8))
        The logit of the ``index`` of two cycles before.
    write : Out(struct)
        ``enable``, ``address`` (the class) and ``error``. The label's is the last.
    done : Out(1)
        With the last error.

    Latency: :meth:`latency_of` cycles from ``start`` to ``done``.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        classes = config.classes
        super().__init__(
            {
                "start": In(1),
                "exponent": In(signed(EXPONENT_BITS)),
                "label": In(range(classes)),
                "index": Out(range(classes)),
                "logit": In(signed(8)),
                "write": Out(error_write_layout(classes)),
                "done": Out(1),
            }
        )
        low = -EXPONENT_LOW
        term = (2 << 2 * low) + ((LIMIT + 1) << 1 + low) + (LIMIT + 1) ** 2
        #: Of a sum, and twice a remainder, which is below the sum.
        self._width = (classes * term).bit_length() + 1

    @staticmethod
    def latency_of(config: BpTailConfig, exponent: int = EXPONENT_LOW) -> int:
        """Return the cycles from ``start`` to ``done`` for logits of an exponent.

        The lowest exponent takes longest.
        """
        term = 6 if exponent > EXPONENT_SMALL else 6 + 2 * min(-exponent, -EXPONENT_LOW)
        # A class: its logit, its term and the addition, its term again, the share, the write.
        return config.classes * (3 + (term + 1) + (term + SHARE_BITS + 1 + 1)) + 4

    def elaborate(self, platform):
        m = Module()
        #: The logit whose term is computed; in the first pass, the greatest so far.
        self._number = Signal(signed(8), name="number", reset_less=True)
        self._product = Signal(signed(25), name="product", reset_less=True)
        self._small = Signal(name="small")
        self._amount = Signal(range(-EXPONENT_LOW + 1), name="amount", reset_less=True)
        # The passes: MAX finds the greatest logit, SUM adds the terms, SHARE divides them.
        self._summing, self._sharing = Signal(name="summing"), Signal(name="sharing")
        self._last = Signal(name="last")
        m.d.comb += self._last.eq(self.index == self.config.classes - 1)
        m.d.sync += [
            self._small.eq(self.exponent <= EXPONENT_SMALL),
            self._amount.eq(Mux(self.exponent < EXPONENT_LOW, -EXPONENT_LOW, -self.exponent)),
        ]
        labelled, others, share = self._rounding(m)
        rest, total = (
            Signal(self._width, name="rest", reset_less=True),
            Signal(self._width - 1, name="total", reset_less=True),
        )
        with m.FSM():
            self._reading(m, total, others)
            self._term(m, rest, total)
            self._division(m, rest, total, share, others, labelled)
        return m

    def _rounding(self, m):
        """Round a share, or, of the label, minus the sum of the others'."""
        labelled = Signal()
        others = Signal(SHARE_BITS + 1, reset_less=True)
        share = Signal.like(others)
        magnitude = Signal.like(others)
        rounded = Signal(SHARE_BITS + 1 - DROPPED)
        clamped = Signal(7)
        half = DROPPED // 2
        m.d.comb += [
            magnitude.eq(Mux(labelled, others, share)),
            rounded.eq(magnitude[DROPPED:] + (magnitude[half:DROPPED] > magnitude[:half])),
            clamped.eq(Mux(rounded > LIMIT, LIMIT, rounded)),
            self.write.error.eq(Mux(labelled, -clamped, clamped)),
            self.write.address.eq(Mux(labelled, self.label, self.index)),
        ]
        return labelled, others, share

    def _next_class(self, m):
        m.d.sync += self.index.eq(Mux(self._last, 0, self.index + 1))

    def _reading(self, m, total, others):
        """States that read a logit; those of the first pass keep the greatest."""
        with m.State("IDLE"):
            m.d.sync += [
                self.index.eq(0),
                self._summing.eq(0),
                self._sharing.eq(0),
                total.eq(0),
                others.eq(0),
            ]
            with m.If(self.start):
                m.next = "READ"
        with m.State("READ"):
            m.next = "FETCH"
        with m.State("FETCH"):
            m.next = "LOAD"
        with m.State("LOAD"):
            finding = ~(self._summing | self._sharing)
            with m.If(~finding | (self.index == 0) | (self.logit > self._number)):
                m.d.sync += self._number.eq(self.logit)
            m.next = "MULTIPLY"
            with m.If(finding):
                self._next_class(m)
                with m.If(~self._last):
                    m.next = "READ"

    def _term(self, m, rest, total):
        """States that compute a term in ``rest``; at the first pass's end, e of the greatest."""
        shift = Signal(range(EXPONENT_HIGH - EXPONENT_SMALL))
        power = Signal(signed(13), reset_less=True)
        floor = Signal(signed(14), reset_less=True)
        above = Signal(signed(15))
        count = Signal.like(self._amount)
        squared = Signal()
        highest = Mux(self.exponent > EXPONENT_HIGH, EXPONENT_HIGH, self.exponent)
        factor = Mux(self._small, self._number, Const(LOG2_E, signed(17)))
        dividing = "DIVIDE"
        m.d.comb += [shift.eq(highest - EXPONENT_SMALL - 1), above.eq(power - floor)]
        m.d.sync += [
            self._product.eq(self._number * factor),
            # With a shift left by ``shift``, the shift right is that of the lowest exponent.
            power.eq((self._product << shift) >> (15 - EXPONENT_SMALL - 1)),
        ]
        with m.State("MULTIPLY"):
            m.d.sync += count.eq(self._amount)
            m.next = "POWER"
            with m.If(self._small & (self._summing | self._sharing)):
                m.d.sync += rest.eq(2)
                m.next = "SHIFT"
        with m.State("POWER"):
            m.next = "TERM"
        with m.State("TERM"):
            m.d.sync += rest.eq(Cat(above > k for k in range(POWER_RANGE)))
            m.next = "ADD"
            with m.If(self._sharing):
                m.next = dividing
            with m.Elif(~self._summing):
                m.d.sync += [floor.eq(power - POWER_RANGE), self._summing.eq(1)]
                m.next = "READ"
        with m.State("SHIFT"):
            m.d.sync += [rest.eq(rest << 1), count.eq(count - 1)]
            with m.If(count == 1):
                m.next = "PLUS"
        with m.State("PLUS"):
            m.d.sync += [
                rest.eq(rest + Mux(squared, self._product, self._number << 1)),
                count.eq(self._amount),
                squared.eq(~squared),
            ]
            m.next = "SHIFT"
            with m.If(squared):
                m.next = "ADD"
                with m.If(self._sharing):
                    m.next = dividing
        with m.State("ADD"):
            m.d.sync += total.eq(total + rest)
            self._next_class(m)
            with m.If(self._last):
                m.d.sync += [self._summing.eq(0), self._sharing.eq(1)]
            m.next = "READ"

    def _division(self, m, rest, total, share, others, labelled):
        """States that divide a term by the sum, and write the class's error."""
        difference = Signal(signed(self._width + 1))
        bits = Signal(range(SHARE_BITS + 1))
        m.d.comb += difference.eq(rest - total)
        with m.State("DIVIDE"):
            fits = ~difference[-1]
            m.d.sync += [
                rest.eq(Mux(fits, difference, rest) << 1),
                share.eq(Cat(fits, share)),
                bits.eq(bits + 1),
            ]
            with m.If(bits == SHARE_BITS):
                m.d.sync += bits.eq(0)
                m.next = "STORE"
        with m.State("STORE"):
            self._next_class(m)
            with m.If(self.index != self.label):
                m.d.comb += self.write.enable.eq(1)
                m.d.sync += others.eq(others + share)
            m.next = "READ"
            with m.If(self._last):
                m.next = "LABEL"
        with m.State("LABEL"):
            m.d.comb += [labelled.eq(1), self.write.enable.eq(1), self.done.eq(1)]
            m.next = "IDLE"
