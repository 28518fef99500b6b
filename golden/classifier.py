"""A small multi-layer perceptron over one flat parameter vector.

Zeroth-order optimization treats a network as one vector theta of d numbers and a loss; so does this
module. Backpropagation is only for pre-training, and for the papers' reference results.
"""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.exact import product
from seedbed.golden.network import slope

__all__ = ["Mlp", "adam"]


@dataclass(frozen=True)
class Mlp:
    """Fully connected layers of ``sizes``, ReLU between them, cross-entropy at the end.

    Parameters
    ----------
    sizes
        Inputs, hidden units, .., classes; (64, 32, 10) has d = 64 x 32 + 32 + 32 x 10 + 10 = 2410.

    theta is stored layer by layer: the weights row by row (one row per input), then the biases.
    Axes before its last one are separate networks, evaluated on the same images. Arithmetic has the
    type of the images, so that float32 images give float32 passes.
    """

    sizes: tuple[int, ...]

    @property
    def d(self) -> int:
        """Number of parameters."""
        return sum((m + 1) * n for m, n in zip(self.sizes, self.sizes[1:], strict=False))

    def layers(self, theta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return views of ``theta``: for every layer its weights (.., inputs, units) and biases."""
        views, start = [], 0
        for m, n in zip(self.sizes, self.sizes[1:], strict=False):
            middle, stop = start + m * n, start + (m + 1) * n
            weights = theta[..., start:middle].reshape(*theta.shape[:-1], m, n)
            views.append((weights, theta[..., middle:stop]))
            start = stop
        return views

    def init(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random theta, float64: weights N(0, 2 / inputs), biases 0 (He et al., 2015)."""
        theta = np.zeros(self.d)
        for weights, _ in self.layers(theta):
            weights[:] = rng.normal(0, (2 / len(weights)) ** 0.5, weights.shape)
        return theta

    def logits(self, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the last layer's outputs, shape (.., images, classes)."""
        *hidden, (weights, biases) = self.layers(theta.astype(x.dtype, copy=False))
        for w, b in hidden:
            x = x @ w
            x += b[..., None, :]
            np.maximum(x, 0, out=x)
        return x @ weights + biases[..., None, :]

    def loss(self, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the mean cross-entropy over the images, one per network."""
        z = self.logits(theta, x)
        z -= z.max(axis=-1, keepdims=True)
        picked = z[..., np.arange(len(x)), labels]
        return (np.log(np.exp(z).sum(axis=-1)) - picked).mean(axis=-1)

    def accuracy(self, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> float:
        """Return the fraction of images, 0..1, whose largest output is their label's."""
        return float((self.logits(theta, x).argmax(axis=1) == labels).mean())

    def gradient(self, theta: np.ndarray, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the gradient of the loss by backpropagation, in the order of ``theta``, float64.

        For float32 images it is the same on every machine: see :mod:`seedbed.golden.exact`.
        """
        layers = self.layers(theta.astype(x.dtype, copy=False))
        inputs = [x]
        for w, b in layers[:-1]:
            inputs.append(np.maximum(product(inputs[-1], w) + b, 0))
        z = product(inputs[-1], layers[-1][0]) + layers[-1][1]
        delta = slope(z, labels) / len(z)
        gradient = np.empty(self.d)
        for (weights, biases), (w, _), into in zip(
            reversed(self.layers(gradient)), reversed(layers), reversed(inputs), strict=True
        ):
            weights[:], biases[:] = product(into.T, delta), delta.sum(axis=0)
            delta = product(delta, w.T) * (into > 0)
        return gradient


def adam(
    model: Mlp,
    theta: np.ndarray,
    x: np.ndarray,
    labels: np.ndarray,
    *,
    steps: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return theta after ``steps`` of Adam by backpropagation on random batches.

    Source: Kingma and Ba, "Adam" (ICLR 2015), Algorithm 1 with its default constants.
    """
    theta, mean, square = theta.copy(), np.zeros(model.d), np.zeros(model.d)
    for t in range(1, steps + 1):
        chosen = rng.integers(len(x), size=batch)
        g = model.gradient(theta, x[chosen], labels[chosen])
        mean += 0.1 * (g - mean)
        square += 0.001 * (g * g - square)
        theta -= rate * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    return theta
