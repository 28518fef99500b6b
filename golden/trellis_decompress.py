"""Golden model of the decompressor of trellis-coded weights: beats of symbols to weights."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.trellis import states, values
from seedbed.spec import TrellisDecompressConfig

__all__ = ["decompress"]


def decompress(config: TrellisDecompressConfig, symbols: np.ndarray) -> np.ndarray:
    """Return the weights of a row, int64 of shape (beats, lanes).

    Parameters
    ----------
    symbols
        Integers 0 .. 2^k - 1 of shape (beats, lanes): all beats of one row, from its start.

    Raises ``ValueError`` for another shape and for a number out of range.
    """
    symbols = require_integers("symbols", symbols, 0, (1 << config.bits) - 1)
    if symbols.ndim != 2 or symbols.shape[1] != config.lanes:
        raise ValueError(
            f"symbols must be beats of {config.lanes}, of shape (T, {config.lanes}), not "
            f"{symbols.shape}"
        )
    return values(config, states(config, symbols.reshape(-1))).reshape(symbols.shape)
