"""Words of a linear generator by the hundred million, for batteries of tests.

A stream is cut into spans that are run side by side, a bit of each in a byte's place: the span k
begins with the state A^(k T) s of the stream's first state s, for T beats a span.
"""

from collections.abc import Iterator

import numpy as np

from seedbed.golden.exact import whole_product
from seedbed.golden.lutopt import Lutopt, matrix, power
from seedbed.spec import LutoptConfig

__all__ = ["lutopt_beats"]

#: Beats of a span.
BEATS = 256
#: Bits of words that are unpacked at a time: bounds the memory.
CHUNK = 1 << 24


def _starts(state: np.ndarray, powers: list[np.ndarray]) -> np.ndarray:
    """Return s, A s, A^2 s, ... as columns, of powers A^1, A^2, A^4, ..., uint8."""
    found = state[:, None].astype(np.float32)
    for each in powers:
        found = np.concatenate([found, whole_product(each, found) % 2], axis=1)
    return found.astype(np.uint8)


def lutopt_beats(config: LutoptConfig, lanes: int = 0) -> Iterator[np.ndarray]:
    """Yield the beats of :class:`~seedbed.golden.lutopt.Lutopt` in chunks.

    Chunks are uint32 of shape (beats, lanes): the words of the first ``lanes`` of a beat, or of all
    where it is 0. The beats of a chunk are a multiple of 2,048.
    """
    lanes = lanes or config.lanes
    spans = max(8, 1 << (CHUNK // (BEATS * lanes * config.width)).bit_length() - 1)
    powers = [power(matrix(config.rows), BEATS).astype(np.float32)]
    while 1 << len(powers) <= spans:
        powers.append(whole_product(powers[-1], powers[-1]) % 2)
    # The state has one more row of zeros, in place of missing taps.
    most = max(map(len, config.rows))
    taps = [
        np.array([row[k] if k < len(row) else config.bits for row in config.rows])
        for k in range(most)
    ]
    weights = (1 << np.arange(config.width)).astype(np.uint32)
    bits = lanes * config.width
    first = ((Lutopt(config).words[:, None] >> np.arange(config.width)) & 1).ravel()
    state = np.zeros((config.bits + 1, spans // 8), np.uint8)
    seen = np.empty((BEATS, bits, spans // 8), np.uint8)
    while True:
        state[:-1] = np.packbits(_starts(first, powers[:-1]), axis=1)
        for row in seen:
            row[:] = state[:bits]
            new = state[taps[0]]
            for each in taps[1:]:
                new ^= state[each]
            state[:-1] = new
        unpacked = np.unpackbits(seen, axis=2).reshape(BEATS, lanes, config.width, spans)
        words = sum(unpacked[:, :, k] * weight for k, weight in enumerate(weights))
        yield np.ascontiguousarray(words.transpose(2, 0, 1)).reshape(-1, lanes)
        first = whole_product(powers[-1], first[:, None].astype(np.float32))[:, 0] % 2
