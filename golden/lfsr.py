"""Golden model of the LFSR, by the bit-serial definition."""

from collections.abc import Iterator

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec import LfsrConfig

__all__ = ["Lfsr", "cycle", "step"]


def step(config: LfsrConfig, states: np.ndarray) -> np.ndarray:
    """Return the states after one bit-serial step; any shape, any unsigned type of enough bits."""
    assert config.taps is not None
    new = np.zeros_like(states)
    for tap in config.taps:
        new ^= states >> tap
    return (states >> 1) | ((new & 1) << (config.width - 1))


def cycle(config: LfsrConfig, seed: int = 1) -> np.ndarray:
    """Return all 2^width - 1 states in the order of single steps, from ``seed`` on, uint32.

    Successive states are windows of one bit string, so only that string is computed. One vectorised
    XOR per tap doubles its length.
    """
    width, order = config.width, config.order
    bits = np.zeros(order + width, np.uint8)
    bits[:width] = seed >> np.arange(width) & 1
    assert config.taps is not None
    done, stride = width, 1
    while done < len(bits):
        # Over GF(2) squaring the polynomial doubles the distances of its taps:
        # bits[i + width * stride] is the XOR of bits[i + tap * stride], all known for a chunk.
        while 2 * stride * width <= done:
            stride *= 2
        stop = min(done + (width - max(config.taps)) * stride, len(bits))
        start = done - width * stride
        for tap in config.taps:
            first = start + tap * stride
            bits[done:stop] ^= bits[first : first + stop - done]
        done = stop
    states = np.zeros(order, np.uint32)
    for k in range(width):
        states |= bits[k : k + order].astype(np.uint32) << np.uint32(k)
    return states


class Lfsr:
    """The words of the core ``lfsr``: ``leap`` single steps each, without the seed."""

    def __init__(self, config: LfsrConfig):
        self.config = config
        self.state = np.array(config.seed, np.uint32)

    def load(self, seed: int) -> None:
        """Start again from another seed, 1 .. 2^width - 1."""
        self.state = require_integers("seed", seed, 1, self.config.order).astype(np.uint32)

    def words(self) -> Iterator[int]:
        """Yield one word per beat, endlessly."""
        while True:
            for _ in range(self.config.leap):
                self.state = step(self.config, self.state)
            yield int(self.state)
