"""The block diagram of the documentation.

``python -m seedbed.flow.report.block_diagram docs/architecture.svg`` draws it.
"""

import sys
from io import BytesIO
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from seedbed.flow.run.files import write_atomic

__all__ = ["ARROWS", "BOXES", "HEADINGS", "draw"]

STYLES = {
    "core": ("#e4eef8", "#1f5f99"),
    "other": ("#fbf0e0", "#c8862a"),
    "floor": ("#eef0f2", "#6b7785"),
    "out": ("#ffffff", "#6b7785"),
}

#: Each box: name, left, bottom, width, height, style, title, text.
BOXES: list[tuple[str, float, float, float, float, str, str, str]] = [
    ("seed", 0, 5.5, 1.3, 0.9, "out", "seed", "one word"),
    ("urng_array", 2.1, 5.3, 2.7, 1.3, "core", "urng_array", "$2^k-1$ LFSRs, rotating"),
    ("lfsr", 2.1, 7.25, 2.7, 0.85, "core", "lfsr", "one step: a GF(2) matrix"),
    ("scale_lut", 5.6, 6.9, 2.2, 1.2, "core", "scale_lut", "exponent of the\nbeat, by state"),
    (
        "prng_pool", 2.1, 3.4, 2.7, 1.3, "core", "prng_pool",
        "pre-generated numbers\nin memory banks",
    ),
    (
        "perturbation", 5.6, 4.0, 2.2, 2.1, "core", "perturbation",
        "$k\\,\\epsilon\\,z$: exactly $d$\nnumbers, then last",
    ),
    ("weights", 8.7, 4.4, 2.3, 1.3, "out", "your design", "weight stream\nto multipliers"),
    (
        "skid_buffer", 8.7, 3.25, 2.3, 0.9, "core", "skid_buffer",
        "register slice for streams",
    ),
    ("memory", 0, 9.6, 1.3, 0.9, "out", "memory", "64 bytes\nper cycle"),
    (
        "seedlm_decompress", 2.1, 9.4, 2.7, 1.3, "core", "seedlm_decompress",
        "blocks: seed and\ncoefficients",
    ),
    (
        "lut_dequantize", 2.1, 11.1, 2.7, 1.3, "core", "lut_dequantize",
        "4-bit codes and a\ntable of 16 levels",
    ),
    (
        "trellis_decompress", 5.6, 11.1, 2.2, 1.3, "core", "trellis_decompress",
        "stored bits: XORs\nof windows",
    ),
    (
        "sparse_mac", 8.7, 11.1, 2.3, 1.3, "core", "sparse_mac",
        "sparse, trainable\npart of $W$",
    ),
    ("mac_array", 5.6, 9.4, 2.2, 1.3, "core", "mac_array", "one multiplier\nper lane"),
    (
        "gemv", 8.7, 9.4, 2.3, 1.3, "core", "gemv",
        "matrix-vector\nproduct $y = W x$",
    ),
    (
        "forward_cache", 2.1, 13.7, 2.7, 1.3, "core", "forward_cache",
        "one entry per image,\nin external memory",
    ),
    ("nf4", 5.6, 13.7, 2.2, 1.3, "core", "nf4", "activations to\nand from 4 bits"),
    (
        "softmax_loss", 8.7, 13.7, 2.3, 1.3, "core", "softmax_loss",
        "class, loss and\ngradient",
    ),
    (
        "conv_engine", 2.1, 15.7, 2.7, 1.3, "core", "conv_engine",
        "frozen network,\nall layers on one array",
    ),
    ("lora", 5.6, 15.7, 2.2, 1.3, "core", "lora", "adapters and\ntheir training"),
    (
        "instantft", 8.7, 15.7, 2.3, 1.3, "core", "instantft",
        "complete core with\nadapters and SGD",
    ),
    (
        "requantize", 2.1, 18.5, 2.7, 1.3, "core", "requantize",
        "sums of a layer\nto int8",
    ),
    (
        "loss_sign", 5.6, 18.5, 2.2, 1.3, "core", "loss_sign",
        "sign of the loss\ndifference",
    ),
    (
        "weight_perturb", 2.1, 20.8, 2.7, 1.3, "core", "weight_perturb",
        "clamp$(w + k z)$,\nrow by row",
    ),
    (
        "vector_unit", 0, 23.9, 1.7, 1.3, "core", "vector_unit",
        "norms, softmax,\nrotations",
    ),
    (
        "stream_engine", 2.1, 23.9, 2.7, 1.3, "core", "stream_engine",
        "programs in memory:\ntransformers, MLPs",
    ),
    (
        "stream_trainer", 5.6, 23.9, 2.2, 1.3, "core", "stream_trainer",
        "training of their\nkept weights",
    ),
    (
        "sparse_trainer", 8.7, 23.9, 2.3, 1.3, "core", "sparse_trainer",
        "kept weights in the\ncore, on gemv",
    ),
    ("lutopt", 8.7, 5.9, 2.3, 0.8, "core", "lutopt", "one LUT per bit"),
    (
        "zo_trainer", 8.7, 18.5, 2.3, 1.3, "core", "zo_trainer",
        "zeroth-order training\nin int8",
    ),
    ("bp_tail", 5.6, 20.8, 2.2, 1.3, "core", "bp_tail", "last layers, by\nbackpropagation"),
    ("host_link", 8.7, 21.1, 2.3, 1.0, "core", "host_link", "registers and a\nstream, by UART"),
    ("sdram", 0, 13.7, 1.5, 1.3, "core", "sdram", "bursts, refresh,\nself-test"),
    ("tree_grng", 8.7, 6.9, 2.3, 1.2, "other", "tree_grng", "Gaussian generator,\nbaseline"),
    ("spec", 0, 0.9, 1.7, 1.0, "floor", "spec/", "configurations"),
    ("hw", 2.6, 1.6, 2.0, 1.0, "floor", "hw/", "RTL, Amaranth"),
    ("golden", 2.6, 0.2, 2.0, 1.0, "floor", "golden/", "models, NumPy"),
    ("sim", 5.5, 0.9, 2.3, 1.0, "floor", "sim/", "bit-exact tests, proofs"),
    ("flow", 8.7, 0.9, 2.3, 1.0, "floor", "flow/", "Verilog, synthesis,\nreport"),
]  # fmt: skip

#: Each arrow: from (name, side), to (name, side), text; sides as in a compass.
ARROWS: list[tuple[tuple[str, str], tuple[str, str], str]] = [
    (("seed", "e"), ("urng_array", "w"), ""),
    (("lfsr", "s"), ("urng_array", "n"), ""),
    (("seed", "s"), ("prng_pool", "w"), ""),
    (("urng_array", "ne"), ("scale_lut", "w"), "state         "),
    (("scale_lut", "s"), ("perturbation", "n"), ""),
    (("urng_array", "e"), ("perturbation", "nw"), "n numbers\nper beat"),
    (("prng_pool", "e"), ("perturbation", "sw"), "or"),
    (("lutopt", "w"), ("perturbation", "ne"), "or  "),
    (("perturbation", "e"), ("weights", "w"), "stream"),
    (("memory", "e"), ("seedlm_decompress", "w"), ""),
    (("seedlm_decompress", "e"), ("mac_array", "w"), "weights"),
    (("memory", "ne"), ("lut_dequantize", "w"), ""),
    (("lut_dequantize", "e"), ("mac_array", "nw"), "or"),
    (("trellis_decompress", "s"), ("mac_array", "n"), "or"),
    (("mac_array", "e"), ("gemv", "w"), "sums"),
    (("gemv", "n"), ("sparse_mac", "s"), "dense sums"),
    (("sdram", "e"), ("forward_cache", "w"), ""),
    (("vector_unit", "e"), ("stream_engine", "w"), ""),
    (("stream_engine", "e"), ("stream_trainer", "w"), ""),
    (("forward_cache", "e"), ("nf4", "w"), "codes"),
    (("nf4", "ne"), ("instantft", "sw"), "activations              "),
    (("conv_engine", "e"), ("lora", "w"), ""),
    (("lora", "e"), ("instantft", "w"), ""),
    (("softmax_loss", "n"), ("instantft", "s"), ""),
    (("requantize", "e"), ("loss_sign", "w"), "logits"),
    (("loss_sign", "e"), ("zo_trainer", "w"), ""),
    (("weight_perturb", "s"), ("requantize", "n"), "weights"),
    (("bp_tail", "e"), ("zo_trainer", "n"), ""),
    (("spec", "e"), ("hw", "w"), ""),
    (("spec", "e"), ("golden", "w"), ""),
    (("hw", "e"), ("sim", "w"), ""),
    (("golden", "e"), ("sim", "w"), ""),
    (("sim", "e"), ("flow", "w"), ""),
]

#: Heights of headings, and their texts.
HEADINGS: list[tuple[float, str]] = [
    (25.65, "Cores: programs and kept weights"),
    (22.6, "Cores: zeroth-order training in int8"),
    (17.45, "Cores: fine-tuning"),
    (12.85, "Cores: from compressed weights to a matrix-vector product"),
    (8.55, "Cores: from a seed to a perturbation stream"),
    (2.95, "Packages: one configuration for RTL and model; imports run from left to right"),
]

#: Ends of arrows on each side, as fractions of the box's width and height.
SIDES = {
    "e": (1, 0.5), "w": (0, 0.5), "n": (0.5, 1), "s": (0.5, 0),
    "ne": (1, 0.8), "nw": (0, 0.75), "sw": (0, 0.25),
}  # fmt: skip


def _boxes(axes: Axes) -> dict[str, tuple[float, float, float, float]]:
    places = {}
    for name, x, y, width, height, style, title, text in BOXES:
        fill, edge = STYLES[style]
        shape = FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.1", fc=fill, ec=edge
        )
        axes.add_patch(shape)
        lines = text.count("\n") + 1
        middle = y + height / 2
        axes.text(x + width / 2, middle + 0.13 * lines, title, ha="center", va="center", size=11)
        axes.text(
            x + width / 2, middle - 0.19, text, ha="center", va="center", size=8, color="#3b4652"
        )
        places[name] = (x, y, width, height)
    return places


def _arrows(axes: Axes, places: dict[str, tuple[float, float, float, float]]) -> None:
    def end(name: str, side: str) -> tuple[float, float]:
        x, y, width, height = places[name]
        across, up = SIDES[side]
        return x + across * width, y + up * height

    for start, stop, text in ARROWS:
        (x0, y0), (x1, y1) = end(*start), end(*stop)
        axes.add_patch(
            FancyArrowPatch(
                (x0, y0),
                (x1, y1),
                arrowstyle="-|>",
                mutation_scale=11,
                color="#3b4652",
                shrinkA=1,
                shrinkB=1,
            )
        )
        if text:
            axes.text((x0 + x1) / 2, (y0 + y1) / 2 + 0.08, text, ha="center", va="bottom", size=7.5)


def draw(kind: str = "svg") -> bytes:
    """Return the diagram; the same version of matplotlib gives the same bytes.

    Text is drawn as outlines, independent of installed fonts.
    """
    with rc_context({"svg.hashsalt": "seedbed", "svg.fonttype": "path"}):
        figure = Figure(figsize=(11, 24.4), facecolor="white")
        axes = figure.add_axes((0.02, 0.02, 0.96, 0.96))
        axes.set_xlim(-0.2, 11.2)
        axes.set_ylim(0, 26.2)
        axes.set_axis_off()
        for y, text in HEADINGS:
            axes.text(-0.1, y, text, size=12, weight="bold", va="center", color="#1c2530")
        _arrows(axes, _boxes(axes))
        buffer = BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    write_atomic(path, draw(path.suffix.lstrip(".")))
