"""Case of the multipliers: frame lengths, extreme factors, blocks off, an unfinished frame."""

from random import Random

import numpy as np
from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.golden.mac_array import MacArray
from seedbed.hw.products.mac_array import beat_layout
from seedbed.sim.case import Case, Phase
from seedbed.spec import MacArrayConfig

__all__ = ["case", "frame"]

#: The frame that is first sent without its end, and the one of extreme factors.
UNFINISHED, EXTREME = 0, 2


def frame(layout: data.StructLayout, fields: dict[str, np.ndarray]) -> list[int]:
    """Return the payloads of port ``i`` for one frame; each field has a row per beat."""
    beats = len(fields["weights"])
    rows = [{name: rows[t].ravel().tolist() for name, rows in fields.items()} for t in range(beats)]
    return [
        layout.const(row | {"first": t == 0, "last": t == beats - 1}).as_bits()
        for t, row in enumerate(rows)
    ]


def case(config: MacArrayConfig, random: Random, *, beats: int = 150) -> Case:
    """Return frames of one beat, long ones, and one without an end."""
    rng = np.random.default_rng(random.getrandbits(32))
    layout, model = beat_layout(config), MacArray(config)
    sums = data.ArrayLayout(signed(config.accumulator_width), config.sums)
    lengths = [3, 2, min(config.beats, beats // 5)] + [1] * (beats // 5)
    lengths += [random.randint(1, min(config.beats, 9)) for _ in range(beats // 10)]
    inputs, outputs = [], []

    def numbers(width: int, *shape: int) -> np.ndarray:
        half = 1 << width >> 1
        edges = rng.choice([-half, max(half - 1, 0)], shape)
        return np.where(rng.random(shape) < 0.2, edges, rng.integers(-half, half or 1, shape))

    ways = (config.ways,) if config.ways > 1 else ()
    vectors = (config.vectors,) if config.vectors > 1 else ()
    peak, least = config.weight_peak, -(1 << (config.activation_width - 1))
    for k, length in enumerate(lengths):
        fields = {
            "weights": numbers(config.weight_width, length, *ways, config.lanes).clip(-peak, peak),
            "activations": numbers(config.activation_width, length, *vectors, config.lanes),
            "on": rng.random((length, config.blocks)) < (0.8 if k % 2 else 2),
        }
        if config.exponent_width:
            fields["exponents"] = numbers(config.exponent_width, length, config.blocks)
        if k == EXTREME:
            fields["weights"][:], fields["activations"][:] = -peak, least
        payloads = frame(layout, fields)
        if k == UNFINISHED:
            inputs += payloads[:-1]
        inputs += payloads
        outputs.append(sums.const(np.atleast_1d(model.sums(**fields)).tolist()).as_bits())
    return Case(phases=[Phase(inputs={"i": inputs}, outputs={"o": outputs})], quiet=True)
