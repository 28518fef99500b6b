"""Configuration of the backpropagation of a network's last one or two dense layers in int8."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int, require_ints
from seedbed.spec.elasticzo import LIMIT

__all__ = [
    "BP_TAIL_ERRORS",
    "ERROR_SHIFT",
    "EXPONENT_BITS",
    "EXPONENT_LOW",
    "EXPONENT_SMALL",
    "POWER_RANGE",
    "SHARE_BITS",
    "BpTailConfig",
    "TailLayer",
]

#: What a response flags: a label that is no class, a frame of another length, too many samples.
BP_TAIL_ERRORS = ("label_error", "length_error", "batch_error")
#: Bits of an exponent, with its sign.
EXPONENT_BITS = 8
#: Exponents of a power of two that are kept below the largest one. Source: ElasticZO, section 4.3.
POWER_RANGE = 10
#: Up to this exponent of the logits, a softmax term is a polynomial; lower ones than
#: ``EXPONENT_LOW`` count as it.
EXPONENT_SMALL = -7
EXPONENT_LOW = -24
#: Fraction bits of a term's share of the sum.
SHARE_BITS = 11
#: The shift of the inner layer's error, from a bound: softmax less the label has a sum of
#: magnitudes of at most 2, which is 256 in the unit of the errors, and a weight is at most 127.
ERROR_SHIFT = (2 * 128 * LIMIT).bit_length() - 7


@dataclass(frozen=True)
class TailLayer:
    """A dense layer, and its part of the rows of the parameter memory."""

    inputs: int
    outputs: int
    #: Words of ``lanes`` inputs of an output.
    words: int
    #: Rows of a group of ``ways`` outputs, and groups.
    group_rows: int
    groups: int


@dataclass(frozen=True, kw_only=True)
class BpTailConfig:
    """Backpropagation of the last one or two dense layers, sample by sample.

    d is the error of the logits, in units of 2^-7, by NITI's integer softmax. With x the inputs of
    a layer, s their exponent, s_0 that of the batch's first sample, and r the exponent range::

        G += (d << clamp(s - s_0, -r, r) + r) x'
        d of the layer before = W' d / 2^8, rounded half away from zero, in -127..127, 0 where
        x <= 0

    After the batch, with b the update bits that are given then::

        shift = max(bits(max |G|) - b, 0)
        update = G / 2^shift, rounded pseudo-stochastically, in -(2^b - 1) .. 2^b - 1

    Parameters
    ----------
    inputs
        Inputs of each layer, 1..4096, of one or two layers, the last one last. The outputs of the
        first of two are the inputs of the second.
    classes
        Outputs of the last layer, 2..256.
    batch
        Samples of a batch, at most, 1..4096.
    lanes
        Multipliers side by side: 2, 4 or 8. Of two layers, at most ``classes``.
    ways
        Numbers of a beat of activations, and outputs of a row of parameters: 1, 2, 4, 8 or 16.
    row_lanes
        Inputs of a row of parameters: 8, 16, 32 or 64.
    exponent_range
        r, 0..5. 0 ignores the exponents of the activations.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: ElasticZO, Algorithm 2; Wang et al., "NITI" (IEEE TPDS 2022). The alignment of samples
    is this project's.
    """

    inputs: tuple[int, ...] = (120, 84)
    classes: int = 10
    batch: int = 256
    lanes: int = 4
    ways: int = 4
    row_lanes: int = 32
    exponent_range: int = 3

    def __post_init__(self) -> None:
        inputs = require_ints("inputs", self.inputs, 1, 4096, least=1, most=2)
        object.__setattr__(self, "inputs", inputs)
        require_int("classes", self.classes, 2, 256)
        require_int("batch", self.batch, 1, 4096)
        for name, allowed in (
            ("lanes", (2, 4, 8)),
            ("ways", (1, 2, 4, 8, 16)),
            ("row_lanes", (8, 16, 32, 64)),
        ):
            require_int(name, getattr(self, name), allowed[0], allowed[-1])
            if getattr(self, name) not in allowed:
                listed = ", ".join(map(str, allowed))
                raise ValueError(f"{name} must be one of {listed}, not {getattr(self, name)}")
        # An inner error leaves the array as slowly as the next one is summed.
        if len(inputs) > 1 and self.lanes > self.classes:
            raise ValueError(
                f"lanes must be at most classes, {self.classes}, where there are two layers, "
                f"not {self.lanes}"
            )
        require_int("exponent_range", self.exponent_range, 0, 5)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Outputs of each layer."""
        return (*self.inputs[1:], self.classes)

    @property
    def layers(self) -> tuple[TailLayer, ...]:
        """The layers, the last one last."""
        return tuple(
            TailLayer(
                inputs=inputs,
                outputs=outputs,
                words=-(-inputs // self.lanes),
                group_rows=-(-inputs // self.row_lanes),
                groups=-(-outputs // self.ways),
            )
            for inputs, outputs in zip(self.inputs, self.outputs, strict=True)
        )

    @property
    def entries(self) -> int:
        """Words of the accumulators' memory, of ``lanes`` numbers."""
        return sum(layer.outputs * layer.words for layer in self.layers)

    @property
    def accumulator_bits(self) -> int:
        """Bits of a gradient's sum over a batch, with its sign."""
        peak = self.batch * LIMIT * (LIMIT + 1) << 2 * self.exponent_range
        return peak.bit_length() + 1
