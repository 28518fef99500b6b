from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.lfsr import Lfsr, cycle, step
from seedbed.spec import TAPS, LfsrConfig, gf2

WIDTHS = st.integers(2, 24)


def test_published_sequence():
    """SeedLM, Figure 3: K = 3 from seed 4; the seed itself is never output."""
    model = Lfsr(LfsrConfig(width=3, seed=4))
    assert list(islice(model.words(), 7)) == [2, 5, 6, 7, 3, 1, 4]


@pytest.mark.parametrize("width", range(2, 17))
def test_full_period(width):
    """Every non-zero state once, by single steps of the definition, and then the first again."""
    config = LfsrConfig(width=width)
    states = cycle(config, seed=1)
    assert sorted(states.tolist()) == list(range(1, 2**width))
    assert np.array_equal(step(config, states), np.roll(states, -1))


@settings(deadline=None)
@given(width=WIDTHS, leap=st.integers(1, 24), data=st.data())
def test_leap_is_so_many_steps(width, leap, data):
    """The matrix of a leap, a jump ahead and back: all the same as single steps."""
    leap = min(leap, width)
    config = LfsrConfig(width=width, leap=leap)
    seed = data.draw(st.integers(1, config.order))
    state = np.uint32(seed)
    for _ in range(leap):
        state = step(config, state)
    assert gf2.apply(config.matrix, seed) == state
    assert gf2.apply(config.jump(-leap), int(state)) == seed


@settings(deadline=None)
@given(width=WIDTHS, data=st.data())
def test_steps_are_linear(width, data):
    config = LfsrConfig(width=width)
    a, b = (data.draw(st.integers(0, config.order)) for _ in range(2))
    a, b = np.uint32(a), np.uint32(b)
    assert step(config, a ^ b) == step(config, a) ^ step(config, b)


@pytest.mark.parametrize("width", TAPS)
def test_every_width_of_the_table_is_maximal(width):
    config = LfsrConfig(width=width, taps=TAPS[width])
    assert config.order == 2**width - 1


@pytest.mark.parametrize("width", range(2, 13))
def test_order_of_the_matrix_is_the_period_walked(width):
    """The check of custom taps against walking, for every set of taps of one register."""
    maximal = 0
    for mask in range(1, 2 ** min(width, 8)):
        taps = tuple(k for k in range(width) if mask >> k & 1)
        state, steps = 1, 0
        seen = set()
        while state not in seen and state:
            seen.add(state)
            new = sum(state >> tap & 1 for tap in taps) & 1
            state = state >> 1 | new << (width - 1)
            steps += 1
        walked = state == 1 and steps == 2**width - 1
        try:
            LfsrConfig(width=width, taps=taps)
        except ValueError:
            assert not walked, taps
        else:
            assert walked, taps
            maximal += 1
    assert maximal


def test_load_refuses_zero():
    with pytest.raises(ValueError, match=r"seed must be a whole number in 1..255, not 0"):
        Lfsr(LfsrConfig()).load(0)
