"""Export of a network's parameters for the cores that train it, with images and their classes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.compress.pieces import floats
from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.request import Request
from seedbed.flow.export.tensors import read_tensor
from seedbed.flow.export.vectors import read_array
from seedbed.flow.importer.imported import read_adapters
from seedbed.flow.importer.integers import int8_layers
from seedbed.golden.engine import adapter_rows, frozen_rows
from seedbed.golden.engine import words as row_words
from seedbed.golden.instantft import InstantFt, quantised
from seedbed.golden.zo_trainer import ZoTrainer
from seedbed.hw.adapters.instantft import result_layout
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout
from seedbed.sim.payloads import image_beats
from seedbed.spec.network import Layer

__all__ = ["export_instantft", "export_zo", "read_bias"]

#: Standard deviation of the adapters' A.
DEVIATION = 0.05
#: Bits of a weight of ``zo_trainer``, and of a pixel.
WEIGHT_BITS, PIXEL_BITS = 8, 8


def export_zo(request: Request) -> Export:
    """Return the packet of a network in int8, and the classes of images.

    Every layer's weights are integers in units of a power of two. Raises ``ValueError`` for a file
    that lacks a layer, or has another shape.
    """
    config = request.core.configure(request.params)
    weights, exponents = int8_layers(config.layers, _parameters(request, config.layers))
    model = ZoTrainer(config, weights, exponents)
    images = _images(request, config.layers[0])
    classes = model.infer(images)
    notes = [f"weights of {name} are int8 in units of 2^{e}" for name, e in exponents.items()]
    if any(layer.bias for layer in config.network.layers):
        notes.append("biases are left out, which the core does not have")
    memories = [
        Memory.of("parameters", "i_parameters_word", WEIGHT_BITS, model.words()),
        *_samples(images, config.ways),
        _field("classes", "o_best", class_layout(config)["best"], classes),
    ]
    return _export(
        request, memories, notes, images, classes, EXPONENT=model.exponent,
        SAMPLE_BEATS=config.image_beats,
    )  # fmt: skip


def export_instantft(request: Request) -> Export:
    """Return packets of a frozen network and of its adapters, and classes and losses of images.

    Adapters are those of a file, or have random A, of the seed, and B of 0. Labels are random.
    Raises ``ValueError`` for a file that lacks a layer, or has another shape.
    """
    config = request.core.configure(request.params)
    layers = config.network.layers
    real = _parameters(request, layers)
    weights = quantised(config, real)
    images = _images(request, layers[0])
    model = InstantFt(config, weights, np.random.default_rng([request.seed, 1]), DEVIATION)
    if request.adapters:
        model.lora.a, model.lora.b = read_adapters(
            request.adapters, config.network, config.rank, config.adapters
        )
    labels = np.random.default_rng([request.seed, 2]).integers(0, layers[-1].outputs, len(images))
    scored = model.score(model.base(images), labels)[1]
    plan, form = config.engine.plan, config.weights
    rows = adapter_rows(plan, model.lora.a, model.lora.b, config.adapters.one)
    low, high = form.low / form.one, form.high / form.one
    beyond = sum(int(((part < low) | (part > high)).sum()) for part in real.values())
    notes = [f"weights are in {form}, {beyond} of them saturated"]
    layout, frozen = result_layout(config), frozen_rows(plan, layers, weights)
    samples = _samples(images, config.ways)
    memories = [
        Memory.of("network", "i_parameters_word", form.width, row_words(frozen)),
        Memory.of("adapters", "i_parameters_word", form.width, row_words(rows)),
        *samples,
        _field("labels", "i_samples_label", sample_layout(config)["label"], labels),
        _field("classes", "o_best", layout["best"], scored.classes),
        _field("losses", "o_loss", layout["loss"], scored.losses),
    ]
    beats = samples[0].words // len(images)
    return _export(request, memories, notes, images, scored.classes, SAMPLE_BEATS=beats)


def _parameters(request: Request, layers: Iterable[Layer]) -> dict[str, np.ndarray]:
    """Return ``NAME.weight`` and ``NAME.bias`` of all layers, float64, packed ones decoded."""
    assert request.source
    found = {}
    for layer in layers:
        name = f"{layer.name}.weight"
        tensor = read_tensor(request.source, name)
        if (tensor.rows, tensor.columns) != (layer.outputs, layer.fan_in):
            raise ValueError(
                f"{tensor.where} must be a matrix of {layer.outputs} x {layer.fan_in}, not "
                f"{tensor.rows} x {tensor.columns}"
            )
        found[name] = tensor.weights
        if layer.bias:
            name = f"{layer.name}.bias"
            found[name] = read_bias(request.source, name, layer.outputs)
    return found


def read_bias(path: Path, name: str, outputs: int, *, optional: bool = False) -> np.ndarray:
    """Return biases of a file, float64; zeros if they are ``optional`` and not there.

    Raises ``ValueError`` with the file's name.
    """
    with Checkpoint(path) as file:
        entry = file.tensors.get(name)
        if entry is None and optional:
            return np.zeros(outputs)
        if entry is None or entry.dtype not in FLOATS or entry.shape != (outputs,):
            raise ValueError(f"{path} must have {name!r}, {outputs} floating-point numbers")
        found = floats(file.read(entry.offset, entry.nbytes), entry.dtype)
    if not np.isfinite(found).all():
        raise ValueError(f"{path}: tensor {name!r} has numbers that are not finite")
    return found


def _images(request: Request, first: Layer) -> np.ndarray:
    """Return images (count, C, H, W) of bytes: those of a file, or random ones."""
    if not request.vector:
        return request.rng.integers(0, 256, (request.count, *first.inputs), np.uint8)
    found = read_array(request.vector)
    if found.dtype != np.uint8 or found.shape[1:] != first.inputs or not len(found):
        raise ValueError(
            f"{request.vector} must be an array of N x {' x '.join(map(str, first.inputs))} bytes, "
            f"uint8, not of {' x '.join(map(str, found.shape))} {found.dtype}"
        )
    return found


def _samples(images: np.ndarray, ways: int) -> list[Memory]:
    beats = image_beats(images.astype(np.int64), ways)
    return [Memory.of("samples", "i_samples_pixels", PIXEL_BITS, beats.reshape(-1, ways))]


def _field(name: str, title: str, field: data.Field, numbers: np.ndarray) -> Memory:
    return Memory.of(name, title, Shape.cast(field.shape).width, numbers[:, None])


def _export(
    request: Request, memories: list[Memory], notes: list[str], images: np.ndarray,
    classes: np.ndarray, **constants: int,
) -> Export:  # fmt: skip
    assert request.source
    return Export(
        core=request.core,
        params=request.params,
        title=f"{request.core.name}, network of {request.source.name!a}",
        memories=memories,
        constants={"SAMPLES": len(images), **constants},
        numbers={"images": images, "y": classes},
        notes=[each[0].upper() + each[1:] for each in notes],
    )
