"""Golden model of the core that trains a network in int8 by forward passes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from seedbed.golden import engine
from seedbed.golden.bp_tail import BpTail, pairs
from seedbed.golden.checks import require_integers
from seedbed.golden.elasticzo import ElasticZo, Network, Pass
from seedbed.golden.loss_sign import loss_difference
from seedbed.golden.rank_one import Factors, RankOne
from seedbed.golden.step_levels import StepLevels
from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.step_levels import ONE
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["LogEntry", "ZoTrainer", "pixels"]


@dataclass(frozen=True)
class LogEntry:
    """A step: all that its update depends on, except for the weights before it."""

    seed: int
    magnitude: int
    zeros: int
    sign: int
    update_bits: int = 1
    level: int = ONE


def pixels(images: np.ndarray) -> np.ndarray:
    """Return bytes as activations of exponent -7: their upper seven bits."""
    return (require_integers("images", images, 0, 255) >> 1).astype(np.float32)


class ZoTrainer:
    """The whole core; its state are the rows of the parameter memory.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.
    weights
        Of each layer by name, integers -127..127 of shape (outputs, fan_in).
    exponents
        Of each layer's weights, by name.
    """

    def __init__(
        self,
        config: ZoTrainerConfig,
        weights: Mapping[str, np.ndarray],
        exponents: Mapping[str, int],
    ):
        self.config, self.exponents = config, dict(exponents)
        self._rank_one = RankOne(config.rank_one) if config.rank_one else None
        self._perturb = None if config.rank_one else WeightPerturb(config.perturb)
        self._levels = StepLevels()
        whole = {
            f"{name}.weight": require_integers(name, numbers, -LIMIT, LIMIT)
            for name, numbers in weights.items()
        }
        self.rows = engine.frozen_rows(config.engine.plan, config.layers, whole)
        self._tail = BpTail(config.bp_tail) if config.bp_tail else None

    @property
    def exponent(self) -> int:
        """The sum of all layers' exponents, for the command."""
        return sum(self.exponents.values())

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights of each layer, int64 (outputs, fan_in)."""
        return engine.network_weights(self.config.engine.plan, self.config.layers, self.rows)

    def words(self) -> np.ndarray:
        """Return the rows as the streams have them, int64 (parameter_beats, 2)."""
        return engine.words(self.rows)

    def _forward(self, rows: np.ndarray, images: np.ndarray) -> Pass:
        """Return the forward pass of images with the weights of some rows."""
        config = self.config
        weights = engine.network_weights(config.engine.plan, config.layers, rows)
        network = Network({n: w.astype(np.float32) for n, w in weights.items()}, self.exponents)
        # No perturbation is drawn by the model of the arithmetic.
        model = ElasticZo(config.model, network, lambda *_: np.zeros(0, np.int8))
        return model.forward(network.weights, pixels(images))

    def infer(self, images: np.ndarray) -> np.ndarray:
        """Return the class of each image (samples, C, H, W) of bytes."""
        return self._forward(self.rows, images).logits.argmax(axis=1)

    def begin(self) -> None:
        """Begin a job: the average of the loss differences is forgotten."""
        self._levels.begin()

    @property
    def average(self) -> int | None:
        """The average of the loss differences of a job so far, if there is one, in 2^-6."""
        return self._levels.average

    @average.setter
    def average(self, value: int | None) -> None:
        self._levels.average = value

    def step(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        seed: int,
        magnitude: int,
        zeros: int,
        update_bits: int = 1,
    ) -> tuple[np.ndarray, LogEntry]:
        """Train on a batch; return the classes of the second pass, and the log's entry.

        Parameters
        ----------
        images, labels
            Bytes (samples, C, H, W), and classes.
        seed
            Of the perturbation.
        magnitude
            c: r_max is 2^c - 1.
        zeros
            n: p_zero is n / 16.
        update_bits
            b_BP: bits of the magnitude of the tail's updates.
        """
        z = self._perturbation(seed, magnitude, zeros)
        plus, minus = (
            self._forward(self._with(self._perturbed(z, k, magnitude)), images) for k in (1, -1)
        )
        difference = loss_difference(
            (plus.logits, plus.exponents),
            (minus.logits, minus.exponents),
            labels,
            fraction=self.config.fraction,
        )
        level = self._levels.level(difference) if self.config.levels > 1 else ONE
        sign = int(np.sign(difference))
        entry = LogEntry(seed, magnitude, zeros, sign, update_bits, level)
        self._update(z, entry)
        if self._tail:
            self._backpropagate(self._tail, minus, labels, update_bits)
        return minus.logits.argmax(axis=1), entry

    def _backpropagate(self, tail: BpTail, passed: Pass, labels: np.ndarray, bits: int) -> None:
        """Update the tail's rows from the second pass of a batch."""
        config = self.config
        tail.load(self.weights[config.layers[-1].name])
        # As the store has them: rows, columns, channels; of a dense layer's outputs no difference.
        vectors = [self._inputs(k, seen) for k, seen in enumerate(passed.seen)]
        for n, label in enumerate(labels.tolist()):
            tail.sample(
                [vector[n] for vector in vectors],
                [int(scale[n]) for scale in passed.scales],
                passed.logits[n],
                int(passed.exponents[n]),
                label,
            )
        assert config.bp_tail
        changes = pairs(config.bp_tail, tail.update(bits)).reshape(-1, config.ways, config.lanes)
        rows = self.rows[config.schedule.rows :]
        self.rows = np.concatenate([self._trained, np.clip(rows - changes, -LIMIT, LIMIT)])

    def _inputs(self, k: int, seen: np.ndarray) -> np.ndarray:
        """Return what the k-th layer of the tail takes, in the store's order, (samples, inputs)."""
        return seen.reshape(seen.shape[0], -1).T[:, self._order(k)].astype(np.int64)

    def _order(self, k: int) -> np.ndarray:
        """Return the places of a layer's inputs in the order in which the store has them."""
        channels, height, width = self.config.layers[self.config.partition + k - 1].shape
        places = np.arange(channels * height * width).reshape(channels, height, width)
        return places.transpose(1, 2, 0).ravel()

    def replay(self, entry: LogEntry) -> None:
        """Make the update of a log's entry.

        Raises ``ValueError`` with a tail: its updates depend on the samples.
        """
        if self._tail:
            raise ValueError("a log replays zeroth-order training only: tail must be 0")
        self._update(self._perturbation(entry.seed, entry.magnitude, entry.zeros), entry)

    @property
    def _trained(self) -> np.ndarray:
        return self.rows[: self.config.schedule.rows]

    def _with(self, trained: np.ndarray) -> np.ndarray:
        """Return the rows with others in place of those that are trained."""
        return np.concatenate([trained, self.rows[len(trained) :]])

    def _perturbation(self, seed: int, magnitude: int, zeros: int) -> np.ndarray | Factors:
        """Return numbers of the rows, or with rank 1 those of outputs and inputs."""
        if self._rank_one:
            return self._rank_one.factors(seed, zeros=zeros)
        rows = self.config.schedule.rows
        assert self._perturb
        return self._perturb.perturbation(seed, rows, magnitude=2**magnitude - 1, zeros=zeros)

    def _perturbed(self, z: np.ndarray | Factors, k: int, magnitude: int) -> np.ndarray:
        """Return the trained rows with k z."""
        if isinstance(z, Factors):
            assert self._rank_one
            return self._rank_one.perturbed(self._trained, z, k, magnitude)
        assert self._perturb
        return self._perturb.perturbed(self._trained, z, k)

    def _update(self, z: np.ndarray | Factors, entry: LogEntry) -> None:
        if isinstance(z, Factors):
            assert self._rank_one
            moved = self._trained - entry.sign * self._rank_one.update(z, entry.level)
            updated = np.clip(moved, -LIMIT, LIMIT)
        else:
            assert self._perturb
            updated = self._perturb.updated(self._trained, z, entry.sign, 2**entry.magnitude - 1)
        self.rows = self._with(updated)
