"""Case of the generator array: default seeds, then random seeds, replayed once."""

from random import Random

import numpy as np

from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.sim.case import Case, Phase
from seedbed.spec import UrngConfig

__all__ = ["case", "pack"]


def pack(beats: np.ndarray, width: int) -> list[int]:
    """Return each row as one integer, lane 0 in the lowest ``width`` bits; signed or unsigned."""
    mask = (1 << width) - 1
    return [sum((int(w) & mask) << (j * width) for j, w in enumerate(row)) for row in beats]


def case(config: UrngConfig, random: Random, *, beats: int = 100) -> Case:
    """Return beats from reset, then from random seeds: the first of them twice.

    With ``repair``, some sets of seeds have few ones or none. The last load follows immediately
    after one whose beats are not read. It continues while ready is low: its first beat is accepted
    only with the transfer of the pending output beat, the others at once.
    """
    model = UrngArray(config)
    phases = [Phase(outputs={"o": pack(model.beats(beats), config.width)})]
    for seeds in _seeds(config, random):
        if config.seeding == "grown":
            model.grow(seeds)
            payloads = [seeds]
        else:
            model.load(seeds)
            payloads = seed_beats(config, seeds)
            payloads[-1] |= 1 << config.lanes
        expected = pack(model.beats(beats), config.width)
        phases.append(Phase(inputs={"i_seeds": payloads}, outputs={"o": expected}, drain=True))
    hidden, last = phases[-2].inputs["i_seeds"], phases.pop()
    first, *rest = last.inputs["i_seeds"]
    phases.append(Phase(inputs={"i_seeds": [*hidden, first]}, drain=True))
    phases += [Phase(inputs={"i_seeds": rest}), Phase(outputs=last.outputs)]
    return Case(phases=phases)


def _seeds(config: UrngConfig, random: Random) -> list:
    top = config.lfsr.order
    if config.seeding == "grown":
        first, second, third = (random.randint(1, top) for _ in range(3))
        return [first, top, first, *([0] if config.repair else []), second, third]
    loads = [[random.randint(1, top) for _ in range(config.lanes)] for _ in range(3)]
    sparse = []
    if config.repair:
        bits = [0, *(1 << k for k in range(config.width))]
        sparse = [[0] * config.lanes]
        sparse += [[random.choice(bits) for _ in range(config.lanes)] for _ in range(4)]
    return [loads[0], loads[1], loads[0], *sparse, loads[2]]
