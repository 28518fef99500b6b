"""A pre-trained network on a compressed base, in the integers of the trainer of kept weights."""

from dataclasses import dataclass
from math import frexp

import numpy as np

from seedbed.flow.compress.search import search, tensor_scale
from seedbed.flow.compress.trellis import encode
from seedbed.golden import seedlm
from seedbed.golden.classifier import Mlp
from seedbed.golden.gemv import base_weights, trellis_base
from seedbed.golden.sparse_trainer import Parameters, SparseTrainer
from seedbed.spec import DenseLayer, SparseTrainerConfig

__all__ = ["Compressed", "activations", "compress", "sensitivity"]

#: Fraction bits of a pixel in 0..1, and of the unit of a packed weight.
PIXEL_BITS, SUM_BITS = 8, 23
#: Bits of headroom that an activation keeps over the largest one of the pre-training images.
HEADROOM = 1


@dataclass(frozen=True)
class Compressed:
    """A network in integers, and what it is made of."""

    layers: tuple[DenseLayer, ...]
    parameters: tuple[Parameters, ...]
    relative_error: float  #: of the packed weights

    def trainer(self, config: SparseTrainerConfig) -> SparseTrainer:
        """Return the golden model with the first values."""
        return SparseTrainer(config, self.layers, self.parameters)

    @property
    def weights(self) -> int:
        """Weights of the dense matrices."""
        return sum(layer.rows * layer.columns for layer in self.layers)


def activations(images: np.ndarray) -> np.ndarray:
    """Return images (count, side, side) in 0..1 as vectors of bytes, int64."""
    return np.clip(np.rint(images.reshape(len(images), -1) * 255), 0, 255).astype(np.int64)


def sensitivity(
    model: Mlp, theta: np.ndarray, x: np.ndarray, labels: np.ndarray
) -> list[np.ndarray]:
    """Return each layer's sum over images of the squared gradients, (outputs, inputs).

    Source: SensZOQ (arXiv:2406.02913), Definition 3.
    """
    layers = model.layers(theta)
    inputs = [x.astype(np.float64)]
    for w, b in layers[:-1]:
        inputs.append(np.maximum(inputs[-1] @ w + b, 0))
    z = inputs[-1] @ layers[-1][0] + layers[-1][1]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    delta = p / p.sum(axis=1, keepdims=True)
    delta[np.arange(len(x)), labels] -= 1
    found: list[np.ndarray] = []
    for (w, _), into in zip(reversed(layers), reversed(inputs), strict=True):
        found.insert(0, (delta**2).T @ into**2)
        delta = (delta @ w.T) * (into > 0)
    return found


def compress(
    config: SparseTrainerConfig, model: Mlp, theta: np.ndarray, x: np.ndarray, labels: np.ndarray,
    *, kept: int, unit: int, scale: int, update_shift: int,
) -> Compressed:  # fmt: skip
    """Return a network whose matrices are packed, and whose kept weights are entries.

    Parameters
    ----------
    config
        Of the core.
    model, theta
        The network in floating point.
    x, labels
        The images that it was trained on, as vectors in 0..1: they choose what is kept, and the
        ranges of activations.
    kept
        How many weights are kept, those with the largest squared gradients.
    unit
        The least bit of a value is 2^-unit.
    scale, update_shift
        Of perturbation and update, the same for all layers whose least bit this is.

    Raises ``ValueError`` if an exponent is out of the core's range.
    """
    squares = sensitivity(model, theta, x, labels)
    least = np.sort(np.concatenate([s.ravel() for s in squares]))[-kept]
    layers: list[DenseLayer] = []
    parameters: list[Parameters] = []
    errors, energy = 0.0, 0.0
    into, fraction, address = x.astype(np.float64), PIXEL_BITS, 0
    views = model.layers(theta)
    for k, ((matrix, bias), square) in enumerate(zip(views, squares, strict=True)):
        weights = np.ascontiguousarray(matrix.T, np.float64)
        packed, dense, bits = _pack(config, weights)
        errors += float(((weights - dense) ** 2).sum())
        energy += float((weights**2).sum())
        places = np.argwhere(square >= least)
        rows, columns = places.T
        # A value of a layer of small weights has a smaller least bit, if a shift is too large.
        finer = max(0, bits - unit - config.most_shift)
        half = 1 << (config.value_width - 1)
        values = np.rint((weights - dense)[rows, columns] * 2.0 ** (unit + finer))
        entries = np.column_stack([rows, columns, np.clip(values, -half, half - 1)])
        into = into @ matrix + bias
        # Fraction bits of a sum, of its bias, and of the outputs.
        sums = fraction + bits
        last = k == len(views) - 1
        into = into if last else np.maximum(into, 0)
        after = config.logits.fraction
        if not last:
            after = config.activation_width - 1 - HEADROOM - frexp(float(into.max()))[1]
        bias_shift = min(15, max(0, sums - 24))
        layer = DenseLayer(
            columns=weights.shape[1],
            rows=weights.shape[0],
            address=address,
            relu=not last,
            bias_shift=bias_shift,
            shift=sums - after,
            entries=len(entries),
            sparse_shift=bits - unit - finer,
            update_shift=update_shift + finer,
            scale=scale + finer,
        )
        biases = np.rint(bias * 2.0 ** (sums - bias_shift)).astype(np.int64)
        layers.append(layer)
        parameters.append(Parameters(packed, biases, entries.astype(np.int64)))
        address += config.layer_beats(layer)
        fraction = after
    return Compressed(tuple(layers), tuple(parameters), (errors / energy) ** 0.5)


def _pack(config: SparseTrainerConfig, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return packed rows, the weights they stand for, and fraction bits of a weight as an integer.

    The weights of SeedLM are less by the 2^-15 by which their divisor is not a power of two.
    """
    rows, columns = weights.shape
    if code := config.gemv.trellis:
        base, scale = trellis_base(code, encode(code, weights), columns)
        dense = np.ldexp(base_weights(code, base, columns), scale - 8)
        return base, dense, 8 - scale
    exponent = tensor_scale(float(np.abs(weights).max()))
    blocks = -(-columns // config.block)
    padded = np.zeros((rows, blocks * config.block))
    padded[:, :columns] = np.ldexp(weights, -exponent)
    found = search(config, padded.reshape(-1, config.block))
    dense = np.ldexp(seedlm.decode(config, *found), exponent).reshape(rows, -1)[:, :columns]
    return seedlm.pack(config, *found).reshape(rows, blocks), dense, SUM_BITS - exponent
