"""The character-level language model with its matrix products and its training in integers.

The network is that of :mod:`seedbed.golden.language_model`. Its products are those of an engine:
:class:`~seedbed.golden.kept_matrix.KeptMatrices`, or the RTL. The host quantizes their vectors,

    x = clip(round(v 2^F), -2^15, 2^15 - 1),

converts the sums, and computes everything else in float64. An embedding is a product too: of the
transposed matrix, and a vector with 2^14 at the character and 0 elsewhere.

A step of zeroth-order SGD is two losses and an update of each matrix. With the number z of each
kept value v, and eps of a number::

    slope = (L(v + eps z) - L(v - eps z)) / 2,    v -= rate slope z / eps

Source: SensZOQ (arXiv:2406.02913), sections 3 and 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from seedbed.golden.kept_matrix import KeptMatrix
from seedbed.golden.language_model import CONTEXT
from seedbed.spec import SparseMacConfig
from seedbed.spec.sparse_mac import GAIN_FRACTION

__all__ = [
    "MATRICES",
    "Engine",
    "IntegerLanguageModel",
    "deviation",
    "gain_of",
    "seed_of",
]

#: The matrices, in the order of their seeds.
MATRICES = (
    "embedding.weight",
    "lstm1.input.weight",
    "lstm1.recurrent.weight",
    "lstm2.input.weight",
    "lstm2.recurrent.weight",
    "attention.weight",
    "output.weight",
)
#: Fraction bits of a 1 that selects a character.
ONE = 14
#: Windows per pass: bounds the memory.
CHUNK = 512


class Engine(Protocol):
    """What multiplies, and keeps the values that are trained."""

    matrices: dict[str, KeptMatrix]
    config: SparseMacConfig

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The trained values of each matrix."""

    def product(self, name: str, x: np.ndarray, *, k: int = 0, seed: int = 0) -> np.ndarray:
        """See :meth:`~seedbed.golden.kept_matrix.KeptMatrices.product`."""

    def update(self, name: str, *, seed: int, gain: int, shift: int) -> None:
        """See :meth:`~seedbed.golden.kept_matrix.KeptMatrices.update`."""


def deviation(config: SparseMacConfig) -> float:
    """Return the standard deviation of a number of the generator: odd, uniform."""
    return float(np.sqrt((4**config.number_width - 1) / 3))


def seed_of(step: int, name: str) -> int:
    """Return the seed of a matrix in a step of the run: no two are the same in 2^29 steps."""
    return (step << 3 | MATRICES.index(name)) & 0xFFFFFFFF


def gain_of(config: SparseMacConfig, change: float) -> tuple[int, int]:
    """Return gain and shift of an update by ``change`` values for each unit of a number.

    The shift is the least one with which the gain has no more than its bits; beyond the greatest
    shift, the gain saturates.
    """
    most = (1 << (config.activation_width - 1)) - 1
    for shift in range(config.most_shift + 1):
        gain = round(float(np.ldexp(change, GAIN_FRACTION - shift)))
        if abs(gain) <= most:
            return gain, shift
    return (most if change > 0 else -most), config.most_shift


def _sigmoid(z: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * z) + 0.5


@dataclass(frozen=True, kw_only=True)
class IntegerLanguageModel:
    """The host's part of the model.

    Parameters
    ----------
    biases
        float64: ``lstm1.bias``, ``lstm2.bias`` and ``output.bias``.
    fraction
        F, fraction bits of the vectors.
    """

    biases: Mapping[str, np.ndarray]
    fraction: int

    def losses(
        self,
        engine: Engine,
        contexts: np.ndarray,
        targets: np.ndarray,
        *,
        k: int = 0,
        step: int = 0,
    ) -> np.ndarray:
        """Return the cross-entropy of each next character in nats.

        Parameters
        ----------
        engine
            What multiplies.
        contexts
            Characters (n, length).
        targets
            The character after each context (n,), or those after its last p lengths (n, p), where
            -1 is none. A context of T + s characters has p = 2 s + 1: those after T - s to T + s.
            The network sees the last T of them.
        k, step
            With ``k`` of 1 or -1, kept values are perturbed with the numbers of a ``step``.
        """
        wanted = targets if targets.ndim == 2 else targets[:, None]
        found = [np.zeros(0)]
        for at in range(0, len(contexts), CHUNK):
            part = wanted[at : at + CHUNK]
            known = part >= 0
            logits = self._logits(engine, contexts[at : at + CHUNK], known, k, step)
            logits -= logits.max(axis=1, keepdims=True)
            logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            found.append(-np.take_along_axis(logs, part[known][:, None], 1)[:, 0])
        return np.concatenate(found)

    def perplexity(self, engine: Engine, contexts: np.ndarray, targets: np.ndarray) -> float:
        """Return exp of the mean cross-entropy."""
        return float(np.exp(self.losses(engine, contexts, targets).mean()))

    def step(
        self, engine: Engine, contexts: np.ndarray, targets: np.ndarray, *, step: int, rate: float,
        clip: float = inf,
    ) -> tuple[float, float]:  # fmt: skip
        """Train by one step; return the mean of the two losses, and half their difference.

        ``clip`` is the limit of the absolute value of slope / eps, with the eps of each matrix.
        """
        plus, minus = (
            float(self.losses(engine, contexts, targets, k=k, step=step).mean()) for k in (1, -1)
        )
        slope = (plus - minus) / 2
        spread = deviation(engine.config)
        for name, of in engine.matrices.items():
            if not len(of.entries):
                continue
            # A step in values is eps / spread 2^-scale: the number's scale is not in an update.
            eps = spread * 2.0**of.scale * of.step
            gradient = min(max(slope / eps, -clip), clip)
            change = rate * gradient / (spread * of.step)
            gain, shift = gain_of(engine.config, change)
            engine.update(name, seed=seed_of(step, name), gain=gain, shift=shift)
        return (plus + minus) / 2, slope

    def quantize(self, values: np.ndarray) -> np.ndarray:
        """Return values as integers of 16 bits."""
        return np.clip(np.rint(np.ldexp(values, self.fraction)), -(1 << 15), (1 << 15) - 1).astype(
            np.int64
        )

    def _logits(
        self, engine: Engine, contexts: np.ndarray, known: np.ndarray, k: int, step: int
    ) -> np.ndarray:
        """Return the outputs (number of known targets, classes), by windows."""

        def product(name: str, x: np.ndarray, fraction: int = self.fraction) -> np.ndarray:
            """Return the products of ``x`` (n, columns) as float64 (n, rows)."""
            sums = engine.product(name, x, k=k, seed=seed_of(step, name))
            return sums.astype(np.float64) * np.ldexp(engine.matrices[name].unit, -fraction)

        characters, where = np.unique(contexts.T, return_inverse=True)
        ones = np.zeros((len(characters), engine.matrices[MATRICES[0]].columns), np.int64)
        ones[np.arange(len(characters)), characters] = 1 << ONE
        embedded = self.quantize(product("embedding.weight", ones, ONE))
        inputs = product("lstm1.input.weight", embedded) + self.biases["lstm1.bias"]
        where = where.reshape(contexts.T.shape)
        parts, inputs = [embedded[where]], inputs[where]
        for layer in ("lstm1", "lstm2"):
            if layer == "lstm2":
                flat = product("lstm2.input.weight", parts[-1].reshape(-1, parts[-1].shape[-1]))
                inputs = flat.reshape(*where.shape, -1) + self.biases["lstm2.bias"]
            units = inputs.shape[-1] // 4
            h = np.zeros((len(contexts), units), np.int64)
            c = np.zeros(h.shape)
            hs = np.empty((len(where), *h.shape), np.int64)
            for t in range(len(where)):
                z = inputs[t] + product(f"{layer}.recurrent.weight", h)
                i, f, g, o = np.split(z, 4, axis=1)
                c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
                h = self.quantize(_sigmoid(o) * np.tanh(c))
                hs[t] = h
            parts.append(hs)
        q = np.concatenate(parts, axis=2)
        # The attention's one row may be the sum of several.
        scores = product("attention.weight", q.reshape(-1, q.shape[-1])).sum(axis=1)
        scores = scores.reshape(where.shape)
        points = known.shape[1]
        y = np.empty((*known.shape, q.shape[-1]), np.int64)
        for point in range(points):
            end = len(where) - points + 1 + point
            seen = slice(max(0, end - CONTEXT), end)
            shares = np.exp(scores[seen] - scores[seen].max(axis=0))
            shares /= shares.sum(axis=0)
            attended = (shares[..., None] * q[seen]).sum(axis=0)
            y[:, point] = self.quantize(np.ldexp(attended, -self.fraction))
        return product("output.weight", y[known]) + self.biases["output.bias"]
