"""Viterbi's algorithm for trellis codes, compiled: the least error of all paths.

A path ends before weight t in a state s, whose low L - k bits are the history of the next state.
Only the least cost of each history is stored. With n histories, and fan = 2^k::

    cost'[i] = min over h < fan of cost[(h n + i) / fan] + weight (level[h n + i] - target)^2

State h n + i is entered from history (h n + i) / fan, rounded down, and its history is i. The h of
the minimum is the back pointer: one byte for each weight and history.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from seedbed.flow.compress.compiled import STRICT, compiled
from seedbed.golden import trellis
from seedbed.spec.trellis import BITS, TrellisConfig

__all__ = ["viterbi"]

#: Cost of what cannot be reached.
NEVER = np.float32(1e30)
#: Weights after which costs are made small again. All states are reachable after as many.
SETTLED = 8


def _search(bits: int) -> Callable:
    """Return the compiled search for ``bits`` per weight."""
    fan = 1 << bits
    # 16 states that follow one history fill a vector of the processor; otherwise, vectors are of
    # states that follow neighbouring histories, and the histories of the next weight are reordered.
    wide = bits == 4

    def search(level, values, targets, weights, states, back, codes, found):
        """Decide the first weights of each row, as many as ``codes`` has columns.

        ``level`` is as :func:`_levels` returns it, ``back`` is scratch, (columns, histories). The
        other parameters are those of :func:`viterbi`.
        """
        outer, inner = level.shape[1:]
        groups = outer if wide else inner
        histories = groups * fan
        shift = np.int64(0)
        while 1 << shift < histories:
            shift += 1
        old = np.empty((fan, groups), np.float32)
        new = np.empty((outer, inner), np.float32)
        before, after = old.reshape(-1), new.reshape(-1)
        for row in range(len(targets)):
            before[:] = NEVER
            before[states[row] & (histories - 1)] = 0
            for t in range(targets.shape[1]):
                target, weight = targets[row, t], weights[row, t]
                pointer = back[t].reshape(outer, inner)
                for a in range(outer):
                    for b in range(inner):
                        wrong = level[0, a, b] - target
                        least = old[0, a if wide else b] + weight * (wrong * wrong)
                        best = np.uint8(0)
                        for h in range(1, fan):
                            wrong = level[h, a, b] - target
                            cost = old[h, a if wide else b] + weight * (wrong * wrong)
                            if cost < least:
                                least = cost
                                best = np.uint8(h)
                        new[a, b] = least
                        pointer[a, b] = best
                common = after[0] if t % SETTLED == SETTLED - 1 else np.float32(0)
                if wide:
                    for i in range(histories):
                        before[i] = after[i] - common
                else:
                    turned = before.reshape(groups, fan)
                    for g in range(groups):
                        for symbol in range(fan):
                            turned[g, symbol] = new[symbol, g] - common
            history = 0
            for i in range(histories):
                if before[i] < before[history]:
                    history = i
            for t in range(targets.shape[1] - 1, -1, -1):
                place = history if wide else (history & (fan - 1)) * groups + (history >> bits)
                state = np.int64(back[t, place]) << shift | history
                if t < codes.shape[1]:
                    codes[row, t] = state & (fan - 1)
                    found[row, t] = values[state]
                    if t == codes.shape[1] - 1:
                        states[row] = state
                history = state >> bits

    return compiled(**STRICT)(search)


_SEARCHES = {bits: _search(bits) for bits in BITS}


@lru_cache(maxsize=4)
def _levels(config: TrellisConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of all states in the order of the compiled search, and in their order."""
    fan = 1 << config.bits
    values = trellis.table(config).astype(np.float32)
    found = values.reshape(fan, -1, fan)
    return found if config.bits == 4 else np.ascontiguousarray(found.transpose(0, 2, 1)), values


def viterbi(
    config: TrellisConfig, targets: np.ndarray, weights: np.ndarray, states: np.ndarray,
    decided: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the symbols of the least error of each row, uint8, and their values, float32.

    Parameters
    ----------
    config
        The code.
    targets, weights
        float32 of shape (rows, columns): what to approximate, divided by the row's scale, and the
        weights of the squares of the errors.
    states
        int64 of shape (rows,): the states before the first weight. They become those after the last
        decided one.
    decided
        How many weights are decided, of those that are regarded; by default all.

    Memory is 2^(L - k) bytes for each column.
    """
    shape = len(targets), targets.shape[1] if decided is None else decided
    codes, found = np.empty(shape, np.uint8), np.empty(shape, np.float32)
    back = np.empty((targets.shape[1], 1 << config.history), np.uint8)
    # Another layout in memory would be compiled again.
    targets, weights = np.ascontiguousarray(targets), np.ascontiguousarray(weights)
    search = _SEARCHES[config.bits]
    search(*_levels(config), targets, weights, states, back, codes, found)
    return codes, found
