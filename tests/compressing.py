"""What several tests of the compressor draw, and an interruption of it."""

import numpy as np
from hypothesis import strategies as st

from seedbed.golden import seedlm
from seedbed.spec import SeedlmConfig

__all__ = ["configs", "drawn", "interrupted"]


@st.composite
def configs(draw):
    width = draw(st.integers(3, 9))
    return SeedlmConfig(
        block=draw(st.one_of(st.integers(1, 12), st.integers(1, 32))),
        latent=draw(st.integers(1, 8)),
        width=width,
        word_bits=draw(st.sampled_from([0, *range(2, width + 1)])),
    )


def drawn(config, kind, count, rng):
    """Blocks that are easy to get wrong, by kind."""
    shape = (count, config.block)
    if kind == "normal":
        return rng.normal(size=shape)
    if kind == "integers":
        # Ties in rounding and between seeds.
        return rng.integers(-2, 3, shape).astype(float)
    if kind == "sparse":
        return rng.normal(size=shape) * (rng.random(shape) < 0.3)
    if kind == "spread":
        return rng.normal(size=shape) * 2.0 ** rng.integers(-40, 40, shape)
    seeds = rng.integers(1, config.lfsr.order, count, np.uint32, endpoint=True)
    coefficients = rng.integers(-8, 8, (count, config.latent))
    if kind == "halves":
        return seedlm.decode(config, seeds, rng.integers(-8, 8, count), coefficients) / 2
    return seedlm.decode(config, seeds, rng.integers(-8, 8, count), coefficients)


def interrupted(results, count):
    """Return ``results`` of the workers, interrupted after ``count`` pieces."""

    def stopped(*arguments):
        for k, found in enumerate(results(*arguments)):
            if k == count:
                raise KeyboardInterrupt
            yield found

    return stopped
