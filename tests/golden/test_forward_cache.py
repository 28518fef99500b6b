"""The forward cache's layout: the paper's size, whole beats, and back again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.forward_cache import ForwardCache
from seedbed.golden.nf4 import Nf4
from seedbed.spec import ForwardCacheConfig, Nf4Config
from seedbed.spec.instantft import InstantFtConfig

CONFIG = ForwardCacheConfig()
SMALL = ForwardCacheConfig(
    lengths=(20, 3, 64), entries=100, block=16, peak_width=8, beat_bits=64, store_lanes=4, burst=4
)


def drawn(config, *images, seed=1):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 16, (*images, sum(config.lengths)), np.uint8)
    return codes, rng.integers(0, 1 << config.peak_width, (*images, config.blocks))


def test_size_is_the_papers():
    """InstantFT, section 5.5: 7.33 MB become 1.02 MB, 7.20 times less."""
    assert CONFIG.beats == 62
    assert CONFIG.entry_bytes == 992
    assert CONFIG.bytes == 1_015_808
    exact = 4 * sum(CONFIG.lengths) * CONFIG.entries
    assert round(exact / 1e6, 2) == 7.33
    assert round(CONFIG.bytes / 1e6, 2) == 1.02
    assert round(exact / CONFIG.bytes, 1) == 7.2


def test_lengths_are_those_of_the_network():
    assert CONFIG.lengths == InstantFtConfig().cached


def test_an_entry_by_hand():
    config = ForwardCacheConfig(
        lengths=(3, 9), entries=2, block=8, beat_bits=32, store_lanes=2, fetch_lanes=4
    )
    codes = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], np.uint8)
    packed = ForwardCache(config).pack(codes, np.array([0x1234, 0xABCD, 0x00FF]))
    assert packed.tobytes().hex() == "3412cdab ff000000 21030000 54769 8ba 0c000000".replace(
        " ", ""
    )
    assert config.block_ends == (True, True, True)


def test_a_vectors_beats_end_its_block():
    assert SMALL.vector_beats == (2, 1, 4)
    assert SMALL.vector_blocks == (2, 1, 4)
    config = ForwardCacheConfig(lengths=(70, 3), block=32, beat_bits=64, store_lanes=8)
    assert config.block_ends == (False, True, False, True, True, True)


@pytest.mark.parametrize("config", [CONFIG, SMALL])
@pytest.mark.parametrize("images", [(), (3,), (2, 2)])
def test_there_and_back(config, images):
    model = ForwardCache(config)
    codes, peaks = drawn(config, *images)
    packed = model.pack(codes, peaks)
    assert packed.shape == (*images, config.entry_bytes)
    again = model.unpack(packed)
    np.testing.assert_array_equal(again[0], codes)
    np.testing.assert_array_equal(again[1], peaks)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_beats_are_the_bytes_and_each_has_its_peak(lanes):
    model = ForwardCache(SMALL)
    codes, peaks = drawn(SMALL, 2)
    packed = model.pack(codes, peaks)
    beats, repeated = model.beats(packed, lanes)
    assert beats.shape == (2, SMALL.code_beats * 16 // lanes, lanes)
    body = packed[:, SMALL.peak_beats * 8 :]
    flat = beats.reshape(2, -1)
    np.testing.assert_array_equal(flat[:, ::2] | flat[:, 1::2] << 4, body)
    # A block is a beat of memory here.
    np.testing.assert_array_equal(repeated, np.repeat(peaks, 16 // lanes, axis=1))


def test_quantised_activations_survive():
    nf4 = Nf4(Nf4Config(block=CONFIG.block))
    rng = np.random.default_rng(3)
    vectors = [rng.integers(-60000, 60000, (2, length)) for length in CONFIG.lengths]
    codes, peaks = zip(*map(nf4.quantise, vectors), strict=True)
    model = ForwardCache(CONFIG)
    packed = model.pack(np.concatenate(codes, axis=1), np.concatenate(peaks, axis=1))
    codes, peaks = model.unpack(packed)
    places = np.cumsum(CONFIG.lengths)[:-1], np.cumsum(CONFIG.vector_blocks)[:-1]
    for vector, c, p in zip(
        vectors, np.split(codes, places[0], axis=1), np.split(peaks, places[1], axis=1), strict=True
    ):
        np.testing.assert_array_equal(nf4.dequantise(c, p), nf4.through(vector))


@settings(deadline=None)
@given(st.integers(0, 9999), st.integers(1, 700), st.sampled_from([2, 16, 256]))
def test_bursts_cover_a_part_and_cross_nothing(first, beats, burst):
    config = ForwardCacheConfig(burst=burst)
    bursts = ForwardCache(config).bursts(first, beats)
    found = [at + k for at, count in bursts for k in range(count)]
    assert found == list(range(first, first + beats))
    for at, count in bursts:
        assert 1 <= count <= burst
        assert at * 16 // 4096 == ((at + count) * 16 - 1) // 4096
    assert len(bursts) <= config.most_bursts(beats)


def test_transfers_of_an_entry():
    model = ForwardCache(CONFIG)
    assert model.fetch_bursts(0) == [(0, 62)]
    assert model.fetch_bursts(4) == [(248, 8), (256, 54)]
    assert model.store_bursts(4) == ([(252, 4), (256, 54)], [(248, 4)])
