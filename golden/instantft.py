"""Golden model of the fine-tuning core: frozen network, cache, adapters and loss, in integers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from seedbed.golden.conv_engine import frozen, whole
from seedbed.golden.fixed import Saturations, to_fixed
from seedbed.golden.lora import Lora
from seedbed.golden.nf4 import Nf4
from seedbed.golden.softmax_loss import SoftmaxLoss, SoftmaxLossResult
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["InstantFt", "Seen", "batches", "quantised"]

#: Images that the frozen network takes at a time, which bounds the memory.
PART = 128


def batches(count: int, batch: int, epochs: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the samples of every batch: each epoch has all ``count`` of them in a new order."""
    for _ in range(epochs):
        order = rng.permutation(count)
        for start in range(0, count, batch):
            yield order[start : start + batch]


def quantised(
    config: InstantFtConfig, parameters: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return a network's real parameters in the weights' format, int64."""
    return {name: to_fixed(value, config.weights) for name, value in parameters.items()}


@dataclass(frozen=True)
class Seen:
    """What the frozen network makes of images: each adapter's input (samples, width), and logits.

    Integers of the values' format.
    """

    inputs: list[np.ndarray]
    logits: np.ndarray

    def __getitem__(self, which: np.ndarray | slice) -> "Seen":
        return Seen([part[which] for part in self.inputs], self.logits[which])


class InstantFt:
    """The whole core.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.
    weights
        The frozen network's parameters, integers of the weights' format.
    rng
        Draws the adapters' A.
    deviation
        Standard deviation of A.
    """

    def __init__(
        self,
        config: InstantFtConfig,
        weights: Mapping[str, np.ndarray],
        rng: np.random.Generator,
        deviation: float,
    ):
        self.config = config
        self.weights = whole(weights, config.weights)
        self.saturations = Saturations()
        self.lora = Lora.random(config.lora, rng, deviation, self.saturations)
        self._softmax_loss = SoftmaxLoss(config.softmax_loss, self.saturations)
        self._nf4 = Nf4(config.nf4)

    def base(self, images: np.ndarray) -> Seen:
        """Run the frozen network on images of bytes, uint8 of shape (samples, C, H, W).

        One channel may be left out. Raises ``ValueError`` for another type or size.
        """
        wanted = self.config.network.layers[0].inputs
        channels, *sides = wanted
        shapes = (wanted, tuple(sides)) if channels == 1 else (wanted,)
        if images.dtype != np.uint8 or images.shape[1:] not in shapes or not len(images):
            raise ValueError(
                f"images must be uint8 of shape (samples, {', '.join(map(str, wanted))}), at least "
                f"one, not {images.dtype} of {images.shape}"
            )
        parts = [self._base(images[i : i + PART]) for i in range(0, len(images), PART)]
        inputs = [np.concatenate(each) for each in zip(*(p.inputs for p in parts), strict=True)]
        return Seen(inputs, np.concatenate([part.logits for part in parts]))

    def _base(self, images: np.ndarray) -> Seen:
        config = self.config
        pixels = np.array([config.pixel(byte) for byte in range(256)], np.int64)
        x = pixels[images].reshape(len(images), *config.network.layers[0].inputs)
        *inputs, logits = frozen(
            config.network,
            self.weights,
            x,
            values=config.values,
            weights=config.weights,
            saturations=self.saturations,
        )
        return Seen(inputs, logits)

    def cached(self, seen: Seen) -> Seen:
        """Return what the cache gives back: all but the images, quantised and dequantised."""
        if self.config.cache == "exact":
            return seen
        image, *inputs = seen.inputs
        through = self._nf4.through
        return Seen([image, *(through(part) for part in inputs)], through(seen.logits))

    def score(self, seen: Seen, labels: np.ndarray) -> tuple[list[np.ndarray], SoftmaxLossResult]:
        """Return every adapter's h, and classes, losses and gradients of each sample."""
        h, logits = self.lora.forward(seen.inputs, seen.logits)
        return h, self._softmax_loss.run(logits, labels)

    def steps(
        self, seen: Seen, labels: np.ndarray, order: Iterable[np.ndarray], eta: float
    ) -> Iterator[SoftmaxLossResult]:
        """Train the adapters batch by batch; yield each batch's classes, losses and gradients.

        Parameters
        ----------
        seen
            What the cache gives back for all samples.
        labels
            Of all samples.
        order
            The samples of each batch, as :func:`batches` gives them.
        eta
            Learning rate, for the mean gradient over a whole batch.
        """
        rate = self.config.lora.rate(eta / self.config.batch)
        for which in order:
            part = seen[which]
            h, result = self.score(part, labels[which])
            self.lora.update(part.inputs, h, result.gradients, rate)
            yield result

    def train(
        self, seen: Seen, labels: np.ndarray, order: Iterable[np.ndarray], eta: float
    ) -> np.ndarray:
        """Train as :meth:`steps`; return each batch's sum of losses, int64."""
        steps = self.steps(seen, labels, order, eta)
        return np.array([int(result.losses.sum()) for result in steps])

    def predict(self, seen: Seen) -> np.ndarray:
        """Return the class of each sample."""
        _, logits = self.lora.forward(seen.inputs, seen.logits)
        return logits.argmax(axis=1)
