"""The encoder of trellis codes: the scale of each row, the best path, and feedback of errors.

The scale of a row matters: weights are often ten times as large as their deviation, and the values
of a code end at three times theirs. A model of the error predicts the scale, with a fixed error of
small weights, and the distance to an end for large ones. The path is searched at a few scales near
it, and the best one is kept. Its scale is then that of the least squares, rounded to 8 bits.
"""

import numpy as np

from seedbed.flow.compress.compensate import compensate
from seedbed.flow.compress.compiled import STRICT, compiled
from seedbed.flow.compress.importance import Importance, columns_at_once
from seedbed.flow.compress.viterbi import viterbi
from seedbed.golden import trellis
from seedbed.spec.trellis import EXPONENTS, TrellisConfig

__all__ = ["encode"]

#: Columns that are searched at a time, which bounds the memory, and columns after them that are
#: regarded as well: paths have met long before.
SEGMENT, AHEAD = 1 << 14, 128
#: Columns after a block that are regarded as well, with feedback of errors: the state after a block
#: binds the first of them.
LOOKAHEAD = 8
#: Scales that are predicted, 2^(n / 8) times that at which the code has the row's deviation, and
#: scales that are tried near the predicted one, in the same steps.
STEPS, NEAR = np.arange(-4, 28), np.arange(-1, 3)
#: Where the values of a code end, in deviations of a value.
END = 2.5


@compiled(**STRICT)
def _overloads(values, weights, ends):
    """Return sum over c of weights_c max(|values_c| - end, 0)^2 for each of the row's ends."""
    sums = np.zeros(ends.shape)
    for row in range(len(values)):
        for c in range(values.shape[1]):
            size, weight = abs(values[row, c]), weights[row, c]
            for n in range(ends.shape[1]):
                over = max(size - ends[row, n], 0.0)
                sums[row, n] += weight * (over * over)
    return sums


def encode(
    config: TrellisConfig,
    rows: np.ndarray,
    importance: Importance | None = None,
    kept: np.ndarray | None = None,
) -> np.ndarray:
    """Return packed rows, uint8 (rows, bytes), of weights, float64 (rows, columns).

    Parameters
    ----------
    config
        The code.
    rows
        Finite weights.
    importance
        Weights of the errors of columns and, with its changes, feedback of errors.
    kept
        Places of weights whose errors do not count, because they are stored as well.
    """
    weights = np.ones(rows.shape, np.float32)
    if importance is not None:
        weights[:] = importance.weights / (importance.weights.mean() or 1.0)
    stored = np.zeros(rows.shape, bool)
    if kept is not None:
        stored.reshape(-1)[kept] = True
        weights[stored] = 0
    codes, scales = _searched(config, rows, weights)
    mantissas, exponents = _rounded(scales)
    if importance is not None and importance.changes is not None:
        scales = np.ldexp(mantissas.astype(np.float64), exponents)
        codes = _with_feedback(config, rows.copy(), weights, stored, scales, importance.changes)
    codes[mantissas == 0] = 0
    return trellis.pack(config, codes, mantissas, exponents)


def _path(
    config: TrellisConfig, rows: np.ndarray, weights: np.ndarray, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the symbols of the best path of each row at a scale for each, and their values."""
    targets = (rows / scales[:, None]).astype(np.float32)
    states = np.zeros(len(rows), np.int64)
    parts = []
    for first in range(0, rows.shape[1], SEGMENT):
        regarded = slice(first, first + SEGMENT + AHEAD)
        decided = min(SEGMENT, rows.shape[1] - first)
        parts.append(viterbi(config, targets[:, regarded], weights[:, regarded], states, decided))
    codes, values = zip(*parts, strict=True)
    return np.concatenate(codes, axis=1), np.concatenate(values, axis=1)


def _searched(
    config: TrellisConfig, rows: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the symbols and the scales of the least error of rows without feedback."""
    energies = (weights * rows**2).sum(axis=1)
    total = weights.sum(axis=1, dtype=np.float64)
    deviations = np.sqrt(energies / np.where(total > 0, total, 1))
    # Of a row of zeros, or of which all weights are kept, any scale will do.
    deviations[deviations == 0] = 1
    sizes = deviations[:, None] * 2.0 ** (STEPS / 8)
    granular = total[:, None] * sizes**2 * 4.0**-config.bits
    predicted = (granular + _overloads(rows, weights, END * sizes)).argmin(axis=1)
    unit = deviations / trellis.table(config).std()
    codes = np.zeros(rows.shape, np.uint8)
    scales, gains = np.zeros(len(rows)), np.zeros(len(rows))
    for near in NEAR:
        found, values = _path(config, rows, weights, unit * 2.0 ** ((STEPS[predicted] + near) / 8))
        products = (weights * rows * values).sum(axis=1)
        squares = (weights * values.astype(np.float64) ** 2).sum(axis=1)
        # The error of least squares is the energy less the gain.
        factors = np.maximum(products, 0) / np.where(squares > 0, squares, 1)
        better = factors * products > gains
        gains[better] = (factors * products)[better]
        scales[better], codes[better] = factors[better], found[better]
    return codes, scales


def _rounded(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mantissas 128 .. 255, or 0, and exponents of scales, rounded to nearest."""
    fractions, exponents = np.frexp(scales)
    mantissas = np.rint(np.ldexp(fractions, 8)).astype(np.int64)
    carried = mantissas == 256
    mantissas[carried] = 128
    exponents = exponents.astype(np.int64) - 8 + carried
    mantissas[exponents < EXPONENTS[0]] = 0
    exponents[mantissas == 0] = 0
    return mantissas, exponents


def _with_feedback(
    config: TrellisConfig, rows: np.ndarray, weights: np.ndarray, stored: np.ndarray,
    scales: np.ndarray, changes: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return the symbols of rows at their scales, with feedback of errors, block after block.

    ``rows`` are changed.
    """
    codes = np.empty(rows.shape, np.uint8)
    states = np.zeros(len(rows), np.int64)
    divisors = np.where(scales > 0, scales, 1)[:, None]
    step = columns_at_once(config)
    for first in range(0, rows.shape[1], step):
        block, regarded = slice(first, first + step), slice(first, first + step + LOOKAHEAD)
        targets = (rows[:, regarded] / divisors).astype(np.float32)
        decided = codes[:, block].shape[1]
        codes[:, block], values = viterbi(config, targets, weights[:, regarded], states, decided)
        compensate(rows, values * scales[:, None], stored, changes, first)
    return codes
