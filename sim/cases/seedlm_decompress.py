"""Case of SeedLM's decompressor: corner blocks, then random ones."""

from itertools import product
from random import Random

import numpy as np

from seedbed.golden.seedlm import pack
from seedbed.golden.seedlm_decompress import decompress
from seedbed.hw.weights.seedlm_decompress import beat_layout, blocks_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import SeedlmDecompressConfig

__all__ = ["case", "corners", "phase"]


def corners(config: SeedlmDecompressConfig) -> list[int]:
    """Return packed blocks of extreme seeds, coefficients and exponents.

    The seeds include 0, which a file must not have, but a port may: all of its words are 0.
    """
    ones = (1 << config.width) - 1
    seeds = [0, 1, ones, 1 << (config.width - 1), ones >> 1]
    rows = [[-8], [7], [0], [-8, 7], [7, -8], [-1], [1]]
    mixed = [row * config.latent for row in rows]
    blocks = list(product(seeds, (-8, 7), (row[: config.latent] for row in mixed)))
    fields = [np.array([block[k] for block in blocks]) for k in range(3)]
    return pack(config, *fields).tolist()


def phase(config: SeedlmDecompressConfig, packed: list[int], lasts: list[int]) -> Phase:
    """Return the phase of the packed blocks, a multiple of ``blocks``, and all of their beats."""
    beats = np.array(packed, np.uint64).reshape(-1, config.blocks)
    weights, exponents = decompress(config, beats)
    payloads, responses = [], []
    for t, last in enumerate(lasts):
        sent = {"blocks": beats[t].tolist(), "last": last}
        response = {
            "weights": weights[t].tolist(),
            "exponents": exponents[t].tolist(),
            "last": last,
        }
        payloads.append(blocks_layout(config).const(sent).as_bits())
        responses.append(beat_layout(config).const(response).as_bits())
    return Phase(inputs={"i": payloads}, outputs={"o": responses})


def case(config: SeedlmDecompressConfig, random: Random, *, beats: int = 100) -> Case:
    """Return every corner block, in random order, and then ``beats`` beats of random blocks."""
    packed = corners(config)
    random.shuffle(packed)
    count = (-(-len(packed) // config.blocks) + beats) * config.blocks
    packed += [random.getrandbits(config.block_bits) for _ in range(count - len(packed))]
    lasts = [int(random.random() < 0.2) for _ in range(count // config.blocks)]
    return Case(phases=[phase(config, packed, lasts)], quiet=True)
