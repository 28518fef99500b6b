"""Words of a linear generator by the hundred million, for batteries of tests.

A stream is cut into spans that are run side by side, a bit of each in a byte's or a word's place:
the span k begins with the state A^(k T) s of the stream's first state s, for T beats a span.
"""

from collections.abc import Iterator

import numpy as np

from seedbed.golden.exact import whole_product
from seedbed.golden.lutopt import Lutopt, matrix, power
from seedbed.spec import LutoptConfig

__all__ = ["lutopt_beats", "lutopt_source"]

#: Beats of a span.
BEATS = 256
#: Bits of words that are unpacked at a time: bounds the memory.
CHUNK = 1 << 24
#: Spans of the program in C, a bit of a vector each, and beats of each: a multiple of 64.
SPANS, SPAN = 256, 1024
#: The program in C: vectors of bits, and what is after the numbers and the step of a generator.
_VECTOR = "typedef uint64_t vector __attribute__((vector_size(32)));"
_SOURCE = """\
#define WORDS (BEATS * USED / 64)
static uint64_t chunk[SPANS * WORDS];
static size_t at = 2 * SPANS * WORDS;

/* Bit k of word j and bit j of word k change places. */
static void transpose(uint64_t *rows) {
    uint64_t mask = 0xffffffff;
    for (int width = 32; width; width >>= 1, mask ^= mask << width)
        for (int k = 0; k < 64; k = ((k | width) + 1) & ~width) {
            const uint64_t change = (rows[k] >> width ^ rows[k | width]) & mask;
            rows[k] ^= change << width;
            rows[k | width] ^= change;
        }
}

/* The next chunk: the spans one after the other, each as bits without gaps. */
static void refill(void) {
    vector rows[64];
    size_t place = 0;
    for (size_t beat = 0; beat < BEATS; beat++) {
        for (size_t bit = 0; bit < USED; bit++) {
            rows[place++ % 64] = state[bit];
            for (int part = 0; part < SPANS / 64 && place % 64 == 0; part++) {
                uint64_t words[64];
                for (int k = 0; k < 64; k++) words[k] = rows[k][part];
                transpose(words);
                uint64_t *to = chunk + 64 * part * WORDS + place / 64 - 1;
                for (int k = 0; k < 64; k++) to[k * WORDS] = words[k];
            }
        }
        step();
    }
    /* Each span is at the beginning of the next one, and goes to that of the next chunk. */
    vector moved[BITS] = {0};
    for (size_t row = 0; row < BITS; row++)
        for (size_t bit = 0; bit < BITS; bit++)
            if (jump[row][bit / 64] >> bit % 64 & 1) moved[row] ^= state[bit];
    memcpy(state, moved, sizeof moved);
}

static unsigned int next(void) {
    if (at == 2 * SPANS * WORDS) {
        refill();
        at = 0;
    }
    const uint64_t word = chunk[at / 2];
    return (unsigned int)(at++ % 2 ? word >> 32 : word);
}
"""


def _starts(state: np.ndarray, powers: list[np.ndarray]) -> np.ndarray:
    """Return s, A s, A^2 s, ... as columns, of powers A^1, A^2, A^4, ..., uint8."""
    found = state[:, None].astype(np.float32)
    for each in powers:
        found = np.concatenate([found, whole_product(each, found) % 2], axis=1)
    return found.astype(np.uint8)


def _first(config: LutoptConfig) -> np.ndarray:
    """Return the bits of the first state."""
    return ((Lutopt(config).words[:, None] >> np.arange(config.width)) & 1).ravel()


def _rows(bits: np.ndarray) -> list[str]:
    """Return each row of bits as words of 64 bits, the initial values of an array."""
    wide = np.zeros((len(bits), -(-bits.shape[1] // 64) * 64), np.uint8)
    wide[:, : bits.shape[1]] = bits
    words = np.packbits(wide, axis=1, bitorder="little").view("<u8").tolist()
    return [", ".join(f"{word:#x}u" for word in row) for row in words]


def lutopt_source(config: LutoptConfig, lanes: int = 0) -> str:
    """Return C with a function ``next``, which gives words of 32 bits without end.

    They are the words of the first ``lanes`` of a beat, or of all where it is 0, packed without
    gaps, the least significant bit first, from the state of :class:`~seedbed.golden.lutopt.Lutopt`
    on.
    """
    a = matrix(config.rows)
    powers = [power(a, SPAN).astype(np.float32)]
    while 1 << len(powers) < SPANS:
        powers.append(whole_product(powers[-1], powers[-1]) % 2)
    sums = [" ^ ".join(f"s[{tap}]" for tap in row) for row in config.rows]
    return "\n".join(
        [
            f"enum {{ BITS = {config.bits}, USED = {(lanes or config.lanes) * config.width} }};",
            f"enum {{ SPANS = {SPANS}, BEATS = {SPAN} }};",
            _VECTOR,
            "/* Bit k of a vector is of span k. */",
            "static vector state[BITS] = {",
            *(f"    {{{row}}}," for row in _rows(_starts(_first(config), powers))),
            "};",
            "static const uint64_t jump[BITS][(BITS + 63) / 64] = {",
            *(f"    {{{row}}}," for row in _rows(power(a, (SPANS - 1) * SPAN))),
            "};",
            "static void step(void) {",
            "    vector s[BITS];",
            "    memcpy(s, state, sizeof s);",
            *(f"    state[{k}] = {each};" for k, each in enumerate(sums)),
            "}",
            _SOURCE,
        ]
    )


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
    first = _first(config)
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
