"""Export of a network with kept weights for ``stream_trainer``: program, samples, a training."""

from dataclasses import replace
from typing import Any

import numpy as np

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
from seedbed.flow.jobs.program_core import Fitted, fitted, trainer_params
from seedbed.golden.stream_engine import KeptWeights, Reals, StreamEngine
from seedbed.golden.stream_trainer import Sample, Work, train, training
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout
from seedbed.sim.cases.stream_engine import limits
from seedbed.sim.cases.stream_trainer import job
from seedbed.sim.jobs.stream_job import whole_beats
from seedbed.sim.jobs.trainer_job import contents
from seedbed.spec import StreamTrainerConfig, TrellisConfig

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
        work = Work(batch=config.batch, seed=request.seed, eps=EPS, most=MOST, **LEARNS)
        memories, constants = _trained(config, found, engine, samples, work)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{where}: {problem}") from problem
    program = engine.program
    logits = program.vectors[program.operations[-1].sources[0]]
    kept = [of.kept for of in engine.parameters.values() if of.kept]
    count = sum(len(each.rows) for each in kept)
    return Export(
        core=request.core,
        params=found.params,
        title=f"{request.core.name}, network of {where!a}",
        memories=memories,
        constants=constants
        | {
            "IMAGES": len(x), "SAMPLE_SCALE": unit, "LOGIT_SCALE": -logits.fraction,
            "KEPT": count, "KEPT_FRACTION": kept[0].fraction,
        },
        numbers={"x": x},
        notes=[
            f"{len(tensors)} layers: {', '.join(tensor.name for tensor in tensors)}; {count} kept "
            "weights",
            f"A number of a vector is in units of 2^{unit}, a loss in 2^{-logits.fraction}",
            f"{len(samples)} samples of {config.block} vectors, from beat "
            f"{constants['SAMPLES_AT']}; a training of {constants['STEPS']} steps",
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
        of_row = of.multipliers[tensor.kept.indices // tensor.columns].clip(1)
        units.append(tensor.kept.differences / np.ldexp(of_row.astype(np.float64), -of.fraction))
    fraction = _fraction(units) if fraction is None else fraction
    program, found = judged_network(layers, rows, x, bits)
    for name, tensor, values in zip(found, tensors, units, strict=True):
        if len(values):
            found[name] = replace(found[name], kept=_kept(tensor, values, fraction))
    if not any(of.kept for of in found.values()):
        raise ValueError("no weights are kept, so that there is nothing to train")
    return StreamEngine(program, found)


def _fraction(units: list[np.ndarray]) -> int:
    """Return fraction bits of values with which the greatest one can grow to its double."""
    peak = max(float(np.abs(values).max(initial=0.0)) for values in units)
    most = int(np.log2(KeptWeights.peak / max(2 * peak, 1.0)))
    if most < 1:
        raise ValueError("a kept weight differs too much from its trellis code to be trained")
    return min(StreamTrainerConfig.tune, most)


def _kept(tensor: Tensor, values: np.ndarray, fraction: int) -> KeptWeights:
    """Return the kept weights of a tensor, ``values`` in units of its trellis code."""
    numbers = np.rint(np.ldexp(values, fraction)).astype(np.int64)
    if (np.abs(numbers) >= KeptWeights.peak).any():
        raise ValueError(
            f"kept weights must differ by less than {KeptWeights.peak >> fraction} units from "
            f"their trellis code with {fraction} fraction bits"
        )
    rows, columns = np.divmod(tensor.kept.indices, tensor.columns)
    return KeptWeights(rows=rows, columns=columns, values=numbers, fraction=fraction)


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
    params = trainer_params(found.params, samples, batch) | own
    return replace(found, params=params), StreamTrainerConfig(**params), samples


def _trained(
    config: StreamTrainerConfig, found: Fitted, engine: StreamEngine, samples: list[Sample],
    work: Work,
) -> tuple[list[Memory], dict[str, int]]:  # fmt: skip
    """Return the memories of a training, and its numbers."""
    image, size = found.image, config.beat_bits // 8
    raw, address = contents(config, image, samples)
    model = Model(engine, found.config, image)
    results: list[np.ndarray] = []
    steps = [step for step, *_ in train(config, model, samples, work, done=results.append)]
    fields = training(config, samples, work, address=address, tuned=image.tuned)
    commands = [
        job(config, "load", **limits(config.engine, image)), job(config, "train", **fields)
    ]  # fmt: skip
    logged = log_layout(config)
    log = [logged.const({"seed": step.seed, "change": step.change}).as_bits() for step in steps]
    values = whole_beats(config, np.concatenate(results))

    def beats(name: str, title: str, raw: bytes) -> Memory:
        words = np.frombuffer(raw, np.uint8).reshape(-1, size)
        return Memory(name=name, title=title, width=config.beat_bits, raw=words)

    memories = [
        beats("memory", "i_read_data", raw),
        Memory.integers("commands", "i, all fields", job_layout(config).size, commands),
        Memory.of("results", "o_values", config.unit.residual_width, values),
        Memory.integers("log", "o_log, all fields", logged.size, log),
        beats(
            "trained", "the beats of kept weights after the training", model.tuner.words.tobytes()
        ),
    ]
    first, end = image.tuned
    constants = {
        "FIRST": first, "END": end, "SAMPLES": len(samples), "MEMORY_BEATS": len(raw) // size,
        "SAMPLES_AT": address, "HEAD": fields["head"],
        "SAMPLE_BEATS": (len(raw) // size - address) // len(samples), "BATCH": work.batch,
        "STEPS": len(steps), "SEED": work.seed,
    }  # fmt: skip
    return memories, constants
