"""Networks of :mod:`seedbed.spec.network` in floating point: forward, backward, Adam.

Training float32 parameters gives the same ones on any machine: sums are exact, see
:mod:`seedbed.golden.exact`, and exponentials are rounded from float64.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from seedbed.golden.exact import product
from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["accuracy", "adam", "gradients", "init", "logits", "loss"]

#: Parameters by name: ``NAME.weight`` of shape (outputs, fan_in), ``NAME.bias`` of (outputs,).
Parameters = dict[str, np.ndarray]
#: How matrices are multiplied.
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def init(config: NetworkConfig, rng: np.random.Generator) -> Parameters:
    """Return random parameters, float32: weights N(0, 2 / fan_in), biases 0 (He et al., 2015)."""
    found: Parameters = {}
    for layer in config.layers:
        weights = rng.normal(0, (2 / layer.fan_in) ** 0.5, (layer.outputs, layer.fan_in))
        found[f"{layer.name}.weight"] = weights.astype(np.float32)
        if layer.bias:
            found[f"{layer.name}.bias"] = np.zeros(layer.outputs, np.float32)
    return found


def patches(layer: Layer, x: np.ndarray) -> np.ndarray:
    """Return what each output sees, shape (images, positions, fan_in): a row of the weights."""
    if layer.kind == "dense":
        return x.reshape(len(x), 1, layer.fan_in)
    side, pad = layer.kernel, layer.padding
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(padded, (side, side), axis=(2, 3))
    _, rows, columns = layer.convolved
    windows = windows[:, :, :: layer.stride, :: layer.stride][:, :, :rows, :columns]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(len(x), -1, layer.fan_in)


def tiled(layer: Layer, y: np.ndarray) -> np.ndarray:
    """Return the squares that a maximum is taken over: (images, channels, rows, columns, area)."""
    n, (channels, height, width), side = len(y), layer.convolved, layer.pool
    split = y.reshape(n, channels, height // side, side, width // side, side)
    return split.transpose(0, 1, 2, 4, 3, 5).reshape(*split.shape[:3], width // side, side**2)


def untiled(layer: Layer, tiles: np.ndarray) -> np.ndarray:
    """Return the outputs before pooling whose squares are ``tiles``."""
    n, channels, rows, columns, _ = tiles.shape
    split = tiles.reshape(n, channels, rows, columns, layer.pool, layer.pool)
    return split.transpose(0, 1, 2, 4, 3, 5).reshape(n, *layer.convolved)


def linear(
    layer: Layer, parameters: Mapping[str, np.ndarray], x: np.ndarray, times: Product = np.matmul
) -> tuple[np.ndarray, np.ndarray]:
    """Return the layer's patches, and its outputs before ReLU and pooling."""
    seen = patches(layer, x)
    y = times(seen, parameters[f"{layer.name}.weight"].T)
    if layer.bias:
        y = y + parameters[f"{layer.name}.bias"]
    return seen, y.transpose(0, 2, 1).reshape(len(x), *layer.convolved)


def unpooled(layer: Layer, y: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the gradient of ``y``, before pooling: all of it goes to a square's first maximum."""
    if layer.pool == 1:
        return delta
    tiles = tiled(layer, y)
    first = tiles.argmax(axis=-1)[..., None] == np.arange(layer.pool**2)
    return untiled(layer, first * delta.reshape(tiles.shape[:-1])[..., None])


def slope(z: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the gradient of the sum of losses by the logits: softmax, less 1 at the label."""
    p = np.exp((z - z.max(axis=1, keepdims=True)).astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(z)), labels] -= 1
    return p.astype(z.dtype)


def forward(
    config: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    x: np.ndarray,
    times: Product = np.matmul,
) -> Iterator[tuple[Layer, np.ndarray, np.ndarray]]:
    """Yield layer by layer: the layer, its patches, and its outputs after ReLU, before pooling."""
    for layer in config.layers:
        seen, y = linear(layer, parameters, x, times)
        if layer.relu:
            y = np.maximum(y, 0)
        yield layer, seen, y
        x = tiled(layer, y).max(axis=-1)


def logits(
    config: NetworkConfig, parameters: Mapping[str, np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Return the last layer's outputs, shape (images, classes), for x of (images, C, H, W)."""
    *_, (_, _, y) = forward(config, parameters, x)
    return y.reshape(len(x), -1)


def loss(z: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of logits ``z``."""
    z = z - z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), labels]).mean())


def accuracy(
    config: NetworkConfig, parameters: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray
) -> float:
    """Return the share of images, 0..1, whose largest output is their label's."""
    right = 0
    for start in range(0, len(x), 1000):
        part = slice(start, start + 1000)
        right += int((logits(config, parameters, x[part]).argmax(axis=1) == labels[part]).sum())
    return right / len(x)


def gradients(
    config: NetworkConfig, parameters: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray
) -> Parameters:
    """Return the gradients of the loss by backpropagation, under the parameters' names."""
    return backward(config, parameters, list(forward(config, parameters, x, product)), labels)


def backward(
    config: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    steps: list[tuple[Layer, np.ndarray, np.ndarray]],
    labels: np.ndarray,
    first: int = 0,
) -> Parameters:
    """Return the gradients of layers from ``first`` on; ``steps`` are those of :func:`forward`."""
    n = len(labels)
    z = steps[-1][2].reshape(n, -1)
    delta = (slope(z, labels) / n).reshape(n, *config.layers[-1].shape)
    found: Parameters = {}
    for layer, seen, y in reversed(steps[first:]):
        delta = unpooled(layer, y, delta).reshape(y.shape)
        if layer.relu:
            delta = delta * (y > 0)
        flat = delta.reshape(n, layer.outputs, -1)
        rows = flat.transpose(1, 0, 2).reshape(layer.outputs, -1)
        found[f"{layer.name}.weight"] = product(rows, seen.reshape(-1, layer.fan_in))
        if layer.bias:
            found[f"{layer.name}.bias"] = rows.sum(axis=1)
        if layer is not config.layers[first]:
            spread = product(flat.transpose(0, 2, 1), parameters[f"{layer.name}.weight"])
            delta = gathered(layer, spread)
    return found


def gathered(layer: Layer, spread: np.ndarray) -> np.ndarray:
    """Return the gradient of the layer's input from that of its patches."""
    if layer.kind == "dense":
        return spread.reshape(len(spread), *layer.inputs)
    (channels, height, width), side, pad = layer.inputs, layer.kernel, layer.padding
    (_, rows, columns), step = layer.convolved, layer.stride
    parts = spread.reshape(len(spread), rows, columns, channels, side, side)
    padded = np.zeros((len(spread), channels, height + 2 * pad, width + 2 * pad), spread.dtype)
    for i in range(side):
        for j in range(side):
            places = padded[:, :, i : i + step * rows : step, j : j + step * columns : step]
            places += parts[..., i, j].transpose(0, 3, 1, 2)
    return padded[:, :, pad : pad + height, pad : pad + width]


def adam(
    config: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    batches: Iterator[tuple[np.ndarray, np.ndarray]],
    *,
    rate: float,
) -> Iterator[Parameters]:
    """Yield the parameters after each batch, by Adam with its default constants.

    Source: Kingma and Ba, "Adam" (ICLR 2015), Algorithm 1.
    """
    theta = dict(parameters)
    mean = {name: np.zeros_like(value) for name, value in theta.items()}
    square = {name: np.zeros_like(value) for name, value in theta.items()}
    for t, (x, labels) in enumerate(batches, start=1):
        for name, g in gradients(config, theta, x, labels).items():
            mean[name] += 0.1 * (g - mean[name])
            square[name] += 0.001 * (g * g - square[name])
            root = np.sqrt(square[name] / (1 - 0.999**t)) + 1e-8
            theta[name] = theta[name] - (rate / (1 - 0.9**t) * mean[name] / root).astype(np.float32)
        yield theta
