"""Selection of sensitive weights: the largest squared gradients over all tensors, streamed.

The magnitude of a float32 orders like its bits. Two histograms of the bits, of the upper 16 and,
within the bin of the threshold, of the lower 15, give the exact threshold in two passes. A third
pass lists the indices. Tensors are read in pieces of a few megabytes in each of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError, require_target
from seedbed.flow.compress.mask import INDICES, write_mask
from seedbed.flow.progress import throughput_bar

__all__ = ["ORDERS", "Row", "Selection", "Spectrum", "sensitive"]

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
    console: Console,
    chunk: int = CHUNK,
) -> Selection:
    """Write the mask of a ``fraction`` of the weights of ``checkpoint`` to ``target``.

    round(fraction n) of the n weights of all selected tensors together are kept: those with the
    largest squared gradients. Of equal ones, those in the first tensor by name are kept, and in a
    tensor those with the lowest index. The result does not depend on ``chunk``.

    Parameters
    ----------
    checkpoint, gradients
        Safetensors files. A tensor of ``checkpoint`` is selected if it has a floating type, two or
        more dimensions, and a name that matches ``tensors``. ``gradients`` has each selected
        tensor by the same name in the same shape; required if ``by`` is ``gradient``.
    by
        One of ``ORDERS``: ``gradient``; for comparison, ``magnitude`` of the weights, or
        ``random`` numbers of ``seed``.

    Raises :class:`CheckpointError`, ``ValueError`` for a bad option, and ``OSError``.
    Source: SensZOQ (arXiv:2406.02913), Definition 3 and Figure 2.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1, not {fraction}")
    if by not in ORDERS:
        raise ValueError(f"by must be one of {', '.join(ORDERS)}, not {by!r}")
    if gradients is None and by == "gradient":
        raise ValueError("the mask by gradient needs a file of gradients")
    with Checkpoint(checkpoint) as read:
        require_target(checkpoint, target)
        shapes = _select(read, tensors)
        total = sum(map(prod, shapes.values()))
        count = round(fraction * total)
        if not count:
            raise ValueError(f"a fraction of {fraction} of {total} weights is no weight")
        if gradients is None:
            return _run(read, None, target, shapes, count, by, seed, console, chunk)
        require_target(gradients, target)
        with Checkpoint(gradients) as slopes:
            _require_gradients(slopes, shapes, read.path)
            return _run(read, slopes, target, shapes, count, by, seed, console, chunk)


def _select(read: Checkpoint, tensors: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the selected tensors, in the order of their names."""
    shapes = {}
    for name, entry in sorted(read.tensors.items()):
        matrix = entry.dtype in FLOATS and len(entry.shape) >= 2 and prod(entry.shape) > 0
        if not matrix or not fnmatchcase(name, tensors):
            continue
        if prod(entry.shape) > INDICES:
            raise CheckpointError(
                f"{read.path}: tensor {name!r} has {prod(entry.shape)} weights, but indices of a "
                f"mask reach {INDICES}"
            )
        shapes[name] = entry.shape
    if not shapes:
        raise CheckpointError(
            f"{read.path} has no tensor to select from: none whose name matches {tensors!r} has "
            f"two dimensions or more and is of {', '.join(FLOATS)}"
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
                f"{slopes.path}: tensor {name!r} is of the shape {list(entry.shape)}, but "
                f"{list(shape)} in {checkpoint}"
            )
        if entry.dtype not in FLOATS:
            raise CheckpointError(
                f"{slopes.path}: tensor {name!r} is of {entry.dtype}; allowed are "
                f"{', '.join(FLOATS)}"
            )


def _magnitudes(file: Checkpoint, name: str, chunk: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield pieces of a tensor as float32 magnitudes."""
    entry = file.tensors[name]
    dtype = FLOATS[entry.dtype]
    for start in range(0, prod(entry.shape), chunk):
        size = min(chunk, prod(entry.shape) - start)
        raw = file.read(entry.offset + start * dtype.itemsize, size * dtype.itemsize)
        values = np.abs(np.frombuffer(raw, dtype).astype(np.float32))
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise CheckpointError(
                f"{file.path}: tensor {name!r}: the value at {start + wrong[0]} is not finite"
            )
        yield start, values


def _run(
    read: Checkpoint, slopes: Checkpoint | None, target: Path, shapes: dict[str, tuple[int, ...]],
    count: int, by: str, seed: int, console: Console, chunk: int,
) -> Selection:  # fmt: skip
    total = sum(map(prod, shapes.values()))
    source = read if slopes is None or by == "magnitude" else slopes
    with throughput_bar(console, "weights") as shown:
        task = shown.add_task("selecting", total=(3 + (slopes is not None)) * total)

        def keys() -> Iterator[tuple[str, int, np.ndarray]]:
            for k, name in enumerate(shapes):
                random = np.random.default_rng((seed, k))
                for start, values in _magnitudes(source, name, chunk):
                    found = values.view(np.uint32)
                    if by == "random":
                        found = random.integers(0, 1 << KEY_BITS, len(values), np.uint32)
                    yield name, start, found
                    shown.advance(task, len(values))

        threshold, equal = _threshold(keys, count)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in shapes}
        for name, start, found in keys():
            same = np.flatnonzero(found == threshold)[:equal]
            equal -= len(same)
            chosen = np.union1d(np.flatnonzero(found > threshold), same)
            parts[name].append((chosen + start).astype(np.int32))
        indices = {name: np.concatenate(parts[name]) for name in shapes}
        spectrum, shares = None, dict.fromkeys([*shapes, "total"])
        if slopes is not None:
            spectrum, shares = _spectrum(
                slopes, indices, chunk, lambda size: shown.advance(task, size)
            )
    made = {"by": by, "kept": count, "weights": total} | ({"seed": seed} if by == "random" else {})
    write_mask(target, shapes, indices, made)
    rows = [Row(name, shape, len(indices[name]), shares[name]) for name, shape in shapes.items()]
    return Selection([*rows, Row("total", (total,), count, shares["total"])], spectrum)


def _threshold(
    keys: Callable[[], Iterator[tuple[str, int, np.ndarray]]], count: int
) -> tuple[int, int]:
    """Return the ``count``-th largest key, and how many keys of this value are kept."""
    coarse = np.zeros(1 << (KEY_BITS - FINE), np.int64)
    for _, _, found in keys():
        coarse += np.bincount(found >> np.uint32(FINE), minlength=len(coarse))
    upper, left = _bin(coarse, count)
    fine = np.zeros(1 << FINE, np.int64)
    for _, _, found in keys():
        inside = found[found >> np.uint32(FINE) == upper] & np.uint32(len(fine) - 1)
        fine += np.bincount(inside, minlength=len(fine))
    lower, left = _bin(fine, left)
    return (upper << FINE) + lower, left


def _bin(histogram: np.ndarray, count: int) -> tuple[int, int]:
    """Return the bin of the ``count``-th largest element, and its rank in this bin, from 1."""
    above = histogram[::-1].cumsum()
    place = int(np.searchsorted(above, count))
    rank = count - int(above[place - 1] if place else 0)
    return len(histogram) - 1 - place, rank


def _spectrum(
    slopes: Checkpoint,
    indices: Mapping[str, np.ndarray],
    chunk: int,
    advance: Callable[[int], None],
) -> tuple[Spectrum, dict[str, float | None]]:
    """Return the spectrum of the gradients, and the share of the indices in each tensor's sum."""
    size = 1 << (KEY_BITS - FINE)
    counts, energies = np.zeros(size, np.int64), np.zeros(size)
    kept, whole = [], []
    for name, chosen in indices.items():
        inside = everything = 0.0
        for start, values in _magnitudes(slopes, name, chunk):
            bins = values.view(np.uint32) >> np.uint32(FINE)
            squares = values.astype(np.float64) ** 2
            counts += np.bincount(bins, minlength=size)
            energies += np.bincount(bins, weights=squares, minlength=size)
            first, last = np.searchsorted(chosen, [start, start + len(values)])
            inside += float(squares[chosen[first:last] - start].sum())
            everything += float(squares.sum())
            advance(len(values))
        kept.append(inside)
        whole.append(everything)
    shares: dict[str, float | None] = {
        name: part / (all_ or 1.0) for name, part, all_ in zip(indices, kept, whole, strict=True)
    }
    return Spectrum(counts, energies), shares | {"total": sum(kept) / (sum(whole) or 1.0)}
