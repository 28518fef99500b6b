"""Golden model of the cache of 4-bit activations: an entry's bytes, and the bursts that move it."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec import ForwardCacheConfig

__all__ = ["ForwardCache"]


class ForwardCache:
    """Packs entries into bytes and back, and says which bursts a transfer takes.

    Codes are uint8 of shape (..., sum of the lengths), all vectors of an image one after the other;
    peaks are integers of shape (..., blocks). What lies in front are images.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.
    """

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        # The place of each code among those of whole beats, and each of their blocks.
        lanes = config.beat_bits // 4
        places, blocks, first, block = [], [], 0, 0
        for length, beats in zip(config.lengths, config.vector_beats, strict=True):
            places.append(first + np.arange(length))
            blocks.append(block + np.arange(beats * lanes) // config.block)
            first, block = first + beats * lanes, int(blocks[-1][-1]) + 1
        self._places, self._blocks = np.concatenate(places), np.concatenate(blocks)

    def pack(self, codes: np.ndarray, peaks: np.ndarray) -> np.ndarray:
        """Return entries as bytes, uint8 of shape (..., entry_bytes)."""
        config = self.config
        codes = require_integers("codes", codes, 0, 15)
        peaks = require_integers("peaks", peaks, 0, (1 << config.peak_width) - 1)
        spread = np.zeros((*codes.shape[:-1], len(self._blocks)), np.uint8)
        spread[..., self._places] = codes
        low, high = spread[..., ::2], spread[..., 1::2]
        octets = (low | high << 4).astype(np.uint8)
        bits = (peaks[..., None] >> np.arange(config.peak_width)) & 1
        bits = bits.reshape(*peaks.shape[:-1], -1).astype(np.uint8)
        room = [(0, 0)] * (peaks.ndim - 1) + [(0, config.peak_beats * config.beat_bits)]
        room[-1] = (0, room[-1][1] - bits.shape[-1])
        heads = np.packbits(np.pad(bits, room), axis=-1, bitorder="little")
        return np.concatenate([heads, octets], axis=-1)

    def unpack(self, octets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return codes, uint8, and peaks, int64, of entries of shape (..., entry_bytes)."""
        config = self.config
        octets = require_integers("octets", octets, 0, 255).astype(np.uint8)
        first = config.peak_beats * config.beat_bytes
        body = octets[..., first:]
        spread = np.stack([body & 15, body >> 4], axis=-1).reshape(*body.shape[:-1], -1)
        bits = np.unpackbits(octets[..., :first], axis=-1, bitorder="little")
        bits = bits[..., : config.blocks * config.peak_width].astype(np.int64)
        bits = bits.reshape(*bits.shape[:-1], config.blocks, config.peak_width)
        return spread[..., self._places], (bits << np.arange(config.peak_width)).sum(axis=-1)

    def beats(self, octets: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return entries as beats of a stream: codes (..., beats, lanes) and peaks (..., beats).

        The codes that fill up a vector's last beat of memory are among them.
        """
        body = octets[..., self.config.peak_beats * self.config.beat_bytes :]
        spread = np.stack([body & 15, body >> 4], axis=-1)
        _, peaks = self.unpack(octets)
        return spread.reshape(*body.shape[:-1], -1, lanes), peaks[..., self._blocks[::lanes]]

    def words(self, octets: np.ndarray) -> list[int]:
        """Return the beats of memory of one entry, or of a part of one that is whole beats."""
        size = self.config.beat_bytes
        raw = octets.tobytes()
        return [int.from_bytes(raw[k : k + size], "little") for k in range(0, len(raw), size)]

    def bursts(self, first: int, beats: int) -> list[tuple[int, int]]:
        """Return the bursts, as first beat and number of beats, that a transfer takes."""
        page, found = self.config.page, []
        while beats:
            here = min(beats, page - first % page)
            found.append((first, here))
            first, beats = first + here, beats - here
        return found

    def fetch_bursts(self, index: int) -> list[tuple[int, int]]:
        """Return the bursts that read entry ``index``."""
        return self.bursts(index * self.config.beats, self.config.beats)

    def store_bursts(self, index: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return the bursts that write the codes of entry ``index``, and those of its peaks."""
        config, first = self.config, index * self.config.beats
        codes = self.bursts(first + config.peak_beats, config.code_beats)
        return codes, self.bursts(first, config.peak_beats)
