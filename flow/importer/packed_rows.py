"""Rows of weights in the formats of a program's memory image, and as the integers of its sums.

Every format gives rows of whole bytes:

- ``plain``: a multiplier in 2 bytes, unsigned, then int8 weights;
- ``trellis``, ``seedlm``, ``groups``: as :mod:`seedbed.flow.compress` packs rows;
- ``q8_0``, ``q4_0``, ``q4_1``: as in GGUF, groups of 32 weights with a float16 scale and, of
  ``q4_1``, a float16 minimum, unchanged.

Of a trellis code, some weights can be kept: an entry of :data:`KEPT` is added to a weight, in the
units of its row's values, so that the row's multiplier is that of the sum of both.

Of groups, a weight is ``code scale + minimum``. Both numbers are whole multiples of 2^-24, so that
a weight is an integer without a rounding: the sum of a row is that of ``scale (sum of code x)`` and
``minimum (sum of x)`` over its groups, and the sums of x are those of all rows.
"""

from dataclasses import dataclass, field, replace
from math import floor, log2

import numpy as np

from seedbed.flow.compress.importance import columns_at_once, feedback
from seedbed.flow.compress.methods import outliers, with_targets
from seedbed.flow.compress.packed import Config, Weights, unpack_rows
from seedbed.flow.compress.search import tensor_scale
from seedbed.golden.gemv import trellis_rows
from seedbed.golden.packing import codes_and_scales
from seedbed.golden.stream_engine import (
    GroupRows,
    Integers,
    SeedlmRows,
    TrellisRows,
    smallest,
)
from seedbed.spec import TrellisConfig
from seedbed.spec.gemv import CODE_BITS, EXPONENT_BITS, GROUP
from seedbed.spec.packing import GroupsConfig
from seedbed.spec.stream_engine import SEEDLM_BLOCKS

__all__ = [
    "COMPRESSED",
    "FED_BACK",
    "FORMATS",
    "KEEPING",
    "KEPT",
    "PackedRows",
    "bytes_of_a_row",
    "pack",
    "rows_as_integers",
    "trellis_integers",
]

#: Bits of the multiplier of a row of weights.
MULTIPLIER_BITS = 16
#: Fraction bits with which every float16 number is an integer.
HALF = 24
TRELLIS, GROUPS = TrellisConfig(bits=4, state_bits=12), GroupsConfig()
#: Formats of compression, with what they are configured by.
COMPRESSED: dict[str, Config] = {
    "trellis": TRELLIS, "seedlm": SEEDLM_BLOCKS, "groups": GROUPS,
}  # fmt: skip
#: Formats whose errors can change later columns, and what is added to the diagonal of moments.
FED_BACK, DAMPING = ("trellis", "seedlm"), 0.03
#: The format that keeps weights, and a kept weight: what is added to that of the format.
KEEPING = "trellis"
KEPT = np.dtype([("row", "<u4"), ("column", "<u2"), ("difference", "<i2")])
#: Formats of GGUF: bytes of a group before its codes, and bits of a code.
GGUF = {"q8_0": (2, 8), "q4_0": (2, 4), "q4_1": (4, 4)}
FORMATS = ("plain", *COMPRESSED, *GGUF)


@dataclass(frozen=True)
class PackedRows:
    """Rows in a format, uint8 (rows, bytes), of ``columns`` weights in units of 2^exponent.

    ``kept`` are entries of :data:`KEPT`.
    """

    format: str
    raw: np.ndarray
    columns: int
    exponent: int = 0
    kept: np.ndarray = field(default_factory=lambda: np.empty(0, KEPT))

    def integers(self) -> Integers:
        """Return the weights as integers. Raises ``ValueError`` for rows that are invalid."""
        made = {"plain": _plain, "trellis": _trellis, "seedlm": _seedlm}
        found = made.get(self.format, _groups)(self)
        if not len(self.kept):
            return found
        rows, columns = self.kept["row"], self.kept["column"]
        if rows.max() >= len(self.raw) or columns.max() >= self.columns:
            raise ValueError(f"a kept weight is not in {len(self.raw)} x {self.columns}")
        weights = found.weights.astype(np.int32)
        np.add.at(weights, (rows, columns), self.kept["difference"])
        return replace(found, weights=smallest(weights))


def bytes_of_a_row(form: str, columns: int) -> int:
    """Return the bytes of a row of ``columns`` weights.

    Raises ``ValueError`` for a number of columns that a format of GGUF has no groups for.
    """
    if form == "plain":
        return MULTIPLIER_BITS // 8 + columns
    if form in COMPRESSED:
        return Weights((1, columns), "F32").entry(COMPRESSED[form]).shape[1]
    if columns % GROUP:
        raise ValueError(f"a row of {form} must have a multiple of {GROUP} weights, not {columns}")
    header, bits = GGUF[form]
    return columns // GROUP * (header + GROUP * bits // 8)


def pack(
    form: str, weights: np.ndarray, moments: np.ndarray | None = None,
    keep: int | np.ndarray = 0, row_most: int | None = None,
) -> PackedRows:  # fmt: skip
    """Return weights (rows, columns) in a format: ``plain``, or one of compression.

    With ``moments``, the sum of x x' over inputs x, the errors of columns change later columns:
    those of :data:`FED_BACK`. ``keep`` weights are kept, those that are the largest in their rows,
    and of a row ``row_most`` at most, or those that it flags; the format is :data:`KEEPING`.
    """
    if form == "plain":
        found = rows_as_integers(weights, 8)
        multipliers = found.multipliers.astype("<u2").view(np.uint8).reshape(-1, 2)
        raw = np.concatenate([multipliers, found.weights.astype(np.int8).view(np.uint8)], axis=1)
        return PackedRows(form, raw, weights.shape[1], -found.fraction)
    exponent = tensor_scale(float(np.abs(weights).max())) if form == "seedlm" else 0
    config, importance = COMPRESSED[form], None
    if moments is not None:
        # As in GPTQ, a share of the diagonal's mean is added to it.
        diagonal = np.diag(moments).mean(dtype=np.float64)
        damped = moments + (DAMPING * diagonal or 1.0) * np.eye(len(moments))
        importance = feedback(damped, columns_at_once(config))
    kept = keep
    if isinstance(kept, int):
        kept = outliers(weights, kept / weights.size, row_most)
    packed, _, targets = with_targets(config, weights, exponent, importance, kept)
    raw = np.frombuffer(packed, np.uint8).reshape(len(weights), -1)
    rows = PackedRows(form, raw, weights.shape[1], exponent)
    return replace(rows, kept=_differences(rows, targets, kept)) if kept.any() else rows


def _differences(rows: PackedRows, targets: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the entries of kept weights, row by row; the differences are saturated."""
    of, found = rows.integers(), np.empty(int(kept.sum()), KEPT)
    places = np.nonzero(kept)
    units = np.ldexp(of.multipliers[places[0]].clip(1).astype(np.float64), -of.fraction)
    differences = np.rint(targets[kept] / units) - of.weights[kept]
    limits = np.iinfo(KEPT["difference"])
    found["row"], found["column"] = places
    found["difference"] = differences.clip(limits.min, limits.max)
    return found


def rows_as_integers(weights: np.ndarray, bits: int) -> Integers:
    """Return rows as integers of ``bits`` bits, each with its greatest magnitude at the end."""
    most = (1 << bits - 1) - 1
    scales = np.abs(weights).max(axis=1).astype(np.float64) / most
    fraction = MULTIPLIER_BITS - 1 - floor(log2(max(scales.max(), 2.0**-40)))
    # The greatest scale may be rounded up to a bit more.
    greatest = (1 << MULTIPLIER_BITS) - 1
    multipliers = np.ceil(np.ldexp(scales, fraction)).clip(1, greatest).astype(np.int64)
    found = np.rint(np.ldexp(weights.astype(np.float64), fraction) / multipliers[:, None])
    return Integers(weights=smallest(found), multipliers=multipliers, fraction=fraction)


def _plain(rows: PackedRows) -> Integers:
    multipliers = np.ascontiguousarray(rows.raw[:, :2]).view("<u2")[:, 0].astype(np.int64)
    weights = np.ascontiguousarray(rows.raw[:, 2:]).view(np.int8)
    return Integers(weights=weights, multipliers=multipliers, fraction=-rows.exponent)


def _trellis(rows: PackedRows) -> Integers:
    return trellis_integers(TRELLIS, rows.raw, rows.columns, rows.exponent)


def trellis_integers(
    config: TrellisConfig, raw: np.ndarray, columns: int, exponent: int
) -> Integers:
    """Return packed rows of a trellis code, in units of 2^exponent, as integers."""
    symbols, mantissas, exponents, scale = trellis_rows(config, raw, columns)
    lowest = 1 << EXPONENT_BITS - 1
    code = TrellisRows(code=config, symbols=symbols)
    return Integers(
        weights=smallest(code.weights()),
        multipliers=mantissas.astype(np.int64) << exponents.astype(np.int64) + lowest,
        fraction=lowest - scale - exponent,
        trellis=code,
    )


def _seedlm(rows: PackedRows) -> Integers:
    """A word is divided by 2^15, not by 2^15 - 1 as in the decompressed file."""
    blocks = unpack_rows(SEEDLM_BLOCKS, rows.raw, -(-rows.columns // SEEDLM_BLOCKS.block))
    fraction = 8 + SEEDLM_BLOCKS.half.bit_length() - 1 - rows.exponent
    return SeedlmRows(code=SEEDLM_BLOCKS, blocks=blocks, fraction=fraction).integers(rows.columns)


def _groups(rows: PackedRows) -> Integers:
    bits = CODE_BITS
    if rows.format == "groups":
        codes, scales = codes_and_scales(GROUPS, rows.raw)
        minima = np.zeros(scales.shape)
    else:
        header, bits = GGUF[rows.format]
        groups = rows.raw.reshape(len(rows.raw), -1, header + GROUP * bits // 8)
        halves = np.ascontiguousarray(groups[..., :header]).view("<f2").astype(np.float64)
        scales = halves[..., 0]
        minima = halves[..., 1] if header == 4 else np.zeros(scales.shape)
        stored = np.ascontiguousarray(groups[..., header:])
        if bits == 8:
            codes = stored.view(np.int8)
        else:
            # The codes 0..15 are those of the first half, then of the second.
            codes = np.concatenate([stored & 15, stored >> 4], axis=-1)
    if not (np.isfinite(scales).all() and np.isfinite(minima).all()):
        raise ValueError("a scale of a group is not finite")
    if rows.format in ("groups", "q4_0"):
        # Those of "groups" are -8..7, and a code 0..15 of GGUF is for one that is less by 8.
        codes = codes.astype(np.int16) + (8 if rows.format == "groups" else 0)
        minima = -8 * scales
    whole, least = (np.ldexp(part, HALF).astype(np.int64) for part in (scales, minima))
    return GroupRows(
        bits=bits, codes=smallest(codes.reshape(len(codes), -1)[:, : rows.columns]), scales=whole,
        minima=least, fraction=HALF - rows.exponent,
    ).integers()  # fmt: skip
