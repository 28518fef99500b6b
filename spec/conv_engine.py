"""Configuration of the engine that runs a frozen convolutional network."""

from dataclasses import dataclass, field
from math import prod

from seedbed.spec.checks import require_int
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Q4_12, Q6_12, Fixed, require_format
from seedbed.spec.network import LENET5, NetworkField
from seedbed.spec.planner import plan

__all__ = ["CONV_ENGINE_STATUS", "ConvEngineConfig"]

#: How an image ended, by code: well, or with a fault of its length, or without whole parameters.
CONV_ENGINE_STATUS = ("ok", "image", "parameters")


@dataclass(frozen=True, kw_only=True)
class ConvEngineConfig:
    """Layers of integers, one after the other, on one array of multipliers.

    With activations x, weights w and biases b in fixed point, and the weights' fraction W, an
    output of a layer is::

        y = r(b 2^V + sum of w x, W)       V: the values' fraction

    where r(n, s) = floor(n / 2^s + 1/2), saturated to the values' format. The sum is exact. Then
    come ReLU and the maximum over a square, where the layer has them. Maps are flat in the order of
    rows, columns, channels.

    Parameters
    ----------
    network
        Layers, or the name of a network: see :data:`~seedbed.spec.network.NETWORKS`.
    lanes
        Inputs that are multiplied in a cycle for one output: a power of two, 8..64.
    ways
        Outputs at a time: a power of two, 1..16, at most ``lanes``.
    values
        Format of images, activations and what comes out; it holds 1.
    weights
        Format of the parameters.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    network: NetworkField = NetworkField(LENET5)
    lanes: int = 32
    ways: int = 4
    values: Fixed = Q6_12
    weights: Fixed = Q4_12
    engine: EngineConfig = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_format("values", self.values)
        require_format("weights", self.weights)
        # Every sum is below 2^53, so that models may use floating point for it.
        widest = self.values.width + self.weights.width - 2
        most = max(layer.fan_in for layer in self.layers) + 1
        require_int(
            "the bits of a layer's sum of weights by values", widest + most.bit_length(), 2, 53
        )
        made = plan(lanes=self.lanes, ways=self.ways, layers=self.layers)
        engine = EngineConfig(plan=made, values=self.values, weights=self.weights)
        object.__setattr__(self, "engine", engine)

    @property
    def layers(self):
        """Return the network's layers."""
        return self.network.layers

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

    @property
    def saturated_width(self) -> int:
        """Bits of a count of an image's numbers, before pooling."""
        return sum(prod(layer.convolved) for layer in self.layers).bit_length()
