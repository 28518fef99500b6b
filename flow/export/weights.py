"""Export of a tensor for the cores that decode weights."""

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
)
from seedbed.golden import trellis, trellis_decompress
from seedbed.golden.lut_dequantize import dequantize
from seedbed.golden.seedlm_decompress import decompress
from seedbed.spec.gemv import EXPONENT_BITS
from seedbed.spec.lut_dequantize import LEVELS

__all__ = ["export_lut4", "export_seedlm", "export_trellis", "rows_of"]

#: Bits of a code of ``lut4``.
CODE_BITS = 4


def export_seedlm(request: Request) -> Export:
    """Return beats of blocks, row by row, and the weights that the decompressor gives.

    Raises ``ValueError`` for a tensor in another format, or with kept weights.
    """
    assert request.source
    tensor = read_tensor(request.source, request.tensor)
    params = seedlm_params(tensor, request.params)
    tensor.refuse_kept()
    config = request.core.configure(params)
    blocks = rows_of(tensor.blocks, config.blocks)
    weights, exponents = decompress(config, blocks)
    memories = [
        Memory.of("blocks", "i_blocks", config.block_bits, blocks.view(np.int64)),
        Memory.of("weights", "o_weights", config.sum_width, weights),
        Memory.of("exponents", "o_exponents", EXPONENT_BITS, exponents),
    ]
    divisor = config.half - 1
    constants = _shape(tensor, config.lanes) | {"SCALE": tensor.meta.scale, "DIVISOR": divisor}
    notes = [
        *_padding(tensor, config.lanes),
        f"A weight is integer x 2^(exponent + SCALE) / DIVISOR: SCALE {tensor.meta.scale}, "
        f"DIVISOR {divisor}",
    ]
    return Export(
        core=request.core, params=params, title=tensor.title(request.core.name),
        memories=memories, constants=constants, notes=notes,
    )  # fmt: skip


def export_trellis(request: Request) -> Export:
    """Return beats of symbols, the scale of each row, and the weights that the decompressor gives.

    The lanes after a row's last weight have those of symbols 0. Raises ``ValueError`` for a tensor
    in another format, or with kept weights.
    """
    assert request.source
    tensor = read_tensor(request.source, request.tensor)
    params = trellis_params(tensor, request.params)
    tensor.refuse_kept()
    config = request.core.configure(params)
    symbols, mantissas, exponents = trellis.unpack(config, tensor.raw, tensor.columns)
    beats = rows_of(symbols.astype(np.int64), config.lanes)
    rows = beats.reshape(tensor.rows, -1, config.lanes)
    weights = np.concatenate([trellis_decompress.decompress(config, row) for row in rows])
    memories = [
        Memory.of("symbols", "i_symbols", config.bits, beats),
        Memory.of("weights", "o_weights", config.width, weights),
        Memory.of("mantissas", "scale of a row", 8, mantissas.astype(np.int64)[:, None]),
        Memory.of("exponents", "scale of a row", 8, exponents.astype(np.int64)[:, None]),
    ]
    scale = tensor.meta.scale
    return Export(
        core=request.core, params=params, title=tensor.title(request.core.name),
        memories=memories, constants=_shape(tensor, config.lanes) | {"SCALE": scale},
        notes=[
            *_padding(tensor, config.lanes),
            f"A weight is integer x mantissa x 2^(exponent + SCALE): SCALE {scale}",
        ],
    )  # fmt: skip


def export_lut4(request: Request) -> Export:
    """Return beats of codes, beats of tables, the exponent of each row, and the weights.

    Raises ``ValueError`` for a tensor in another format, or with kept weights.
    """
    assert request.source
    tensor = read_tensor(request.source, request.tensor)
    config = request.core.configure(request.params)
    codes, levels, exponents, scale, notes = lut4_tables(tensor, config.width)
    beats = rows_of(codes, config.lanes)
    weights = dequantize(config, beats, np.repeat(levels, len(beats) // tensor.rows, axis=0))
    memories = [
        Memory.of("codes", "i_codes", CODE_BITS, beats),
        Memory.of("levels", "i_levels_levels", config.width, levels.reshape(-1, config.load)),
        Memory.of("exponents", "i_levels_exponent, a row", EXPONENT_BITS, exponents[:, None]),
        Memory.of("weights", "o_weights", config.width, weights),
    ]
    constants = _shape(tensor, config.lanes)
    constants |= {"TABLE_BEATS": LEVELS // config.load, "SCALE": scale}
    notes += [
        *_padding(tensor, config.lanes),
        f"A weight is level x 2^(exponent + SCALE): SCALE {scale}",
    ]
    return Export(
        core=request.core, params=request.params, title=tensor.title(request.core.name),
        memories=memories, constants=constants, notes=notes,
    )  # fmt: skip


def rows_of(numbers: np.ndarray, count: int) -> np.ndarray:
    """Return rows as beats of ``count`` numbers; the last beat of a row is padded with 0."""
    rows, size = numbers.shape
    padded = np.zeros((rows, -(-size // count) * count), numbers.dtype)
    padded[:, :size] = numbers
    return padded.reshape(-1, count)


def _shape(tensor: Tensor, lanes: int) -> dict[str, int]:
    beats = -(-tensor.columns // lanes)
    return {"ROWS": tensor.rows, "COLUMNS": tensor.columns, "ROW_BEATS": beats}


def _padding(tensor: Tensor, lanes: int) -> list[str]:
    found = [
        f"{tensor.rows} rows of {tensor.columns} weights ({tensor.format}), each "
        f"{-(-tensor.columns // lanes)} beats of {lanes} weights"
    ]
    if rest := tensor.columns % lanes:
        found.append(f"The last beat of each row has {rest} weights and is padded with 0")
    return found
