# amaranth: UnusedElaboratable=no
"""The language model tuned in the core: by the emitted Verilog, or by its golden model."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.compress.packed import FORMATS
from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.jobs.lm_integer import BITS, PACKINGS, Setup, setup
from seedbed.flow.jobs.lm_task import Task, Windows, embedded, load, resumed
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import Bar
from seedbed.golden import language_model
from seedbed.golden.integer_language_model import Engine
from seedbed.golden.kept_matrix import KeptMatrices
from seedbed.sim.jobs.gemv_cosim import RtlMatrices
from seedbed.sim.verilog.cosim import Bench, Cosim
from seedbed.spec import GemvConfig
from seedbed.spec.checks import require_choice, require_int

__all__ = ["CORE", "SMALL", "Job", "core_params", "products", "products_bar", "run_core"]

CORE = "gemv"
#: Bits per beat of weights, for a core that Verilator builds in seconds; vectors that are
#: multiplied at a time; entries in its memory.
BEAT, VECTORS, ENTRIES = 128, 4, 8192
#: Steps between two results in the file.
SAVED = 10
#: What a job of the small model, which is trained here, has by default.
SMALL: dict[str, Any] = {"fraction": 0.01, "rate": 0.03}


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is tuned, and for how long.

    Parameters
    ----------
    fraction
        Of the weights that are kept, by their squared gradients on the first text.
    keep
        A mask's file instead, or ``None``.
    steps, batch, rate
        Steps of zeroth-order SGD, windows of each, and the first step's rate, which falls to 0
        linearly.
    clip
        Limit of a projected gradient.
    spread
        A window gives losses after so many characters fewer and more than 40.
    characters
        Number of held-out characters that are judged, or ``None`` for all.
    seed
        Of batches and perturbations.
    decode
        How the weights that are not kept are packed, of
        :data:`~seedbed.flow.jobs.lm_integer.PACKINGS`.
    """

    fraction: float = 0.001
    keep: Path | None = None
    steps: int = 4
    batch: int = 16
    rate: float = 3e-3
    clip: float = 1.0
    spread: int = 4
    characters: int | None = None
    seed: int = 0
    decode: str = "seedlm"

    def __post_init__(self) -> None:
        require_choice("decode", self.decode, tuple(PACKINGS))
        if not 0 < self.fraction < 1:
            raise ValueError(f"the fraction must be above 0 and below 1, not {self.fraction}")
        require_int("steps", self.steps, 1, 1 << 16)
        require_int("batch", self.batch, 1, 1 << 16)
        require_int("seed", self.seed, 0, (1 << 13) - 1)
        if self.characters is not None:
            require_int("characters", self.characters, 1, 1 << 31)
        for name in ("rate", "clip"):
            if not 0 < (value := getattr(self, name)) < inf:
                raise ValueError(f"the {name} must be above 0, not {value}")
        require_int("spread", self.spread, 0, language_model.CONTEXT - 1)

    def windows(self, made: Setup, step: int) -> Windows:
        """Return the windows of a step."""
        rng = np.random.default_rng([self.seed, step])
        chosen = made.tuned.select(rng.integers(len(made.tuned), size=self.batch))
        return chosen.characters, chosen.targets

    def number(self, step: int) -> int:
        """Return the number of a step, of which the perturbations' seeds follow."""
        return self.seed << 16 | step

    def train(self, made: Setup, engine: Engine, step: int) -> tuple[float, float]:
        """Train by one step; return the mean of its two losses, and half their difference."""
        return made.model.step(
            engine, *self.windows(made, step), step=self.number(step),
            rate=self.rate * (1 - step / self.steps), clip=self.clip,
        )  # fmt: skip


def core_params(columns: int, decode: str = "seedlm") -> dict[str, Any]:
    """Return the parameters of the core for vectors of so many columns."""
    packing = {name: getattr(PACKINGS[decode], name) for name in FORMATS[decode][1]}
    return packing | {"decode": decode} | {
        "beat_bits": BEAT, "vectors": VECTORS, "entries": ENTRIES, "columns": columns,
        "row_width": 16,
    }  # fmt: skip


def run_core(
    model: Path | None, out: Path, job: Job, *, rtl: bool, build: Path, lines: int = 60,
    pauses: int = 0, resume: bool = False, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune a compressed model's kept weights in the core; write ``out/lm_rtl.json``.

    With another decode than ``seedlm`` its name is in that of the file.
    Perplexities before and after are those of held-out lines of the text that is tuned on. Every
    matrix product, perturbation and update is the core's.

    Parameters
    ----------
    model, lines
        As for :func:`seedbed.studies.lm.run_lm`.
    job
        What is tuned.
    rtl
        Whether the core is the emitted Verilog, each of whose results is compared with the golden
        model's, or that model alone: then the file is ``lm_integer.json``.
    build
        Folder of the Verilog and the executable.
    pauses
        Of 16 cycles, in so many every port pauses, at random.
    resume
        Go on after the last step that an interrupted run with the same settings has written.

    Returns the content of the JSON file. Raises ``ValueError`` for a bad model, text, mask or
    setting, ``OSError``, and :class:`~seedbed.sim.harness.Mismatch` if the RTL differs.
    """
    progress = Console(stderr=True, quiet=console is None)
    out.mkdir(parents=True, exist_ok=True)
    began = perf_counter()
    with threadpool_limits(1):
        task = embedded(progress) if model is None else load(model, lines)
        columns = max(v.shape[-1] for n, v in task.parameters.items() if v.ndim == 2)
        columns = max(columns, len(task.parameters["embedding.weight"]))
        params = core_params(columns, job.decode)
        config = registry.find(CORE).configure(params)
        made = setup(
            task, out, config.sparse, job.fraction, job.keep, decode=job.decode,
            spread=job.spread, console=progress,
        )  # fmt: skip
        judged = made.held[0][: job.characters], made.held[1][: job.characters]
        changed = [job.decode] * (job.decode != Job.decode)
        path = out / ("_".join(["lm", *changed, "rtl" if rtl else "integer"]) + ".json")
        words = ["--rtl" if rtl else "--integer"]
        words += ["--model DIR", f"--lines {lines}"] * (model is not None)
        words += ["--stalls"] * (pauses > 0)
        result = _begin(task, made, judged, job, words, path, resume=resume)
        made = _continued(made, result)
        with (
            products_bar(progress, made, _left(job, result, judged)) as advance,
            _engine(made, config, params, build, pauses, advance if rtl else None) as engine,
        ):
            _train(engine, made, judged, job, result, path, advance if not rtl else None)
        if isinstance(engine, RtlMatrices):
            result |= {
                "cycles": engine.cycles, "commands": engine.commands,
                "products": engine.products, "pauses": pauses,
                "cycles_per_second": sum(engine.cycles.values()) / engine.seconds,
            }  # fmt: skip
    result["seconds"] = perf_counter() - began
    _write(result, path)
    if console is not None:
        _show(result, console)
    return result


def _begin(
    task: Task, made: Setup, judged: Windows, job: Job, words: list[str], path: Path, *,
    resume: bool,
) -> dict[str, Any]:  # fmt: skip
    """Return a result without steps, or that of an interrupted run; ``words`` are options."""
    settings = asdict(job) | {"keep": None}
    options = settings | {"keep": job.keep and "MASK"}
    if job.decode == Job.decode:
        del options["decode"]
    words += [f"--{name} {value}" for name, value in options.items() if value is not None]
    digest = sha256(json.dumps(settings, sort_keys=True).encode())
    for name, of in made.matrices.items():
        digest.update(name.encode() + of.fields.tobytes() + of.entries.tobytes())
    tuned = made.tuned.characters, made.tuned.targets
    for part in (*made.model.biases.values(), *tuned, *judged):
        digest.update(part.tobytes())
    if resume and (before := resumed(path, digest.hexdigest())):
        return before
    return {
        "command": " ".join(["seedbed demo lm", *words]), "input": digest.hexdigest(), **settings,
        "characters": len(judged[1]), "held": len(made.held[1]), "tuned": len(made.tuned),
        "entries": made.entries,
        "perplexity": {
            "float32": language_model.perplexity(task.parameters, *judged),
            "compressed": language_model.perplexity(made.restored, *judged),
        },
        "losses": [], "slopes": [],
        "values": {name: of.entries[:, 2].tolist() for name, of in made.matrices.items()},
    }  # fmt: skip


def _continued(made: Setup, result: dict[str, Any]) -> Setup:
    """Return the model with the values of a result."""
    matrices = {
        name: replace(
            of,
            entries=np.column_stack([of.entries[:, :2], np.array(result["values"][name], int)]),
        )
        for name, of in made.matrices.items()
    }
    return replace(made, matrices=matrices)


def products(windows: int, spread: int = 0) -> int:
    """Return the products of windows but for those of their characters, in two layers."""
    return windows * (4 * (language_model.CONTEXT + spread) + 2 * spread + 1)


@contextmanager
def _engine(
    made: Setup, config: GemvConfig, params: dict[str, Any], build: Path, pauses: int,
    advance: Callable[[int], object] | None,
) -> Iterator[Engine]:  # fmt: skip
    """Yield the emitted core with the matrices, or without ``advance`` the golden model."""
    if advance is None:
        assert config.sparse
        yield KeptMatrices(config.packing, config.sparse, made.matrices)
        return
    core = registry.find(CORE)
    path = verilog.write(core, params, build / "emitted" / f"{CORE}-lm", kept=build / "cache")
    bench = Bench(core.signature(config))
    executable = bench.executable(path, core.name, build=build / "cosim")
    with Cosim(executable, bench, seed=1, pauses=pauses) as process:
        yield RtlMatrices(config, process, made.matrices, advance)


def _left(job: Job, result: dict[str, Any], judged: Windows) -> int:
    """Return how many products the rest of a run has."""
    tuned = 2 * job.batch * (job.steps - len(result["losses"]))
    judging = len(judged[1]) * (1 + ("before" not in result["perplexity"]))
    return products(tuned, job.spread) + products(judging)


@contextmanager
def products_bar(console: Console, made: Setup, total: int) -> Iterator[Callable[[int], object]]:
    """Yield what is called with the number of further products, of a total."""
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=console,
    ) as bar:  # fmt: skip
        shown = bar.add_task(f"preparing {CORE}", total=total)
        text = f"tuning {made.entries} weights"
        yield lambda count: bar.update(shown, description=text, advance=count)


def _train(
    engine: Engine, made: Setup, judged: Windows, job: Job, result: dict[str, Any], path: Path,
    advance: Callable[[int], object] | None,
) -> None:  # fmt: skip
    """Judge, tune the rest of the steps, and judge again; the result is written from time to time.

    ``advance`` is given where the engine does not call it.
    """

    def judge(when: str) -> None:
        result["perplexity"][when] = made.model.perplexity(engine, *judged)
        _write(result, path)
        if advance:
            advance(products(len(judged[1])))

    if "before" not in result["perplexity"]:
        judge("before")
    for step in range(len(result["losses"]), job.steps):
        loss, slope = job.train(made, engine, step)
        result["losses"].append(loss)
        result["slopes"].append(slope)
        if advance:
            advance(products(2 * job.batch, job.spread))
        if (step + 1) % SAVED == 0 or step + 1 == job.steps:
            result["values"] = {name: found.tolist() for name, found in engine.values.items()}
            _write(result, path)
    judge("after")


def _write(result: dict[str, Any], path: Path) -> None:
    write_atomic(path, json.dumps(result, indent=1, allow_nan=False) + "\n")


def _show(result: dict[str, Any], console: Console) -> None:
    """Print perplexities, and what the core did."""
    names = {
        "float32": "float32", "compressed": f"{BITS} bits and kept weights, in float",
        "before": "in integers, before", "after": "in integers, after",
    }  # fmt: skip
    lines = [[text, f"{result['perplexity'][name]:.4f}"] for name, text in names.items()]
    show_table(console, ["model", "perplexity"], lines)
    steps, batch = result["steps"], result["batch"]
    console.print(
        f"{result['entries']} kept weights were tuned in {steps} steps of 2 x {batch} windows. "
        f"{result['characters']} of {result['held']} held-out characters were judged.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    float32, before, after = (result["perplexity"][k] for k in ("float32", "before", "after"))
    if before > float32:
        console.print(
            f"The tuning regains {100 * (before - after) / (before - float32):.1f} % of what "
            f"{BITS} bits cost.",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    if "cycles" not in result:
        return
    cycles = sum(result["cycles"].values())
    passes = result["characters"] + products(steps * batch, result["spread"]) / products(1)
    each = result["cycles"]["product"] / (2 * passes)
    update = result["cycles"]["update"] / max(result["commands"]["update"], 1)
    whole, speed = 2 * result["held"] * each, result["cycles_per_second"]
    console.print(
        f"All {result['products']:,} matrix products and "
        f"{result['commands']['update']:,} updates of the emitted Verilog are the golden model's, "
        f"bit for bit.\n"
        f"{cycles:,} cycles, simulated at {speed:,.0f} per second: {each:,.0f} for a character's "
        f"products, {update:,.0f} for an update of a matrix.\n"
        f"Judging all held-out characters twice takes {whole:,.0f} cycles: {whole / speed:,.0f} s "
        "of simulation.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
