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
        Counts what saturates.
    """

    def __init__(
        self,
        config: LoraConfig,
        a: Sequence[np.ndarray],
        b: Sequence[np.ndarray],
        saturations: Saturations | None = None,
    ):
        self.config = config
        self.a = [_fitting("a", part, config.parameters) for part in a]
        self.b = [_fitting("b", part, config.parameters) for part in b]
        self.saturations = Saturations() if saturations is None else saturations

    @classmethod
    def random(
        cls,
        config: LoraConfig,
        rng: np.random.Generator,
        deviation: float,
        saturations: Saturations | None = None,
    ) -> "Lora":
        """Return adapters with A from N(0, deviation^2), made by the host, and B = 0."""
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
        x, base = [_fitting("x", part, form) for part in x], _fitting("base", base, form)
        fit = self.saturations.requantize
        h = [fit(matmul(part, a.T), fraction, form) for part, a in zip(x, self.a, strict=True)]
        delta = sum(matmul(part, b.T) for part, b in zip(h, self.b, strict=True))
        return h, fit((base << fraction) + delta, fraction, form)

    def update(
        self,
        x: Sequence[np.ndarray],
        h: Sequence[np.ndarray],
        dz: np.ndarray,
        rate: int,
    ) -> None:
        """Move A and B against the gradients of a batch.

        Parameters
        ----------
        x, h
            The adapters' inputs and what :meth:`forward` gave for them.
        dz
            Gradients of the logits, (samples, classes).
        rate
            M, as the configuration's ``rate`` gives it.
        """
        config = self.config
        x = [_fitting("x", part, config.values) for part in x]
        h = [_fitting("h", part, config.values) for part in h]
        dz = _fitting("dz", dz, config.gradients)
        rate = int(require_integers("rate", rate, 0, (1 << config.rate_width) - 1))
        for i, (seen, inner) in enumerate(zip(x, h, strict=True)):
            dh = self.saturations.requantize(
                matmul(dz, self.b[i]), config.parameters.fraction, config.gradients
            )
            self.b[i] = self._moved(self.b[i], self.accumulate(dz, inner), rate)
            self.a[i] = self._moved(self.a[i], self.accumulate(dh, seen), rate)

    def accumulate(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the sum over the samples of the outer products, each rounded, as they come.

        (samples, m) and (samples, n) give (m, n).
        """
        config, form = self.config, self.config.accumulators
        shift = config.gradients.fraction + config.values.fraction - form.fraction
        products = rounded(left[:, :, None] * right[:, None, :], shift)
        if np.abs(products).sum(axis=0).max(initial=0) <= form.high:
            return products.sum(axis=0)
        total = np.zeros(products.shape[1:], np.int64)
        for product in products:
            total = self.saturations.fit(total + product, form)
        return total

    def _moved(self, parameters: np.ndarray, gradient: np.ndarray, rate: int) -> np.ndarray:
        config = self.config
        shift = config.rate_fraction + config.accumulators.fraction - config.parameters.fraction
        return self.saturations.fit(parameters - rounded(rate * gradient, shift), config.parameters)


def _fitting(name: str, numbers: np.ndarray, form: Fixed) -> np.ndarray:
    return require_integers(name, numbers, form.low, form.high)
