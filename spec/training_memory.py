"""Bytes that training a network takes: backpropagation, zeroth order, or both.

Source: ElasticZO, Eq. 2 to 5 (float32) and 13 to 15 (int8). The paper counts a convolution or dense
layer, its ReLU and its pooling as three layers, each with an activation and an error. All of them
exist at once: no buffer is used twice.
"""

from dataclasses import dataclass, fields
from math import prod

from seedbed.spec.checks import require_int
from seedbed.spec.elasticzo import ElasticZoConfig
from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["TrainingMemory", "float_memory", "int8_memory", "streamed_memory"]

_FLOAT = 4
_WIDE = 4


@dataclass(frozen=True, kw_only=True)
class TrainingMemory:
    """Bytes of each kind of tensor; ``wide`` are the sums of an int8 training."""

    parameters: int
    activations: int
    gradients: int
    errors: int
    wide: int = 0
    perturbations: int = 0

    @property
    def total(self) -> int:
        """Bytes in all."""
        return sum(getattr(self, each.name) for each in fields(self))


def _activations(layer: Layer) -> int:
    """Numbers of a sample that the layer, its ReLU and its pooling output."""
    convolved = prod(layer.convolved)
    return convolved * (1 + layer.relu) + (prod(layer.shape) if layer.pool > 1 else 0)


def _tail(network: NetworkConfig, partition: int) -> tuple[Layer, ...]:
    require_int("partition", partition, 0, len(network.layers))
    return network.layers[partition:]


def float_memory(
    network: NetworkConfig, partition: int, batch: int, *, adam: bool = False
) -> TrainingMemory:
    """Return the bytes of a training in float32 (Eq. 2 to 5).

    Parameters
    ----------
    network
        The layers; biases count as parameters.
    partition
        How many layers, from the first, are trained by zeroth-order steps: 0 is backpropagation
        alone, all of them zeroth order alone. Others are refused.
    batch
        Samples of a batch.
    adam
        Whether the layers that are trained by backpropagation have Adam's two moments.
    """
    tail = _tail(network, partition)
    gradients = sum(layer.parameters for layer in tail) * (3 if adam else 1)
    return TrainingMemory(
        parameters=_FLOAT * network.parameters,
        activations=_FLOAT * batch * sum(map(_activations, network.layers)),
        gradients=_FLOAT * gradients,
        errors=_FLOAT * batch * sum(map(_activations, tail)),
    )


def int8_memory(network: NetworkConfig, partition: int, batch: int) -> TrainingMemory:
    """Return the bytes of a training in int8 (Eq. 13 to 15); there are no biases.

    The arguments are those of :func:`float_memory`.
    """
    tail = _tail(network, partition)
    weights = [layer.outputs * layer.fan_in for layer in tail]
    sums = sum(prod(layer.convolved) for layer in network.layers)
    # The first layer that is trained by backpropagation hands no error on.
    errors = sum(prod(layer.inputs) for layer in tail[1:])
    return TrainingMemory(
        parameters=sum(layer.outputs * layer.fan_in for layer in network.layers),
        activations=batch * sum(map(_activations, network.layers)),
        gradients=sum(weights),
        errors=batch * sum(map(_activations, tail)),
        wide=_WIDE * (batch * (sums + errors) + sum(weights)),
    )


def streamed_memory(config: ElasticZoConfig) -> TrainingMemory:
    """Return the bytes of an int8 training through which samples stream, whatever the batch.

    Kept are: the weights, once; a sample, and the input and output of the largest layer; the pooled
    sums of the largest layer, 32 bits each, until their shift is known; the perturbations of
    convolutions, whose rows are read again; a sample's errors, and the sums of gradients.
    """
    layers, tail = config.layers, config.tail
    sizes = [(prod(layer.inputs), prod(layer.shape)) for layer in layers]
    perturbed = layers[: config.partition]
    sums = sum(layer.outputs * layer.fan_in for layer in tail)
    return TrainingMemory(
        parameters=sum(layer.outputs * layer.fan_in for layer in layers),
        activations=sizes[0][0] + max(map(sum, sizes)),
        gradients=0,
        errors=sum(prod(layer.shape) for layer in tail),
        wide=_WIDE * max(size for _, size in sizes) + -(-sums * config.accumulator_bits // 8),
        perturbations=sum(
            layer.outputs * layer.fan_in for layer in perturbed if layer.kind == "conv"
        ),
    )
