"""Golden model of ElasticZO-INT8 (Algorithm 2): forward passes, loss sign, updates, in integers.

Products are exact in float32, whose sums stay below 2^24: a matrix product is BLAS's, and any order
of its sums gives the same integers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.golden.network import gathered, patches, unpooled
from seedbed.golden.niti import bit_width, pseudo_stochastic, rounded, shift_of
from seedbed.spec.elasticzo import LIMIT, LOG2_E, ElasticZoConfig, Phase
from seedbed.spec.network import Layer

__all__ = ["ElasticZo", "Network", "Pass", "StepResult", "drawn", "init", "loss", "loss_sign"]

#: Exponents of a power of two that are kept below the largest one. Source: section 4.3.
RANGE = 10
#: Fraction bits of the table of powers of two, and of the mantissa that the logarithm looks at.
POWER_BITS = 14
LOG_BITS = 8

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
    patches, their exponents, and outputs before pooling.

    ``logits`` is int64 of shape (samples, classes); exponents are int64, one a sample.
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


def drawn(seed: int) -> Source:
    """Return a source with a software generator: independent numbers for every weight."""

    def perturbation(step: int, layer: Layer, phase: Phase) -> np.ndarray:
        rng = np.random.default_rng([seed, step, *layer.name.encode()])
        shape = layer.outputs, layer.fan_in
        u = rng.integers(-phase.magnitude, phase.magnitude, shape, np.int8, endpoint=True)
        u *= rng.integers(0, 256, shape, np.uint8) >= phase.zeros
        return u

    return perturbation


def _powers(fraction: int) -> np.ndarray:
    """Return round(2^(k / 2^fraction) 2^POWER_BITS), k = 0 .. 2^fraction - 1."""
    count = 1 << fraction
    return np.rint(2.0 ** (np.arange(count) / count) * (1 << POWER_BITS)).astype(np.int64)


def _logarithms(fraction: int) -> np.ndarray:
    """Return floor(log2(1 + k / 2^LOG_BITS) 2^fraction), k = 0 .. 2^LOG_BITS - 1."""
    mantissa = 1 + np.arange(1 << LOG_BITS) / (1 << LOG_BITS)
    return np.floor(np.log2(mantissa) * (1 << fraction)).astype(np.int64)


def _log2_of_sum(exponents: np.ndarray, fraction: int) -> np.ndarray:
    """Return log2 of the sum of 2^e over the last axis; e, not negative, and it in 2^-fraction."""
    low = (1 << fraction) - 1
    total = (_powers(fraction)[exponents & low] << (exponents >> fraction)).sum(axis=-1)
    whole = bit_width(total) - 1
    mantissa = (total << LOG_BITS >> whole) - (1 << LOG_BITS)
    return (whole - POWER_BITS << fraction) + _logarithms(fraction)[mantissa]


def _exponents(logits: np.ndarray, exponents: np.ndarray, fraction: int) -> np.ndarray:
    """Return floor(47274 logits 2^(exponents - 15) 2^fraction) of (samples, classes)."""
    scaled = LOG2_E * logits
    shift = np.clip(exponents - 15 + fraction, -40, 30)[:, None]
    return np.where(shift < 0, scaled >> np.maximum(-shift, 0), scaled << np.maximum(shift, 0))


def loss_sign(
    plus: tuple[np.ndarray, np.ndarray],
    minus: tuple[np.ndarray, np.ndarray],
    labels: np.ndarray,
    *,
    fraction: int,
) -> int:
    """Return the sign of the difference of two losses over a batch, -1, 0 or 1, from integers.

    Per sample, with a the logits and s their exponent, a term of a loss is 2^e_j::

        e_j = floor(47274 (a_j - a_label) 2^(s - 15) 2^fraction)

    Of both passes together, e_j less p is kept, p the largest e_j less 10 2^fraction, and at least
    0. The logarithms of the sums of 2^e_j are truncated to ``fraction`` bits, and their differences
    are added up over the batch. Source: Eq. 6 to 12, which are those of ``fraction`` 0.

    Parameters
    ----------
    plus, minus
        Logits (samples, classes) and exponents (samples,) of each pass.
    labels
        Of the samples, 0 .. classes - 1.
    fraction
        Bits.
    """
    rows = np.arange(len(labels))
    terms = [
        _exponents(logits - logits[rows, labels][:, None], exponents, fraction)
        for logits, exponents in (plus, minus)
    ]
    top = np.maximum(terms[0].max(axis=1), terms[1].max(axis=1)) - (RANGE << fraction)
    a, b = (_log2_of_sum(np.maximum(e - top[:, None], 0), fraction) for e in terms)
    return int(np.sign((a - b).sum()))


def loss(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of integer logits in floating point."""
    z = np.ldexp(logits.astype(np.float64), exponents[:, None])
    z -= z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())


def loss_gradient(logits: np.ndarray, exponents: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the error of the logits, int64 in units of 2^-7, by NITI's integer softmax.

    Each term is 2^e less 1, e as in :func:`loss_sign` with ``fraction`` 0; for exponents of -7 and
    below, where e would be 0, it is 1 + x + x^2 / 2. A term's share of the sum has 11 bits, of
    which pseudo-stochastic rounding leaves 7.
    """
    rows = np.arange(len(labels))
    e = _exponents(logits, exponents, 0)
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
        seen, scales, outputs = [], [], []
        for number, layer in enumerate(self.config.layers):
            columns = first if number == 0 and first is not None else patches(layer, x)
            sums = columns @ weights[layer.name].T
            y, x, shift = self._requantized(layer, sums, kept=number >= self.config.partition)
            if number >= self.config.partition:
                seen.append(columns)
                scales.append(exponents)
                outputs.append(y)
            exponents = exponents + self.network.exponents[layer.name] + shift
        return Pass(seen, scales, outputs, x.reshape(len(x), -1).astype(np.int64), exponents)

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
                error = gathered(layer, flat.transpose(0, 2, 1) @ weights[layer.name])
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


def _relative(exponents: np.ndarray, reach: int) -> np.ndarray:
    """Return exponents relative to the first one, limited to -reach..reach, plus ``reach``."""
    return np.clip(exponents - exponents[0], -reach, reach) + reach


def _gradient(delta: np.ndarray, seen: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return the sum over samples of errors, shifted left, times patches, as int64.

    ``delta`` is (samples, outputs, positions), ``seen`` (samples, positions, fan_in). The sums stay
    below 2^53, and are exact in float64.
    """
    shifted = np.ldexp(delta.astype(np.float64), shift[:, None, None])
    rows = shifted.transpose(1, 0, 2).reshape(delta.shape[1], -1)
    return (rows @ seen.reshape(rows.shape[1], -1).astype(np.float64)).astype(np.int64)


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
