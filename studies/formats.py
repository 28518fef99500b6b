"""The comparison of formats: what each method of few bits a weight loses, on the same weights.

The methods are those of :mod:`seedbed.flow.compress.methods`, each without and with kept weights. A
model with texts is also judged by them, :mod:`seedbed.studies.judged`, and its methods can use
feedback of errors. Its second moments are one draw: there are several parts of a text, and perhaps
several dampings. Finished matrices are kept until the model of a draw is judged.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from hashlib import sha256
from io import BytesIO
from math import sqrt
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.compress import workers
from seedbed.flow.compress.checkpoint import FLOATS, CheckpointError
from seedbed.flow.compress.methods import METHODS, Result, outliers
from seedbed.flow.compress.shards import open_checkpoint
from seedbed.flow.jobs.lm_task import damped, resumed
from seedbed.flow.report.row import Row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import Bar
from seedbed.studies.judged import MEASURES, Model, opened

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
class _Input:
    """What a draw compresses: matrices, their second moments, and a model that judges them."""

    matrices: dict[str, np.ndarray]
    moments: dict[str, np.ndarray] | None = None
    model: Model | None = None


@dataclass(frozen=True)
class _Work:
    """A case for any process, and the folder of its finished matrices."""

    case: Case
    load: Callable[[Case], _Input]
    finished: Path


def run_formats(
    model: Path | None, out: Path, *, tensors: str = "*", methods: str = "*", seeds: int = 3,
    lines: int = 60, jobs: int = 1, resume: bool = False, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measure every method on the same weights, and write the result to a file in ``out``.

    Parameters
    ----------
    model
        A folder with a model and texts as :func:`seedbed.studies.judged.opened` takes it; or a
        safetensors file, an index of shards, or a folder with either; ``None``: random weights.
    out
        Created if needed. The result is ``formats.json``, that of a checkpoint ``matrices.json``.
    tensors
        A glob pattern for the names of matrices. Those of two dimensions and a floating type count.
        With a pattern, a model with texts is a checkpoint as well.
    methods
        A glob pattern for the names of methods.
    seeds
        Number of matrices of each kind of random weights.
    lines
        Judged lines of each text.
    jobs
        Processes.
    resume
        Keep the draws that an interrupted run with the same input has finished.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, and ``OSError``.
    """
    out.mkdir(parents=True, exist_ok=True)
    path, command = out / "formats.json", "seedbed demo formats"
    if model is None:
        source = _random(seeds)
        command += "" if seeds == 3 else f" --seeds {seeds}"
    elif tensors == "*" and (judged := _judged(model, lines)) is not None:
        source = judged
        command += " --model DIR" + ("" if lines == 60 else f" --lines {lines}")
    else:
        source = _checkpoint(model, tensors)
        # Of a model with texts, there may be both results.
        path = out / "matrices.json"
        command += " --model DIR" + ("" if tensors == "*" else f" --tensors '{tensors}'")
    result: dict[str, Any] = {"command": command, "input": source.digest, "rows": []}
    result["perplexity"] = source.perplexity
    if resume and (before := resumed(path, source.digest)):
        result = before
    done = [row["case"] for row in result["rows"]]
    cases = [case for case in source.cases if fnmatchcase(case.method, methods)]
    missing = [case for case in cases if vars(case) not in done]
    finished = out / "finished"
    if not resume:
        rmtree(finished, ignore_errors=True)
    bar = Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(stderr=True, quiet=console is None),
    )  # fmt: skip
    with workers.processes(min(jobs, max(len(missing), 1))) as pool, bar:
        shown = bar.add_task("comparing", total=len(cases))
        bar.update(shown, completed=len(cases) - len(missing))
        works = [_Work(case, source.load, finished / source.name(case)) for case in missing]
        for work, row in zip(works, workers.results_in_order(pool, _measured, works), strict=True):
            result["rows"].append(row)
            result["summary"] = _summary(result["rows"])
            write_atomic(path, json.dumps(result, indent=1, allow_nan=False) + "\n")
            rmtree(work.finished, ignore_errors=True)
            bar.advance(shown)
    if console is not None:
        _show(result, console)
    return result


@dataclass(frozen=True)
class _Source:
    """What is compared: a digest of it, all cases, and a function that loads what a case needs.

    ``perplexity`` is that of a language model in floating point, by text.
    """

    digest: str
    cases: list[Case]
    load: Callable[[Case], _Input]
    perplexity: dict[str, float] = field(default_factory=dict)

    def name(self, case: Case) -> str:
        """Return a name of a case of this input only."""
        return sha256(f"{self.digest} {case}".encode()).hexdigest()


def _random(seeds: int) -> _Source:
    draws = [f"seed {seed}" for seed in range(1, seeds + 1)]
    cases = [
        Case(data, method, kept, False, draw)
        for data in RANDOM
        for method in METHODS
        for kept in KEPT
        for draw in draws
    ]
    return _Source(f"{SHAPE}", cases, partial(_drawn, SHAPE))


def _drawn(shape: tuple[int, int], case: Case) -> _Input:
    rng = np.random.default_rng(int(case.draw.removeprefix("seed ")))
    return _Input({case.draw: RANDOM[case.data](rng, shape).astype(np.float32)})


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
    cases = [
        Case(name_of(model), method, kept, False, name)
        for method in METHODS
        for kept in KEPT
        for name in names
    ]
    return _Source(digest.hexdigest(), cases, partial(_read, model))


def _read(model: Path, case: Case) -> _Input:
    with open_checkpoint(model) as read:
        entry = read.tensors[case.draw]
        raw = np.frombuffer(read.read(entry.offset, entry.nbytes), FLOATS[entry.dtype])
        values = raw.astype(np.float32).reshape(entry.shape)
        if not np.isfinite(values).all():
            where = f"{read.file_of(case.draw)}: tensor {case.draw!r}"
            raise CheckpointError(f"{where} has weights that are not finite")
    return _Input({case.draw: values})


def name_of(model: Path) -> str:
    """Return the name of a model: that of its folder, or of its file."""
    # Not resolved: a link has the name that its user chose.
    path = Path(os.path.abspath(model))
    return path.parent.name if path.suffix == ".json" else path.stem


def _judged(folder: Path, lines: int) -> _Source | None:
    with threadpool_limits(1):
        model = opened(folder, lines)
        if model is None:
            return None
        whole = model.compared(model.parameters).get("perplexity", {})
    dampings = model.dampings
    every = [_draw(k, d) for k in range(len(model.parts)) for d in dampings]
    middle = dampings[len(dampings) // 2]
    few = [_draw(k, middle) for k in range(len(model.parts))]
    cases = [
        Case(name_of(folder), method, kept, feedback, draw)
        for method in METHODS
        for kept in KEPT
        for feedback in (False, True)
        for draw in ((few if kept else every) if feedback else [""])
    ]
    return _Source(model.digest(), cases, partial(_model, folder, lines), whole)


def _draw(part: int, damping: float) -> str:
    return f"part {part}, damping {damping:g}"


def _model(folder: Path, lines: int, case: Case) -> _Input:
    model, moments = opened(folder, lines), None
    assert model is not None
    if case.feedback:
        part, damping = case.draw.removeprefix("part ").split(", damping ")
        moments = damped(_moments(folder, lines, int(part)), float(damping))
    return _Input(model.matrices, moments, model)


@lru_cache(maxsize=1)
def _moments(folder: Path, lines: int, part: int) -> dict[str, np.ndarray]:
    model = opened(folder, lines)
    assert model is not None
    with threadpool_limits(1):
        return model.moments(part)


def _measured(work: _Work) -> dict[str, Any]:
    """Return the row of a case: sums over each matrix, and what is judged."""
    case, given = work.case, work.load(work.case)
    decoded = dict(given.model.parameters) if given.model else {}
    matrices = {}
    with threadpool_limits(1):
        for name, weights in given.matrices.items():
            found = _compressed(work, given, name)
            decoded[name] = found.weights.astype(np.float32)
            matrices[name] = {
                "wrong": float(((found.weights - weights) ** 2).sum()),
                "energy": float((weights.astype(np.float64) ** 2).sum()),
                "weights": weights.size,
                "bits": found.bits * weights.size,
            }
        judged = given.model.compared(decoded) if given.model else {}
    return {
        "case": vars(case),
        "matrices": matrices,
        **{what: judged.get(what, {}) for what in MEASURES},
    }


def _compressed(work: _Work, given: _Input, name: str) -> Result:
    """Return a matrix by the method of a case; if a model judges it, from a file if it is there."""
    path = work.finished / f"{name}.npz"
    with suppress(FileNotFoundError), np.load(path) as file:
        return Result(file["weights"], float(file["bits"]))
    weights = given.matrices[name]
    moments = None if given.moments is None else given.moments[name].astype(np.float64)
    found = METHODS[work.case.method](weights, moments, outliers(weights, work.case.kept))
    if given.model is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        raw = BytesIO()
        np.savez(raw, weights=found.weights, bits=found.bits)
        write_atomic(path, raw.getvalue())
    return found


def _mean_and_range(values: list[float], mean: float | None = None) -> dict[str, float]:
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
            "error": _mean_and_range(errors, whole),
        }  # fmt: skip
        for what in MEASURES:
            # An earlier run of a language model has no cosines.
            summary[what] = {
                n: _mean_and_range([row[what][n] for row in each]) for n in each[0].get(what, {})
            }
        found.append(summary)
    return found


def _range(of: dict[str, float], digits: int) -> str:
    mean, least, most = (f"{of[k]:.{digits}f}" for k in ("mean", "least", "most"))
    return mean if of["least"] == of["most"] else f"{mean} ({least} .. {most})"


def _show(result: dict[str, Any], console: Console) -> None:
    judged = [(what, n) for what in MEASURES for n in result["summary"][0].get(what, {})]
    header = ["data", "method", "feedback", "kept %", "bits per weight", "relative error", "draws"]
    header += [f"{what}, {n}" for what, n in judged]
    lines = [
        [
            row["data"], row["method"], "yes" if row["feedback"] else "no",
            f"{100 * row['kept']:g}",
            f"{row['bits']:.3f}", _range(row["error"], 4), row["draws"],
            *(_range(row[what][n], 3 if what == "perplexity" else 4) for what, n in judged),
        ]
        for row in result["summary"]
    ]  # fmt: skip
    show_table(console, header, lines)
    whole = ", ".join(f"{value:.3f} on {name}" for name, value in result["perplexity"].items())
    if whole:
        console.print(f"In float32, the perplexity is {whole}.", highlight=False, soft_wrap=True)


def rows(folder: Path) -> list[Row]:
    """Return the report rows of all comparisons in ``folder``, random weights first."""
    order = {name: k for k, name in enumerate(METHODS)}

    def place(row: Row) -> tuple[bool, bool, str, int]:
        data, method = row.params["data"], row.params["method"]
        return "text" in row.params, data not in RANDOM, data, order.get(method, len(order))

    return sorted(load_rows(folder.glob("formats-*/*.json"), _rows), key=place)


def _rows(result: dict[str, Any]) -> list[Row]:
    found = []
    for each in result["summary"]:
        params = {name: each[name] for name in ("data", "method", "kept", "feedback")}
        figures = {"bits_per_weight": each["bits"], "draws": each["draws"]}
        figures |= _figures("relative_error", each["error"])
        config = f"{each['data']}, {each['method']}"
        config += ", feedback" * each["feedback"]
        config += f", {100 * each['kept']:g} % kept" if each["kept"] else ""
        measures = [what for what in MEASURES if each.get(what)]
        for text in each[measures[0]] if measures else [""]:
            judged: dict[str, float] = {}
            for what in measures:
                judged |= _figures(what, each[what][text])
            found.append(
                Row(
                    core=CORE, config=config + f", {text}" * bool(text), kind="formats",
                    figures=figures | judged, command=result["command"],
                    params=params | ({"text": text} if text else {}),
                )
            )  # fmt: skip
    return found


def _figures(name: str, ranges: dict[str, float]) -> dict[str, float]:
    return {name: ranges["mean"]} | {f"{name}_{end}": ranges[end] for end in ("least", "most")}
