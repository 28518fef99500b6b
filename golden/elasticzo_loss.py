"""ElasticZO-INT8 in integers: the sign of a difference of losses, and the errors of logits.

Also the loss in floating point, for a report.
"""

import numpy as np

from seedbed.golden.niti import bit_width, pseudo_stochastic
from seedbed.spec.elasticzo import LOG2_E

__all__ = ["loss", "loss_gradient", "loss_sign"]

#: Exponents of a power of two that are kept below the largest one. Source: section 4.3.
RANGE = 10
#: Fraction bits of the table of powers of two, and of the mantissa that the logarithm looks at.
POWER_BITS = 14
LOG_BITS = 8


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


def _exponents(logits: np.ndarray, exponents: np.ndarray, fraction: int) -> np.ndarray:
    """Return floor(47274 logits 2^(exponents - 15) 2^fraction) of (samples, classes)."""
    scaled = LOG2_E * logits
    shift = np.clip(exponents - 15 + fraction, -40, 30)[:, None]
    return np.where(shift < 0, scaled >> np.maximum(-shift, 0), scaled << np.maximum(shift, 0))


def loss_sign(
    plus: tuple[np.ndarray, np.ndarray],
    minus: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray,
    *,
    fraction: int,
) -> int:
    """Return the sign of the difference of two losses over a batch, -1, 0 or 1, from integers.

    Per sample, with a the logits and s their exponent, a term of a loss is 2^e_j::

        e_j = floor(47274 (a_j - a_label) 2^(s - 15) 2^fraction)

    Of both passes together, e_j less p is kept, p the largest e_j less 10 2^fraction, and at least
    0. The logarithms of the sums of 2^e_j are truncated to ``fraction`` bits, and their differences
    are added up over the batch. Source: Eq. 6 to 12, which are those of ``fraction`` 0.

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
        _exponents(logits - logits[rows, labels][:, None], exponents, fraction)
        for logits, exponents in (plus, minus)
    ]
    top = np.maximum(terms[0].max(axis=1), terms[1].max(axis=1)) - (RANGE << fraction)
    a, b = (_log2_of_sum(np.maximum(e - top[:, None], 0), fraction) for e in terms)
    return int(np.sign((a - b).sum()))


def loss(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of integer logits in floating point."""
    z = np.ldexp(logits.astype(np.float64), exponents[:, None])
    z -= z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())


def loss_gradient(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the error of the logits, int64 in units of 2^-7, by NITI's integer softmax.

    Each term is 2^e less 1, e as in :func:`loss_sign` with ``fraction`` 0; for exponents of -7 and
    below, where e would be 0, it is 1 + x + x^2 / 2. A term's share of the sum has 11 bits, of
    which pseudo-stochastic rounding leaves 7.
    """
    rows = np.arange(len(labels))
    e = _exponents(logits, exponents, 0)
    e = np.maximum(e - (e.max(axis=1, keepdims=True) - RANGE), 0)
    large = (1 << e) - 1
    s = np.maximum(-exponents, 0)[:, None]
    # Scaled by 2^(1 + 2 s): 2 + 2 x + x^2 with x = a 2^-s.
    s = np.minimum(s, 24)
    small = (1 << 1 + 2 * s) + (logits << 1 + s) + logits * logits
    terms = np.where(exponents[:, None] > -7, large, small)
    shares = (terms << 11) // terms.sum(axis=1, keepdims=True)
    shares[rows, labels] -= shares.sum(axis=1)
    return pseudo_stochastic(shares, np.int64(4))
