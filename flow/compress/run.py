"""Compress a checkpoint, piece by piece, from where it was interrupted."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from math import prod, sqrt
from pathlib import Path
from zlib import crc32

from rich.console import Console

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError, Entry, apart
from seedbed.flow.compress.journal import Journal
from seedbed.flow.compress.packed import SUFFIX, Packed, Weights
from seedbed.flow.compress.pieces import PIECE, Found, Piece, Work, encode, pieces, place
from seedbed.flow.compress.plan import Options, plan
from seedbed.flow.compress.progress import bar
from seedbed.flow.compress.workers import Pool, results

__all__ = ["Summary", "compress", "relative"]


@dataclass(frozen=True)
class Summary:
    """What became of a tensor: bits a weight, and root mean square errors over the weights' own.

    ``plain`` is the error of block floating point at the same bits, which needs no search. A tensor
    that passed through, because it would not be smaller in blocks, has the ``bits`` that they would
    take, and no errors.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bits: float
    error: float | None = None
    plain: float | None = None


def compress(
    source: Path, target: Path, options: Options, *, pool: Pool, console: Console, size: int = PIECE
) -> list[Summary]:
    """Write ``source``, compressed, to ``target``, and return what became of its tensors.

    The file is written beside ``target``, with a journal, until it is whole; a run that was
    interrupted goes on from there. Its bytes depend on ``source`` and ``options`` alone.

    Parameters
    ----------
    pool
        Who searches; see :mod:`seedbed.flow.compress.workers`.
    console
        Where progress is shown.
    size
        Weights a piece, about.

    Raises :class:`CheckpointError`, ``OSError``, and ``ValueError`` for a journal of another run.
    """
    with Checkpoint(source) as read:
        apart(source, target)
        stamp = read.stamp()
        packed, incompressible, digest = plan(read, options, console, size)
        run = {
            "version of seedbed": version("seedbed"),
            "input": digest,
            "version of the packed form": packed.version,
            "configuration": repr(options.config),
            "rule": options.rule,
            "scale": options.scale,
            "selection of tensors": list(packed.tensors),
            "size of pieces": size,
        }
        part = target.with_name(target.name + ".part")
        with Journal(target.with_name(target.name + ".journal"), run) as journal:
            try:
                with _begin(part, read, packed) as written:
                    _search(read, written, packed, journal, pool=pool, console=console, size=size)
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
            return _summaries(packed, incompressible, journal, size)


def _begin(part: Path, read: Checkpoint, packed: Packed) -> Checkpoint:
    """Open what an interrupted run has written, or begin it."""
    tensors = {
        name: Entry(entry.dtype, entry.shape)
        for name, entry in read.tensors.items()
        if name not in packed.tensors
    }
    for name, weights in packed.tensors.items():
        tensors[name + SUFFIX] = weights.entry(packed.config)
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
    read: Checkpoint, written: Checkpoint, packed: Packed, journal: Journal,
    *, pool: Pool, console: Console, size: int,
) -> None:  # fmt: skip
    """Search all pieces that are not finished, and write what is found into its place."""
    config = packed.config
    finished = 0
    for index, piece in enumerate(pieces(packed, size)):
        if index in journal.done:
            # What a journal tells and the disk has not kept is done again.
            raw = written.read(place(written, piece), piece.rows * piece.row_bytes(config))
            if crc32(raw) == journal.done[index][0]:
                finished += piece.rows * piece.blocks(config)
            else:
                del journal.done[index]
    if finished:
        console.print(f"going on: {finished} of {packed.blocks} blocks were finished before")

    def tasks() -> Iterator[tuple[tuple[int, Piece], Work]]:
        for index, piece in enumerate(pieces(packed, size)):
            if index in journal.done:
                continue
            weights = packed.tensors[piece.name]
            raw = read.read(read.tensors[piece.name].offset + piece.plain, piece.nbytes(weights))
            work = Work(config, packed.rule, weights.dtype, weights.scale, piece.columns, raw)
            yield (index, piece), work

    with bar(console) as shown:
        task = shown.add_task("searching", total=packed.blocks, completed=finished)
        found: Found
        for (index, piece), found in results(pool, encode, tasks()):
            written.write(place(written, piece), found.raw)
            journal.add(index, crc32(found.raw), found.error, found.plain, found.energy)
            shown.advance(task, piece.rows * piece.blocks(config))


def _summaries(
    packed: Packed, incompressible: dict[str, Weights], journal: Journal, size: int
) -> list[Summary]:
    """Return a summary a tensor, and of all compressed ones together if they are more than one."""
    sums: dict[str, list[tuple[float, ...]]] = {name: [] for name in packed.tensors}
    for index, piece in enumerate(pieces(packed, size)):
        sums[piece.name].append(journal.done[index][1:])
    rows, bits, counts = [], 0, 0
    for name, weights in (packed.tensors | incompressible).items():
        taken, count = 8 * weights.entry(packed.config).nbytes, prod(weights.shape)
        errors = relative(sums[name]) if name in sums else ()
        if errors:
            bits, counts = bits + taken, counts + count
        rows.append(Summary(name, weights.shape, weights.dtype, taken / count, *errors))
    if len(sums) > 1:
        everything = [piece for name in sums for piece in sums[name]]
        rows.append(Summary("all of them", (counts,), "", bits / counts, *relative(everything)))
    return rows


def relative(sums: list[tuple[float, ...]]) -> tuple[float, float]:
    """Return both errors of a :class:`Summary` from the three sums of squares of its parts."""
    error, plain, energy = (sum(column) for column in zip(*sums, strict=True))
    return (sqrt(error / energy), sqrt(plain / energy)) if energy else (0.0, 0.0)
