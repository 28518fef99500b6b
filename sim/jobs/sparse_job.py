# amaranth: UnusedElaboratable=no
"""Whole jobs of the trainer of kept weights on the emitted Verilog, checked against the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from seedbed.golden.sparse_trainer import LogEntry, Parameters, SparseTrainer
from seedbed.hw.kept.layer_table import row_layout
from seedbed.hw.kept.sample_banks import sample_layout
from seedbed.hw.kept.sparse_trainer import SparseTrainer as Core
from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.kept.trainer_passes import class_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.cases.sparse_trainer import (
    entry_payloads,
    job,
    log_payload,
    row_payloads,
    status,
)
from seedbed.sim.job import Act, Difference, Memory, check
from seedbed.sim.payloads import pack, words
from seedbed.sim.verilog.cosim import Bench, Cosim, Probes
from seedbed.spec import DenseLayer, SparseTrainerConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_STATUS

__all__ = ["Done", "Job", "executable", "run"]

#: Cycles between acts: what is still in registers is written before the next act counts.
SETTLE = 16


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training: load layers and entries, train, read the entries, and classify other samples.

    Parameters
    ----------
    config
        Of the core.
    layers, parameters
        Of the network, as :class:`~seedbed.golden.sparse_trainer.SparseTrainer` takes them.
    x, labels
        Samples (samples, columns) and their classes.
    order
        The samples of each epoch, by their places: (epochs, samples).
    batch, seed, rate, decay, shift
        See :class:`~seedbed.hw.kept.sparse_trainer.SparseTrainer`.
    classified
        Samples that are classified before and after the training, by their places.
    """

    config: SparseTrainerConfig
    layers: Sequence[DenseLayer]
    parameters: Sequence[Parameters]
    x: np.ndarray
    labels: np.ndarray
    order: np.ndarray
    batch: int
    seed: int
    rate: int
    decay: int
    shift: int
    classified: np.ndarray

    def model(self) -> SparseTrainer:
        """Return the model with the first values."""
        return SparseTrainer(self.config, self.layers, self.parameters)

    @property
    def steps(self) -> int:
        """Steps of the training."""
        return len(self.order) * -(-self.order.shape[1] // self.batch)

    def train(self, model: SparseTrainer) -> Iterator[tuple[np.ndarray, np.ndarray, LogEntry]]:
        """Train a model; yield classes and losses of each step, and its entry of the log."""
        batches = [
            [
                (self.x[places[k : k + self.batch]], self.labels[places[k : k + self.batch]])
                for k in range(0, len(places), self.batch)
            ]
            for places in self.order
        ]
        yield from model.train(
            batches, seed=self.seed, rate=self.rate, decay=self.decay, shift=self.shift
        )


@dataclass(frozen=True, kw_only=True)
class Done:
    """Results of a job that is bit-exact with the model, and what was counted.

    Parameters
    ----------
    cycles, beats
        Cycles, and beats of memory, by phase: ``load``, ``before``, ``train``, ``read``, ``after``.
    when
        The cycle of each result of ``before`` and ``train``, from the phase's first.
    log
        An entry for each step.
    saturated
        Gains that saturated.
    model
        The model with the values that were read out.
    correct
        Of the samples classified ``before`` and ``after``, which ones had their labels.
    reads
        Of each value in the training: by ``pass`` and by ``update``.
    writes
        Of each value in the training.
    seconds
        Of the simulation.
    """

    cycles: dict[str, int]
    beats: dict[str, int]
    when: dict[str, np.ndarray]
    log: list[LogEntry]
    saturated: int
    model: SparseTrainer
    correct: dict[str, np.ndarray]
    reads: dict[str, np.ndarray]
    writes: np.ndarray
    seconds: float


def _bench(top: str, config: SparseTrainerConfig) -> Bench:
    """Return the testbench of a core, which counts the accesses to its memory of entries."""
    root = f"top.rootp->{top}_packed__DOT__core__DOT__"
    entries = f"{root}passes__DOT__engine__DOT__sparse__DOT__entries__DOT__"
    updates = f"{root}control__DOT__pass_kind == {SPARSE_MAC_KINDS.index('update')}"
    read = f"{entries}issue && {entries}ce && !{entries}streamed"
    signals = [
        (f"{read} && !({updates})", f"{entries}address"),
        (f"{read} && {updates}", f"{entries}address"),
        (f"{entries}write", f"{entries}write_address"),
    ]
    module = f"{top}_passes_engine_sparse_entries"
    names = ("issue", "ce", "streamed", "address", "write", "write_address")
    visible = [*((module, name) for name in names), (f"{top}_control", "pass_kind")]
    probes = Probes(signals=signals, rows=config.entries, visible=visible)
    return Bench(Core(config).signature, probes=probes, page=config.page)


def executable(verilog: Path, top: str, config: SparseTrainerConfig, *, build: Path) -> Path:
    """Build the core in ``verilog``; see :func:`seedbed.sim.verilog.cpp_bench.executable`."""
    return _bench(top, config).executable(verilog, top, build=build)


def _samples(config: SparseTrainerConfig, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the beats of samples as words: (samples, beats, words)."""
    group = config.gemv.group
    beats = -(-x.shape[1] // group)
    lanes = np.zeros((len(x), beats * group), np.int64)
    lanes[:, : x.shape[1]] = x
    count = len(x) * beats
    found = pack(
        sample_layout(config),
        count,
        lanes=lanes.reshape(count, group),
        label=np.repeat(labels, beats),
        last=np.arange(count) % beats == beats - 1,
    )
    return found.reshape(len(x), beats, -1)


def _command(config: SparseTrainerConfig, kind: str, **fields: int) -> np.ndarray:
    return words([job(config, kind, **fields)], job_layout(config))


def _ended(kind: str, *, steps: int = 0, saturated: int = 0) -> np.ndarray:
    return words([status(kind, steps=steps, saturated=saturated)], status_layout())


def _results(config: SparseTrainerConfig, classes: np.ndarray, losses: np.ndarray) -> np.ndarray:
    return pack(class_layout(config), len(classes), best=classes, loss=losses)


def _read(model: SparseTrainer) -> np.ndarray:
    """Return the entries as they are read."""
    config = model.config
    parts = [
        words(
            entry_payloads(config, model.entries(k), last=True), entry_layout(config.sparse, last=1)
        )
        for k in range(len(model.layers))
    ]
    return np.concatenate(parts)


def acts(of: Job) -> tuple[list[Act], list[LogEntry], SparseTrainer]:
    """Return the acts, and the log and the values that the model ends with."""
    config, model = of.config, of.model()
    beats = _samples(config, of.x, of.labels)
    entries = [
        payload
        for k in range(len(of.layers))
        for payload in entry_payloads(config, model.entries(k))
    ]

    def classified(name: str) -> Act:
        count = len(of.classified)
        found = model.losses(of.x[of.classified], of.labels[of.classified])
        return Act(
            name=name,
            inputs={
                "i": _command(config, "infer", samples=count, epochs=1),
                "i_samples": np.concatenate(beats[of.classified]),
            },
            outputs={"o_status": _ended("infer"), "o": _results(config, *found)},
            messages={"o_status": partial(_failed, name), "o": _misclassified},
        )

    table = Act(
        name="table",
        inputs={"i_layers": words(row_payloads(config, of.layers), row_layout(config))},
    )
    load = Act(
        name="load",
        inputs={
            "i": _command(config, "load"),
            "i_entries": words(entries, entry_layout(config.sparse)),
        },
        outputs={"o_status": _ended("load")},
        messages={"o_status": partial(_failed, "load")},
    )
    before = classified("before")
    train, log = _train(of, model, np.concatenate(beats[of.order.ravel()]))
    read = Act(
        name="read",
        inputs={"i": _command(config, "read")},
        outputs={"o_status": _ended("read"), "o_entries": _read(model)},
        messages={"o_status": partial(_failed, "read"), "o_entries": _unequal},
    )
    return [table, load, before, train, read, classified("after")], log, model


def _train(of: Job, model: SparseTrainer, samples: np.ndarray) -> tuple[Act, list[LogEntry]]:
    """Train the model; return the act of a core that does the same, and the log."""
    config, top = of.config, 1 << of.config.gain_width - 1
    steps = list(of.train(model))
    log = [entry for *_, entry in steps]
    places = [(step, k) for step, (classes, *_) in enumerate(steps) for k in range(len(classes))]

    def sample(at: Difference) -> str:
        came, wanted = at.fields("best", "loss", "error")
        step, k = places[at.at]
        return (
            f"step {step}: sample {k} has class, loss and error {came}, and in the model {wanted}"
        )

    def logged(at: Difference) -> str:
        came, wanted = at.fields("seed", "gain")
        return f"step {at.at}: seed and gain are {came}, and in the model {wanted}"

    epochs, count = of.order.shape
    fields = {"samples": count, "epochs": epochs, "batch": of.batch, "seed": of.seed}
    fields |= {"rate": of.rate, "decay": of.decay, "shift": of.shift}
    saturated = sum(entry.gain in (-top, top - 1) for entry in log)
    classes, losses = (np.concatenate([step[k] for step in steps]) for k in range(2))
    act = Act(
        name="train",
        inputs={"i": _command(config, "train", **fields), "i_samples": samples},
        outputs={
            "o": _results(config, classes, losses),
            "o_log": words([log_payload(config, entry) for entry in log], log_layout(config)),
            "o_status": _ended("train", steps=len(log), saturated=saturated),
        },
        messages={"o": sample, "o_log": logged, "o_status": partial(_failed, "train")},
    )
    return act, log


def _failed(name: str, at: Difference) -> str:
    (status, *found), (_, *wanted) = at.fields("status", "kind", "steps", "saturated")
    if status:
        return f"{name} ended with the status {SPARSE_TRAINER_STATUS[status]!r}"
    return f"{name} ended with kind, steps and saturated gains {found}, not {wanted}"


def _unequal(at: Difference) -> str:
    names = ("row", "column", "value")
    both = ([of(name) for name in names] for of in (at.found, at.wanted))
    found, wanted = map(np.column_stack, both)
    different = int((found != wanted).any(axis=1).sum())
    return f"{different} of {len(found)} entries are not the model's after the training"


def _misclassified(at: Difference) -> str:
    return f"class or loss of the classified sample {at.at} are not the model's"


def run(
    bench: Path,
    of: Job,
    *,
    seed: int,
    pauses: int = 0,
    memory: Memory | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Done:
    """Run a job, and check results, log and values against the model, bit for bit.

    Parameters
    ----------
    bench
        What :func:`executable` built.
    seed
        Of the pauses, and of the memory's latencies and gaps.
    pauses
        Of 16 cycles, in so many every port pauses; 0 is as fast as the core is.
    progress
        Called with the share that is done, a few times a second.

    Raises :class:`Mismatch` with the first step that differs, or where nothing is transferred for
    long. An interruption ends the simulation too.
    """
    plan, log, model = acts(of)
    cells = of.model().beats()
    contents = words([cells.get(k, 0) for k in range(max(cells) + 1)], of.config.beat_bits)
    results = of.order.size + 2 * len(of.classified)
    # The names of signals are those of the executable.
    with Cosim(bench, _bench("", of.config), seed=seed, pauses=pauses) as core:
        core.fill(memory or Memory(), len(contents), contents)
        found, seconds = core.run_all(
            plan, settle=SETTLE, progress=lambda count: progress(count / results)
        )
    check(plan, found)
    train, labels = found["train"], of.labels[of.classified]
    count = sum(layer.entries for layer in of.layers)
    return Done(
        cycles={name: result.cycles for name, result in found.items() if name != "table"},
        beats={name: result.beats for name, result in found.items() if name != "table"},
        when={name: found[name].when["o"] for name in ("before", "train")},
        log=log,
        saturated=int(train.field("o_status", "saturated")[0]),
        model=model,
        correct={name: found[name].field("o", "best") == labels for name in ("before", "after")},
        reads={"pass": train.counts[0, :count], "update": train.counts[1, :count]},
        writes=train.counts[2, :count],
        seconds=seconds,
    )
