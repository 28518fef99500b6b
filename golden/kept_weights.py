"""Kept weights that are tuned in memory: random signs, and what they change."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.engine_image import EngineImage
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.stream_engine import Integers, KeptWeights
from seedbed.spec.engine_records import KEPT
from seedbed.spec.stream_engine import StreamEngineConfig

__all__ = ["KeptTuner", "fraction_bits", "signs", "take_values", "trainable", "tuned"]


def signs(config: StreamEngineConfig, seed: int, beats: int) -> np.ndarray:
    """Return z, +1 or -1 for each entry of some beats of kept weights: int64.

    z is +1 where a bit is 1. The bits of a beat are the lowest ones of a word of the generator.
    """
    generator = Lfsr(config.signs)
    generator.load(seed)
    words = np.fromiter(generator.words(), np.int64, beats)
    return ((words[:, None] >> np.arange(config.signs.leap) & 1) * 2 - 1).ravel()


def tuned(config: StreamEngineConfig, words: np.ndarray, *, seed: int, delta: int) -> np.ndarray:
    """Return entries of whole beats, uint32, after a command to tune them.

    A value v of an entry that can be tuned becomes ``clamp(v + delta z)``. Other entries, such as
    those that fill a beat, stay as they are.
    """
    low, most = KEPT["difference"], KeptWeights.peak
    delta = int(require_integers("delta", delta, -most, most - 1))
    z = signs(config, seed, len(words) // config.signs.leap)
    values = words.astype(np.uint16).view(np.int16) + delta * z
    changed = np.clip(values, -most, most - 1) & 2 * most - 1 | words >> low << low
    return np.where(words >> low + KEPT["column"] & 1, changed, words).astype(np.uint32)


def fraction_bits(parameters: Mapping[str, Integers], most: int) -> int:
    """Return the most fraction bits, up to ``most``, with which all kept weights can be tuned."""
    peaks = [
        int(np.abs(of.weights.astype(np.int64) - of.trellis.weights()).max(initial=1))
        for of in parameters.values()
        if of.trellis
    ]
    return min(most, ((KeptWeights.peak - 1) // max(peaks, default=1)).bit_length() - 1)


def trainable(parameters: Mapping[str, Integers], fraction: int) -> dict[str, Integers]:
    """Return parameters whose kept weights have fraction bits, so that they can be tuned.

    Raises ``ValueError`` for a kept weight that is then too great.
    """
    found = dict(parameters)
    for name, of in parameters.items():
        if of.trellis is None:
            continue
        weights = of.trellis.weights()
        differences = of.weights.astype(np.int64) - weights
        rows, columns = np.nonzero(differences)
        values = differences[rows, columns] << fraction
        most = KeptWeights.peak - 1 >> fraction
        if (np.abs(differences) > most).any():
            raise ValueError(
                f"kept weights of {name} must differ by at most {most} from its trellis code with "
                f"{fraction} fraction bits"
            )
        kept = KeptWeights(rows=rows, columns=columns, values=values, fraction=fraction)
        found[name] = replace(of, weights=weights, kept=kept if len(rows) else None)
    return found


def take_values(
    config: StreamEngineConfig, parameters: Mapping[str, Integers], image: EngineImage,
    words: np.ndarray,
) -> None:  # fmt: skip
    """Give kept weights of parameters the values of all entries of an image, uint32."""
    values = words.astype(np.uint16).view(np.int16)
    for name, beat in image.kept.items():
        kept = parameters[name].kept
        assert kept
        first = beat * config.signs.leap
        kept.values[:] = values[first : first + len(kept.values)]


class KeptTuner:
    """Tunes the kept weights of a program as the core tunes those of its image.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.
    parameters
        Those of the program. Values of their kept weights are changed in place.
    image
        Of the program.
    """

    def __init__(
        self, config: StreamEngineConfig, parameters: Mapping[str, Integers], image: EngineImage
    ):
        self.config, self.parameters, self.image = config, parameters, image
        beats = image.beats[slice(*image.tuned)]
        #: All entries, those of each matrix from a beat of its own on.
        self.words = np.frombuffer(image_bytes(config, beats), "<u4")

    def tune(self, *, seed: int, delta: int) -> None:
        """Add +delta or -delta to each value."""
        self.words = tuned(self.config, self.words, seed=seed, delta=delta)
        take_values(self.config, self.parameters, self.image, self.words)
