"""Zeroth-order training of a network on real images, on the emitted Verilog."""

from collections.abc import Callable, Mapping
from dataclasses import astuple
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from seedbed.flow.jobs.data import Split, digits
from seedbed.flow.jobs.elasticzo_checkpoint import load
from seedbed.flow.jobs.instantft_task import SIDE, sized, to_bytes
from seedbed.flow.run.cache import code, memo
from seedbed.golden.elasticzo import init
from seedbed.golden.training_log import digest
from seedbed.sim import tools
from seedbed.sim.job import Epoch, every_epoch
from seedbed.sim.jobs import zo_job
from seedbed.sim.jobs.zo_job import Done, Job
from seedbed.sim.verilog import cosim
from seedbed.spec.checks import require_int
from seedbed.spec.elasticzo import GRAIN, phases_of
from seedbed.spec.step_levels import LEVELS
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = [
    "EPOCH", "checkpoint_weights", "draw", "measure", "reported", "row_figures", "training",
]  # fmt: skip

#: Held-out images that are classified after the training, unless a number is given.
CLASSIFIED = 64
#: An epoch of MNIST: images, and the batch of the paper's training in integers.
EPOCH = (60_000, 256)


def checkpoint_weights(
    path: Path, config: ZoTrainerConfig
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return weights and exponents by layer of an int8 checkpoint of the demonstration.

    Raises ``ValueError`` for another file, or weights of another network.
    """
    found = load(path)
    if found is None:
        raise ValueError(f"{path} is not a checkpoint of this demonstration")
    arrays = found[0]
    weights, exponents = {}, {}
    for layer in config.layers:
        values, exponent = arrays.get(layer.name), arrays.get(f"{layer.name}.exponent")
        shape = layer.outputs, layer.fan_in
        if values is None or exponent is None or values.shape != shape or values.dtype != np.int8:
            raise ValueError(
                f"{path} has no int8 weights of {shape[0]} x {shape[1]} for {layer.name}"
            )
        weights[layer.name], exponents[layer.name] = values.astype(np.int64), int(exponent)
    return weights, exponents


def draw(
    config: ZoTrainerConfig,
    split: Split,
    *,
    images: int = 1024,
    batch: int = 32,
    epochs: int = 1,
    magnitude: int = 15,
    seed: int = 0,
    start: Path | None = None,
    held: int | None = None,
) -> Job:
    """Return a training of ``config`` on images that are drawn at random.

    Parameters
    ----------
    split
        Where images come from; they are scaled to 28 x 28 where the network needs that.
    images, epochs
        How many images to train on, and how often.
    batch
        Images between two updates.
    magnitude
        r_max, 2^c - 1.
    seed
        Of the images, their order, the weights, and the first perturbation.
    start
        A checkpoint to start from; by default random weights.
    held
        Other images, which are classified only; by default 64, or all where there are fewer.

    Raises ``ValueError`` and ``TypeError`` for what is out of range.
    """
    pool = [np.concatenate(parts) for parts in zip(split.pre, split.tune, strict=True)]
    require_int("images", images, 1, len(pool[1]))
    held = min(CLASSIFIED, len(split.test[1])) if held is None else held
    require_int("held", held, 1, len(split.test[1]))
    require_training(config, batch=batch, epochs=epochs, magnitude=magnitude, seed=seed)
    if start is None:
        network = init(config.model, np.random.default_rng(seed))
        weights = {name: values.astype(np.int64) for name, values in network.weights.items()}
        exponents = network.exponents
    else:
        weights, exponents = checkpoint_weights(start, config)
    picked, others = (np.random.default_rng([seed, k]) for k in range(2))
    chosen = picked.permutation(len(pool[1]))[:images]
    tested = others.permutation(len(split.test[1]))[:held]
    drawn = np.concatenate([pool[0][chosen], split.test[0][tested]])
    if config.layers[0].inputs[-1] == SIDE:
        drawn = sized(drawn)
    return training(
        config, weights, exponents, to_bytes(drawn)[:, None],
        np.concatenate([pool[1][chosen], split.test[1][tested]]),
        tuned=images, batch=batch, epochs=epochs, magnitude=magnitude, seed=seed,
    )  # fmt: skip


def require_training(
    config: ZoTrainerConfig, *, batch: int, epochs: int, magnitude: int, seed: int
) -> None:
    """Raise ``ValueError`` and ``TypeError`` for a training that is out of range."""
    require_int("batch", batch, 1, config.batch)
    require_int("epochs", epochs, 1, 65535)
    require_int("seed", seed, 0, (1 << 32) - 1)
    allowed = [2**c - 1 for c in range(1, config.magnitude_bits + 1)]
    if magnitude not in allowed:
        raise ValueError(
            f"magnitude must be one of {', '.join(map(str, allowed))}, not {magnitude}"
        )


def training(
    config: ZoTrainerConfig,
    weights: Mapping[str, np.ndarray],
    exponents: Mapping[str, int],
    images: np.ndarray,
    labels: np.ndarray,
    *,
    tuned: int,
    batch: int,
    epochs: int,
    magnitude: int,
    seed: int,
) -> Job:
    """Return a training on the first ``tuned`` images, bytes; the others are classified only.

    The order of the images is drawn by the seed. The numbers are those of :func:`draw`.
    """
    require_training(config, batch=batch, epochs=epochs, magnitude=magnitude, seed=seed)
    order = np.random.default_rng([seed, 2])
    phases = {phase.epoch: phase for phase in phases_of(epochs, magnitude, grain=GRAIN)}
    return Job(
        config=config,
        weights=weights,
        exponents=exponents,
        images=images,
        labels=labels,
        order=np.array([order.permutation(tuned) for _ in range(epochs)]),
        batch=batch,
        seed=seed,
        schedule=[
            (epoch, magnitude.bit_length(), phase.zeros // GRAIN, phase.update_bits)
            for epoch, phase in phases.items()
        ],
        classified=np.arange(tuned, len(images)),
    )


def measure(
    verilog: Path,
    job: Job,
    *,
    build: Path,
    epoch: Epoch = every_epoch,
    progress: Callable[[str, float], None] = lambda step, share: None,
) -> dict[str, Any]:
    """Train on ``verilog``; return cycles, reads and writes, the log, weights, and tool versions.

    Parameters
    ----------
    verilog
        The emitted core.
    job
        What :func:`draw` or :func:`training` returned.
    build
        Folder of the executable and the cached result.
    epoch
        Trains the model for an epoch, see :meth:`~seedbed.sim.jobs.zo_job.Job.acts`.
    progress
        Called with the current step and its completed share, 0..1.

    Raises ``RuntimeError`` if the Verilog does not build, and
    :class:`~seedbed.sim.harness.Mismatch` if a bit differs from the model.
    """
    config = job.config
    versions = {"numpy": version("numpy"), "amaranth": version("amaranth")}
    versions |= {name.lower(): tools.version(name) for name in ("YOSYS", "VERILATOR", "CXX")}
    arrays = [job.images, job.labels, job.order]
    key = {
        "verilog": sha256(verilog.read_bytes()).hexdigest(),
        "data": sha256(b"".join(part.tobytes() for part in arrays)).hexdigest(),
        "weights": [digest(job.weights), sorted(job.exponents.items())],
        "code": sha256((code(__name__) + cosim.MAIN.read_text()).encode()).hexdigest(),
        "job": [job.order.shape, job.batch, job.seed, list(job.schedule), len(job.classified)],
        "config": repr(config),
        "tools": versions,
    }

    def compute() -> dict[str, Any]:
        progress("building the simulation", 0)
        bench = zo_job.executable(verilog, "zo_trainer", config, build=build / "job")
        with threadpool_limits(1):
            done = zo_job.run(
                bench, job, seed=job.seed, epoch=epoch,
                progress=lambda share: progress("training in the RTL", share),
            )  # fmt: skip
        return {
            "images": job.order.shape[1],
            "epochs": len(job.order),
            "batch": job.batch,
            "seed": job.seed,
            "schedule": list(job.schedule),
            "config": repr(config),
            "lanes": config.lanes,
            "classified": len(job.classified),
            "correct": int(done.correct.sum()),
            **_cycles(job, done),
            "parameters": _accesses(job, done),
            "log": [astuple(entry) for entry in done.log],
            "weights": {name: values.tolist() for name, values in done.model.weights.items()},
            "seconds": done.seconds,
            "tools": versions,
        }

    return memo(build / "cache", "zo_job", key, compute)


def _cycles(job: Job, done: Done) -> dict[str, Any]:
    """Return cycles of the job, of a step, and of the passes of a sample."""
    steps, samples, cycles = len(done.log), job.order.size, done.cycles
    found: dict[str, Any] = {
        "cycles": cycles,
        "job_cycles": cycles["load"] + cycles["train"] + cycles["read"],
        "steps": steps,
        "step_cycles": cycles["train"] / steps,
        "sample_cycles": cycles["train"] / samples,
        "cycles_per_second": sum(cycles.values()) / done.seconds,
    }
    # From a sample's class to the next one's, without an update between them.
    last = np.cumsum([len(places) for places, _ in job.batches()]) - 1
    inside = ~np.isin(np.arange(samples), last)
    between = np.diff(done.when["train"].astype(np.int64))[inside[1:] & inside[:-1]]
    others = np.diff(done.when["infer"].astype(np.int64))
    if len(between) and len(others):
        sample = float(np.median(between))
        images, batch = EPOCH
        rest = (cycles["train"] - samples * sample) / steps
        found |= {
            "perturbed_cycles": sample / 2,
            "forward_cycles": float(np.median(others)),
            "throughput_percent": 200 * float(np.median(others)) / sample,
            "epoch_cycles": round(images * sample + -(-images // batch) * rest),
        }
    return found


def _accesses(job: Job, done: Done) -> dict[str, Any]:
    """Return the fewest and the most reads and writes of any row of parameters.

    Those of an update are of the rows that are trained by zeroth order.
    """
    steps, passes, rows = len(done.log), 2 * job.order.size, job.config.schedule.rows
    none = LEVELS.index("none")
    updates = sum(entry.sign != 0 and entry.level != none for entry in done.log)

    def both(counts: np.ndarray, of: int) -> list[float]:
        return [float(counts.min()) / of, float(counts.max()) / of]

    found = {
        "updates": updates,
        "reads_per_pass": both(done.reads["pass"], passes),
        "reads_per_step": both(done.reads["pass"] + done.reads["update"], steps),
    }
    if updates:
        found["reads_per_update"] = both(done.reads["update"][:rows], updates)
        found["writes_per_update"] = both(done.writes[:, :rows], updates)
    if job.config.tail:
        found["tail_writes_per_step"] = both(done.writes[:, rows:], steps)
    return found


def reported(verilog: Path, config: ZoTrainerConfig, build: Path) -> dict[str, Any]:
    """Return the result of a training on the digits, scaled to the network's images."""
    found = measure(verilog, draw(config, digits()), build=build)
    return found | {"data": "digits"}


def row_figures(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a report row from a result of :func:`measure`."""
    names = (
        "images", "job_cycles", "step_cycles", "sample_cycles", "forward_cycles",
        "perturbed_cycles", "throughput_percent", "epoch_cycles", "cycles_per_second",
    )  # fmt: skip
    return {
        **{name: found[name] for name in names},
        "reads_per_update": found["parameters"]["reads_per_update"][1],
        "writes_per_update": found["parameters"]["writes_per_update"][1],
    }
