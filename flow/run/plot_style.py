"""Common style of all plots: colours, frames, legends; reproducible output."""

from io import BytesIO

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["NEUTRAL", "OTHER", "OURS", "PAPER", "label_missing", "legend", "panels", "png"]

#: Colours of measured figures, published figures, other designs, and reference lines.
OURS, PAPER, OTHER, NEUTRAL = "#1f5f99", "#c8862a", "#3d8f6e", "#6b7683"


def panels(
    count: int, width: float, height: float, *, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of ``width`` x ``height`` inches with ``count`` axes side by side.

    It needs no display. The margins keep points off the frame.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    found = list(figure.subplots(1, count, squeeze=False, sharex=sharex, sharey=sharey)[0])
    for axes in found:
        axes.margins(0.08)
        axes.set_axisbelow(True)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)
    return figure, found


def label_missing(
    axes: Axes, place: tuple[float, float], text: str, *, upright: bool = False
) -> None:
    """Write ``text`` in place of a bar without a figure."""
    kind = {"rotation": 90, "ha": "center"} if upright else {"va": "center"}
    shift = (0, 4) if upright else (4, 0)
    axes.annotate(text, place, shift, textcoords="offset points", fontsize=7, color=NEUTRAL, **kind)


def legend(figure: Figure, *, columns: int = 3) -> None:
    """Draw one legend for all axes below them, without duplicates."""
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(
        named.values(), list(named), loc="outside lower center", ncols=columns, fontsize=8,
        frameon=False, handlelength=2.8,
    )  # fmt: skip


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file's content."""
    buffer = BytesIO()
    # No version in the file: equal rows give equal bytes.
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()
