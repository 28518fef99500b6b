"""Case of the generator array: default seeds, then seeds of its own, replayed once."""

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
    """Return beats from reset, then from two random sets of seeds, the first of them twice.

    Where zeros are repaired, the second set holds them.
    """
    model = UrngArray(config)
    phases = [Phase(outputs={"o": pack(model.beats(beats), config.width)})]
    top = config.lfsr.order
    if config.seeding == "grown":
        words = [random.randint(1, top), 0 if config.repair else top]
        loads = [([word], lambda word=word: model.grow(word)) for word in words]
    else:
        sets = [[random.randint(1, top) for _ in range(config.lanes)] for _ in range(2)]
        if config.repair:
            sets[1] = [seed * random.randint(0, 1) for seed in sets[1]]
        last = 1 << config.lanes
        loads = []
        for seeds in sets:
            bits = seed_beats(config, seeds)
            bits[-1] |= last
            loads.append((bits, lambda seeds=seeds: model.load(seeds)))
    for payloads, load in (loads[0], loads[1], loads[0]):
        load()
        expected = pack(model.beats(beats), config.width)
        phases.append(Phase(inputs={"i_seeds": payloads}, outputs={"o": expected}, drain=True))
    return Case(phases=phases)
