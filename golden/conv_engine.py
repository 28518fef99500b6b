"""Golden model of a frozen network in integers."""

from collections.abc import Mapping

import numpy as np

from seedbed.golden import engine
from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import Saturations, matmul
from seedbed.golden.network import patches, tiled
from seedbed.spec.conv_engine import ConvEngineConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import NetworkConfig

__all__ = ["ConvEngine", "flat", "frozen", "whole"]


def flat(x: np.ndarray) -> np.ndarray:
    """Return maps (samples, C, H, W) as vectors in the order of rows, columns, channels."""
    return x.transpose(0, 2, 3, 1).reshape(len(x), -1)


def whole(parameters: Mapping[str, np.ndarray], form: Fixed) -> dict[str, np.ndarray]:
    """Return parameters by name, int64, all of them a format's integers."""
    return {
        name: require_integers(name, numbers, form.low, form.high)
        for name, numbers in parameters.items()
    }


def frozen(
    network: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    x: np.ndarray,
    *,
    values: Fixed,
    weights: Fixed,
    saturations: Saturations,
) -> list[np.ndarray]:
    """Return what each layer takes, and what the last one gives, as :func:`flat` vectors.

    Parameters
    ----------
    network
        Layers.
    parameters
        Integers of the weights' format by name, as :func:`seedbed.golden.network.init` has them.
    x
        Integers of the values' format, (samples, C, H, W).
    values, weights
        Formats.
    saturations
        Counts outputs that saturate, before pooling.
    """
    found = []
    for layer in network.layers:
        found.append(flat(x))
        sums = matmul(patches(layer, x), parameters[f"{layer.name}.weight"].T)
        if layer.bias:
            sums = sums + (parameters[f"{layer.name}.bias"] << values.fraction)
        y = saturations.requantize(sums, weights.fraction, values)
        y = y.transpose(0, 2, 1).reshape(len(x), *layer.convolved)
        x = tiled(layer, np.maximum(y, 0) if layer.relu else y).max(axis=-1)
    return [*found, flat(x)]


class ConvEngine:
    """The whole core.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.conv_engine.ConvEngineConfig`.
    parameters
        Integers of the weights' format by name.
    """

    def __init__(self, config: ConvEngineConfig, parameters: Mapping[str, np.ndarray]):
        self.config = config
        self.parameters = whole(parameters, config.weights)
        self.saturations = Saturations()

    def words(self) -> np.ndarray:
        """Return the parameters as the stream has them, int64 (parameter_beats, 2)."""
        plan = self.config.engine.plan
        return engine.words(engine.frozen_rows(plan, self.config.layers, self.parameters))

    def run(self, x: np.ndarray) -> np.ndarray:
        """Return the outputs, int64 (samples, outputs), for images (samples, C, H, W)."""
        values = self.config.values
        x = require_integers("x", x, values.low, values.high)
        *_, found = frozen(
            NetworkConfig(self.config.layers),
            self.parameters,
            x,
            values=values,
            weights=self.config.weights,
            saturations=self.saturations,
        )
        return found
