"""Case of the dequantizer with tables: rows of many lengths, each with its table."""

from random import Random

import numpy as np

from seedbed.golden.lut_dequantize import dequantize
from seedbed.hw.weights.lut_dequantize import beat_layout, codes_layout, table_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import LutDequantizeConfig
from seedbed.spec.lut_dequantize import LEVELS

__all__ = ["case", "phase", "rows"]


def rows(config: LutDequantizeConfig, rng: np.random.Generator, lengths) -> list[tuple]:
    """Return a row for each length in beats: codes (beats, lanes), levels, exponent."""
    half = 1 << (config.width - 1)
    return [
        (
            rng.integers(0, LEVELS, (beats, config.lanes)),
            rng.integers(-half, half, LEVELS),
            int(rng.integers(-8, 8)),
        )
        for beats in lengths
    ]


def phase(config: LutDequantizeConfig, matrix: list[tuple]) -> Phase:
    """Return the phase of the rows, one after the other."""
    codes_of, table_of, out = codes_layout(config), table_layout(config), beat_layout(config)
    found = Phase(inputs={"i": [], "i_levels": []}, outputs={"o": []})
    for codes, levels, exponent in matrix:
        for k, part in enumerate(levels.reshape(-1, config.load).tolist()):
            # The exponents of all beats but the last are ignored.
            own = exponent if k == config.beats - 1 else ~exponent
            beat = table_of.const({"levels": part, "exponent": own})
            found.inputs["i_levels"].append(beat.as_bits())
        weights = dequantize(config, codes.reshape(1, -1), levels[None]).reshape(codes.shape)
        for t, (code, weight) in enumerate(zip(codes.tolist(), weights.tolist(), strict=True)):
            last = t == len(codes) - 1
            found.inputs["i"].append(codes_of.const({"codes": code, "last": last}).as_bits())
            beat = {"weights": weight, "exponents": [exponent], "last": last}
            found.outputs["o"].append(out.const(beat).as_bits())
    return found


def case(config: LutDequantizeConfig, random: Random, *, beats: int = 200) -> Case:
    """Return rows of one beat, of as many beats as a table has, and of other lengths."""
    rng = np.random.default_rng(random.getrandbits(32))
    lengths = [1, 1, 1, 2, config.beats, config.beats, config.beats + 1, config.beats - 1]
    while sum(lengths) < beats:
        lengths.append(random.choice([1, 3, config.beats, 2 * config.beats]))
    return Case(phases=[phase(config, rows(config, rng, lengths))], quiet=True)
