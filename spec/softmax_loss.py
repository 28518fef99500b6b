"""Configuration and tables of softmax with cross-entropy in fixed point."""

from dataclasses import dataclass
from math import exp, log

from seedbed.spec.checks import require_int
from seedbed.spec.fixed import Q4_12, Q6_12, Fixed, require_format

__all__ = ["SoftmaxLossConfig"]


@dataclass(frozen=True, kw_only=True)
class SoftmaxLossConfig:
    """From the logits z and the label t: class, probabilities, loss and gradient, by three tables.

    With F the logits' fraction, P probability_bits, E exp_fraction and G the gradients' fraction::

        m = max z, class = its lowest index, d_k = m - z_k
        e_k = exps[floor(d_k 2^E / 2^F + 1/2)], and 0 after the table's end
        s = sum of e_k = 2^n (1 + f), 0 <= f < 1, and i = floor(f 2^index_bits)
        p_k = min(floor(e_k reciprocals[i] / 2^n), 2^P - 1)
        dz_k = (p_k - 2^P [k = t]) 2^G / 2^P, rounded half up
        loss = (logs[i] + floors[n]) + d_t, saturated

    All divisions are shifts, and n is a leading-zero count. e_k and p_k have P bits.

    Parameters
    ----------
    classes
        Logits per sample, 2..256.
    logits
        Format of the logits and of the loss.
    gradients
        Format of the gradient; at least 2 integer bits.
    probability_bits
        Bits of exponentials and probabilities, all of them fractional, 8..18.
    exp_bits, exp_fraction
        The exponentials' table has 2^exp_bits entries (6..12), 2^exp_fraction of them (0..F) per
        difference of 1. From 2^(exp_bits - exp_fraction) on exponentials are 0.
    index_bits
        The tables of reciprocals and logarithms have 2^index_bits entries, 4..12.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: InstantFT, section 4.1, which uses tables for softmax; their sizes are this project's.
    """

    classes: int = 10
    logits: Fixed = Q6_12
    gradients: Fixed = Q4_12
    probability_bits: int = 16
    exp_bits: int = 10
    exp_fraction: int = 7
    index_bits: int = 10

    def __post_init__(self) -> None:
        require_int("classes", self.classes, 2, 256)
        require_format("logits", self.logits)
        require_format("gradients", self.gradients)
        require_int("probability_bits", self.probability_bits, 8, 18)
        require_int("exp_bits", self.exp_bits, 6, 12)
        require_int("exp_fraction", self.exp_fraction, 0, min(self.logits.fraction, self.exp_bits))
        require_int("index_bits", self.index_bits, 4, min(12, self.probability_bits - 1))
        highest = min(self.gradients.width - 2, self.probability_bits)
        require_int("the gradients' fraction", self.gradients.fraction, 0, highest)

    @property
    def exps(self) -> tuple[int, ...]:
        """exp(-i / 2^exp_fraction), scaled so that 1 is 2^probability_bits - 1."""
        top = (1 << self.probability_bits) - 1
        return tuple(
            round(top * exp(-i / (1 << self.exp_fraction))) for i in range(1 << self.exp_bits)
        )

    @property
    def sums(self) -> tuple[int, int]:
        """The least and the greatest sum of exponentials."""
        top = (1 << self.probability_bits) - 1
        return top, top * self.classes

    @property
    def reciprocals(self) -> tuple[int, ...]:
        """2^P / (1 + f) at the middle of each interval of f."""
        return tuple(round((1 << self.probability_bits) / middle) for middle in self._middles)

    @property
    def logs(self) -> tuple[int, ...]:
        """ln(1 + f) at the middle of each interval of f, in the logits' format."""
        return tuple(round(self.logits.one * log(middle)) for middle in self._middles)

    @property
    def floors(self) -> dict[int, int]:
        """ln(2^n / 2^P) in the logits' format for every n that occurs; -ln 2 for the least."""
        least, greatest = (total.bit_length() - 1 for total in self.sums)
        return {
            n: round(self.logits.one * log(2) * (n - self.probability_bits))
            for n in range(least, greatest + 1)
        }

    @property
    def _middles(self) -> list[float]:
        count = 1 << self.index_bits
        return [1 + (i + 0.5) / count for i in range(count)]
