"""Configuration of low-rank adapters that all end in the last layer, and their training."""

from dataclasses import dataclass
from math import floor

from seedbed.spec.checks import require_int, require_ints
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Q4_12, Q6_12, Q9_9, Fixed, require_format
from seedbed.spec.planner import plan

__all__ = ["LORA_KINDS", "LORA_STATUS", "LoraConfig"]

#: Commands by code: train on a sample, classify a sample, update after a batch, set all B to 0,
#: read the adapters.
LORA_KINDS = ("train", "infer", "update", "clear", "read")
#: How a command ended, by code: without an error, or with an error of the command, of its sample's
#: length, of the number of gradients in its batch, or of a packet of parameters before it.
LORA_STATUS = ("ok", "command", "sample", "gradients", "parameters")


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """Adapters A_i (rank x width_i) and B_i (classes x rank) of a frozen network.

    With V, P, G, C the fractions of values, parameters, gradients and accumulators, and r(x, s) =
    floor(x / 2^s + 1/2), saturated to the format that it goes to::

        h_i  = r(A_i x_i, P)                      z = r(z_base 2^P + sum over i of B_i h_i, P)
        dh_i = r(B_i' dz, P)
        b_i += r(dz h_i', G + V - C)              a_i += r(dh_i x_i', G + V - C)

    Sums of products are exact and rounded once. Each product that is added to an accumulator is
    rounded, and the accumulator saturates. After a batch, the accumulators are cleared, and with
    the rate M / 2^R, R = rate_fraction::

        A_i = A_i - r(M a_i, R + C - P)           B_i = B_i - r(M b_i, R + C - P)

    Parameters
    ----------
    widths
        Inputs of each adapter, 1..65535, for 1 to 16 adapters.
    classes
        Logits, 1..256.
    rank
        Rows of A_i, 1..32.
    values
        Format of x, h and the logits.
    parameters
        Format of A and B.
    gradients
        Format of dz and dh.
    accumulators
        Format of a and b; its fraction is at most that of a product, and C + R at least P.
    rate_width, rate_fraction
        Bits of M, unsigned, 4..24, and R, 0..32. 17 bits and a sign fit a multiplier of 18 x 18. R
        is a constant, so that no shifter is needed.
    lanes, ways
        Of the hardware: inputs multiplied per cycle for one output, a power of two, 8..64; and
        outputs at a time, a power of two and a divisor of the rank. ``engine`` refuses others.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: InstantFT, Eq. 1 and 3; the formats of a and b and the rate's are this project's.
    """

    widths: tuple[int, ...] = (784, 1176, 400, 120, 84)
    classes: int = 10
    rank: int = 4
    values: Fixed = Q6_12
    parameters: Fixed = Q4_12
    gradients: Fixed = Q4_12
    accumulators: Fixed = Q9_9
    rate_width: int = 17
    rate_fraction: int = 22
    lanes: int = 32
    ways: int = 4

    def __post_init__(self) -> None:
        widths = require_ints("widths", self.widths, 1, 65535, least=1, most=16)
        object.__setattr__(self, "widths", widths)
        for name in ("values", "parameters", "gradients", "accumulators"):
            require_format(name, getattr(self, name))
        require_int("classes", self.classes, 1, 256)
        require_int("rank", self.rank, 1, 32)
        require_int("lanes", self.lanes, 8, 64)
        require_int("ways", self.ways, 1, 16)
        require_int("rate_width", self.rate_width, 4, 24)
        require_int("rate_fraction", self.rate_fraction, 0, 32)
        require_int(
            "the accumulators' fraction",
            self.accumulators.fraction,
            max(0, self.parameters.fraction - self.rate_fraction),
            self.gradients.fraction + self.values.fraction,
        )
        require_int("the accumulators' width", self.accumulators.width, 2, 62 - self.rate_width)
        # Every sum of products is below 2^53, so that models may compute it in float64.
        widest = max(self.parameters.width, self.gradients.width) + self.values.width - 2
        most = max(*self.widths, self.rank * len(self.widths), self.classes) + 1
        bits = widest + most.bit_length()
        require_int("the bits of a sum of values by parameters or gradients", bits, 2, 53)

    @property
    def parameter_count(self) -> int:
        """Number of parameters in all A and B."""
        return sum(self.rank * (width + self.classes) for width in self.widths)

    @property
    def engine(self) -> EngineConfig:
        """Return the memory layout of the adapters in the core.

        Raises ``TypeError`` or ``ValueError`` for lanes, ways or formats that are not supported.
        """
        made = plan(lanes=self.lanes, ways=self.ways, lora=self)
        return EngineConfig(plan=made, values=self.values, weights=self.parameters, adapters=self)

    @property
    def parameter_beats(self) -> int:
        """Beats of a packet of parameters, two numbers per beat."""
        return self.engine.plan.trainable_rows * self.ways * self.lanes // 2

    @property
    def sample_beats(self) -> int:
        """Beats of a sample: its vectors and the logits each begin in a new beat."""
        return sum(-(-length // self.ways) for length in (*self.widths, self.classes))

    def rate(self, step: float) -> int:
        """Return M of the rate nearest to ``step``, the learning rate divided by the batch size.

        Raises ``ValueError`` for a step that M cannot represent.
        """
        mantissa = floor(step * 2**self.rate_fraction + 0.5) if abs(step) < 2**24 else 0
        if not 1 <= mantissa < 1 << self.rate_width:
            raise ValueError(
                f"the learning rate by the batch must be in 2^-{self.rate_fraction} .. "
                f"{((1 << self.rate_width) - 1) / 2**self.rate_fraction:g}, not {step!r}"
            )
        return mantissa
