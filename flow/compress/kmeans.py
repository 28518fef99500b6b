"""Exact weighted k-means in one dimension, by dynamic programming."""

import numpy as np

from seedbed.flow.compress.compiled import STRICT, compiled

__all__ = ["kmeans"]


@compiled(**STRICT)
def _cost(moments, first, last):
    """Return the weighted sum of squares around the mean of the elements first .. last."""
    weight = moments[0, last + 1] - moments[0, first]
    if weight <= 0:
        return 0.0
    mean = moments[1, last + 1] - moments[1, first]
    return max(moments[2, last + 1] - moments[2, first] - mean * mean / weight, 0.0)


@compiled(**STRICT)
def _borders(moments, count):
    """Return the first elements of ``count`` clusters with the least cost, in O(k n log n).

    The best first element of the last cluster does not decrease with the number of elements:
    it is found for elements at ever smaller distances, each time between those of its neighbours.
    """
    size = moments.shape[1] - 1
    costs = np.empty((2, size))
    starts = np.zeros((count, size), np.int32)
    for last in range(size):
        costs[0, last] = _cost(moments, 0, last)
    for k in range(1, count):
        before, here = costs[(k - 1) % 2], costs[k % 2]
        stride = 1
        while stride < size:
            stride *= 2
        while stride:
            for last in range(stride - 1, size, 2 * stride):
                low = starts[k, last - stride] if last >= stride else 0
                high = starts[k, last + stride] if last + stride < size else last
                here[last] = np.inf
                for first in range(low, min(high, last) + 1):
                    cost = _cost(moments, first, last)
                    if first:
                        cost += before[first - 1]
                    if cost < here[last]:
                        here[last], starts[k, last] = cost, first
            stride //= 2
    found = np.zeros(count + 1, np.int64)
    found[count] = size
    last = size - 1
    for k in range(count - 1, 0, -1):
        if last >= 0:
            found[k] = starts[k, last]
            last = starts[k, last] - 1
    return found


def kmeans(values: np.ndarray, weights: np.ndarray | None, count: int) -> np.ndarray:
    """Return ``count`` levels, increasing, with the least weighted sum of squared distances.

    The sum is that of h_i (w_i - level)^2 over all ``values``, each at its nearest level, with
    ``weights`` h of the same shape, or ones. Values may be fewer than levels; levels may repeat.

    Source: Wang and Song, Ckmeans.1d.dp, The R Journal 3/2, 2011; as SqueezeLLM weights it.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    used = np.ones(len(values)) if weights is None else weights[order].astype(np.float64)
    if not used.any():
        used = np.ones(len(values))
    # Around the mean, so that differences of sums are exact enough.
    centre = float((used * ordered).sum() / used.sum())
    shifted = ordered - centre
    moments = np.zeros((3, len(values) + 1))
    for k in range(3):
        moments[k, 1:] = np.cumsum(used * shifted**k)
    borders = _borders(moments, count)
    levels = np.empty(count)
    for k in range(count):
        first, last = borders[k], borders[k + 1]
        weight = moments[0, last] - moments[0, first]
        if weight > 0:
            levels[k] = (moments[1, last] - moments[1, first]) / weight + centre
        else:
            # An empty cluster, or one without weight, has a level that some value has.
            levels[k] = ordered[min(first, len(ordered) - 1)]
    return np.sort(levels)
