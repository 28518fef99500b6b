"""The comparison of formats: what each method of few bits a weight loses, on the same weights.

The methods are those of :mod:`seedbed.flow.compress.methods`, each without and with kept weights. A
language model is also judged by its divergence and perplexity, and its methods can use feedback of
errors. Its second moments are one draw: there are several parts of a text, and several dampings.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.compress import workers
from seedbed.flow.compress.checkpoint import FLOATS, CheckpointError
from seedbed.flow.compress.methods import METHODS, outliers
from seedbed.flow.compress.shards import open_checkpoint
from seedbed.flow.jobs.lm_task import TENSORS, damped, load, resumed, second_moments
from seedbed.flow.report.row import Row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import Bar
from seedbed.studies.lm import DAMPINGS, PARTS, Judged, judge, parts_of

__all__ = ["CORE", "KEPT", "RANDOM", "Case", "name_of", "rows", "run_formats"]

#: Name of the demonstration in the report.
CORE = "demo formats"
#: Fractions of kept weights: the outliers of each matrix.
KEPT = (0.0, 0.001)
#: Random weights, and the shape of a matrix of them.
RANDOM: dict[str, Callable[..., np.ndarray]] = {
    "Gaussian": lambda rng, shape: rng.normal(size=shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
}
SHAPE = (128, 4096)


@dataclass(frozen=True)
class Case:
    """A draw of a row: data, method, fraction of kept weights, feedback, and what is drawn.

    ``draw`` is a seed, a matrix, or the part of the text and the damping.
    """

    data: str
    method: str
    kept: float
    feedback: bool
    draw: str


@dataclass(frozen=True)
class _Work:
    """A case for any process: matrices, their second moments, and a model that is judged."""

    case: Case
    matrices: dict[str, np.ndarray]
    moments: dict[str, np.ndarray] | None = None
    parameters: dict[str, np.ndarray] | None = None
    judged: dict[str, Judged] | None = None


def run_formats(
    model: Path | None, out: Path, *, tensors: str = "*", seeds: int = 3, lines: int = 60,
    jobs: int = 1, resume: bool = False, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure every method on the same weights, and write the result to ``out/formats.json``.

    Parameters
    ----------
    model
        A folder with the language model and the texts of :func:`seedbed.studies.lm.run_lm`; or a
        safetensors file, an index of shards, or a folder with either; ``None``: random weights.
    out
        Created if needed.
    tensors
        A glob pattern for the names of matrices. Those of two dimensions and a floating type count.
    seeds
        Number of matrices of each kind of random weights.
    lines
        Judged lines of each text, and lines of each part that gives second moments.
    jobs
        Processes.
    resume
        Keep the draws that an interrupted run with the same input has finished.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, and ``OSError``.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "formats.json"
    if model is None:
        source = _random(seeds)
        command = "seedbed demo formats" + ("" if seeds == 3 else f" --seeds {seeds}")
    elif (model / "vocab.json").exists():
        source = _language_model(model, lines)
        command = "seedbed demo formats --model DIR" + ("" if lines == 60 else f" --lines {lines}")
    else:
        source = _checkpoint(model, tensors)
        command = "seedbed demo formats --model DIR"
        command += "" if tensors == "*" else f" --tensors '{tensors}'"
    result: dict[str, Any] = {"command": command, "input": source.digest, "rows": []}
    result["perplexity"] = source.perplexity
    if resume and (before := resumed(path, source.digest)):
        result = before
    done = [row["case"] for row in result["rows"]]
    missing = [case for case in source.cases if vars(case) not in done]
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True, quiet=console is None),
    )  # fmt: skip
    with workers.processes(min(jobs, max(len(missing), 1))) as pool, bar:
        shown = bar.add_task("comparing", total=len(source.cases))
        bar.update(shown, completed=len(source.cases) - len(missing))
        for row in workers.results_in_order(pool, _measured, source.works(missing)):
            result["rows"].append(row)
            result["summary"] = _summary(result["rows"])
            write_atomic(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
            bar.advance(shown)
    if console is not None:
        _show(result, console)
    return result


@dataclass(frozen=True)
class _Source:
    """What is compared: a digest of it, all cases, and the function that makes their work.

    ``perplexity`` is that of a language model in floating point, by text.
    """

    digest: str
    cases: list[Case]
    works: Callable[[list[Case]], Iterator[_Work]]
    perplexity: dict[str, float] = field(default_factory=dict)


def _random(seeds: int) -> _Source:

    def works(missing: list[Case]) -> Iterator[_Work]:
        for case in missing:
            rng = np.random.default_rng(int(case.draw.removeprefix("seed ")))
            yield _Work(case, {case.draw: RANDOM[case.data](rng, SHAPE).astype(np.float32)})

    draws = [f"seed {seed}" for seed in range(1, seeds + 1)]
    cases = [
        Case(data, method, kept, False, draw)
        for data in RANDOM
        for method in METHODS
        for kept in KEPT
        for draw in draws
    ]
    return _Source(f"{SHAPE}", cases, works)


def _checkpoint(model: Path, tensors: str) -> _Source:
    with open_checkpoint(model) as read:
        names = [
            name
            for name, entry in sorted(read.tensors.items())
            if entry.dtype in FLOATS and len(entry.shape) == 2 and fnmatchcase(name, tensors)
        ]
        if not names:
            raise CheckpointError(
                f"{model} has no matrix to compare: none whose name matches {tensors!r} has two "
                f"dimensions and is of {', '.join(FLOATS)}; {read.listing()}"
            )
        digest = sha256(repr([read.stamp(), [read.tensors[n] for n in names]]).encode())

    def works(missing: list[Case]) -> Iterator[_Work]:
        with open_checkpoint(model) as read:
            for case in missing:
                entry = read.tensors[case.draw]
                raw = np.frombuffer(read.read(entry.offset, entry.nbytes), FLOATS[entry.dtype])
                values = raw.astype(np.float32).reshape(entry.shape)
                if not np.isfinite(values).all():
                    where = f"{read.file_of(case.draw)}: tensor {case.draw!r}"
                    raise CheckpointError(f"{where} has weights that are not finite")
                yield _Work(case, {case.draw: values})

    cases = [
        Case(name_of(model), method, kept, False, name)
        for method in METHODS
        for kept in KEPT
        for name in names
    ]
    return _Source(digest.hexdigest(), cases, works)


def name_of(model: Path) -> str:
    """Return the name of a model: that of its folder, or of its file."""
    # Not resolved: a link has the name that its user chose.
    path = Path(os.path.abspath(model))
    return path.parent.name if path.suffix == ".json" else path.stem


def _language_model(folder: Path, lines: int) -> _Source:
    task = load(folder, lines * (1 + PARTS))
    digest = sha256(f"{lines}".encode())
    for name, value in sorted(task.parameters.items()):
        digest.update(name.encode() + value.tobytes())
    for name, (contexts, targets) in task.texts.items():
        digest.update(name.encode() + contexts.tobytes() + targets.tobytes())
    parts = parts_of(task.lines[task.statistics], lines, PARTS)
    every = {f"part {k}, damping {d:g}": (k, d) for k in range(len(parts)) for d in DAMPINGS}
    middle = [name for name, (_, d) in every.items() if d == DAMPINGS[len(DAMPINGS) // 2]]
    cases = [
        Case(name_of(folder), method, kept, feedback, draw)
        for method in METHODS
        for kept in KEPT
        for feedback in (False, True)
        for draw in ((middle if kept else list(every)) if feedback else [""])
    ]
    matrices = {n: v for n, v in task.parameters.items() if fnmatchcase(n, TENSORS)}
    with threadpool_limits(1):
        judged = {n: judge(task.parameters, found[:lines]) for n, found in task.lines.items()}

    def works(missing: list[Case]) -> Iterator[_Work]:
        with threadpool_limits(1):
            moments = [second_moments(task.parameters, part, lambda: None) for part in parts]
        for case in missing:
            found = None
            if case.feedback:
                part, damping = every[case.draw]
                found = damped(moments[part], damping)
            yield _Work(case, matrices, found, task.parameters, judged)

    whole = {name: text.compared(task.parameters)[0] for name, text in judged.items()}
    return _Source(digest.hexdigest(), cases, works, whole)


def _measured(work: _Work) -> dict[str, Any]:
    """Return the row of a case: sums over each matrix, and what is judged."""
    case, decoded, matrices = work.case, dict(work.parameters or {}), {}
    with threadpool_limits(1):
        for name, weights in work.matrices.items():
            moments = None if work.moments is None else work.moments[name].astype(np.float64)
            found = METHODS[case.method](weights, moments, outliers(weights, case.kept))
            decoded[name] = found.weights.astype(np.float32)
            matrices[name] = {
                "wrong": float(((found.weights - weights) ** 2).sum()),
                "energy": float((weights.astype(np.float64) ** 2).sum()),
                "weights": weights.size,
                "bits": found.bits * weights.size,
            }
        judged = {n: text.compared(decoded) for n, text in (work.judged or {}).items()}
    return {
        "case": vars(case),
        "matrices": matrices,
        "perplexity": {name: each[0] for name, each in judged.items()},
        "divergence": {name: each[1] for name, each in judged.items()},
    }


def _spread(values: list[float], mean: float | None = None) -> dict[str, float]:
    mean = float(np.mean(values)) if mean is None else mean
    return {"mean": mean, "least": min(values), "most": max(values)}


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return bits, errors and what is judged of each method, over its draws.

    The mean error is that of all weights together; its range is over matrices and draws.
    """
    draws: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        case = row["case"]
        key = case["data"], case["method"], case["kept"], case["feedback"]
        draws.setdefault(key, []).append(row)
    found = []
    for (data, method, kept, feedback), each in draws.items():
        parts = [part for row in each for part in row["matrices"].values()]
        sums = {name: sum(part[name] for part in parts) for name in parts[0]}
        errors = [sqrt(p["wrong"] / p["energy"]) if p["energy"] else 0.0 for p in parts]
        whole = sqrt(sums["wrong"] / sums["energy"]) if sums["energy"] else 0.0
        summary: dict[str, Any] = {
            "data": data, "method": method, "kept": kept, "feedback": feedback,
            "draws": len(each), "bits": sums["bits"] / sums["weights"],
            "error": _spread(errors, whole),
        }  # fmt: skip
        for what in ("divergence", "perplexity"):
            summary[what] = {n: _spread([row[what][n] for row in each]) for n in each[0][what]}
        found.append(summary)
    return found


def _range(of: dict[str, float], digits: int) -> str:
    mean, least, most = (f"{of[k]:.{digits}f}" for k in ("mean", "least", "most"))
    return mean if of["least"] == of["most"] else f"{mean} ({least} .. {most})"


def _show(result: dict[str, Any], console: Console) -> None:
    names = list(result["perplexity"])
    header = ["data", "method", "feedback", "kept %", "bits per weight", "relative error", "draws"]
    header += [f"divergence, {n}" for n in names] + [f"perplexity, {n}" for n in names]
    lines = [
        [
            row["data"], row["method"], "yes" if row["feedback"] else "no",
            f"{100 * row['kept']:g}",
            f"{row['bits']:.3f}", _range(row["error"], 4), row["draws"],
            *(_range(row["divergence"][n], 4) for n in names),
            *(_range(row["perplexity"][n], 3) for n in names),
        ]
        for row in result["summary"]
    ]  # fmt: skip
    show_table(console, header, lines)
    whole = ", ".join(f"{value:.3f} on {name}" for name, value in result["perplexity"].items())
    if whole:
        console.print(f"In float32, the perplexity is {whole}.", highlight=False, soft_wrap=True)


def rows(folder: Path) -> list[Row]:
    """Return the report rows of all comparisons in ``folder``, random weights first."""
    found = load_rows(folder.glob("formats-*/formats.json"), _rows)
    return sorted(found, key=lambda row: ("text" in row.params, row.params["data"] not in RANDOM))


def _rows(result: dict[str, Any]) -> list[Row]:
    found = []
    for each in result["summary"]:
        params = {name: each[name] for name in ("data", "method", "kept", "feedback")}
        figures = {"bits_per_weight": each["bits"], "draws": each["draws"]}
        figures |= _figures("relative_error", each["error"])
        config = f"{each['data']}, {each['method']}"
        config += ", feedback" * each["feedback"]
        config += f", {100 * each['kept']:g} % kept" if each["kept"] else ""
        texts = each["divergence"] or [""]
        for text in texts:
            judged: dict[str, float] = {}
            for what in ("divergence", "perplexity") if text else ():
                judged |= _figures(what, each[what][text])
            found.append(
                Row(
                    core=CORE, config=config + f", {text}" * bool(text), kind="formats",
                    figures=figures | judged, command=result["command"],
                    params=params | ({"text": text} if text else {}),
                )
            )  # fmt: skip
    return found


def _figures(name: str, spread: dict[str, float]) -> dict[str, float]:
    return {name: spread["mean"]} | {f"{name}_{end}": spread[end] for end in ("least", "most")}
