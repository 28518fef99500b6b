"""Six ways to fine-tune a network, in floating point: their gradients, and SGD.

Source: InstantFT, sections 2 and 3.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from seedbed.golden.network import Parameters, gathered, linear, slope, tiled, unpooled
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.studies.finetune_methods import METHODS, Method, adapter, selected

__all__ = ["begin", "frozen", "gradients", "logits", "predict", "train"]


def begin(
    config: NetworkConfig,
    method: Method,
    parameters: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    *,
    rank: int = 4,
    deviation: float = 0.05,
) -> Parameters:
    """Return the network's parameters and, ``NAME.a`` and ``NAME.b``, those of its adapters.

    a is (rank, inputs) from N(0, deviation^2), b is (outputs, rank) and 0.
    """
    found = dict(parameters)
    for layer in selected(config, method.adapters):
        inputs, outputs = adapter(config, method, layer)
        kind = parameters[f"{layer.name}.weight"].dtype
        found[f"{layer.name}.a"] = rng.normal(0, deviation, (rank, inputs)).astype(kind)
        found[f"{layer.name}.b"] = np.zeros((outputs, rank), kind)
    return found


@dataclass(frozen=True)
class Step:
    """A layer of a forward pass: input, patches, output after ReLU, and its adapter's h."""

    layer: Layer
    x: np.ndarray
    seen: np.ndarray
    y: np.ndarray
    h: np.ndarray | None


def _forward(
    config: NetworkConfig, method: Method, parameters: Mapping[str, np.ndarray], x: np.ndarray
) -> tuple[list[Step], np.ndarray]:
    """Return the layers' steps and the last one's outputs, without adapters that skip."""
    parallel = method.adapters != "skip"
    steps = []
    for layer in config.layers:
        seen, y = linear(layer, parameters, x)
        h = None
        if parallel and f"{layer.name}.a" in parameters:
            h = x.reshape(len(x), -1) @ parameters[f"{layer.name}.a"].T
            y = y + (h @ parameters[f"{layer.name}.b"].T).reshape(y.shape)
        if layer.relu:
            y = np.maximum(y, 0)
        steps.append(Step(layer, x, seen, y, h))
        x = tiled(layer, y).max(axis=-1) if layer.pool > 1 else y
    return steps, x.reshape(len(x), -1)


def frozen(
    config: NetworkConfig, parameters: Mapping[str, np.ndarray], x: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return each layer's input, flat, and the logits: what adapters that skip need of images."""
    steps, z = _forward(config, METHODS["InstantFT"], parameters, x)
    return [step.x.reshape(len(x), -1) for step in steps], z


def _skipped(
    config: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    seen: tuple[list[np.ndarray], np.ndarray],
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the h of adapters that skip, and the logits with what they add."""
    inputs, z = seen
    names = [layer.name for layer in config.layers]
    h = [x @ parameters[f"{name}.a"].T for name, x in zip(names, inputs, strict=True)]
    for name, part in zip(names, h, strict=True):
        z = z + part @ parameters[f"{name}.b"].T
    return h, z


def logits(
    config: NetworkConfig, method: Method, parameters: Mapping[str, np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Return the logits, (samples, classes), of images (samples, C, H, W)."""
    if method.adapters == "skip":
        return _skipped(config, parameters, frozen(config, parameters, x))[1]
    return _forward(config, method, parameters, x)[1]


def predict(
    config: NetworkConfig, method: Method, parameters: Mapping[str, np.ndarray], x: np.ndarray
) -> np.ndarray:
    """Return the class of each image, that of the largest logit."""
    parts = [x[start : start + 256] for start in range(0, len(x), 256)]
    found = [logits(config, method, parameters, part).argmax(axis=1) for part in parts]
    return np.concatenate(found)


def skip_gradients(
    config: NetworkConfig,
    parameters: Mapping[str, np.ndarray],
    seen: tuple[list[np.ndarray], np.ndarray],
    labels: np.ndarray,
) -> Parameters:
    """Return the gradients of adapters that skip, from what :func:`frozen` gave; Eq. 3."""
    h, z = _skipped(config, parameters, seen)
    dz = slope(z, labels)
    found: Parameters = {}
    for layer, x, inner in zip(config.layers, seen[0], h, strict=True):
        found[f"{layer.name}.b"] = dz.T @ inner
        found[f"{layer.name}.a"] = (dz @ parameters[f"{layer.name}.b"]).T @ x
    return found


def gradients(
    config: NetworkConfig,
    method: Method,
    parameters: Mapping[str, np.ndarray],
    x: np.ndarray,
    labels: np.ndarray,
) -> Parameters:
    """Return the gradients of the sum of losses for what the method trains, and compute no others.

    They come under the parameters' names, as :func:`begin` gives them.
    """
    if method.adapters == "skip":
        return skip_gradients(config, parameters, frozen(config, parameters, x), labels)
    steps, z = _forward(config, method, parameters, x)
    delta = slope(z, labels)
    weights, biases = selected(config, method.weights), selected(config, method.biases)
    found: Parameters = {}
    for step in reversed(steps):
        layer, name, n = step.layer, step.layer.name, len(x)
        delta = unpooled(layer, step.y, delta)
        if layer.relu:
            delta = delta.reshape(step.y.shape) * (step.y > 0)
        flat = delta.reshape(n, layer.outputs, -1)
        if layer in weights:
            rows = flat.transpose(1, 0, 2).reshape(layer.outputs, -1)
            found[f"{name}.weight"] = rows @ step.seen.reshape(-1, layer.fan_in)
        if layer.bias and layer in biases:
            found[f"{name}.bias"] = flat.sum(axis=(0, 2))
        dh = None
        if step.h is not None:
            dh = delta.reshape(n, -1) @ parameters[f"{name}.b"]
            found[f"{name}.b"] = delta.reshape(n, -1).T @ step.h
            found[f"{name}.a"] = dh.T @ step.x.reshape(n, -1)
        if not method.deep or layer is config.layers[0]:
            break
        delta = gathered(layer, flat.transpose(0, 2, 1) @ parameters[f"{name}.weight"])
        if dh is not None:
            delta = delta + (dh @ parameters[f"{name}.a"]).reshape(delta.shape)
    return found


def train(
    config: NetworkConfig,
    method: Method,
    parameters: Mapping[str, np.ndarray],
    x: np.ndarray,
    labels: np.ndarray,
    order: Iterable[np.ndarray],
    *,
    rate: float,
    cache: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Parameters:
    """Return the parameters after SGD: each batch subtracts ``rate`` times its gradient.

    Parameters
    ----------
    parameters
        As :func:`begin` gives them.
    x, labels
        All images, (samples, C, H, W).
    order
        The samples of each batch.
    rate
        Learning rate by the batch's size.
    cache
        Run the frozen network once an image, and train on what this function makes of the layers'
        outputs and the logits, (samples, width) each; only for adapters that skip.
    """
    theta = dict(parameters)
    kept = None
    if cache is not None:
        (image, *inputs), z = frozen(config, theta, x)
        kept = [image, *map(cache, inputs)], cache(z)
    for which in order:
        if kept is None:
            slopes = gradients(config, method, theta, x[which], labels[which])
        else:
            seen = [part[which] for part in kept[0]], kept[1][which]
            slopes = skip_gradients(config, theta, seen, labels[which])
        for name, change in slopes.items():
            theta[name] = theta[name] - rate * change
    return theta
