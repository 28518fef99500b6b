"""Export of a compressed network with kept weights for ``sparse_trainer``: its whole image."""

from dataclasses import dataclass
from itertools import pairwise
from math import frexp

import numpy as np
from amaranth.hdl import Shape

from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.packed import Packed
from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.networks import read_bias
from seedbed.flow.export.request import Request
from seedbed.flow.export.tensors import Tensor, packed_params, read_tensor
from seedbed.flow.export.vectors import read_vectors
from seedbed.flow.export.weights import rows_of
from seedbed.flow.importer.integers import integer_weights
from seedbed.flow.jobs.sparse_network import HEADROOM
from seedbed.golden.gemv import trellis_base
from seedbed.golden.sparse_trainer import Parameters, SparseTrainer
from seedbed.hw.kept.layer_table import row_layout
from seedbed.hw.kept.trainer_passes import class_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.cases.sparse_trainer import entry_payloads, row_payloads
from seedbed.spec import DenseLayer, SparseTrainerConfig
from seedbed.spec.sparse_trainer import MOST_BIAS_SHIFT

__all__ = ["export", "network_samples", "network_tensors"]

#: Bits that a value has over the largest one, to grow in the training.
VALUE_HEADROOM = 2
#: Bits of a sum with its bias: a bias is shifted left, so that 32 bits hold it.
BIAS_ROOM = 24
#: Left shift of the update of a layer whose values have the largest unit.
UPDATE_SHIFT = 8


@dataclass(frozen=True)
class _Dense:
    """A layer: its tensor, packed rows, biases, and fraction bits of a weight as an integer."""

    tensor: Tensor
    base: np.ndarray
    bias: np.ndarray
    bits: int

    def value_shift(self, config: SparseTrainerConfig) -> int:
        """Return the least left shift of values with which all fit, and have headroom."""
        peak = float(np.abs(self.tensor.kept.differences).max(initial=0))
        room = config.value_width - 1 - VALUE_HEADROOM
        return max(0, frexp(peak)[1] + self.bits - room) if peak else 0


def export(request: Request) -> Export:
    """Return memory, table of layers, entries, and samples with their classes and losses.

    The ranges of activations are those of the samples. Labels are random. Raises ``ValueError`` for
    tensors that are no network, or that do not fit the core.
    """
    tensors = network_tensors(request)
    params = packed_params(tensors[0], request.params)
    config = request.core.configure(params)
    dense = [_dense(config, tensor) for tensor in tensors]
    x, unit = network_samples(request, config.activation_width, tensors[0].columns)
    where = str(request.source)
    try:
        layers = _layers(config, dense, np.ldexp(x, unit), -unit)
        model = SparseTrainer(config, layers, _parameters(config, dense, layers, -unit))
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where}: {problem}") from problem
    rng = np.random.default_rng([request.seed, 2])
    labels = rng.integers(0, layers[-1].rows, len(x))
    classes, losses = model.losses(x, labels)
    entries = [
        payload for k in range(len(layers)) for payload in entry_payloads(config, model.entries(k))
    ]
    sample, result = rows_of(x, config.gemv.group), class_layout(config)
    memories = [
        Memory.integers("memory", "i_read_data", config.beat_bits, _image(model)),
        Memory.integers(
            "layers", "i_layers, all fields", row_layout(config).size, row_payloads(config, layers)
        ),
        Memory.integers(
            "entries", "i_entries, all fields", entry_layout(config.sparse).size, entries
        ),
        Memory.of("samples", "i_samples_lanes", config.activation_width, sample),
    ]
    for name, title, numbers in (
        ("labels", "i_samples_label", labels), ("classes", "o_best", classes),
        ("losses", "o_loss", losses),
    ):  # fmt: skip
        field = result["loss" if name == "losses" else "best"]
        memories.append(Memory.of(name, title, Shape.cast(field.shape).width, numbers[:, None]))
    names = ", ".join(tensor.name for tensor in tensors)
    return Export(
        core=request.core,
        params=params,
        title=f"{request.core.name}, network of {where!a}",
        memories=memories,
        constants={
            "LAYERS": len(layers), "SAMPLES": len(x), "SAMPLE_BEATS": len(sample) // len(x),
            "SAMPLE_SCALE": unit, "LOGIT_SCALE": -config.logits.fraction, "ENTRIES": len(entries),
        },
        numbers={"x": x, "y": model.forward(x)},
        notes=[
            f"{len(layers)} layers: {names}; {len(entries)} kept weights",
            f"A number of a sample is in units of 2^{unit}",
            *(
                f"Layer {k}: {layer.rows} rows of {layer.columns}, from beat {layer.address}"
                for k, layer in enumerate(layers)
            ),
        ],
    )  # fmt: skip


def network_tensors(request: Request) -> list[Tensor]:
    """Return the tensors of the layers: those that are named, or all packed ones."""
    assert request.source
    if request.tensor is not None:
        names = request.tensor.split(",")
    else:
        with Checkpoint(request.source) as file:
            names = list(Packed.of(file).tensors)
    if not names:
        raise ValueError(f"{request.source} has no packed tensor")
    found = [read_tensor(request.source, name) for name in names]
    for tensor in found:
        packed_params(tensor, {})
    for before, tensor in pairwise(found):
        if tensor.columns != before.rows:
            raise ValueError(
                f"{tensor.where} has {tensor.columns} columns, but the layer before it, "
                f"{before.name!r}, has {before.rows} rows"
            )
    return found


def _dense(config: SparseTrainerConfig, tensor: Tensor) -> _Dense:
    name = tensor.name.removesuffix(".weight") + ".bias"
    bias = read_bias(tensor.path, name, tensor.rows, optional=True)
    scale = tensor.meta.scale
    if code := config.gemv.trellis:
        base, scale = trellis_base(code, tensor.raw, tensor.columns, scale)
        return _Dense(tensor, base, bias, 8 - scale)
    # A sum of 1 is 2^-8 / (2^(B - 1) - 1) of a weight; the divisor is taken as 2^(B - 1).
    return _Dense(tensor, tensor.blocks, bias, 8 + config.word_bits - 1 - scale)


def network_samples(request: Request, width: int, columns: int) -> tuple[np.ndarray, int]:
    """Return samples (count, columns) as integers of ``width`` bits, and the exponent of a unit."""
    if request.vector:
        x, unit = read_vectors(request.vector, (columns,), width, several=True)
        return x.reshape(-1, columns), unit or 0
    return integer_weights(request.rng.random((request.count, columns)), width)


def _layers(
    config: SparseTrainerConfig, dense: list[_Dense], x: np.ndarray, fraction: int
) -> list[DenseLayer]:
    """Return the table of layers; ``fraction`` is that of ``x``."""
    # All values have the unit of the layer that needs the largest one, if shifts allow it.
    unit = min(each.bits - each.value_shift(config) for each in dense)
    layers: list[DenseLayer] = []
    address = 0
    for each in dense:
        last = each is dense[-1]
        x = x @ each.tensor.weights.T + each.bias
        x = x if last else np.maximum(x, 0)
        sums, after = fraction + each.bits, config.logits.fraction
        if not last:
            peak = frexp(float(np.abs(x).max()))[1]
            after = config.activation_width - 1 - HEADROOM - peak
        shift = min(each.bits - unit, config.most_shift)
        finer = each.bits - unit - shift
        layer = DenseLayer(
            columns=each.tensor.columns, rows=each.tensor.rows, address=address, relu=not last,
            bias_shift=_bias_shift(sums), shift=sums - after,
            entries=len(each.tensor.kept.indices), sparse_shift=shift,
            update_shift=min(UPDATE_SHIFT + finer, config.most_shift), scale=finer,
        )  # fmt: skip
        layers.append(layer)
        address += config.layer_beats(layer)
        fraction = after
    return layers


def _bias_shift(sums: int) -> int:
    return min(MOST_BIAS_SHIFT, max(0, sums - BIAS_ROOM))


def _parameters(
    config: SparseTrainerConfig, dense: list[_Dense], layers: list[DenseLayer], fraction: int
) -> list[Parameters]:
    """Return packed rows, biases and entries of all layers as integers."""
    found = []
    half = 1 << (config.value_width - 1)
    for each, layer in zip(dense, layers, strict=True):
        sums = fraction + each.bits
        biases = np.rint(each.bias * 2.0 ** (sums - layer.bias_shift))
        kept = each.tensor.kept
        values = np.rint(kept.differences * 2.0 ** (each.bits - layer.sparse_shift))
        places = np.divmod(kept.indices, each.tensor.columns)
        entries = np.column_stack([*places, values.clip(-half, half - 1)]).astype(np.int64)
        found.append(Parameters(each.base, biases, entries))
        fraction = sums - layer.shift
    return found


def _image(model: SparseTrainer) -> list[int]:
    """Return the memory from address 0 on."""
    cells = model.beats()
    return [cells.get(k, 0) for k in range(max(cells) + 1)]
