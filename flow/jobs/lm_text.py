"""A few lines of text, and the training of a small language model on them."""

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from seedbed.flow.run.progress import Bar
from seedbed.golden import language_model

__all__ = ["LINES", "train"]

#: Ecclesiastes 3, King James Version (public domain): the first half is trained on.
LINES = [
    "To every thing there is a season, and a time to every purpose under the heaven:",
    "A time to be born, and a time to die; a time to plant, and a time to pluck up;",
    "A time to kill, and a time to heal; a time to break down, and a time to build up;",
    "A time to weep, and a time to laugh; a time to mourn, and a time to dance;",
    "A time to cast away stones, and a time to gather stones together;",
    "A time to get, and a time to lose; a time to keep, and a time to cast away;",
    "A time to rend, and a time to sew; a time to keep silence, and a time to speak;",
    "A time to love, and a time to hate; a time of war, and a time of peace.",
]
#: Width of the embedding, units of both layers, steps of training, windows per step, and rate.
WIDTH, UNITS, STEPS, BATCH, RATE = 16, 24, 250, 48, 3e-2
SEED = 0


def _shapes(classes: int) -> dict[str, tuple[int, ...]]:
    whole = WIDTH + 2 * UNITS
    shapes: dict[str, tuple[int, ...]] = {"embedding.weight": (classes, WIDTH)}
    for layer, inputs in (("lstm1", WIDTH), ("lstm2", UNITS)):
        shapes |= {
            f"{layer}.input.weight": (4 * UNITS, inputs),
            f"{layer}.recurrent.weight": (4 * UNITS, UNITS),
            f"{layer}.bias": (4 * UNITS,),
        }
    return shapes | {
        "attention.weight": (1, whole),
        "output.weight": (classes, whole),
        "output.bias": (classes,),
    }


def train(
    classes: int, contexts: np.ndarray, targets: np.ndarray, *, steps: int = STEPS,
    console: Console,
) -> Mapping[str, np.ndarray]:  # fmt: skip
    """Return the parameters of a small model after ``steps`` steps of Adam on random windows."""
    rng = np.random.default_rng(SEED)
    parameters = {
        name: (rng.normal(size=shape) / np.sqrt(shape[-1]) if len(shape) > 1 else np.zeros(shape))
        .astype(np.float32)
        for name, shape in _shapes(classes).items()
    }  # fmt: skip
    means = {name: np.zeros_like(value) for name, value in parameters.items()}
    squares = {name: np.zeros_like(value) for name, value in parameters.items()}
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=console,
    )  # fmt: skip
    with bar:
        task = bar.add_task("training", total=steps)
        for step in range(1, steps + 1):
            chosen = rng.integers(len(targets), size=BATCH)
            found = language_model.gradients(parameters, contexts[chosen], targets[chosen])
            for name, gradient in found.items():
                means[name] += 0.1 * (gradient - means[name])
                squares[name] += 0.01 * (gradient**2 - squares[name])
                mean, square = means[name] / (1 - 0.9**step), squares[name] / (1 - 0.99**step)
                change = RATE * mean / (np.sqrt(square) + 1e-8)
                parameters[name] = parameters[name] - change.astype(np.float32)
            bar.advance(task)
    return parameters
