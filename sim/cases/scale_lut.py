"""Case of the scale table: every state once, or random ones where there are many."""

from random import Random

import numpy as np
from amaranth.hdl import Shape

from seedbed.golden.scale_lut import ScaleLut
from seedbed.sim.case import Case, Phase
from seedbed.spec import ScaleConfig

__all__ = ["case"]


def case(config: ScaleConfig, random: Random, *, beats: int = 1000) -> Case:
    """Return states and their exponents, including the rarest exponent."""
    model = ScaleLut(config)
    order = config.array.lfsr.order
    states = list(range(1, order + 1))
    if order > beats:
        values, counts = np.unique(model.table[1:], return_counts=True)
        rarest = np.flatnonzero(model.table == values[counts.argmin()])
        rare = [int(state) for state in rarest if state][: beats // 2]
        states = rare + random.choices(states, k=beats - len(rare))
    random.shuffle(states)
    bits = Shape.cast(range(config.least, config.greatest + 1)).width
    exponents = [int(e) & ((1 << bits) - 1) for e in model.lookup(np.array(states))]
    return Case(phases=[Phase(inputs={"i": states}, outputs={"o": exponents})], quiet=True)
