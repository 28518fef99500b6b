"""Losses of several language models at once, after some more and some fewer characters than T.

The network of :mod:`seedbed.golden.language_model` predicts the character after a window of T
characters. Its prediction after T - s to T + s characters of a longer window is nearly as good: a
pass over T + s characters then gives 2 s + 1 losses. The models that a zeroth-order step compares
share the window and run as one batch, in float32.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from seedbed.golden.language_model import CONTEXT

__all__ = ["LongWindows", "long_windows", "losses", "perplexity"]

#: Windows per pass of a perplexity: bounds the memory.
CHUNK = 128


@dataclass(frozen=True)
class LongWindows:
    """Windows of T + s characters (n, T + s), and the next ones after the last 2 s + 1 of them.

    A target of -1 is none: it is before a text, or after it.
    """

    characters: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.characters)

    def select(self, chosen: np.ndarray) -> "LongWindows":
        """Return some of the windows."""
        return LongWindows(self.characters[chosen], self.targets[chosen])


def long_windows(lines: Sequence[tuple[np.ndarray, np.ndarray]], spread: int) -> LongWindows:
    """Return a window around each character of lines, which are contexts and next characters."""
    characters, targets = [], []
    for contexts, following in lines:
        text = np.concatenate([contexts[0], following, np.zeros(spread, np.int64)])
        known = np.full(len(text), -1)
        known[CONTEXT - 1 : CONTEXT - 1 + len(following)] = following
        known = np.concatenate([known, np.full(spread, -1)])
        count = len(following)
        characters.append(sliding_window_view(text, CONTEXT + spread)[:count])
        near = sliding_window_view(known[CONTEXT - 1 - spread :], 2 * spread + 1)
        targets.append(near[:count])
    return LongWindows(np.concatenate(characters), np.concatenate(targets))


def losses(models: Sequence[Mapping[str, np.ndarray]], windows: LongWindows) -> np.ndarray:
    """Return the mean cross-entropy of the windows' targets for each model, in nats.

    With windows of T characters (s = 0), it is that of :func:`language_model.losses`.
    """
    width = models[0]["embedding.weight"].shape[1]
    used, numbers = np.unique(windows.characters, return_inverse=True)
    steps = numbers.reshape(windows.characters.shape).T
    embeddings = np.stack([model["embedding.weight"][used] for model in models])
    first, second = (models[0][f"lstm{k}.recurrent.weight"].shape[1] for k in (1, 2))
    count, length = len(windows.characters), len(steps)
    q = np.empty((len(models), count, length, width + first + second), np.float32)
    low, high = _Layer(models, 1, count), _Layer(models, 2, count)
    table = embeddings @ low.input + low.bias
    for t, numbers in enumerate(steps):
        q[:, :, t, :width] = embeddings[:, numbers]
        q[:, :, t, width : width + first] = low.step(table[:, numbers])
        q[:, :, t, width + first :] = high.step(low.h @ high.input + high.bias)
    y = _attend(q, _stack(models, "attention.weight")[:, 0], windows.targets.shape[1])
    known = windows.targets >= 0
    y, targets = y[:, known], windows.targets[known]
    logits = y @ _stack(models, "output.weight").transpose(0, 2, 1)
    logits += _stack(models, "output.bias")[:, None]
    logits -= logits.max(axis=2, keepdims=True)
    hits = logits[:, np.arange(len(targets)), targets]
    return (np.log(np.exp(logits).sum(axis=2)) - hits).mean(axis=1, dtype=np.float64)


def _stack(models: Sequence[Mapping[str, np.ndarray]], name: str) -> np.ndarray:
    return np.stack([model[name] for model in models])


class _Layer:
    """An LSTM layer of several models; sums of sigmoid gates are halved, for one tanh of all."""

    def __init__(self, models: Sequence[Mapping[str, np.ndarray]], layer: int, count: int):
        def matrix(part: str) -> np.ndarray:
            found = _stack(models, f"lstm{layer}.{part}.weight") * halves[:, None]
            return np.ascontiguousarray(found.transpose(0, 2, 1))

        self.units = models[0][f"lstm{layer}.recurrent.weight"].shape[1]
        halves = np.full(4 * self.units, 0.5, np.float32)
        halves[2 * self.units : 3 * self.units] = 1
        self.input, self.recurrent = matrix("input"), matrix("recurrent")
        self.bias = (_stack(models, f"lstm{layer}.bias") * halves)[:, None]
        self.h = np.zeros((len(models), count, self.units), np.float32)
        self.c = np.zeros_like(self.h)
        self.z = np.empty((len(models), count, 4 * self.units), np.float32)

    def step(self, inputs: np.ndarray) -> np.ndarray:
        """Return the outputs after one more character; ``inputs`` are its products."""
        z, units = self.z, self.units
        np.matmul(self.h, self.recurrent, out=z)
        z += inputs
        np.tanh(z, out=z)
        i, f, g, o = (z[..., k * units : (k + 1) * units] for k in range(4))
        for gates in (z[..., : 2 * units], o):
            gates *= 0.5
            gates += 0.5
        self.c *= f
        i *= g
        self.c += i
        np.tanh(self.c, out=f)
        np.multiply(o, f, out=self.h)
        return self.h


def _attend(q: np.ndarray, weights: np.ndarray, points: int) -> np.ndarray:
    """Return the attention's sum over up to T steps that end at each of the last ``points``."""
    models, count, length = q.shape[:3]
    scores = np.full((models, count, CONTEXT + points - 1), -np.inf, np.float32)
    # Outputs after fewer than T characters see no step before the first.
    missing = scores.shape[2] - length
    scores[..., missing:] = (q @ weights[:, None, :, None])[..., 0]
    seen = sliding_window_view(scores, CONTEXT, axis=2)
    shares = np.exp(seen - seen.max(axis=3, keepdims=True))
    shares /= shares.sum(axis=3, keepdims=True)
    band = np.zeros((models, count, points, scores.shape[2]), np.float32)
    a, b, row, item = band.strides
    as_strided(band, shares.shape, (a, b, row + item, item))[:] = shares
    return band[..., missing:] @ q


def perplexity(model: Mapping[str, np.ndarray], contexts: np.ndarray, targets: np.ndarray) -> float:
    """Return exp of the mean cross-entropy of windows of T characters."""
    total = 0.0
    for k in range(0, len(targets), CHUNK):
        part = LongWindows(contexts[k : k + CHUNK], targets[k : k + CHUNK, None])
        total += float(losses([model], part)[0]) * len(part)
    return float(np.exp(total / len(targets)))
