"""Methods that pack a matrix in few bits a weight, for comparison: all bits of each count.

A method takes a matrix, and perhaps second moments H of its inputs and a mask of kept weights. It
returns the weights that come back, and bits a weight: codes, scales, tables and kept weights. With
H, the errors of columns change later columns: :mod:`seedbed.flow.compress.importance`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import erf, exp, pi, sqrt

import numpy as np

from seedbed.flow.compress.clip import best_scales, nearest
from seedbed.flow.compress.compensate import compensate
from seedbed.flow.compress.importance import Importance, columns_at_once, feedback
from seedbed.flow.compress.kept import quantize
from seedbed.flow.compress.kmeans import kmeans
from seedbed.flow.compress.packed import Config, Weights
from seedbed.flow.compress.pieces import Piece, Work, decode, encode
from seedbed.flow.compress.search import tensor_scale
from seedbed.golden import packing
from seedbed.spec import SEEDLM, TrellisConfig
from seedbed.spec.packing import Lut4Config

__all__ = ["METHODS", "Method", "Result", "gaussian_levels", "outliers", "with_targets"]

#: Bits of a kept weight: an index and a value.
KEPT_BITS = 48
#: Decoded weights of columns (rows, n) of a group whose scales or tables are known.
Round = Callable[[np.ndarray], np.ndarray]
#: Finds the scales or tables of a group's columns (rows, n), whose errors have weights (n,).
Fit = Callable[[np.ndarray, np.ndarray | None], Round]


@dataclass(frozen=True)
class Result:
    """Decoded weights of a matrix, float64, and bits a weight, all included."""

    weights: np.ndarray
    bits: float

    def error(self, original: np.ndarray) -> float:
        """Return the relative error, sqrt(sum (w - w')^2 / sum w^2)."""
        return sqrt(((self.weights - original) ** 2).sum() / (original.astype(float) ** 2).sum())


#: Takes a matrix, H or ``None``, and where weights are kept.
Method = Callable[[np.ndarray, np.ndarray | None, np.ndarray], Result]


def outliers(weights: np.ndarray, fraction: float, most: int | None = None) -> np.ndarray:
    """Return where the largest weights are, each compared with its row's root mean square.

    No row has more than ``most``.
    """
    rms = np.sqrt((weights.astype(np.float64) ** 2).mean(axis=1, keepdims=True))
    size = np.abs(weights) / np.where(rms == 0, 1, rms)
    if most is not None:
        places = np.argsort(-size, axis=1, kind="stable")[:, most:]
        np.put_along_axis(size, places, -1.0, axis=1)
        fraction = min(fraction, np.count_nonzero(size >= 0) / size.size)
    found = np.zeros(weights.size, bool)
    found[np.argsort(-size.ravel(), kind="stable")[: round(fraction * weights.size)]] = True
    return found.reshape(weights.shape)


@dataclass(frozen=True)
class _Codes:
    """4-bit codes of single weights, with ``bits`` for each group of columns of each row.

    A group is ``group`` columns, or a row. The last group of a row may be shorter.
    """

    fit: Fit
    bits: int
    group: int | None = None

    def __call__(self, weights: np.ndarray, moments: np.ndarray | None, kept: np.ndarray) -> Result:
        targets = weights.astype(np.float64)
        decoded = np.empty(targets.shape)
        columns = targets.shape[1]
        width = self.group or columns
        importance = None if moments is None else feedback(moments, 1)
        for first in range(0, columns, width):
            part = slice(first, min(first + width, columns))
            h = None if importance is None else importance.weights[part]
            rounded = self.fit(np.where(kept[:, part], 0, targets[:, part]), h)
            step = width if importance is None else 1
            for c in range(first, part.stop, step):
                here = slice(c, min(c + step, part.stop))
                decoded[:, here] = rounded(targets[:, here])
                if importance is not None and importance.changes is not None:
                    compensate(targets, decoded[:, here], kept, importance.changes, c)
        bits = 4 + self.bits * -(-columns // width) / columns
        return _with_kept(decoded, targets, kept, bits)


@dataclass(frozen=True)
class _Packed:
    """Rows in the packed form of a format."""

    config: Config

    def __call__(self, weights: np.ndarray, moments: np.ndarray | None, kept: np.ndarray) -> Result:
        importance = None if moments is None else feedback(moments, columns_at_once(self.config))
        scale = tensor_scale(float(np.abs(weights).max()))
        raw, decoded, targets = with_targets(self.config, weights, scale, importance, kept)
        bits = 8 * len(raw) / weights.size
        return _with_kept(decoded, targets, kept, bits)


def with_targets(
    config: Config,
    weights: np.ndarray,
    scale: int,
    importance: Importance | None,
    kept: np.ndarray,
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return packed rows, what comes back, and what should: where errors change later columns.

    ``weights`` are divided by 2^scale before; ``kept`` says which have no error.
    """
    found = Weights(weights.shape, "F32", scale)
    raw = weights.astype("<f4").tobytes()
    places = np.flatnonzero(kept)
    work = Work(config, "fit", "F32", scale, found.columns, raw, importance, places)
    packed = encode(work).raw
    decoded = decode(config, Piece("", (0, 0), *found.matrix, 0, 0), found, packed)
    targets = weights.astype(np.float64)
    if importance is not None and importance.changes is not None:
        step = columns_at_once(config)
        for c in range(0, found.columns, step):
            compensate(targets, decoded[:, c : c + step], kept, importance.changes, c)
    return packed, decoded, targets


def _with_kept(decoded: np.ndarray, targets: np.ndarray, kept: np.ndarray, bits: float) -> Result:
    """Return what comes back if differences of kept weights to ``decoded`` are stored, too."""
    scale, values = quantize((targets - decoded)[kept], "float16")
    decoded[kept] += np.ldexp(values.astype(np.float64), scale)
    return Result(decoded, bits + KEPT_BITS * float(kept.mean()))


def _scale(levels: np.ndarray | None) -> Fit:
    """Return the fit of a float16 scale to each row of a group: the best clip."""

    def fit(group: np.ndarray, _: np.ndarray | None) -> Round:
        # Float16 numbers of this size have all of their bits.
        power = tensor_scale(float(np.abs(group).max()))
        scales = np.ldexp(best_scales(np.ldexp(group, -power), levels).astype(np.float64), power)
        return lambda columns: nearest(columns, scales, levels) * scales[:, None]

    return fit


def _table(group: np.ndarray, weights: np.ndarray | None) -> Round:
    """Fit the table of ``lut4`` to each row."""
    config = Lut4Config()
    levels = np.array([kmeans(row, weights, config.levels) for row in group])

    def rounded(columns: np.ndarray) -> np.ndarray:
        packed = packing.encode_lut4(config, columns, levels)
        return packing.decode_lut4(config, packed, columns.shape[1])

    return rounded


@cache
def gaussian_levels() -> np.ndarray:
    """Return the 16 levels with the least squared error on Gaussian numbers, by Lloyd's method.

    Source: Max, Quantizing for minimum distortion, 1960; 16 levels leave 0.00950 of the variance.
    """
    levels = np.linspace(-2.5, 2.5, 16)
    for _ in range(2000):
        middles = [-np.inf, *(levels[1:] + levels[:-1]) / 2, np.inf]
        density = [exp(-(x**2) / 2) / sqrt(2 * pi) for x in middles]
        below = [(1 + erf(x / sqrt(2))) / 2 for x in middles]
        levels = -np.diff(density) / np.diff(below)
    return levels


#: Bits of a float16 scale.
SCALE = 16
#: Methods by name. Each can use second moments.
METHODS: dict[str, Method] = {
    "groups of 32": _Codes(_scale(None), SCALE, 32),
    "groups of 128": _Codes(_scale(None), SCALE, 128),
    "scale a row": _Codes(_scale(None), SCALE),
    "Lloyd-Max, scale a row": _Codes(_scale(gaussian_levels()), SCALE),
    "lut4": _Codes(_table, 8 * Lut4Config.header),
    "SeedLM, 4 bits": _Packed(SEEDLM[4]),
    "SeedLM, 3 bits": _Packed(SEEDLM[3]),
    "trellis, 4 bits": _Packed(TrellisConfig(bits=4)),
    "trellis, 3 bits": _Packed(TrellisConfig(bits=3)),
}
