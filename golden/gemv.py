"""Golden model of the matrix-vector product with packed, looked-up or plain weights."""

import numpy as np

from seedbed.golden import seedlm
from seedbed.golden.checks import require_integers
from seedbed.golden.lut_dequantize import dequantize
from seedbed.golden.mac_array import wrap
from seedbed.golden.sparse_mac import SparseMac
from seedbed.golden.trellis import pack, states, unpack, values
from seedbed.spec import GemvConfig, SeedlmConfig, TrellisConfig
from seedbed.spec.gemv import EXPONENT_BITS, MANTISSA_BITS
from seedbed.spec.lut_dequantize import LEVELS

__all__ = ["Gemv", "base_weights", "lut4_rows", "trellis_base", "trellis_rows"]

#: Fraction bits of a weight of a trellis code as an integer, about those of SeedLM's.
FRACTION = 24
#: Blocks or plain weights per chunk: bounds the memory.
CHUNK = 1 << 16


def lut4_rows(raw: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return codes, levels and exponents of packed rows in the format ``lut4``, and a scale.

    ``raw`` is uint8 of shape (rows, bytes), as :class:`~seedbed.spec.packing.Lut4Config` has it.
    The exponents are those of the file less the scale, -8 .. 7. A row of which that would be less
    has its levels rounded to the exponent -8. A row of zeros has no influence on the scale.
    """
    exponents = raw[:, 0].view(np.int8).astype(np.int64)
    header = 1 + 2 * LEVELS
    levels = np.ascontiguousarray(raw[:, 1:header]).view("<i2").astype(np.int64)
    nibbles = np.stack([raw[:, header:] & 15, raw[:, header:] >> 4], axis=-1)
    codes = nibbles.reshape(len(raw), -1)[:, :columns].astype(np.int64)
    highest = (1 << (EXPONENT_BITS - 1)) - 1
    used = exponents[levels.any(axis=1)]
    scale = int(used.max() if len(used) else 0) - highest
    exponents -= scale
    below = (-highest - 1 - exponents).clip(0, LEVELS)[:, None]
    levels = np.where(below, levels + (1 << below >> 1) >> below, levels)
    return codes, levels, exponents.clip(-highest - 1, highest), scale


def trellis_rows(
    config: TrellisConfig, raw: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return symbols, mantissas and exponents of packed rows of a trellis code, and a scale.

    ``raw`` is uint8 of shape (rows, bytes), as :func:`seedbed.golden.trellis.pack` gives it. The
    exponents are those of the file less the scale, -8 .. 7. A row of which that would be less has
    its mantissa rounded to the exponent -8. A row of zeros has no influence on the scale.
    """
    symbols, mantissas, exponents = unpack(config, raw, columns)
    mantissas, exponents = mantissas.astype(np.int64), exponents.astype(np.int64)
    highest = (1 << (EXPONENT_BITS - 1)) - 1
    used = exponents[mantissas > 0]
    scale = int(used.max() if len(used) else 0) - highest
    exponents -= scale
    below = (-highest - 1 - exponents).clip(0, MANTISSA_BITS + 1)
    mantissas = mantissas + (1 << below >> 1) >> below
    return symbols, mantissas, exponents.clip(-highest - 1, highest), scale


def trellis_base(
    config: TrellisConfig, raw: np.ndarray, columns: int, scale: int = 0
) -> tuple[np.ndarray, int]:
    """Return packed rows whose exponents are -8 .. 7, and the exponent of all weights.

    ``raw`` is that of :func:`trellis_rows`, in units of 2^scale. All exponents are as low as -8
    allows, but a weight as an integer keeps :data:`FRACTION` fraction bits if it has them: kept
    values are added to it with a left shift.
    """
    symbols, mantissas, exponents, more = trellis_rows(config, raw, columns)
    scale += more
    half = 1 << (EXPONENT_BITS - 1)
    room = int(exponents[mantissas > 0].min(initial=half - 1)) + half
    lower = max(0, min(room, half - scale - FRACTION))
    exponents = (exponents - lower).clip(-half)
    return pack(config, symbols, mantissas, exponents), scale + lower


def base_weights(code: SeedlmConfig | TrellisConfig, base: np.ndarray, columns: int) -> np.ndarray:
    """Return packed weights as the integers of which sums are made, int64 (rows, columns).

    ``base``: blocks (rows, blocks a row) or, of a trellis code, rows as :func:`trellis_base` gives
    them. Raises ``ValueError`` for other rows.
    """
    if isinstance(code, SeedlmConfig):
        seeds, exponents, coefficients = seedlm.unpack(code, base)
        weights = seedlm.sums(code, seeds, coefficients)
        weights <<= exponents.astype(np.int64)[..., None] + 8
        return weights.reshape(len(base), -1)[:, :columns]
    octets = code.header + -(-columns * code.bits // 8)
    if base.dtype != np.uint8 or base.shape[1:] != (octets,):
        raise ValueError(
            f"a row of {columns} columns must have {octets} bytes, not {base.dtype} of the shape "
            f"{base.shape[1:]}"
        )
    symbols, mantissas, exponents = unpack(code, base, columns)
    half = 1 << (EXPONENT_BITS - 1)
    exponents = require_integers("exponents", exponents, -half, half - 1)
    scales = mantissas.astype(np.int64) << (exponents + half)
    return values(code, states(code, symbols)) * scales[:, None]


class Gemv:
    """y = W x in integers, and the beats of W.

    ``x`` is of shape (columns,), and y of shape (rows,); of several vectors, x is of shape
    (vectors, columns) and y of shape (rows, vectors). With a side path, ``sparse`` is its model,
    whose ``product`` adds it to y.

    Sums are exact modulo 2^dense_width, in int64. At the paper's 4 bits no sum overflows. At
    its 3 bits the only overflow is a sum of 2^63, of blocks with seed 0, which no file contains.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.
    """

    def __init__(self, config: GemvConfig):
        self.config = config
        self.sparse = SparseMac(config.sparse) if config.sparse else None

    def packed_product(self, packed: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return y, int64, of ``packed`` blocks and ``x``.

        ``packed`` is of shape (rows, ceil(columns / C)); the weights of a row's last block
        after the last column count as 0. Raises ``ValueError`` for mismatched shapes.
        """
        if x.ndim == 2:
            return np.stack([self.packed_product(packed, one) for one in x], axis=1)
        config = self.config
        blocks = self._check_shapes(packed, x, config.block)
        x = self._activations(x)
        padded = np.zeros(blocks * config.block, np.int64)
        padded[: len(x)] = x
        lanes = padded.reshape(blocks, config.block)
        found = [np.zeros(0, np.int64)]
        for part in self._parts(packed):
            seeds, exponents, coefficients = seedlm.unpack(config, part)
            sums = (seedlm.sums(config, seeds, coefficients) * lanes).sum(axis=-1)
            found.append((sums << (exponents.astype(np.int64) + 8)).sum(axis=-1))
        return wrap(np.concatenate(found), config.mac.accumulator_width)

    def plain_product(self, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return y, int64, of ``weights`` (rows, columns) and ``x``.

        Raises ``ValueError`` for mismatched shapes.
        """
        if x.ndim == 2:
            return np.stack([self.plain_product(weights, one) for one in x], axis=1)
        self._check_shapes(weights, x, 1)
        sums = self._weights(weights) @ self._activations(x)
        return wrap(sums, self.config.mac.accumulator_width)

    def lut4_product(
        self, codes: np.ndarray, levels: np.ndarray, exponents: np.ndarray, x: np.ndarray
    ) -> np.ndarray:
        """Return y, int64, of ``codes`` (rows, columns), ``levels`` (rows, 16) and ``x``.

        ``exponents``, (rows,), are -8 .. 7. Raises ``ValueError`` for mismatched shapes.
        """
        if x.ndim == 2:
            found = [self.lut4_product(codes, levels, exponents, one) for one in x]
            return np.stack(found, axis=1)
        assert self.config.dequantize
        self._check_shapes(codes, x, 1)
        weights = dequantize(self.config.dequantize, codes, levels)
        sums = (weights @ self._activations(x)) << (self._exponents(exponents) + 8)
        return wrap(sums, self.config.mac.accumulator_width)

    def trellis_product(
        self, symbols: np.ndarray, mantissas: np.ndarray, exponents: np.ndarray, x: np.ndarray
    ) -> np.ndarray:
        """Return y, int64, of ``symbols`` (rows, columns) and ``x``.

        ``mantissas``, (rows,), are 0 .. 255, ``exponents``, (rows,), -8 .. 7. Raises
        ``ValueError`` for mismatched shapes.
        """
        if x.ndim == 2:
            found = [self.trellis_product(symbols, mantissas, exponents, one) for one in x]
            return np.stack(found, axis=1)
        assert self.config.trellis
        self._check_shapes(symbols, x, 1)
        weights = values(self.config.trellis, states(self.config.trellis, symbols))
        mantissas = require_integers("mantissas", mantissas, 0, (1 << MANTISSA_BITS) - 1)
        sums = (weights @ self._activations(x)) * mantissas << (self._exponents(exponents) + 8)
        return wrap(sums, self.config.dense_width)

    def vector_beats(self, x: np.ndarray) -> np.ndarray:
        """Return x as beats of the vector, int64, with zeros after the last column.

        They are of shape (beats, group), and of several vectors (beats, vectors, group).
        """
        x = self._activations(x)
        group = self.config.group
        padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // group) * group), np.int64)
        padded[..., : x.shape[-1]] = x
        beats = padded.reshape(*x.shape[:-1], -1, group)
        return np.moveaxis(beats, -2, 0)

    def packed_beats(self, packed: np.ndarray) -> np.ndarray:
        """Return W as beats: uint8 of shape (rows, beats per row, bytes per beat), low bytes first.

        ``packed`` is of shape (rows, blocks); a row's last beat is padded with zeros.
        """
        assert self.config.decompress
        packed = require_integers("packed", packed, 0, (1 << self.config.block_bits) - 1)
        return self._beats(packed, self.config.block_bits, self.config.decompress.blocks)

    def plain_beats(self, weights: np.ndarray) -> np.ndarray:
        """Return W as beats of plain weights, like :meth:`packed_beats`."""
        return self._beats(self._weights(weights), self.config.plain_width, self.config.plain_lanes)

    def trellis_beats(self, symbols: np.ndarray) -> np.ndarray:
        """Return W as beats of symbols, like :meth:`packed_beats`."""
        config = self.config
        symbols = require_integers("symbols", symbols, 0, (1 << config.bits) - 1)
        return self._beats(symbols.astype(np.int64), config.bits, config.lanes)

    def base_beats(self, base: np.ndarray, columns: int, *, plain: bool = False) -> np.ndarray:
        """Return plain weights, or what :func:`base_weights` takes, like :meth:`packed_beats`."""
        if plain:
            return self.plain_beats(base)
        if not self.config.trellis:
            return self.packed_beats(base)
        symbols, _, _ = unpack(self.config.trellis, base, columns)
        return self.trellis_beats(symbols)

    def lut4_beats(
        self, codes: np.ndarray, levels: np.ndarray, exponents: np.ndarray
    ) -> np.ndarray:
        """Return W as beats: uint8 of shape (beats, bytes per beat).

        They are those of the first table, and then of each row the table of the next row and its
        own codes; :meth:`~seedbed.spec.GemvConfig.row_beats` says how many. A beat of a table has
        ``table_levels`` levels, the first one lowest, and in its 4 highest bits the exponent.
        """
        config = self.config
        half = 1 << (config.level_width - 1)
        levels = require_integers("levels", levels, -half, half - 1)
        codes = require_integers("codes", codes, 0, LEVELS - 1)
        tables = self._beats(levels, config.level_width, config.table_levels)
        exponents = self._exponents(exponents).astype(np.uint8)
        tables[..., -1] |= exponents[:, None] << 4
        found = [tables[:1].reshape(-1, tables.shape[-1])]
        for r, row in enumerate(self._beats(codes, 4, config.lanes)):
            found += [*tables[r + 1 : r + 2], row]
        return np.concatenate(found)

    def _exponents(self, exponents: np.ndarray) -> np.ndarray:
        half = 1 << (EXPONENT_BITS - 1)
        return require_integers("exponents", exponents, -half, half - 1)

    def _activations(self, x: np.ndarray) -> np.ndarray:
        half = 1 << (self.config.activation_width - 1)
        return require_integers("x", x, -half, half - 1)

    def _weights(self, weights: np.ndarray) -> np.ndarray:
        half = 1 << (self.config.plain_width - 1)
        return require_integers("weights", weights, -half, half - 1)

    def _check_shapes(self, matrix: np.ndarray, x: np.ndarray, block: int) -> int:
        """Return how many fields a row has; raise ``ValueError`` for another matrix shape."""
        fields = -(-len(x) // block)
        if not 1 <= len(x) <= self.config.columns:
            raise ValueError(f"columns must be in 1..{self.config.columns}, not {len(x)}")
        if matrix.ndim != 2 or matrix.shape[1] != fields:
            raise ValueError(
                f"a matrix of {len(x)} columns has {fields} fields per row, in two dimensions: "
                f"its shape must not be {matrix.shape}"
            )
        return fields

    def _parts(self, matrix: np.ndarray) -> list[np.ndarray]:
        """Return ``matrix`` in pieces of whole rows."""
        step = max(1, CHUNK // matrix.shape[1])
        return [matrix[start : start + step] for start in range(0, len(matrix), step)]

    def _beats(self, matrix: np.ndarray, width: int, fields: int) -> np.ndarray:
        """Return beats of ``fields`` numbers of ``width`` bits, the first one lowest."""
        beats = -(-matrix.shape[1] // fields)
        found = [np.zeros((0, beats, self.config.beat_bits // 8), np.uint8)]
        for part in self._parts(matrix):
            whole = np.zeros((len(part), beats * fields), "<u8")
            whole[:, : part.shape[1]] = part.view(np.uint64)
            octets = whole.view(np.uint8).reshape(len(part), beats, fields, 8)
            bits = np.unpackbits(octets, axis=-1, count=width, bitorder="little")
            beat = np.zeros((len(part), beats, self.config.beat_bits), np.uint8)
            beat[..., : fields * width] = bits.reshape(len(part), beats, fields * width)
            found.append(np.packbits(beat, axis=-1, bitorder="little"))
        return np.concatenate(found)
