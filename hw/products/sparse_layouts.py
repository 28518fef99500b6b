"""Layouts of the sparse part's streams."""

from amaranth.hdl import Cat, ShapeLike, Value, signed
from amaranth.lib import data

from seedbed.spec import GemvConfig, SparseMacConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import MOST_SCALE, SPARSE_MAC_KINDS

__all__ = [
    "command_layout",
    "each_vector",
    "entry_layout",
    "products_layout",
    "result_layout",
    "shape_is_wrong",
    "token_layout",
    "vector_layout",
]


def each_vector(config: SparseMacConfig | GemvConfig, shape: ShapeLike) -> ShapeLike:
    """Return the shape of what each vector has: an array if there are several."""
    return data.ArrayLayout(shape, config.vectors) if config.vectors > 1 else shape


def entry_layout(config: SparseMacConfig, **more: int) -> data.StructLayout:
    """Return the layout of an entry; ``more`` are further fields."""
    place = {"row": config.row_width, "column": range(max(2, config.columns))}
    return data.StructLayout(place | {"value": signed(config.value_width)} | more)


def token_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of an entry in the pipeline: its flags, and the entry."""
    return data.StructLayout({"valid": 1, "end": 1, "entry": entry_layout(config)})


def products_layout(config: SparseMacConfig) -> data.ArrayLayout:
    """Return the layout of the products of an entry, shifted: one of each vector."""
    return data.ArrayLayout(signed(config.product_width + config.most_shift), config.vectors)


def command_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of a command, see :class:`~seedbed.hw.products.sparse_mac.SparseMac`."""
    fields = {
        "kind": 2,
        "rows": config.row_width,
        "columns": range(config.columns + 1),
        "count": config.count_width,
        "shift": range(max(2, config.most_shift + 1)),
        "perturb": config.vectors,
        "negative": config.vectors,
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
    return data.StructLayout({"lanes": each_vector(config, lanes), "last": 1})


def result_layout(config: SparseMacConfig) -> data.StructLayout:
    """Return the layout of a sum, see :class:`~seedbed.hw.products.sparse_mac.SparseMac`."""
    sums = each_vector(config, signed(config.sum_width))
    return data.StructLayout({"sum": sums, "status": 3, "last": 1})


def shape_is_wrong(config: SparseMacConfig, command: data.View) -> Value:
    """Return whether a command asks for what there is not."""
    kinds = len(SPARSE_MAC_KINDS) if config.entries else SPARSE_MAC_KINDS.index("load")
    wrong = [
        command.rows == 0,
        command.columns == 0,
        command.columns > config.columns,
        command.kind >= kinds,
    ]
    if config.most_shift + 1 < 1 << len(command.shift):
        wrong.append(command.shift > config.most_shift)
    if config.entries:
        wrong.append(command.first + command.count > config.entries)
    return Cat(wrong).any()
