# amaranth: UnusedElaboratable=no
"""Whole jobs of zeroth-order training on the emitted Verilog, checked against the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.pipeline_ports import row_address
from seedbed.hw.engine.pipeline_timing import cycles as pass_cycles
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.parts.read_arbiter import request_layout
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer as Core
from seedbed.sim.cases.zo_trainer import job, schedule_payloads
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.training_job import Bench, Phase, Probes
from seedbed.sim.payloads import image_beats, pack, unpack
from seedbed.spec.zo_trainer import ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["Done", "Job", "executable", "run"]

#: Readers of the parameter memory whose reads are counted, by their ports of its arbiter.
READERS = {"pass": "steps", "update": "update_reads"}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training: load weights, train, read weights out, and classify other images.

    Parameters
    ----------
    config
        Of the core.
    weights, exponents
        To start from, as :class:`~seedbed.golden.zo_trainer.ZoTrainer` takes them.
    images, labels
        Bytes (samples, C, H, W) and classes, of all images.
    order
        The samples of each epoch, by their places in ``images``: (epochs, samples).
    batch
        Samples between two updates.
    seed
        Of the first batch's perturbation.
    schedule
        Entries (epoch, magnitude, zeros, update bits of a tail), the first of epoch 0.
    classified
        Images that are classified after the training, by their places in ``images``.
    """

    config: ZoTrainerConfig
    weights: Mapping[str, np.ndarray]
    exponents: Mapping[str, int]
    images: np.ndarray
    labels: np.ndarray
    order: np.ndarray
    batch: int
    seed: int
    schedule: Sequence[tuple[int, int, int, int]]
    classified: np.ndarray

    def model(self) -> ZoTrainer:
        """Return the model with the first weights."""
        return ZoTrainer(self.config, self.weights, self.exponents)

    def batches(self) -> Iterator[tuple[np.ndarray, dict[str, int]]]:
        """Yield of each step the samples' places, and seed, magnitude, zeros and update bits."""
        seed = self.seed
        for epoch, samples in enumerate(self.order):
            _, *phase = [entry for entry in self.schedule if entry[0] <= epoch][-1]
            fields = dict(zip(("magnitude", "zeros", "update_bits"), phase, strict=True))
            for at in range(0, len(samples), self.batch):
                yield samples[at : at + self.batch], {"seed": seed & 0xFFFFFFFF, **fields}
                seed += 1

    def steps(self, model: ZoTrainer) -> Iterator[tuple[np.ndarray, LogEntry]]:
        """Train a model; yield of each step the classes of the second pass, and the entry."""
        for places, fields in self.batches():
            yield model.step(self.images[places], self.labels[places], **fields)


@dataclass(frozen=True, kw_only=True)
class Done:
    """Results of a job that is bit-exact with the model, and what was counted.

    Parameters
    ----------
    cycles
        By phase: ``load``, ``train``, ``read``, ``infer``.
    when
        The cycle of each class, from the phase's first: of the samples trained on, and classified.
    log
        An entry for each step.
    model
        The model with the weights that were read out.
    correct
        Of the images classified, which ones had their labels.
    reads
        Of each row of the parameter memory in the training, by passes and by updates.
    writes
        Of each row of each of the memories side by side in the training: (memories, rows).
    seconds
        Of the simulation, by the clock.
    """

    cycles: dict[str, int]
    when: dict[str, np.ndarray]
    log: list[LogEntry]
    model: ZoTrainer
    correct: np.ndarray
    reads: dict[str, np.ndarray]
    writes: np.ndarray
    seconds: float


def _memories(config: ZoTrainerConfig) -> int:
    """Return how many memories side by side have the parameters: two numbers of a row each."""
    return config.ways * config.lanes // 2


def _bench(top: str, config: ZoTrainerConfig) -> Bench:
    """Return the testbench of a core, which counts the accesses to its parameter memory."""
    pipeline = f"top.rootp->{top}_packed__DOT__core__DOT__pipeline__DOT__"
    row = request_layout(row_address(config.engine))["row"]
    signals = []
    for port in READERS.values():
        signal = f"{pipeline}row_arbiter__DOT__{port}"
        signals.append((f"{signal} & 1", f"{signal} >> {row.offset} & {(1 << row.width) - 1}"))
    memory = f"{pipeline}memory__DOT__"
    signals += [(f"{memory}writes_{k}", f"{memory}write_row") for k in range(_memories(config))]
    visible = [(f"{top}_pipeline_row_arbiter", port) for port in READERS.values()]
    visible += [(f"{top}_pipeline_memory", name) for name in ("writes_*", "write_row")]
    return Bench(Core(config), Probes(signals=signals, rows=1 << row.width, visible=visible))


def executable(verilog: Path, top: str, config: ZoTrainerConfig, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    return _bench(top, config).executable(verilog, top, build=build)


def _samples(config: ZoTrainerConfig, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the beats of images as words: (images, beats, words)."""
    pixels = image_beats(images, config.ways)
    count, beats, _ = pixels.shape
    found = pack(
        sample_layout(config),
        count * beats,
        pixels=pixels,
        label=np.repeat(labels, beats),
        last=np.arange(count * beats) % beats == beats - 1,
    )
    return found.reshape(count, beats, -1)


def _phases(bench: Bench, of: Job) -> dict[str, tuple[dict[str, np.ndarray], dict[str, int]]]:
    """Return payloads for inputs, and how many come from outputs, by phase."""
    config, model = of.config, of.model()
    beats = _samples(config, of.images, of.labels)
    pairs = model.words()
    last = np.arange(len(pairs)) == len(pairs) - 1
    words = pack(words_layout(config.engine), len(pairs), word=pairs, last=last)
    schedule = bench.given("i_schedule", schedule_payloads(config, list(of.schedule)))
    epochs, samples = of.order.shape
    fields = {"samples": samples, "epochs": epochs, "batch": of.batch, "seed": of.seed}
    train = job(config, "train", **fields, exponent=model.exponent)
    count = len(of.classified)
    infer = job(config, "infer", samples=count, epochs=1, exponent=model.exponent)

    def command(given: int, which: np.ndarray | None = None) -> dict[str, np.ndarray]:
        images = {} if which is None else {"i_samples": np.concatenate(beats[which])}
        return {"i": bench.given("i", [given])} | images

    steps = sum(1 for _ in of.batches())
    return {
        "load": ({"i_parameters": words}, {}),
        "schedule": ({"i_schedule": schedule}, {}),
        "train": (
            command(train, of.order.ravel()),
            {"o": of.order.size, "o_log": steps, "o_status": 1},
        ),
        "read": (command(job(config, "read")), {"o_parameters": len(pairs), "o_status": 1}),
        "infer": (command(infer, of.classified), {"o": count, "o_status": 1}),
    }


def run(
    bench: Path,
    job: Job,
    *,
    seed: int,
    pauses: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Done:
    """Run a job, and check classes, signs and weights against the model, bit for bit.

    Parameters
    ----------
    bench
        What :func:`executable` built.
    seed
        Of the pauses.
    pauses
        Of 16 cycles, in so many every port pauses, at random; 0 is as fast as the core is.
    progress
        Called with the share that is done, a few times a second.

    Raises :class:`Mismatch` with the first step that differs, or where nothing is transferred for
    long. An interruption ends the simulation too.
    """
    # The names of signals are those of the executable.
    parts = _bench("", job.config)
    one = pass_cycles(job.config.engine, *job.config.engine.plan.base)
    total = (2 * job.order.size + len(job.classified)) * (one + 100)
    total += 2 * job.config.parameter_beats * 16 // (16 - pauses)
    found, seconds = parts.run(
        bench, [seed, pauses], _phases(parts, job), cycles=total, progress=progress
    )
    return _checked(job, found, seconds)


def _checked(job: Job, found: dict[str, Phase], seconds: float) -> Done:
    """Return the results; raise :class:`Mismatch` where anything differs from the model."""
    config, model = job.config, job.model()
    for name in ("train", "read", "infer"):
        status = int(found[name].field("o_status", "status")[0])
        if status:
            raise Mismatch(f"{name} ended with the status {ZO_TRAINER_STATUS[status]!r}, not 'ok'")
    train = found["train"]
    classes = _classes(train)
    logged = zip(*(train.field("o_log", name) for name in ("seed", "sign")), strict=True)
    log: list[LogEntry] = []
    at = 0
    for step, (best, entry) in enumerate(job.steps(model)):
        wrong = np.flatnonzero(classes[at : at + len(best)] != best)
        if len(wrong):
            raise Mismatch(
                f"step {step}: sample {wrong[0]} is of class {classes[at + wrong[0]]}, and in the "
                f"model of class {best[wrong[0]]}"
            )
        came = tuple(map(int, next(logged)))
        if came != (entry.seed, entry.sign):
            raise Mismatch(
                f"step {step}: seed and sign are {came}, and in the model "
                f"{(entry.seed, entry.sign)}"
            )
        log.append(entry)
        at += len(best)
    read = unpack(words_layout(config.engine), found["read"].found["o_parameters"][:, 1:], "word")
    different = int((read != model.words()).sum())
    if different:
        raise Mismatch(f"{different} of {read.size} weights are not the model's after the training")
    wanted = model.infer(job.images[job.classified])
    wrong = np.flatnonzero(_classes(found["infer"]) != wanted)
    if len(wrong):
        raise Mismatch(f"image {wrong[0]}, after the training, is not of the model's class")
    rows = config.engine.plan.frozen_rows
    return Done(
        cycles={name: phase.cycles for name, phase in found.items() if name != "schedule"},
        when={name: found[name].found["o"][:, 0] for name in ("train", "infer")},
        log=log,
        model=model,
        correct=wanted == job.labels[job.classified],
        reads={name: train.counts[k, :rows] for k, name in enumerate(READERS)},
        writes=train.counts[len(READERS) :, :rows],
        seconds=seconds,
    )


def _classes(phase: Phase) -> np.ndarray:
    """Return the classes of samples, of which none may have an error."""
    errors = np.flatnonzero(phase.field("o", "error"))
    if len(errors):
        raise Mismatch(f"sample {errors[0]} does not count")
    return phase.field("o", "best")
