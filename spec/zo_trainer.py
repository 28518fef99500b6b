"""Configuration of the core that trains a network in int8 by forward passes."""

from dataclasses import dataclass, field, replace
from math import prod

from seedbed.spec.bp_tail import BpTailConfig
from seedbed.spec.checks import require_choice, require_int
from seedbed.spec.elasticzo import PERTURBATIONS, ElasticZoConfig
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.loss_sign import LossSignConfig
from seedbed.spec.network import NetworkConfig, NetworkField
from seedbed.spec.planner import plan
from seedbed.spec.rank_one import RankOneConfig
from seedbed.spec.step_levels import require_levels
from seedbed.spec.weight_perturb import WeightPerturbConfig
from seedbed.spec.zero_order import ZeroOrderSchedule, place_rank_one, place_zero_order

__all__ = ["PHASES", "ZO_TRAINER_KINDS", "ZO_TRAINER_STATUS", "ZoTrainerConfig"]

#: Commands of the core, by code: train, classify, or give the weights out.
ZO_TRAINER_KINDS = ("train", "infer", "read")
#: How a command ended, by code: well, or what was wrong first: the command, a sample of the wrong
#: length, a packet of parameters before it or a reset in an update, or the schedule.
ZO_TRAINER_STATUS = ("ok", "command", "sample", "parameters", "schedule")
#: Entries of the schedule that a host gives.
PHASES = 8
#: Format of an activation and of a weight; exponents are a sample's and a layer's own.
INT8 = Fixed(8, 7)


@dataclass(frozen=True, kw_only=True)
class ZoTrainerConfig:
    """A network in int8 that is trained by the loss difference of two forward passes.

    Numbers and rounding are those of :class:`~seedbed.spec.elasticzo.ElasticZoConfig`, with
    rounding to nearest, and perturbation on the way to the multipliers; biases are not used.

    Parameters
    ----------
    network
        Layers, or a name of :data:`~seedbed.spec.network.NETWORKS`. The last one's outputs are the
        logits, without ReLU and pooling.
    tail
        How many layers at the end are trained by backpropagation, all of them dense, 0..2: Full ZO,
        Cls2 and Cls1 of the paper.
    lanes, ways
        Of the core's array: ``ways`` outputs at a time, of ``lanes`` inputs each. Powers of two.
    magnitude_bits
        Bits of a perturbation's magnitude, 1..6: r_max is 2^c - 1 with c up to it.
    fraction
        Fraction bits of the sign of the loss difference, 0..8.
    batch
        The most samples between two updates, 1..4096.
    perturbation
        ``full``, of :class:`~seedbed.spec.weight_perturb.WeightPerturbConfig`, or ``rank1``, of
        :class:`~seedbed.spec.rank_one.RankOneConfig`.
    levels
        1: each update is a step against the sign of the loss difference. 4: it is none, half a
        step, one or two, by the difference relative to its average; only with ``rank1``.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: ElasticZO, Algorithm 2 and section 4.
    """

    network: NetworkField = NetworkField("lenet5_padded")
    tail: int = 0
    lanes: int = 32
    ways: int = 4
    magnitude_bits: int = 4
    fraction: int = 4
    batch: int = 256
    perturbation: str = "full"
    levels: int = 1
    engine: EngineConfig = field(init=False, repr=False, compare=False)
    schedule: ZeroOrderSchedule = field(init=False, repr=False, compare=False)
    #: Perturbations of rank 1, if they are.
    rank_one: RankOneConfig | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        network = self.network
        last = network.layers[-1]
        if last.relu or last.pool > 1 or last.kind != "dense":
            raise ValueError(
                f"{last.name} gives the logits: it must be dense, with neither ReLU nor pooling"
            )
        require_int("batch", self.batch, 1, 4096)
        require_int("magnitude_bits", self.magnitude_bits, 1, 6)
        require_int("tail", self.tail, 0, min(2, len(network.layers) - 1))
        require_choice("perturbation", self.perturbation, PERTURBATIONS)
        require_levels(self.levels)
        if self.levels > 1 and self.perturbation != "rank1":
            raise ValueError(f"levels must be 1 with perturbation 'full', not {self.levels}")
        self._check_tail(network)
        made = plan(lanes=self.lanes, ways=self.ways, layers=self.layers)
        rank_one = None
        if self.perturbation == "rank1":
            rank_one = place_rank_one(made, self.layers, self.partition, self.magnitude_bits)
        object.__setattr__(self, "rank_one", rank_one)
        peak = rank_one.peak if rank_one else 0
        engine = EngineConfig(plan=made, values=INT8, weights=INT8, dynamic=True, perturbed=peak)
        object.__setattr__(self, "engine", engine)
        schedule = place_zero_order(made, self.layers, self.partition)
        object.__setattr__(self, "schedule", schedule)
        # All refuse what they cannot be made for.
        _ = self.perturb if rank_one is None else rank_one, self.loss_sign, self.bp_tail

    def _check_tail(self, network: NetworkConfig) -> None:
        for layer in network.layers[len(network.layers) - self.tail :]:
            if layer.kind != "dense":
                raise ValueError(
                    f"{layer.name} is trained by backpropagation: it must be dense, not "
                    f"{layer.kind}"
                )
        before = network.layers[len(network.layers) - self.tail - 1]
        channels, *pixels = before.shape
        if self.tail and prod(pixels) > 1 and channels % self.ways:
            raise ValueError(
                f"ways must divide the channels before a tail, {channels} of {before.name}, not "
                f"{self.ways}"
            )

    @property
    def layers(self):
        """The network's layers, without biases."""
        return tuple(replace(layer, bias=False) for layer in self.network.layers)

    @property
    def partition(self) -> int:
        """C: how many layers are trained by zeroth order, from the first."""
        return len(self.layers) - self.tail

    @property
    def bp_tail(self) -> BpTailConfig | None:
        """The layers that are trained by backpropagation, if there are any."""
        if not self.tail:
            return None
        return BpTailConfig(
            inputs=tuple(layer.fan_in for layer in self.layers[self.partition :]),
            classes=self.classes,
            batch=self.batch,
            lanes=min(8, max(2, self.ways)),
            ways=self.ways,
            row_lanes=self.lanes,
        )

    @property
    def tail_rows(self) -> range:
        """Rows of weights that are trained by backpropagation."""
        return range(self.schedule.rows, self.engine.plan.frozen_rows)

    @property
    def last_row(self) -> int:
        """The first row of the last layer's weights."""
        return self.engine.plan.steps[-1].weights

    @property
    def model(self) -> ElasticZoConfig:
        """The arithmetic."""
        return ElasticZoConfig(
            network=NetworkConfig(self.layers), partition=self.partition, fraction=self.fraction,
            perturbation=self.perturbation, levels=self.levels,
        )  # fmt: skip

    @property
    def classes(self) -> int:
        """Logits."""
        return self.layers[-1].outputs

    @property
    def perturb(self) -> WeightPerturbConfig:
        """The perturbing stage."""
        return WeightPerturbConfig(
            lanes=self.lanes,
            ways=self.ways,
            bits=self.magnitude_bits,
            rows=self.engine.plan.frozen_rows,
            used=self.schedule.used,
        )

    @property
    def loss_sign(self) -> LossSignConfig:
        """The sign of the loss difference."""
        return LossSignConfig(
            classes=self.classes, ways=self.ways, fraction=self.fraction, batch=self.batch,
            levels=self.levels,
        )  # fmt: skip

    @property
    def sample_tags(self) -> dict[str, range]:
        """What comes with an image."""
        return {"label": range(self.classes)}

    @property
    def image_beats(self) -> int:
        """Beats of an image: every row begins in a new beat."""
        rows, columns, channels = self.engine.plan.image.shape
        return rows * -(-columns * channels // self.ways)

    @property
    def parameter_beats(self) -> int:
        """Beats of a packet of parameters, of two numbers each."""
        plan = self.engine.plan
        return plan.frozen_rows * plan.ways * plan.lanes // 2
