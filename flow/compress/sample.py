"""Estimate of a compression's sizes, errors and time from a sample of its blocks."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from random import Random
from time import perf_counter

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.compress.kept import apply_mask
from seedbed.flow.compress.packed import Packed, Weights
from seedbed.flow.compress.pieces import Found, Piece, Work, encode, floats
from seedbed.flow.compress.plan import Options, require_finite, scale_of, select
from seedbed.flow.compress.run import Summary, relative

__all__ = ["Estimate", "estimate"]

#: Approximate blocks of the sample, and minimum per tensor: some seconds of work.
SAMPLE, FEW = 1 << 14, 64


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


def estimate(source: Path, options: Options, *, seed: int = 1) -> Estimate:
    """Compress a few random rows of each tensor of ``source``, and return an estimate.

    Raises as :func:`seedbed.flow.compress.run.compress`, for the sampled rows.
    """
    config, random = options.config, Random(seed)
    with Checkpoint(source) as read:
        tensors, incompressible = select(read, options)
        packed = Packed(config, options.rule, tensors)
        if options.keep is not None:
            packed, _, _ = apply_mask(options.keep, packed, source, options.keep_as)
        # The first search of a process builds tables, which are not timed.
        encode(Work(config, options.rule, "F32", 0, config.block, bytes(4 * config.block)))
        quota = max(SAMPLE // len(tensors), FEW)
        found = {}
        sampled, seconds = 0, 0.0
        for name, weights in tensors.items():
            work = _work(read, name, weights, options, quota, random)
            sampled += (
                len(work.raw)
                // FLOATS[work.dtype].itemsize
                // work.columns
                * -(-work.columns // config.block)
            )
            start = perf_counter()
            found[name] = encode(work)
            seconds += perf_counter() - start
        source_bytes = sum(entry.nbytes for entry in read.tensors.values())
    rows, saved, blocks = [], 0, 0
    for name, weights in (dict(packed.tensors) | incompressible).items():
        taken, count = packed.nbytes(name, weights), prod(weights.shape)
        errors = relative([_sums(found[name])], config) if name in found else ()
        rows.append(Summary(name, weights.shape, weights.dtype, 8 * taken / count, *errors))
        if name in found:
            saved += count * FLOATS[weights.dtype].itemsize - taken
            blocks += weights.rows * weights.blocks(config)
    return Estimate(rows, source_bytes, source_bytes - saved, blocks, sampled, sampled / seconds)


def _sums(found: Found) -> tuple[float, float, float]:
    return found.error, found.plain, found.energy


def _work(
    read: Checkpoint, name: str, weights: Weights, options: Options, quota: int, random: Random
) -> Work:
    """Return random rows, or starts of rows, of a tensor with ``quota`` blocks in total."""
    config, item = options.config, FLOATS[weights.dtype].itemsize
    columns = min(weights.columns, quota * config.block)
    count = min(max(quota * config.block // columns, 1), weights.rows)
    raw = b""
    for row in sorted(random.sample(range(weights.rows), count)):
        piece = Piece(name, (row, 0), 1, columns, row * weights.columns * item, 0)
        part = read.read(read.tensors[name].offset + piece.plain, piece.nbytes(weights))
        where = f"{read.path}: tensor {name!r}"
        require_finite(floats(part, weights.dtype), where, piece, config)
        raw += part
    scale = scale_of(float(np.abs(floats(raw, weights.dtype)).max()), options)
    return Work(config, options.rule, weights.dtype, scale, columns, raw)
