"""Case of the trainer of kept weights: refused tables and commands, loads, jobs, read-outs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from random import Random

import numpy as np

from seedbed.golden import trellis
from seedbed.golden.sparse_trainer import LogEntry, Parameters, SparseTrainer
from seedbed.hw.kept.layer_table import row_layout
from seedbed.hw.kept.sample_banks import sample_layout
from seedbed.hw.kept.sparse_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.kept.trainer_passes import class_layout
from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.hw.products.sparse_layouts import entry_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.payloads import integers, pack
from seedbed.spec import DenseLayer, SparseTrainerConfig
from seedbed.spec.gemv import MANTISSA_BITS
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS

__all__ = [
    "case",
    "drawn",
    "entry_payloads",
    "faults",
    "job",
    "load",
    "log_payload",
    "read_out",
    "reads",
    "refused",
    "row_payloads",
    "sample_payloads",
    "status",
    "training",
]


def drawn(
    config: SparseTrainerConfig, rng: np.random.Generator, sizes: Sequence[int], *, kept: int = 5
) -> SparseTrainer:
    """Return a model with random weights; every other layer is plain, if it may be.

    The shifts are such that outputs saturate now and then.
    """
    layers, parameters, address = [], [], int(rng.integers(config.page))
    for k, (columns, rows) in enumerate(pairwise(sizes)):
        code = config.gemv.trellis
        plain, last = bool(k % 2) and not code, k == len(sizes) - 2
        if plain:
            half = 1 << (config.plain_width - 1)
            base = rng.integers(-half, half, (rows, columns))
            bits = config.plain_width - 1
        elif code:
            symbols = rng.integers(0, 1 << code.bits, (rows, columns))
            scales = rng.integers(0, 1 << MANTISSA_BITS, rows), rng.integers(-8, 8, rows)
            base = trellis.pack(code, symbols, *scales)
            bits = code.width + MANTISSA_BITS + 8
        else:
            shape = rows, -(-columns // config.block)
            base = rng.integers(0, 1 << config.block_bits, shape, np.uint64)
            bits = config.sum_width + 8
        places = np.sort(rng.choice(rows * columns, min(kept, rows * columns), replace=False))
        half = 1 << (config.value_width - 1)
        values = rng.integers(-half, half, len(places))
        values[::3] = half - 1
        target = config.logits.fraction + 1 if last else config.activation_width - 2
        into = config.activation_width - 1
        layer = DenseLayer(
            columns=columns,
            rows=rows,
            address=address,
            plain=plain,
            relu=not last,
            bias_shift=int(rng.integers(4)),
            shift=max(0, bits + into + 1 - target),
            entries=len(places),
            sparse_shift=min(config.most_shift, max(0, bits - config.value_width + 1)),
            update_shift=int(rng.integers(config.most_shift + 1)),
            scale=int(rng.integers(3)),
        )
        half = 1 << 31
        layers.append(layer)
        parameters.append(
            Parameters(
                base,
                rng.integers(-half, half, rows) >> rng.integers(0, 20, rows),
                np.column_stack([places // columns, places % columns, values]),
            )
        )
        address += config.layer_beats(layer) + int(rng.integers(3))
    return SparseTrainer(config, layers, parameters)


def row_payloads(config: SparseTrainerConfig, layers: Sequence[DenseLayer]) -> list[int]:
    """Return a table of layers."""
    layout = row_layout(config)
    names = [name for name, _ in layout if name != "last"]
    return [
        layout.const(
            {name: int(getattr(layer, name)) for name in names} | {"last": k == len(layers) - 1}
        ).as_bits()
        for k, layer in enumerate(layers)
    ]


def entry_payloads(
    config: SparseTrainerConfig, entries: np.ndarray, *, last: bool = False
) -> list[int]:
    """Return entries of a layer; with ``last`` as they are read."""
    layout = entry_layout(config.sparse, **({"last": 1} if last else {}))
    fields = dict(zip(("row", "column", "value"), entries.T, strict=True))
    if last:
        fields["last"] = np.arange(len(entries)) == len(entries) - 1
    return integers(pack(layout, len(entries), **fields))


def sample_payloads(
    config: SparseTrainerConfig, x: np.ndarray, label: int, *, beats: int = 0
) -> list[int]:
    """Return the packet of a sample; ``beats`` is how many, if wrongly."""
    group = config.gemv.group
    size = -(-len(x) // group)
    # What the last beat has after the sample is ignored.
    lanes = np.full(size * group, -(1 << config.activation_width - 1), np.int64)
    lanes[: len(x)] = x
    beats = beats or size
    lanes = np.resize(lanes, (beats, group))
    last = np.arange(beats) == beats - 1
    return integers(pack(sample_layout(config), beats, lanes=lanes, label=label, last=last))


def job(config: SparseTrainerConfig, kind: str, **fields: int) -> int:
    """Return a command."""
    return job_layout(config).const({"kind": SPARSE_TRAINER_KINDS.index(kind), **fields}).as_bits()


def status(kind: str, name: str = "ok", *, steps: int = 0, saturated: int = 0) -> int:
    """Return how a command ended."""
    codes = {
        "kind": SPARSE_TRAINER_KINDS.index(kind), "status": SPARSE_TRAINER_STATUS.index(name)
    }  # fmt: skip
    return status_layout().const({**codes, "steps": steps, "saturated": saturated}).as_bits()


def log_payload(config: SparseTrainerConfig, entry: LogEntry) -> int:
    """Return a step in the log."""
    return log_layout(config).const({"seed": entry.seed, "gain": entry.gain}).as_bits()


def class_payloads(
    config: SparseTrainerConfig, classes: np.ndarray, losses: np.ndarray, labels: np.ndarray
) -> list[int]:
    """Return the results of samples."""
    fields = {"best": classes, "loss": losses, "error": labels >= config.classes}
    return integers(pack(class_layout(config), len(classes), **fields))


def reads(model: SparseTrainer, passes: int) -> tuple[list[int], list[int], list[int]]:
    """Return commands of so many passes, the beats that answer them, and after how many commands.

    The memory answers a burst after its command.
    """
    config, cells = model.config, model.beats()
    commands: list[int] = []
    beats: list[int] = []
    after: list[int] = []
    command, read = command_layout(config.address_bits), read_layout(config.beat_bits)
    for layer in model.layers:
        place, stop = layer.address, layer.address + config.layer_beats(layer)
        while place < stop:
            size = min(stop - place, config.page - place % config.page)
            fields = {"address": place, "write": 0, "length": size - 1}
            commands.append(command.const(fields).as_bits())
            for k in range(size):
                fields = {"data": cells[place + k], "error": 0, "last": k == size - 1}
                beats.append(read.const(fields).as_bits())
                after.append(len(commands))
            place += size
    after = [n * len(commands) + k for n in range(passes) for k in after]
    return commands * passes, beats * passes, after


def _with_reads(model: SparseTrainer, passes: int, phase: Phase) -> Phase:
    commands, beats, after = reads(model, passes)
    return Phase(
        inputs=phase.inputs | {"i_read": beats},
        outputs=phase.outputs | {"o_command": commands},
        after={"i_read": {"o_command": after}},
    )


def load(model: SparseTrainer, *, table: bool = True) -> list[Phase]:
    """Return the phases that give the core the layers and the entries of a model."""
    config = model.config
    entries = [
        payload
        for k in range(len(model.layers))
        for payload in entry_payloads(config, model.entries(k))
    ]
    phase = Phase(
        inputs={"i": [job(config, "load")], "i_entries": entries},
        outputs={"o_status": [status("load")]},
    )
    rows = Phase(inputs={"i_layers": row_payloads(config, model.layers)})
    return [rows, phase] if table else [phase]


def refused(config: SparseTrainerConfig, kind: str, name: str, **fields: int) -> Phase:
    """Return the phase of a command that ends at once, with a status."""
    return Phase(
        inputs={"i": [job(config, kind, **fields)]}, outputs={"o_status": [status(kind, name)]}
    )


def faults(model: SparseTrainer) -> list[Phase]:
    """Return phases of a core without layers: tables, entries and commands that are refused.

    After them it has the layers and entries of the model, which has two layers or more.
    """
    config, layers = model.config, model.layers
    good = {"samples": 1, "epochs": 1, "batch": 1}

    def without(name: str, *kinds: str) -> list[Phase]:
        return [refused(config, kind, name, **good) for kind in kinds]

    wrong = [
        [replace(layers[0], columns=config.columns + 1)],
        [replace(layers[0], rows=config.columns + 1)],
        [layers[0], replace(layers[1], columns=layers[1].columns - 1)],
        [replace(layers[0], rows=config.classes + 1)],
        [replace(layers[1], entries=config.entries + 1)],
        [layers[0], replace(layers[1], entries=config.entries)],
        [replace(layers[1], sparse_shift=config.most_shift + 1)],
        [replace(layers[1], update_shift=config.most_shift + 1)],
        [replace(layers[1], columns=5, rows=5)] * (config.layers + 1),
    ]
    widths = {name: field.width for name, field in row_layout(config) if name != "last"}

    def fits(layer: DenseLayer) -> bool:
        """Return whether a row can say it: a limit of 2^n - 1 has no greater number."""
        return all(int(getattr(layer, name)) < 1 << width for name, width in widths.items())

    tables = [row_payloads(config, rows) for rows in wrong if all(map(fits, rows))]
    # A row without columns cannot be described by the model's layers.
    tables.append([row_payloads(config, layers[:1])[0] & ~((1 << config.row_width) - 1)])
    phases = [
        refused(config, "abort", "ok"),
        *without("layers", "train", "infer", "load", "read"),
    ]
    for rows in tables:
        phases += [Phase(inputs={"i_layers": rows}), refused(config, "load", "layers")]
    table, entries = load(model)
    phases += [table, *without("entries", "train", "infer", "read")]
    first, *others = (model.entries(k) for k in range(len(layers)))
    for name, bad in {
        "order": first[[1, 0, *range(2, len(first))]],
        "repeated": first[[0, 0, *range(2, len(first))]],
        "range": np.vstack([first[:-1], [[layers[0].rows, 0, 1]]]),
    }.items():
        sent = entry_payloads(config, np.vstack([bad, *others]))
        # After an error, entries that come before the next command are discarded.
        phases += [
            Phase(inputs={"i": [job(config, "load")]}),
            Phase(inputs={"i_entries": sent}, outputs={"o_status": [status("load", name)]}),
            *without("entries", "infer"),
        ]
    phases.append(Phase(inputs={"i": entries.inputs["i"]}))
    phases.append(Phase(inputs={"i_entries": entries.inputs["i_entries"]}, outputs=entries.outputs))
    for change in ({"samples": 0}, {"epochs": 0}, {"batch": 0}, {"batch": config.batch + 1}):
        phases.append(refused(config, "train", "command", **good | change))
    # After a command that ends well, samples may come before their command.
    return [*phases, read_out(model)]


def _samples(
    model: SparseTrainer, rng: np.random.Generator, count: int
) -> tuple[np.ndarray, np.ndarray]:
    half = 1 << (model.config.activation_width - 1)
    x = rng.integers(-half, half, (count, model.layers[0].columns))
    # Some labels are no class, if the port can say so.
    most = 1 << (model.config.classes - 1).bit_length()
    return x, rng.integers(0, most, count)


def training(
    model: SparseTrainer, rng: np.random.Generator, *, samples: int, batch: int, epochs: int = 1,
    rate: int = 1000, decay: int = 0, shift: int = 8,
) -> Phase:  # fmt: skip
    """Train the model; return the phase of a core that does the same."""
    config, seed = model.config, int(rng.integers(1 << 32))
    x, labels = _samples(model, rng, samples)
    parts = [slice(k, k + batch) for k in range(0, samples, batch)]
    batches = [[(x[part], labels[part]) for part in parts]] * epochs
    top = 1 << (config.gain_width - 1)
    results: list[int] = []
    log: list[int] = []
    sent: list[int] = []
    saturated = 0
    done = model.train(batches, seed=seed, rate=rate, decay=decay, shift=shift)
    for (classes, losses, entry), (_, names) in zip(done, chain(*batches), strict=True):
        results += class_payloads(config, classes, losses, names)
        log.append(log_payload(config, entry))
        saturated += entry.gain in (-top, top - 1)
    for _ in range(epochs):
        for vector, label in zip(x, labels, strict=True):
            sent += sample_payloads(config, vector, label)
    command = job(
        config, "train", samples=samples, epochs=epochs, batch=batch, seed=seed, rate=rate,
        decay=decay, shift=shift,
    )  # fmt: skip
    ended = status("train", steps=len(log), saturated=saturated)
    phase = Phase(
        inputs={"i": [command], "i_samples": sent},
        outputs={"o": results, "o_log": log, "o_status": [ended]},
    )
    return _with_reads(model, 2 * samples * epochs, phase)


def classified(model: SparseTrainer, rng: np.random.Generator, count: int) -> Phase:
    """Return the phase of a job that classifies random samples."""
    config = model.config
    x, labels = _samples(model, rng, count)
    classes, losses = model.losses(x, labels)
    sent = [
        payload
        for vector, label in zip(x, labels, strict=True)
        for payload in sample_payloads(config, vector, label)
    ]
    phase = Phase(
        inputs={"i": [job(config, "infer", samples=count, epochs=1)], "i_samples": sent},
        outputs={
            "o": class_payloads(config, classes, losses, labels),
            "o_status": [status("infer")],
        },
    )
    return _with_reads(model, count, phase)


def read_out(model: SparseTrainer) -> Phase:
    """Return the phase of a command that gives the entries out."""
    config = model.config
    entries = [
        payload
        for k in range(len(model.layers))
        for payload in entry_payloads(config, model.entries(k), last=True)
    ]
    return Phase(
        inputs={"i": [job(config, "read")]},
        outputs={"o_entries": entries, "o_status": [status("read")]},
    )


def _sizes(config: SparseTrainerConfig, random: Random) -> list[int]:
    """Return the widths of a network of at most three layers."""
    layers = min(config.layers, 3)
    most = min(config.columns, 20)
    inner = [random.randint(max(1, most - 6), most) for _ in range(layers)]
    return [*inner, min(config.classes, 5)]


def case(config: SparseTrainerConfig, random: Random) -> Case:
    """Return what is refused, trainings, classifications and read-outs."""
    rng = np.random.default_rng(random.getrandbits(32))
    kept = min(5, config.entries // 3)
    model = drawn(config, rng, _sizes(config, random), kept=kept)
    phases = [
        *(faults(model) if len(model.layers) > 1 else load(model)),
        classified(model, rng, 2),
        training(model, rng, samples=3, batch=2, epochs=2, rate=2000, decay=700, shift=10),
        read_out(model),
        training(model, rng, samples=1, batch=1, rate=60000, shift=1),
        classified(model, rng, 1),
        read_out(model),
    ]
    return Case(phases=phases, quiet=True, retains=True)
