"""Golden model of the scaling exponents, computed from the array's beats."""

import math
from dataclasses import replace

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import ScaleConfig

__all__ = ["ScaleLut", "scales"]


def scales(beats: np.ndarray, width: int) -> np.ndarray:
    """Return E||N(0, I_n)|| / ||u|| of each row of unsigned words; PeZO, Eq. 3 and 5."""
    n = beats.shape[1]
    u = beats.astype(np.float64) / 2 ** (width - 1) - 1.0
    expected = math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
    return expected / np.linalg.norm(u, axis=1)


class ScaleLut:
    """The exponent of every state of generator 0, computed from one period of the array."""

    def __init__(self, config: ScaleConfig):
        # A leap that divides the order would skip states. The phases are those of the given leap.
        array = UrngArray(replace(config.array, leap=1))
        array.load(list(config.array.seeds))
        period = config.array.lfsr.order
        states = array.first(period)
        scale = scales(array.beats(period), config.width)
        if config.rounding == "ratio":
            exponents = np.rint(np.log2(scale))
        else:
            below = np.floor(np.log2(scale))
            exponents = below + (scale - 2**below >= 2 ** (below + 1) - scale)
        self.table = np.zeros(period + 1, np.int8)
        self.table[states] = exponents

    def lookup(self, states: np.ndarray) -> np.ndarray:
        """Return the exponents of ``states``, int8."""
        return self.table[require_integers("states", states, 0, len(self.table) - 1)]
