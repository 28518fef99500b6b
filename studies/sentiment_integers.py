"""Kept weights of an encoder that are tuned as in the streamed engine, by its model alone.

What the core computes, without its cycles: many steps of several trainings, with the rate of the
lowest training loss.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from rich.console import Console

from seedbed.flow.cores import registry
from seedbed.flow.jobs.kept_tuning import Model, train
from seedbed.flow.jobs.program_core import fitted
from seedbed.flow.jobs.program_rtl import CORE
from seedbed.flow.run.cache import code
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.pool import run_jobs
from seedbed.flow.run.progress import Bar
from seedbed.golden.engine_image import EngineImage
from seedbed.golden.stream_engine import StreamEngine
from seedbed.spec.checks import require_int
from seedbed.spec.stream_engine import StreamEngineConfig
from seedbed.studies.rates import best, untried
from seedbed.studies.sentiment import TUNING, TUNING_SEED, changes, spread
from seedbed.studies.sentiment_job import judged
from seedbed.studies.sentiment_tuning import VECTORS, Settings, Tuning, made, settings

__all__ = ["run_integers"]

#: Rates that are tried, in units of the trellis code for a difference of the losses of 1.
RATES = tuple(float(f"{digit}e{power}") for power in range(6) for digit in (1, 3))


def _model(tuning: Tuning, config: StreamEngineConfig, image: EngineImage) -> Model:
    """Return the model of the core, with values of kept weights of its own."""
    parameters = {
        name: replace(of, kept=replace(of.kept, values=of.kept.values.copy())) if of.kept else of
        for name, of in tuning.engine.parameters.items()
    }
    return Model(StreamEngine(tuning.engine.program, parameters), config, image)


@dataclass(frozen=True)
class Task:
    """What all trainings have in common: what is tuned, and the core and its memory."""

    tuning: Tuning
    config: StreamEngineConfig
    image: EngineImage

    @cached_property
    def digest(self) -> str:
        """A hash of everything that a result depends on, code included."""
        found = hashlib.sha256(code(__name__).encode())
        tuning, image = self.tuning, self.image
        for beat in image.beats:
            found.update(beat.to_bytes(self.config.beat_bits // 8, "little"))
        for part in (*tuning.sentences, tuning.labels, tuning.pool, tuning.held):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    def run(self, job: Settings) -> dict[str, Any]:
        """Train; return losses before and after, by :func:`~.sentiment_job.judged`."""
        tuning, own = self.tuning, self.tuning.drawn(job)
        head = tuning.head(own)
        model = _model(tuning, self.config, self.image)
        sets = {"train": own} | ({"held": tuning.held} if job.judged else {})
        before = {name: tuning.losses(model, head, of) for name, of in sets.items()}
        steps = [step for step, *_ in train(tuning, model, head, job, own)]
        found: dict[str, Any] = {
            name: judged(before[name], tuning.losses(model, head, of)) for name, of in sets.items()
        }
        return found | {"still": sum(step.change == 0 for step in steps)}


def run_integers(
    model: Path | None, data: Path | None, out: Path, *, k: int, steps: int, batch: int,
    seeds: int, jobs: int, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune kept weights in the model of the core; write ``out/sentiment_integers.json``.

    The rate is that with the lowest training loss after a third of the steps, with a seed that is
    not used afterwards. Results of trainings are kept in ``out/cache``. Returns the content of the
    JSON file. Raises ``ValueError`` for a bad model, data or setting.
    """
    require_int("steps", steps, TUNING, 1_000_000)
    require_int("seeds", seeds, 1, 100)
    require_int("jobs", jobs, 1, 256)
    first = settings(model, k=k, steps=steps, batch=batch, judged=True)
    out.mkdir(parents=True, exist_ok=True)
    with Bar(console=Console(stderr=True, quiet=console is None)) as bar:
        tuning = made(model, data, k, bar)
    block = max(map(len, tuning.sentences))
    core = fitted(
        registry.find(CORE), tuning.engine, block=block, context=block, vectors=VECTORS
    )  # fmt: skip
    task = Task(tuning, core.config, core.image)

    def run(wanted: list[Settings], description: str) -> list[dict[str, Any]]:
        done = run_jobs(
            task, wanted, out / "cache", workers=jobs, progress=console is not None,
            description=description,
        )  # fmt: skip
        return [done[job] for job in wanted]

    trial = replace(first, steps=steps // TUNING, seed=TUNING_SEED, judged=False)
    tried: dict[float, float | None] = {}
    while wanted := [replace(trial, rate=rate) for rate in untried(tried, first.rate, RATES)]:
        for job, found in zip(wanted, run(wanted, "rates"), strict=True):
            change = found["train"]["change"]
            tried[job.rate] = None if change > 0 else change
    rate = best(tried)
    runs = run([replace(first, rate=rate, seed=seed) for seed in range(seeds)], "trainings")
    result = {
        "command": "seedbed demo sentiment --integers" + (" --model DIR" if model else "")
        + (" --data DIR" if data else "") + f" --k {k} --steps {steps} --batch {batch}",
        "tuned": sum(len(of.kept.rows) for of in tuning.engine.parameters.values() if of.kept),
        "fraction": tuning.fraction, "eps": first.eps, "rate": rate, "rates": tried, "runs": runs,
    }  # fmt: skip
    write_atomic(out / "sentiment_integers.json", json.dumps(result, indent=1) + "\n")
    if console is not None:
        _show(result, console)
    return result


def _show(result: dict[str, Any], console: Console) -> None:
    runs = result["runs"]
    console.print(
        f"{result['tuned']:,} kept weights with {result['fraction']} fraction bits. Before: "
        f"training loss {spread([run['train']['before'] for run in runs], '.4f')}, held-out loss "
        f"{spread([run['held']['before'] for run in runs], '.4f')}, "
        f"{100 * mean(run['held']['accuracy_before'] for run in runs):.1f} % right.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    header = [
        "rate", "training loss", "held-out loss", "error", "held-out accuracy, points",
        "steps without a change",
    ]  # fmt: skip
    still = [str(run["still"]) for run in runs]
    line = [f"{result['rate']:g}", *changes(runs), ", ".join(still)]
    show_table(console, header, [line], title="changes by training in the core's integers")
