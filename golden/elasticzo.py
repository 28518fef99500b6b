"""Golden model of ElasticZO-INT8 (Algorithm 2): forward passes, loss sign, updates, in integers.

Products are exact in float32, whose sums stay below 2^24: a matrix product is BLAS's, and any order
of its sums gives the same integers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.golden.loss_sign import loss_sign, scaled_exponents
from seedbed.golden.network import gathered, patches, unpooled
from seedbed.golden.niti import bit_width, pseudo_stochastic, rounded, shift_of
from seedbed.spec.elasticzo import LIMIT, ElasticZoConfig, Phase
from seedbed.spec.loss_sign import RANGE
from seedbed.spec.network import Layer

__all__ = ["ElasticZo", "Network", "Pass", "StepResult", "drawn", "init", "loss"]

#: Gives a perturbation of a layer's weights, int8 of its shape, from step, layer and phase.
Source = Callable[[int, Layer, Phase], np.ndarray]


@dataclass
class Network:
    """Weights of each layer, int8 values as float32 of shape (outputs, fan_in), and exponents."""

    weights: dict[str, np.ndarray]
    exponents: dict[str, int]

    def copy(self) -> "Network":
        """Return a copy that shares no arrays."""
        return Network({n: w.copy() for n, w in self.weights.items()}, dict(self.exponents))


@dataclass(frozen=True)
class Pass:
    """A forward pass: logits and their exponents; of the layers that backpropagation trains,
    patches and outputs before pooling.

    ``logits`` is int64 of shape (samples, classes), ``exponents`` int64, one a sample.
    """

    seen: list[np.ndarray]
    outputs: list[np.ndarray]
    logits: np.ndarray
    exponents: np.ndarray


@dataclass(frozen=True)
class StepResult:
    """What a training step found: the sign of the loss difference, and of float's difference."""

    sign: int
    exact: int
    loss: float


def init(config: ElasticZoConfig, rng: np.random.Generator) -> Network:
    """Return random weights: uniform, with Xavier's bound, as int8 and one exponent a layer.

    Source: NITI's initialization; Glorot and Bengio (2010).
    """
    weights, exponents = {}, {}
    for layer in config.layers:
        fan_out = layer.outputs * layer.kernel**2 if layer.kind == "conv" else layer.outputs
        bound = (6 / (layer.fan_in + fan_out)) ** 0.5
        drawn = rng.uniform(-bound, bound, (layer.outputs, layer.fan_in))
        exponent = int(np.frexp(np.abs(drawn).max())[1]) - 7
        values = np.clip(np.rint(np.ldexp(drawn, -exponent)), -LIMIT, LIMIT)
        weights[layer.name], exponents[layer.name] = values.astype(np.float32), exponent
    return Network(weights, exponents)


def drawn(seed: int) -> Source:
    """Return a source with a software generator: independent numbers for every weight."""

    def perturbation(step: int, layer: Layer, phase: Phase) -> np.ndarray:
        rng = np.random.default_rng([seed, step, *layer.name.encode()])
        shape = layer.outputs, layer.fan_in
        u = rng.integers(-phase.magnitude, phase.magnitude, shape, np.int8, endpoint=True)
        u *= rng.integers(0, 256, shape, np.uint8) >= phase.zeros
        return u

    return perturbation


def loss(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of integer logits in floating point."""
    z = np.ldexp(logits.astype(np.float64), exponents[:, None])
    z -= z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())


def loss_gradient(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the error of the logits, int64 in units of 2^-7, by NITI's integer softmax.

    Each term is 2^e less 1, e as in :func:`~seedbed.golden.loss_sign.loss_sign` with ``fraction``
    0; for exponents of -7 and below, where e would be 0, it is 1 + x + x^2 / 2. A term's share of
    the sum has 11 bits, of which pseudo-stochastic rounding leaves 7.
    """
    rows = np.arange(len(labels))
    e = scaled_exponents(logits, exponents, 0)
    e = np.maximum(e - (e.max(axis=1, keepdims=True) - RANGE), 0)
    large = (1 << e) - 1
    s = np.maximum(-exponents, 0)[:, None]
    # Scaled by 2^(1 + 2 s): 2 + 2 x + x^2 with x = a 2^-s.
    s = np.minimum(s, 24)
    small = (1 << 1 + 2 * s) + (logits << 1 + s) + logits * logits
    terms = np.where(exponents[:, None] > -7, large, small)
    shares = (terms << 11) // terms.sum(axis=1, keepdims=True)
    shares[rows, labels] -= shares.sum(axis=1)
    return pseudo_stochastic(shares, np.int64(4))


class ElasticZo:
    """Trains a network in int8.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.elasticzo.ElasticZoConfig`.
    network
        Weights to start from; they are changed.
    source
        Where perturbations come from.
    parallel
        Runs both forward passes of a step: ``map``, or that of an executor with threads.
    """

    def __init__(
        self, config: ElasticZoConfig, network: Network, source: Source, *, parallel: Any = map
    ):
        self.config, self.network, self.source, self._map = config, network, source, parallel

    def forward(
        self, weights: dict[str, np.ndarray], images: np.ndarray, first: np.ndarray | None = None
    ) -> Pass:
        """Return a forward pass of images, int8 values as float32 (samples, C, H, W), exponent -7.

        ``first`` are the first layer's patches, where they are known.
        """
        x, exponents = images, np.full(len(images), -7, np.int64)
        seen, outputs = [], []
        for number, layer in enumerate(self.config.layers):
            columns = first if number == 0 and first is not None else patches(layer, x)
            sums = columns @ weights[layer.name].T
            y, x, shift = self._requantized(layer, sums, kept=number >= self.config.partition)
            if number >= self.config.partition:
                seen.append(columns)
                outputs.append(y)
            exponents = exponents + self.network.exponents[layer.name] + shift
        return Pass(seen, outputs, x.reshape(len(x), -1).astype(np.int64), exponents)

    def _requantized(
        self, layer: Layer, sums: np.ndarray, *, kept: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what a layer outputs before pooling, and after it, and each sample's shift.

        ``sums`` is (samples, positions, outputs). Before pooling only what is ``kept`` is rounded.
        """
        config = self.config
        channels, height, width = layer.convolved
        y = sums.reshape(len(sums), height, width, channels)
        pooled = _pooled(layer, y)
        shift = shift_of(pooled if config.pool_first else y)
        if config.rounding == "nearest" or config.pool_first:
            # Rounding to nearest is monotone: the maximum may be taken first, of fewer numbers.
            x = rounded(pooled, shift, config.rounding)
            y = rounded(y, shift, config.rounding) if kept else y
        else:
            y = rounded(y, shift, config.rounding)
            x = _pooled(layer, y)
        if layer.relu:
            x, y = np.maximum(x, 0), np.maximum(y, 0) if kept else y
        return y.transpose(0, 3, 1, 2), x.transpose(0, 3, 1, 2), shift

    def step(self, number: int, images: np.ndarray, labels: np.ndarray, phase: Phase) -> StepResult:
        """Train on one batch, and return what it found.

        ``number`` names the step's perturbation.
        """
        config, weights = self.config, self.network.weights
        trained = config.layers[: config.partition]
        z = {layer.name: self.source(number, layer, phase) for layer in trained}
        first = patches(config.layers[0], images)
        perturbations = []
        for k in (1, -1) if trained else (0,):
            perturbed = dict(weights)
            for name, each in z.items():
                factor = -2 if config.in_place and k < 0 else k
                perturbed[name] = np.clip(weights[name] + factor * each, -LIMIT, LIMIT)
                if config.in_place:
                    weights[name] = perturbed[name]
            perturbations.append(perturbed)
        if config.in_place:
            for name, each in z.items():
                weights[name] = np.clip(weights[name] + each, -LIMIT, LIMIT)
        passes = [*self._map(lambda each: self.forward(each, images, first), perturbations)]
        outcomes = [(each.logits, each.exponents) for each in passes]
        losses = [loss(*outcome, labels) for outcome in outcomes]
        sign = 0
        if trained:
            sign = loss_sign(outcomes[0], outcomes[-1], labels, fraction=config.fraction)
            self._update(z, sign, phase)
        if config.partition < len(config.layers):
            self._backpropagate(passes[-1], labels, phase)
        return StepResult(sign, int(np.sign(losses[0] - losses[-1])), losses[-1])

    def _update(self, z: dict[str, np.ndarray], sign: int, phase: Phase) -> None:
        """Subtract g z, rounded to one bit."""
        shift = np.int64(int(phase.magnitude).bit_length() - 1)
        for name, each in z.items():
            update = pseudo_stochastic(sign * each.astype(np.int64), shift, limit=1)
            self.network.weights[name] = _subtracted(self.network.weights[name], update)

    def _backpropagate(self, last: Pass, labels: np.ndarray, phase: Phase) -> None:
        """Update the layers after the partition by NITI's backpropagation."""
        config, weights = self.config, self.network.weights
        delta = loss_gradient(last.logits, last.exponents, labels).astype(np.float32)
        tail = list(zip(config.layers[config.partition :], last.seen, last.outputs, strict=True))
        for layer, seen, y in reversed(tail):
            delta = unpooled(layer, y, delta.reshape(len(y), *layer.shape)).reshape(y.shape)
            if layer.relu:
                delta = delta * (y > 0)
            flat = delta.reshape(len(y), layer.outputs, -1)
            rows = flat.transpose(1, 0, 2).reshape(layer.outputs, -1).astype(np.float64)
            gradient = (rows @ seen.reshape(-1, layer.fan_in).astype(np.float64)).astype(np.int64)
            if layer is not tail[0][0]:
                error = gathered(layer, flat.transpose(0, 2, 1) @ weights[layer.name])
                # One exponent for the batch: errors of samples are compared with each other.
                delta = rounded(error, shift_of(error[None])[0], config.rounding)
            shift = max(int(bit_width(np.abs(gradient).max())) - phase.update_bits, 0)
            limit = (1 << phase.update_bits) - 1
            update = pseudo_stochastic(gradient, np.int64(shift), limit=limit)
            weights[layer.name] = _subtracted(weights[layer.name], update)

    def classify(self, images: np.ndarray) -> np.ndarray:
        """Return the class of each image."""
        found = [
            self.forward(self.network.weights, images[k : k + 1000]).logits.argmax(axis=1)
            for k in range(0, len(images), 1000)
        ]
        return np.concatenate(found)


def _pooled(layer: Layer, y: np.ndarray) -> np.ndarray:
    """Return the maximum of each pooling window of (samples, height, width, channels)."""
    side = layer.pool
    if side == 1:
        return y
    rows = np.maximum.reduce([y[:, k::side] for k in range(side)])
    return np.maximum.reduce([rows[:, :, k::side] for k in range(side)])


def _subtracted(weights: np.ndarray, update: np.ndarray) -> np.ndarray:
    return np.clip(weights - update, -LIMIT, LIMIT).astype(np.float32)


def batches(
    rng: np.random.Generator, images: np.ndarray, labels: np.ndarray, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield an epoch's batches in random order; what does not fill one is left out."""
    order = rng.permutation(len(labels))
    for k in range(0, len(order) - size + 1, size):
        chosen = order[k : k + size]
        yield images[chosen], labels[chosen]
