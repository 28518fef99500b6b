"""Case of the LUT-optimised generator: the state after reset, then loaded ones, one twice."""

from random import Random

from seedbed.golden.lutopt import Lutopt, load_beats
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.urng_array import pack
from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import SEED_BITS

__all__ = ["case"]


def case(config: LutoptConfig, random: Random, *, beats: int = 60) -> Case:
    """Return beats from reset, then from random states or seeds: the first of them twice.

    The longest frame of a state comes last. Its first beats are those of another state, and it is
    offered while ready is low, so that no beat of it may be accepted before the sink accepts the
    pending output beat.
    """
    model = Lutopt(config)
    phases = [Phase(outputs={"o": pack(model.beats(beats), config.width)})]
    end = 1 << config.lanes
    for seed in _seeds(config, random):
        if config.seeding == "word":
            model.seed(seed)
            inputs = {"i_seed": [seed]}
        else:
            model.load(seed)
            bits = load_beats(config, seed)
            inputs = {"i_state": [*bits[:-1], bits[-1] | end]}
        expected = pack(model.beats(beats), config.width)
        phases.append(Phase(inputs=inputs, outputs={"o": expected}, drain=True))
    if config.seeding == "serial":
        *others, before, last = phases
        longer = [bits & ~end for bits in before.inputs["i_state"]] + last.inputs["i_state"]
        phases = [*others, Phase(inputs={"i_state": longer}, outputs=last.outputs, drain=True)]
    return Case(phases=phases)


def _seeds(config: LutoptConfig, random: Random) -> list:
    if config.seeding == "word":
        first = random.getrandbits(SEED_BITS)
        return [first, 0, first, (1 << SEED_BITS) - 1, 1]
    states = [[random.getrandbits(config.width) for _ in range(config.lanes)] for _ in range(4)]
    # One bit that is 1, and the sparsest words after it.
    sparse = [0] * config.lanes
    sparse[random.randrange(config.lanes)] = 1 << random.randrange(config.width)
    for state in states:
        state[0] |= 1
    return [states[0], states[1], states[0], sparse, states[2], states[3]]
