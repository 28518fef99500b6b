"""The core that runs a program: its parameters, and the contents of its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from seedbed.flow.cores.core import Core
from seedbed.golden.engine_image import EngineImage, engine_image
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.stream_engine import StreamEngine
from seedbed.golden.stream_trainer import Sample, head_beats, sample_bytes
from seedbed.spec import StreamTrainerConfig
from seedbed.spec.engine_records import HEADER, RECORD_BITS, unpacked
from seedbed.spec.stream_engine import (
    TRELLIS_BITS,
    Attend,
    Choose,
    Input,
    Loss,
    Matrix,
    Program,
    StreamEngineConfig,
    Vector,
)
from seedbed.spec.stream_trainer import MOST_SAMPLE

__all__ = ["Fitted", "choosing", "fitted", "trainer_params"]

#: The most that the store, the cache and the list of records of a core may have.
MOST = {"store": 1 << 14, "cache": 1 << 16, "records": 4096}
#: The least.
LEAST = {"store": 16, "cache": 16, "records": 4}
#: Elements of a head that are multiplied in a cycle, at most.
MOST_PRODUCTS = 64
#: Tokens whose keys are multiplied in a cycle, at most: one for every eight of a context. With a
#: port of less than 64 bytes, weights take longer than attention.
MOST_KEYS = 8


@dataclass(frozen=True)
class Fitted:
    """A core for a program: its parameters, its configuration, and its memory from beat 0 on."""

    params: dict[str, Any]
    config: StreamEngineConfig
    image: EngineImage

    @property
    def memory(self) -> np.ndarray:
        """The beats of the memory as bytes (beats, bytes of a beat), low ones first."""
        raw = image_bytes(self.config, self.image.beats)
        return np.frombuffer(raw, np.uint8).reshape(len(self.image.beats), -1)


def choosing(program: Program) -> Program:
    """Return a program whose result is the number of the greatest element of the result before."""
    name = f"greatest of {program.result}"
    vectors = {**program.vectors, name: Vector(length=1, fraction=0, wide=True)}
    last = Choose(source=program.result, target=name)
    operations = (*program.operations, last)
    return Program(vectors=vectors, operations=operations, result=name, unit=program.unit)


def fitted(core: Core, engine: StreamEngine, *, block: int, context: int, **given: Any) -> Fitted:
    """Return the smallest core for a program, with a port of 64 bytes if no other is given.

    Parameters
    ----------
    core
        That of the registry.
    engine
        The program, with its parameters.
    block
        The most tokens of a block. Blocks of a causal program are shorter where the store has no
        room for them.
    context
        The most tokens in all.
    given
        Parameters of the core that are set. Otherwise, keys and values are in memory where the chip
        has no room for those of all layers.

    Raises ``ValueError`` for a program that the core does not take.
    """
    program = engine.program
    lanes = given.get("lanes", StreamEngineConfig.lanes)
    row, beat_bits = _row(program, lanes), given.get("beat_bits", StreamEngineConfig.beat_bits)
    keys = given.get("keys", _keys(context, lanes) if row and beat_bits >= 512 else 1)
    columns = [
        program.vectors[op.source].length for op in program.operations if isinstance(op, Matrix)
    ]
    params: dict[str, Any] = {
        "products": _products(program, lanes), "columns": max(columns), "context": context,
        "keys": keys,
        "choose": any(isinstance(op, Choose) for op in program.operations),
        "classes": _classes(program),
        "inputs": any(isinstance(op, Input) for op in program.operations), **_weights(engine),
    } | given  # fmt: skip
    widest = core.configure(MOST | params | {"block": block})
    params = {"external": widest.cache_beats(context, row) > MOST["cache"]} | params
    while True:
        config = core.configure(MOST | params | {"block": block})
        try:
            image = engine_image(config, program, engine.parameters, block=block, context=context)
            break
        except ValueError:
            if block == 1 or not program.causal:
                raise
        block //= 2
    header = unpacked(image.beats[0] & (1 << RECORD_BITS) - 1, HEADER)
    sizes = {name: max(least, header[name]) for name, least in LEAST.items()}
    params = sizes | params | {"block": block}
    return Fitted(params, core.configure(params), image)


def trainer_params(
    params: Mapping[str, Any], samples: Sequence[Sample], batch: int
) -> dict[str, Any]:
    """Return the parameters of the smallest trainer of a program for samples of one size.

    ``params`` are those of its engine, and ``batch`` the most samples of a batch. Raises
    ``ValueError`` for a sample that no core takes.
    """
    widest = StreamTrainerConfig(**params, sample=MOST_SAMPLE, batch=batch)
    raw = sample_bytes(widest, samples[0], head_beats(widest, samples))
    return {**params, "batch": batch, "sample": 8 * len(raw) // widest.beat_bits}


def _classes(program: Program) -> int:
    """Return the most elements of a vector that has a loss."""
    losses = [op for op in program.operations if isinstance(op, Loss)]
    return max((program.vectors[op.source].length for op in losses), default=0)


def _weights(engine: StreamEngine) -> dict[str, int]:
    """Return how weights are packed: bits of a trellis code, or as blocks of SeedLM or groups.

    And how many weights a matrix keeps, and where they can be tuned, their fraction bits.
    """
    coded = [of for of in engine.parameters.values() if of.trellis]
    bits = max({of.trellis.code.bits for of in coded} & {*TRELLIS_BITS}, default=0)
    kept = [
        len(of.kept.rows) if of.kept else int(np.count_nonzero(of.weights - of.trellis.weights()))
        for of in coded
        if bits
    ]
    fraction = max((of.kept.fraction for of in coded if of.kept), default=0)
    seedlm = any(of.seedlm for of in engine.parameters.values())
    groups = any(of.groups for of in engine.parameters.values())
    return {
        "trellis": bits, "seedlm": seedlm, "groups": groups, "kept": max(kept, default=0),
        "tune": fraction,
    }  # fmt: skip


def _row(program: Program, lanes: int) -> int:
    """Return the beats of the cache that keys and values of a token have, of all layers."""
    kept = [
        program.vectors[name].length
        for op in program.operations
        if isinstance(op, Attend)
        for name in (op.key, op.value)
    ]
    return sum(kept) // lanes


def _keys(context: int, lanes: int) -> int:
    """Return for how many tokens keys are multiplied in a cycle."""
    return 1 << min(MOST_KEYS, lanes, max(1, context // 8)).bit_length() - 1


def _products(program: Program, lanes: int) -> int:
    """Return the most products of attention in a cycle with which the program's heads go."""
    heads = [
        program.vectors[op.query].length // op.heads
        for op in program.operations
        if isinstance(op, Attend)
    ]
    return max(gcd(*heads, MOST_PRODUCTS), lanes) if heads else lanes
