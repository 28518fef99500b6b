"""Golden models of packed 4-bit weights without seeds: tables by row, and scales by group."""

import numpy as np

from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = [
    "InvalidBlockError",
    "codes_and_scales",
    "decode_groups",
    "decode_lut4",
    "encode_groups",
    "encode_lut4",
    "grouped",
]


class InvalidBlockError(ValueError):
    """A packed block is invalid; the arguments are its row, its number in the row, the reason."""


def _nibbles(codes: np.ndarray) -> np.ndarray:
    """Return pairs of 4-bit codes along the last axis as bytes, the first one lowest."""
    padded = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // 2) * 2), np.uint8)
    padded[..., : codes.shape[-1]] = codes & 15
    return padded[..., ::2] | padded[..., 1::2] << 4


def _codes(raw: np.ndarray, count: int) -> np.ndarray:
    """Return the first ``count`` 4-bit codes along the last axis, 0 .. 15."""
    return np.stack([raw & 15, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1)[..., :count]


def grouped(config: GroupsConfig, rows: np.ndarray) -> np.ndarray:
    """Return rows as groups, (rows, groups, group); the last one is padded with zeros."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // config.group), config.group))
    padded.reshape(len(rows), -1)[:, : rows.shape[1]] = rows
    return padded


def encode_groups(config: GroupsConfig, rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return packed rows, uint8 (rows, bytes), of weights and the scale of each group.

    Codes are round(w / scale), clipped to -8 .. 7; they are 0 where the scale is 0. ``scales`` is
    (rows, groups), rounded to float16. A negative scale makes the larger range of codes that of
    positive weights.
    """
    padded, stored = grouped(config, rows), scales.astype("<f2")
    divisor = np.where(stored == 0, 1, stored).astype(np.float64)[..., None]
    codes = np.rint(padded / divisor).clip(-8, 7) * (stored != 0)[..., None]
    head = stored.view(np.uint8).reshape(*stored.shape, 2)
    packed = np.concatenate([head, _nibbles(codes.astype(np.int8).view(np.uint8))], axis=-1)
    return packed.reshape(len(rows), -1)


def codes_and_scales(config: GroupsConfig, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes, int8 (rows, groups, group), and the scales, float64, of packed rows."""
    grouped = raw.reshape(len(raw), -1, config.block_bits // 8)
    scales = np.ascontiguousarray(grouped[..., :2]).view("<f2")[..., 0].astype(np.float64)
    codes = _codes(grouped[..., 2:], config.group).astype(np.int8)
    return codes - 16 * (codes > 7), scales


def decode_groups(config: GroupsConfig, raw: np.ndarray, columns: int) -> np.ndarray:
    """Return the weights of packed rows as float64 (rows, columns).

    Raises :class:`InvalidBlockError` for a scale that is not finite.
    """
    codes, scales = codes_and_scales(config, raw)
    wrong = np.argwhere(~np.isfinite(scales))
    if len(wrong):
        row, group = wrong[0]
        reason = f"its scale is {scales[row, group]}, which is not finite"
        raise InvalidBlockError(int(row), int(group), reason)
    return (codes * scales[..., None]).reshape(len(raw), -1)[:, :columns]


def encode_lut4(config: Lut4Config, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return packed rows, uint8 (rows, bytes), of weights and the levels of each row.

    Levels, (rows, 16) in increasing order, are divided by the least power of two with which they
    fit ``level_bits``, and rounded. The code of a weight is that of the nearest rounded level, the
    lower of equals.
    """
    peaks = np.abs(levels).max(axis=1)
    limit = (1 << (config.level_bits - 1)) - 1
    exponents = np.frexp(peaks)[1] - (config.level_bits - 1)
    exponents += np.rint(np.ldexp(peaks, -exponents)) > limit
    exponents = np.where(peaks > 0, exponents, 0).clip(-128, 127)
    whole = np.rint(np.ldexp(levels, -exponents[:, None])).clip(-limit - 1, limit)
    middles = np.ldexp(whole[:, 1:] + whole[:, :-1], exponents[:, None] - 1)
    codes = np.array(
        [np.searchsorted(middle, row) for middle, row in zip(middles, rows, strict=True)],
        np.uint8,
    ).reshape(rows.shape)
    table = np.ascontiguousarray(whole, "<i2").view(np.uint8)
    head = exponents.astype(np.int8).view(np.uint8)[:, None]
    return np.concatenate([head, table, _nibbles(codes)], axis=1)


def decode_lut4(config: Lut4Config, raw: np.ndarray, columns: int) -> np.ndarray:
    """Return the weights of packed rows as float64 (rows, columns)."""
    exponents = raw[:, 0].view(np.int8).astype(np.int64)
    table = np.ascontiguousarray(raw[:, 1 : config.header]).view("<i2").astype(np.float64)
    codes = _codes(raw[:, config.header :], columns)
    return np.ldexp(np.take_along_axis(table, codes.astype(np.int64), 1), exponents[:, None])
