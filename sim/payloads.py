"""Beats of images; many payloads at once, as words of 32 bits for testbenches in C++."""

from collections.abc import Callable, Sequence

import numpy as np
from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import data

__all__ = ["image_beats", "integers", "pack", "unpack", "words"]


def image_beats(
    images: np.ndarray, ways: int, rest: Callable[[tuple[int, ...]], np.ndarray] = np.zeros
) -> np.ndarray:
    """Return the beats of images (count, C, H, W), of their type: (count, beats, ways).

    Row by row, column by column, channel by channel; every row begins in a new beat.
    The unused elements of a row's last beat are ignored: ``rest`` returns them, for their shape.
    """
    count, channels, height, width = images.shape
    rows = images.transpose(0, 2, 3, 1).reshape(count, height, width * channels)
    unused = rest((count, height, -rows.shape[-1] % ways)).astype(images.dtype)
    return np.concatenate([rows, unused], axis=-1).reshape(count, -1, ways)


def _numbers(layout: data.StructLayout, name: str) -> tuple[int, int, Shape]:
    """Return the offset of a field, how many numbers it has, and the shape of each."""
    shape, length = layout[name].shape, 1
    while isinstance(shape, data.ArrayLayout):
        shape, length = shape.elem_shape, length * shape.length
    return layout[name].offset, length, Shape.cast(shape)


def pack(layout: data.StructLayout, count: int, /, **fields: np.ndarray | int) -> np.ndarray:
    """Return ``count`` payloads of a layout as 32-bit words (count, words), low word first.

    The numbers of an array are the last dimension of its field, or dimensions if it has arrays.
    """
    bits = np.zeros((count, -(-layout.size // 32) * 32), np.uint8)
    for name, value in fields.items():
        at, length, each = _numbers(layout, name)
        numbers = np.asarray(value, np.int64).reshape(-1, length, 1) >> np.arange(each.width) & 1
        bits[:, at : at + length * each.width] = numbers.reshape(-1, length * each.width)
    return np.packbits(bits, axis=1, bitorder="little").view("<u4")


def unpack(layout: data.StructLayout, found: np.ndarray, name: str) -> np.ndarray:
    """Return a field of payloads as :func:`pack` gives them: int64, (count, numbers)."""
    at, length, each = _numbers(layout, name)
    bits = np.unpackbits(found.astype("<u4").view(np.uint8), axis=1, bitorder="little")
    scale = 1 << np.arange(each.width)
    scale[-1] *= -1 if each.signed else 1
    own = bits[:, at : at + length * each.width].reshape(len(found), length, each.width)
    return own.astype(np.int64) @ scale


def words(payloads: Sequence[int], shape: ShapeLike) -> np.ndarray:
    """Return payloads, integers of their bits, as words: uint32 (count, words)."""
    size = -(-Shape.cast(shape).width // 32)
    raw = b"".join(payload.to_bytes(4 * size, "little") for payload in payloads)
    return np.frombuffer(raw, "<u4").reshape(len(payloads), size)


def integers(payloads: np.ndarray) -> list[int]:
    """Return payloads, uint32 (count, words), as the integers of their bits."""
    return [int.from_bytes(payload.tobytes(), "little") for payload in payloads]
