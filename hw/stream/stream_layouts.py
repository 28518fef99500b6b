"""Ports of the streamed engine, and the layouts of a program's header and records."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Value, signed
from amaranth.lib import data

from seedbed.hw.parts.codes import codes
from seedbed.spec import STREAM_ENGINE_STATUS, StreamEngineConfig
from seedbed.spec.engine_records import HEADER, KEPT, KINDS, PLACE, RECORD, TARGETS
from seedbed.spec.stream_engine import SIGN_BITS

__all__ = [
    "KIND_CODES",
    "LABEL_BITS",
    "POSITION_BITS",
    "SHIFT_BITS",
    "STATUS",
    "STORE_CYCLES",
    "TOKEN_BITS",
    "element_layout",
    "header_layout",
    "input_layout",
    "is_given",
    "is_in",
    "is_unwritten",
    "job_layout",
    "kept_layout",
    "products_layout",
    "record_kinds",
    "record_layout",
    "result_layout",
    "status_layout",
    "token_layout",
    "unwritten_layout",
    "values_layout",
    "word_layout",
]

KIND_CODES = codes(KINDS)
STATUS = codes(STREAM_ENGINE_STATUS)
#: Bits of a token's number, and of its position.
TOKEN_BITS, POSITION_BITS = HEADER["tokens"], HEADER["context"]
#: Bits of the class that comes with a token.
LABEL_BITS = 8
#: Read latency of the store: a register of the address, the memory, and a register of the data, as
#: its block RAMs are spread over the chip.
STORE_CYCLES = 3
#: Bits of the shift of a key or a value.
SHIFT_BITS = 4


def _struct(fields: Mapping) -> data.StructLayout:
    return data.StructLayout(
        {
            name: _struct(form) if isinstance(form, Mapping) else form
            for name, form in fields.items()
        }
    )


def record_layout() -> data.StructLayout:
    """Return the layout of a record, see :mod:`seedbed.spec.engine_records`."""
    return _struct(RECORD)


def record_kinds(config: StreamEngineConfig, record) -> dict[str, Value]:
    """Return whether a record is of each kind; one with packed weights is a matrix, too."""
    found = {
        name: record.kind == code
        for name, code in KIND_CODES.items()
        if name == config.packed or name not in ("seedlm", "groups")
    }
    if config.packed:
        found["matrix"] |= found[config.packed]
    return found


def is_given(config: StreamEngineConfig, record) -> Value:
    """Return whether results of a record go out."""
    given = record.target == TARGETS.index("output")
    chosen = record.target == TARGETS.index("choose")
    return given | chosen if config.choose or config.classes else given


def header_layout() -> data.StructLayout:
    """Return the layout of a header."""
    return _struct(HEADER)


def job_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a command."""
    limits = {"first": config.address_bits, "end": config.address_bits + 1}
    signs = {"seed": SIGN_BITS, "delta": signed(KEPT["difference"])}
    return data.StructLayout(
        {"kind": range(len(config.kinds)), "address": config.address_bits, "start": 1}
        | (limits if config.writes else {})
        | (signs if config.tune else {})
    )


def token_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a token of a block."""
    label = {"label": LABEL_BITS} if config.classes else {}
    return data.StructLayout({"token": TOKEN_BITS, **label, "last": 1})


def input_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a beat of a vector that comes with a token."""
    return data.StructLayout({"values": values_layout(config), "last": 1})


def status_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of how a command ended."""
    return data.StructLayout(
        {"kind": range(len(config.kinds)), "status": range(len(STREAM_ENGINE_STATUS))}
    )


def element_layout(config: StreamEngineConfig) -> data.ArrayLayout:
    """Return the layout of a beat of the store."""
    return data.ArrayLayout(signed(config.unit.residual_width), config.lanes)


def result_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a beat of a vector of the result."""
    return data.StructLayout({"values": element_layout(config), "last": 1})


def unwritten_layout() -> data.StructLayout:
    """Return the layout of the beats of the store that an earlier pass has not written yet."""
    return data.StructLayout({"on": 1, "first": PLACE["place"], "end": PLACE["place"] + 1})


def is_in(beats, place) -> Value:
    """Return whether a beat of the store is one of these."""
    return beats.on & (place >= beats.first) & (place < beats.end)


def is_unwritten(reader, place) -> Value:
    """Return whether a beat of the store is not to be read yet by a part that reads it."""
    parts = [reader.unwritten, *([reader.of_matrix] if reader.config.chains else [])]
    return Cat(is_in(beats, place) for beats in parts).any()


def values_layout(config: StreamEngineConfig) -> data.ArrayLayout:
    """Return the layout of a beat of a vector that is narrow."""
    return data.ArrayLayout(signed(config.unit.width), config.lanes)


def kept_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a beat of the cache: keys or values, and their shift."""
    numbers = data.ArrayLayout(signed(config.unit.cache_width), config.lanes)
    return data.StructLayout({"numbers": numbers, "shift": SHIFT_BITS})


def word_layout(config: StreamEngineConfig) -> data.ArrayLayout:
    """Return the layout of a word of the cache: ``products`` keys or values of a head."""
    return data.ArrayLayout(kept_layout(config), config.products // config.lanes)


def products_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of a beat of sums of products, and of shifts of their keys."""
    return data.StructLayout(
        {
            "sums": data.ArrayLayout(signed(config.unit.sum_width), config.lanes),
            "shifts": data.ArrayLayout(SHIFT_BITS, config.lanes),
        }
    )
