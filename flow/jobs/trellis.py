"""Search for codes of a trellis with a small error on Gaussian weights."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np

from seedbed.flow.compress.viterbi import viterbi
from seedbed.golden import trellis
from seedbed.spec.checks import require_int
from seedbed.spec.trellis import Code, TrellisConfig, draw, draw_mask

__all__ = ["Found", "gaussian_error", "search"]

#: Weights of a row.
COLUMNS = 512
#: Scales that are tried: deviations of the code's values for one of the weights.
SCALES = (0.92, 1.0, 1.08)


@dataclass(frozen=True)
class Found:
    """A code, its origin, and its relative errors on the weights of the search and on others."""

    origin: str
    code: Code
    error: float
    tested: float


def _weights(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(-(-count // COLUMNS), COLUMNS))


def gaussian_error(config: TrellisConfig, rows: np.ndarray) -> float:
    """Return sqrt(sum (w - w')^2 / sum w^2) of ``rows`` at the best of :data:`SCALES`."""
    table = trellis.table(config)
    least = 1.0
    for scale in SCALES:
        targets = (rows * (table.std() * scale)).astype(np.float32)
        _, found = viterbi(config, targets, np.ones_like(targets), np.zeros(len(rows), np.int64))
        factor = (found * rows).sum() / max((found * found).sum(), 1)
        wrong = ((rows - factor * found) ** 2).sum()
        least = min(least, float(np.sqrt(wrong / (rows**2).sum())))
    return least


def search(
    bits: int,
    state_bits: int,
    *,
    fields: int = 3,
    field_bits: int = 5,
    taps: int = 3,
    draws: int = 300,
    steps: int = 1500,
    weights: int = 1 << 15,
    seed: int = 0,
    progress: Callable[[int, float], None] = lambda _done, _error: None,
) -> list[Found]:
    """Return codes in the order of their errors: the best drawn ones, and the improved best.

    First ``draws`` codes are drawn, as :func:`seedbed.spec.trellis.draw` does from ``seed`` on.
    Then, in each of the ``steps``, one mask of the best code is replaced by a random one, and the
    code is kept if its error is less. All codes are compared on the same Gaussian weights. The
    returned ones are tested on eight times as many others. The first one is the best.

    Parameters
    ----------
    bits, state_bits
        As in :class:`TrellisConfig`.
    fields, field_bits, taps
        As in :func:`seedbed.spec.trellis.draw`.
    weights
        Gaussian weights that codes are compared on.
    progress
        Called with the number of codes compared and the least error.

    Raises ``TypeError`` or ``ValueError`` for numbers out of range.
    """
    require_int("draws", draws, 1, 1 << 20)
    require_int("steps", steps, 0, 1 << 20)
    require_int("weights", weights, 1, 1 << 24)
    rows = _weights(weights, seed)
    shape = {"fields": fields, "field_bits": field_bits, "taps": taps}

    def measured(code: Code) -> float:
        return gaussian_error(TrellisConfig(bits=bits, state_bits=state_bits, code=code), rows)

    drawn = []
    for k in range(draws):
        drawn.append((measured(draw(state_bits, seed + k, **shape)), seed + k))
        progress(len(drawn), min(drawn)[0])
    drawn.sort()
    error, first = drawn[0]
    best = draw(state_bits, first, **shape)
    random = Random(seed)
    for step in range(steps):
        masks = [mask for field in best for mask in field]
        mask = draw_mask(random, state_bits, taps)
        place = int(random.random() * len(masks))
        if mask not in masks:
            masks[place] = mask
            changed = tuple(tuple(masks[f * field_bits :][:field_bits]) for f in range(fields))
            error, best = min((error, best), (measured(changed), changed))
        progress(draws + step + 1, error)
    found = [(f"seed {each}", draw(state_bits, each, **shape), e) for e, each in drawn[:4]]
    if steps:
        found.insert(0, (f"seed {first}, improved", best, error))
    others = _weights(8 * weights, seed + 1)
    return [
        Found(
            origin,
            code,
            error,
            gaussian_error(TrellisConfig(bits=bits, state_bits=state_bits, code=code), others),
        )
        for origin, code, error in found
    ]
