"""Case of the skid buffer: random beats."""

from random import Random

import numpy as np

from seedbed.golden.skid_buffer import SkidBuffer
from seedbed.sim.case import Case, Phase
from seedbed.spec import SkidBufferConfig

__all__ = ["case"]


def case(config: SkidBufferConfig, random: Random, *, beats: int = 200) -> Case:
    """Return a phase of random beats, and one of a single beat."""
    phases = []
    for count in (beats, 1):
        sent = [random.getrandbits(config.width) for _ in range(count)]
        expected = SkidBuffer(config).beats(np.array(sent, object)).tolist()
        phases.append(Phase(inputs={"i": sent}, outputs={"o": expected}))
    return Case(phases=phases, quiet=True)
