"""Configuration of ElasticZO-INT8: training in 8-bit integers by forward passes."""

from dataclasses import dataclass

from seedbed.spec.checks import require_bool, require_choice, require_int
from seedbed.spec.network import NetworkField
from seedbed.spec.step_levels import require_levels

__all__ = [
    "ALIGNMENTS",
    "GRAIN",
    "LIMIT",
    "LOG2_E",
    "PERTURBATIONS",
    "ROUNDINGS",
    "ElasticZoConfig",
    "Phase",
    "phases_of",
]

#: Largest magnitude of a weight, an activation and an error.
LIMIT = 127
#: log2(e) in units of 2^-15. Source: ElasticZO, section 4.3; NITI.
LOG2_E = 47274
ROUNDINGS = ("nearest", "pseudo-stochastic")
ALIGNMENTS = ("batch", "sample", "fixed")
#: Perturbations: a number for each weight, or the product of an output's and an input's number.
PERTURBATIONS = ("full", "rank1")
#: In hardware p_zero is a multiple of 16/256: four random bits decide on a 0.
GRAIN = 16
#: Layers that backpropagation can train sample by sample: other alignments than ``batch``.
MOST_STREAMED = 2


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What holds from an epoch on: a row of the schedule that a host gives.

    Parameters
    ----------
    epoch
        The first epoch that it holds for, from 0.
    magnitude
        r_max: perturbations are integers in -r_max .. r_max, 1..63.
    zeros
        p_zero, how many of 256 numbers of a perturbation are 0 on average, 0..255.
    update_bits
        b_BP, bits of the magnitude of an update by backpropagation, 1..7.
    """

    epoch: int
    magnitude: int
    zeros: int
    update_bits: int

    def __post_init__(self) -> None:
        require_int("epoch", self.epoch, 0, 65535)
        require_int("magnitude", self.magnitude, 1, 63)
        require_int("zeros", self.zeros, 0, 255)
        require_int("update_bits", self.update_bits, 1, 7)


def phases_of(epochs: int, magnitude: int, *, grain: int = 1) -> tuple[Phase, ...]:
    """Return the paper's schedule, stretched or squeezed to a number of epochs.

    p_zero 0.33, 0.5, 0.9 and b_BP 5, 4, 3 from 0, 20 and 50 % of the epochs on.
    Source: ElasticZO, section 5.1.1, of 100 epochs.

    Parameters
    ----------
    epochs
        1..65535.
    magnitude
        r_max, 1..63.
    grain
        p_zero is rounded to a multiple of ``grain`` / 256, 1..16; hardware needs :data:`GRAIN`.
    """
    require_int("epochs", epochs, 1, 65535)
    require_int("grain", grain, 1, GRAIN)
    rows = ((0, 84, 5), (20, 128, 4), (50, 230, 3))
    return tuple(
        Phase(
            epoch=percent * epochs // 100,
            magnitude=magnitude,
            zeros=grain * round(zeros / grain),
            update_bits=bits,
        )
        for percent, zeros, bits in rows
    )


@dataclass(frozen=True, kw_only=True)
class ElasticZoConfig:
    """A network in int8, of which zeroth order trains the first layers.

    A tensor is int8 numbers and one exponent: v 2^s. A layer's sums are int32; with b the bits of
    the largest magnitude of a sample's sums, they are rounded by a shift of max(b - 7, 0), which is
    added to the exponent. Weights' exponents are constants.

    Parameters
    ----------
    network
        A table of layers, or the name of one of :data:`~seedbed.spec.network.NETWORKS`. Biases are
        not used.
    partition
        C: how many layers, from the first, are trained by zeroth order, 0..layers. Backpropagation
        trains the others.
    fraction
        Fraction bits of exponents and logarithms in the sign of the loss difference (Eq. 12), 0..8.
        The paper has 0.
    rounding
        Of activations and errors: ``nearest`` (half away from zero) or ``pseudo-stochastic``. The
        updates of backpropagation are rounded pseudo-stochastically.
    pool_first
        Whether the maximum of a pooling window is taken before sums are rounded, or after it, as in
        the paper.
    alignment
        The unit of the errors that backpropagation hands to the layer before, over the samples of
        a batch. ``batch``: the shift of the largest error of the batch, known only after its last
        sample. ``sample``: a shift of each sample's own, by which its gradient is shifted back.
        ``fixed``: :attr:`error_shift`. Only ``batch`` takes more than two layers.
    exponent_range
        r: a sample's gradient is weighted by 2^e of its activations, relative to the first sample
        of the batch, e limited to -r..r, 0..7. 0 ignores the exponents.
    batch
        The largest number of samples of a batch, 1..4096.
    in_place
        Whether perturbations are added to the stored weights, which saturates them, as Algorithm 2
        is printed; or on the way to the multipliers, which leaves them unchanged.
    perturbation
        ``full``, a number for each weight, or ``rank1``, of
        :class:`~seedbed.spec.rank_one.RankOneConfig`: the sums are those of weights and
        perturbations, which are not clamped.
    levels
        1: each update is a step against the sign of the loss difference. 4: it is none, half a
        step, one or two, see :data:`~seedbed.spec.step_levels.LEVELS`.

    Raises ``ValueError`` and ``TypeError`` for other values. Source: ElasticZO, Algorithm 2 and
    section 4.3; Wang et al., "NITI" (IEEE TPDS 2022).
    """

    network: NetworkField = NetworkField("lenet5_padded")
    partition: int = 5
    fraction: int = 4
    rounding: str = "nearest"
    pool_first: bool = False
    alignment: str = "fixed"
    exponent_range: int = 3
    batch: int = 256
    in_place: bool = False
    perturbation: str = "full"
    levels: int = 1

    def __post_init__(self) -> None:
        require_int("partition", self.partition, 0, len(self.layers))
        require_int("fraction", self.fraction, 0, 8)
        require_choice("rounding", self.rounding, ROUNDINGS)
        require_bool("pool_first", self.pool_first)
        require_choice("alignment", self.alignment, ALIGNMENTS)
        if self.alignment != "batch" and len(self.tail) > MOST_STREAMED:
            raise ValueError(
                f"alignment must be batch where backpropagation trains more than {MOST_STREAMED} "
                f"layers, not {self.alignment!r}"
            )
        require_int("exponent_range", self.exponent_range, 0, 7)
        require_int("batch", self.batch, 1, 4096)
        require_bool("in_place", self.in_place)
        require_choice("perturbation", self.perturbation, PERTURBATIONS)
        if self.in_place and self.perturbation == "rank1":
            raise ValueError("in_place must be False with perturbation 'rank1', which is not added")
        require_levels(self.levels)

    @property
    def layers(self):
        """The layers of the network."""
        return self.network.layers

    @property
    def classes(self) -> int:
        """Logits."""
        return self.layers[-1].outputs

    @property
    def tail(self):
        """The layers that backpropagation trains."""
        return self.layers[self.partition :]

    @property
    def error_shift(self) -> int:
        """The shift of ``alignment`` ``fixed``, from a bound of the error before rounding.

        Softmax less one-hot labels has a sum of magnitudes of at most 2, which is 256 in the unit
        of the logits' errors, and a weight is at most 127. Rounding may exceed it, and is clamped.
        """
        return (2 * 128 * LIMIT).bit_length() - 7

    @property
    def accumulator_bits(self) -> int:
        """Bits of a gradient's sum over a batch, with its sign; 0 where there is none."""
        bits = 0
        for layer in self.tail:
            positions = layer.convolved[1] * layer.convolved[2]
            peak = self.batch * positions * LIMIT**2 << 2 * self.exponent_range
            if self.alignment == "sample" and layer is not self.tail[-1]:
                peak <<= max((self.layers[-1].outputs * LIMIT**2).bit_length() - 7, 0)
            bits = max(bits, peak.bit_length() + 1)
        return bits
