"""ElasticZO in floating point (Algorithm 1): zeroth order, with backpropagation at the end."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from seedbed.golden.elasticzo import CHUNK, StepResult
from seedbed.golden.network import Parameters, backward, forward, loss
from seedbed.spec.checks import require_int
from seedbed.spec.network import NetworkConfig

__all__ = ["ElasticZoFloat"]


class ElasticZoFloat:
    """Trains a network in floating point, with a software generator of Gaussian perturbations.

    With z ~ N(0, I) over the parameters of the first ``partition`` layers, a step is::

        g = (L(theta + eps z) - L(theta - eps z)) / (2 eps),  limited to -clip..clip
        theta' = theta - rate g z

    The other layers go against their gradient at theta - eps z, the later of both passes. The
    stored parameters are not perturbed.

    Parameters
    ----------
    network
        The layers.
    partition
        C: how many layers, from the first, are trained by zeroth order, 0..layers.
    parameters
        Arrays to start from, by the names of :mod:`seedbed.golden.network`; they are changed.
    seed
        Of the perturbations.
    eps, clip
        See above.
    parallel
        Runs both forward passes of a step: ``map``, or that of an executor with threads.

    Source: ElasticZO, Algorithm 1; section 5.1.1 for the limit.
    """

    def __init__(
        self,
        network: NetworkConfig,
        partition: int,
        parameters: Parameters,
        seed: int,
        *,
        eps: float,
        clip: float,
        parallel: Any = map,
    ):
        require_int("partition", partition, 0, len(network.layers))
        self.network, self.partition, self.parameters = network, partition, parameters
        self.seed, self.eps, self.clip, self._map = seed, eps, clip, parallel
        names = [layer.name for layer in network.layers[:partition]]
        self._perturbed = [name for name in parameters if name.rpartition(".")[0] in names]

    def perturbation(self, number: int) -> Parameters:
        """Return z of a step, float32 or as the parameters are."""
        rng = np.random.default_rng([self.seed, number])
        shapes = ((name, self.parameters[name]) for name in self._perturbed)
        return {
            name: rng.standard_normal(value.shape, np.float32).astype(value.dtype)
            for name, value in shapes
        }

    def step(self, number: int, images: np.ndarray, labels: np.ndarray, rate: float) -> StepResult:
        """Train on one batch; ``number`` names the step's perturbation."""
        z = self.perturbation(number)
        points = [
            self.parameters | {name: self.parameters[name] + k * each for name, each in z.items()}
            for k in ((self.eps, -self.eps) if z else (0,))
        ]
        passes = [*self._map(lambda point: [*forward(self.network, point, images)], points)]
        losses = [loss(steps[-1][2].reshape(len(labels), -1), labels) for steps in passes]
        difference = losses[0] - losses[-1]
        g = min(max(difference / (2 * self.eps), -self.clip), self.clip)
        self._descend(z, rate * g)
        if self.partition < len(self.network.layers):
            tail = backward(self.network, points[-1], passes[-1], labels, self.partition)
            self._descend(tail, rate)
        sign = int(np.sign(difference))
        return StepResult(sign, sign, losses[-1])

    def _descend(self, directions: Mapping[str, np.ndarray], rate: float) -> None:
        """Subtract ``rate`` times each direction."""
        for name, each in directions.items():
            before = self.parameters[name]
            self.parameters[name] = (before - rate * each).astype(before.dtype)

    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Return the mean loss, and the share of images classified correctly."""
        losses, right = 0.0, 0
        for k in range(0, len(images), CHUNK):
            part = labels[k : k + CHUNK]
            *_, (_, _, y) = forward(self.network, self.parameters, images[k : k + CHUNK])
            z = y.reshape(len(part), -1)
            losses += loss(z, part) * len(part)
            right += int((z.argmax(axis=1) == part).sum())
        return losses / len(labels), right / len(labels)
