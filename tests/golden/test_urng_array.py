import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.lfsr import step
from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.spec import UrngConfig, gf2

CONFIGS = st.builds(
    UrngConfig,
    lanes=st.sampled_from([3, 7, 15]),
    width=st.integers(4, 12),
    leap=st.integers(1, 4),
)


def reference(config, seeds, beats):
    """The definition, beat by beat: position j at time t shows generator (j + t) mod n."""
    states, n, rows = np.array(seeds, np.uint32), config.lanes, []
    for t in range(beats):
        rows.append([int(states[(j + t) % n]) for j in range(n)])
        for _ in range(config.leap):
            states = step(config.lfsr, states)
    return rows


@settings(deadline=None)
@given(config=CONFIGS, data=st.data())
def test_beats_are_the_definition(config, data):
    seed = st.integers(1, config.lfsr.order)
    seeds = data.draw(st.lists(seed, min_size=config.lanes, max_size=config.lanes))
    beats = data.draw(st.integers(1, 60))
    model = UrngArray(config)
    model.load(seeds)
    assert model.beats(beats).tolist() == reference(config, seeds, beats)


@settings(deadline=None)
@given(config=CONFIGS, word=st.integers(1, 15), parts=st.lists(st.integers(1, 40), max_size=5))
def test_parts_make_the_whole(config, word, parts):
    """Beats do not depend on how many are requested at a time; a replay repeats them."""
    model = UrngArray(config)
    model.grow(word)
    pieces = [model.beats(count) for count in parts]
    model.grow(word)
    whole = model.beats(sum(parts))
    assert [row for piece in pieces for row in piece.tolist()] == whole.tolist()


@given(config=CONFIGS, data=st.data())
@settings(deadline=None)
def test_seed_beats_are_shifted_to_their_lanes(config, data):
    """Shifting the beats in with rotation, as the hardware does, gives the seeds."""
    seeds = [data.draw(st.integers(1, config.lfsr.order)) for _ in range(config.lanes)]
    states = [0] * config.lanes
    for beat in seed_beats(config, seeds):
        states = [
            states[(lane + 1) % config.lanes] >> 1 | (beat >> lane & 1) << (config.width - 1)
            for lane in range(config.lanes)
        ]
    assert states == seeds


#: Every size up to 8 bits, with every leap; and larger ones, some whose lanes divide the states.
SIZES = [
    UrngConfig(lanes=2**k - 1, width=width, leap=leap)
    for width in range(4, 9)
    for k in range(2, width + 1)
    for leap in range(1, width + 1)
]
LARGER = [(31, 10), (7, 12), (63, 12), (31, 14)]


def repeats_after(config, seeds):
    """Return the period in beats: a beat is the whole state."""
    model = UrngArray(config)
    model.load(list(seeds))
    beats = model.beats(config.lanes * config.lfsr.order + 1)
    return int(np.flatnonzero((beats[1:] == beats[0]).all(axis=1))[0]) + 1


@pytest.mark.parametrize("width", range(4, 9))
def test_period(width):
    """The least common multiple of the rotation's and a generator's, also with grown phases."""
    for config in (size for size in SIZES if size.width == width):
        assert len(set(config.seeds)) == config.lanes, config
        assert repeats_after(config, config.seeds) == config.period, config
        word = config.lfsr.order // 2
        assert repeats_after(config, config.grow(word)) == config.period, config


@pytest.mark.parametrize(("lanes", "width"), LARGER)
def test_period_of_larger_arrays(lanes, width):
    config = UrngConfig(lanes=lanes, width=width)
    assert repeats_after(config, config.seeds) == config.period


def test_period_is_not_the_papers():
    """n (2^b - 1) without a common factor: not n 2^b, as the paper has it."""
    assert UrngConfig().period == 31 * 255
    assert UrngConfig(lanes=15).period == 255


@pytest.mark.parametrize("width", range(4, 9))
def test_phases_are_even_wherever_that_has_the_full_period(width):
    """Seeds are evenly spaced unless evenly spaced ones repeat early."""
    for config in (size for size in SIZES if size.width == width):
        order, even = config.lfsr.order, config.lfsr.order // config.lanes
        jump = config.lfsr.jump(even)
        seeds = [1]
        while len(seeds) < config.lanes:
            seeds.append(gf2.apply(jump, seeds[-1]))
        assert (config.seeds == tuple(seeds)) == (repeats_after(config, seeds) == config.period)
        assert config.spacing == even or order % config.lanes == 0


def test_default_seeds_are_evenly_spaced_and_distinct():
    config = UrngConfig(width=14)
    model = UrngArray(config)
    places = model._phases
    assert np.diff(places).tolist() == [16383 // 31] * 30
    assert len(set(config.seeds)) == 31


def test_tile_repeats_the_lanes():
    plain, tiled = UrngArray(UrngConfig(lanes=7)), UrngArray(UrngConfig(lanes=7, tile=17))
    beats, wide = plain.beats(20), tiled.beats(20)
    assert wide.shape == (20, 17)
    assert np.array_equal(wide, beats[:, np.arange(17) % 7])


def test_chunks_are_the_beats():
    config = UrngConfig(lanes=7, width=10)
    beats = UrngArray(config).beats(5000)
    chunks = list(UrngArray(config).chunks(35_000))
    assert max(len(chunk) for chunk in chunks) < 5000
    assert np.array_equal(np.concatenate(chunks), beats)


def test_zero_is_refused_or_repaired():
    config = UrngConfig(lanes=3, width=4)
    with pytest.raises(
        ValueError, match=r"every one of seeds must be a whole number in 1..15, not 0"
    ):
        UrngArray(config).load([1, 0, 2])
    repaired = UrngArray(UrngConfig(lanes=3, width=4, repair=True))
    repaired.load([1, 0, 2])
    assert repaired.beats(1).tolist() == [[1, 8, 2]]


def test_wrong_number_of_seeds():
    with pytest.raises(ValueError, match="3 lanes need as many seeds, not 2"):
        UrngArray(UrngConfig(lanes=3)).load([1, 2])
