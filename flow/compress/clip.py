"""The best clip: scales of 4-bit codes with the least squared error.

A scale of max|w| / 7 represents the largest weight of a group, and wastes levels on it. A smaller
scale clips the largest weights, and rounds all others more finely. The search tries a geometric
series of scales, then a finer one around the best of them, then the scale that fits the codes by
least squares. All scales are float16 numbers, as stored. The codes are -8 .. 7, so that scales of
both signs are tried.
"""

import numpy as np

from seedbed.flow.compress.compiled import STRICT, compiled

__all__ = ["best_scales", "nearest"]

#: Exponents of factors of max|w| / 7, down to 1/16 of it, and of factors of the best of them. The
#: first factor is 1: it is kept where no other is better.
STEPS, STEPS_NEAR = np.arange(49) / -12, np.array([0, *range(1, 9), *range(-8, 0)]) / 96
#: The factors, rounded: a processor's powers of two may differ in the last bit.
COARSE, FINE = (np.rint(4096 * 2.0**steps) / 4096 for steps in (STEPS, STEPS_NEAR))
#: The largest scale.
MOST = float(np.finfo(np.float16).max)


@compiled(**STRICT)
def _code_errors(groups, scales):
    """Return the sums of squared errors, (groups, scales), of the nearest codes -8 .. 7.

    The inner loop is that over scales: it is vectorized, and no sum is reordered.
    """
    found = np.zeros(scales.shape)
    for n in range(len(groups)):
        inverses = np.empty(scales.shape[1])
        for k in range(scales.shape[1]):
            inverses[k] = 1 / scales[n, k] if scales[n, k] != 0 else 0.0
        for w in groups[n]:
            for k in range(scales.shape[1]):
                code = min(max(np.rint(w * inverses[k]), -8.0), 7.0)
                wrong = w - code * scales[n, k]
                found[n, k] += wrong * wrong
    return found


def nearest(groups: np.ndarray, scales: np.ndarray, levels: np.ndarray | None) -> np.ndarray:
    """Return the nearest of ``levels``, increasing, or of -8 .. 7, to groups over their scales."""
    scaled = groups / np.where(scales == 0, 1, scales)[..., None]
    if levels is None:
        return np.rint(scaled).clip(-8, 7)
    return levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, scaled)]


def _errors(groups: np.ndarray, scales: np.ndarray, levels: np.ndarray | None) -> np.ndarray:
    if levels is None:
        return _code_errors(groups, scales)
    found = [((groups - nearest(groups, s, levels) * s[:, None]) ** 2).sum(1) for s in scales.T]
    return np.stack(found, axis=1)


def best_scales(groups: np.ndarray, levels: np.ndarray | None = None) -> np.ndarray:
    """Return the scale of each group, float16 (...), with the least error of those tried.

    ``groups`` is (..., n), in the range of float16. ``levels`` are what a weight over the scale is
    rounded to: increasing numbers, or by default the codes -8 .. 7.
    """
    flat = groups.reshape(-1, groups.shape[-1])
    found = np.abs(flat).max(axis=1, keepdims=True) / (7 if levels is None else levels[-1])

    def best(tried: np.ndarray) -> np.ndarray:
        stored = tried.clip(-MOST, MOST).astype(np.float16).astype(np.float64)
        chosen = _errors(flat, stored, levels).argmin(axis=1, keepdims=True)
        return np.take_along_axis(stored, chosen, axis=1)

    for factors in (np.concatenate([COARSE, -COARSE]), FINE):
        found = best(found * factors)
    codes = nearest(flat, found[:, 0], levels)
    energy = (codes**2).sum(axis=1, keepdims=True)
    fitted = (flat * codes).sum(axis=1, keepdims=True) / np.where(energy == 0, 1, energy)
    found = best(np.concatenate([found, fitted], axis=1))
    return found[:, 0].astype(np.float16).reshape(groups.shape[:-1])
