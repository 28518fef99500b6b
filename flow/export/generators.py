"""Export of seeds, and of the numbers that the generators give after them."""

from itertools import islice

import numpy as np
from amaranth.hdl import Shape

from seedbed.flow.export.bundle import Export
from seedbed.flow.export.memory import Memory
from seedbed.flow.export.request import Request
from seedbed.flow.export.vectors import read_array
from seedbed.golden.checks import require_integers
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.lutopt import load_beats as state_beats
from seedbed.golden.perturbation import Perturbation
from seedbed.golden.prng_pool import PrngPool
from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.spec.checks import require_int
from seedbed.spec.lutopt import SEED_BITS

__all__ = ["export_lfsr", "export_lutopt", "export_perturbation", "export_pool", "export_urng"]


def export_lfsr(request: Request) -> Export:
    """Return a seed, and the first words after it."""
    config = request.core.configure(request.params)
    require_int("seed", request.seed, 1, config.order)
    model = Lfsr(config)
    model.load(request.seed)
    words = np.array([*islice(model.words(), request.count)])
    return _export(
        request,
        Memory.of("seed", "i_seed_payload", config.width, np.array([[request.seed]])),
        Memory.of("words", "o_payload", config.width, words[:, None]),
        notes=[f"The seed {request.seed}"],
    )


def export_urng(request: Request) -> Export:
    """Return the seeds of all lanes that grow from one, and the first beats after them."""
    config = request.core.configure(request.params)
    require_int("seed", request.seed, 1, config.lfsr.order)
    model = UrngArray(config)
    memories = []
    if config.seeding == "grown":
        model.grow(request.seed)
        seeds = np.array([[request.seed]])
        memories.append(Memory.of("seed", "i_seeds_payload", config.width, seeds))
    else:
        lanes = list(config.grow(request.seed))
        model.load(lanes)
        memories += [
            Memory.integers("seeds", "i_seeds_bits", config.lanes, seed_beats(config, lanes)),
            Memory.of("lanes", "the seed of a lane", config.width, np.array(lanes)[:, None]),
        ]
    beats = model.beats(request.count)
    memories.append(Memory.of("words", "o_payload", config.width, beats))
    return _export(request, *memories, notes=[f"Seeds that grow from {request.seed}"])


def export_lutopt(request: Request) -> Export:
    """Return a seed word, or a random state, and the first beats after it."""
    config = request.core.configure(request.params)
    model = Lutopt(config)
    memories = []
    if config.seeding == "word":
        model.seed(request.seed)
        word = np.array([[request.seed]])
        memories.append(Memory.of("seed", "i_seed_payload", SEED_BITS, word))
        note = f"The seed word {request.seed}"
    else:
        state = request.rng.integers(0, 1 << config.width, config.lanes)
        state[0] |= 1
        model.load(state)
        memories += [
            Memory.integers("state", "i_state_bits", config.lanes, state_beats(config, state)),
            Memory.of("lanes", "the state of a lane", config.width, state[:, None]),
        ]
        note = f"A random state of the seed {request.seed}"
    beats = model.beats(request.count)
    memories.append(Memory.of("words", "o_payload", config.width, beats))
    return _export(request, *memories, notes=[note])


def export_perturbation(request: Request) -> Export:
    """Return the first beats of the perturbation of a seed, with the step size 2^0."""
    config = request.core.configure(request.params)
    numbers = request.count * config.lanes
    beats = Perturbation(config).beats(seed=request.seed, d=numbers)
    width = Shape.cast(config.exponents).width
    return _export(
        request,
        Memory.of("lanes", "o_lanes", config.width, beats.lanes),
        Memory.of("exponents", "o_exponent", width, beats.exponents[:, None]),
        notes=[f"{numbers} numbers of the seed {request.seed}; i_eps and i_negative are 0"],
        SEED=request.seed, NUMBERS=numbers, FRACTION_BITS=config.fraction_bits,
    )  # fmt: skip


def export_pool(request: Request) -> Export:
    """Return the numbers of a pool, and its first beats: a file's, or those of the parameters."""
    params = dict(request.params)
    if request.vector:
        numbers = read_array(request.vector)
        if numbers.ndim != 1:
            raise ValueError(f"{request.vector} must be an array of one dimension")
        try:
            checked = require_integers("numbers", numbers, -(1 << 31), (1 << 31) - 1)
            config = request.core.configure(params | {"contents": tuple(checked.tolist())})
        except (TypeError, ValueError) as problem:
            raise ValueError(f"{request.vector}: {problem}") from problem
        params["contents"] = config.contents
    config = request.core.configure(params)
    model = PrngPool(config)
    contents = model.contents
    beats = model.beats(model.requests(request.count * config.lanes))
    return _export(
        Request(core=request.core, params=params),
        Memory.of("numbers", "i_pool_number", config.width, contents[:, None]),
        Memory.of("lanes", "o_lanes", config.width, beats),
        notes=[f"{len(contents)} numbers of {config.width} bits"],
        COUNT=config.lanes,
    )


def _export(request: Request, *memories: Memory, notes: list[str], **constants: int) -> Export:
    return Export(
        core=request.core, params=request.params, title=f"{request.core.name}: {notes[0]}",
        memories=list(memories), constants=constants, notes=notes,
    )  # fmt: skip
