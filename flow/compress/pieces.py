"""Pieces of a checkpoint's tensors: the units of parallel work."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ldexp

import ml_dtypes
import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.compress.importance import Importance
from seedbed.flow.compress.packed import (
    Config,
    Packed,
    Weights,
    format_name,
    pack_rows,
    unpack_rows,
)
from seedbed.golden import packing, seedlm, trellis
from seedbed.golden.packing import InvalidBlockError
from seedbed.spec import SeedlmConfig, TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = [
    "PIECE",
    "Found",
    "Piece",
    "Work",
    "cut",
    "decode",
    "encode",
    "floats",
    "in_strips",
    "pieces",
    "place",
    "read_packed",
    "read_plain",
    "strips",
    "to_bytes",
    "whole_rows",
    "write_packed",
]

#: Approximate weights per piece, in full blocks: a second of search, lost on an interruption.
PIECE = 1 << 15
#: Approximate weights per strip, with importance: 4096 rows of eight blocks of eight.
STRIP = 1 << 18


@dataclass(frozen=True)
class Piece:
    """Part of a row or several rows of a tensor: ``columns`` weights in each of ``rows``.

    ``first`` is the row and column of its first weight; ``plain`` and ``packed`` are byte offsets
    in the original and in the packed tensor.
    """

    name: str
    first: tuple[int, int]
    rows: int
    columns: int
    plain: int
    packed: int

    def inside(self, weights: Weights, indices: np.ndarray) -> slice:
        """Return which of the sorted ``indices`` of a tensor's weights are in this piece."""
        first = self.first[0] * weights.columns + self.first[1]
        ends = np.searchsorted(indices, [first, first + self.rows * self.columns])
        return slice(int(ends[0]), int(ends[1]))

    def nbytes(self, weights: Weights) -> int:
        """Bytes of the original weights."""
        return self.rows * self.columns * FLOATS[weights.dtype].itemsize

    def blocks(self, config: Config) -> int:
        """Blocks per row."""
        return -(-self.columns // config.block)

    def row_bytes(self, config: Config) -> int:
        """Bytes per packed row."""
        return config.header + -(-self.blocks(config) * config.block_bits // 8)

    def block(self, config: Config, k: int) -> str:
        """Return the position of the piece's block ``k`` in the tensor, as text."""
        row, column = divmod(k, self.blocks(config))
        return f"row {self.first[0] + row}, block {self.first[1] // config.block + column}"


def cut(config: Config, name: str, weights: Weights, size: int = PIECE) -> Iterator[Piece]:
    """Yield the pieces of a tensor, in order, with about as many blocks as ``size`` weights fill.

    A piece is several whole rows, or a byte-aligned part of a longer row, unless rows have a
    header. Its run time depends on the number of blocks, also of partly filled ones.
    """
    columns, item = weights.columns, FLOATS[weights.dtype].itemsize
    row_bytes = weights.entry(config).shape[1]
    # Eight blocks of any size end at a byte boundary.
    step = max(size // (8 * config.block), 1) * 8 * config.block
    if columns > step and not config.header:
        for row in range(weights.rows):
            for k in range(0, columns, step):
                packed = row * row_bytes + k // config.block * config.block_bits // 8
                plain = (row * columns + k) * item
                yield Piece(name, (row, k), 1, min(step, columns - k), plain, packed)
        return
    height = max(size // config.block // weights.blocks(config), 1)
    for row in range(0, weights.rows, height):
        rows = min(height, weights.rows - row)
        yield Piece(name, (row, 0), rows, columns, row * columns * item, row * row_bytes)


def strips(config: Config, name: str, weights: Weights, size: int = STRIP) -> Iterator[Piece]:
    """Yield the pieces of a tensor as strips of eight blocks of many rows.

    The tables of a search with importance are computed for each column of blocks of a piece: they
    need many rows. A piece has about as many blocks as ``size`` weights fill.
    """
    width, item = 8 * config.block, FLOATS[weights.dtype].itemsize
    height = max(size // width, 1)
    row_bytes = weights.entry(config).shape[1]
    for column in range(0, weights.columns, width):
        for row in range(0, weights.rows, height):
            rows, columns = min(height, weights.rows - row), min(width, weights.columns - column)
            plain = (row * weights.columns + column) * item
            packed = row * row_bytes + column // config.block * config.block_bits // 8
            yield Piece(name, (row, column), rows, columns, plain, packed)


def pieces(
    packed: Packed, size: int = PIECE, importance: Mapping[str, Importance] | None = None
) -> Iterator[Piece]:
    """Yield the pieces of all packed tensors; their order defines the index.

    SeedLM's blocks of tensors with importance are cut into :func:`strips`. If errors change later
    columns, pieces are whole rows.
    """
    for name, weights in packed.tensors.items():
        found = (importance or {}).get(name)
        if found is not None and found.changes is not None:
            yield from whole_rows(packed.config, name, weights)
        elif in_strips(packed.config, found):
            yield from strips(packed.config, name, weights)
        else:
            yield from cut(packed.config, name, weights, size)


def in_strips(config: Config, importance: Importance | None) -> bool:
    """Return whether pieces are :func:`strips`: SeedLM's blocks, with importance of columns."""
    seedlm = isinstance(config, SeedlmConfig)
    return seedlm and importance is not None and importance.changes is None


def whole_rows(config: Config, name: str, weights: Weights) -> Iterator[Piece]:
    """Yield the pieces of a tensor whose errors change later columns.

    They have at least as many rows as columns: the matrix that goes with a piece is not larger.
    """
    yield from cut(config, name, weights, max(STRIP, weights.columns**2))


def read_plain(file: Checkpoint, piece: Piece, weights: Weights) -> bytes:
    """Return the original weights of a piece of an uncompressed file."""
    item = FLOATS[weights.dtype].itemsize
    offset = file.tensors[piece.name].offset + piece.plain
    size, stride = piece.columns * item, weights.columns * item
    if piece.rows == 1 or size == stride:
        return file.read(offset, piece.rows * size)
    return b"".join(file.read(offset + row * stride, size) for row in range(piece.rows))


def read_packed(file: Checkpoint, config: Config, piece: Piece, weights: Weights) -> bytes:
    """Return the packed rows of a piece of a packed file."""
    offset, size = place(file, config, piece), piece.row_bytes(config)
    stride = weights.entry(config).shape[1]
    if piece.rows == 1 or size == stride:
        return file.read(offset, piece.rows * size)
    return b"".join(file.read(offset + row * stride, size) for row in range(piece.rows))


def write_packed(
    file: Checkpoint, config: Config, piece: Piece, weights: Weights, raw: bytes
) -> None:
    """Write the packed rows of a piece of a packed file."""
    offset, size = place(file, config, piece), piece.row_bytes(config)
    stride = weights.entry(config).shape[1]
    if piece.rows == 1 or size == stride:
        file.write(offset, raw)
        return
    for row in range(piece.rows):
        file.write(offset + row * stride, raw[row * size : (row + 1) * size])


def floats(raw: bytes, dtype: str) -> np.ndarray:
    """Return a tensor's bytes as float64."""
    return np.frombuffer(raw, FLOATS[dtype]).astype(np.float64)


def place(file: Checkpoint, config: Config, piece: Piece) -> int:
    """Return the offset of the piece's blocks in a packed file."""
    return file.tensors[f"{piece.name}.{format_name(config)}"].offset + piece.packed


@dataclass(frozen=True)
class Work:
    """A self-contained piece of work for any process or machine."""

    config: Config
    rule: str
    dtype: str
    scale: int
    columns: int
    raw: bytes
    #: That of the piece's columns, or ``None``.
    importance: Importance | None = None
    #: Places in the piece of the kept weights, whose errors change no other columns; those of a
    #: trellis code do not count.
    kept: np.ndarray | None = None


@dataclass(frozen=True)
class Found:
    """A piece's packed bytes, and three sums of squares over its weights.

    ``error`` sums the differences to the decoded weights, ``energy`` the weights; ``plain`` the
    differences to block floating point with the same bits, for SeedLM's blocks only.
    """

    raw: bytes
    error: float
    plain: float
    energy: float


def encode(work: Work) -> Found:
    """Pack the piece's rows."""
    config = work.config
    rows = np.ldexp(floats(work.raw, work.dtype).reshape(-1, work.columns), -work.scale)
    plain = 0.0
    if isinstance(config, SeedlmConfig):
        packed, plain = _search(config, rows, work.rule, work.importance, work.kept)
    elif isinstance(config, TrellisConfig):
        from seedbed.flow.compress.trellis import encode as encode_trellis

        packed = encode_trellis(config, rows, work.importance, work.kept)
    elif isinstance(config, GroupsConfig):
        from seedbed.flow.compress.clip import best_scales

        packed = packing.encode_groups(config, rows, best_scales(packing.grouped(config, rows)))
    else:
        from seedbed.flow.compress.kmeans import kmeans

        weights = work.importance.weights if work.importance else None
        levels = np.array([kmeans(row, weights, config.levels) for row in rows])
        packed = packing.encode_lut4(config, rows, levels)
    wrong = _decode(config, packed, work.columns) - rows
    squares = (wrong**2).sum(), plain, (rows**2).sum()
    sums = (ldexp(float(square), 2 * work.scale) for square in squares)
    return Found(packed.tobytes(), *sums)


def _search(
    config: SeedlmConfig, rows: np.ndarray, rule: str, importance: Importance | None,
    kept: np.ndarray | None,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Return packed rows, and the squared error of block floating point."""
    # Imported here: the search takes a second to load, and only workers need it.
    from seedbed.flow.compress.compensate import compensate
    from seedbed.flow.compress.search import block_floating_point, search
    from seedbed.flow.compress.weighted import weighted_search

    count = -(-rows.shape[1] // config.block)
    padded = np.zeros((len(rows), count, config.block))
    padded.reshape(len(rows), -1)[:, : rows.shape[1]] = rows
    blocks = padded.reshape(-1, config.block)
    plain = block_floating_point(config, blocks).sum()
    if importance is None:
        packed = seedlm.pack(config, *search(config, blocks, rule=rule)).reshape(len(rows), count)
    else:
        # What is decoded after the end of a row does not count.
        weights = np.zeros((count, config.block))
        weights.reshape(-1)[: rows.shape[1]] = importance.weights
        packed = np.empty((len(rows), count), np.uint64)
        stored = np.zeros(rows.shape, bool)
        if kept is not None:
            stored.reshape(-1)[kept] = True
        targets = padded.reshape(len(rows), -1)[:, : rows.shape[1]]
        for k in range(count):
            found = weighted_search(config, padded[:, k], weights[k], rule=rule)
            packed[:, k] = seedlm.pack(config, *found)
            if importance.changes is not None:
                decoded = seedlm.decode(config, *found)
                compensate(targets, decoded, stored, importance.changes, k * config.block)
    return pack_rows(config, packed), plain


def _decode(config: Config, raw: np.ndarray, columns: int) -> np.ndarray:
    """Return the weights of packed rows, without the tensor's scale; ``ValueError`` if invalid."""
    if isinstance(config, TrellisConfig):
        return trellis.decode(config, raw, columns)
    if isinstance(config, GroupsConfig):
        return packing.decode_groups(config, raw, columns)
    if isinstance(config, Lut4Config):
        return packing.decode_lut4(config, raw, columns)
    packed = unpack_rows(config, raw, -(-columns // config.block))
    seeds, exponents, coefficients = seedlm.unpack(config, packed)
    wrong = np.argwhere(seeds == 0)
    if len(wrong):
        row, block = wrong[0]
        raise InvalidBlockError(row, block, "its seed is 0, which is no valid LFSR state")
    return seedlm.decode(config, seeds, exponents, coefficients).reshape(len(raw), -1)[:, :columns]


def decode(config: Config, piece: Piece, weights: Weights, raw: bytes) -> np.ndarray:
    """Return a packed piece's weights as float64, exact, of shape (rows, columns).

    Raises ``ValueError`` with the position of a block that is invalid.
    """
    rows = np.frombuffer(raw, np.uint8).reshape(piece.rows, -1)
    try:
        found = _decode(config, rows, piece.columns)
    except InvalidBlockError as problem:
        row, block, reason = problem.args
        place = piece.block(config, row * piece.blocks(config) + block)
        raise ValueError(f"{place}: {reason}") from problem
    return np.ldexp(found, weights.scale)


def to_bytes(values: np.ndarray, dtype: str) -> bytes:
    """Return weights as bytes of a tensor's dtype, rounded and saturated."""
    most = float(ml_dtypes.finfo(FLOATS[dtype]).max)
    return values.clip(-most, most).astype(FLOATS[dtype]).tobytes()
