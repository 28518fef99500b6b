"""Selection of sensitive weights: the largest squared gradients over all tensors, streamed.

The magnitude of a float32 orders like its bits. Two histograms of the bits, of the upper 16 and,
within the bin of the threshold, of the lower 15, give the exact threshold in two passes. A third
pass lists the indices. Tensors are read in pieces of a few megabytes in each of them. Workers
evaluate the pieces; results are joined in the order of the pieces.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial, reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError
from seedbed.flow.compress.mask import INDICES, write_mask
from seedbed.flow.compress.shards import open_checkpoint, require_target
from seedbed.flow.compress.workers import SERIAL, Pool, results_in_order
from seedbed.flow.run.progress import throughput_bar

__all__ = ["ORDERS", "Row", "Selection", "Spectrum", "count_pieces", "sensitive"]

#: Weights per piece.
CHUNK = 1 << 20
#: What the kept weights are the largest of.
ORDERS = ("gradient", "magnitude", "random")
#: Bits of a key, and those that the second histogram resolves.
KEY_BITS, FINE = 31, 15


@dataclass(frozen=True)
class Spectrum:
    """Numbers of weights, and sums of squared gradients, by the upper bits of the magnitude."""

    counts: np.ndarray
    energies: np.ndarray

    def cumulative(self) -> tuple[np.ndarray, np.ndarray]:
        """Return fractions of the weights, largest gradients first, and their shares of the sum.

        Gradients of one bin differ by 0.8 % at most; their squares are spread evenly over it.
        """
        used = np.flatnonzero(self.counts)[::-1]
        counts, energies = self.counts[used].cumsum(), self.energies[used].cumsum()
        total = energies[-1] or 1.0
        return np.append(0.0, counts / counts[-1]), np.append(0.0, energies / total)

    def share(self, fraction: float) -> float:
        """Return the share of the squared gradient in the ``fraction`` of largest gradients."""
        return float(np.interp(fraction, *self.cumulative()))


@dataclass(frozen=True)
class Row:
    """Kept weights of a tensor, and their share of its squared gradient, if gradients are known."""

    name: str
    shape: tuple[int, ...]
    kept: int
    share: float | None


@dataclass(frozen=True)
class Selection:
    """Kept weights of each tensor and of all, and the spectrum of the gradients if known."""

    rows: list[Row]
    spectrum: Spectrum | None


def sensitive(
    checkpoint: Path,
    gradients: Path | None,
    target: Path,
    *,
    fraction: float = 0.001,
    by: str = "gradient",
    tensors: str = "*",
    seed: int = 1,
    pool: Pool = SERIAL,
    console: Console,
    chunk: int = CHUNK,
) -> Selection:
    """Write the mask of a ``fraction`` of the weights of ``checkpoint`` to ``target``.

    round(fraction n) of the n weights of all selected tensors together are kept: those with the
    largest squared gradients. Of equal ones, those in the first tensor by name are kept, and in a
    tensor those with the lowest index. The mask does not depend on ``pool`` and ``chunk``.

    Parameters
    ----------
    checkpoint, gradients
        Safetensors files, or indices or folders of shards. A tensor of ``checkpoint`` is selected
        if it has a floating type, two or more dimensions, and a name that matches ``tensors``.
        ``gradients`` has each selected tensor by the same name in the same shape; required if
        ``by`` is ``gradient``.
    by
        One of ``ORDERS``: ``gradient``; for comparison, ``magnitude`` of the weights, or
        ``random`` numbers of ``seed``.
    pool
        Workers; see :mod:`seedbed.flow.compress.workers`.

    Raises :class:`CheckpointError`, ``ValueError`` for a bad option, and ``OSError``.
    Source: SensZOQ (arXiv:2406.02913), Definition 3 and Figure 2.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, not {fraction}")
    if by not in ORDERS:
        raise ValueError(f"by must be one of {', '.join(ORDERS)}, not {by!r}")
    if gradients is None and by == "gradient":
        raise ValueError("the mask by gradient needs a file of gradients")
    with open_checkpoint(checkpoint) as read:
        require_target(checkpoint, target)
        shapes = _select(read, tensors)
        total = sum(map(prod, shapes.values()))
        count = round(fraction * total)
        if not count:
            raise ValueError(f"a fraction of {fraction} of {total} weights is no weight")
        if gradients is None:
            return _run(read, None, target, shapes, count, by, seed, pool, console, chunk)
        require_target(gradients, target)
        with open_checkpoint(gradients) as slopes:
            _require_gradients(slopes, shapes, read.path)
            return _run(read, slopes, target, shapes, count, by, seed, pool, console, chunk)


def _select(read: Checkpoint, tensors: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the selected tensors, in the order of their names."""
    shapes = {}
    for name, entry in sorted(read.tensors.items()):
        matrix = entry.dtype in FLOATS and len(entry.shape) >= 2 and prod(entry.shape) > 0
        if not matrix or not fnmatchcase(name, tensors):
            continue
        if prod(entry.shape) > INDICES:
            raise CheckpointError(
                f"{read.file_of(name)}: tensor {name!r} has {prod(entry.shape)} weights, but "
                f"indices of a mask reach {INDICES}"
            )
        shapes[name] = entry.shape
    if not shapes:
        raise CheckpointError(
            f"{read.path} has no tensor to select from: none whose name matches {tensors!r} has "
            f"two dimensions or more and is of {', '.join(FLOATS)}; {read.listing()}"
        )
    return shapes


def _require_gradients(
    slopes: Checkpoint, shapes: Mapping[str, tuple[int, ...]], checkpoint: Path
) -> None:
    for name, shape in shapes.items():
        entry = slopes.tensors.get(name)
        if entry is None:
            raise CheckpointError(f"{slopes.path} has no gradient of tensor {name!r}")
        if entry.shape != shape:
            raise CheckpointError(
                f"{slopes.file_of(name)}: tensor {name!r} is of the shape {list(entry.shape)}, but "
                f"{list(shape)} in {checkpoint}"
            )
        if entry.dtype not in FLOATS:
            raise CheckpointError(
                f"{slopes.file_of(name)}: tensor {name!r} is of {entry.dtype}; allowed are "
                f"{', '.join(FLOATS)}"
            )


def count_pieces(checkpoint: Path, tensors: str = "*") -> int:
    """Return the number of pieces in which the selected tensors of a checkpoint are read."""
    with open_checkpoint(checkpoint) as read:
        return sum(-(-prod(shape) // CHUNK) for shape in _select(read, tensors).values())


@dataclass(frozen=True)
class _Part:
    """A piece of a tensor for any process or machine: weights or gradients from ``start`` on.

    ``seed`` is that of random keys in place of the magnitudes, or ``None``.
    """

    path: Path
    name: str
    start: int
    dtype: str
    raw: bytes
    seed: tuple[int, int] | None = None

    def magnitudes(self) -> np.ndarray:
        """Return the magnitudes in float32."""
        values = np.abs(np.frombuffer(self.raw, FLOATS[self.dtype]).astype(np.float32))
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise CheckpointError(
                f"{self.path}: tensor {self.name!r}: the value at {self.start + wrong[0]} is not "
                "finite"
            )
        return values

    def keys(self) -> np.ndarray:
        """Return the integers whose largest are selected."""
        values = self.magnitudes()
        if self.seed is None:
            return values.view(np.uint32)
        # A draw of 64 bits gives two keys. The stream of a tensor does not depend on the pieces.
        bits = np.random.PCG64(self.seed).advance(self.start // 2)
        odd = self.start % 2
        drawn = np.random.Generator(bits).integers(0, 1 << KEY_BITS, len(values) + odd, np.uint32)
        return drawn[odd:]


def _parts(
    file: Checkpoint, shapes: Mapping[str, tuple[int, ...]], chunk: int, seed: int | None = None
) -> Iterator[_Part]:
    for k, (name, shape) in enumerate(shapes.items()):
        entry = file.tensors[name]
        item = FLOATS[entry.dtype].itemsize
        for start in range(0, prod(shape), chunk):
            size = min(chunk, prod(shape) - start)
            raw = file.read(entry.offset + start * item, size * item)
            own = None if seed is None else (seed, k)
            yield _Part(file.file_of(name), name, start, entry.dtype, raw, own)


def _run(
    read: Checkpoint, slopes: Checkpoint | None, target: Path, shapes: dict[str, tuple[int, ...]],
    count: int, by: str, seed: int, pool: Pool, console: Console, chunk: int,
) -> Selection:  # fmt: skip
    total = sum(map(prod, shapes.values()))
    source = read if slopes is None or by == "magnitude" else slopes
    random = seed if by == "random" else None
    with throughput_bar(console, "weights") as shown:
        task = shown.add_task("selecting", total=(3 + (slopes is not None)) * total)

        def advance(part: _Part) -> _Part:
            shown.advance(task, len(part.raw) // FLOATS[part.dtype].itemsize)
            return part

        def results(work: Callable[[_Part], Any]) -> Iterator[Any]:
            parts = map(advance, _parts(source, shapes, chunk, random))
            return results_in_order(pool, work, parts)

        threshold, equal = _threshold(results, count)
        found: dict[str, list[np.ndarray]] = {name: [] for name in shapes}
        for name, above, same in results(partial(_list, threshold, equal)):
            found[name].append(np.union1d(above, same[:equal]))
            equal -= len(same[:equal])
        indices = {name: np.concatenate(found[name]) for name in shapes}
        spectrum, shares = None, dict.fromkeys([*shapes, "total"])
        if slopes is not None:
            parts = map(advance, _parts(slopes, shapes, chunk))
            spectrum, shares = _spectrum(pool, parts, indices)
    made = {"by": by, "kept": count, "weights": total} | ({"seed": seed} if by == "random" else {})
    write_mask(target, shapes, indices, made)
    rows = [Row(name, shape, len(indices[name]), shares[name]) for name, shape in shapes.items()]
    return Selection([*rows, Row("total", (total,), count, shares["total"])], spectrum)


def _coarse(part: _Part) -> np.ndarray:
    """Return the histogram of the upper bits of a piece's keys."""
    return np.bincount(part.keys() >> np.uint32(FINE), minlength=1 << (KEY_BITS - FINE))


def _fine(upper: int, part: _Part) -> np.ndarray:
    """Return the histogram of the lower bits of the keys with these upper bits."""
    keys, size = part.keys(), 1 << FINE
    inside = keys[keys >> np.uint32(FINE) == upper] & np.uint32(size - 1)
    return np.bincount(inside, minlength=size)


def _list(threshold: int, equal: int, part: _Part) -> tuple[str, np.ndarray, np.ndarray]:
    """Return a piece's tensor, the indices above the threshold, and the first ``equal`` at it."""
    keys = part.keys()
    above, same = np.flatnonzero(keys > threshold), np.flatnonzero(keys == threshold)[:equal]
    return part.name, (above + part.start).astype(np.int32), (same + part.start).astype(np.int32)


def _threshold(
    results: Callable[[Callable[[_Part], np.ndarray]], Iterator[np.ndarray]], count: int
) -> tuple[int, int]:
    """Return the ``count``-th largest key, and how many keys of this value are kept."""
    upper, left = _bin(_sum(results(_coarse)), count)
    lower, left = _bin(_sum(results(partial(_fine, upper))), left)
    return (upper << FINE) + lower, left


def _sum(histograms: Iterator[np.ndarray]) -> np.ndarray:
    return reduce(np.add, histograms)


def _bin(histogram: np.ndarray, count: int) -> tuple[int, int]:
    """Return the bin of the ``count``-th largest element, and its rank in this bin, from 1."""
    above = histogram[::-1].cumsum()
    place = int(np.searchsorted(above, count))
    rank = count - int(above[place - 1] if place else 0)
    return len(histogram) - 1 - place, rank


def _energy(work: tuple[_Part, np.ndarray]) -> tuple[str, np.ndarray, np.ndarray, float, float]:
    """Return a piece's tensor, its spectrum, and the sums of the chosen and of all squares."""
    part, chosen = work
    values, size = part.magnitudes(), 1 << (KEY_BITS - FINE)
    bins = values.view(np.uint32) >> np.uint32(FINE)
    squares = values.astype(np.float64) ** 2
    counts = np.bincount(bins, minlength=size)
    energies = np.bincount(bins, weights=squares, minlength=size)
    return part.name, counts, energies, float(squares[chosen].sum()), float(squares.sum())


def _spectrum(
    pool: Pool, parts: Iterator[_Part], indices: Mapping[str, np.ndarray]
) -> tuple[Spectrum, dict[str, float | None]]:
    """Return the spectrum of the gradients, and the share of the indices in each tensor's sum."""
    size = 1 << (KEY_BITS - FINE)
    counts, energies = np.zeros(size, np.int64), np.zeros(size)
    kept, whole = dict.fromkeys(indices, 0.0), dict.fromkeys(indices, 0.0)

    def tasks() -> Iterator[tuple[_Part, np.ndarray]]:
        for part in parts:
            chosen = indices[part.name]
            stop = part.start + len(part.raw) // FLOATS[part.dtype].itemsize
            first, last = np.searchsorted(chosen, [part.start, stop])
            yield part, chosen[first:last] - part.start

    for name, found, squares, inside, everything in results_in_order(pool, _energy, tasks()):
        counts += found
        energies += squares
        kept[name] += inside
        whole[name] += everything
    shares: dict[str, float | None] = {n: kept[n] / (whole[n] or 1.0) for n in indices}
    total = sum(kept.values()) / (sum(whole.values()) or 1.0)
    return Spectrum(counts, energies), shares | {"total": total}
