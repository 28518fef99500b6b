"""Layouts of the streams of the matrix-vector product."""

from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.hw.products import sparse_layouts
from seedbed.hw.products.sparse_layouts import each_vector
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import (
    EXPONENT_BITS,
    FACTOR_BITS,
    FACTOR_SHIFT,
    GROUP,
    MANTISSA_BITS,
)

__all__ = [
    "command_layout",
    "groups_layout",
    "job_layout",
    "result_layout",
    "scale_layout",
    "sums_layout",
    "totals_layout",
    "vector_layout",
    "weights_layout",
]


def job_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a command of :class:`~seedbed.hw.products.gemv_engine.GemvEngine`."""
    fields = {"columns": range(config.columns + 1), "rows": config.row_width}
    if config.mixed:
        fields["plain"] = 1
    return data.StructLayout(fields | {"clear": 1})


def command_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`~seedbed.hw.products.gemv.Gemv`."""
    fields = dict(job_layout(config).members)
    if config.sparse:
        fields |= sparse_layouts.command_layout(config.sparse).members
    return data.StructLayout(fields)


def groups_layout(config: GemvConfig) -> data.ArrayLayout:
    """Return the layout of the factors of the groups of a beat, with the decode ``groups``."""
    factor = data.StructLayout({"mantissa": signed(FACTOR_BITS), "shift": FACTOR_SHIFT})
    group = data.StructLayout({"scale": factor, "minimum": factor})
    return data.ArrayLayout(group, config.mac.blocks)


def totals_layout(config: GemvConfig, lanes: int) -> data.ArrayLayout:
    """Return the layout of the sums of each group of some lanes of activations, by vector."""
    width = config.activation_width + GROUP.bit_length() - 1
    return data.ArrayLayout(signed(width), config.vectors * (lanes // GROUP))


def vector_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a beat of activations, see :class:`~seedbed.hw.products.gemv.Gemv`."""
    lanes = data.ArrayLayout(signed(config.activation_width), config.group)
    fields = {"lanes": each_vector(config, lanes)}
    if config.decode == "groups":
        fields["totals"] = totals_layout(config, config.group)
    return data.StructLayout(fields | {"last": 1})


def weights_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a beat of weights, see :class:`~seedbed.hw.products.gemv.Gemv`."""
    fields = {"data": config.beat_bits}
    if config.decode == "groups":
        fields["groups"] = groups_layout(config)
    return data.StructLayout(fields | {"last": 1})


def scale_layout() -> data.StructLayout:
    """Return the layout of the scale of a row, see :class:`~seedbed.hw.products.gemv.Gemv`."""
    return data.StructLayout({"mantissa": MANTISSA_BITS, "exponent": signed(EXPONENT_BITS)})


def sums_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a result of :class:`~seedbed.hw.products.gemv_engine.GemvEngine`."""
    sums = each_vector(config, signed(config.dense_width))
    return data.StructLayout({"sum": sums, "status": 3, "last": 1})


def result_layout(config: GemvConfig) -> data.StructLayout:
    """Return the layout of a result, see :class:`~seedbed.hw.products.gemv.Gemv`."""
    sums = each_vector(config, signed(config.result_width))
    return data.StructLayout({"sum": sums, "status": 3, "last": 1})
