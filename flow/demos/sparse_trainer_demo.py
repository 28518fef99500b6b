"""Demonstration of the trainer of kept weights: a compressed network learns rotated images."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from seedbed.flow import registry
from seedbed.flow.cache import code, memo
from seedbed.flow.demos.data import Split, digits, mnist
from seedbed.flow.demos.instantft_job import sized
from seedbed.flow.demos.sparse_network import Compressed, activations, compress
from seedbed.flow.demos.zo import SETTINGS
from seedbed.flow.demos.zo_job import Task, flat, prepare
from seedbed.flow.emit import verilog
from seedbed.flow.files import write_atomic
from seedbed.flow.options import show_table
from seedbed.flow.progress import Bar
from seedbed.golden.sparse_trainer import SparseTrainer
from seedbed.sim import sparse_job, tools
from seedbed.sim.sparse_job import Done, Job
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.checks import require_int
from seedbed.spec.sparse_trainer import BIAS_BITS

__all__ = ["Settings", "draw", "measure", "memory_bytes", "run_sparse"]

CORE = "sparse_trainer"
#: Held-out images whose accuracy the model gives, and that the RTL classifies.
HELD, CLASSIFIED = 2000, 64
#: Images that choose the kept weights and the ranges of activations.
STATISTICS = 2000
#: The least bit of a value is 2^-14. The updates of all layers are shifted alike.
UNIT, UPDATE_SHIFT = 14, 8


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a training; ``rate`` and ``shift`` are those of the core's command.

    The rate falls linearly, epoch by epoch.
    """

    degrees: float = 30
    kept: int = 127
    images: int = 512
    batch: int = 32
    epochs: int = 20
    rate: int = 256
    shift: int = 12
    scale: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("kept", self.kept, 1, 65536)
        require_int("images", self.images, 1, 65536)
        require_int("epochs", self.epochs, 1, 65535)
        require_int("batch", self.batch, 1, 4096)
        require_int("rate", self.rate, 1, 65535)
        require_int("shift", self.shift, 0, 31)
        require_int("scale", self.scale, 0, 7)
        require_int("seed", self.seed, 0, 2**32 - 1)


def draw(
    config: SparseTrainerConfig, split: Split, settings: Settings
) -> tuple[Job, Compressed, Task]:
    """Return a training, the network that it starts from, and the network in floating point.

    The network is pre-trained on upright images, and compressed to 4 bits per weight. Images
    to train on are drawn at random; they and the held-out images are rotated.

    Raises ``ValueError`` for more entries than the core holds, or too few images.
    """
    require_int("kept", settings.kept, 1, config.entries)
    require_int("batch", settings.batch, 1, config.batch)
    parts = {name: getattr(split, name) for name in ("pre", "tune", "test")}
    whole = Split(split.name, **{name: (sized(x), y) for name, (x, y) in parts.items()})
    task = prepare(whole, replace(SETTINGS["mnist"], degrees=settings.degrees))
    x, labels = (part[:STATISTICS] for part in whole.pre)
    network = compress(
        config, task.model, task.theta, flat(x), labels, kept=settings.kept, unit=UNIT,
        scale=settings.scale, update_shift=UPDATE_SHIFT,
    )  # fmt: skip
    picked, order = (np.random.default_rng([settings.seed, k]) for k in range(2))
    require_int("images", settings.images, 1, len(task.tune[1]))
    chosen = picked.permutation(len(task.tune[1]))[: settings.images]
    held = slice(0, HELD)
    count = len(chosen)
    job = Job(
        config=config,
        layers=network.layers,
        parameters=network.parameters,
        x=activations(np.concatenate([task.tune[0][chosen], task.test[0][held]])),
        labels=np.concatenate([task.tune[1][chosen], task.test[1][held]]),
        order=np.array([order.permutation(count) for _ in range(settings.epochs)]),
        batch=settings.batch,
        seed=settings.seed,
        rate=settings.rate,
        decay=settings.rate // settings.epochs,
        shift=settings.shift,
        classified=np.arange(count, count + min(CLASSIFIED, len(task.test[1]))),
    )
    return job, network, task


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


def measure(
    path: Path, job: Job, *, build: Path,
    progress: Callable[[str, float], None] = lambda step, share: None,
) -> dict[str, Any]:  # fmt: skip
    """Train on the Verilog in ``path``; return cycles, reads and writes, and tool versions.

    Raises ``RuntimeError`` if the Verilog does not build, and
    :class:`~seedbed.sim.harness.Mismatch` if a bit differs from the model.
    """
    versions = {"numpy": version("numpy"), "amaranth": version("amaranth")}
    versions |= {name.lower(): tools.version(name) for name in ("YOSYS", "VERILATOR", "CXX")}
    arrays = [job.x, job.labels, job.order, job.classified]
    for part in job.parameters:
        arrays += [part.base, part.biases, part.entries]
    numbers = [job.batch, job.seed, job.rate, job.decay, job.shift]
    key = {
        "verilog": sha256(path.read_bytes()).hexdigest(),
        "data": sha256(b"".join(part.tobytes() for part in arrays)).hexdigest(),
        "code": sha256((code(__name__) + sparse_job.MAIN.read_text()).encode()).hexdigest(),
        "job": [job.order.shape, numbers, repr(job.layers)],
        "config": repr(job.config),
        "tools": versions,
    }

    def compute() -> dict[str, Any]:
        progress("building the simulation", 0)
        bench = sparse_job.executable(path, path.stem, job.config, build=build / "job")
        with threadpool_limits(1):
            done = sparse_job.run(
                bench, job, seed=job.seed,
                progress=lambda share: progress("training in the RTL", share),
            )  # fmt: skip
        return figures(job, done) | {"tools": versions}

    return memo(build / "cache", "sparse_job", key, compute)


def figures(job: Job, done: Done) -> dict[str, Any]:
    """Return cycles and accesses of a job in the RTL."""
    samples, steps, count = job.order.size, len(done.log), len(job.classified)
    # From a sample's result to the next one's: a forward pass without a perturbation.
    forward = float(np.median(np.diff(done.when["before"].astype(np.int64))))
    step = done.cycles["train"] / steps
    passes = 2 * forward * samples / steps

    def both(counts: np.ndarray, of: int) -> list[float]:
        return [float(counts.min()) / of, float(counts.max()) / of]

    return {
        "cycles": done.cycles,
        "job_cycles": sum(done.cycles[name] for name in ("load", "train", "read")),
        "steps": steps,
        "step_cycles": step,
        "forward_cycles": forward,
        "step_ratio": step / passes,
        "pass_beats": done.beats["train"] / (2 * samples),
        "reads_per_pass": both(done.reads["pass"], 2 * samples),
        "reads_per_update": both(done.reads["update"], steps),
        "writes_per_update": both(done.writes, steps),
        "saturated": done.saturated,
        "classified": count,
        "correct_before": int(done.correct["before"].sum()),
        "correct_after": int(done.correct["after"].sum()),
        "cycles_per_second": sum(done.cycles.values()) / done.seconds,
        "seconds": done.seconds,
    }


def run_sparse(
    data: Path | None, out: Path, *, build: Path, rtl: bool = False,
    settings: Settings = Settings(), console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train, in the model or also in the RTL, and write ``out/sparse.json``.

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
    console
        Output of the table; progress goes to standard error. ``None``: no output.

    Returns the content of the JSON file. Raises ``ValueError`` for bad numbers or data.
    """
    split = digits() if data is None else mnist(data)
    core = registry.find(CORE)
    config = core.configure({})
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
            path = verilog.write(core, {}, build / "emitted" / CORE, kept=build / "cache")
            result |= measure(
                path, job, build=build,
                progress=lambda step, share: bar.update(line, description=step, completed=share),
            )  # fmt: skip
    words = [f"--{name} {value:g}" for name, value in vars(settings).items()]
    options = ["--data DIR"] * (data is not None) + ["--rtl"] * rtl + words
    result = {"command": " ".join(["seedbed demo sparse", *options]), **result}
    name = "sparse_rtl.json" if rtl else "sparse.json"
    write_atomic(out / name, json.dumps(result, indent=1, allow_nan=False) + "\n")
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
