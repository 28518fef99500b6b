"""Devices of the ECP5 family: how many block RAMs and multipliers they have."""

from dataclasses import dataclass

__all__ = ["DEVICES", "Device", "blocks"]


@dataclass(frozen=True)
class Device:
    """Block RAMs of 18 kbit, and multipliers of 18 x 18 bits.

    They are what nextpnr has for place and route. It uses all of a 12F, whose die is that of a 25F.
    """

    block_rams: int
    multipliers: int


DEVICES = {
    "LFE5U-12F": Device(56, 28),
    "LFE5U-45F": Device(108, 72),
    "LFE5U-85F": Device(208, 156),
}
#: Bits of a word, and words, of a block RAM.
_SHAPES = ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384))


def blocks(width: int, depth: int) -> int:
    """Return the block RAMs of a memory of ``depth`` words of ``width`` bits."""
    return min(-(-width // bits) * -(-depth // words) for bits, words in _SHAPES)
