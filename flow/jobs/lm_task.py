"""A language model, texts as windows, and what the demonstrations make of its gradients."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from safetensors.numpy import load_file

from seedbed.flow.compress import run, workers
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.plan import Options
from seedbed.flow.jobs.lm_text import LINES, train
from seedbed.golden import language_model

__all__ = [
    "TENSORS",
    "Task",
    "damped",
    "embedded",
    "join",
    "load",
    "restore",
    "resumed",
    "second_moments",
    "squared_gradients",
]

#: Compressed tensors: all matrices but the one row of the attention.
TENSORS = "[!a]*.weight"
#: The character that begins a text.
START = "<s>"

Windows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A model, the number of each character, and texts, line by line as windows.

    ``lines`` has the contexts and next characters of each line of each text, by its name.
    """

    parameters: dict[str, np.ndarray]
    lines: dict[str, list[Windows]]

    @property
    def texts(self) -> dict[str, Windows]:
        """Windows of each text."""
        return {name: join(found) for name, found in self.lines.items()}

    @property
    def statistics(self) -> str:
        """Name of the text of gradients and importance."""
        return next(iter(self.lines))


def join(lines: list[Windows]) -> Windows:
    """Return the windows of several lines."""
    contexts, targets = zip(*lines, strict=True)
    return np.concatenate(contexts), np.concatenate(targets)


def resumed(path: Path, digest: str) -> dict[str, Any] | None:
    """Return the result that an interrupted run with the same ``input`` has written, if any."""
    try:
        before = json.loads(path.read_text())
        return before if before["input"] == digest else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def squared_gradients(
    parameters: dict[str, np.ndarray], lines: list[Windows], advance: Callable[[], object]
) -> dict[str, np.ndarray]:
    """Return the sum over lines of the squared gradients of a line's loss.

    ``advance`` is called after each line.
    """
    squares = {name: np.zeros(v.shape) for name, v in parameters.items()}
    for contexts, targets in lines:
        found = language_model.gradients(parameters, contexts, targets)
        for name, value in found.items():
            squares[name] += (value.astype(np.float64) * len(targets)) ** 2
        advance()
    return squares


def second_moments(
    parameters: dict[str, np.ndarray], lines: list[Windows], advance: Callable[[], object]
) -> dict[str, np.ndarray]:
    """Return the sum over lines of a line's second moments, times its characters.

    ``advance`` is called after each line.
    """
    moments: dict[str, Any] = {}
    for contexts, targets in lines:
        found = language_model.second_moments(parameters, contexts, targets)
        for name, value in found.items():
            moments[name] = moments.get(name, 0) + value * len(targets)
        advance()
    return moments


def damped(moments: dict[str, np.ndarray], damping: float) -> dict[str, np.ndarray]:
    """Return second moments, float32, as importance of all columns together.

    The mean of the diagonal is 1, and ``damping`` is added to the diagonal.
    """
    found = {
        n: v / v.diagonal().mean() + damping * np.eye(len(v)) if v.any() else np.eye(len(v))
        for n, v in moments.items()
    }
    return {n: v.astype(np.float32) for n, v in found.items()}


def restore(
    source: Path, out: Path, options: Options
) -> tuple[run.Summary, int, dict[str, np.ndarray]]:
    """Compress ``source`` and decompress it; return totals, bytes and the model.

    Files ``packed.safetensors`` and ``restored.safetensors`` are written to ``out``.
    """
    packed, restored = out / "packed.safetensors", out / "restored.safetensors"
    for left in ("journal", "part"):
        # Of a row that was interrupted, perhaps another one.
        packed.with_name(f"{packed.name}.{left}").unlink(missing_ok=True)
    quiet = Console(quiet=True)
    with workers.processes(1) as pool:
        *_, total = run.compress(source, packed, options, pool=pool, console=quiet)
    decompress(packed, restored, console=quiet)
    with Checkpoint(packed) as file:
        size = sum(entry.nbytes for entry in file.tensors.values())
    return total, size, load_file(restored)


def _encode(lines: list[str], numbers: dict[str, int]) -> Iterator[list[int]]:
    for line in lines:
        yield [numbers.get(character, 0) for character in line]


def _task(
    parameters: dict[str, np.ndarray], numbers: dict[str, int], texts: dict[str, list[str]]
) -> Task:
    start = numbers[START]
    return Task(
        parameters,
        {
            name: [language_model.windows([line], start) for line in _encode(lines, numbers)]
            for name, lines in texts.items()
        },
    )


def load(folder: Path, lines: int) -> Task:
    """Return the model and the texts of a folder, the texts in the order of their names."""
    with Checkpoint(folder / "model.safetensors"):
        parameters = load_file(folder / "model.safetensors")
    language_model.require(parameters)
    wrong = [name for name, value in parameters.items() if value.dtype != np.float32]
    if wrong:
        raise ValueError(f"{folder}: the model's tensor {wrong[0]!r} must be of F32")
    path = folder / "vocab.json"
    try:
        numbers = json.loads(path.read_text())
    except ValueError as problem:
        raise ValueError(f"{path} is not JSON: {problem}") from problem
    classes = len(parameters["output.bias"])
    if (
        not isinstance(numbers, dict)
        or START not in numbers
        or not all(type(k) is int and 0 <= k < classes for k in numbers.values())
    ):
        raise ValueError(
            f"{path} must map characters, {START} among them, to numbers in 0..{classes - 1}"
        )
    texts = {}
    for path in sorted(folder.glob("*.txt")):
        found = [line for line in path.read_text().splitlines() if line][:lines]
        if found:
            texts[path.stem] = found
    if not texts:
        raise ValueError(f"{folder} has no text: a file *.txt with lines")
    return _task(parameters, numbers, texts)


def embedded(progress: Console) -> Task:
    """Return a small model that is trained on some of the embedded lines."""
    characters = sorted({character for line in LINES for character in line})
    numbers = {character: k for k, character in enumerate([START, *characters], start=1)}
    half = len(LINES) // 2
    contexts = language_model.windows(list(_encode(LINES[:half], numbers)), numbers[START])
    parameters = dict(train(len(numbers) + 1, *contexts, console=progress))
    return _task(parameters, numbers, {"seen": LINES[:half], "unseen": LINES[half:]})
