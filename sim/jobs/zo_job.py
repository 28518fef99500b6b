# amaranth: UnusedElaboratable=no
"""Whole jobs of zeroth-order training on the emitted Verilog, checked against the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.hw.engine.parameter_loader import words_layout
from seedbed.hw.engine.pipeline_ports import row_address
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.parts.read_arbiter import request_layout
from seedbed.hw.zeroth_order.zo_control import job_layout, status_layout
from seedbed.hw.zeroth_order.zo_schedule import entry_layout
from seedbed.hw.zeroth_order.zo_steps import class_layout, log_layout
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer as Core
from seedbed.sim.cases.zo_trainer import (
    class_payloads,
    job,
    log_payload,
    schedule_payloads,
    status,
    word_payloads,
)
from seedbed.sim.job import Act, Difference, Epoch, check, every_epoch
from seedbed.sim.payloads import image_beats, pack, words
from seedbed.sim.verilog.cosim import Bench, Cosim, Probes
from seedbed.spec.zo_trainer import ZO_TRAINER_STATUS, ZoTrainerConfig

__all__ = ["Done", "Job", "executable", "run"]

#: What an act sends and gives, and the sentences for differences.
_Parts = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Callable[[Difference], str]]]

#: Readers of the parameter memory whose reads are counted, by their ports of its arbiter.
READERS = {"pass": "steps", "update": "update_reads"}
#: Cycles between acts: what is still in registers is written before the next act counts.
SETTLE = 16


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

    def acts(
        self,
        names: Sequence[str],
        shown: Callable[[np.ndarray], np.ndarray],
        *,
        epoch: Epoch = every_epoch,
    ) -> tuple[list[Act], list[LogEntry], ZoTrainer]:
        """Return acts by their names, and the log and the weights that the model ends with.

        ``load`` and ``schedule`` send weights and schedule; ``train``, ``read`` and ``infer`` are
        commands, and ``before`` is an ``infer`` before the training. ``shown`` returns the payloads
        of samples, which are given by their places. ``epoch`` trains the model for an epoch, or
        returns what an earlier call has left.
        """
        config, model = self.config, self.model()
        log: list[LogEntry] = []
        found = []
        for name in names:
            sent: dict[str, np.ndarray] = {}
            came: dict[str, np.ndarray] = {}
            messages: dict[str, Callable[[Difference], str]] = {}
            if name == "load":
                sent["i_parameters"] = _parameters(model)
            elif name == "schedule":
                entries = schedule_payloads(config, list(self.schedule))
                sent["i_schedule"] = words(entries, entry_layout(config))
            elif name == "train":
                sent, came, messages = self._train(model, log, epoch)
                sent["i_samples"] = shown(self.order.ravel())
            elif name == "read":
                sent, came = {"i": self._command("read")}, {"o_parameters": _parameters(model)}
                messages = {"o_parameters": _unequal}
            else:
                count = len(self.classified)
                command = self._command("infer", samples=count, epochs=1, exponent=model.exponent)
                sent = {"i": command, "i_samples": shown(self.classified)}
                came = {"o": _classes(config, model.infer(self.images[self.classified]))}
                messages = {"o": partial(_misclassified, name)}
            if "i" in sent:
                kind = "infer" if name == "before" else name
                steps = len(log) if name == "train" else 0
                came = {"o_status": words([status(kind, steps=steps)], status_layout()), **came}
                messages["o_status"] = partial(_failed, name)
            found.append(Act(name=name, inputs=sent, outputs=came, messages=messages))
        return found, log, model

    def _command(self, kind: str, **fields: int) -> np.ndarray:
        return words([job(self.config, kind, **fields)], job_layout(self.config))

    def _train(self, model: ZoTrainer, log: list[LogEntry], epoch: Epoch) -> _Parts:
        """Train the model; return what the core is sent but for the samples, and gives."""
        config = self.config
        epochs, samples = self.order.shape
        fields = {"samples": samples, "epochs": epochs, "batch": self.batch, "seed": self.seed}
        command = self._command("train", **fields, exponent=model.exponent)
        steps = list(self.batches())
        places = [(number, k) for number, (which, _) in enumerate(steps) for k in range(len(which))]
        each, classes = len(steps) // epochs, []
        model.begin()
        for number in range(epochs):
            found = epoch(number, partial(self._epoch, model, steps[number * each :][:each]))
            model.rows = found["rows"]
            if config.levels > 1:
                model.average = int(found["average"])
            classes.append(found["best"])
            log += [LogEntry(*entry) for entry in found["log"].tolist()]

        def sample(of: Difference) -> str:
            (best, error), (wanted, _) = of.fields("best", "error")
            if error:
                return f"sample {of.at} does not count"
            number, k = places[of.at]
            return (
                f"step {number}: sample {k} is of class {best}, and in the model of class {wanted}"
            )

        def step(of: Difference) -> str:
            came, wanted = map(tuple, of.fields("seed", "sign"))
            return f"step {of.at}: seed and sign are {came}, and in the model {wanted}"

        logged = words([log_payload(config, entry) for entry in log], log_layout(config))
        given = {"o": _classes(config, np.concatenate(classes)), "o_log": logged}
        return {"i": command}, given, {"o": sample, "o_log": step}

    def _epoch(
        self, model: ZoTrainer, steps: Sequence[tuple[np.ndarray, dict[str, int]]]
    ) -> dict[str, np.ndarray]:
        """Train the model for an epoch; return the classes, the log's entries, and its rows."""
        found = [
            model.step(self.images[which], self.labels[which], **fields) for which, fields in steps
        ]
        average = {} if model.average is None else {"average": np.array(model.average)}
        return average | {
            "best": np.concatenate([best for best, _ in found]),
            "log": np.array([astuple(entry) for _, entry in found]),
            "rows": model.rows,
        }


def _parameters(model: ZoTrainer) -> np.ndarray:
    """Return a packet of the model's weights."""
    config = model.config
    return words(word_payloads(config, model.words()), words_layout(config.engine))


def _classes(config: ZoTrainerConfig, classes: np.ndarray) -> np.ndarray:
    """Return the results of samples."""
    return words(class_payloads(config, classes), class_layout(config))


def _unequal(of: Difference) -> str:
    read, wanted = of.found("word"), of.wanted("word")
    different = int((read != wanted).sum())
    return f"{different} of {read.size} weights are not the model's after the training"


def _misclassified(name: str, of: Difference) -> str:
    when = "before" if name == "before" else "after"
    return f"image {of.at}, {when} the training, is not of the model's class"


def _failed(name: str, of: Difference) -> str:
    (status, *found), (_, *wanted) = of.fields("status", "kind", "steps")
    if status:
        return f"{name} ended with the status {ZO_TRAINER_STATUS[status]!r}, not 'ok'"
    return f"{name} ended with kind and steps {found}, not {wanted}"


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
    probes = Probes(signals=signals, rows=1 << row.width, visible=visible)
    return Bench(Core(config).signature, probes=probes)


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


def run(
    bench: Path,
    job: Job,
    *,
    seed: int,
    pauses: int = 0,
    epoch: Epoch = every_epoch,
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
    epoch
        Trains the model for an epoch, see :meth:`Job.acts`.
    progress
        Called with the share that is done, a few times a second.

    Raises :class:`Mismatch` with the first step that differs, or where nothing is transferred for
    long. An interruption ends the simulation too.
    """
    config = job.config
    beats = _samples(config, job.images, job.labels)
    names = ("load", "schedule", "train", "read", "infer")
    acts, log, model = job.acts(names, lambda places: np.concatenate(beats[places]), epoch=epoch)
    results = job.order.size + len(job.classified)
    # The names of signals are those of the executable.
    with Cosim(bench, _bench("", config), seed=seed, pauses=pauses) as core:
        found, seconds = core.run_all(
            acts, settle=SETTLE, progress=lambda count: progress(count / results)
        )
    check(acts, found)
    train, infer = found["train"], found["infer"]
    rows = config.engine.plan.frozen_rows
    return Done(
        cycles={name: result.cycles for name, result in found.items() if name != "schedule"},
        when={"train": train.when["o"], "infer": infer.when["o"]},
        log=log,
        model=model,
        correct=infer.field("o", "best") == job.labels[job.classified],
        reads={name: train.counts[k, :rows] for k, name in enumerate(READERS)},
        writes=train.counts[len(READERS) :, :rows],
        seconds=seconds,
    )
