"""Golden model of the stage that perturbs and updates weights."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.niti import pseudo_stochastic
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.weight_perturb import MASK_LANES, WeightPerturbConfig

__all__ = ["WeightPerturb"]


class WeightPerturb:
    """Perturbations by seed, and what becomes of rows of weights.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.weight_perturb.WeightPerturbConfig`.
    """

    def __init__(self, config: WeightPerturbConfig):
        self.config = config
        self._generator = Lutopt(config.generator)

    def perturbation(self, seed: int, rows: int, *, magnitude: int, zeros: int) -> np.ndarray:
        """Return z of the first ``rows`` rows, int8 (rows, ways, lanes).

        Parameters
        ----------
        seed
            Of the generator.
        magnitude
            r, one less than a power of two, 1 .. 2^bits - 1.
        zeros
            n, 0..15.
        """
        self._generator.seed(seed)
        word = self._generator.beats(rows)
        config = self.config
        return self._numbers(word, magnitude, zeros).reshape(rows, config.ways, config.lanes)

    def _numbers(self, word: np.ndarray, magnitude: int, zeros: int) -> np.ndarray:
        """Return z of a generator's words (rows, count)."""
        config = self.config
        word = word.astype(np.uint8)
        # The lanes after the last ones are the first ones.
        around = np.concatenate([word, word[..., : max(MASK_LANES)]], axis=-1)
        mask = np.zeros_like(word)
        for bit, offset in enumerate(MASK_LANES):
            source = around[..., offset : offset + config.count]
            mask = mask << 1 | source >> bit % config.bits & 1
        z = (word & magnitude & (1 << config.bits) - 1).astype(np.int8)
        z *= mask >= zeros
        np.negative(z, out=z, where=(word >> config.bits).astype(bool))
        used = np.array(config.used[: len(z)], int)[:, None]
        z[: len(used)] *= np.arange(config.count) % config.lanes < used
        return z

    def perturbed(self, weights: np.ndarray, z: np.ndarray, k: int) -> np.ndarray:
        """Return clamp(weights + k z), k one of -1, 0, 1."""
        weights = require_integers("weights", weights, -LIMIT, LIMIT)
        return np.clip(weights + k * z.astype(np.int64), -LIMIT, LIMIT)

    def updated(self, weights: np.ndarray, z: np.ndarray, sign: int, magnitude: int) -> np.ndarray:
        """Return clamp(weights - sign u), u being z rounded to one bit, pseudo-stochastically."""
        shift = np.int64(int(magnitude).bit_length() - 1)
        u = pseudo_stochastic(z.astype(np.int64), shift, limit=1)
        return np.clip(
            require_integers("weights", weights, -LIMIT, LIMIT) - sign * u, -LIMIT, LIMIT
        )
