"""Six ways to fine-tune a network: what each trains, and what it costs.

Source: InstantFT, sections 2 and 3, Table 1.
"""

from dataclasses import dataclass
from math import prod

from seedbed.spec.checks import require_choice
from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["METHODS", "Cost", "Method", "adapter", "cost", "selected"]

WHICH = ("none", "last", "all")
#: Bytes of a number.
FLOAT = 4


@dataclass(frozen=True, kw_only=True)
class Method:
    """What is trained: weights, biases and adapters of ``all`` layers, of the ``last`` or ``none``.

    An adapter is parallel to its layer, from its input to its output before ReLU, both flat;
    ``skip`` has one from each layer's input to the last layer's output instead. Raises
    ``ValueError`` for another word.
    """

    weights: str = "none"
    biases: str = "none"
    adapters: str = "none"

    def __post_init__(self) -> None:
        require_choice("weights", self.weights, WHICH)
        require_choice("biases", self.biases, WHICH)
        require_choice("adapters", self.adapters, (*WHICH, "skip"))

    @property
    def deep(self) -> bool:
        """Whether gradients go through the network, and not into its last layer alone."""
        return "all" in (self.weights, self.biases, self.adapters)


#: The methods of Table 1, in its order.
METHODS = {
    "FT-All": Method(weights="all", biases="all"),
    "FT-Last": Method(weights="last", biases="last"),
    "FT-Bias": Method(biases="all"),
    "LoRA-All": Method(adapters="all"),
    "LoRA-Last": Method(adapters="last"),
    "InstantFT": Method(adapters="skip"),
}


def selected(config: NetworkConfig, which: str) -> tuple[Layer, ...]:
    """Return the layers that a word of :class:`Method` means."""
    return {"none": (), "last": config.layers[-1:]}.get(which, config.layers)


def adapter(config: NetworkConfig, method: Method, layer: Layer) -> tuple[int, int]:
    """Return inputs and outputs of a layer's adapter."""
    end = config.layers[-1] if method.adapters == "skip" else layer
    return prod(layer.inputs), prod(end.convolved)


@dataclass(frozen=True)
class Cost:
    """Trained parameters, operations of a sample forward and backward, and bytes of memory."""

    parameters: int
    forward: int
    backward: int
    memory: int


def cost(config: NetworkConfig, method: Method, *, rank: int = 4, as_printed: bool = False) -> Cost:
    """Return what Table 1 has of a method, without a forward cache.

    Operations: a product and its sum are 2. Forward, a bias is 1 an output, ReLU 1 an output, and
    pooling one comparison less than it has inputs. Backward, each matrix product counts likewise,
    a bias 1 an output, ReLU 1 an output; loss and update are not counted.

    Memory, in numbers of 4 bytes: the network and its adapters, a gradient for each trained
    parameter, a sample's image and the outputs of all layers, before pooling too, and two vectors
    of ``rank`` an adapter. Where gradients go through the network: gradients of all outputs, and
    the place of each maximum; else the logits' alone.

    ``as_printed`` adds, to the backward pass of adapters that skip, gradients of the layers'
    outputs: nothing needs them, but the printed figure has them.
    """
    trained = sum(layer.outputs * layer.fan_in for layer in selected(config, method.weights))
    trained += sum(layer.outputs * layer.bias for layer in selected(config, method.biases))
    adapted = selected(config, method.adapters)
    a = {layer: rank * adapter(config, method, layer)[0] for layer in adapted}
    b = {layer: rank * adapter(config, method, layer)[1] for layer in adapted}
    extra = sum(a.values()) + sum(b.values())

    outputs = {layer: prod(layer.convolved) for layer in config.layers}
    pooled = {layer: prod(layer.shape) for layer in config.layers if layer.pool > 1}
    relus = sum(outputs[layer] for layer in config.layers if layer.relu)
    biases = sum(outputs[layer] for layer in config.layers if layer.bias)
    forward = 2 * config.macs + biases + relus + 2 * extra
    forward += sum((layer.pool**2 - 1) * count for layer, count in pooled.items())

    backward = 2 * sum(layer.macs for layer in selected(config, method.weights))
    biased = [layer for layer in selected(config, method.biases) if layer.bias]
    backward += sum(outputs[layer] for layer in biased)
    backward += 2 * (sum(a.values()) + 2 * sum(b.values()))
    later = config.layers[1:]
    if method.deep:
        backward += relus + 2 * sum(layer.macs for layer in later)
    if method.adapters == "all" or (as_printed and method.adapters == "skip"):
        backward += 2 * sum(a[layer] for layer in later)

    activations = prod(config.layers[0].inputs) + sum(outputs.values()) + sum(pooled.values())
    numbers = config.parameters + extra + trained + extra + activations + 2 * rank * len(adapted)
    if method.deep:
        numbers += activations - prod(config.layers[0].inputs) + sum(pooled.values())
    else:
        numbers += outputs[config.layers[-1]]
    return Cost(trained + extra, forward, backward, FLOAT * numbers)
