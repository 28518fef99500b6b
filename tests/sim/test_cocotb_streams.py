"""Monitor and scoreboard of streams, without a simulator; test_cocotb.py runs them in one."""

from types import SimpleNamespace

import pytest

from seedbed.sim.verilog.cocotb_streams import Monitor, Scoreboard


def wires(**values):
    return SimpleNamespace(**{name: SimpleNamespace(value=value) for name, value in values.items()})


def sampled(monitor, driver, **values):
    driver.bus = monitor.bus = wires(**values)
    return monitor.sample()


def test_a_monitor_gives_beats_with_their_fields():
    driver = SimpleNamespace(bus=None)
    monitor = Monitor(driver, "o", ("data", "last"))
    assert not sampled(monitor, driver, data=0, last=0, valid=0, ready=1)
    assert not sampled(monitor, driver, data=5, last=1, valid=1, ready=0)
    assert sampled(monitor, driver, data=5, last=1, valid=1, ready=1)
    assert monitor.beat == {"data": 5, "last": 1}
    assert sampled(monitor, driver, data=6, last=0, valid=1, ready=1)
    assert monitor.beat == {"data": 6, "last": 0}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"last": 0}, "o: the payload changed before the transfer"),
        ({"valid": 0}, "o: valid fell before the transfer"),
    ],
)
def test_a_monitor_finds_a_broken_rule(changed, sentence):
    driver = SimpleNamespace(bus=None)
    monitor = Monitor(driver, "o", ("data", "last"))
    values = {"data": 5, "last": 1, "valid": 1, "ready": 0}
    sampled(monitor, driver, **values)
    with pytest.raises(AssertionError) as broken:
        sampled(monitor, driver, **values | changed)
    assert str(broken.value) == sentence
    # After a reset, nothing waits.
    monitor.clear()
    sampled(monitor, driver, **values | changed)


def test_a_scoreboard_finds_wrong_missing_and_further_beats():
    board = Scoreboard(", job 3")
    board.expect("o", 1, 2)
    board.expect("log", {"seed": 16, "last": 1})
    board.add("o", 1)
    with pytest.raises(AssertionError) as found:
        board.check()
    assert str(found.value) == "o, job 3 timed out: 1 beats of 2"
    with pytest.raises(AssertionError) as found:
        board.add("o", 10)
    assert str(found.value) == "o, job 3, beat 1:\n  expected 0x2\n  got      0xa"
    with pytest.raises(AssertionError) as found:
        board.add("o", 3)
    assert str(found.value) == "o, job 3: a beat after the last one"
    with pytest.raises(AssertionError) as found:
        board.add("log", {"seed": 16, "last": 0})
    assert str(found.value).endswith("got      seed=0x10, last=0x0")
    board.check()
