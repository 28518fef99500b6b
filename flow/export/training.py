"""Export of a network with kept weights for ``stream_trainer``: program, samples, a training."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from amaranth.hdl import Shape

from seedbed.flow.cores import registry
from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.networks import read_bias
from seedbed.flow.export.request import Request
from seedbed.flow.export.tensors import Tensor
from seedbed.flow.export.trainer import network_samples, network_tensors
from seedbed.flow.importer.packed_rows import trellis_integers
from seedbed.flow.jobs.dense_program import EPS, LEARNS, MOST, as_samples, judged_network
from seedbed.flow.jobs.kept_tuning import Model
from seedbed.flow.jobs.program_core import Fitted, fitted
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.stream_engine import Integers, KeptWeights, Reals, StreamEngine
from seedbed.golden.stream_trainer import (
    Sample,
    Work,
    head_beats,
    sample_bytes,
    train,
    training,
)
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout
from seedbed.sim.cases.stream_engine import limits
from seedbed.sim.cases.stream_trainer import job
from seedbed.spec import StreamTrainerConfig, TrellisConfig
from seedbed.spec.stream_trainer import STEP_SEED_BITS

__all__ = ["export"]

#: The engine, whose program it is.
ENGINE = "stream_engine"
#: Samples of a batch, where the core is not given another number.
BATCH = 2
#: Parameters of the trainer beside those of its engine.
OWN = ("sample", "batch")


def export(request: Request) -> Export:
    """Return the memory with program and samples, the commands, and what a training gives.

    Vectors in a block share a sample. Formats of vectors are those of the samples' ranges, and
    their classes are random. Raises ``ValueError`` for tensors that are no network with a trellis
    code and kept weights, or that do not fit the core.
    """
    where = str(request.source)
    tensors = network_tensors(request)
    x, unit = network_samples(request, StreamTrainerConfig().unit.width, tensors[0].columns)
    if unit > 0:
        raise ValueError(f"{where}: samples must have a unit of at most 1, not 2^{unit}")
    given = {"vectors": 4, "block": 4, **request.params}
    own = {name: given.pop(name) for name in OWN if name in given}
    try:
        engine = _engine(tensors, given.pop("tune", None), np.ldexp(x, unit), -unit)
        found, config, samples = _fitted(engine, given, own, x, np.random.default_rng(request.seed))
        work = Work(
            batch=config.batch, seed=request.seed, eps=EPS, most=MOST, **LEARNS
        )  # fmt: skip
        done = _trained(config, found, engine, samples, work)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where}: {problem}") from problem
    program = engine.program
    logits = program.vectors[program.operations[-1].sources[0]]
    kept = [of.kept for of in engine.parameters.values() if of.kept]
    tuned = found.image.tuned
    return Export(
        core=request.core,
        params=found.params,
        title=f"{request.core.name}, network of {where!a}",
        memories=done.pop("memories"),
        constants={
            "FIRST": tuned[0], "END": tuned[1], "SAMPLES": len(samples),
            "IMAGES": len(x), "SAMPLE_SCALE": unit, "LOGIT_SCALE": -logits.fraction,
            "KEPT": sum(len(each.rows) for each in kept), "KEPT_FRACTION": kept[0].fraction,
            **done,
        },
        numbers={"x": x},
        notes=[
            f"{len(tensors)} layers: {', '.join(tensor.name for tensor in tensors)}; "
            f"{sum(len(each.rows) for each in kept)} kept weights",
            f"A number of a vector is in units of 2^{unit}, a loss in 2^{-logits.fraction}",
            f"{len(samples)} samples of {config.block} vectors, from beat {done['SAMPLES_AT']}; a "
            f"training of {done['STEPS']} steps",
        ],
    )  # fmt: skip


def _engine(tensors: list[Tensor], fraction: int | None, x: np.ndarray, bits: int) -> StreamEngine:
    """Return the program of a network; ``bits``: the fraction bits of its vectors ``x``."""
    layers, rows, units = [], [], []
    for tensor in tensors:
        name = tensor.name.removesuffix(".weight") + ".bias"
        bias = read_bias(tensor.path, name, tensor.rows, optional=True)
        layers.append(Reals(weights=tensor.weights, biases=bias))
        code = tensor.packed.config if tensor.packed else None
        if not isinstance(code, TrellisConfig) or code != TrellisConfig(bits=code.bits):
            raise ValueError(f"tensor {tensor.name!r} must have rows of the core's trellis code")
        of = trellis_integers(code, tensor.raw, tensor.columns, tensor.meta.scale)
        rows.append(of)
        where = np.divmod(tensor.kept.indices, tensor.columns)
        scales = np.ldexp(of.multipliers[where[0]].clip(1).astype(np.float64), -of.fraction)
        units.append((*where, tensor.kept.differences / scales))
    fraction = _fraction(units) if fraction is None else fraction
    program, found = judged_network(layers, rows, x, bits)
    return StreamEngine(program, _with_kept(found, units, fraction))


def _fraction(units) -> int:
    """Return fraction bits of values with which the greatest one can grow to its double."""
    peak = max((np.abs(values).max(initial=0.0) for *_, values in units), default=0.0)
    most = int(np.log2(KeptWeights.peak / max(2 * float(peak), 1.0)))
    if most < 1:
        raise ValueError("a kept weight differs too much from its trellis code to be trained")
    return min(StreamTrainerConfig.tune, most)


def _with_kept(found: Mapping[str, Integers], units, fraction: int) -> dict[str, Integers]:
    """Return parameters with their kept weights."""
    parameters = dict(found)
    for name, (rows, columns, values) in zip(found, units, strict=True):
        if not len(rows):
            continue
        numbers = np.rint(np.ldexp(values, fraction))
        if (np.abs(numbers) >= KeptWeights.peak).any():
            raise ValueError(
                f"kept weights must differ by less than {KeptWeights.peak >> fraction} units from "
                f"their trellis code with {fraction} fraction bits"
            )
        order = np.lexsort((columns, rows))
        kept = KeptWeights(
            rows=rows[order], columns=columns[order], values=numbers[order].astype(np.int64),
            fraction=fraction,
        )  # fmt: skip
        parameters[name] = replace(parameters[name], kept=kept)
    if not any(of.kept for of in parameters.values()):
        raise ValueError("no weights are kept, so that there is nothing to train")
    return parameters


def _fitted(
    engine: StreamEngine, given: dict[str, Any], own: dict[str, Any], x: np.ndarray,
    rng: np.random.Generator,
) -> tuple[Fitted, StreamTrainerConfig, list[Sample]]:  # fmt: skip
    """Return the core, and samples of as many vectors as a block has, with random classes."""
    block = given.pop("block")
    context = given.pop("context", block)
    found = fitted(registry.find(ENGINE), engine, block=block, context=context, **given)
    if len(x) % found.config.block:
        raise ValueError(f"the vectors, {len(x)}, must be whole blocks of {found.config.block}")
    labels = rng.integers(0, found.config.classes, len(x))
    samples = as_samples(x, labels, np.arange(len(x)), found.config.block)
    batch = own.get("batch", min(BATCH, len(samples)))
    widest = StreamTrainerConfig(**found.params, sample=4096, batch=batch)
    size = len(sample_bytes(widest, samples[0], head_beats(widest, samples)))
    params = found.params | {"batch": batch, "sample": 8 * size // widest.beat_bits} | own
    return replace(found, params=params), StreamTrainerConfig(**params), samples


def _trained(
    config: StreamTrainerConfig, found: Fitted, engine: StreamEngine, samples: list[Sample],
    work: Work,
) -> dict[str, Any]:  # fmt: skip
    """Return the memories of a training, and its numbers."""
    head, image = head_beats(config, samples), found.image
    address = len(image.beats) + image.saved
    raw = image_bytes(config.engine, image.beats).ljust(address * config.beat_bits // 8, b"\0")
    parts = [sample_bytes(config, each, head) for each in samples]
    raw += b"".join(parts)
    model = Model(engine, found.config, image)
    results: list[np.ndarray] = []
    steps = [step for step, *_ in train(config, model, samples, work, done=results.append)]
    fields = training(config, samples, work, address=address, tuned=image.tuned)
    commands = [
        job(config, "load", **limits(config.engine, image)), job(config, "train", **fields)
    ]  # fmt: skip
    losses = np.concatenate(results)
    rows = np.pad(losses, ((0, 0), (0, config.lanes - losses.shape[1] % config.lanes)))
    log = [log_layout(config).const({"seed": s.seed, "change": s.change}).as_bits() for s in steps]
    size = config.beat_bits // 8
    return {
        "memories": [
            Memory(
                name="memory", title="i_read_data", width=config.beat_bits,
                raw=np.frombuffer(raw, np.uint8).reshape(-1, size),
            ),
            Memory.integers("commands", "i, all fields", job_layout(config).size, commands),
            Memory.of(
                "results", "o_values", config.unit.residual_width, rows[:, : config.lanes]
            ),
            Memory.integers("log", "o_log, all fields", Shape.cast(log_layout(config)).width, log),
            Memory(
                name="trained", title="the beats of kept weights after the training",
                width=config.beat_bits, raw=model.tuner.words.view(np.uint8).reshape(-1, size),
            ),
        ],
        "MEMORY_BEATS": len(raw) // size, "SAMPLES_AT": address, "HEAD": head,
        "SAMPLE_BEATS": len(parts[0]) // size, "BATCH": work.batch, "STEPS": len(steps),
        "SEED": work.seed % (1 << STEP_SEED_BITS),
    }  # fmt: skip
