"""Export of a matrix and a vector for ``gemv``."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.request import Request
from seedbed.flow.export.tensors import (
    Tensor,
    lut4_tables,
    read_tensor,
    seedlm_params,
    trellis_params,
    trellis_scales,
)
from seedbed.flow.export.vectors import read_vectors
from seedbed.flow.importer.integers import integer_weights
from seedbed.golden.gemv import Gemv
from seedbed.hw.products.gemv_layouts import scale_layout
from seedbed.spec import GemvConfig

__all__ = ["export"]

#: Decoders for formats of tensors.
_DECODES = {"seedlm": "seedlm", "trellis": "trellis", "lut4": "lut4"}


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    """A matrix in the core's integers.

    Parameters
    ----------
    beats
        uint8 of shape (beats, bytes a beat).
    lanes
        Weights of a beat.
    sums
        The product with the vector, as the model computes it.
    scale, divisor
        A sum is worth 2^scale / divisor, in units of the vector.
    plain
        Whether weights are plain.
    scales
        Mantissa and exponent of each row, or nothing.
    notes
        What was rounded.
    """

    beats: np.ndarray
    lanes: int
    sums: np.ndarray
    scale: int
    divisor: int = 1
    plain: bool = False
    scales: np.ndarray | None = None
    notes: tuple[str, ...] = ()


def export(request: Request) -> Export:
    """Return beats of a matrix, of a vector, and the product.

    Blocks of seeds, symbols and rows of codes are taken as they are. All other weights become plain
    integers. Raises ``ValueError`` with file and tensor if they do not fit.
    """
    assert request.source
    tensor = read_tensor(request.source, request.tensor)
    params = _params(request, tensor)
    config = request.core.configure(params)
    if config.sparse:
        raise ValueError(f"entries must be default, without a side path, not {config.entries}")
    if not 1 <= tensor.columns <= config.columns or tensor.rows >= 1 << config.row_width:
        raise ValueError(
            f"{tensor.where} has {tensor.rows} rows of {tensor.columns} columns; columns="
            f"{config.columns} and row_width={config.row_width} allow at most {config.columns} "
            f"columns and {(1 << config.row_width) - 1} rows"
        )
    x, unit = _vector(request, config, tensor.columns)
    model = Gemv(config)
    matrix = _matrix(model, tensor, x)
    return Export(
        core=request.core,
        params=params,
        title=tensor.title(request.core.name),
        memories=_memories(config, model, matrix, x),
        constants=_constants(config, tensor, matrix, unit),
        numbers={"x": x, "y": matrix.sums},
        notes=_notes(config, tensor, matrix, unit),
    )


def _params(request: Request, tensor: Tensor) -> dict[str, Any]:
    """Return all parameters: those that are not given are as the tensor needs them."""
    params = dict(request.params)
    params.setdefault("decode", _DECODES.get(tensor.format, "plain"))
    if params["decode"] == tensor.format == "seedlm":
        params = seedlm_params(tensor, params)
    elif params["decode"] == "trellis":
        params = trellis_params(tensor, params)
    return params


def _vector(request: Request, config: GemvConfig, columns: int) -> tuple[np.ndarray, int | None]:
    """Return x and the exponent of its unit."""
    shape = (columns,) if config.vectors == 1 else (config.vectors, columns)
    if request.vector:
        return read_vectors(request.vector, shape, config.activation_width)
    half = 1 << (config.activation_width - 1)
    return request.rng.integers(-half, half, shape), None


def _matrix(model: Gemv, tensor: Tensor, x: np.ndarray) -> _Matrix:
    config = model.config
    if config.decode == "lut4":
        return _lut4(model, tensor, x)
    if config.trellis:
        return _trellis(model, tensor, x)
    if config.decode == "seedlm" and tensor.format == "seedlm":
        tensor.refuse_kept()
        beats = model.packed_beats(tensor.blocks)
        return _Matrix(
            beats=beats.reshape(-1, beats.shape[-1]),
            lanes=config.lanes,
            sums=model.packed_product(tensor.blocks, x),
            scale=tensor.meta.scale - 8,
            divisor=config.half - 1,
        )
    weights, exponent = integer_weights(tensor.weights, config.plain_width)
    energy = float(np.linalg.norm(tensor.weights)) or 1.0
    error = float(np.linalg.norm(np.ldexp(weights, exponent) - tensor.weights)) / energy
    beats = model.plain_beats(weights)
    return _Matrix(
        beats=beats.reshape(-1, beats.shape[-1]), lanes=config.plain_lanes,
        sums=model.plain_product(weights, x), scale=exponent, plain=True,
        notes=(
            f"Weights are integers of {config.plain_width} bits, in units of 2^{exponent}: "
            f"relative error {error:.2g}",
        ),
    )  # fmt: skip


def _lut4(model: Gemv, tensor: Tensor, x: np.ndarray) -> _Matrix:
    codes, levels, exponents, scale, notes = lut4_tables(tensor, model.config.level_width)
    return _Matrix(
        beats=model.lut4_beats(codes, levels, exponents),
        lanes=model.config.lanes,
        sums=model.lut4_product(codes, levels, exponents, x),
        scale=scale - 8,
        notes=tuple(notes),
    )


def _trellis(model: Gemv, tensor: Tensor, x: np.ndarray) -> _Matrix:
    symbols, mantissas, exponents, scale, notes = trellis_scales(tensor)
    beats = model.trellis_beats(symbols)
    return _Matrix(
        beats=beats.reshape(-1, beats.shape[-1]),
        lanes=model.config.lanes,
        sums=model.trellis_product(symbols, mantissas, exponents, x),
        scale=scale - 8,
        scales=np.column_stack([mantissas, exponents]),
        notes=tuple(notes),
    )


def _memories(config: GemvConfig, model: Gemv, matrix: _Matrix, x: np.ndarray) -> list[Memory]:
    vector = model.vector_beats(x).reshape(-1, config.vectors * config.group)
    sums = matrix.sums.reshape(-1, config.vectors)
    scales = []
    if matrix.scales is not None:
        layout = scale_layout()
        words = [
            layout.const({"mantissa": mantissa, "exponent": exponent}).as_bits()
            for mantissa, exponent in matrix.scales.tolist()
        ]
        scales = [Memory.integers("scales", "i_scales, all fields", layout.size, words)]
    return [
        *scales,
        Memory(name="weights", title="i_weights_data", width=config.beat_bits, raw=matrix.beats),
        Memory.of("vector", "i_vector_lanes", config.activation_width, vector),
        Memory.of("sums", "o_sum", config.result_width, sums),
    ]


def _constants(
    config: GemvConfig, tensor: Tensor, matrix: _Matrix, unit: int | None
) -> dict[str, int]:
    beats = -(-tensor.columns // matrix.lanes)
    lengths = [beats] * tensor.rows
    if config.decode == "lut4":
        lengths = config.row_beats(tensor.columns, tensor.rows)
    return {
        "ROWS": tensor.rows,
        "ROWS_BITS": config.row_width,
        "COLUMNS": tensor.columns,
        "COLUMNS_BITS": config.columns.bit_length(),
        "PLAIN": int(matrix.plain),
        "FIRST_ROW_BEATS": lengths[0],
        "ROW_BEATS": lengths[len(lengths) // 2],
        "LAST_ROW_BEATS": lengths[-1],
        "SCALE": matrix.scale,
        "DIVISOR": matrix.divisor,
        "VECTOR_SCALE": unit or 0,
    }


def _notes(config: GemvConfig, tensor: Tensor, matrix: _Matrix, unit: int | None) -> list[str]:
    lanes, beats = matrix.lanes, -(-tensor.columns // matrix.lanes)
    found = [
        f"{tensor.rows} rows of {tensor.columns} weights ({tensor.format}), each {beats} beats of "
        f"{lanes} weights",
        *matrix.notes,
    ]
    if tensor.columns % lanes:
        found.append(
            f"The last beat of each row has {tensor.columns % lanes} weights and is padded with 0"
        )
    if tensor.columns % config.group:
        found.append(
            f"The last beat of the vector has {tensor.columns % config.group} numbers of "
            f"{config.group} and is padded with 0"
        )
    if unit is not None:
        found.append(
            f"The vector is integers of {config.activation_width} bits, in units of 2^{unit}"
        )
    divisor = f" / {matrix.divisor}" if matrix.divisor > 1 else ""
    found.append(f"A sum of 1 is 2^{matrix.scale + (unit or 0)}{divisor}")
    return found
