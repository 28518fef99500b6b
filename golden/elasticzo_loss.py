"""ElasticZO-INT8: the errors of logits in integers, and the loss in floating point."""

import numpy as np

from seedbed.golden.loss_sign import scaled_exponents
from seedbed.golden.niti import pseudo_stochastic
from seedbed.spec.loss_sign import RANGE

__all__ = ["loss", "loss_gradient"]


def loss(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of integer logits in floating point."""
    z = np.ldexp(logits.astype(np.float64), exponents[:, None])
    z -= z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())


def loss_gradient(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the error of the logits, int64 in units of 2^-7, by NITI's integer softmax.

    Each term is 2^e less 1, e as in :func:`~seedbed.golden.loss_sign.loss_sign` with ``fraction``
    0; for exponents of -7 and below, where e would be 0, it is 1 + x + x^2 / 2. A term's share of
    the sum has 11 bits, of which pseudo-stochastic rounding leaves 7.
    """
    rows = np.arange(len(labels))
    e = scaled_exponents(logits, exponents, 0)
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
