from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.lutopt import Lutopt, load_beats, matrix, power
from seedbed.spec import LutoptConfig
from seedbed.spec.lutopt import DRAWS, SEED_BITS, SEED_LEAST, WARM_UP, expansion

SMALL = LutoptConfig(lanes=8, width=5)
SEEDED = LutoptConfig(lanes=32, width=5, seeding="word")
SIZES = [LutoptConfig(lanes=n, width=b, taps=t) for n, b, t in DRAWS]
WIDE = [config for config in SIZES if config.bits >= SEED_LEAST]


def reference(config, words, beats):
    """The definition, bit by bit."""
    width = config.width
    state = [word >> i & 1 for word in words for i in range(width)]
    rows = []
    for _ in range(beats):
        rows.append(
            [
                sum(state[lane * width + i] << i for i in range(width))
                for lane in range(config.lanes)
            ]
        )
        state = [sum(state[tap] for tap in taps) % 2 for taps in config.rows]
    return rows


@settings(deadline=None)
@given(
    words=st.lists(st.integers(0, 31), min_size=8, max_size=8).filter(any),
    beats=st.integers(1, 40),
)
def test_beats_are_the_definition(words, beats):
    model = Lutopt(SMALL)
    model.load(words)
    assert model.words.tolist() == words
    assert model.beats(beats).tolist() == reference(SMALL, words, beats)


@pytest.mark.parametrize("config", SIZES, ids=lambda c: f"{c.lanes}x{c.width}")
def test_one_lut_a_bit(config):
    """At most three taps and the load; every chain is a tap; every bit is read three times."""
    reads = [0] * config.bits
    for bit, taps in enumerate(config.rows):
        first = bit % config.width == 0
        assert len(set(taps)) == len(taps) == config.taps - first
        assert first or bit - 1 in taps
        for tap in taps:
            reads[tap] += 1
    ends = {bit for bit in range(config.bits) if bit % config.width == config.width - 1}
    assert all(count == 3 - (bit in ends) for bit, count in enumerate(reads))


def test_period_of_the_smallest():
    """All 65,535 states that are not zero occur."""
    config = LutoptConfig(lanes=4, width=4)
    beats = Lutopt(config).beats(config.period + 1)
    states = beats @ (1 << 4 * np.arange(4))
    assert np.array_equal(np.unique(states[:-1]), np.arange(1, 65536))
    assert states[0] == states[-1]


@pytest.mark.parametrize("config", [SMALL, LutoptConfig()], ids=str)
def test_jump_ahead(config):
    model, other = Lutopt(config), Lutopt(config)
    start = model.words
    beats = model.beats(1000)
    for target in (999, 3, 500):
        other.load(start)
        other.jump(target)
        assert other.words.tolist() == beats[target].tolist()


def test_jump_back():
    model = Lutopt(SMALL)
    start = model.words
    model.jump(-500)
    assert not np.array_equal(model.words, start)
    assert np.array_equal(model.beats(501)[-1], start)
    model.load(start)
    model.jump(SMALL.period)
    model.jump(2**100)
    model.jump(-(2**100))
    assert np.array_equal(model.words, start)


def test_power_of_a_matrix():
    a = matrix(SMALL.rows)
    assert np.array_equal(power(a, 0), np.eye(40))
    assert np.array_equal(power(a, 5), np.linalg.matrix_power(a.astype(np.int64), 5) % 2)
    assert np.array_equal(power(a, SMALL.period), np.eye(40))


def test_load_beats_are_a_shift_chain():
    words = [3, 30, 0, 1, 17, 8, 31, 5]
    lanes = [0] * 8
    for beat in load_beats(SMALL, words):
        lanes = [(word << 1 | beat >> k & 1) & 31 for k, word in enumerate(lanes)]
    assert lanes == words


def expanded(config):
    """Each state bit as a mask of bits of the expanding generator's state, by its beats."""
    state = [1 << bit for bit in range(SEED_BITS + 1)]
    serial = []
    for _ in range(WARM_UP + config.width):
        beat = []
        for taps in config.serial_taps:
            mask = 0
            for tap in taps:
                mask ^= state[tap]
            beat.append(mask)
        serial.append(beat)
        state = [np.bitwise_xor.reduce([state[tap] for tap in taps]).item() for taps in expansion()]
    return [serial[-1 - i][lane] for lane in range(config.lanes) for i in range(config.width)]


def rank(masks):
    """The rank over GF(2), by elimination."""
    basis = []
    for mask in masks:
        for other in basis:
            mask = min(mask, mask ^ other)
        if mask:
            basis.append(mask)
    return len(basis)


@pytest.mark.parametrize("config", WIDE, ids=lambda c: f"{c.lanes}x{c.width}")
def test_no_seed_word_gives_the_zero_state_and_no_two_the_same(config):
    """The 33 bits that expand, one of which is 1, are a function of the state."""
    masks = expanded(config)
    assert rank(masks) == SEED_BITS + 1
    # No bit is constant or repeats another one.
    assert len(set(masks) | {0}) == config.bits + 1
    # Half of the state depends on each bit of the seed word.
    for bit in range(SEED_BITS):
        share = sum(mask >> bit & 1 for mask in masks) / config.bits
        assert abs(share - 0.5) < 2.5 / config.bits**0.5


@settings(deadline=None, max_examples=20)
@given(word=st.integers(0, 2**32 - 1))
def test_seed_is_the_expansion(word):
    model = Lutopt(SEEDED)
    model.seed(word)
    bits = [((word | 1 << SEED_BITS) & mask).bit_count() & 1 for mask in expanded(SEEDED)]
    words = [sum(bits[lane * 5 + i] << i for i in range(5)) for lane in range(32)]
    assert model.words.tolist() == words


@pytest.mark.parametrize("config", SIZES, ids=lambda c: f"{c.lanes}x{c.width}")
def test_state_after_reset(config):
    """It is that of seed word 0, computed by the configuration, too."""
    assert tuple(Lutopt(config).words.tolist()) == config.reset_state
    assert any(config.reset_state)


def test_anchor():
    """The first lanes of 31 x 14 from seed word 1: they must never change."""
    model = Lutopt(LutoptConfig())
    model.seed(1)
    assert model.beats(2)[:, :4].tolist() == [
        [5097, 13707, 8393, 11798],
        [7127, 239, 15638, 5783],
    ]


def test_lanes_are_not_correlated():
    words = Lutopt(LutoptConfig()).beats(30_000).astype(float)
    for lag in (0, 1, 2):
        r = np.corrcoef(words[: 30_000 - lag].T, words[lag:].T)[:31, 31:]
        if not lag:
            r = np.array([r[a, b] for a, b in combinations(range(31), 2)])
        assert abs(r).max() < 5 / 30_000**0.5


def test_refuses():
    model = Lutopt(SMALL)
    with pytest.raises(ValueError, match="must not all be 0"):
        model.load([0] * 8)
    with pytest.raises(ValueError, match="8 lanes need as many words, not 7"):
        model.load([1] * 7)
    with pytest.raises(ValueError, match=r"words must be a whole number in 0..31, not 32"):
        model.load([32] * 8)
    with pytest.raises(ValueError, match=r"seed must be a whole number in 0..4294967295, not -1"):
        Lutopt(SEEDED).seed(-1)
    with pytest.raises(ValueError, match="a seed word needs 64 bits or more, not 16"):
        Lutopt(LutoptConfig(lanes=4, width=4)).seed(1)
