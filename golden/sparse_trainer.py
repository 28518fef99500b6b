"""Golden model of the core that tunes the kept weights of a compressed network."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import rounded
from seedbed.golden.gemv import Gemv, base_weights
from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.golden.sparse_mac import SparseMac
from seedbed.spec.sparse_trainer import (
    BIAS_BITS,
    RATE_BITS,
    RATE_SHIFT_BITS,
    DenseLayer,
    SparseTrainerConfig,
    require_layers,
)

__all__ = ["LogEntry", "Parameters", "SparseTrainer"]

SEEDS = 1 << 32


@dataclass(frozen=True)
class Parameters:
    """What a layer has besides its row of the table.

    ``base``: packed blocks (rows, blocks per row), rows of a trellis code, uint8 (rows, bytes), or
    plain weights (rows, columns); ``biases`` (rows,); ``entries`` (count, 3): a row, a column and a
    value each, sorted.
    """

    base: np.ndarray
    biases: np.ndarray
    entries: np.ndarray


@dataclass(frozen=True)
class LogEntry:
    """A step: with it, the first values can be trained again elsewhere."""

    seed: int
    gain: int


class SparseTrainer:
    """The whole core; its state are the values of the entries.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.
    layers
        The table of layers.
    parameters
        Of each layer.

    Raises ``ValueError`` for a network that does not fit, and for entries that are not sorted, not
    unique or not in their layer.
    """

    def __init__(
        self,
        config: SparseTrainerConfig,
        layers: Sequence[DenseLayer],
        parameters: Sequence[Parameters],
    ):
        require_layers(config, layers)
        self.config, self.layers = config, tuple(layers)
        self.parameters = list(parameters)
        self._gemv, self._sparse = Gemv(config.gemv), SparseMac(config.sparse)
        self._loss = SoftmaxLoss(config.loss)
        self.values: list[np.ndarray] = []
        self._dense: list[np.ndarray] = []
        self._biases: list[np.ndarray] = []
        for k, (layer, given) in enumerate(zip(layers, parameters, strict=True)):
            entries = given.entries.reshape(-1, 3)
            if len(entries) != layer.entries:
                raise ValueError(f"layer {k} must have {layer.entries} entries, not {len(entries)}")
            n, status = self._sparse.first_error(entries, rows=layer.rows, columns=layer.columns)
            if status != "ok":
                raise ValueError(
                    f"entry {n} of layer {k} must be after the one before and in the layer: "
                    f"{status}"
                )
            half = 1 << (BIAS_BITS - 1)
            biases = require_integers("biases", given.biases, -half, half - 1)
            if biases.shape != (layer.rows,):
                raise ValueError(f"layer {k} must have {layer.rows} biases, not {biases.shape}")
            self._dense.append(self._integers(layer, given.base))
            self._biases.append(biases << layer.bias_shift)
            self.values.append(entries[:, 2].astype(np.int64))

    def _integers(self, layer: DenseLayer, base: np.ndarray) -> np.ndarray:
        """Return a layer's dense weights as integers (rows, columns), of which sums are made."""
        if layer.plain:
            half = 1 << (self.config.plain_width - 1)
            weights = require_integers("weights", base, -half, half - 1)
        else:
            weights = base_weights(self.config.gemv.packing, base, layer.columns)
        if weights.shape != (layer.rows, layer.columns):
            raise ValueError(
                f"a layer of {layer.rows} x {layer.columns} must have as many weights, not "
                f"{weights.shape[0]} x {weights.shape[1]}"
            )
        return weights

    def entries(self, layer: int) -> np.ndarray:
        """Return a layer's entries with their values, int64 (count, 3)."""
        found = self.parameters[layer].entries.reshape(-1, 3).astype(np.int64)
        found[:, 2] = self.values[layer]
        return found

    def beats(self) -> dict[int, int]:
        """Return what the memory holds: a beat for each address, its low bytes lowest."""
        config = self.config
        found: dict[int, int] = {}
        for layer, given in zip(self.layers, self.parameters, strict=True):
            size = config.bias_beats(layer) * config.beat_biases
            biases = np.zeros(size, "<i4")
            biases[: layer.rows] = given.biases
            # The first two bytes of a row of a trellis code are its scale.
            scales = np.zeros(config.scale_beats(layer) * config.beat_bytes, np.uint8)
            if len(scales):
                scales[: 2 * layer.rows] = given.base[:, :2].reshape(-1)
            rows = self._gemv.base_beats(given.base, layer.columns, plain=layer.plain)
            parts = biases.view(np.uint8), scales, rows
            raw = np.concatenate([part.reshape(-1, config.beat_bytes) for part in parts])
            for k, beat in enumerate(raw):
                found[layer.address + k] = int.from_bytes(beat.tobytes(), "little")
        return found

    def forward(self, x: np.ndarray, *, k: int = 0, seed: int = 0) -> np.ndarray:
        """Return the last layer's outputs (samples, rows) of ``x`` (samples, columns).

        ``k`` is -1, 0 or 1: the values are perturbed with k times the perturbation of ``seed``.
        """
        config = self.config
        half = 1 << (config.activation_width - 1)
        x = require_integers("x", x, -half, half - 1)
        for n, layer in enumerate(self.layers):
            kept = self.parameters[n].entries.reshape(-1, 3)
            values = self._sparse.perturbed(
                self.values[n], seed=(seed + n) % SEEDS, scale=layer.scale, k=k
            )
            weights = self._dense[n].copy()
            weights[kept[:, 0], kept[:, 1]] += values << layer.sparse_shift
            sums = rounded(x @ weights.T + self._biases[n], layer.shift)
            width = config.activation_width
            if n == len(self.layers) - 1:
                width = config.logits.width
            x = np.clip(sums, -(1 << (width - 1)), (1 << (width - 1)) - 1)
            if layer.relu:
                x = np.maximum(x, 0)
        return x

    def infer(self, x: np.ndarray) -> np.ndarray:
        """Return the class of each sample."""
        return self.forward(x).argmax(axis=1)

    def losses(
        self, x: np.ndarray, labels: np.ndarray, *, k: int = 0, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return class and loss of each sample. A label that is no class has the greatest loss."""
        classes = self.config.classes
        logits = self.forward(x, k=k, seed=seed)
        whole = np.zeros((len(x), classes), np.int64)
        whole[:, : logits.shape[1]] = logits
        present = np.broadcast_to(np.arange(classes) < logits.shape[1], whole.shape)
        valid = labels < classes
        done = self._loss.run(whole, np.where(valid, labels, 0), present)
        return logits.argmax(axis=1), np.where(valid, done.losses, self.config.logits.high)

    def step(
        self, x: np.ndarray, labels: np.ndarray, *, seed: int, rate: int, shift: int
    ) -> tuple[np.ndarray, np.ndarray, LogEntry]:
        """Train on a batch; return classes and losses of the second pass, and the log's entry."""
        require_integers("rate", rate, 0, (1 << RATE_BITS) - 1)
        require_integers("shift", shift, 0, (1 << RATE_SHIFT_BITS) - 1)
        _, plus = self.losses(x, labels, k=1, seed=seed)
        classes, minus = self.losses(x, labels, k=-1, seed=seed)
        half = 1 << (self.config.gain_width - 1)
        gain = int(rounded((plus.sum() - minus.sum()) * rate, shift))
        entry = LogEntry(seed, max(-half, min(half - 1, gain)))
        self.replay(entry)
        return classes, minus, entry

    def replay(self, entry: LogEntry) -> None:
        """Make the update of a log's entry."""
        for n, layer in enumerate(self.layers):
            self.values[n] = self._sparse.updated(
                self.values[n],
                seed=(entry.seed + n) % SEEDS,
                gain=entry.gain,
                shift=layer.update_shift,
            )

    def train(
        self, batches: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]], *, seed: int, rate: int,
        shift: int, decay: int = 0,
    ) -> Iterator[tuple[np.ndarray, np.ndarray, LogEntry]]:  # fmt: skip
        """Yield the results of :meth:`step` of a job: ``batches`` of each epoch, x and labels."""
        for epoch in batches:
            for x, labels in epoch:
                yield self.step(x, labels, seed=seed, rate=rate, shift=shift)
                seed = (seed + len(self.layers)) % SEEDS
            rate = max(0, rate - decay)
