"""The language-model demonstration: perplexity by format, kept weights and importance."""

import json
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from seedbed.flow.compress.packed import Config
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.sensitive import sensitive
from seedbed.flow.demos.lm_task import (
    TENSORS,
    Task,
    embedded,
    load,
    restore,
    resumed,
    squared_gradients,
)
from seedbed.flow.files import write_atomic
from seedbed.flow.options import show_table
from seedbed.flow.plot_style import NEUTRAL, legend, panels, png
from seedbed.flow.progress import Bar
from seedbed.golden import language_model
from seedbed.spec import SEEDLM
from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = ["FORMATS", "KEPT", "Case", "cases", "run_lm"]

#: Kinds of importance: of each column, and of all columns together, with feedback of errors.
NONE, COLUMNS, FEEDBACK = "no", "columns", "feedback"
#: Formats of the dense part, and the kinds of importance that apply.
FORMATS: dict[str, tuple[Config, tuple[str, ...]]] = {
    "SeedLM, 4 bits": (SEEDLM[4], (NONE, COLUMNS, FEEDBACK)),
    "SeedLM, 3 bits": (SEEDLM[3], (NONE, COLUMNS, FEEDBACK)),
    "lut4": (Lut4Config(), (NONE, COLUMNS)),
    "groups of 32": (GroupsConfig(group=32), (NONE,)),
    "groups of 128": (GroupsConfig(group=128), (NONE,)),
}
#: Fractions of kept weights.
KEPT = (0.0, 0.001, 0.01)
#: What is added to importance, as a share of its mean: no column is without weight. Of a matrix,
#: it is added to the diagonal.
FLOOR, DAMPING = 1e-3, 1e-2


@dataclass(frozen=True)
class Case:
    """A row of the table: format, fraction of kept weights, and kind of importance."""

    form: str
    kept: float
    importance: str


def cases() -> list[Case]:
    """Return all rows of the table."""
    return [
        Case(form, kept, importance)
        for form, (_, kinds) in FORMATS.items()
        for importance in kinds
        for kept in KEPT
    ]


def run_lm(
    model: Path | None, out: Path, *, lines: int = 60, resume: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compress a language model in each format, and write its perplexities to ``out/lm.json``.

    The gradients that choose kept weights and the importance of columns are those of the first
    text. The gradient of a weight is the root mean square over lines; the importance of a column
    is the mean of the squares over its rows. Feedback of errors uses
    :func:`~seedbed.golden.language_model.second_moments`.

    Parameters
    ----------
    model
        A folder with ``model.safetensors``, whose shapes are those of
        :mod:`seedbed.golden.language_model`, ``vocab.json``, numbers by character, and texts
        ``*.txt``; ``None``: a small model that is trained here on a few lines.
    out
        Created if needed. Folder of the compressed files and of the result.
    lines
        Number of lines of each text.
    resume
        Keep the rows that an interrupted run with the same model, text and lines has finished.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model or text, and
    ``OSError``.
    """
    progress = Console(stderr=True, quiet=console is None)
    out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines)
        command = "seedbed demo lm" + ("" if model is None else f" --model DIR --lines {lines}")
        result = _start(task, command, out / "lm.json", resume=resume)
        missing = [case for case in cases() if _row(result, case) is None]
        if missing:
            _measure(task, missing, result, out, progress)
    write_atomic(out / "lm.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def _row(result: dict[str, Any], case: Case) -> dict[str, Any] | None:
    return next((row for row in result["rows"] if row["case"] == vars(case)), None)


def _start(task: Task, command: str, path: Path, *, resume: bool) -> dict[str, Any]:
    """Return the result without rows, or that of an interrupted run."""
    digest = sha256()
    for name, value in sorted(task.parameters.items()):
        digest.update(name.encode() + value.tobytes())
    for name, (contexts, targets) in task.texts.items():
        digest.update(name.encode() + contexts.tobytes() + targets.tobytes())
    result: dict[str, Any] = {
        "command": command,
        "input": digest.hexdigest(),
        "characters": {name: len(targets) for name, (_, targets) in task.texts.items()},
        "parameters": sum(value.size for value in task.parameters.values()),
        "rows": [],
    }
    if resume and (before := resumed(path, result["input"])):
        return before
    result["perplexity"] = _perplexities(task, task.parameters)
    return result


def _perplexities(task: Task, parameters: dict[str, np.ndarray]) -> dict[str, float]:
    return {
        name: language_model.perplexity(parameters, *windows)
        for name, windows in task.texts.items()
    }


def _measure(
    task: Task, missing: list[Case], result: dict[str, Any], out: Path, progress: Console
) -> None:
    """Add the missing rows to the result; the file is written after each of them."""
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=progress,
    )  # fmt: skip
    source = out / "model.safetensors"
    save_file({n: np.ascontiguousarray(v) for n, v in task.parameters.items()}, source)
    lines = task.lines[task.statistics]
    with bar:
        shown = bar.add_task("gradients", total=2 * len(lines) + len(missing))
        squares = squared_gradients(task.parameters, lines, lambda: bar.advance(shown))
        moments: dict[str, np.ndarray] = {}
        for contexts, targets in lines:
            found = language_model.second_moments(task.parameters, contexts, targets)
            for name, value in found.items():
                moments[name] = moments.get(name, 0) + value * len(targets)
            bar.advance(shown)
        _write_statistics(squares, moments, len(lines), out)
        quiet = Console(quiet=True)
        for kept in filter(None, KEPT):
            selection = sensitive(
                source, out / "gradients.safetensors", out / f"mask-{kept:g}.safetensors",
                fraction=kept, tensors=TENSORS, console=quiet,
            )  # fmt: skip
            assert selection.spectrum is not None
            result["squared_gradient"] = {
                str(f): selection.spectrum.share(f) for f in (0.001, 0.01, 0.1)
            }
        for case in missing:
            bar.update(shown, description=f"{case.form}, {100 * case.kept:g} % kept")
            result["rows"].append(_compressed(task, case, source, out))
            text = json.dumps(result, indent=1, allow_nan=False) + "\n"
            write_atomic(out / "lm.json", text)
            bar.advance(shown)


def _write_statistics(
    squares: dict[str, np.ndarray], moments: dict[str, np.ndarray], count: int, out: Path
) -> None:
    roots = {n: np.sqrt(v / count).astype(np.float32) for n, v in squares.items()}
    save_file(roots, out / "gradients.safetensors")
    columns = {n: v.mean(axis=0) / count for n, v in squares.items() if v.ndim == 2}
    stats = {n: (v + FLOOR * v.mean()).astype(np.float32) for n, v in columns.items()}
    save_file(stats, out / f"{COLUMNS}.safetensors")
    damped = {
        n: v / v.diagonal().mean() + DAMPING * np.eye(len(v)) if v.any() else np.eye(len(v))
        for n, v in moments.items()
    }
    save_file({n: v.astype(np.float32) for n, v in damped.items()}, out / f"{FEEDBACK}.safetensors")


def _compressed(task: Task, case: Case, source: Path, out: Path) -> dict[str, Any]:
    """Return the row of a case."""
    options = Options(
        config=FORMATS[case.form][0],
        tensors=TENSORS,
        keep=out / f"mask-{case.kept:g}.safetensors" if case.kept else None,
        importance=None if case.importance == NONE else out / f"{case.importance}.safetensors",
    )
    total, size, restored = restore(source, out, options)
    return {
        "case": vars(case),
        "bits_per_weight": total.bits,
        "bits_per_parameter": 8 * size / sum(prod(v.shape) for v in task.parameters.values()),
        "relative_error": total.error,
        "perplexity": _perplexities(task, restored),
    }


def _show(result: dict[str, Any], console: Console) -> None:
    names = list(result["characters"])
    header = ["format", "kept %", "importance", "bits per weight", "bits per parameter"]
    lines = [["float32", "", "", "32", "32", *(f"{result['perplexity'][n]:.3f}" for n in names)]]
    for row in result["rows"]:
        case = row["case"]
        lines.append(
            [
                case["form"], f"{100 * case['kept']:g}", case["importance"],
                f"{row['bits_per_weight']:.3f}", f"{row['bits_per_parameter']:.3f}",
                *(f"{row['perplexity'][n]:.3f}" for n in names),
            ]
        )  # fmt: skip
    show_table(console, [*header, *(f"perplexity, {n}" for n in names)], lines)
    top = ", ".join(
        f"{100 * float(f):g} % have {100 * share:.1f} %"
        for f, share in result["squared_gradient"].items()
    )
    console.print(f"Of the squared gradient, the top {top}.", highlight=False, soft_wrap=True)


def _plot(result: dict[str, Any]) -> bytes:
    """Return a plot of the perplexity of each text over the bits per weight."""
    names = list(result["characters"])
    figure, all_axes = panels(len(names), 4.6 * len(names), 4.2)
    colors = ["#0072B2", "#56B4E9", "#D55E00", "#009E73", "#E69F00"]
    for name, axes in zip(names, all_axes, strict=True):
        axes.axhline(result["perplexity"][name], color=NEUTRAL, ls="--", label="float32")
        for form, color in zip(FORMATS, colors, strict=False):
            for importance, style in ((NONE, "s--"), (COLUMNS, "o-"), (FEEDBACK, "^:")):
                rows = [
                    row for row in result["rows"]
                    if (row["case"]["form"], row["case"]["importance"]) == (form, importance)
                ]  # fmt: skip
                if not rows:
                    continue
                axes.plot(
                    [row["bits_per_weight"] for row in rows],
                    [row["perplexity"][name] for row in rows],
                    style, ms=4, color=color,
                    label=form + ("" if importance == NONE else f", {importance}"),
                )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_xlabel("bits per weight; points: 0, 0.1, 1 % kept")
        axes.set_ylabel(f"perplexity, {name} (log scale)")
    legend(figure, columns=3)
    return png(figure)
