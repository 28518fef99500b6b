"""Kept weights: 16-bit differences to the blocks of a packed tensor, and their indices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import frexp, ldexp
from pathlib import Path

import ml_dtypes
import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.importance import Importance, columns_at_once
from seedbed.flow.compress.mask import read_mask, require_indices
from seedbed.flow.compress.packed import SCALES, Packed, Weights
from seedbed.flow.compress.pieces import Piece, cut, decode, floats, place, whole_rows
from seedbed.flow.run.progress import throughput_bar

__all__ = ["Kept", "apply_mask", "quantize", "read_kept", "write_kept"]

#: Storage dtypes of differences by format.
DTYPES = {
    "float16": np.dtype("<f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16), "int16": np.dtype("<i2"),
}  # fmt: skip


@dataclass(frozen=True)
class Kept:
    """Kept weights of a tensor: sorted indices, and differences as float64."""

    indices: np.ndarray
    differences: np.ndarray

    def add(self, piece: Piece, weights: Weights, values: np.ndarray) -> None:
        """Add the differences in ``piece`` to its decoded ``values`` (rows, columns)."""
        inside = piece.inside(weights, self.indices)
        first = piece.first[0] * weights.columns + piece.first[1]
        values.reshape(-1)[self.indices[inside] - first] += self.differences[inside]


def apply_mask(
    path: Path, packed: Packed, read: Checkpoint, kept: str, console: Console
) -> tuple[Packed, dict[str, np.ndarray], str]:
    """Return the metadata with the kept weights of a mask, their indices, and the mask's hash.

    Weights of tensors that are copied need not be kept. A line on ``console`` counts them.

    Raises :class:`CheckpointError` if the mask does not fit the tensors of ``read``.
    """
    shapes, indices = read_mask(path)
    chosen, copied = {}, 0
    for name, found in indices.items():
        where = f"{path}: the mask keeps weights of tensor {name!r}"
        if not len(found):
            continue
        if name not in read.tensors:
            raise CheckpointError(f"{where}, which is not in {read.path}")
        shape = read.tensors[name].shape
        if shapes[name] != shape:
            raise CheckpointError(
                f"{where} in the shape {list(shapes[name])}, but it is {list(shape)} in {read.path}"
            )
        if name in packed.tensors:
            chosen[name] = found
        else:
            copied += len(found)
    if copied:
        console.print(
            f"{copied:,} of the {copied + sum(map(len, chosen.values())):,} weights of {path} are "
            "in tensors that are not compressed: they need not be kept",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip
    tensors = {
        name: replace(weights, kept=len(chosen.get(name, ())))
        for name, weights in packed.tensors.items()
    }
    digest = sha256(repr([(name, len(found)) for name, found in chosen.items()]).encode())
    for found in chosen.values():
        digest.update(found.tobytes())
    return replace(packed, tensors=tensors, kept=kept), chosen, digest.hexdigest()


def quantize(differences: np.ndarray, kept: str) -> tuple[int, np.ndarray]:
    """Return the exponent of a power-of-two scale, and the differences divided by it in 16 bits.

    The largest magnitude is in 2^14 .. 2^15, rounded below it for ``int16``: its error is at most
    2^-15 of the largest difference. That of ``float16`` is 2^-11 of each difference above 2^-28
    of the largest one; that of ``bfloat16`` is 2^-8 of each difference.
    """
    peak = float(np.abs(differences).max(initial=0.0))
    scale = max(frexp(peak)[1] - 15, SCALES[0]) if peak else 0
    scaled = np.ldexp(differences, -scale)
    if kept == "int16":
        if np.rint(np.abs(scaled)).max(initial=0) > 0x7FFF:
            scale += 1
            scaled = scaled / 2
        scaled = np.rint(scaled)
    return scale, scaled.astype(DTYPES[kept])


def write_kept(
    read: Checkpoint, written: Checkpoint, packed: Packed, indices: Mapping[str, np.ndarray],
    importance: Mapping[str, Importance], console: Console, size: int,
) -> dict[str, float]:  # fmt: skip
    """Write the kept weights of all tensors, as differences to the blocks in ``written``.

    Where errors change later columns, kept weights are changed, too.

    Returns by tensor how much smaller its sum of squared errors is with them.
    """
    saved = {}
    with throughput_bar(console, "weights") as shown:
        task = shown.add_task("keeping", total=sum(map(len, indices.values())))
        for name, chosen in indices.items():
            weights = packed.tensors[name]
            changes = importance[name].changes if name in importance else None
            parts, wanted = [], []
            if changes is None:
                todo = cut(packed.config, name, weights, size)
            else:
                todo = whole_rows(packed.config, name, weights)
            for piece in todo:
                inside = chosen[piece.inside(weights, chosen)]
                if not len(inside):
                    continue
                raw = read.read(read.tensors[name].offset + piece.plain, piece.nbytes(weights))
                blocks = written.read(
                    place(written, packed.config, piece),
                    piece.rows * piece.row_bytes(packed.config),
                )
                decoded = decode(packed.config, piece, weights, blocks)
                targets = floats(raw, weights.dtype).reshape(decoded.shape)
                inside = inside - piece.first[0] * weights.columns - piece.first[1]
                parts.append((targets - decoded).reshape(-1)[inside])
                if changes is not None:
                    from seedbed.flow.compress.compensate import compensate

                    stored = np.zeros(decoded.shape, bool)
                    stored.reshape(-1)[inside] = True
                    step = columns_at_once(packed.config)
                    for k in range(0, weights.columns, step):
                        strip = decoded[:, k : k + step]
                        compensate(targets, strip, stored, changes, k)
                wanted.append((targets - decoded).reshape(-1)[inside])
                shown.advance(task, len(inside))
            errors, differences = np.concatenate(parts), np.concatenate(wanted)
            scale, values = quantize(differences, packed.kept)
            for part, array in (
                ("index", chosen.astype("<i4")),
                ("value", values),
                ("scale", np.array([scale], "<i4")),
            ):
                written.write(written.tensors[f"{name}.kept.{part}"].offset, array.tobytes())
            left = errors - np.ldexp(values.astype(np.float64), scale)
            saved[name] = float((errors**2).sum() - (left**2).sum())
    return saved


def read_kept(read: Checkpoint, packed: Packed, name: str) -> Kept:
    """Return the kept weights of a packed tensor, checked.

    Raises :class:`CheckpointError` with the tensor.
    """
    if not packed.tensors[name].kept:
        return Kept(np.zeros(0, np.int64), np.zeros(0))
    raw = {}
    for part in ("index", "value", "scale"):
        entry = read.tensors[f"{name}.kept.{part}"]
        raw[part] = read.read(entry.offset, entry.nbytes)
    where = f"{read.file_of(f'{name}.kept.index')}: tensor {name!r}, kept weights"
    indices = np.frombuffer(raw["index"], "<i4").astype(np.int64)
    rows, columns = packed.tensors[name].matrix
    require_indices(indices, rows * columns, where)
    scale = int(np.frombuffer(raw["scale"], "<i4")[0])
    if scale not in SCALES:
        raise CheckpointError(
            f"{where}: their scale must be an integer in {SCALES[0]}..{SCALES[-1]}, not {scale}"
        )
    values = np.frombuffer(raw["value"], DTYPES[packed.kept]).astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise CheckpointError(f"{where}: entry {wrong[0]} is {values[wrong[0]]}, not finite")
    return Kept(indices, ldexp(1.0, scale) * values)
