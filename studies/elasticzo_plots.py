"""The plot of the ElasticZO demonstration: loss and accuracy by epoch, as the paper's figures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from seedbed.flow.run.plot_style import legend, panels, png

__all__ = ["draw"]

#: Labels and colours of the methods (Okabe and Ito, colour-blind safe).
METHODS = {
    "full-zo": ("Full ZO", "#000000"),
    "cls2": ("Cls2", "#D55E00"),
    "cls1": ("Cls1", "#0072B2"),
    "full-bp": ("Full BP", "#888888"),
}
Result = dict[str, Any]


def draw(folder: Path, result: Result) -> bytes:
    """Draw ``result``, and those of other methods in ``folder`` that compare with it.

    Training loss (solid) and test loss (dotted), and test accuracy; of several seeds the mean, and
    the range as a band. Source: ElasticZO, Figures 2 (floating point) and 3 (int8).
    """
    figure, (left, right) = panels(2, 9, 3.6)
    for each in sorted(_comparable(folder, result), key=lambda one: one["settings"]["method"]):
        label, colour = METHODS[each["settings"]["method"]]
        _curve(left, each, "loss", f"{label}, training", colour, "-")
        _curve(left, each, "test_loss", f"{label}, test", colour, ":")
        _curve(right, each, "accuracy", f"{label}, training", colour, "-")
    left.set(xlabel="Epoch", ylabel="Loss (cross-entropy)")
    right.set(xlabel="Epoch", ylabel="Test accuracy (%)")
    legend(figure, columns=4)
    return png(figure)


def _comparable(folder: Path, result: Result) -> Iterator[Result]:
    """Yield results of the folder that differ in the method alone, ``result`` included."""

    def same(one: Result) -> dict[str, Any]:
        settings = {n: v for n, v in one["settings"].items() if n not in ("method", "seed")}
        return json.loads(json.dumps([settings, one["images"], one["data"]]))

    for path in sorted(folder.glob("elasticzo-*.json")):
        found = json.loads(path.read_text())
        if "settings" in found and same(found) == same(result):
            yield found


def _curve(axes: Axes, result: Result, name: str, label: str, colour: str, style: str) -> None:
    curves = np.array([[each[name] for each in run["history"]] for run in result["runs"]])
    epochs = np.arange(1, curves.shape[1] + 1)
    axes.plot(epochs, curves.mean(axis=0), color=colour, linestyle=style, label=label)
    if len(curves) > 1:
        axes.fill_between(
            epochs, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.2, linewidth=0
        )
