"""Golden model of the array of multipliers and accumulators."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec import MacArrayConfig

__all__ = ["MacArray", "wrap"]


def wrap(sums: np.ndarray, width: int) -> np.ndarray:
    """Return int64 ``sums`` modulo 2^width, as signed numbers of ``width`` bits, 2..64."""
    sums = np.asarray(sums, np.int64)
    above = np.int64(64 - width)
    return sums << above >> above


class MacArray:
    """Sums of frames, in integers.

    NumPy's int64 wraps modulo 2^64, and a result has 64 bits at most, so every sum here is exact
    modulo 2^accumulator_width, even if an intermediate sum overflows.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.MacArrayConfig`.
    """

    def __init__(self, config: MacArrayConfig):
        self.config = config

    def sums(
        self,
        weights: np.ndarray,
        activations: np.ndarray,
        exponents: np.ndarray | None = None,
        on: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return a frame's sum, int64 of shape (...), or, of several, of shape (..., sums).

        Parameters
        ----------
        weights
            Integers of shape (..., beats, lanes) or, of several ways, (..., beats, ways, lanes).
        activations
            Integers of shape (..., beats, lanes) or, of several vectors, (..., beats, vectors,
            lanes).
        exponents
            Integers of shape (..., beats, blocks); without them none is applied.
        on
            Which blocks count, of the same shape; without it all do.

        Raises ``ValueError`` for a factor or an exponent that is out of its range.
        """
        config = self.config
        products = self.products(weights, activations)
        *frames, beats = np.shape(products)[: -1 if config.sums == 1 else -2]
        parts = (*frames, beats, config.sums, config.blocks, config.block)
        blocks = products.reshape(parts).sum(axis=-1)
        if exponents is not None:
            exponents = _require("exponents", exponents, config.exponent_width)
            least = -(1 << config.exponent_width >> 1)
            blocks = blocks << (exponents[..., None, :] - least)
        if on is not None:
            blocks = np.where(np.asarray(on)[..., None, :], blocks, 0)
        sums = wrap(blocks.sum(axis=(-3, -1)), config.accumulator_width)
        return sums if config.sums > 1 else sums[..., 0]

    def products(self, weights: np.ndarray, activations: np.ndarray) -> np.ndarray:
        """Return every product, int64; both factors are as :meth:`sums` takes them."""
        config = self.config
        peak = config.weight_peak
        highest = min(peak, (1 << (config.weight_width - 1)) - 1)
        weights = require_integers("weights", weights, -peak, highest)
        activations = _require("activations", activations, config.activation_width)
        if config.ways > 1:
            activations = activations[..., None, :]
        if config.vectors > 1:
            weights = weights[..., None, :]
        return weights * activations


def _require(name: str, numbers: np.ndarray, width: int) -> np.ndarray:
    """Return ``numbers``, checked against the range of ``width`` bits; a width of 0 allows 0."""
    half = 1 << width >> 1
    return require_integers(name, numbers, -half, max(half - 1, 0))
