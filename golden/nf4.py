"""Golden model of 4-bit NormalFloat vectors, quantised by blocks."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import rounded
from seedbed.spec.nf4 import NF4_LEVELS, Nf4Config

__all__ = ["Nf4", "through"]


class Nf4:
    """Quantises and dequantises vectors, in integers.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.nf4.Nf4Config`.
    """

    def __init__(self, config: Nf4Config):
        self.config = config
        self._levels = np.array(config.levels, np.int64)
        self._middles = np.array(config.middles, np.int64)

    def quantise(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return codes, uint8 of the shape of ``x``, and peaks, int64 of shape (..., blocks).

        ``x`` has integers of the values' format, shape (..., length).
        """
        config = self.config
        x = require_integers("x", x, config.values.low, config.values.high)
        peaks = self._blocked(np.abs(x)).max(axis=-1)
        peaks = -(-peaks >> config.shift)
        peaks = np.minimum(peaks, (1 << config.peak_width) - 1)
        limits = peaks[..., None] * self._middles >> (config.level_fraction + 1 - config.shift)
        blocks = self._blocked(x)
        codes = np.zeros(blocks.shape, np.uint8)
        for c in range(len(self._middles)):
            codes += blocks > limits[..., c, None]
        return codes.reshape(*x.shape[:-1], -1)[..., : x.shape[-1]], peaks

    def dequantise(self, codes: np.ndarray, peaks: np.ndarray) -> np.ndarray:
        """Return the values that the codes represent, int64 of their shape."""
        config = self.config
        codes = require_integers("codes", codes, 0, 15)
        peaks = require_integers("peaks", peaks, 0, (1 << config.peak_width) - 1)
        table = rounded(peaks[..., None] * self._levels, config.level_fraction - config.shift)
        blocks = np.take_along_axis(table, self._blocked(codes), axis=-1)
        return blocks.reshape(*codes.shape[:-1], -1)[..., : codes.shape[-1]]

    def through(self, x: np.ndarray) -> np.ndarray:
        """Return ``x`` quantised and dequantised."""
        return self.dequantise(*self.quantise(x))

    def _blocked(self, x: np.ndarray) -> np.ndarray:
        """Return ``x`` of shape (..., blocks, block), padded with zeros."""
        blocks, length = self.config.blocks(x.shape[-1]), x.shape[-1]
        fill = [(0, 0)] * (x.ndim - 1) + [(0, blocks * self.config.block - length)]
        return np.pad(x, fill).reshape(*x.shape[:-1], blocks, self.config.block)


def through(x: np.ndarray, block: int) -> np.ndarray:
    """Return real numbers quantised and dequantised, with exact levels and peaks."""
    length = x.shape[-1]
    fill = [(0, 0)] * (x.ndim - 1) + [(0, -length % block)]
    blocks = np.pad(x, fill).reshape(*x.shape[:-1], -1, block)
    peaks = np.abs(blocks).max(axis=-1, keepdims=True)
    levels = np.array(NF4_LEVELS, x.dtype)
    codes = np.searchsorted((levels[1:] + levels[:-1]) / 2, blocks / np.where(peaks, peaks, 1))
    return (levels[codes] * peaks).reshape(*x.shape[:-1], -1)[..., :length]
