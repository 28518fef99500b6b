"""Ports of the vector unit, and what one beat of a command does in its pipeline."""

from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.hw.parts.codes import codes
from seedbed.spec import VECTOR_OPERATIONS, VectorUnitConfig
from seedbed.spec.vector_unit import ACTIVATIONS

__all__ = [
    "ACTIVATION_CODES",
    "OPERATION_CODES",
    "addends_layout",
    "command_layout",
    "control_layout",
    "factors_layout",
    "numbers_layout",
    "results_layout",
]

OPERATION_CODES = codes(VECTOR_OPERATIONS)
ACTIVATION_CODES = codes(tuple(ACTIVATIONS))


def command_layout(config: VectorUnitConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i_commands``."""
    return data.StructLayout(
        {
            "operation": range(len(OPERATION_CODES)),
            "length": config.length_bits,
            "constant": config.constant_bits,
            "shift": config.shift_bits,
            "activation": range(len(ACTIVATION_CODES)),
            "centred": 1,
            "add": 1,
            "wide": 1,
        }
    )


def numbers_layout(config: VectorUnitConfig) -> data.ArrayLayout:
    """Return the layout of a beat at the port ``i``."""
    return data.ArrayLayout(signed(config.sum_width), config.lanes)


def factors_layout(config: VectorUnitConfig) -> data.ArrayLayout:
    """Return the layout of a beat at the port ``i_factors``."""
    return data.ArrayLayout(signed(config.factor_width), config.lanes)


def addends_layout(config: VectorUnitConfig) -> data.ArrayLayout:
    """Return the layout of a beat at the port ``i_addends``."""
    return data.ArrayLayout(signed(config.residual_width), config.lanes)


def results_layout(config: VectorUnitConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o``."""
    return data.StructLayout({"values": addends_layout(config), "last": 1})


def control_layout(config: VectorUnitConfig) -> data.StructLayout:
    """Return what is pipelined with a beat: what its stages do."""
    return data.StructLayout(
        {
            # The last beat of a command; the elements that are beyond its length.
            "last": 1,
            "outside": config.lanes,
            # The number: its complement or magnitude, plus an offset.
            "complement": 1,
            "magnitude": 1,
            "offset": signed(config.residual_width + 1),
            "carry": 1,
            # The addend: that of the port, or in even lanes a quarter turn.
            "add": 1,
            "angle": 1,
            # The factor: that of the port, or a common one.
            "by_factors": 1,
            "common": config.factor_bits,
            # What is multiplied: the number and its factor, or something else.
            "source": 2,
            # A table: how far the number is shifted, and which of its bits are beyond the end.
            "table": 2,
            "left": 4,
            "linear": 1,
            "beyond": 8,
            "sine": 1,
            # The shift to the right: a common one, less the factor, or the whole part of a power.
            "shift": config.shift_bits,
            "by_key": 1,
            "power": 1,
            # The result: its sign and its format, whether it goes out, and who else takes it.
            "subtract": 1,
            "wide": 1,
            "output": 1,
            "sums": 1,
            "peaks": 1,
        }
    )
