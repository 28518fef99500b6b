"""Plan of a checkpoint's compression: tensors, scales and hash, from one pass over the file."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from math import prod
from pathlib import Path

import numpy as np
from rich.console import Console

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError
from seedbed.flow.compress.packed import KEPT, KEY, Config, Packed, Weights
from seedbed.flow.compress.pieces import Piece, cut, floats
from seedbed.flow.compress.shards import open_checkpoint
from seedbed.flow.run.progress import throughput_bar
from seedbed.spec import RULES, SCALES
from seedbed.spec.packing import GroupsConfig

__all__ = ["Options", "count", "plan", "require_finite", "scale_of", "select"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a compression: everything that the result depends on besides the input.

    Parameters
    ----------
    config, rule
        Configuration of the blocks, which is the format, and exponent rule of SeedLM's search, of
        ``RULES``.
    scale
        One of ``SCALES``: ``auto`` gives each tensor a power-of-two scale, ``none`` is the paper.
    tensors
        A glob pattern for the names of tensors to compress. A tensor is compressed if it has a
        floating type, two or more dimensions, and is smaller in blocks. All others are copied.
    keep, keep_as
        File of the mask of kept weights, and format of their differences, of ``KEPT``.
    importance
        File of the importance of columns, not for groups: see
        :mod:`seedbed.flow.compress.importance`.
    """

    config: Config
    rule: str = "fit"
    scale: str = "auto"
    tensors: str = "*"
    keep: Path | None = None
    keep_as: str = "float16"
    importance: Path | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("rule", RULES), ("scale", SCALES), ("keep_as", KEPT)):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}"
                )
        if self.importance is not None and isinstance(self.config, GroupsConfig):
            raise ValueError("rounding to nearest in groups takes no importance")


def plan(
    read: Checkpoint, options: Options, console: Console, size: int
) -> tuple[Packed, dict[str, Weights], str]:
    """Read all weights once: find the scale of each tensor, check for finite values, hash them.

    Returns the metadata of the new file, the tensors that are copied because they would not
    shrink, and the hash. Raises :class:`CheckpointError`.
    """
    tensors, incompressible = select(read, options)
    digest = sha256()
    with throughput_bar(console) as shown:
        total = sum(weights.rows * weights.blocks(options.config) for weights in tensors.values())
        task = shown.add_task("reading", total=total)
        for name, weights in tensors.items():
            peak = 0.0
            where = f"{read.file_of(name)}: tensor {name!r}"
            for piece in cut(options.config, name, weights, size):
                raw = read.read(read.tensors[name].offset + piece.plain, piece.nbytes(weights))
                digest.update(raw)
                values = floats(raw, weights.dtype)
                require_finite(values, where, piece, options.config)
                peak = max(peak, float(np.abs(values).max()))
                shown.advance(task, piece.rows * piece.blocks(options.config))
            tensors[name] = replace(weights, scale=scale_of(peak, options, where))
    packed = Packed(options.config, options.rule, tensors, read.metadata)
    digest.update(repr([sorted(read.metadata.items()), read.tensors]).encode())
    return packed, incompressible, digest.hexdigest()


def scale_of(peak: float, options: Options, where: str) -> int:
    """Return the exponent of the scale of a tensor whose peak magnitude is ``peak``.

    Raises :class:`CheckpointError` for a peak that needs a scale; ``where`` is the tensor.
    """
    if options.scale == "none":
        most = 7 * float(np.finfo(np.float16).max)
        if isinstance(options.config, GroupsConfig) and peak > most:
            raise CheckpointError(
                f"{where}: its largest weight is {peak:g}, but groups with --scale none have "
                f"weights of at most {most:,.0f}"
            )
        return 0
    from seedbed.flow.compress.search import tensor_scale

    return tensor_scale(peak)


def count(source: Path, options: Options) -> int:
    """Return the number of pieces of a file, from its header alone."""
    with open_checkpoint(source) as read:
        tensors, _ = select(read, options)
        return sum(1 for item in tensors.items() for _ in cut(options.config, *item))


def select(read: Checkpoint, options: Options) -> tuple[dict[str, Weights], dict[str, Weights]]:
    """Return the tensors to compress, and those that would not shrink."""
    if KEY in read.metadata:
        raise CheckpointError(f"{read.path} is compressed already")
    found: dict[str, Weights] = {}
    incompressible: dict[str, Weights] = {}
    for name, entry in sorted(read.tensors.items()):
        matrix = entry.dtype in FLOATS and len(entry.shape) >= 2 and prod(entry.shape) > 0
        if not matrix or not fnmatchcase(name, options.tensors):
            continue
        weights = Weights(entry.shape, entry.dtype)
        if weights.entry(options.config).nbytes < entry.nbytes:
            # As if some were kept: a mask is no reason for another error.
            for part in replace(weights, kept=1).entries(name, options.config, options.keep_as):
                if part in read.tensors:
                    raise CheckpointError(
                        f"{read.file_of(part)}: tensor {part!r} has the name that the blocks of "
                        f"{name!r} would get"
                    )
            found[name] = weights
        else:
            incompressible[name] = weights
    if incompressible and not found:
        raise CheckpointError(
            f"{read.path} has no tensor to compress: in blocks of {options.config.block} weights "
            f"and {options.config.block_bits} bits, none of "
            f"{', '.join(map(repr, incompressible))} would be smaller"
        )
    if not found:
        raise CheckpointError(
            f"{read.path} has no tensor to compress: none whose name matches {options.tensors!r} "
            f"has two dimensions or more and is of {', '.join(FLOATS)}; {read.listing()}"
        )
    return found, incompressible


def require_finite(values: np.ndarray, where: str, piece: Piece, config: Config) -> None:
    """Raise :class:`CheckpointError` for weights that are not finite; ``where`` is the tensor."""
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        row, column = divmod(int(wrong[0]), piece.columns)
        k = row * piece.blocks(config) + column // config.block
        raise CheckpointError(
            f"{where}, {piece.block(config, k)}: the weight at {piece.first[1] + column} is "
            f"{values[wrong[0]]}, but only finite weights can be compressed"
        )
