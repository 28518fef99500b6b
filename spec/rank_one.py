"""Configuration of perturbations of rank 1: what is drawn, and where rows of weights find it."""

from dataclasses import dataclass

from seedbed.spec.checks import require_int, require_ints
from seedbed.spec.lutopt import DRAWS, SEED_LEAST, LutoptConfig

__all__ = ["OUTPUT_BITS", "RankOneConfig"]

#: Random bits of an output: a sign, and four that are at least n where it is perturbed.
OUTPUT_BITS = 5
#: Taps of the generator.
TAPS = 3


@dataclass(frozen=True, kw_only=True)
class RankOneConfig:
    """Perturbations z = 2^(c - 1) a b of layers: a of outputs, -1, 0 or 1, b of inputs, -1 or 1.

    A word of inputs has the signs of ``lanes`` inputs, and for each of them whether half a step
    moves its weights. A word of outputs has sign and mask of ``ways`` outputs. Each word is a beat
    of one generator: first those of the inputs of all layers, then those of the outputs. A row of
    weights has the outputs of one word and the inputs of another.

    Parameters
    ----------
    lanes, ways
        A row has ``ways`` times ``lanes`` weights.
    bits
        The greatest c, 1..6.
    used
        For each word of inputs, how many of its lanes have weights.
    outputs
        Words of outputs.
    rows
        For each row, its words of outputs and of inputs.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    lanes: int = 32
    ways: int = 4
    bits: int = 4
    used: tuple[int, ...] = (32, 32)
    outputs: int = 2
    rows: tuple[tuple[int, int], ...] = ((0, 0), (0, 1), (1, 0), (1, 1))

    def __post_init__(self) -> None:
        require_int("lanes", self.lanes, 8, 64)
        require_int("ways", self.ways, 1, 16)
        require_int("bits", self.bits, 1, 6)
        used = require_ints("used", self.used, 0, self.lanes, least=1, most=65536)
        object.__setattr__(self, "used", used)
        require_int("outputs", self.outputs, 1, 65536)
        for output, number in self.rows:
            require_int("a row's word of outputs", output, 0, self.outputs - 1)
            require_int("a row's word of inputs", number, 0, len(used) - 1)

    @property
    def inputs(self) -> int:
        """Words of inputs."""
        return len(self.used)

    @property
    def generator(self) -> LutoptConfig:
        """The generator: the smallest one that has the bits of a word."""
        least = max(2 * self.lanes, OUTPUT_BITS * self.ways, SEED_LEAST)
        sizes = [(n * b, n, b) for n, b, taps in DRAWS if taps == TAPS and n * b >= least]
        _, lanes, width = min(sizes)
        return LutoptConfig(lanes=lanes, width=width, taps=TAPS, seeding="word")

    @property
    def peak(self) -> int:
        """The greatest magnitude of a perturbation."""
        return 1 << self.bits - 1
