"""Golden model of the backpropagation of a network's last one or two dense layers in int8."""

from collections.abc import Sequence

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.elasticzo_loss import loss_gradient
from seedbed.golden.exact import whole_product
from seedbed.golden.niti import bit_width, pseudo_stochastic, round_nearest
from seedbed.spec.bp_tail import ERROR_SHIFT, EXPONENT_BITS, BpTailConfig
from seedbed.spec.elasticzo import LIMIT

__all__ = ["BpTail", "pairs"]


class BpTail:
    """Sums gradients over a batch, and gives the updates.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.bp_tail.BpTailConfig`.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        self._weights = np.zeros((config.classes, config.inputs[-1]), np.int64)
        self._clear()

    def _clear(self) -> None:
        shapes = zip(self.config.outputs, self.config.inputs, strict=True)
        self.gradients = [np.zeros(shape, np.int64) for shape in shapes]
        self._first: np.ndarray | None = None
        self._samples = 0

    def load(self, weights: np.ndarray) -> None:
        """Set the last layer's weights (classes, inputs), which the inner error needs."""
        self._weights = require_integers("weights", weights, -LIMIT - 1, LIMIT)

    def sample(
        self,
        vectors: Sequence[np.ndarray],
        exponents: Sequence[int],
        logits: np.ndarray,
        exponent: int,
        label: int,
    ) -> bool:
        """Add a sample's gradients; return whether it was taken.

        A sample is ignored if its label is no class, or the batch is full.

        Parameters
        ----------
        vectors, exponents
            The inputs of each layer, int8 numbers, and their exponents.
        logits, exponent
            int8 numbers, one a class, and their exponent.
        label
            The sample's class.
        """
        config, span = self.config, 1 << EXPONENT_BITS - 1
        vectors = [require_integers("vectors", each, -LIMIT - 1, LIMIT) for each in vectors]
        scales = require_integers("exponents", exponents, -span, span - 1)
        logits = require_integers("logits", logits, -LIMIT - 1, LIMIT)
        if not 0 <= label < config.classes or self._samples == config.batch:
            return False
        self._samples += 1
        first = self._first = scales if self._first is None else self._first
        reach = config.exponent_range
        error = loss_gradient(logits[None], np.array([exponent]), np.array([label]))[0]
        for k in reversed(range(len(vectors))):
            x = vectors[k]
            shift = np.clip(scales[k] - first[k], -reach, reach) + reach
            self.gradients[k] += np.outer(error << shift, x)
            if k:
                sums = whole_product(error, self._weights)
                error = (round_nearest(sums, ERROR_SHIFT) * (x > 0)).astype(np.int64)
        return True

    def update(self, bits: int) -> list[np.ndarray]:
        """Return each layer's update, int64 (outputs, inputs), and begin the next batch.

        The magnitude of an update has ``bits`` bits: 1..7, or 0 to discard the gradients.
        """
        updates = []
        for gradient in self.gradients:
            shift = max(int(bit_width(np.abs(gradient).max())) - bits, 0)
            updates.append(pseudo_stochastic(gradient, np.int64(shift), limit=(1 << bits) - 1))
        self._clear()
        return updates


def pairs(config: BpTailConfig, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Return matrices (outputs, inputs) as the rows of the parameter memory have them, in pairs.

    Groups of ``ways`` outputs; for each, rows of ``row_lanes`` inputs; a row is way by way. What a
    row has more is 0.
    """
    found = []
    for matrix in matrices:
        outputs, inputs = matrix.shape
        groups, rows = -(-outputs // config.ways), -(-inputs // config.row_lanes)
        padded = np.zeros((groups * config.ways, rows * config.row_lanes), np.int64)
        padded[:outputs, :inputs] = matrix
        shaped = padded.reshape(groups, config.ways, rows, config.row_lanes)
        found.append(shaped.transpose(0, 2, 1, 3).reshape(-1, 2))
    return np.concatenate(found)
