"""Demonstration of a dense network as a program: its kept weights learn rotated images."""

import json
from collections.abc import Mapping
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.cores import registry
from seedbed.flow.jobs import dense_program
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.kept_tuning import Model
from seedbed.flow.jobs.program_core import Fitted, fitted, trainer_params
from seedbed.flow.jobs.program_rtl import CORE, LATENCY, emitted_core, emitted_program
from seedbed.flow.jobs.sparse_trainer_rtl import Drawn, Settings, images
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import Bar, status
from seedbed.golden import stream_trainer
from seedbed.sim.job import Memory
from seedbed.sim.jobs import trainer_job
from seedbed.sim.jobs.stream_job import RtlProgram

__all__ = ["TRAINER", "run_program"]

#: The core that trains alone.
TRAINER = "stream_trainer"

#: Images of a block, and those that share a pass over the weights.
BLOCK, VECTORS = 8, 4


def run_program(
    data: Path | None, out: Path, *, build: Path, core: str = CORE, rtl: bool = False,
    settings: Settings, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train, in the model or in the RTL, and write ``out/sparse_program.json``.

    Parameters
    ----------
    core
        ``stream_engine``, which is given each batch, or ``stream_trainer``, which trains alone: on
        the images in one order, with a rate that falls by the epoch. Its files begin with
        ``sparse_trainer_program``.
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; ``None``: scikit-learn's digits.
    out
        Created if needed.
    build
        Folder of the Verilog, the executable and cached results.
    rtl
        Train in the emitted Verilog, whose losses and classes are compared with the model's. The
        file is ``out/sparse_program_rtl.json``.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data.
    """
    split = digits() if data is None else mnist(data)
    quiet = Console(stderr=True, quiet=console is None)
    drawn = images(split, settings)
    engine = dense_program.dense_program(drawn.task, *drawn.statistics, kept=settings.kept)
    sizes = {"block": BLOCK, "context": BLOCK, "vectors": VECTORS}
    found = fitted(registry.find(CORE), engine, **sizes)
    model = Model(engine, found.config, found.image)
    kept = [of.kept for of in engine.parameters.values() if of.kept]
    task = drawn.task
    result = {
        "data": "digits" if data is None else data.resolve().name,
        "network": list(task.model.sizes),
        "weights": sum(of.weights.size for of in engine.parameters.values()),
        "kept": sum(len(of.rows) for of in kept),
        "settings": vars(settings),
        "float_upright": 100 * task.upright,
        "float_rotated": 100 * task.model.accuracy(task.theta, *task.test),
        "before": _held(model, drawn),
    }
    if core == TRAINER:
        steps, cycles = _alone(model, found, drawn, settings, rtl=rtl, build=build, quiet=quiet)
        result |= cycles
    elif rtl:
        with emitted_program(engine, **sizes, build=build, console=quiet) as emitted:
            steps = _trained(emitted, settings, drawn, quiet)
            result |= _cycles(emitted, len(steps), settings)
    else:
        steps = _trained(model, settings, drawn, quiet)
    # The model's weights are those of the core.
    result |= {"after": _held(model, drawn), "changes": [step.change for step, *_ in steps]}
    words = [f"--{name} {value:g}" for name, value in vars(settings).items()]
    options = [f"--core {core}", *["--data DIR"] * (data is not None), *["--rtl"] * rtl]
    result = {"command": " ".join(["seedbed demo sparse", *options, *words]), **result}
    name = f"sparse_{'trainer_' * (core == TRAINER)}program{'_rtl' * rtl}.json"
    write_atomic(out / name, json.dumps(result, indent=1, allow_nan=False) + "\n")
    if console is not None:
        show(result, console)
    return result


def _held(model: Model, drawn: Drawn) -> dict[str, float]:
    """Return the share of held-out images that are classified correctly, in percent, and loss."""
    labels = drawn.labels[drawn.count :]
    found = dense_program.judged(model, drawn.x[drawn.count :], labels, len(labels))
    right = 100 * float((found[:, 1] == labels).mean())
    return {"correct": right, "loss": float(found[:, 0].mean()) / dense_program.LOSS}


def _trained(program: stream_trainer.Tuned, settings: Settings, drawn: Drawn, quiet: Console):
    """Return all steps of a training."""
    count = drawn.order.shape[0] * -(-drawn.count // settings.batch)
    x, labels = drawn.x[: drawn.count], drawn.labels[: drawn.count]
    found = []
    with threadpool_limits(1), Bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        console=quiet,
    ) as bar:  # fmt: skip
        line = bar.add_task("training", total=count)
        for step in dense_program.train(program, settings, x, labels, drawn.order, block=BLOCK):
            found.append(step)
            bar.update(line, advance=1)
    return found


def _alone(
    model: Model, found: Fitted, drawn: Drawn, settings: Settings, *, rtl: bool, build: Path,
    quiet: Console,
) -> tuple[list, dict[str, Any]]:  # fmt: skip
    """Return the steps of one command, and in the RTL what it took."""
    block = gcd(BLOCK, settings.batch, drawn.count)
    samples = dense_program.as_samples(drawn.x, drawn.labels, drawn.order[0], block)
    work = dense_program.as_work(settings, block)
    core = registry.find(TRAINER)
    params = found.params | {"block": block, "context": block}
    params = trainer_params(params, samples, work.batch)
    config = core.configure(params)
    with threadpool_limits(1):
        if not rtl:
            return list(stream_trainer.train(config, model, samples, work)), {}
        of, memory = trainer_job.bench(config), Memory(latency=LATENCY)
        with (
            emitted_core(core, params, of, build=build, console=quiet) as cosim,
            status(quiet, "training"),
        ):
            done = trainer_job.run(cosim, config, found.image, model, samples, work, memory=memory)
    images = 2 * len(done.steps) * settings.batch
    return done.steps, {
        "steps": len(done.steps), "step_cycles": done.cycles / len(done.steps),
        "image_cycles": done.cycles / images, "read_beats": done.beats / len(done.steps),
    }  # fmt: skip


def _cycles(core: RtlProgram, steps: int, settings: Settings) -> dict[str, Any]:
    """Return what blocks and commands to tune took."""
    whole = [each for each in core.blocks if each.tokens == BLOCK]
    tunings = np.array(core.tunings)
    cycles = sum(each.cycles for each in core.blocks) + int(tunings.sum())
    return {
        "steps": steps,
        "step_cycles": cycles / steps,
        "tune_cycles": float(np.median(tunings)),
        "block_cycles": float(np.median([each.cycles for each in whole])),
        "block_beats": float(np.median([each.beats for each in whole])),
        "image_cycles": float(np.median([each.cycles for each in whole])) / BLOCK,
    }


def show(result: Mapping[str, Any], console: Console) -> None:
    """Print accuracies, and the cycles of a training in the RTL."""
    settings, sizes = result["settings"], "-".join(map(str, result["network"]))
    before, after = result["before"], result["after"]
    lines = [
        ["in floating point, upright", f"{result['float_upright']:.1f}", ""],
        [f"in floating point, rotated by {settings['degrees']:g} degrees",
         f"{result['float_rotated']:.1f}", ""],
        ["as a program, rotated", f"{before['correct']:.1f}", f"{before['loss']:.4f}"],
        [f"after {settings['epochs']} epochs of {settings['images']:,} images",
         f"{after['correct']:.1f}", f"{after['loss']:.4f}"],
    ]  # fmt: skip
    title = f"{result['data']}, {sizes}: held-out images"
    show_table(console, [title, "correct, %", "loss"], lines)
    sentences = [f"{result['kept']} of {result['weights']:,} weights are trained."]
    if "read_beats" in result:
        sentences += [
            f"One command trains: a step takes {result['step_cycles']:,.0f} cycles, "
            f"{result['image_cycles']:,.0f} for an image in a pass, and reads "
            f"{result['read_beats']:,.0f} beats of memory.",
            f"The log of {result['steps']:,} steps, and losses and classes, are bit-exact with the "
            "model.",
        ]
    elif "step_cycles" in result:
        sentences += [
            f"A block of {BLOCK} images takes {result['block_cycles']:,.0f} cycles, "
            f"{result['image_cycles']:,.0f} for an image, and {result['block_beats']:,.0f} beats "
            f"of memory; a command to tune {result['tune_cycles']:,.0f} cycles; a step "
            f"{result['step_cycles']:,.0f}.",
            f"Losses and classes of {result['steps']:,} steps are bit-exact with the model.",
        ]
    for sentence in sentences:
        console.print(sentence, highlight=False, soft_wrap=True)
