"""Configuration of the engine that a plan runs on: its number formats."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.fixed import Fixed
from seedbed.spec.mac_array import MacArrayConfig
from seedbed.spec.plan import Plan
from seedbed.spec.requantize import RequantizeConfig

if TYPE_CHECKING:
    from seedbed.spec.lora import LoraConfig

__all__ = ["EngineConfig"]

#: Frames that may be on their way from the sequencer to the writer: their latency, and some more.
FRAMES = 24


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """A plan with its number formats.

    Parameters
    ----------
    plan
        What runs.
    values
        Format of activations and logits.
    weights
        Format of the frozen network's parameters.
    adapters
        The adapters, if there are any.
    dynamic
        Whether a sample's outputs of a step have one exponent, found after the last of them: int8.
        Otherwise formats are static.
    perturbed
        The greatest magnitude of what is added to a weight in the sums, 0..127.

    Raises ``ValueError`` for a format of values, or of adapters, that 1 does not fit, and for
    whatever :class:`MacArrayConfig` refuses.
    """

    plan: Plan
    values: Fixed
    weights: Fixed
    adapters: "LoraConfig | None" = None
    dynamic: bool = False
    perturbed: int = 0
    mac: MacArrayConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A bias is a weight of an activation of 1, the logits' way to the adapters one of 1.
        ones = {} if self.dynamic else {"values": self.values}
        if self.adapters:
            ones["the adapters' parameters"] = self.lora.parameters
        for name, form in ones.items():
            if form.one > form.high:
                raise ValueError(f"the format of {name} must have room for 1, which {form} has not")
        object.__setattr__(self, "mac", self._mac())

    @property
    def lora(self) -> "LoraConfig":
        """The adapters. Raises ``ValueError`` if there are none."""
        if self.adapters is None:
            raise ValueError("the engine has no adapters")
        return self.adapters

    @property
    def number(self) -> int:
        """Bits of a number in the store: a value or a gradient."""
        return max([self.values.width] + ([self.lora.gradients.width] if self.adapters else []))

    def _mac(self) -> MacArrayConfig:
        # The array's factors are whatever comes to its two sides.
        weights, activations = [self.weights.width], [self.values.width]
        if self.adapters:
            # Outer products have activations and gradients for weights; updates accumulators.
            formats = self.lora.parameters, self.lora.gradients, self.lora.accumulators, self.values
            weights += [form.width for form in formats]
            activations += [self.lora.gradients.width, self.lora.rate_width + 1]
        made = MacArrayConfig(
            lanes=self.plan.lanes,
            blocks=1,
            ways=self.plan.ways,
            products=self.adapters is not None,
            weight_width=max(weights),
            weight_peak=LIMIT if self.dynamic else 0,
            activation_width=max(activations),
            exponent_width=0,
            beats=max(step.beats for step in self.plan.steps),
            results=FRAMES,
            additions=1,
        )
        if not self.perturbed:
            return made
        # Of a weight with what is added to it, which has one bit more at most.
        wide = replace(made, weight_width=9, weight_peak=LIMIT + self.perturbed)
        return replace(made, accumulator_width=wide.needed_width)

    @property
    def pages(self) -> int:
        """Pages of the trainable rows: two of parameters, which an update swaps; accumulators."""
        return 3 if self.plan.adapters else 0

    @property
    def written_rows(self) -> int:
        """Rows that training writes: the trainable ones, or all where there are no adapters."""
        return self.plan.trainable_rows if self.plan.adapters else self.plan.frozen_rows

    @property
    def fractions(self) -> tuple[int, ...]:
        """Fraction bits of the weights: the frozen network's, and trainable ones if they differ."""
        others = [self.lora.parameters.fraction] if self.adapters else []
        return tuple(dict.fromkeys([self.weights.fraction, *others]))

    @property
    def output_forms(self) -> tuple[Fixed, ...]:
        """Formats of a step's outputs: values, and gradients if there are any."""
        return (self.values, self.lora.gradients) if self.adapters else (self.values,)

    @property
    def requantize(self) -> RequantizeConfig:
        """Of the sums of a step, where formats are dynamic."""
        ways = self.plan.ways
        squares = (s.groups(ways) * s.width * s.height for s in self.plan.steps)
        return RequantizeConfig(ways=ways, width=self.mac.accumulator_width, entries=max(squares))

    @property
    def fill(self) -> int:
        """Numbers that are written at once where a multiple of as many begins."""
        return min(16, self.plan.lanes)

    @property
    def word(self) -> int:
        """Bits of a parameter in a stream of them, two a beat."""
        return max([self.weights.width] + ([self.lora.parameters.width] if self.adapters else []))
