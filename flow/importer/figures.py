# amaranth: UnusedElaboratable=no
"""Figures of a network: accuracy in float and in the integers of cores, and what the cores take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.flow.fpga.devices import DEVICES, blocks
from seedbed.flow.importer.images import Images
from seedbed.flow.importer.integers import int8_layers
from seedbed.flow.importer.model import CORES
from seedbed.golden import network as floating
from seedbed.golden.conv_engine import frozen
from seedbed.golden.elasticzo import ElasticZo, Network
from seedbed.golden.fixed import Saturations, to_fixed
from seedbed.golden.instantft import InstantFt
from seedbed.hw.engine.conv_engine import START
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.spec.conv_engine import ConvEngineConfig
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Q4_12, Q6_12, Fixed
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import NetworkConfig
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["Formats", "Size", "accuracies", "calibrated", "sizes"]

#: Images of a forward pass in integers: bounds the memory.
PART = 128
#: Why there is no accuracy of a core that takes bytes.
NO_BYTES = "the images must be in 0..1, as the core takes bytes"
Parameters = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Formats:
    """Formats of values and of weights in fixed point."""

    values: Fixed = Q6_12
    weights: Fixed = Q4_12


def calibrated(network: NetworkConfig, parameters: Parameters, x: np.ndarray) -> Formats:
    """Return the formats, as wide as the defaults, with the most fraction bits.

    Values have room for twice what they are on ``x``, and for 1; weights for the largest one.
    """
    peak = max(1.0, float(np.abs(x).max()))
    for k in range(0, len(x), PART):
        for _, _, y in floating.forward(network, parameters, x[k : k + PART]):
            peak = max(peak, float(np.abs(y).max()))
    largest = max(float(np.abs(value).max()) for value in parameters.values())
    return Formats(_form(Q6_12.width, 2 * peak), _form(Q4_12.width, largest))


def _form(width: int, peak: float) -> Fixed:
    """Return the format of the most fraction bits that holds ``peak``."""
    whole = next(n for n in range(1, width + 1) if n == width or peak < 1 << (n - 1))
    return Fixed(width, min(width - whole, width - 1))


def accuracies(
    network: NetworkConfig, parameters: Parameters, images: Images, formats: Formats
) -> dict[str, float | str]:
    """Return the share of images, 0..1, that are classified correctly, in float and in each core.

    What a core does not take has a sentence in place of the share.
    """
    whole = {name: to_fixed(value, formats.weights) for name, value in parameters.items()}
    return {
        "float": floating.accuracy(network, parameters, images.x, images.labels),
        "conv_engine": _fixed(network, whole, images, formats),
        "instantft": _instantft(network, whole, images, formats),
        "zo_trainer": _int8(network, parameters, images),
    }


def _fixed(network: NetworkConfig, whole: Parameters, images: Images, formats: Formats) -> float:
    right = 0
    for k in range(0, len(images.x), PART):
        x = to_fixed(images.x[k : k + PART], formats.values)
        *_, logits = frozen(
            network, whole, x,
            values=formats.values, weights=formats.weights, saturations=Saturations(),
        )  # fmt: skip
        right += int((logits.argmax(axis=1) == images.labels[k : k + PART]).sum())
    return right / len(images.x)


def _instantft(
    network: NetworkConfig, whole: Parameters, images: Images, formats: Formats
) -> float | str:
    """Return the accuracy before any training, of images of bytes."""
    if images.pixels is None:
        return NO_BYTES
    try:
        config = InstantFtConfig(network=network, values=formats.values, weights=formats.weights)
    except ValueError as problem:
        return str(problem)
    # Adapters are not used: a network without them is frozen.
    model = InstantFt(config, whole, np.random.default_rng(0), deviation=0)
    classes = model.base(images.pixels).logits.argmax(axis=1)
    return float((classes == images.labels).mean())


def _int8(network: NetworkConfig, parameters: Parameters, images: Images) -> float | str:
    """Return the accuracy of zo_trainer, whose weights have an exponent a layer and no biases."""
    pixels = images.pixels
    if pixels is None:
        return NO_BYTES
    try:
        config = ZoTrainerConfig(network=network)
    except ValueError as problem:
        return str(problem)
    integers, exponents = int8_layers(network.layers, parameters)
    weights = {name: values.astype(np.float32) for name, values in integers.items()}
    # No perturbation is drawn.
    model = ElasticZo(config.model, Network(weights, exponents), source=_no_source)
    # The core takes the upper seven bits of a byte.
    return model.evaluate((pixels >> 1).astype(np.float32), images.labels)[1]


def _no_source(*_: Any) -> np.ndarray:
    raise AssertionError("a forward pass without perturbation draws none")


@dataclass(frozen=True)
class Size:
    """What a core takes for a network; ``problem`` is why it cannot be built.

    Parameters
    ----------
    cycles
        Of a forward pass.
    rows
        Rows of the weights' memory, with adapters where there are any.
    multipliers
        Of the array.
    weight_bits, activation_bits
        Sizes of both memories.
    block_rams
        Of an ECP5, for both memories.
    fits
        Devices that have as many block RAMs and multipliers.
    """

    core: str
    lanes: int
    ways: int
    cycles: int = 0
    rows: int = 0
    multipliers: int = 0
    weight_bits: int = 0
    activation_bits: int = 0
    block_rams: int = 0
    fits: tuple[str, ...] = ()
    problem: str = ""


def sizes(network: NetworkConfig, formats: Formats) -> list[Size]:
    """Return the size of each core that runs a network, with 32 lanes and with 8."""
    found = []
    for core in CORES:
        for lanes in (32, 8):
            try:
                engine = _engine(core, network, formats, lanes)
            except ValueError as problem:
                found.append(Size(core, lanes, WAYS, problem=str(problem)))
            else:
                found.append(_size(core, engine))
    return found


#: Outputs at a time.
WAYS = 4


def _engine(core: str, network: NetworkConfig, formats: Formats, lanes: int) -> EngineConfig:
    common: dict[str, Any] = {"network": network, "lanes": lanes, "ways": WAYS}
    if core == "zo_trainer":
        return ZoTrainerConfig(**common).engine
    common |= {"values": formats.values, "weights": formats.weights}
    if core == "conv_engine":
        return ConvEngineConfig(**common).engine
    config = InstantFtConfig(**common)
    # The cache has limits, too.
    _ = config.forward_cache
    return config.engine


def _size(core: str, engine: EngineConfig) -> Size:
    plan, memory = engine.plan, ParameterMemory(engine)
    multipliers, depth = plan.ways * plan.lanes, 2 * plan.store_rows
    # Two neighbouring lanes share a memory of weights.
    rams = multipliers // 2 * blocks(2 * memory.width, memory.depth)
    rams += plan.lanes * blocks(engine.number, depth)
    return Size(
        core=core,
        lanes=plan.lanes,
        ways=plan.ways,
        cycles=START + cycles(engine, *plan.base),
        rows=memory.depth,
        multipliers=multipliers,
        weight_bits=memory.depth * multipliers * memory.width,
        activation_bits=depth * plan.lanes * engine.number,
        block_rams=rams,
        fits=tuple(
            name
            for name, device in DEVICES.items()
            if rams <= device.block_rams and multipliers <= device.multipliers
        ),
    )
