"""Layouts of the sparse part's streams."""

from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.spec import SparseMacConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import MOST_SCALE

__all__ = [
    "command_layout",
    "entry_layout",
    "result_layout",
    "token_layout",
    "vector_layout",
]


def entry_layout(config: SparseMacConfig, **more: int) -> data.StructLayout:
    """Return the layout of an entry; ``more`` are further fields."""
    place = {"row": config.row_width, "column": range(max(2, config.columns))}
    return data.StructLayout(place | {"value": signed(config.value_width)} | more)


def token_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of an entry in the pipeline: its flags, and the entry."""
    return data.StructLayout({"valid": 1, "end": 1, "first": 1, "entry": entry_layout(config)})


def command_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`~seedbed.hw.sparse_mac.SparseMac`."""
    fields = {
        "kind": 2,
        "rows": config.row_width,
        "columns": range(config.columns + 1),
        "count": config.count_width,
        "shift": range(max(2, config.most_shift + 1)),
        "perturb": 1,
        "negative": 1,
        "scale": range(MOST_SCALE + 1),
        "seed": SEED_BITS,
        "gain": signed(config.activation_width),
        "clear": 1,
    }
    if config.entries:
        fields["first"] = range(max(2, config.entries))
    return data.StructLayout(fields)


def vector_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of a beat of activations."""
    lanes = data.ArrayLayout(signed(config.activation_width), config.group)
    return data.StructLayout({"lanes": lanes, "last": 1})


def result_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of a sum, see :class:`~seedbed.hw.sparse_mac.SparseMac`."""
    return data.StructLayout({"sum": signed(config.sum_width), "status": 3, "last": 1})
