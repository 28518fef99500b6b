"""Ports of the inference pipeline that others than its steps use."""

from amaranth.hdl import ShapeLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.spec.engine import EngineConfig

__all__ = [
    "direct_members",
    "part_write_layout",
    "row_address",
    "store_address",
    "word_write_layout",
]


def store_address(config: EngineConfig) -> dict[str, ShapeLike]:
    """Return what a read of the activation store needs, see :class:`ActivationStore`."""
    skew = range(max(2, len(config.plan.skews)))
    return {"address": ActivationStore.width(config), "skew": skew}


def row_address(config: EngineConfig) -> dict[str, ShapeLike]:
    """Return what a read of the parameter memory needs, see :class:`ParameterMemory`."""
    rows = range(max(config.plan.frozen_rows, config.plan.trainable_rows, 2))
    return {"trainable": 1, "page": 2, "row": rows, "blank": 1}


def word_write_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a write of two numbers of a row."""
    pair = range(config.plan.ways * config.plan.lanes // 2)
    fields = {"write": 1, "row": range(max(config.written_rows, 2)), "pair": pair}
    return data.StructLayout(fields)


def part_write_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a write of eight numbers of a row."""
    parts = range(max(config.plan.ways * config.plan.lanes // 8, 2))
    fields = {"write": 1, "row": range(max(config.written_rows, 2)), "part": parts}
    return data.StructLayout(fields)


def direct_members(config: EngineConfig) -> dict[str, wiring.Member]:
    """Return the ports by which memories and multipliers are used without steps."""
    plan, mac = config.plan, config.mac
    number, weight = signed(config.number), signed(mac.weight_width)
    row = data.ArrayLayout(weight, plan.ways * plan.lanes)
    written = {"write": 1, "page": 2, "row": range(max(config.written_rows, 2))}
    ports = {
        "load": Out(1),
        "loaded": Out(1),
        "row_write": In(data.StructLayout(written)),
        "row_values": In(row),
        "activations": Out(data.ArrayLayout(number, plan.lanes)),
        "rows": Out(row),
    }
    if mac.products:
        product = signed(mac.weight_width + mac.activation_width)
        ports |= {
            "outer": In(1),
            "factors": In(data.ArrayLayout(number, plan.ways)),
            "scale": In(1),
            "scale_by": In(signed(mac.activation_width)),
            "products": Out(data.ArrayLayout(product, plan.ways * plan.lanes)),
        }
    return ports
