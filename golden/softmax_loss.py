"""Golden model of softmax with cross-entropy in fixed point."""

from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import Saturations
from seedbed.spec.softmax_loss import SoftmaxLossConfig

__all__ = ["SoftmaxLoss", "SoftmaxLossResult"]


#: Less than every logit, by more than the range of any format.
FAR = -(1 << 50)


@dataclass(frozen=True)
class SoftmaxLossResult:
    """Per sample: class, probabilities and gradients (samples, classes), and loss."""

    classes: np.ndarray
    probabilities: np.ndarray
    gradients: np.ndarray
    losses: np.ndarray


class SoftmaxLoss:
    """Class, probabilities, loss and gradient, in integers.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.softmax_loss.SoftmaxLossConfig`.
    saturations
        Counter of saturated losses and gradients.
    """

    def __init__(self, config: SoftmaxLossConfig, saturations: Saturations | None = None):
        self.config = config
        self.saturations = Saturations() if saturations is None else saturations
        self._exps, self._reciprocals, self._logs = (
            np.array(table, np.int64) for table in (config.exps, config.reciprocals, config.logs)
        )
        self._floors = np.array(list(config.floors.values()), np.int64)
        self._least = min(config.floors)

    def run(
        self, logits: np.ndarray, labels: np.ndarray, present: np.ndarray | None = None
    ) -> SoftmaxLossResult:
        """Return everything for logits (samples, classes) and labels (samples,), all int64.

        ``present``, of the logits' shape, flags the logits that exist; by default all do. A missing
        logit counts as minus infinity.
        """
        config, bits = self.config, self.config.probability_bits
        logits = require_integers("logits", logits, config.logits.low, config.logits.high)
        labels = require_integers("labels", labels, 0, config.classes - 1)
        if present is not None:
            logits = np.where(present, logits, FAR)
        differences = logits.max(axis=1, keepdims=True) - logits
        cut = config.logits.fraction - config.exp_fraction
        index = differences + (1 << cut >> 1) >> cut
        inside = index < len(self._exps)
        exps = np.where(inside, self._exps[np.minimum(index, len(self._exps) - 1)], 0)
        total = exps.sum(axis=1)
        powers = np.full(len(total), self._least)
        for n in list(config.floors)[1:]:
            powers += total >= 1 << n
        # The powers[k] bits after the leading one.
        shown = (total << config.index_bits >> powers) - (1 << config.index_bits)
        scaled = exps * self._reciprocals[shown][:, None] >> powers[:, None]
        probabilities = np.minimum(scaled, (1 << bits) - 1)
        hit = np.arange(config.classes) == labels[:, None]
        gradients = self.saturations.requantize(
            probabilities - (hit.astype(np.int64) << bits),
            bits - config.gradients.fraction,
            config.gradients,
        )
        losses = self._logs[shown] + self._floors[powers - self._least] + differences[hit]
        losses = self.saturations.saturate(np.maximum(losses, 0), config.logits)
        return SoftmaxLossResult(logits.argmax(axis=1), probabilities, gradients, losses)
