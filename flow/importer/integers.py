"""Real numbers as integers in units of a power of two."""

from collections.abc import Iterable, Mapping
from math import frexp

import numpy as np

from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.network import Layer

__all__ = ["int8_layers", "integer_weights"]


def integer_weights(numbers: np.ndarray, width: int) -> tuple[np.ndarray, int]:
    """Return numbers as integers of ``width`` bits, int64, and the exponent of their unit.

    The unit is the least power of two with which all fit, rounded to nearest.
    """
    half = 1 << (width - 1)
    peak = float(np.abs(numbers).max(initial=0))
    exponent = frexp(peak)[1] - (width - 1) if peak else 0
    found = np.rint(np.ldexp(numbers, -exponent))
    if found.max(initial=0) >= half:
        exponent += 1
        found = np.rint(np.ldexp(numbers, -exponent))
    return found.astype(np.int64), exponent


def int8_layers(
    layers: Iterable[Layer], parameters: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return the weights of layers as ``zo_trainer`` has them, and the exponents of their units.

    Both are by the layer's name. The integers, int64, are -127..127.
    """
    weights, exponents = {}, {}
    for layer in layers:
        found, exponents[layer.name] = integer_weights(parameters[f"{layer.name}.weight"], 8)
        weights[layer.name] = found.clip(-LIMIT, LIMIT)
    return weights, exponents
