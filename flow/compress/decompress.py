"""Decompression of a checkpoint, piece by piece."""

from pathlib import Path

from rich.console import Console

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError, Entry
from seedbed.flow.compress.kept import Kept, read_kept
from seedbed.flow.compress.packed import Packed
from seedbed.flow.compress.pieces import PIECE, Piece, cut, decode, place, to_bytes
from seedbed.flow.compress.shards import open_checkpoint, require_target
from seedbed.flow.run.files import atomic_path
from seedbed.flow.run.progress import throughput_bar

__all__ = ["decompress"]


def decompress(source: Path, target: Path, *, console: Console, size: int = PIECE) -> None:
    """Write the weights of ``source``, which :func:`compress` wrote, to ``target``.

    Names, shapes, dtypes and metadata are the original's. ``console`` and ``size`` are those of
    :func:`compress`. Raises :class:`CheckpointError` with the tensor and the block, and
    ``OSError``.
    """
    with open_checkpoint(source) as read:
        require_target(source, target)
        packed = Packed.of(read)
        unchanged = read.tensors.keys() - packed.entries.keys()
        tensors = {name: read.tensors[name] for name in unchanged}
        tensors |= {
            name: Entry(weights.dtype, weights.shape) for name, weights in packed.tensors.items()
        }
        with atomic_path(target) as part, throughput_bar(console) as shown:
            task = shown.add_task("decompressing", total=packed.blocks)
            with Checkpoint.create(part, tensors, packed.metadata) as written:
                for name, weights in packed.tensors.items():
                    kept = read_kept(read, packed, name)
                    for piece in cut(packed.config, name, weights, size):
                        _restore(read, written, packed, piece, kept)
                        shown.advance(task, piece.rows * piece.blocks(packed.config))
                for name in unchanged:
                    read.copy(name, written)
                written.sync()


def _restore(
    read: Checkpoint, written: Checkpoint, packed: Packed, piece: Piece, kept: Kept
) -> None:
    weights = packed.tensors[piece.name]
    raw = read.read(place(read, packed.config, piece), piece.rows * piece.row_bytes(packed.config))
    try:
        found = decode(packed.config, piece, weights, raw)
    except ValueError as problem:
        file = read.file_of(f"{piece.name}.{packed.format}")
        raise CheckpointError(f"{file}: tensor {piece.name!r}, {problem}") from problem
    kept.add(piece, weights, found)
    offset = written.tensors[piece.name].offset + piece.plain
    written.write(offset, to_bytes(found, weights.dtype))
