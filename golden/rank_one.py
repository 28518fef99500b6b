"""Golden model of perturbations of rank 1: numbers of outputs and inputs, by seed."""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.lutopt import Lutopt
from seedbed.spec.rank_one import OUTPUT_BITS, RankOneConfig
from seedbed.spec.step_levels import LEVELS

__all__ = ["Factors", "RankOne"]


@dataclass(frozen=True)
class Factors:
    """Numbers of a step: those of outputs, those of inputs, and which inputs half a step moves.

    ``outputs`` is int8 (words, ways), ``inputs`` int8 (words, lanes), 0 where a lane has no weight,
    ``half`` of the same shape, 0 and 1.
    """

    outputs: np.ndarray
    inputs: np.ndarray
    half: np.ndarray


class RankOne:
    """Perturbations and updates of rows of weights.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.rank_one.RankOneConfig`.
    """

    def __init__(self, config: RankOneConfig):
        self.config = config
        self._generator = Lutopt(config.generator)
        self._used = np.arange(config.lanes) < np.array(config.used)[:, None]
        outputs, inputs = np.array(config.rows, int).reshape(-1, 2).T
        self._rows = outputs, inputs

    def factors(self, seed: int, *, zeros: int) -> Factors:
        """Return the numbers of a step.

        Parameters
        ----------
        seed
            Of the generator.
        zeros
            n, 0..15: n of 16 outputs are not perturbed, on average.
        """
        config = self.config
        lanes, ways = config.lanes, config.ways
        self._generator.seed(seed)
        words = self._generator.beats(config.inputs + config.outputs)
        # State bit i of a lane is bit lane * width + i of a beat.
        shifts = np.arange(config.generator.width)
        bits = (words[:, :, None] >> shifts & 1).reshape(len(words), -1).astype(np.int8)
        given = bits[: config.inputs]
        drawn = bits[config.inputs :, : OUTPUT_BITS * ways].reshape(-1, ways, OUTPUT_BITS)
        mask = drawn[..., 1:] @ np.array([1, 2, 4, 8], np.int8)
        return Factors(
            outputs=(1 - 2 * drawn[..., 0]) * (mask >= zeros).astype(np.int8),
            inputs=(1 - 2 * given[:, :lanes]) * self._used.astype(np.int8),
            half=given[:, lanes : 2 * lanes],
        )

    def perturbed(self, weights: np.ndarray, of: Factors, k: int, magnitude: int) -> np.ndarray:
        """Return rows plus k 2^(magnitude - 1) a b, k one of -1, 1; they are not clamped."""
        return weights + (k << magnitude - 1) * self._product(of, of.inputs)

    def update(self, of: Factors, level: int) -> np.ndarray:
        """Return what the rows' weights move by against the sign, int64 of their shape."""
        if LEVELS[level] == "half":
            return self._product(of, of.inputs * of.half)
        return {"none": 0, "one": 1, "two": 2}[LEVELS[level]] * self._product(of, of.inputs)

    def _product(self, of: Factors, inputs: np.ndarray) -> np.ndarray:
        outputs, numbers = self._rows
        return of.outputs[outputs][:, :, None] * inputs[numbers][:, None, :].astype(np.int64)
