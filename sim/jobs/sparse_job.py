# amaranth: UnusedElaboratable=no
"""Whole jobs of the trainer of kept weights on the emitted Verilog, checked against the model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.golden.sparse_trainer import LogEntry, Parameters, SparseTrainer
from seedbed.hw.kept.sample_banks import sample_layout
from seedbed.hw.kept.sparse_trainer import SparseTrainer as Core
from seedbed.sim.cases.sparse_trainer import entry_payloads, job, row_payloads
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.training_job import Bench, Phase, Probes, words
from seedbed.sim.payloads import pack
from seedbed.spec import DenseLayer, SparseTrainerConfig
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_STATUS

__all__ = ["Done", "Job", "Memory", "executable", "run"]


@dataclass(frozen=True, kw_only=True)
class Memory:
    """How the memory behaves.

    Parameters
    ----------
    latency
        The least and the most cycles to the first beat of a burst, drawn for each.
    gaps
        Of 16 cycles, in so many it gives no beat, at random.
    """

    latency: tuple[int, int] = (20, 60)
    gaps: int = 0


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
    widths = {"BEAT_BITS": config.beat_bits, "ADDRESS_BITS": config.address_bits}
    return Bench(Core(config), probes, widths | {"PAGE": config.page})


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


def _phases(bench: Bench, of: Job) -> dict[str, tuple[dict[str, np.ndarray], dict[str, int]]]:
    """Return payloads for inputs, and how many come from outputs, by phase."""
    config, model = of.config, of.model()
    beats = _samples(config, of.x, of.labels)
    entries = [model.entries(k) for k in range(len(of.layers))]
    loaded = [payload for part in entries for payload in entry_payloads(config, part)]
    epochs, samples = of.order.shape
    fields = {"samples": samples, "epochs": epochs, "batch": of.batch, "seed": of.seed}
    fields |= {"rate": of.rate, "decay": of.decay, "shift": of.shift}

    def command(kind: str, which: np.ndarray | None = None, **fields: int) -> dict[str, np.ndarray]:
        samples = {} if which is None else {"i_samples": np.concatenate(beats[which])}
        return {"i": bench.given("i", [job(config, kind, **fields)])} | samples

    count = len(of.classified)
    infer = command("infer", of.classified, samples=count, epochs=1)
    classes = {"o": count, "o_status": 1}
    return {
        "table": ({"i_layers": bench.given("i_layers", row_payloads(config, of.layers))}, {}),
        "load": (
            command("load") | {"i_entries": bench.given("i_entries", loaded)},
            {"o_status": 1},
        ),
        "before": (infer, classes),
        "train": (
            command("train", of.order.ravel(), **fields),
            {"o": of.order.size, "o_log": of.steps, "o_status": 1},
        ),
        "read": (command("read"), {"o_entries": len(loaded), "o_status": 1}),
        "after": (infer, classes),
    }


def _head(of: Job, memory: Memory, seed: int, pauses: int) -> np.ndarray:
    """Return the words before the phases: how the memory behaves, and its contents."""
    cells = of.model().beats()
    contents = words([cells.get(k, 0) for k in range(max(cells) + 1)], of.config.beat_bits).ravel()
    numbers = [seed, pauses, *memory.latency, memory.gaps, len(contents)]
    return np.concatenate([np.array(numbers, "<u4"), contents])


def run(
    bench: Path,
    of: Job,
    *,
    seed: int,
    pauses: int = 0,
    memory: Memory = Memory(),
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
        Of 16 cycles, in so many every port but the memory's pauses; 0 is as fast as the core is.
    progress
        Called with the share that is done, a few times a second.

    Raises :class:`Mismatch` with the first step that differs, or where nothing is transferred for
    long. An interruption ends the simulation too.
    """
    # The names of signals are those of the executable.
    parts = _bench("", of.config)
    one = sum(of.config.layer_beats(layer) + layer.columns + 100 for layer in of.layers)
    found, seconds = parts.run(
        bench, _head(of, memory, seed, pauses), _phases(parts, of),
        cycles=2 * (of.order.size + len(of.classified)) * one, progress=progress,
    )  # fmt: skip
    return _checked(of, found, seconds)


def _checked(of: Job, found: dict[str, Phase], seconds: float) -> Done:
    """Return the results; raise :class:`Mismatch` where anything differs from the model."""
    model, train = of.model(), found["train"]
    for name in ("load", "before", "train", "read", "after"):
        status = int(found[name].field("o_status", "status")[0])
        if status:
            raise Mismatch(f"{name} ended with the status {SPARSE_TRAINER_STATUS[status]!r}")
    correct = {"before": _classified(of, model, found["before"])}
    came = np.column_stack([train.field("o", name) for name in ("best", "loss", "error")])
    logged = np.column_stack([train.field("o_log", name) for name in ("seed", "gain")])
    log: list[LogEntry] = []
    at = 0
    for step, (classes, losses, entry) in enumerate(of.train(model)):
        stop = at + len(classes)
        wanted = np.column_stack([classes, losses, np.zeros_like(classes)])
        wrong = np.flatnonzero((came[at:stop] != wanted).any(axis=1))
        if len(wrong):
            raise Mismatch(
                f"step {step}: sample {wrong[0]} has class, loss and error "
                f"{came[at + wrong[0]].tolist()}, and in the model {wanted[wrong[0]].tolist()}"
            )
        if logged[step].tolist() != [entry.seed, entry.gain]:
            raise Mismatch(
                f"step {step}: seed and gain are {logged[step].tolist()}, and in the model "
                f"{[entry.seed, entry.gain]}"
            )
        log.append(entry)
        at = stop
    names = ("row", "column", "value")
    read = np.column_stack([found["read"].field("o_entries", name) for name in names])
    wanted = np.concatenate([model.entries(k) for k in range(len(of.layers))])
    different = int((read != wanted).any(axis=1).sum())
    if different:
        raise Mismatch(f"{different} of {len(read)} entries are not the model's after the training")
    correct["after"] = _classified(of, model, found["after"])
    count = len(wanted)
    return Done(
        cycles={name: phase.cycles for name, phase in found.items() if name != "table"},
        beats={name: phase.beats for name, phase in found.items() if name != "table"},
        when={name: found[name].found["o"][:, 0] for name in ("before", "train")},
        log=log,
        saturated=int(train.field("o_status", "saturated")[0]),
        model=model,
        correct=correct,
        reads={"pass": train.counts[0, :count], "update": train.counts[1, :count]},
        writes=train.counts[2, :count],
        seconds=seconds,
    )


def _classified(of: Job, model: SparseTrainer, phase: Phase) -> np.ndarray:
    """Return which samples had their labels; classes and losses must be the model's."""
    labels = of.labels[of.classified]
    classes, losses = model.losses(of.x[of.classified], labels)
    wrong = np.flatnonzero(
        (phase.field("o", "best") != classes) | (phase.field("o", "loss") != losses)
    )
    if len(wrong):
        raise Mismatch(f"class or loss of the classified sample {wrong[0]} are not the model's")
    return classes == labels
