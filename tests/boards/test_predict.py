"""`seedbed board predict`."""

import pytest
from typer.testing import CliRunner

from seedbed.boards.cli.app import command_line
from seedbed.boards.predict import predict

#: A cached sample of LeNet-5 by instantft, its cache in the SDRAM of the ULX3S.
SAMPLE = {"cycles": 353, "clock_mhz": 60, "octets": 992, "bits": 16}


def test_the_slower_of_core_and_memory():
    waits = predict(**SAMPLE, memory_mhz=60, share=1)
    # 992 bytes at 2 bytes a cycle are 496 cycles.
    assert waits.seconds == pytest.approx(496 / 60e6)
    assert waits.waiting == pytest.approx(1 - 353 / 496)
    fast = predict(**SAMPLE, memory_mhz=120, share=1)
    assert fast.seconds == pytest.approx(353 / 60e6)
    assert fast.waiting == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clock_mhz": 0}, "positive"),
        ({"share": 1.5}, "at most 1"),
        ({"share": 0}, "at most 1"),
        ({"octets": -1}, "not be negative"),
        ({"cycles": 0, "octets": 0}, "one of them not 0"),
    ],
)
def test_what_cannot_be_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        predict(**{**SAMPLE, "memory_mhz": 60, "share": 1, **changed})


def command(*arguments):
    return CliRunner().invoke(command_line, ["board", "predict", *arguments])


def test_the_command_prints_both_times():
    done = command("ulx3s-85f", "--cycles", "353", "--bytes", "992", "--memory-clock", "120",
                   "--share", "0.7")  # fmt: skip
    assert done.exit_code == 0
    assert "5.883 us" in done.stdout
    assert "predicted: 5.905 us; the core waits for memory in 0.4 % of it" in done.stdout


def test_a_clock_that_the_memory_has_not_is_refused():
    done = command("ulx3s-85f", "--cycles", "1", "--memory-clock", "200")
    assert "at most 143 MHz, not 200" in str(done.exception)
