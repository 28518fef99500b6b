"""Estimate of a compression's sizes, errors and time from a sample of its blocks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.compress.importance import Importance, read_importance
from seedbed.flow.compress.kept import apply_mask
from seedbed.flow.compress.packed import Packed, Weights
from seedbed.flow.compress.pieces import Found, Piece, Work, encode, floats, pieces
from seedbed.flow.compress.plan import Options, require_finite, scale_of, select
from seedbed.flow.compress.run import Summary, relative
from seedbed.flow.compress.shards import open_checkpoint
from seedbed.spec import SeedlmConfig

__all__ = ["Estimate", "estimate"]

#: Approximate blocks of the sample, and minimum per tensor: some seconds of work.
SAMPLE, FEW = 1 << 14, 64
#: Rows of the sample of a tensor with importance: each block of columns needs tables.
ROWS = 256


@dataclass(frozen=True)
class Estimate:
    """Estimate of a compression.

    ``tensors`` are the expected summaries, with errors from ``sampled`` of the ``blocks``, without
    what kept weights improve.
    ``source_bytes`` and ``target_bytes`` are those of all tensors, without the files' headers.
    ``blocks_per_second`` is the throughput of one process.
    """

    tensors: list[Summary]
    source_bytes: int
    target_bytes: int
    blocks: int
    sampled: int
    blocks_per_second: float


def estimate(source: Path, options: Options, console: Console, *, seed: int = 1) -> Estimate:
    """Compress a few random rows of each tensor of ``source``, and return an estimate.

    Of a tensor with importance, a few blocks of columns are compressed, in many rows.

    Raises as :func:`seedbed.flow.compress.run.compress`, for the sampled rows.
    """
    config, random = options.config, Random(seed)
    with open_checkpoint(source) as read:
        tensors, incompressible = select(read, options)
        packed = Packed(config, options.rule, tensors)
        if options.keep is not None:
            packed, _, _ = apply_mask(options.keep, packed, read, options.keep_as, console)
        importance: Mapping[str, Importance] = {}
        if options.importance is not None:
            importance, _ = read_importance(options.importance, config, tensors, source)
        _warm_up(options, weighted=bool(importance))
        quota = max(SAMPLE // len(tensors), FEW)
        found = {}
        sampled, seconds = 0, 0.0
        for name, weights in tensors.items():
            work = _work(read, name, weights, options, quota, random, importance.get(name))
            sampled += _rows(work) * -(-work.columns // config.block)
            found[name], spent = _timed(work)
            seconds += _seconds(work, spent, replace(packed, tensors={name: weights}), importance)
        source_bytes = sum(entry.nbytes for entry in read.tensors.values())
    rows, saved, blocks = [], 0, 0
    for name, weights in (dict(packed.tensors) | incompressible).items():
        taken, count = packed.nbytes(name, weights), prod(weights.shape)
        errors = relative([_sums(found[name])], config) if name in found else ()
        rows.append(Summary(name, weights.shape, weights.dtype, 8 * taken / count, *errors))
        if name in found:
            saved += count * FLOATS[weights.dtype].itemsize - taken
            blocks += weights.rows * weights.blocks(config)
    return Estimate(rows, source_bytes, source_bytes - saved, blocks, sampled, blocks / seconds)


def _sums(found: Found) -> tuple[float, float, float]:
    return found.error, found.plain, found.energy


def _warm_up(options: Options, *, weighted: bool) -> None:
    """Search a block of zeros: the first search of a process builds tables, which are not timed."""
    config = options.config
    work = Work(config, options.rule, "F32", 0, config.block, bytes(4 * config.block))
    encode(work)
    if weighted:
        # Without and with a column that matters much more.
        for least in (1.0, 1e-4):
            changes = np.zeros((config.block, config.block), np.float32)
            least_first = Importance(np.linspace(least, 1, config.block), changes)
            encode(replace(work, importance=least_first))


def _rows(work: Work) -> int:
    return len(work.raw) // FLOATS[work.dtype].itemsize // work.columns


def _timed(work: Work) -> tuple[Found, float]:
    start = perf_counter()
    found = encode(work)
    return found, perf_counter() - start


def _seconds(
    work: Work, spent: float, packed: Packed, importance: Mapping[str, Importance]
) -> float:
    """Return the time of the only tensor of ``packed``, of which ``work`` took ``spent``."""
    config, rows = packed.config, _rows(work)
    columns = -(-work.columns // config.block)
    if work.importance is None or not isinstance(config, SeedlmConfig):
        return spent * packed.blocks / (rows * columns)
    # A block of columns takes the time of its tables and of its rows.
    first = spent
    if rows > 1:
        _, first = _timed(replace(work, raw=work.raw[: len(work.raw) // rows]))
    block = max(spent - first, 0.0) / max(rows - 1, 1) / columns
    tables = sum(piece.blocks(config) for piece in pieces(packed, importance=importance))
    return max(first / columns - block, 0.0) * tables + block * packed.blocks


def _work(
    read: Checkpoint, name: str, weights: Weights, options: Options, quota: int, random: Random,
    importance: Importance | None,
) -> Work:  # fmt: skip
    """Return random rows, or parts of rows, of a tensor with ``quota`` blocks in total."""
    config, item = options.config, FLOATS[weights.dtype].itemsize
    columns = min(weights.columns, quota * config.block)
    count = min(max(quota * config.block // columns, 1), weights.rows)
    taken = np.arange(columns)
    if importance is not None and isinstance(config, SeedlmConfig):
        taken = _columns(config, weights, importance, max(quota // ROWS, 1), random)
        count = min(quota, ROWS, weights.rows)
    if importance is not None:
        changes = importance.changes
        importance = Importance(
            importance.weights[taken], None if changes is None else changes[taken][:, taken]
        )
    parts = []
    where = f"{read.file_of(name)}: tensor {name!r}"
    for row in sorted(random.sample(range(weights.rows), count)):
        width = int(taken[-1]) + 1
        piece = Piece(name, (row, 0), 1, width, row * weights.columns * item, 0)
        part = read.read(read.tensors[name].offset + piece.plain, piece.nbytes(weights))
        require_finite(floats(part, weights.dtype), where, piece, config)
        parts.append(np.frombuffer(part, FLOATS[weights.dtype])[taken].tobytes())
    raw = b"".join(parts)
    peak = float(np.abs(floats(raw, weights.dtype)).max())
    scale = scale_of(peak, options, where)
    return Work(config, options.rule, weights.dtype, scale, len(taken), raw, importance)


def _columns(
    config: SeedlmConfig, weights: Weights, importance: Importance, count: int, random: Random
) -> np.ndarray:
    """Return the columns of some blocks: the first ones if errors change later columns."""
    blocks = weights.blocks(config)
    chosen: Iterable[int] = range(min(count, blocks))
    if importance.changes is None:
        chosen = sorted(random.sample(range(blocks), min(count, blocks)))
    places = np.add.outer(np.array(chosen) * config.block, np.arange(config.block)).ravel()
    return places[places < weights.columns]
