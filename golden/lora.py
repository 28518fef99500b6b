"""Golden model of low-rank adapters into the last layer, and their training."""

from collections.abc import Sequence

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import Saturations, matmul, rounded, to_fixed
from seedbed.spec.fixed import Fixed
from seedbed.spec.lora import LoraConfig

__all__ = ["Lora"]


class Lora:
    """Adapters, trained in integers.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.lora.LoraConfig`.
    a, b
        Integers of the parameters' format: for each adapter (rank, width) and (classes, rank).
    saturations
        Counter of saturated numbers.
    """

    def __init__(
        self,
        config: LoraConfig,
        a: Sequence[np.ndarray],
        b: Sequence[np.ndarray],
        saturations: Saturations | None = None,
    ):
        self.config = config
        self.a = [_checked("a", part, config.parameters) for part in a]
        self.b = [_checked("b", part, config.parameters) for part in b]
        self.saturations = Saturations() if saturations is None else saturations

    @classmethod
    def random(
        cls,
        config: LoraConfig,
        rng: np.random.Generator,
        deviation: float,
        saturations: Saturations | None = None,
    ) -> "Lora":
        """Return adapters with A from N(0, deviation^2), computed by the host, and B = 0."""
        a = [
            to_fixed(rng.normal(0, deviation, (config.rank, width)), config.parameters)
            for width in config.widths
        ]
        b = [np.zeros((config.classes, config.rank), np.int64) for _ in config.widths]
        return cls(config, a, b, saturations)

    def forward(
        self, x: Sequence[np.ndarray], base: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Return every adapter's h, (samples, rank), and the logits, (samples, classes).

        Parameters
        ----------
        x
            Each adapter's input, (samples, width), in the values' format.
        base
            Logits of the frozen network.
        """
        fraction, form = self.config.parameters.fraction, self.config.values
        x, base = [_checked("x", part, form) for part in x], _checked("base", base, form)
        requantize = self.saturations.requantize
        h = [
            requantize(matmul(part, a.T), fraction, form) for part, a in zip(x, self.a, strict=True)
        ]
        delta = sum(matmul(part, b.T) for part, b in zip(h, self.b, strict=True))
        return h, requantize((base << fraction) + delta, fraction, form)

    def update(
        self,
        x: Sequence[np.ndarray],
        h: Sequence[np.ndarray],
        dz: np.ndarray,
        rate: int,
    ) -> None:
        """Update A and B by gradient descent with the gradients of a batch.

        Parameters
        ----------
        x, h
            The adapters' inputs and hidden values, from :meth:`forward`.
        dz
            Gradients of the logits, (samples, classes).
        rate
            M, see :meth:`LoraConfig.rate`.
        """
        config = self.config
        x = [_checked("x", part, config.values) for part in x]
        h = [_checked("h", part, config.values) for part in h]
        dz = _checked("dz", dz, config.gradients)
        rate = int(require_integers("rate", rate, 0, (1 << config.rate_width) - 1))
        for i, (seen, inner) in enumerate(zip(x, h, strict=True)):
            dh = self.saturations.requantize(
                matmul(dz, self.b[i]), config.parameters.fraction, config.gradients
            )
            self.b[i] = self._updated(self.b[i], self.accumulate(dz, inner), rate)
            self.a[i] = self._updated(self.a[i], self.accumulate(dh, seen), rate)

    def accumulate(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the sum over the samples of the outer products, each rounded, in order.

        (samples, m) and (samples, n) give (m, n).
        """
        config, form = self.config, self.config.accumulators
        shift = config.gradients.fraction + config.values.fraction - form.fraction
        products = rounded(left[:, :, None] * right[:, None, :], shift)
        if np.abs(products).sum(axis=0).max(initial=0) <= form.high:
            return products.sum(axis=0)
        total = np.zeros(products.shape[1:], np.int64)
        for product in products:
            total = self.saturations.saturate(total + product, form)
        return total

    def _updated(self, parameters: np.ndarray, gradient: np.ndarray, rate: int) -> np.ndarray:
        config = self.config
        shift = config.rate_fraction + config.accumulators.fraction - config.parameters.fraction
        updated = parameters - rounded(rate * gradient, shift)
        return self.saturations.saturate(updated, config.parameters)


def _checked(name: str, numbers: np.ndarray, form: Fixed) -> np.ndarray:
    return require_integers(name, numbers, form.low, form.high)
