"""Case of the tree Gaussian generator: default seeds, then random seeds, replayed once."""

from random import Random

from seedbed.golden.tree_grng import TreeGrng, seed_bits
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.urng_array import pack
from seedbed.spec import TreeGrngConfig

__all__ = ["case"]


def case(config: TreeGrngConfig, random: Random, *, beats: int = 300) -> Case:
    """Return beats from reset, then from two random sets of seeds, the first of them twice."""
    model = TreeGrng(config)
    phases = [Phase(outputs={"o": pack(model.numbers(beats), 8)})]
    sets = [
        [
            [random.randint(1, level.lfsr.order) for level in config.levels]
            for _ in range(config.instances)
        ]
        for _ in range(2)
    ]
    for seeds in (sets[0], sets[1], sets[0]):
        model.load(seeds)
        payloads = seed_bits(config, seeds)
        payloads[-1] |= 2
        expected = pack(model.numbers(beats), 8)
        phases.append(Phase(inputs={"i_seeds": payloads}, outputs={"o": expected}, drain=True))
    return Case(phases=phases)
