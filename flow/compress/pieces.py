"""Pieces of a checkpoint's tensors: the units of parallel work."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ldexp

import ml_dtypes
import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint
from seedbed.flow.compress.packed import SUFFIX, Packed, Weights, pack_rows, unpack_rows
from seedbed.golden import seedlm
from seedbed.spec import SeedlmConfig

__all__ = [
    "PIECE",
    "Found",
    "Piece",
    "Work",
    "cut",
    "decode",
    "encode",
    "floats",
    "pieces",
    "place",
    "to_bytes",
]

#: Approximate weights per piece, in full blocks: a second of search, lost on an interruption.
PIECE = 1 << 15


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

    def blocks(self, config: SeedlmConfig) -> int:
        """Blocks per row."""
        return -(-self.columns // config.block)

    def row_bytes(self, config: SeedlmConfig) -> int:
        """Bytes per packed row."""
        return -(-self.blocks(config) * config.block_bits // 8)

    def block(self, config: SeedlmConfig, k: int) -> str:
        """Return the position of the piece's block ``k`` in the tensor, as text."""
        row, column = divmod(k, self.blocks(config))
        return f"row {self.first[0] + row}, block {self.first[1] // config.block + column}"


def cut(config: SeedlmConfig, name: str, weights: Weights, size: int = PIECE) -> Iterator[Piece]:
    """Yield the pieces of a tensor, in order, with about as many blocks as ``size`` weights fill.

    A piece is several whole rows, or a byte-aligned part of a longer row. Its run time depends on
    the number of blocks, also of partly filled ones.
    """
    columns, item = weights.columns, FLOATS[weights.dtype].itemsize
    row_bytes = weights.entry(config).shape[1]
    # Eight blocks of any size end at a byte boundary.
    step = max(size // (8 * config.block), 1) * 8 * config.block
    if columns > step:
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


def pieces(packed: Packed, size: int = PIECE) -> Iterator[Piece]:
    """Yield the pieces of all packed tensors; their order defines the index."""
    for name, weights in packed.tensors.items():
        yield from cut(packed.config, name, weights, size)


def floats(raw: bytes, dtype: str) -> np.ndarray:
    """Return a tensor's bytes as float64."""
    return np.frombuffer(raw, FLOATS[dtype]).astype(np.float64)


def place(file: Checkpoint, piece: Piece) -> int:
    """Return the offset of the piece's blocks in a packed file."""
    return file.tensors[piece.name + SUFFIX].offset + piece.packed


@dataclass(frozen=True)
class Work:
    """A self-contained piece of work for any process or machine."""

    config: SeedlmConfig
    rule: str
    dtype: str
    scale: int
    columns: int
    raw: bytes


@dataclass(frozen=True)
class Found:
    """A piece's packed bytes, and three sums of squares over its weights.

    ``error`` sums the differences to the decoded weights, ``plain`` the differences to block
    floating point with the same bits, ``energy`` the weights.
    """

    raw: bytes
    error: float
    plain: float
    energy: float


def encode(work: Work) -> Found:
    """Search the piece's blocks."""
    # Imported here: the search takes a second to load, and only workers need it.
    from seedbed.flow.compress.search import block_floating_point, search

    config, rows = work.config, floats(work.raw, work.dtype).reshape(-1, work.columns)
    count = -(-work.columns // config.block)
    padded = np.zeros((len(rows), count * config.block))
    padded[:, : work.columns] = np.ldexp(rows, -work.scale)
    blocks = padded.reshape(-1, config.block)
    found = search(config, blocks, rule=work.rule)
    decoded = seedlm.decode(config, *found).reshape(padded.shape)
    # Weights decoded after the end of a row are dropped and do not count.
    wrong = (decoded - padded)[:, : work.columns]
    squares = (wrong**2).sum(), block_floating_point(config, blocks).sum(), (padded**2).sum()
    packed = seedlm.pack(config, *found).reshape(len(rows), count)
    sums = (ldexp(float(square), 2 * work.scale) for square in squares)
    return Found(pack_rows(config, packed).tobytes(), *sums)


def decode(config: SeedlmConfig, piece: Piece, weights: Weights, raw: bytes) -> np.ndarray:
    """Return a packed piece's weights as float64, exact, of shape (rows, columns).

    Raises ``ValueError`` with the position of a block whose seed is zero.
    """
    rows = np.frombuffer(raw, np.uint8).reshape(piece.rows, -1)
    packed = unpack_rows(config, rows, piece.blocks(config))
    seeds, exponents, coefficients = seedlm.unpack(config, packed)
    if not seeds.all():
        place = piece.block(config, int(np.flatnonzero(seeds.ravel() == 0)[0]))
        raise ValueError(f"{place}: its seed is 0, which is no valid LFSR state")
    decoded = seedlm.decode(config, seeds, exponents, coefficients).reshape(piece.rows, -1)
    return np.ldexp(decoded[:, : piece.columns], weights.scale)


def to_bytes(values: np.ndarray, dtype: str) -> bytes:
    """Return weights as bytes of a tensor's dtype, rounded and saturated."""
    most = float(ml_dtypes.finfo(FLOATS[dtype]).max)
    return values.clip(-most, most).astype(FLOATS[dtype]).tobytes()
