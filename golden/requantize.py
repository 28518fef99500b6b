"""Golden model of a layer's requantization to int8, in integers of any width."""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.niti import pseudo_stochastic, shift_of
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.requantize import RequantizeConfig

__all__ = ["Requantize", "RequantizeResult"]


@dataclass(frozen=True)
class RequantizeResult:
    """Of a layer: values (squares, ways) and counts (squares,), shift, and whether some are lost.

    ``length_error``: there were more squares than the sum buffer has entries.
    """

    values: np.ndarray
    counts: np.ndarray
    shift: int
    length_error: bool


class Requantize:
    """Shifts a layer's sums to int8.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.requantize.RequantizeConfig`.
    """

    def __init__(self, config: RequantizeConfig):
        self.config = config

    def run(
        self, sums: np.ndarray, counts: np.ndarray, square_last: np.ndarray, relu: np.ndarray
    ) -> RequantizeResult:
        """Return the outputs of a layer of one sample.

        Parameters
        ----------
        sums
            Integers of shape (beats, ways).
        counts
            How many sums of each beat are valid; the others count as 0 in this beat. A square has
            the count of its last beat; its values are maxima of all its beats, in every way.
        square_last
            Whether a beat is the last of its pooling square; the layer's last beat is.
        relu
            Whether negative maxima become 0; that of a square's last beat counts.
        """
        config = self.config
        limit = 1 << config.width - 1
        sums = require_integers("sums", sums, -limit, limit - 1)
        sums = np.where(np.arange(config.ways) < counts[:, None], sums, 0)
        ends = np.flatnonzero(square_last | (np.arange(len(sums)) == len(sums) - 1))
        pooled = np.maximum.reduceat(sums, [0, *(ends[:-1] + 1)])
        shift = shift_of((pooled if config.pool_first else sums)[None])[0]
        pooled = np.where(relu[ends, None], np.maximum(pooled, 0), pooled)
        kept = slice(config.entries)
        return RequantizeResult(
            values=self._rounded(pooled[kept], shift),
            counts=counts[ends][kept],
            shift=int(shift),
            length_error=len(ends) > config.entries,
        )

    def _rounded(self, sums: np.ndarray, shift: np.int64) -> np.ndarray:
        if self.config.rounding != "nearest":
            return pseudo_stochastic(sums, shift)
        magnitude = np.abs(sums) + (np.int64(1) << shift >> 1) >> shift
        return np.sign(sums) * np.minimum(magnitude, LIMIT)
