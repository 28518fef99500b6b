"""Golden model of the stream of perturbations."""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.prng_pool import PrngPool
from seedbed.golden.scale_lut import ScaleLut
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import PerturbationConfig

__all__ = ["Beats", "Perturbation"]


@dataclass(frozen=True)
class Beats:
    """One perturbation: ``lanes`` of shape (beats, n), ``counts``, ``exponents`` (beats,)."""

    lanes: np.ndarray
    counts: np.ndarray
    exponents: np.ndarray


class Perturbation:
    """k eps z for a seed, as the beats' integers and as the real numbers that they represent.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PerturbationConfig`.
    """

    def __init__(self, config: PerturbationConfig):
        self.config = config
        if config.source == "urng":
            self._array = UrngArray(config.array)
            self._scale = ScaleLut(config.scale)
        elif config.source == "lutopt":
            self._lutopt = Lutopt(config.lutopt)
        else:
            self._pool = PrngPool(config.pool)

    def load(self, contents: list[int]) -> None:
        """Write already scaled numbers to the pool, from index 0 on."""
        self._pool.load(contents)

    def beats(self, *, seed: int, d: int, eps: int = 0) -> Beats:
        """Return the beats of z for ``seed``: ceil(d / n) of them, exponent of eps included.

        Raises ``ValueError`` for a seed, a length or an exponent outside its range.
        """
        config = self.config
        seed, d = self._checked(seed, d)
        top = 1 << (config.eps_width - 1)
        eps = int(require_integers("eps", eps, -top, top - 1))
        n = config.lanes
        count = -(-d // n)
        counts = np.full(count, n)
        counts[-1] = d - (count - 1) * n
        exponents = np.full(count, eps)
        if config.source == "urng":
            self._array.grow(seed)
            exponents += self._scale.lookup(self._array.first(count)) - config.scale.least
            lanes = self._array.beats(count).astype(np.int32) - (1 << (config.width - 1))
        elif config.source == "lutopt":
            self._lutopt.seed(seed)
            lanes = self._lutopt.beats(count).astype(np.int32) - (1 << (config.width - 1))
        else:
            lanes = self._pool.take(seed, count * n).reshape(count, n)
        return Beats(lanes, counts, exponents)

    def values(self, *, seed: int, d: int, eps: int = 0, negative: bool = False) -> np.ndarray:
        """Return k eps z as d real numbers, float64, which are exact."""
        beats = self.beats(seed=seed, d=d, eps=eps)
        factors = np.ldexp(-1.0 if negative else 1.0, beats.exponents - self.config.fraction_bits)
        return (beats.lanes * factors[:, None]).reshape(-1)[:d]

    def next_seed(self, seed: int, d: int) -> int:
        """Return the seed that continues the sequence after this perturbation.

        For the pool it is the index after the last number (the paper's leftover shift). For the
        array it is the first word after as many beats, with the rotation at its start. Raises
        ``ValueError`` for ``lutopt``, whose later states are not those of seed words.
        """
        seed, d = self._checked(seed, d)
        if self.config.source == "lutopt":
            raise ValueError("a perturbation of lutopt has no seed that continues it")
        if self.config.source == "pool":
            return (seed + d) % self.config.size
        return self._array.later(seed, -(-d // self.config.lanes))

    def _checked(self, seed: int, d: int) -> tuple[int, int]:
        """Return seed and length of a perturbation as integers; refuse values out of range."""
        seeds, longest = self.config.seeds, 2**self.config.count_width - 1
        seed = int(require_integers("seed", seed, seeds.start, seeds.stop - 1))
        return seed, int(require_integers("d", d, 1, longest))
