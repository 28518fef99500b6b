"""Where perturbations of ElasticZO-INT8 come from: sources by name."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from seedbed.golden.engine import network_weights
from seedbed.golden.rank_one import Factors, RankOne
from seedbed.golden.urng_array import UrngArray
from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.spec import UrngConfig
from seedbed.spec.elasticzo import GRAIN, ElasticZoConfig, Phase
from seedbed.spec.network import Layer
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = [
    "HARDWARE",
    "SOURCES",
    "ArraySource",
    "RankOneSource",
    "Source",
    "StageSource",
    "buffered",
    "drawn",
]

#: Gives a perturbation of a layer's weights, int8 of its shape, from step, layer and phase.
Source = Callable[[int, Layer, Phase], np.ndarray]
#: Multipliers that a row of weights feeds.
ROW = 128
#: Bits of the array's words: a sign, four that decide on a 0, and the magnitude.
WIDTH = 14
MASK_BITS = 4
#: Between the seeds of runs, and all seeds: the golden ratio's fraction of 2^32 bits.
SPACING = 0x9E3779B9
SEEDS = (1 << 32) - 1


def drawn(seed: int) -> Source:
    """Return a source with a software generator: independent numbers for every weight."""

    def perturbation(step: int, layer: Layer, phase: Phase) -> np.ndarray:
        rng = np.random.default_rng([seed, step, *layer.name.encode()])
        shape = layer.outputs, layer.fan_in
        u = rng.integers(-phase.magnitude, phase.magnitude, shape, np.int8, endpoint=True)
        u *= rng.integers(0, 256, shape, np.uint8) >= phase.zeros
        return u

    return perturbation


def buffered(seed: int, *, rows: int) -> Source:
    """Return a source with a buffer of rows, refilled each step, that all weight rows share.

    Row n of a layer takes row n mod ``rows`` of the buffer: any row can be read again.
    """

    def perturbation(step: int, layer: Layer, phase: Phase) -> np.ndarray:
        size = layer.outputs * layer.fan_in
        buffer = Layer(name="buffer", kind="dense", inputs=(1, 1, ROW), outputs=rows)
        found = drawn(seed)(step, buffer, phase)
        repeated = np.resize(found, -(-size // ROW) * ROW)
        return repeated[:size].reshape(layer.outputs, layer.fan_in)

    return perturbation


def _require_bits(phase: Phase) -> None:
    """Refuse a p_zero or a magnitude that random bits do not give."""
    if phase.zeros % GRAIN:
        raise ValueError(f"zeros must be a multiple of {GRAIN} with this source, not {phase.zeros}")
    if phase.magnitude & (phase.magnitude + 1):
        raise ValueError(f"magnitude must be 2^c - 1 with this source, not {phase.magnitude}")


class ArraySource:
    """A source with :class:`~seedbed.golden.urng_array.UrngArray`, of 14 bits at a leap of 3.

    The weights of a layer, output by output, are rows of 128; each row takes the words of a beat.
    A step grows the array from a word of its own. Of a word, bit 13 is the sign, bits 9 to 12
    are at least n where the number is not 0 (p_zero = n / 16), and the lowest bits are the
    magnitude, which is 2^c - 1 at most.

    Parameters
    ----------
    seed
        Of the steps' words.
    config
        :class:`~seedbed.spec.elasticzo.ElasticZoConfig`.
    lanes
        Generators, repeated over a row.
    """

    def __init__(self, seed: int, config: ElasticZoConfig, *, lanes: int):
        self._seed = seed
        self._array = UrngArray(
            UrngConfig(lanes=lanes, width=WIDTH, leap=3, tile=ROW, seeding="grown")
        )
        rows = [-(-layer.outputs * layer.fan_in // ROW) for layer in config.layers]
        starts = np.cumsum([0, *rows])
        self._rows = {
            layer.name: slice(start, start + count)
            for layer, start, count in zip(config.layers, starts.tolist(), rows, strict=False)
        }
        self._total = int(starts[-1])
        self._step: tuple[int, np.ndarray] | None = None

    def __call__(self, step: int, layer: Layer, phase: Phase) -> np.ndarray:
        """Return a layer's perturbation.

        Raises ``ValueError`` for a p_zero or a magnitude that four and c bits cannot give.
        """
        _require_bits(phase)
        if self._step is None or self._step[0] != step:
            word = np.random.default_rng([self._seed, step]).integers(1, 1 << WIDTH)
            self._array.grow(int(word))
            self._step = step, self._array.beats(self._total)
        words = self._step[1][self._rows[layer.name]].reshape(-1)[: layer.outputs * layer.fan_in]
        mask = words >> WIDTH - 1 - MASK_BITS & (1 << MASK_BITS) - 1
        magnitude = (words & phase.magnitude).astype(np.int8)
        magnitude *= mask >= phase.zeros // GRAIN
        found = np.where(words >> WIDTH - 1, magnitude, -magnitude)
        return found.reshape(layer.outputs, layer.fan_in)


class StageSource:
    """A source as :class:`~seedbed.golden.weight_perturb.WeightPerturb` has it.

    Rows are those of the trainer's plan, and all of them are the numbers of a generator that is as
    wide as a row. Steps have the seeds that follow that of the run.

    Parameters
    ----------
    seed
        Of the run, 0 .. 2^32 - 1.
    config
        :class:`~seedbed.spec.elasticzo.ElasticZoConfig`.
    """

    def __init__(self, seed: int, config: ElasticZoConfig):
        core = ZoTrainerConfig(network=config.network)
        self._perturb, self._rows = core.perturb, core.schedule.rows
        # Where the weights of each layer are in all rows.
        places = np.arange(self._rows * core.perturb.count)
        rows = places.reshape(-1, core.ways, core.lanes)
        self._places = network_weights(core.engine.plan, core.layers, rows)
        # Runs with neighbouring seeds have no steps in common.
        self._seed = seed * SPACING
        self._step: tuple[int, np.ndarray] | None = None

    @cache  # noqa: B019
    def _stage(self, bits: int) -> WeightPerturb:
        return WeightPerturb(replace(self._perturb, bits=bits))

    def __call__(self, step: int, layer: Layer, phase: Phase) -> np.ndarray:
        """Return a layer's perturbation.

        Raises ``ValueError`` for a p_zero or a magnitude that four and c bits cannot give.
        """
        _require_bits(phase)
        if self._step is None or self._step[0] != step:
            # Sizes that a generator is known for.
            bits = 4 if phase.magnitude < 16 else 6
            stage = self._stage(bits)
            z = stage.perturbation(
                (self._seed + step) & SEEDS,
                self._rows,
                magnitude=phase.magnitude,
                zeros=phase.zeros // GRAIN,
            )
            self._step = step, z.ravel()
        return self._step[1][self._places[layer.name]]


class RankOneSource:
    """A source as :class:`~seedbed.golden.rank_one.RankOne` has it: z of a layer has rank 1.

    Rows are those of the trainer's plan. Steps have the seeds that follow that of the run.

    Parameters
    ----------
    seed
        Of the run, 0 .. 2^32 - 1.
    config
        :class:`~seedbed.spec.elasticzo.ElasticZoConfig`.
    """

    def __init__(self, seed: int, config: ElasticZoConfig):
        tail = len(config.layers) - config.partition
        core = ZoTrainerConfig(
            network=config.network, tail=tail, perturbation="rank1", magnitude_bits=6
        )
        assert core.rank_one
        self._rank_one = RankOne(core.rank_one)
        outputs, inputs = np.array(core.rank_one.rows).T
        shape = len(outputs), core.ways, core.lanes
        places = {}
        for kind, words, numbers in (
            ("outputs", outputs, np.arange(core.ways)[:, None]),
            ("inputs", inputs, np.arange(core.lanes)),
        ):
            rows = words[:, None, None] * numbers.size + numbers
            rows = np.broadcast_to(rows, shape)
            places[kind] = network_weights(core.engine.plan, core.layers, rows)
        # Where the number of each output and input of a layer is in all words.
        self._outputs = {name: each[:, 0] for name, each in places["outputs"].items()}
        self._inputs = {name: each[0] for name, each in places["inputs"].items()}
        self._seed = seed * SPACING
        self._step: tuple[int, Factors] | None = None

    def __call__(self, step: int, layer: Layer, phase: Phase) -> np.ndarray:
        """Return a layer's perturbation, of magnitude (r_max + 1) / 2.

        Raises ``ValueError`` for a p_zero or a magnitude that four and c bits cannot give.
        """
        _require_bits(phase)
        if self._step is None or self._step[0] != step:
            zeros = phase.zeros // GRAIN
            self._step = step, self._rank_one.factors((self._seed + step) & SEEDS, zeros=zeros)
        found = self._step[1]
        outputs = found.outputs.ravel()[self._outputs[layer.name]] * ((phase.magnitude + 1) // 2)
        inputs = found.inputs.ravel()[self._inputs[layer.name]]
        return (outputs[:, None] * inputs).astype(np.int8)

    def half(self, name: str) -> np.ndarray:
        """Return which inputs of a layer half an update moves, 0 and 1, in the last step drawn."""
        assert self._step
        return self._step[1].half.ravel()[self._inputs[name]]


#: Sources by name, made from a seed and a configuration. ``urng`` repeats 31 generators over a row,
#: as in PeZO; ``urng-row`` has as many as a row, less one. ``buffer`` has 31 rows of the software
#: generator's numbers; ``lutopt`` is the trainer's stage, ``rank1`` its perturbations of rank 1.
SOURCES: dict[str, Callable[[int, ElasticZoConfig], Source]] = {
    "software": lambda seed, config: drawn(seed),
    "buffer": lambda seed, config: buffered(seed, rows=31),
    "urng": lambda seed, config: ArraySource(seed, config, lanes=31),
    "urng-row": lambda seed, config: ArraySource(seed, config, lanes=127),
    "lutopt": StageSource,
    "rank1": RankOneSource,
}
#: Sources that hardware has: p_zero is a multiple of 1 / 16.
HARDWARE = frozenset({"urng", "urng-row", "lutopt", "rank1"})
