"""Programs of the streamed engine in memory: a header, and a record for each pass.

A record is 256 bits, a field after the other from the lowest. A body of records up to one with
``last`` is repeated for each token of the block (with ``by_token``), and ``repeat`` times for each
of these, such as once for each head.
"""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ADDENDS",
    "CONSTANTS",
    "FACTORS",
    "HEADER",
    "KEPT",
    "KEPT_BEATS",
    "KEPT_BITS",
    "KEPT_COUNT",
    "KINDS",
    "LENGTHS",
    "MAGIC",
    "NUMBERS",
    "PACKINGS",
    "PLACE",
    "RECORD",
    "RECORD_BITS",
    "TARGETS",
    "packed",
    "unpacked",
]

RECORD_BITS = 256
#: The first field of a header: "SEED" in bytes.
MAGIC = 0x44454553

#: A pass of the vector unit; the products of a matrix with rows of int8; a vector that is kept as
#: int8; the products of a matrix with rows of a trellis code; keys and values of the block's tokens
#: that are saved to memory, and those of the tokens before it that are restored from there; the
#: products of a matrix with rows of SeedLM's blocks, or with rows of groups. The constant of the
#: record of a matrix with groups is 1 where their codes have 8 bits.
KINDS = ("pass", "matrix", "keep", "trellis", "save", "restore", "seedlm", "groups")
#: Kinds of a matrix whose weights are packed. A core has one of them at most.
PACKINGS = ("trellis", "seedlm", "groups")
#: Numbers of a pass: of the store; words of memory; the row of a token, or of its position, in a
#: table; sums of products of a query and keys; of shares and values; zeros; a
#: vector that comes with the token.
NUMBERS = ("store", "words", "token", "position", "scores", "mix", "zeros", "input")
#: Factors: none, of the store, words of memory, shifts of keys.
FACTORS = ("none", "store", "words", "shifts")
#: Addends: none, of the store, words of memory.
ADDENDS = ("none", "store", "words")
#: Results: none, to the store, to the output; to the output the number of the greatest one or, as
#: the header says, the loss and this number.
TARGETS = ("none", "store", "output", "choose")
#: The constant of a command: that of the record, the token's position, the multiplier of a row.
CONSTANTS = ("field", "position", "row")
#: The length of a pass: that of the record, the tokens of the block, those that are attended to.
LENGTHS = ("field", "tokens", "seen")

#: Repetitions that a record is for: each, the first one only, or the one after this.
HEADS = ("each", "first", "next")

#: A place in the store, in beats: of the token's frame, or of the whole store with ``shared``;
#: with ``by_head`` it is moved by ``head`` beats for each repetition.
PLACE: dict[str, int] = {"place": 14, "shared": 1, "by_head": 1}

#: Fields of a record, with their bits.
RECORD: dict[str, Any] = {
    "kind": 3,
    # What is repeated.
    "last": 1,
    "by_token": 1,
    "repeat": 8,
    # The command of the vector unit. A matrix has its columns as length.
    "operation": 4,
    "activation": 2,
    "centred": 1,
    "add": 1,
    "wide": 1,
    "shift": 6,
    "length": 14,
    "constant": 48,
    "constant_from": 2,
    "length_from": 2,
    # What is read and written.
    "numbers": 3,
    "factors": 2,
    "addends": 2,
    "target": 2,
    "number_place": PLACE,
    "factor_place": PLACE,
    "addend_place": PLACE,
    "target_place": PLACE,
    # Beats of a head; heads that share one of keys and values; the place of it in a token's row.
    "head": 10,
    "group": 8,
    "cache": 14,
    # Where parameters, or keys and values, are in memory, in beats; rows of a matrix, beats of all
    # keys and values.
    "address": 32,
    "rows": 20,
    # A token attends to its whole block, and not only to those before it; a matrix shifts a wide
    # vector to a narrow one.
    "all": 1,
    "narrow": 1,
    # For which repetitions the record is.
    "of_head": 2,
    # The next body follows for each group of tokens that share a pass over weights.
    "joined": 1,
}

#: Of a matrix with a trellis code, the constant of its record is the beats of weights that are
#: kept, which come first. Such a weight has KEPT_BITS bits with these fields: what is added to the
#: value of the code, signed, its column, and whether it is changed when weights are tuned. The
#: highest bits of a row's multiplier are how many it has. Where kept weights have fraction bits,
#: the lowest KEPT_BEATS bits of the constant are the beats, and the others the address.
KEPT: dict[str, int] = {"difference": 16, "column": 14, "trainable": 1}
KEPT_BITS, KEPT_COUNT, KEPT_BEATS = 32, 8, 16

#: Fields of the header: what the program is for, and the CRC-32 of all other words of 32 bits.
HEADER: dict[str, int] = {
    "magic": 32,
    "records": 16,
    "lanes": 4,
    # Bits of a weight of a trellis code, 0 if no matrix has one; 1 more if weights that are kept
    # have fraction bits; 6 for blocks of SeedLM, 7 for groups.
    "trellis": 3,
    # Whether a record has the target "choose".
    "choose": 1,
    "beat_bytes": 8,
    # Beats of a token's frame in the store, and of the whole store.
    "frame": 16,
    "store": 16,
    # Beats of a token's row of the cache, and of the whole cache.
    "row": 16,
    "cache": 24,
    "block": 9,
    "context": 15,
    # Rows of the table of tokens.
    "tokens": 24,
    # Fraction bits of kept weights.
    "fraction": 4,
    # Whether the target "choose" gives a loss.
    "loss": 1,
    "unused": 35,
    "crc": 32,
}


def packed(fields: Mapping[str, Any], layout: Mapping[str, Any]) -> int:
    """Return the bits of ``fields``, 0 for those that are not given.

    Raises ``ValueError`` for a name that the layout does not have, or a number that does not fit.
    """
    if unknown := [name for name in fields if name not in layout]:
        raise ValueError(f"a record has no field {unknown[0]}")
    bits, place = 0, 0
    for name, width in layout.items():
        value = fields.get(name, 0)
        if isinstance(width, Mapping):
            value, width = packed(value or {}, width), sum(width.values())
        if not 0 <= value < 1 << width:
            raise ValueError(f"the field {name} must be in 0..{(1 << width) - 1}, not {value}")
        bits, place = bits | int(value) << place, place + width
    return bits


def unpacked(bits: int, layout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record, as :func:`packed` takes them."""
    found: dict[str, Any] = {}
    for name, width in layout.items():
        if isinstance(width, Mapping):
            found[name], width = unpacked(bits, width), sum(width.values())
        else:
            found[name] = bits & (1 << width) - 1
        bits >>= width
    return found
