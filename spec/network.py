"""Networks as tables of layers: what a model, a sequencer and a report walk over."""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import overload

from seedbed.spec.checks import require_bool, require_choice, require_int, require_ints

__all__ = [
    "LENET5",
    "LENET5_PADDED",
    "LENET_DIGITS",
    "NETWORKS",
    "TINY",
    "Layer",
    "NetworkConfig",
    "NetworkField",
    "named",
]

KINDS = ("conv", "dense")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A layer with weights, and what follows it at once: ReLU, then max-pooling.

    Parameters
    ----------
    name
        Prefix of its parameters, ``NAME.weight`` and, with a bias, ``NAME.bias``.
    kind
        ``conv`` or ``dense`` (which takes its input flat, channel by channel).
    inputs
        Channels, height and width of what comes in.
    outputs
        Channels, or units, that go out.
    kernel, padding
        ``conv`` only: side of the square kernel, and zeros put around the input.
    stride
        ``conv`` only: rows, and columns, from a window to the next. Windows are whole: what is left
        at the bottom and at the right is not read.
    bias
        Whether a parameter is added to each output.
    relu
        Whether negative outputs become 0.
    pool
        Side of the square that a maximum is taken over; 1 is none. Rows and columns at the end that
        fill no square are not computed.
    """

    name: str
    kind: str
    inputs: tuple[int, int, int]
    outputs: int
    kernel: int = 1
    padding: int = 0
    stride: int = 1
    bias: bool = True
    relu: bool = True
    pool: int = 1

    def __post_init__(self) -> None:
        require_choice("kind", self.kind, KINDS)
        inputs = require_ints("inputs", self.inputs, 1, 65535, least=3, most=3)
        object.__setattr__(self, "inputs", inputs)
        require_int("outputs", self.outputs, 1, 65535)
        require_int("padding", self.padding, 0, 65535)
        require_int("kernel", self.kernel, 1, min(self.inputs[1:]) + 2 * self.padding)
        require_int("padding", self.padding, 0, self.kernel - 1)
        require_int("stride", self.stride, 1, 65535)
        if self.kind == "dense" and self.stride > 1:
            raise ValueError(f"stride of a dense layer must be 1, not {self.stride}")
        require_bool("bias", self.bias)
        require_bool("relu", self.relu)
        require_int("pool", self.pool, 1, min(8, *self._sides))

    @property
    def _sides(self) -> tuple[int, int]:
        """Rows and columns of windows."""
        if self.kind == "dense":
            return 1, 1
        height, width = (
            (side + 2 * self.padding - self.kernel) // self.stride + 1 for side in self.inputs[1:]
        )
        return height, width

    @property
    def convolved(self) -> tuple[int, int, int]:
        """Shape before pooling, of what is computed."""
        height, width = (side // self.pool * self.pool for side in self._sides)
        return self.outputs, height, width

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of what goes out."""
        channels, height, width = self.convolved
        return channels, height // self.pool, width // self.pool

    @property
    def fan_in(self) -> int:
        """Weights of one output: columns of the weight matrix."""
        return self.inputs[0] * self.kernel**2 if self.kind == "conv" else prod(self.inputs)

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.outputs * (self.fan_in + self.bias)

    @property
    def macs(self) -> int:
        """Multiplications of one forward pass of one sample."""
        return prod(self.convolved) * self.fan_in


@dataclass(frozen=True)
class NetworkConfig:
    """Layers one after the other; each takes what the one before gives.

    ``source`` is the file that it was read from, or "". Raises ``ValueError`` for a table without
    layers, or whose shapes do not follow.
    """

    layers: tuple[Layer, ...]
    source: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        known = next((name for name, one in NETWORKS.items() if one == self), repr(self))
        return self.source or known

    def __post_init__(self) -> None:
        if not all(isinstance(layer, Layer) for layer in self.layers):
            raise TypeError(f"layers must be a tuple of Layer, not {self.layers!r}")
        if not self.layers:
            raise ValueError("a network needs at least one layer")
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            fits = before.shape == after.inputs
            if not fits and not (
                after.kind == "dense" and prod(before.shape) == prod(after.inputs)
            ):
                raise ValueError(
                    f"{after.name} takes {after.inputs}, but {before.name} gives {before.shape}"
                )

    @cached_property
    def parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @cached_property
    def macs(self) -> int:
        """Multiplications of one forward pass of one sample."""
        return sum(layer.macs for layer in self.layers)


def _conv(name: str, inputs: tuple[int, int, int], outputs: int, padding: int) -> Layer:
    return Layer(
        name=name, kind="conv", inputs=inputs, outputs=outputs, kernel=5, padding=padding, pool=2
    )


def _dense(name: str, inputs: int, outputs: int, *, relu: bool = True) -> Layer:
    return Layer(name=name, kind="dense", inputs=(inputs, 1, 1), outputs=outputs, relu=relu)


#: LeNet-5 with ReLU and max-pooling on 28 x 28 images: 61,706 parameters.
#: Source: LeCun et al., "Gradient-based learning applied to document recognition" (1998), in the
#: form that InstantFT (section 5.1) uses.
LENET5 = NetworkConfig(
    (
        Layer(
            name="conv1", kind="conv", inputs=(1, 28, 28), outputs=6, kernel=5, padding=2, pool=2
        ),
        Layer(name="conv2", kind="conv", inputs=(6, 14, 14), outputs=16, kernel=5, pool=2),
        _dense("fc1", 400, 120),
        _dense("fc2", 120, 84),
        _dense("fc3", 84, 10, relu=False),
    )
)

#: LeNet-5 with both convolutions padded, as ElasticZO has it: 107,786 parameters with biases.
#: Source: ElasticZO, section 5.1.1 and its counts of parameters.
LENET5_PADDED = NetworkConfig(
    (
        _conv("conv1", (1, 28, 28), 6, 2),
        _conv("conv2", (6, 14, 14), 16, 2),
        _dense("fc1", 784, 120),
        _dense("fc2", 120, 84),
        _dense("fc3", 84, 10, relu=False),
    )
)

#: The same for images of 8 x 8.
LENET_DIGITS = NetworkConfig(
    (
        _conv("conv1", (1, 8, 8), 6, 2),
        _conv("conv2", (6, 4, 4), 16, 2),
        _dense("fc1", 64, 32),
        _dense("fc2", 32, 24),
        _dense("fc3", 24, 10, relu=False),
    )
)

#: Small enough to be simulated in full: a bit of everything that LeNet-5 has.
TINY = NetworkConfig(
    (
        Layer(name="conv1", kind="conv", inputs=(1, 6, 6), outputs=3, kernel=3, padding=1, pool=2),
        Layer(name="conv2", kind="conv", inputs=(3, 3, 3), outputs=4, kernel=2),
        _dense("fc1", 16, 6),
        _dense("fc2", 6, 5, relu=False),
    )
)

#: Networks that a configuration may name, as on the command line.
NETWORKS = {
    "lenet5": LENET5,
    "lenet5_padded": LENET5_PADDED,
    "lenet_digits": LENET_DIGITS,
    "tiny": TINY,
}


def named(network: NetworkConfig | str) -> NetworkConfig:
    """Return a network, or the one of that name."""
    if isinstance(network, NetworkConfig):
        return network
    require_choice("network", network, NETWORKS)
    return NETWORKS[network]


class NetworkField:
    """A configuration's field that takes a network or a name, and has the network.

    The class has the default as it was given.
    """

    def __init__(self, default: NetworkConfig | str):
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, config: None, owner: type) -> NetworkConfig | str: ...
    @overload
    def __get__(self, config: object, owner: type) -> NetworkConfig: ...
    def __get__(self, config: object | None, owner: type) -> NetworkConfig | str:
        return self._default if config is None else vars(config)[self._name]

    def __set__(self, config: object, network: NetworkConfig | str) -> None:
        vars(config)[self._name] = named(network)
