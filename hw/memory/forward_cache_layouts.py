"""Layouts of the streams of the forward cache, and the parts of a transfer."""

from amaranth.lib import data, enum

from seedbed.spec import ForwardCacheConfig

__all__ = [
    "Part",
    "answer_layout",
    "codes_layout",
    "request_layout",
]


class Part(enum.Enum, shape=2):
    """A part of a transfer: a store's frame of codes, or one that is dropped; the peaks of a store,
    after it; a whole entry that is fetched.
    """

    CODES = 0
    DROP = 1
    PEAKS = 2
    FETCH = 3


def codes_layout(config: ForwardCacheConfig, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of codes, see :class:`EntryConverter`."""
    codes = data.ArrayLayout(4, lanes)
    return data.StructLayout({"codes": codes, "peak": config.peak_width, "last": 1})


def request_layout() -> data.StructLayout:
    """Return the layout of a request, see :class:`ForwardCache`."""
    return data.StructLayout({"index": 16, "kind": 2})


def answer_layout() -> data.StructLayout:
    """Return the layout of an answer, see :class:`ForwardCache`."""
    return data.StructLayout({"status": 3})
