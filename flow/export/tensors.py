"""Tensors of a safetensors file: packed rows as they are, or any weights as integers."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError
from seedbed.flow.compress.kept import Kept, read_kept
from seedbed.flow.compress.packed import KEY, Packed, Weights, unpack_rows
from seedbed.flow.compress.pieces import cut, decode, floats, place
from seedbed.golden.gemv import lut4_rows, trellis_rows
from seedbed.spec.lut_dequantize import LEVELS
from seedbed.spec.packing import Lut4Config
from seedbed.spec.trellis import CODES, TrellisConfig

__all__ = [
    "BLOCK",
    "CODE",
    "Tensor",
    "lut4_tables",
    "packed_params",
    "read_tensor",
    "seedlm_params",
    "trellis_params",
    "trellis_scales",
]

#: Parameters of SeedLM's blocks.
BLOCK = ("block", "latent", "width", "word_bits", "taps")
#: Parameters of a trellis code.
CODE = ("bits", "state_bits", "code")


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A matrix of a file.

    Parameters
    ----------
    path, name, rows, columns
        The file, the name of the tensor, and the shape of its matrix.
    weights
        All weights as float64 of shape (rows, columns), kept weights included.
    packed
        Metadata of a packed file, or ``None`` for a tensor that is not packed.
    raw
        The packed rows, uint8 of shape (rows, bytes); none if the tensor is not packed.
    kept
        The kept weights.
    """

    path: Path
    name: str
    rows: int
    columns: int
    weights: np.ndarray
    packed: Packed | None
    raw: np.ndarray
    kept: Kept

    @property
    def where(self) -> str:
        """File and tensor, as the start of a sentence."""
        return f"{self.path}: tensor {self.name!r}"

    def title(self, core: str) -> str:
        """Return what is exported for a core, as a phrase of one line."""
        return f"{core}, tensor {self.name!a} of {self.path.name!a}"

    @property
    def meta(self) -> Weights:
        """Metadata of a packed tensor."""
        assert self.packed
        return self.packed.tensors[self.name]

    @property
    def format(self) -> str:
        """Format of the packed rows, or "float"."""
        return self.packed.format if self.packed else "float"

    @property
    def blocks(self) -> np.ndarray:
        """SeedLM's blocks, uint64 of shape (rows, blocks per row)."""
        assert self.packed
        config = self.packed.seedlm
        return unpack_rows(config, self.raw, self.meta.blocks(config))

    def refuse_kept(self) -> None:
        """Raise ``ValueError`` if weights are kept."""
        if len(self.kept.indices):
            raise ValueError(f"{self.where} has kept weights, which are not multiplied")


def read_tensor(path: Path, name: str | None) -> Tensor:
    """Return a tensor of a file: a packed one, or a floating-point matrix.

    Without a name, it is the first packed tensor, or the first matrix of a file without any. A
    tensor of several dimensions is a matrix of its first dimension by all others. Every block is
    decoded, and thereby checked. Raises ``CheckpointError`` with the file and the tensor, and
    ``ValueError`` for a name that the file does not have.
    """
    with Checkpoint(path) as file:
        packed = Packed.of(file) if KEY in file.metadata else None
        plain = {
            each: entry
            for each, entry in file.tensors.items()
            if entry.dtype in FLOATS and len(entry.shape) > 1 and min(entry.shape)
        }
        known = [*(packed.tensors if packed else ()), *plain]
        if not known:
            raise ValueError(f"{path} has no packed tensor and no floating-point matrix")
        if name is not None and name not in known:
            raise ValueError(f"{path} has no matrix {name!r}; there are {', '.join(known)}")
        name = name or known[0]
        if packed and name in packed.tensors:
            return _packed(file, packed, name)
        entry = plain[name]
        weights = floats(file.read(entry.offset, entry.nbytes), entry.dtype)
        if not np.isfinite(weights).all():
            raise CheckpointError(f"{path}: tensor {name!r} has weights that are not finite")
        rows, columns = entry.shape[0], prod(entry.shape[1:])
        return Tensor(
            path=path, name=name, rows=rows, columns=columns,
            weights=weights.reshape(rows, columns), packed=None, raw=np.zeros((rows, 0), np.uint8),
            kept=Kept(np.zeros(0, np.int64), np.zeros(0)),
        )  # fmt: skip


def _packed(file: Checkpoint, packed: Packed, name: str) -> Tensor:
    meta, config = packed.tensors[name], packed.config
    kept = read_kept(file, packed, name)
    found = np.empty(meta.matrix)
    for piece in cut(config, name, meta):
        raw = file.read(place(file, config, piece), piece.rows * piece.row_bytes(config))
        try:
            weights = decode(config, piece, meta, raw)
        except ValueError as problem:
            raise CheckpointError(f"{file.path}: tensor {name!r}, {problem}") from problem
        kept.add(piece, meta, weights)
        (row, column), (height, width) = piece.first, weights.shape
        found[row : row + height, column : column + width] = weights
    entry = file.tensors[f"{name}.{packed.format}"]
    rows = np.frombuffer(file.read(entry.offset, entry.nbytes), np.uint8).reshape(entry.shape)
    return Tensor(
        path=file.path, name=name, rows=meta.rows, columns=meta.columns, weights=found,
        packed=packed, raw=rows, kept=kept,
    )  # fmt: skip


def seedlm_params(tensor: Tensor, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` with those of the tensor's blocks.

    Raises ``ValueError`` for a tensor in another format, and for a parameter that differs.
    """
    if tensor.format != "seedlm":
        raise ValueError(f"{tensor.where} is not in SeedLM's blocks, but in {tensor.format}")
    return _params(tensor, params, BLOCK, "blocks")


def trellis_params(tensor: Tensor, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` with those of the tensor's trellis code.

    Raises ``ValueError`` for a tensor in another format, and for a parameter that differs.
    """
    if tensor.format != "trellis":
        raise ValueError(f"{tensor.where} is not in a trellis code, but in {tensor.format}")
    found = _params(tensor, params, CODE, "a code")
    if found["code"] == CODES.get((found["bits"], found["state_bits"])):
        found["code"] = None
    return found


def packed_params(tensor: Tensor, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``params`` with those of the tensor's blocks or trellis code, and its ``decode``.

    Raises ``ValueError`` as :func:`seedlm_params`.
    """
    decode = "trellis" if tensor.format == "trellis" else "seedlm"
    if (given := params.get("decode", decode)) != decode:
        raise ValueError(f"{tensor.where} is in {tensor.format}: decode must not be {given}")
    find = trellis_params if decode == "trellis" else seedlm_params
    return find(tensor, {**params, "decode": decode})


def _params(
    tensor: Tensor, params: Mapping[str, Any], names: tuple[str, ...], what: str
) -> dict[str, Any]:
    assert tensor.packed
    found = {name: getattr(tensor.packed.config, name) for name in names}
    for name, value in found.items():
        if params.get(name, value) not in (value, None, 0):
            raise ValueError(f"{tensor.where} has {what} of {name}={value}, not {params[name]}")
    return {**params, **found}


def lut4_tables(
    tensor: Tensor, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, list[str]]:
    """Return codes, levels and exponents of a tensor, the scale of all weights, and what changed.

    Exponents are those of the rows less the scale, -8 .. 7; levels of rows whose exponent would be
    less are rounded. Raises ``ValueError`` for a tensor in another format, or with kept weights,
    and for levels of more than ``width`` bits.
    """
    if tensor.format != "lut4":
        raise ValueError(f"{tensor.where} is not in the format lut4, but in {tensor.format}")
    tensor.refuse_kept()
    codes, levels, exponents, scale = lut4_rows(tensor.raw, tensor.columns)
    half = 1 << (width - 1)
    if levels.min() < -half or levels.max() >= half:
        raise ValueError(f"{tensor.where} has levels of {Lut4Config.level_bits} bits, not {width}")
    own = tensor.raw[:, 0].view(np.int8).astype(np.int64) - scale
    small = (own < exponents) & tensor.raw[:, 1 : 1 + 2 * LEVELS].any(axis=1)
    count = int(small.sum())
    notes = [f"The levels of {count} rows of small weights are rounded"] if count else []
    return codes, levels, exponents, tensor.meta.scale + scale, notes


def trellis_scales(
    tensor: Tensor,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, list[str]]:
    """Return symbols, mantissas and exponents of a trellis code, the scale, and what changed.

    Exponents are those of the rows less the scale, -8 .. 7; mantissas of rows whose exponent would
    be less are rounded. Raises ``ValueError`` for a tensor with kept weights.
    """
    assert tensor.packed
    assert isinstance(tensor.packed.config, TrellisConfig)
    tensor.refuse_kept()
    rows = trellis_rows(tensor.packed.config, tensor.raw, tensor.columns)
    symbols, mantissas, exponents, scale = rows
    own = tensor.raw[:, 1].view(np.int8).astype(np.int64) - scale
    count = int(((own < exponents) & (tensor.raw[:, 0] > 0)).sum())
    notes = [f"The scales of {count} rows of small weights are rounded"] if count else []
    return symbols, mantissas, exponents, tensor.meta.scale + scale, notes
