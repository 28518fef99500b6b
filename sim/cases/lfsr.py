"""Case of the single LFSR: words from reset, then from random seeds."""

from itertools import islice
from random import Random

from seedbed.golden.lfsr import Lfsr
from seedbed.sim.case import Case, Phase
from seedbed.spec import LfsrConfig

__all__ = ["case"]


def case(config: LfsrConfig, random: Random, *, beats: int = 200) -> Case:
    """Return words from reset and then from three random seeds."""
    model = Lfsr(config)
    phases = [Phase(outputs={"o": list(islice(model.words(), beats))})]
    for _ in range(3):
        seed = random.randint(1, config.order)
        model.load(seed)
        words = list(islice(model.words(), beats))
        phases.append(Phase(inputs={"i_seed": [seed]}, outputs={"o": words}, drain=True))
    return Case(phases=phases)
