import numpy as np
import pytest

from seedbed.flow.report import model_figures
from seedbed.flow.report.model_figures import correlation, scales, speed
from seedbed.golden.lutopt import Lutopt
from seedbed.spec import LutoptConfig, ScaleConfig, UrngConfig


def literal(config, lag, lane, other):
    """r of two lanes, from the bit-serial definition of the array and of r."""
    n, b = config.lanes, config.width
    states = list(config.seeds)
    table = []
    for _ in range(config.period + lag):
        table.append(list(states))
        states = states[1:] + states[:1]
        for _ in range(config.leap):
            states = [
                s >> 1 | (sum(s >> tap for tap in config.taps) & 1) << (b - 1) for s in states
            ]
    x = [row[lane] - 2 ** (b - 1) for row in table]
    y = [row[other] - 2 ** (b - 1) for row in table]
    assert len(x) == config.period + lag
    assert n > max(lane, other)
    return np.corrcoef(x[: config.period], y[lag:])[0, 1]


@pytest.mark.parametrize("leap", [1, 5])
def test_correlations_match_the_definition(leap):
    config = UrngConfig(lanes=7, width=5, leap=leap)
    found = correlation(config, lags=3)
    assert found["beats"] == config.period == 217
    lanes = range(7)
    for k in (1, 2, 3):
        own = [abs(literal(config, k, j, j)) for j in lanes]
        assert found["lane_by_lag"][k - 1] == pytest.approx(max(own))
        pairs = [abs(literal(config, k, a, b)) for a in lanes for b in lanes]
        assert found["any_pair_by_lag"][k - 1] == pytest.approx(max(pairs))
    apart = [abs(literal(config, 0, a, b)) for a in lanes for b in lanes if a != b]
    assert found["lane_to_lane"] == pytest.approx(max(apart))
    assert found["lane_autocorrelation"] == max(found["lane_by_lag"])


def test_a_generator_is_followed_through_the_rotation():
    """Words one bit-serial step apart share all bits but one: r halves with every step."""
    config = UrngConfig(lanes=7, width=10)
    found = correlation(config, lags=4)["generator_by_lag"]
    assert found == pytest.approx([0.5, 0.25, 0.125, 0.0625], abs=0.01)


def test_leap_of_the_width_removes_it():
    found = correlation(UrngConfig(lanes=7, width=10, leap=10))
    assert found["generator_autocorrelation"] < 0.01
    assert found["any_pair"] < 0.01


def test_a_beat_that_comes_again_on_other_lanes_is_seen():
    """At 31 lanes of 8 bits the leap is the spacing: lane j shows what lane j + 2 showed."""
    found = correlation(UrngConfig(leap=8))
    assert found["lane_autocorrelation"] < 0.03
    assert found["any_pair"] > 0.9


def test_long_periods_are_cut_and_chunks_join(monkeypatch):
    config = UrngConfig(lanes=7, width=10)
    whole = correlation(config, lags=2, limit=7 * 1000)
    assert whole["beats"] == 1000
    monkeypatch.setattr(model_figures, "CHUNK", 64)
    pieces = correlation(config, lags=2, limit=7 * 1000)
    assert pieces["any_pair_by_lag"] == pytest.approx(whole["any_pair_by_lag"])
    assert pieces["generator_by_lag"] == pytest.approx(whole["generator_by_lag"])


def test_correlations_of_many_words_are_added_up(monkeypatch):
    monkeypatch.setattr(model_figures, "CHUNK", 700)
    config = LutoptConfig(lanes=8, width=5)
    found = model_figures.linear_correlation(config, lags=2, limit=8 * 5000)
    words = Lutopt(config).beats(5002).astype(float)
    centred = words - words[:5000].mean(axis=0)
    deviation = np.sqrt((centred[:5000] ** 2).sum(axis=0))
    for k in (0, 1, 2):
        r = centred[:5000].T @ centred[k : k + 5000] / np.outer(deviation, deviation)
        most = abs(r).max() if k else abs(r - np.eye(8)).max()
        assert most == pytest.approx(
            found["any_pair_by_lag"][k - 1] if k else found["lane_to_lane"]
        )
    assert found["beats"] == 5000


def test_scales_of_the_paper_are_almost_always_one():
    found = scales(ScaleConfig(lanes=31, width=14, rounding="ratio"))
    assert found["exponents"] == "0, 1"
    assert 99 < found["commonest_percent"] < 100


def test_speed_counts_what_was_asked_for_in_bounded_memory():
    config = UrngConfig(width=14)
    small, large = speed(config, numbers=10**6), speed(config, numbers=8 * 10**6)
    assert (small["numbers"], large["numbers"]) == (10**6, 8 * 10**6)
    assert large["seconds"] > 0
    # All of a tenth of the numbers, two bytes each, would be 1.5 MiB more.
    assert large["peak_mib"] < small["peak_mib"] + 0.5
