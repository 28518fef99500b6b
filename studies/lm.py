"""The language-model demonstration: what formats, kept weights and importance cost.

A model compressed once is one draw: other statistics, or another damping, give another perplexity.
Rows with statistics are therefore measured with several of both.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
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
from seedbed.flow.jobs.lm_task import (
    TENSORS,
    Task,
    Windows,
    damped,
    embedded,
    join,
    load,
    restore,
    resumed,
    second_moments,
    squared_gradients,
)
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.plot_style import legend, panels, png
from seedbed.flow.run.progress import Bar
from seedbed.golden import language_model
from seedbed.spec import SEEDLM, TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = [
    "DAMPINGS",
    "FORMATS",
    "KEPT",
    "PARTS",
    "Case",
    "Judged",
    "cases",
    "judge",
    "parts_of",
    "run_lm",
]

#: Kinds of importance: of each column, and of all columns together, with feedback of errors.
NONE, COLUMNS, FEEDBACK = "no", "columns", "feedback"
#: Formats of the dense part, and the kinds of importance that apply.
FORMATS: dict[str, tuple[Config, tuple[str, ...]]] = {
    "SeedLM, 4 bits": (SEEDLM[4], (NONE, COLUMNS, FEEDBACK)),
    "SeedLM, 3 bits": (SEEDLM[3], (NONE, COLUMNS, FEEDBACK)),
    "trellis, 4 bits": (TrellisConfig(bits=4), (NONE, COLUMNS, FEEDBACK)),
    "trellis, 3 bits": (TrellisConfig(bits=3), (NONE, COLUMNS, FEEDBACK)),
    "lut4": (Lut4Config(), (NONE, COLUMNS)),
    "groups of 32": (GroupsConfig(group=32), (NONE,)),
    "groups of 128": (GroupsConfig(group=128), (NONE,)),
}
#: Fractions of kept weights.
KEPT = (0.0, 0.001, 0.01)
#: What is added to importance, as a share of its mean: no column is without weight.
FLOOR = 1e-3
#: Parts of the first text that give statistics, one at a time, and dampings: what is added to the
#: diagonal of a matrix of importance, as a share of its mean.
PARTS, DAMPINGS = 3, (5e-3, 1.5e-2, 5e-2)
#: Those of the small model.
FEW_PARTS, FEW_DAMPINGS = 1, (5e-3, 5e-2)


@dataclass(frozen=True)
class Case:
    """A draw of a row: format, fraction of kept weights, kind of importance, and statistics.

    ``part`` is the number of the part of the first text that gives gradients and importance,
    ``damping`` that of feedback; each is ``None`` where it has no influence.
    """

    form: str
    kept: float
    importance: str
    part: int | None
    damping: float | None


@dataclass(frozen=True)
class Judged:
    """Judged lines of a text as windows, and the logarithms of the float model's probabilities."""

    contexts: np.ndarray
    targets: np.ndarray
    logs: np.ndarray

    def compared(self, parameters: dict[str, np.ndarray]) -> tuple[float, float]:
        """Return the perplexity of a model, and its divergence from the float model."""
        logs = language_model.log_probabilities(parameters, self.contexts)
        return _perplexity(logs, self.targets), language_model.divergence(self.logs, logs)


def cases(parts: int, dampings: Sequence[float]) -> list[Case]:
    """Return all draws of all rows, by the number of parts and the dampings.

    Rows with kept weights take the middle damping: with each part, they are compared with none.
    """
    middle = dampings[len(dampings) // 2 :][:1]
    return [
        Case(form, kept, importance, part, damping)
        for form, (_, kinds) in FORMATS.items()
        for importance in kinds
        for kept in KEPT
        for part in (range(parts) if kept or importance != NONE else (None,))
        for damping in ((middle if kept else dampings) if importance == FEEDBACK else (None,))
    ]


def run_lm(
    model: Path | None, out: Path, *, lines: int = 60, resume: bool = False,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Compress a language model in each format, and write what it loses to ``out/lm.json``.

    The first lines of each text are judged. The next lines of the first text, in parts, give
    statistics: the gradients that choose kept weights, and the importance of columns. A text
    without more lines gives those of its judged lines. The gradient of a weight is the root mean
    square over lines; the importance of a column is the mean of the squares over its rows. Feedback
    of errors uses :func:`~seedbed.golden.language_model.second_moments`.

    Parameters
    ----------
    model
        A folder with ``model.safetensors``, whose shapes are those of
        :mod:`seedbed.golden.language_model`, ``vocab.json``, numbers by character, and texts
        ``*.txt``; ``None``: a small model that is trained here on a few lines.
    out
        Created if needed. Folder of the compressed files and of the result.
    lines
        Number of judged lines of each text, and of lines of each part.
    resume
        Keep the draws that an interrupted run with the same model, text and lines has finished.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model or text, and
    ``OSError``.
    """
    progress = Console(stderr=True, quiet=console is None)
    out.mkdir(parents=True, exist_ok=True)
    few = model is None
    count, dampings = (FEW_PARTS, FEW_DAMPINGS) if few else (PARTS, DAMPINGS)
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines * (1 + count))
        parts = parts_of(task.lines[task.statistics], lines, count)
        judged = {n: judge(task.parameters, found[:lines]) for n, found in task.lines.items()}
        command = "seedbed demo lm" + ("" if few else f" --model DIR --lines {lines}")
        result = _start(task, judged, command, out / "lm.json", resume=resume)
        done = [row["case"] for row in result["rows"]]
        missing = [case for case in cases(len(parts), dampings) if vars(case) not in done]
        if missing:
            _measure(task, parts, judged, missing, result, out, progress)
    write_atomic(out / "lm.png", _plot(result))
    if console is not None:
        _show(result, console)
    return result


def parts_of(lines: list, judged: int, count: int) -> list[list]:
    """Return ``count`` parts of a text's lines, or fewer: those that give statistics."""
    pool = lines[judged:] or lines
    bounds = [k * len(pool) // count for k in range(count + 1)]
    return [pool[a:b] for a, b in pairwise(bounds) if a < b]


def judge(parameters: dict[str, np.ndarray], lines: list[Windows]) -> Judged:
    """Return lines with the float model's probabilities."""
    contexts, targets = join(lines)
    return Judged(contexts, targets, language_model.log_probabilities(parameters, contexts))


def _perplexity(logs: np.ndarray, targets: np.ndarray) -> float:
    return float(np.exp(-np.take_along_axis(logs, targets[:, None], 1).mean(dtype=np.float64)))


def _start(
    task: Task, judged: dict[str, Judged], command: str, path: Path, *, resume: bool
) -> dict[str, Any]:
    """Return the result without rows, or that of an interrupted run."""
    digest = sha256(command.encode())
    for name, value in sorted(task.parameters.items()):
        digest.update(name.encode() + value.tobytes())
    for name, (contexts, targets) in task.texts.items():
        digest.update(name.encode() + contexts.tobytes() + targets.tobytes())
    result: dict[str, Any] = {
        "command": command,
        "input": digest.hexdigest(),
        "characters": {name: len(text.targets) for name, text in judged.items()},
        "parameters": sum(value.size for value in task.parameters.values()),
        "rows": [],
    }
    if resume and (before := resumed(path, result["input"])):
        return before
    result["perplexity"] = {n: _perplexity(text.logs, text.targets) for n, text in judged.items()}
    return result


def _measure(
    task: Task, parts: list[list[Windows]], judged: dict[str, Judged], missing: list[Case],
    result: dict[str, Any], out: Path, progress: Console,
) -> None:  # fmt: skip
    """Add the missing draws to the result; the file is written after each of them."""
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=progress,
    )  # fmt: skip
    source = out / "model.safetensors"
    save_file({n: np.ascontiguousarray(v) for n, v in task.parameters.items()}, source)
    with bar:
        total = 2 * sum(map(len, parts)) + len(missing)
        shown = bar.add_task("gradients", total=total)
        dampings = {case.damping for case in missing if case.damping is not None}
        shares = [
            _write_statistics(task, lines, part, dampings, out, lambda: bar.advance(shown))
            for part, lines in enumerate(parts)
        ]
        result["squared_gradient"] = {f: [share[f] for share in shares] for f in shares[0]}
        for case in missing:
            bar.update(shown, description=f"{case.form}, {100 * case.kept:g} % kept")
            result["rows"].append(_compressed(task, judged, case, source, out))
            result["summary"] = _summary(result)
            text = json.dumps(result, indent=1, allow_nan=False) + "\n"
            write_atomic(out / "lm.json", text)
            bar.advance(shown)


def _mask(out: Path, part: int | None, kept: float) -> Path:
    return out / f"mask-{part}-{kept:g}.safetensors"


def _importance(out: Path, case: Case) -> Path:
    end = "" if case.damping is None else f"-{case.damping:g}"
    return out / f"{case.importance}-{case.part}{end}.safetensors"


def _write_statistics(
    task: Task, lines: list[Windows], part: int, dampings: set[float], out: Path,
    advance: Callable[[], object],
) -> dict[str, float]:  # fmt: skip
    """Write masks and importance by some lines; return shares of the squared gradient."""
    squares = squared_gradients(task.parameters, lines, advance)
    moments = second_moments(task.parameters, lines, advance)
    count = len(lines)
    roots = {n: np.sqrt(v / count).astype(np.float32) for n, v in squares.items()}
    save_file(roots, out / "gradients.safetensors")
    columns = {n: v.mean(axis=0) / count for n, v in squares.items() if v.ndim == 2}
    stats = {n: (v + FLOOR * v.mean()).astype(np.float32) for n, v in columns.items()}
    save_file(stats, _importance(out, Case("", 0, COLUMNS, part, None)))
    for damping in dampings:
        save_file(damped(moments, damping), _importance(out, Case("", 0, FEEDBACK, part, damping)))
    shares: dict[str, float] = {}
    for kept in filter(None, KEPT):
        selection = sensitive(
            out / "model.safetensors", out / "gradients.safetensors", _mask(out, part, kept),
            fraction=kept, tensors=TENSORS, console=Console(quiet=True),
        )  # fmt: skip
        assert selection.spectrum is not None
        shares = {str(f): selection.spectrum.share(f) for f in (0.001, 0.01, 0.1)}
    return shares


def _compressed(
    task: Task, judged: dict[str, Judged], case: Case, source: Path, out: Path
) -> dict[str, Any]:
    """Return the row of a case."""
    options = Options(
        config=FORMATS[case.form][0],
        tensors=TENSORS,
        keep=_mask(out, case.part, case.kept) if case.kept else None,
        importance=None if case.importance == NONE else _importance(out, case),
    )
    total, size, restored = restore(source, out, options)
    found = {name: text.compared(restored) for name, text in judged.items()}
    return {
        "case": vars(case),
        "bits_per_weight": total.bits,
        "bits_per_parameter": 8 * size / sum(prod(v.shape) for v in task.parameters.values()),
        "relative_error": total.error,
        "perplexity": {name: each[0] for name, each in found.items()},
        "divergence": {name: each[1] for name, each in found.items()},
    }


def _summary(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return of each row, by text, mean, least and most of its draws.

    ``left`` is the divergence as a share of that of the format alone.
    """
    draws: dict[tuple[str, float, str], list[dict[str, Any]]] = {}
    for row in result["rows"]:
        key = row["case"]["form"], row["case"]["kept"], row["case"]["importance"]
        draws.setdefault(key, []).append(row)
    found = []
    for (form, kept, importance), rows in draws.items():
        summary: dict[str, Any] = {
            "form": form, "kept": kept, "importance": importance, "draws": len(rows),
            "bits_per_weight": rows[0]["bits_per_weight"],
            "bits_per_parameter": rows[0]["bits_per_parameter"],
        }  # fmt: skip
        for name in result["characters"]:
            values = {
                what: [row[what][name] for row in rows] for what in ("divergence", "perplexity")
            }
            if (alone := draws.get((form, 0.0, NONE))) is not None:
                whole = alone[0]["divergence"][name]
                values["left"] = [each / whole for each in values["divergence"]]
            for what, each in values.items():
                spread = {"mean": float(np.mean(each)), "least": min(each), "most": max(each)}
                summary.setdefault(what, {})[name] = spread
        found.append(summary)
    return found


def _spread(of: dict[str, float], digits: int, factor: float = 1) -> str:
    """Return mean and range, or the one value."""
    mean, least, most = (f"{factor * of[k]:.{digits}f}" for k in ("mean", "least", "most"))
    return mean if of["least"] == of["most"] else f"{mean} ({least} .. {most})"


def _show(result: dict[str, Any], console: Console) -> None:
    names = list(result["characters"])
    header = ["format", "kept %", "importance", "bits per weight", "bits per parameter", "draws"]
    header += [f"divergence, {n}" for n in names] + [f"perplexity, {n}" for n in names]
    whole = (f"{result['perplexity'][n]:.3f}" for n in names)
    lines = [["float32", "", "", "32", "32", "", *("0" for _ in names), *whole]]
    for row in result["summary"]:
        lines.append(
            [
                row["form"], f"{100 * row['kept']:g}", row["importance"],
                f"{row['bits_per_weight']:.3f}", f"{row['bits_per_parameter']:.3f}",
                str(row["draws"]),
                *(_spread(row["divergence"][n], 4) for n in names),
                *(_spread(row["perplexity"][n], 3) for n in names),
            ]
        )  # fmt: skip
    show_table(console, header, lines)
    top = ", ".join(
        f"{100 * float(f):g} % have {100 * min(shares):.1f} .. {100 * max(shares):.1f} %"
        for f, shares in result["squared_gradient"].items()
    )
    console.print(f"Of the squared gradient, the top {top}.", highlight=False, soft_wrap=True)


def _plot(result: dict[str, Any]) -> bytes:
    """Return a plot of each text's divergence over the bits per weight; bars are ranges."""
    names = list(result["characters"])
    figure, all_axes = panels(len(names), 4.6 * len(names), 4.2)
    colors = ["#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#666666"]
    for name, axes in zip(names, all_axes, strict=True):
        for form, color in zip(FORMATS, colors, strict=False):
            for importance, style in ((NONE, "s--"), (COLUMNS, "o-"), (FEEDBACK, "^:")):
                rows = [
                    row for row in result["summary"]
                    if (row["form"], row["importance"]) == (form, importance)
                ]  # fmt: skip
                if not rows:
                    continue
                spreads = [row["divergence"][name] for row in rows]
                bars = [[abs(of[end] - of["mean"]) for of in spreads] for end in ("least", "most")]
                axes.errorbar(
                    [row["bits_per_weight"] for row in rows], [of["mean"] for of in spreads],
                    bars, fmt=style, ms=4, color=color, capsize=2, lw=1,
                    label=form + ("" if importance == NONE else f", {importance}"),
                )  # fmt: skip
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.set_xlabel("bits per weight; points: 0, 0.1, 1 % kept")
        axes.set_ylabel(f"divergence, {name} (log scale)")
    legend(figure, columns=3)
    return png(figure)
