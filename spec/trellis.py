"""Configuration of a trellis code: weights are functions of windows of the stored bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from random import Random
from typing import ClassVar

from seedbed.spec.checks import require_int

__all__ = ["BITS", "CODES", "EXPONENTS", "STATE_BITS", "TrellisConfig", "draw", "draw_mask"]

#: Of each field, of each bit, the lowest first: the state bits whose XOR is that bit, as a mask.
Code = tuple[tuple[int, ...], ...]

#: Bits of a weight that there are.
BITS = (2, 3, 4)
#: The greatest number of bits of a state; the least is twice that of a weight.
STATE_BITS = 16
#: Exponents of a row's scale, a byte in two's complement.
EXPONENTS = (-128, 127)


@dataclass(frozen=True, kw_only=True)
class TrellisConfig:
    """A weight is a fixed function of the last L bits of its row, of which k are new.

    A row is a stream of k bits a weight, its least significant bit first: symbol t is the number
    in bits k t .. k t + k - 1. With state_(-1) = 0 at the start of each row::

        state_t = (state_(t-1) 2^k + symbol_t) mod 2^L
        bit_fb  = XOR of the state bits in the mask code[f][b]
        field_f = sum over b < B of bit_fb 2^b
        value_t = sum over f < F of (2 field_f - (2^B - 1))
        w_t     = value_t mantissa 2^exponent

    A field is a number of B bits in 0 .. 2^B - 1, and 2 field - (2^B - 1) is symmetric around 0. A
    value is an integer in -F (2^B - 1) .. F (2^B - 1), even if F is even, else odd. Three fields of
    five bits give -93 .. 93: 8 bits in two's complement.

    A packed row is the mantissa in a byte, unsigned, the exponent in a byte, in two's complement,
    and the stream, padded with zeros to a whole byte. An encoder gives a mantissa in 128 .. 255, or
    0 for a row of zeros.

    Parameters
    ----------
    bits
        k, bits of a symbol, 2, 3 or 4.
    state_bits
        L, bits of a state, 2 k..16.
    code
        Of each of F fields, 1..8, the masks of its B bits, 1..8, the lowest bit first: numbers
        1 .. 2^L - 1. ``None`` is the code of :data:`CODES`.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: QTIP (arXiv:2406.11235), section 3, for the trellis; the code is this project's.
    """

    bits: int = 4
    state_bits: int = 12
    code: Code | None = None
    #: Bytes of a packed row before its stream, and weights of the unit that is packed.
    header: ClassVar[int] = 2
    block: ClassVar[int] = 1

    def __post_init__(self) -> None:
        require_int("bits", self.bits, BITS[0], BITS[-1])
        require_int("state_bits", self.state_bits, 2 * self.bits, STATE_BITS)
        code = self.code
        if code is None:
            if (self.bits, self.state_bits) not in CODES:
                known = ", ".join(str(size) for bits, size in CODES if bits == self.bits)
                raise ValueError(
                    f"state_bits must be one of {known}, not {self.state_bits}, if no code is "
                    f"given: `seedbed trellis search` finds others"
                )
            code = CODES[self.bits, self.state_bits]
        object.__setattr__(self, "code", _require_code(code, self.state_bits))

    @property
    def block_bits(self) -> int:
        """Bits of a weight in the stream."""
        return self.bits

    @property
    def masks(self) -> Code:
        """The masks of the code, field by field."""
        assert self.code is not None
        return self.code

    @property
    def field_bits(self) -> int:
        """B, bits of a field."""
        return len(self.masks[0])

    @property
    def history(self) -> int:
        """L - k, bits of a state before its own symbol."""
        return self.state_bits - self.bits

    @property
    def peak(self) -> int:
        """F (2^B - 1), the greatest magnitude of a value."""
        return len(self.masks) * ((1 << self.field_bits) - 1)

    @property
    def width(self) -> int:
        """Bits of a value, in two's complement."""
        return self.peak.bit_length() + 1


def _require_code(code: object, state_bits: int) -> Code:
    """Return the code as tuples, or raise ``TypeError`` or ``ValueError``."""
    allowed = "code must be 1..8 fields of the same number of masks, 1..8"
    if not isinstance(code, Sequence) or not all(
        isinstance(field, Sequence) and not isinstance(field, str) for field in code
    ):
        raise TypeError(f"{allowed}, in a tuple of tuples, not {code!r}")
    sizes = {len(field) for field in code}
    if not 1 <= len(code) <= 8 or len(sizes) != 1 or not 1 <= sizes.pop() <= 8:
        raise ValueError(f"{allowed}, not {[len(field) for field in code]} masks")
    for field in code:
        for mask in field:
            require_int("every mask of code", mask, 1, (1 << state_bits) - 1)
    return tuple(tuple(field) for field in code)


def draw_mask(random: Random, state_bits: int, taps: int) -> int:
    """Return a random mask of ``taps`` state bits or, if 0, of any number of them but none."""

    def below(limit: int) -> int:
        # Python guarantees the same numbers in every version for random() only.
        return int(random.random() * limit)

    mask = 0 if taps else 1 + below((1 << state_bits) - 1)
    while mask.bit_count() < taps:
        mask |= 1 << below(state_bits)
    return mask


def draw(
    state_bits: int, seed: int, *, fields: int = 3, field_bits: int = 5, taps: int = 3
) -> Code:
    """Return a random code, whose masks are different: see :func:`draw_mask`.

    Raises ``TypeError`` or ``ValueError`` for numbers out of range, and if there are fewer masks.
    """
    require_int("state_bits", state_bits, 2 * BITS[0], STATE_BITS)
    require_int("fields", fields, 1, 8)
    require_int("field_bits", field_bits, 1, 8)
    require_int("taps", taps, 0, state_bits)
    needed, there_are = fields * field_bits, comb(state_bits, taps) if taps else 2**state_bits - 1
    if there_are < needed:
        raise ValueError(
            f"{needed} different masks are needed, but {state_bits} state bits have only "
            f"{there_are} of {taps} taps"
        )
    random = Random(seed)
    found: list[int] = []
    while len(found) < fields * field_bits:
        mask = draw_mask(random, state_bits, taps)
        if mask not in found:
            found.append(mask)
    return tuple(tuple(found[f * field_bits :][:field_bits]) for f in range(fields))


#: Codes by bits of a weight and of a state. Found by `seedbed trellis search`.
CODES: dict[tuple[int, int], Code] = {
    (2, 8): (
        (0x23, 0xC8, 0x1A, 0x38, 0x52),
        (0x46, 0xE0, 0xA2, 0xA8, 0x2C),
        (0x15, 0x2A, 0x92, 0x86, 0x89),
    ),
    (2, 10): (
        (0x181, 0x025, 0x2A0, 0x248, 0x046),
        (0x064, 0x098, 0x01C, 0x222, 0x241),
        (0x141, 0x206, 0x0C4, 0x0B0, 0x10A),
    ),
    (2, 12): (
        (0x601, 0x301, 0x284, 0x444, 0x822),
        (0x80C, 0x212, 0x02C, 0x182, 0x501),
        (0x4A0, 0x00B, 0x112, 0x282, 0x418),
    ),
    (3, 8): (
        (0x8C, 0x98, 0x0E, 0xA2, 0x43),
        (0x45, 0xC4, 0x92, 0x29, 0xD0),
        (0x0B, 0x1C, 0x54, 0x64, 0xC1),
    ),
    (3, 10): (
        (0x148, 0x034, 0x023, 0x0C4, 0x085),
        (0x109, 0x054, 0x02C, 0x068, 0x114),
        (0x064, 0x00B, 0x098, 0x181, 0x212),
    ),
    (3, 12): (
        (0x510, 0x0C8, 0x034, 0x806, 0x244),
        (0x848, 0x148, 0x064, 0x20C, 0x881),
        (0x890, 0xA04, 0x0D0, 0x214, 0x502),
    ),
    (4, 8): (
        (0x25, 0x86, 0x1A, 0x83, 0x49),
        (0xC8, 0x43, 0x85, 0xA4, 0xC2),
        (0xA1, 0x0E, 0x0D, 0x91, 0x61),
    ),
    (4, 10): (
        (0x242, 0x228, 0x128, 0x205, 0x222),
        (0x023, 0x20A, 0x007, 0x025, 0x0A8),
        (0x281, 0x052, 0x288, 0x061, 0x045),
    ),
    (4, 12): (
        (0x085, 0x0C4, 0x1A0, 0x806, 0x244),
        (0x218, 0x814, 0x094, 0x02A, 0x045),
        (0x248, 0x086, 0x510, 0x214, 0x502),
    ),
}
