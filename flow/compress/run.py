"""Compression of a checkpoint, piece by piece, with resumption after an interruption."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import prod, sqrt
from pathlib import Path
from zlib import crc32

import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError, Entry
from seedbed.flow.compress.importance import Importance, read_importance
from seedbed.flow.compress.journal import Journal, is_journal
from seedbed.flow.compress.kept import apply_mask, write_kept
from seedbed.flow.compress.packed import Config, Packed, Weights
from seedbed.flow.compress.pieces import (
    PIECE,
    Found,
    Piece,
    Work,
    encode,
    in_strips,
    pieces,
    read_packed,
    read_plain,
    write_packed,
)
from seedbed.flow.compress.plan import Options, plan
from seedbed.flow.compress.shards import open_checkpoint, require_target
from seedbed.flow.compress.workers import Pool, results
from seedbed.flow.run.files import require_outputs
from seedbed.flow.run.progress import throughput_bar
from seedbed.spec import SeedlmConfig

__all__ = ["Summary", "compress", "relative"]

#: Yields all pieces in the order of their index.
Pieces = Callable[[], Iterator[Piece]]


@dataclass(frozen=True)
class Summary:
    """Result of a tensor: bits per weight, and errors relative to the RMS of the weights.

    ``bits`` and ``error`` include kept weights. ``plain`` is the error of block floating point with
    the same bits as SeedLM's blocks; other formats have none. A tensor that is copied, because it
    would not shrink, has the ``bits`` that blocks would need, and no errors.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bits: float
    error: float | None = None
    plain: float | None = None


def compress(
    source: Path, target: Path, options: Options, *, pool: Pool, console: Console,
    size: int = PIECE, force: bool = False,
) -> list[Summary]:  # fmt: skip
    """Compress ``source`` to ``target``, and return a summary of each tensor.

    A partial file and a journal are written to the folder of ``target``; an interrupted run is
    resumed from them. The result depends on ``source`` and ``options`` alone.

    Parameters
    ----------
    pool
        Workers of the search; see :mod:`seedbed.flow.compress.workers`.
    console
        Output of the progress.
    size
        Approximate weights per piece.
    force
        Whether files with the names of the partial file and of the journal are overwritten if no
        interrupted run wrote them.

    Raises :class:`CheckpointError`, ``OSError``, and ``ValueError`` for a journal of another run.
    """
    with open_checkpoint(source) as read:
        require_target(source, target)
        part, record = (target.with_name(target.name + end) for end in (".part", ".journal"))
        if not is_journal(record):
            require_outputs(record, part, force=force)
            record.unlink(missing_ok=True)
        stamp = read.stamp()
        packed, incompressible, digest = plan(read, options, console, size)
        kept: dict[str, np.ndarray] = {}
        mask = None
        if options.keep is not None:
            packed, kept, mask = apply_mask(options.keep, packed, read, options.keep_as, console)
        importance: dict[str, Importance] = {}
        used = None
        if options.importance is not None:
            importance, used = read_importance(
                options.importance, packed.config, packed.tensors, source
            )
        todo = partial(pieces, packed, size, importance)
        run = {
            "version of seedbed": version("seedbed"),
            "input": digest,
            "version of the packed form": packed.version,
            "configuration": repr(options.config),
            "rule": options.rule,
            "scale": options.scale,
            "selection of tensors": list(packed.tensors),
            "size of pieces": size,
            "kept weights": mask and [mask, packed.kept],
            "importance": used,
        }
        with Journal(record, run) as journal:
            try:
                with _open_part(part, read, packed) as written:
                    _search(
                        read,
                        written,
                        packed,
                        journal,
                        todo,
                        importance,
                        kept,
                        pool=pool,
                        console=console,
                    )
                    saved = write_kept(read, written, packed, kept, importance, console, size)
                    for name in read.tensors.keys() - packed.tensors.keys():
                        read.copy(name, written)
                    written.sync()
                if read.stamp() != stamp:
                    raise CheckpointError(f"{source} was written to while it was compressed")
            except BaseException:
                if not journal.done:
                    part.unlink(missing_ok=True)
                    journal.remove()
                raise
            part.replace(target)
            journal.remove()
            return _summaries(packed, incompressible, journal, todo, saved)


def _open_part(part: Path, read: Checkpoint, packed: Packed) -> Checkpoint:
    """Open the partial file of an interrupted run, or create it."""
    tensors = {
        name: Entry(entry.dtype, entry.shape)
        for name, entry in read.tensors.items()
        if name not in packed.tensors
    }
    tensors |= packed.entries
    metadata = packed.to_metadata()
    try:
        written = Checkpoint(part, writable=True)
    except (CheckpointError, FileNotFoundError):
        return Checkpoint.create(part, tensors, metadata)
    found = {name: Entry(entry.dtype, entry.shape) for name, entry in written.tensors.items()}
    if (found, written.metadata) == (tensors, metadata):
        return written
    written.close()
    return Checkpoint.create(part, tensors, metadata)


def _search(
    read: Checkpoint, written: Checkpoint, packed: Packed, journal: Journal, todo: Pieces,
    importance: Mapping[str, Importance], kept: Mapping[str, np.ndarray], *, pool: Pool,
    console: Console,
) -> None:  # fmt: skip
    """Pack all unfinished pieces, and write the results."""
    config = packed.config
    finished = 0
    for index, piece in enumerate(todo()):
        if index in journal.done:
            # A journalled piece that was not written to the disk is searched again.
            raw = read_packed(written, config, piece, packed.tensors[piece.name])
            if crc32(raw) == journal.done[index][0]:
                finished += piece.rows * piece.blocks(config)
            else:
                del journal.done[index]
    if finished:
        console.print(f"resuming: {finished} of {packed.blocks} blocks are finished")

    def tasks() -> Iterator[tuple[tuple[int, Piece], Work]]:
        for index, piece in enumerate(todo()):
            if index in journal.done:
                continue
            weights = packed.tensors[piece.name]
            raw = read_plain(read, piece, weights)
            columns = slice(piece.first[1], piece.first[1] + piece.columns)
            part, places = importance.get(piece.name), None
            if part is not None and in_strips(config, part):
                part = Importance(part.weights[columns])
            elif piece.name in kept:
                chosen = kept[piece.name]
                first = piece.first[0] * weights.columns + piece.first[1]
                places = chosen[piece.inside(weights, chosen)] - first
            yield (
                (index, piece),
                Work(
                    config,
                    packed.rule,
                    weights.dtype,
                    weights.scale,
                    piece.columns,
                    raw,
                    part,
                    places,
                ),
            )

    with throughput_bar(console) as shown:
        task = shown.add_task("compressing", total=packed.blocks, completed=finished)
        found: Found
        for (index, piece), found in results(pool, encode, tasks()):
            write_packed(written, config, piece, packed.tensors[piece.name], found.raw)
            journal.add(index, crc32(found.raw), found.error, found.plain, found.energy)
            shown.advance(task, piece.rows * piece.blocks(config))


def _summaries(
    packed: Packed, incompressible: dict[str, Weights], journal: Journal, todo: Pieces,
    saved: Mapping[str, float],
) -> list[Summary]:  # fmt: skip
    """Return a summary per tensor, and a total if several are compressed."""
    sums: dict[str, list[tuple[float, ...]]] = {name: [] for name in packed.tensors}
    for index, piece in enumerate(todo()):
        sums[piece.name].append(journal.done[index][1:])
    for name, less in saved.items():
        sums[name].append((-less, 0.0, 0.0))
    rows, bits, counts = [], 0, 0
    for name, weights in {**packed.tensors, **incompressible}.items():
        size_bits, count = 8 * packed.nbytes(name, weights), prod(weights.shape)
        errors = relative(sums[name], packed.config) if name in sums else ()
        if errors:
            bits, counts = bits + size_bits, counts + count
        rows.append(Summary(name, weights.shape, weights.dtype, size_bits / count, *errors))
    if len(sums) > 1:
        all_pieces = [piece for name in sums for piece in sums[name]]
        rows.append(
            Summary("total", (counts,), "", bits / counts, *relative(all_pieces, packed.config))
        )
    return rows


def relative(sums: list[tuple[float, ...]], config: Config) -> tuple[float, float | None]:
    """Return both errors of a :class:`Summary` from the three sums of squares of its pieces."""
    error, plain, energy = (sum(column) for column in zip(*sums, strict=True))
    # What kept weights save may round below zero.
    roots = [sqrt(max(square, 0.0) / energy) if energy else 0.0 for square in (error, plain)]
    return roots[0], roots[1] if isinstance(config, SeedlmConfig) else None
