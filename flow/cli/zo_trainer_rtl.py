"""Demonstration of the zeroth-order trainer: a training in the RTL, its log, and report rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.emit.netlist import netlist
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.elasticzo_checkpoint import METHODS, NETWORKS, save
from seedbed.flow.jobs.zo_trainer_rtl import checkpoint_weights, draw, measure, row_figures
from seedbed.flow.report import jobs
from seedbed.flow.report.row import Row, job_row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.progress import steps_bar
from seedbed.golden.training_log import LogError, TrainingLog, digest
from seedbed.golden.zo_trainer import LogEntry
from seedbed.sim.jobs.zo_job import Job
from seedbed.spec.checks import require_choice
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["clocks", "replay", "rows", "run_rtl"]

CORE = "zo_trainer"
#: The phases of a job, and their descriptions.
PHASES = {"load": "load the weights", "train": "train", "read": "read the weights"}
_STEM = "elasticzo_rtl"


def run_rtl(
    data: Path | None,
    out: Path,
    *,
    build: Path,
    method: str = "full-zo",
    console: Console | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Emit the core, train on it, and write ``out/elasticzo_rtl.json``, the log and the weights.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; without it, scikit-learn's digits.
    out
        Created if needed.
    build
        Folder of the Verilog, the executable and cached results.
    method
        ``full-zo``, ``cls2`` or ``cls1``: with the latter two, there is no log.
    console
        Output of the tables; progress goes to standard error. ``None``: no output.

    The options and the exceptions are those of :func:`~seedbed.flow.jobs.zo_trainer_rtl.draw` and
    :func:`~seedbed.flow.jobs.zo_trainer_rtl.measure`. Returns the content of the JSON file.
    """
    require_choice("method", method, METHODS)
    if METHODS[method] not in range(3):
        raise ValueError(f"method must be one of full-zo, cls2, cls1 with --rtl, not {method!r}")
    split = digits() if data is None else mnist(data)
    network = NETWORKS[split.test[0].shape[-1]]
    core = registry.find(CORE)
    # The default network is not set, so that the core is the one of the report.
    params: dict[str, str | int] = {}
    if network != ZoTrainerConfig.network:
        params["network"] = network
    if METHODS[method]:
        params["tail"] = METHODS[method]
    config = core.configure(params)
    job = draw(config, split, **options)
    shown = None if console is None else Console(stderr=True)
    with steps_bar(shown, f"emitting {CORE}, {network}") as progress:
        path = verilog.write(
            core, params, build / "emitted" / f"{CORE}-{network}-{method}",
            plain=True, kept=build / "cache",
        )  # fmt: skip
        found = measure(path, job, build=build, progress=progress)
    stem = out / (_STEM if method == "full-zo" else f"{_STEM}-{method}")
    final = {name: np.array(values) for name, values in found.pop("weights").items()}
    if not config.tail:
        write_atomic(Path(f"{stem}.log"), _log(job, found).text())
    given = {name: found[name] for name in ("images", "batch", "epochs", "seed")}
    given |= {name: options[name] for name in ("magnitude",) if name in options}
    words = [f"--{name} {value}" for name, value in ({"method": method} | given).items()]
    words += ["--start FILE"] * (options.get("start") is not None) + ["--data DIR"] * bool(data)
    result = {
        "netlist": netlist(core, params),
        "command": " ".join(["seedbed demo elasticzo --rtl", *words]),
        "data": "digits" if data is None else data.resolve().name,
        "network": network,
        "method": method,
        **found,
        "clocks": clocks(build, config),
    }
    for name, weights in (("first", job.weights), ("final", final)):
        _save(Path(f"{stem}-{name}.npz"), weights, job.exponents)
    write_atomic(Path(f"{stem}.json"), json.dumps(result, indent=1, allow_nan=False) + "\n")
    if console is not None:
        show(result, out, console)
    return result


def _log(job: Job, found: Mapping[str, Any]) -> TrainingLog:
    """Return the log of a training, which determines the final weights if there is no tail."""
    return TrainingLog(
        config=job.config,
        exponents=dict(job.exponents),
        first=digest(job.weights),
        entries=tuple(LogEntry(*entry) for entry in found["log"]),
    )


def _save(path: Path, weights: Mapping[str, np.ndarray], exponents: Mapping[str, int]) -> None:
    arrays = {name: values.astype(np.int8) for name, values in weights.items()}
    save(path, arrays | {f"{name}.exponent": np.array(e) for name, e in exponents.items()}, {})


def replay(log: Path, first: Path, output: Path, *, partial: bool = False) -> int:
    """Write the weights that a log makes of the first ones; return its number of steps.

    Parameters
    ----------
    log
        A file of :class:`~seedbed.golden.training_log.TrainingLog`.
    first, output
        Checkpoints of the demonstration in int8.
    partial
        Whether the log may be truncated: it is replayed up to its last whole step.

    Raises ``ValueError`` for a log that is damaged, truncated, or of other first weights.
    """
    try:
        found = TrainingLog.parse(log.read_text(), partial=partial)
    except (LogError, UnicodeDecodeError) as problem:
        reason = problem if isinstance(problem, LogError) else "it is not a training log"
        raise LogError(f"{log} cannot be replayed: {reason}") from problem
    weights, exponents = checkpoint_weights(first, found.config)
    try:
        final = found.replay(weights, exponents)
    except LogError as problem:
        raise LogError(f"{log} cannot be replayed on {first}: {problem}") from problem
    _save(output, final, exponents)
    return len(found.entries)


def clocks(build: Path, config: Any) -> dict[str, float]:
    """Return the median Fmax in MHz by target, from cached place and route results."""
    core = registry.find(CORE)
    plan = jobs.plan(build, kinds={"place"}, cores={CORE})
    same = [job for job in plan if core.configure(job.params) == config]
    return {str(row.target): row.figures["fmax_mhz"] for row in jobs.cached(same)}


def show(result: Mapping[str, Any], out: Path, console: Console) -> None:
    """Print cycles, reads and writes."""
    images, epochs, batch = (result[name] for name in ("images", "epochs", "batch"))
    table = Table(
        "phase", "cycles", "steps", "cycles per step", "cycles per sample",
        title=f"{result['data']}: {images:,} images in batches of {batch}, epochs: {epochs}",
        title_justify="left",
    )  # fmt: skip
    for phase, description in PHASES.items():
        steps = [f"{result['steps']:,}"] if phase == "train" else []
        steps += [f"{result[f'{each}_cycles']:,.1f}" for each in ("step", "sample") if steps]
        table.add_row(description, f"{result['cycles'][phase]:,}", *steps)
    table.add_row("total", f"{result['job_cycles']:,}")
    console.print(table)
    if "throughput_percent" in result:
        console.print(
            f"A pass takes {result['forward_cycles']:,.1f} cycles, a perturbed one "
            f"{result['perturbed_cycles']:,.1f}: {result['throughput_percent']:.2f} % of the "
            f"throughput."
        )
    accesses = result["parameters"]
    descriptions = {
        "reads_per_pass": "Reads of a parameter per pass",
        "reads_per_update": "Reads of a parameter per update by zeroth order",
        "writes_per_update": "Writes of a parameter per update by zeroth order",
        "tail_writes_per_step": "Writes of a backpropagated parameter per step",
    }
    for name, description in descriptions.items():
        if (counts := accesses.get(name)) is not None:
            low, high = (f"{count:,.4g}" for count in counts)
            console.print(f"{description}: {low if low == high else f'{low} to {high}'}.")
    console.print(
        f"Of {result['steps']:,} steps, {accesses['updates']:,} have a sign other than 0. Classes, "
        f"signs and weights are bit-exact with the model.\n"
        f"Simulated at {result['cycles_per_second']:,.0f} cycles per second, seed "
        f"{result['seed']}. {result['correct']} of {result['classified']} held-out images are "
        f"classified correctly after the training."
    )
    for target, mhz in result["clocks"].items() if "epoch_cycles" in result else ():
        console.print(
            f"At {mhz:.1f} MHz (place and route on {target}), an epoch of MNIST takes "
            f"{result['epoch_cycles'] / mhz / 1e6:,.2f} s."
        )
    if result["method"] == "full-zo":
        files = "The log and the weights before and after"
    else:
        console.print("There is no log: it does not determine what backpropagation trains.")
        files = "The weights before and after"
    console.print(f"{files} are in {out}.", soft_wrap=True)


def rows(folder: Path) -> list[Row]:
    """Return the report row of the training on MNIST, if its result is in ``folder``.

    The same training on the digits is one of the measurements.
    """
    return load_rows(folder.glob(f"mnist/{_STEM}.json"), _rows)


def _rows(result: dict[str, Any]) -> list[Row]:
    job = tuple(result[name] for name in ("images", "epochs", "batch", "network", "method"))
    if job != (1024, 1, 32, "lenet5_padded", "full-zo"):
        return []
    return [job_row(CORE, result, row_figures(result))]
