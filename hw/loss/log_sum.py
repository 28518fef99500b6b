"""The logarithm of a sum of powers of two, whose exponents are integer logits times a constant."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.spec import LossSignConfig
from seedbed.spec.elasticzo import LOG2_E
from seedbed.spec.loss_sign import LOG_BITS, LOGIT_BITS, POWER_BITS, RANGE

__all__ = ["SEARCH", "TERM", "LogSum"]

#: Cycles from a logit to the register of its term: difference, product, exponent, distance, level,
#: power and term.
TERM = 7
#: Cycles of a search for the greatest exponent: the label's logit, and up to the exponent.
SEARCH = 5


class LogSum(wiring.Component):
    """Of logits that come one a cycle: log2 of the sum of their powers, relative to a greatest one.

    Exponents are e_j of :class:`~seedbed.spec.LossSignConfig`. A search compares one with the
    greatest so far; a term adds one's power to the sum.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LossSignConfig`.

    Members
    -------
    logit : In(signed(8))
    is_label, search, term : In(1)
        What becomes of the logit: it is the label's; its exponent is searched; it is a term.
    places : In(0..most_shift)
        By how much products are shifted: 15 - F - exponent. Stable during a pass.
    summed : In(1)
        From now on, the sum is normalised: ``TERM`` + 1 cycles after the last term.
    phase_end, sample_end : In(1)
        Clear the sum; clear the greatest exponent.
    loss : Out
        The logarithm in 2^-F, ``RANGE`` + 1 cycles after ``summed``.
    """

    def __init__(self, config: LossSignConfig):
        self.config = config
        super().__init__(
            {
                "logit": In(signed(LOGIT_BITS)),
                "is_label": In(1),
                "search": In(1),
                "term": In(1),
                "places": In(range(config.most_shift + 1)),
                "summed": In(1),
                "phase_end": In(1),
                "sample_end": In(1),
                "loss": Out(config.most_log.bit_length() + config.fraction),
            }
        )

    def elaborate(self, platform):
        m = Module()
        level, valid = self._level(m)
        m.d.comb += self.loss.eq(self._logarithm(m, self._power(m, level), valid))
        return m

    def _level(self, m):
        """Find the greatest exponent; return how far a term's is above the least that counts.

        Also return whether its power is to be added.
        """
        config = self.config
        top = RANGE << config.fraction
        width, low = config.most_shift + 1, top.bit_length()
        label_logit = Signal(signed(LOGIT_BITS), reset_less=True)
        difference = Signal(signed(LOGIT_BITS + 1), reset_less=True)
        product = Signal(signed(width), reset_less=True)
        scaled = Signal(signed(width), reset_less=True)
        greatest = Signal(width - 1)
        distance = Signal(signed(width + 1), reset_less=True)
        gap = Signal.like(distance)
        level = Signal(low, reset_less=True)
        rest = Signal(signed(low + 1))
        issue = Signal(data.StructLayout({"search": 1, "term": 1}))
        m.d.comb += [issue.search.eq(self.search), issue.term.eq(self.term)]
        stages = delay_line(m, issue, TERM, "issue", reset=True)
        with m.If(self.is_label):
            m.d.sync += label_logit.eq(self.logit)
        m.d.comb += [gap.eq(greatest - scaled), rest.eq(top - distance[:low])]
        m.d.sync += [
            difference.eq(self.logit - label_logit),
            product.eq(difference * LOG2_E),
            scaled.eq(product >> self.places),
            distance.eq(gap),
            level.eq(Mux(distance[low:].any() | rest[-1], 0, rest)),
        ]
        # The label's exponent is 0: the greatest is not below.
        with m.If(stages[3].search & gap[-1]):
            m.d.sync += greatest.eq(scaled)
        with m.If(self.sample_end):
            m.d.sync += greatest.eq(0)
        return level, stages[TERM].term

    def _power(self, m, level):
        """Return 2^(level / 2^F) with POWER_BITS fraction bits, two cycles later."""
        config = self.config
        whole = delayed(m, level[config.fraction :], 1, "whole")
        one = Const(1 << POWER_BITS, POWER_BITS + 1)
        if config.fraction:
            m.submodules.powers = powers = memory.Memory(
                shape=POWER_BITS,
                depth=1 << config.fraction,
                init=[power - (1 << POWER_BITS) for power in config.powers],
            )
            read = powers.read_port()
            m.d.comb += read.addr.eq(level)
            one = Cat(read.data, 1)
        term = Signal(POWER_BITS + 1 + RANGE, reset_less=True)
        m.d.sync += term.eq(one << whole)
        return term

    def _logarithm(self, m, term, valid):
        """Add the terms, shift the sum's leading one to the top, and look up the logarithm."""
        config = self.config
        total = Signal(config.sum_bits)
        most = config.most_log
        whole = Signal(range(most + 1), init=most)
        normalising = Signal()
        with m.If(valid):
            m.d.sync += total.eq(total + term)
        with m.Elif((self.summed | normalising) & ~total[-1]):
            m.d.sync += [total.eq(total << 1), whole.eq(whole - 1)]
        with m.If(self.summed):
            m.d.sync += normalising.eq(1)
        with m.If(self.phase_end):
            m.d.sync += [total.eq(0), whole.eq(most), normalising.eq(0)]
        if not config.fraction:
            return whole
        m.submodules.logarithms = table = memory.Memory(
            shape=config.fraction, depth=1 << LOG_BITS, init=config.logarithms
        )
        read = table.read_port()
        m.d.comb += read.addr.eq(total[-1 - LOG_BITS : -1])
        return Cat(read.data, whole)
