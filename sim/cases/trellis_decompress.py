"""Case of the decompressor of trellis-coded weights: rows of many lengths, and extreme states."""

from random import Random

import numpy as np

from seedbed.golden.trellis_decompress import decompress
from seedbed.hw.weights.trellis_decompress import beat_layout, symbols_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import TrellisDecompressConfig

__all__ = ["case", "phase"]


def phase(config: TrellisDecompressConfig, rows: list[np.ndarray]) -> Phase:
    """Return the phase of rows of symbols, each of shape (beats, lanes), one after the other."""
    given, out = symbols_layout(config), beat_layout(config)
    found = Phase(inputs={"i": []}, outputs={"o": []})
    for row in rows:
        lasts = [t == len(row) - 1 for t in range(len(row))]
        weights = decompress(config, row).tolist()
        for symbols, weight, last in zip(row.tolist(), weights, lasts, strict=True):
            found.inputs["i"].append(given.const({"symbols": symbols, "last": last}).as_bits())
            found.outputs["o"].append(out.const({"weights": weight, "last": last}).as_bits())
    return found


def case(config: TrellisDecompressConfig, random: Random, *, beats: int = 100) -> Case:
    """Return rows of zeros and of ones, rows of one beat, and random rows of other lengths.

    A row of zeros after one of ones shows whether a state of the row before is left.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    most = 1 << config.bits
    # Beats until a state has bits of the row only.
    full = -(-config.state_bits // (config.bits * config.lanes))
    rows = [np.full((full + 1, config.lanes), fill) for fill in (most - 1, 0, most - 1, 0)]
    lengths = [1, 1, 1, full, full + 1]
    while sum(lengths) < beats:
        lengths.append(random.choice([1, 2, 3, full + 5]))
    rows += [rng.integers(0, most, (length, config.lanes)) for length in lengths]
    return Case(phases=[phase(config, rows)], quiet=True)
