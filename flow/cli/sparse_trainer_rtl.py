"""Demonstration of the trainer of kept weights: a compressed network learns rotated images."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.jobs.data import digits, mnist
from seedbed.flow.jobs.sparse_trainer_rtl import Settings, draw, measure
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.options import show_table
from seedbed.flow.run.progress import Bar
from seedbed.golden.sparse_trainer import SparseTrainer
from seedbed.sim.jobs.sparse_job import Job
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.sparse_trainer import BIAS_BITS

__all__ = ["memory_bytes", "run_sparse"]

CORE = "sparse_trainer"


def memory_bytes(config: SparseTrainerConfig, job: Job) -> dict[str, int]:
    """Return bytes of a network in memory and in the core, and what training adds.

    Training adds registers: the difference of the losses, gain, seed, rate with its decay and
    shift, and counters of samples, epochs and steps.
    """
    entries = sum(layer.entries for layer in job.layers)
    place = config.row_width + (config.columns - 1).bit_length()
    registers = config.logits.width + 13, config.gain_width, 32, 16, 16, 5, 13, 16, 32
    return {
        "base": sum(config.layer_beats(layer) * config.beat_bytes for layer in job.layers),
        "biases": sum(layer.rows for layer in job.layers) * BIAS_BITS // 8,
        "values": -(-entries * config.value_width // 8),
        "places": -(-entries * place // 8),
        "training": -(-sum(registers) // 8),
    }


def accuracy(job: Job, model: SparseTrainer) -> float:
    """Return the share of held-out images that a model classifies correctly, in percent."""
    held = slice(int(job.classified[0]), None)
    return 100 * float((model.infer(job.x[held]) == job.labels[held]).mean())


def trained(
    job: Job, progress: Callable[[float], None] = lambda share: None
) -> tuple[SparseTrainer, list[float], list[int]]:
    """Train the model; return it, the held-out accuracy after each epoch, and the gains."""
    model, gains = job.model(), []
    accuracies = [accuracy(job, model)]
    steps = job.steps // len(job.order)
    with threadpool_limits(1):
        for step, (_, _, entry) in enumerate(job.train(model)):
            gains.append(entry.gain)
            if step % steps == steps - 1:
                accuracies.append(accuracy(job, model))
            progress((step + 1) / job.steps)
    return model, accuracies, gains


def run_sparse(
    data: Path | None, out: Path, *, build: Path, rtl: bool = False, decode: str = "seedlm",
    settings: Settings, console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train, in the model or also in the RTL, and write ``out/sparse.json``.

    With another decode than ``seedlm`` its name is in that of the file.

    Parameters
    ----------
    data
        A folder with the IDX files of MNIST or Fashion-MNIST; ``None``: scikit-learn's digits.
    out
        Created if needed.
    build
        Folder of the Verilog, the executable and cached results.
    rtl
        Train on the emitted Verilog, too; every result, every step and every value is compared with
        the model's. Its figures are in ``out/sparse_rtl.json``.
    decode
        What the base is packed as, see :class:`~seedbed.spec.SparseTrainerConfig`.
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data.
    """
    split = digits() if data is None else mnist(data)
    core, params = registry.find(CORE), {"decode": decode}
    config = core.configure(params)
    with Bar(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
        console=None if console is None else Console(stderr=True),
    ) as bar:  # fmt: skip
        line = bar.add_task("pre-training", total=1)
        job, network, task = draw(config, split, settings)
        bar.update(line, description="training in the model")
        _, accuracies, gains = trained(job, lambda share: bar.update(line, completed=share))
        result = {
            "data": "digits" if data is None else data.resolve().name,
            "decode": decode,
            "network": [layer.columns for layer in job.layers] + [job.layers[-1].rows],
            "weights": network.weights,
            "entries": [layer.entries for layer in job.layers],
            "settings": vars(settings),
            "relative_error": network.relative_error,
            "float_upright": 100 * task.upright,
            "float_rotated": 100 * task.model.accuracy(task.theta, *task.test),
            "accuracies": accuracies,
            "gains": gains,
            "bytes": memory_bytes(config, job),
        }
        if rtl:
            bar.update(line, description=f"emitting {CORE}", completed=0)
            path = verilog.write(
                core, params, build / "emitted" / CORE, plain=True, kept=build / "cache"
            )
            result |= measure(
                path, job, build=build,
                progress=lambda step, share: bar.update(line, description=step, completed=share),
            )  # fmt: skip
    words = [f"--{name} {value:g}" for name, value in vars(settings).items()]
    changed = decode != config.__class__.decode
    options = ["--data DIR"] * (data is not None) + ["--rtl"] * rtl + words
    options += [f"--decode {decode}"] * changed
    result = {"command": " ".join(["seedbed demo sparse", *options]), **result}
    name = "_".join(["sparse", *[decode] * changed, *["rtl"] * rtl])
    write_atomic(out / f"{name}.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    if console is not None:
        show(result, console)
    return result


def show(result: Mapping[str, Any], console: Console) -> None:
    """Print accuracies, and cycles, reads and writes of a training in the RTL."""
    settings, sizes = result["settings"], "-".join(map(str, result["network"]))
    first, *_, last = result["accuracies"]
    lines = [
        ["in floating point, upright", f"{result['float_upright']:.1f}"],
        [f"in floating point, rotated by {settings['degrees']:g} degrees",
         f"{result['float_rotated']:.1f}"],
        ["compressed, rotated", f"{first:.1f}"],
        [f"after {settings['epochs']} epochs of {settings['images']:,} images", f"{last:.1f}"],
    ]  # fmt: skip
    show_table(console, [f"{result['data']}, {sizes}: held-out images", "correct, %"], lines)
    sizes_of = result["bytes"]
    sentences = [
        f"{sum(result['entries'])} of {result['weights']:,} weights are trained. The network has "
        f"{sizes_of['base']:,} bytes in memory and {sizes_of['values'] + sizes_of['places']:,} in "
        f"the core; training adds {sizes_of['training']} bytes of registers."
    ]
    if "step_cycles" in result:
        sentences += [
            f"A step takes {result['step_cycles']:,.1f} cycles, {result['step_ratio']:.4f} times "
            f"those of its forward passes without a perturbation, {result['forward_cycles']:,.0f} "
            f"cycles each.",
            f"Reads of a value per pass: {_range(result['reads_per_pass'])}; per update: "
            f"{_range(result['reads_per_update'])}. Writes per update: "
            f"{_range(result['writes_per_update'])}.",
            f"Classes, losses, gains and values of {result['steps']:,} steps are bit-exact with "
            f"the model. Simulated at {result['cycles_per_second']:,.0f} cycles per second.",
        ]
    for sentence in sentences:
        console.print(sentence, highlight=False, soft_wrap=True)


def _range(counts: list[float]) -> str:
    low, high = (f"{count:g}" for count in counts)
    return low if low == high else f"{low} to {high}"
