"""NF4: the published levels, the nearest level, and peaks that no number exceeds."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.nf4 import Nf4, through
from seedbed.spec.fixed import Q6_12, Q8_16, Fixed
from seedbed.spec.nf4 import NF4_LEVELS, Nf4Config

CONFIGS = [
    Nf4Config(),
    Nf4Config(values=Q8_16),
    Nf4Config(block=7),
    Nf4Config(block=3, values=Fixed(12, 8), peak_width=8, level_fraction=10),
    Nf4Config(block=5, values=Fixed(16, 10), peak_width=15, level_fraction=8),
]
FORMATS = pytest.mark.parametrize("form", [Q6_12, Q8_16], ids=str)


def test_levels_are_quantiles_of_a_normal_distribution():
    """QLoRA's construction: evenly spaced quantiles of each half, a common zero, scaled to 1."""
    offset = 1 - (1 / 32 + 1 / 30) / 2
    upper = [NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 9)]
    lower = [-NormalDist().inv_cdf(p) for p in np.linspace(offset, 0.5, 8)[:-1]]
    levels = np.sort(upper + lower)
    np.testing.assert_allclose(levels / levels.max(), NF4_LEVELS, atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS)
def test_codes_are_the_nearest_levels(config):
    rng = np.random.default_rng(1)
    form = config.values
    x = (rng.laplace(0, form.high / 12, (20, 100)) * rng.random((20, 1))).astype(int)
    x = np.clip(x, form.low, form.high)
    codes, peaks = Nf4(config).quantise(x)
    assert codes.shape == x.shape
    assert peaks.shape == (20, config.blocks(100))
    scaled_peaks = np.repeat(peaks, config.block, axis=1)[:, :100]
    levels = np.array(config.levels) << config.shift
    distances = np.abs((x << config.level_fraction)[..., None] - scaled_peaks[..., None] * levels)
    taken = np.take_along_axis(distances, codes[..., None].astype(int), axis=-1)[..., 0]
    np.testing.assert_array_equal(taken, distances.min(axis=-1))


@pytest.mark.parametrize("config", CONFIGS)
def test_peaks_are_the_least_that_no_number_exceeds(config):
    rng = np.random.default_rng(2)
    unit, last = 1 << config.shift, (1 << config.peak_width) - 1
    x = rng.integers(-last * unit, last * unit + 1, (50, config.block)) // rng.integers(1, 99)
    _, peaks = Nf4(config).quantise(x)
    greatest = np.abs(x).max(axis=1)
    assert (peaks[:, 0] * unit >= greatest).all()
    assert ((peaks[:, 0] - 1) * unit < greatest).all()


def test_the_format_limits_do_not_overflow():
    for config in CONFIGS:
        form, model = config.values, Nf4(config)
        x = np.array([form.low, form.high, 0])[:, None]
        codes, peaks = model.quantise(x)
        assert peaks.max() == (1 << config.peak_width) - 1
        back = model.dequantise(codes, peaks)
        assert codes[0, 0] == 0
        assert codes[1, 0] == 15
        assert back[2, 0] == 0
        np.testing.assert_allclose(back[:2, 0], x[:2, 0], atol=1 << config.shift)
        assert form.low <= back.min() <= back.max() <= form.high


@pytest.mark.parametrize(("form", "peak", "tolerance"), [(Q6_12, 2048, 1), (Q8_16, 512, 3)])
def test_a_worked_block(form, peak, tolerance):
    """Peak 1.0 is 2,048 units of 2^-11 or 512 of 2^-9; levels come back to 2^-15 and rounding."""
    config = Nf4Config(block=17, values=form)
    exact = np.array([round(level * form.one) for level in NF4_LEVELS])
    codes, peaks = Nf4(config).quantise(exact)
    assert peaks.tolist() == [peak]
    assert codes.tolist() == list(range(16))
    np.testing.assert_allclose(Nf4(config).dequantise(codes, peaks), exact, atol=tolerance)


def test_equal_distances_go_to_the_lower_level():
    """Levels of two fractional bits are multiples of 1/4, so that their middles occur."""
    config = Nf4Config(block=2, values=Fixed(12, 8), peak_width=11, level_fraction=6)
    assert config.shift == 0
    c = 9
    middle = sum(config.levels[c : c + 2])
    codes, _ = Nf4(config).quantise(np.array([[middle, 128], [middle + 1, 128]]))
    assert codes[:, 0].tolist() == [c, c + 1]


@FORMATS
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_dequantised_numbers_are_close(form, data):
    """Within half the widest gap of levels times the peak, plus the rounding."""
    numbers = data.draw(st.lists(st.integers(form.low, form.high), min_size=1, max_size=150))
    config, x = Nf4Config(values=form), np.array(numbers)
    codes, peaks = Nf4(config).quantise(x)
    scaled_peaks = np.repeat(peaks, config.block)[: len(x)] << config.shift
    error = np.abs(Nf4(config).dequantise(codes, peaks) - x)
    assert (error <= 0.1520 * scaled_peaks + (1 << config.shift)).all()


@FORMATS
def test_real_numbers_give_the_same_result(form):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 100))
    ours = Nf4(Nf4Config(values=form)).through(np.rint(x * form.one).astype(int)) / form.one
    real = through(x, 64)
    assert (np.abs(ours - real) < 0.004).mean() > 0.98
    assert not through(np.zeros((2, 70)), 64).any()


def test_bits_of_a_vector():
    config = Nf4Config()
    assert [config.blocks(n) for n in (1, 64, 65, 1176)] == [1, 1, 2, 19]
    assert config.bits(65) == 65 * 4 + 2 * 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block": 0}, r"block must be in 1\.\.4096, not 0"),
        ({"peak_width": 18}, r"peak_width must be in 4\.\.17, not 18"),
        ({"peak_width": 3}, r"peak_width must be in 4\.\.17, not 3"),
        ({"peak_width": 24, "values": Q8_16}, r"peak_width must be in 4\.\.23, not 24"),
        ({"level_fraction": 5}, r"level_fraction must be in 6\.\.16, not 5"),
        (
            {"peak_width": 10, "level_fraction": 6},
            "10 is 7 less than 17, but level_fraction is 6",
        ),
        (
            {"peak_width": 8, "values": Q8_16},
            "8 is 15 less than 23, but level_fraction is 14",
        ),
        ({"values": Fixed(33, 16)}, r"the values' width must be in 5\.\.32, not 33"),
    ],
)
def test_bad_configurations(change, message):
    with pytest.raises(ValueError, match=message):
        Nf4Config(**change)


def test_bad_formats():
    with pytest.raises(ValueError, match=r"fraction must be in 0\.\.15, not 16"):
        Fixed(16, 16)
    with pytest.raises(TypeError, match="width must be an integer"):
        Fixed(16.0, 2)
    assert [str(form) for form in (Q6_12, Q8_16)] == ["Q6.12", "Q8.16"]
