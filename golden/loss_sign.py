"""Golden model of the sign of a batch's loss difference, from integer logits."""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.niti import bit_width
from seedbed.spec.elasticzo import LOG2_E
from seedbed.spec.loss_sign import (
    EXPONENT_BITS,
    LOG_BITS,
    LOGIT_BITS,
    POWER_BITS,
    RANGE,
    LossSignConfig,
)

__all__ = ["LossSign", "LossSignResult", "loss_difference", "loss_sign", "scaled_exponents"]


def _powers(fraction: int) -> np.ndarray:
    """Return round(2^(k / 2^fraction) 2^POWER_BITS), k = 0 .. 2^fraction - 1."""
    count = 1 << fraction
    return np.rint(2.0 ** (np.arange(count) / count) * (1 << POWER_BITS)).astype(np.int64)


def _logarithms(fraction: int) -> np.ndarray:
    """Return floor(log2(1 + k / 2^LOG_BITS) 2^fraction), k = 0 .. 2^LOG_BITS - 1."""
    mantissa = 1 + np.arange(1 << LOG_BITS) / (1 << LOG_BITS)
    return np.floor(np.log2(mantissa) * (1 << fraction)).astype(np.int64)


def _log2_of_sum(exponents: np.ndarray, fraction: int) -> np.ndarray:
    """Return log2 of the sum of 2^e over the last axis; e, not negative, and it in 2^-fraction."""
    low = (1 << fraction) - 1
    total = (_powers(fraction)[exponents & low] << (exponents >> fraction)).sum(axis=-1)
    whole = bit_width(total) - 1
    mantissa = (total << LOG_BITS >> whole) - (1 << LOG_BITS)
    return (whole - POWER_BITS << fraction) + _logarithms(fraction)[mantissa]


def scaled_exponents(logits: np.ndarray, exponents: np.ndarray, fraction: int) -> np.ndarray:
    """Return floor(47274 logits 2^(exponents - 15) 2^fraction) of (samples, classes)."""
    scaled = LOG2_E * logits
    shift = np.clip(exponents - 15 + fraction, -40, 30)[:, None]
    return np.where(shift < 0, scaled >> np.maximum(-shift, 0), scaled << np.maximum(shift, 0))


def loss_difference(
    plus: tuple[np.ndarray, np.ndarray],
    minus: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray,
    *,
    fraction: int,
) -> int:
    """Return the difference of two losses over a batch, from integers, in 2^-fraction.

    Per sample, with a the logits and s their exponent, a term of a loss is 2^e_j::

        e_j = floor(47274 (a_j - a_label) 2^(s - 15) 2^fraction)

    Of both passes together, e_j less p is kept, p the largest e_j less 10 2^fraction, and at least
    0. The logarithms of the sums of 2^e_j are truncated to ``fraction`` bits, and their differences
    are added up over the batch. A sample with an exponent above 15 - ``fraction`` does not count.
    Source: Eq. 6 to 12, which are those of ``fraction`` 0.

    Parameters
    ----------
    plus, minus
        Logits (samples, classes) and exponents (samples,) of each pass.
    labels
        Of the samples, 0 .. classes - 1.
    fraction
        Bits.
    """
    rows = np.arange(len(labels))
    terms = [
        scaled_exponents(logits - logits[rows, labels][:, None], exponents, fraction)
        for logits, exponents in (plus, minus)
    ]
    top = np.maximum(terms[0].max(axis=1), terms[1].max(axis=1)) - (RANGE << fraction)
    a, b = (_log2_of_sum(np.maximum(e - top[:, None], 0), fraction) for e in terms)
    counts = np.maximum(plus[1], minus[1]) <= 15 - fraction
    return int((a - b)[counts].sum())


def loss_sign(
    plus: tuple[np.ndarray, np.ndarray],
    minus: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray,
    *,
    fraction: int,
) -> int:
    """Return the sign of :func:`loss_difference`, -1, 0 or 1."""
    return int(np.sign(loss_difference(plus, minus, labels, fraction=fraction)))


@dataclass(frozen=True)
class LossSignResult:
    """Of a batch: sign, magnitude, whether a sample does not count, and of each pass (2, samples):
    class, and whether it has an error."""

    sign: int
    magnitude: int
    error: bool
    classes: np.ndarray
    errors: np.ndarray


class LossSign:
    """Signs of batches, with the samples that do not count.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.loss_sign.LossSignConfig`.
    """

    def __init__(self, config: LossSignConfig):
        self.config = config

    def run(
        self,
        logits: np.ndarray,
        exponents: np.ndarray,
        labels: np.ndarray,
        wrong: np.ndarray | None = None,
    ) -> LossSignResult:
        """Return the outputs of a batch.

        Parameters
        ----------
        logits, exponents
            Of the + passes and of the - passes: (2, samples, classes) and (2, samples).
        labels
            Of the samples; one that is not a class makes both passes' errors.
        wrong
            Passes (2, samples) with another count of logits than ``classes``. By default none.
        """
        config = self.config
        low, most = -1 << LOGIT_BITS - 1, 1 << EXPONENT_BITS - 1
        logits = require_integers("logits", logits, low, -1 - low)
        exponents = require_integers("exponents", exponents, -most, most - 1)
        labels = require_integers("labels", labels, 0, (1 << (config.classes - 1).bit_length()) - 1)
        wrong = np.zeros(exponents.shape, bool) if wrong is None else wrong
        errors = wrong | (labels >= config.classes) | (exponents > config.most_exponent)
        counts = ~errors.any(axis=0) & (np.arange(len(labels)) < config.batch)
        plus, minus = ((x[counts], s[counts]) for x, s in zip(logits, exponents, strict=True))
        found = loss_difference(plus, minus, labels[counts], fraction=config.fraction)
        return LossSignResult(
            int(np.sign(found)), abs(found), not counts.all(), logits.argmax(axis=2), errors
        )
