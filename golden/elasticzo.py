"""Golden model of ElasticZO-INT8 (Algorithm 2): forward passes, loss sign, updates, in integers.

Products are exact (:func:`~seedbed.golden.exact.whole_product`): where sums stay below 2^24, they
are BLAS's in float32, and any order of the sums gives the same integers. Samples are the last axis
in memory, whatever an array's shape: patches are then copied, and maxima taken, in long runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from seedbed.golden.elasticzo_loss import loss, loss_gradient
from seedbed.golden.elasticzo_sources import RankOneSource, Source
from seedbed.golden.exact import whole_product
from seedbed.golden.loss_sign import loss_difference
from seedbed.golden.network import gathered, unpooled
from seedbed.golden.niti import bit_width, pseudo_stochastic, rounded, shift_of
from seedbed.golden.step_levels import StepLevels
from seedbed.spec.elasticzo import LIMIT, ElasticZoConfig, Phase
from seedbed.spec.network import Layer
from seedbed.spec.step_levels import LEVELS, ONE

__all__ = ["ElasticZo", "Network", "Pass", "StepResult", "batches", "init"]

#: Images of a forward pass that evaluates: bounds the memory.
CHUNK = 1000


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
    patches, their exponents, and outputs before pooling.

    Patches are (fan_in, positions, samples), outputs (samples, channels, height, width). ``logits``
    is int64 of shape (samples, classes); exponents are int64, one a sample.
    """

    seen: list[np.ndarray]
    scales: list[np.ndarray]
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
        self.levels = StepLevels()

    def forward(
        self, weights: dict[str, np.ndarray], images: np.ndarray, first: np.ndarray | None = None
    ) -> Pass:
        """Return a forward pass of images, int8 values as float32 (samples, C, H, W), exponent -7.

        ``first`` are the first layer's patches, where they are known.
        """
        x, exponents = images, np.full(len(images), -7, np.int64)
        seen, scales, outputs = [], [], []
        for number, layer in enumerate(self.config.layers):
            columns = first if number == 0 and first is not None else _patches(layer, x)
            sums = whole_product(weights[layer.name], columns.reshape(layer.fan_in, -1))
            y = np.moveaxis(sums.reshape(*layer.convolved, len(x)), -1, 0)
            y, x, shift = self._requantized(layer, y, kept=number >= self.config.partition)
            if number >= self.config.partition:
                seen.append(columns)
                scales.append(exponents)
                outputs.append(y)
            exponents = exponents + self.network.exponents[layer.name] + shift
        return Pass(seen, scales, outputs, x.reshape(len(x), -1).astype(np.int64), exponents)

    def _requantized(
        self, layer: Layer, y: np.ndarray, *, kept: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what a layer outputs before pooling, and after it, and each sample's shift.

        ``y`` are sums, (samples, channels, height, width). Before pooling only what is ``kept`` is
        rounded.
        """
        config = self.config
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
        return y, x, shift

    def step(self, number: int, images: np.ndarray, labels: np.ndarray, phase: Phase) -> StepResult:
        """Train on one batch, and return what it found.

        ``number`` names the step's perturbation. Raises ``ValueError`` for a batch of more samples
        than configured.
        """
        if len(labels) > self.config.batch:
            raise ValueError(
                f"a batch must have at most {self.config.batch} samples, not {len(labels)}"
            )
        config, weights = self.config, self.network.weights
        trained = config.layers[: config.partition]
        z = {layer.name: self.source(number, layer, phase) for layer in trained}
        first = _patches(config.layers[0], images)
        perturbations = []
        for k in (1, -1) if trained else (0,):
            perturbed = dict(weights)
            for name, each in z.items():
                factor = -2 if config.in_place and k < 0 else k
                perturbed[name] = weights[name] + factor * each
                if config.perturbation == "full":
                    perturbed[name] = np.clip(perturbed[name], -LIMIT, LIMIT)
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
            found = loss_difference(outcomes[0], outcomes[-1], labels, fraction=config.fraction)
            sign = int(np.sign(found))
            level = self.levels.level(found) if config.levels > 1 else ONE
            self._update(z, sign, level, phase)
        if config.partition < len(config.layers):
            self._backpropagate(passes[-1], labels, phase)
        return StepResult(sign, int(np.sign(losses[0] - losses[-1])), losses[-1])

    def _update(self, z: dict[str, np.ndarray], sign: int, level: int, phase: Phase) -> None:
        """Subtract g z, rounded to one bit: half a step has half of z, two steps have twice that.

        Rank 1 has the signs of z; half a step moves the weights of half of the inputs.
        """
        half, none = (LEVELS[level] == name for name in ("half", "none"))
        if none or not sign:
            return
        factor = 2 * sign if LEVELS[level] == "two" else sign
        # Of every int8 value, negative ones at their index from the end.
        values = np.arange(256).astype(np.int8).astype(int)
        table = np.sign(values)
        if self.config.perturbation == "full":
            shift = np.int64(phase.magnitude.bit_length() - 1 + half)
            table = pseudo_stochastic(values, shift, limit=1)
        for name, each in z.items():
            update = (factor * table).astype(np.float32)[each]
            if half and isinstance(self.source, RankOneSource):
                update *= self.source.half(name)
            self.network.weights[name] = _subtracted(self.network.weights[name], update)

    def _backpropagate(self, last: Pass, labels: np.ndarray, phase: Phase) -> None:
        """Update the layers after the partition by NITI's backpropagation."""
        config, weights = self.config, self.network.weights
        delta = loss_gradient(last.logits, last.exponents, labels).astype(np.float32)
        # A sample's errors are in units of 2^unit times that of the logits' errors.
        unit = np.zeros(len(delta), np.int64)
        tail = list(zip(config.tail, last.seen, last.scales, last.outputs, strict=True))
        for layer, seen, scale, y in reversed(tail):
            delta = unpooled(layer, y, delta.reshape(len(y), *layer.shape)).reshape(y.shape)
            if layer.relu:
                delta = delta * (y > 0)
            flat = delta.reshape(len(y), layer.outputs, -1)
            gradient = _gradient(flat, seen, unit + _relative(scale, config.exponent_range))
            if layer is not config.tail[0]:
                # An input has an error from each place of the kernel.
                spread = whole_product(
                    flat.transpose(0, 2, 1), weights[layer.name], added=layer.kernel**2
                )
                error = gathered(layer, spread)
                shift = self._error_shift(error)
                delta = rounded(error, shift, config.rounding)
                if config.alignment == "sample":
                    unit = unit + shift
            narrowed = max(int(bit_width(np.abs(gradient).max())) - phase.update_bits, 0)
            limit = (1 << phase.update_bits) - 1
            update = pseudo_stochastic(gradient, np.int64(narrowed), limit=limit)
            weights[layer.name] = _subtracted(weights[layer.name], update)

    def _error_shift(self, error: np.ndarray) -> np.ndarray:
        """Return by how many bits errors are shifted: one number, or one a sample."""
        if self.config.alignment == "fixed":
            return np.array(self.config.error_shift)
        if self.config.alignment == "sample":
            return shift_of(error)
        return shift_of(error[None]).reshape(())

    def evaluate(self, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        """Return the mean loss in floating point, and the share of images classified correctly."""
        losses, right = 0.0, 0
        for k in range(0, len(images), CHUNK):
            part = labels[k : k + CHUNK]
            found = self.forward(self.network.weights, images[k : k + CHUNK])
            losses += loss(found.logits, found.exponents, part) * len(part)
            right += int((found.logits.argmax(axis=1) == part).sum())
        return losses / len(labels), right / len(labels)


def _patches(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Return what each output sees, (fan_in, positions, samples), of (samples, C, H, W)."""
    planes = np.moveaxis(x, 0, -1)
    if layer.kind == "dense":
        return planes.reshape(layer.fan_in, 1, len(x))
    side, pad = layer.kernel, layer.padding
    padded = np.pad(planes, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = sliding_window_view(padded, (side, side), axis=(1, 2))
    _, rows, columns = layer.convolved
    windows = windows[:, :: layer.stride, :: layer.stride][:, :rows, :columns]
    return windows.transpose(0, 4, 5, 1, 2, 3).reshape(layer.fan_in, -1, len(x))


def _pooled(layer: Layer, y: np.ndarray) -> np.ndarray:
    """Return the maximum of each pooling window of (samples, channels, height, width)."""
    side = layer.pool
    rows = reduce(np.maximum, [y[:, :, k::side] for k in range(side)])
    return reduce(np.maximum, [rows[..., k::side] for k in range(side)])


def _relative(exponents: np.ndarray, reach: int) -> np.ndarray:
    """Return exponents relative to the first one, limited to -reach..reach, plus ``reach``."""
    return np.clip(exponents - exponents[0], -reach, reach) + reach


def _gradient(delta: np.ndarray, seen: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return the sum over samples of errors, shifted left, times patches, as int64.

    ``delta`` is (samples, outputs, positions), ``seen`` (fan_in, positions, samples). Raises
    ``ValueError`` for sums that may be 2^63 or more.
    """
    shifted = np.ldexp(delta.astype(np.float64), shift[:, None, None])
    rows = shifted.transpose(1, 2, 0).reshape(delta.shape[1], -1)
    return whole_product(rows, seen.reshape(len(seen), -1).T).astype(np.int64, copy=False)


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
