import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seedbed.golden.sdram import Sdram, lines_of_pin, located
from seedbed.spec import SDRAM_CHIPS, SdramConfig

CONFIG = SdramConfig()


def test_size_and_words():
    assert CONFIG.bytes == 32 << 20
    assert Sdram(CONFIG).cells.nbytes == CONFIG.bytes
    assert (CONFIG.words, CONFIG.burst, CONFIG.accesses) == (4, 4, 1)
    wide = SdramConfig(beat_bits=1024)
    assert (wide.words, wide.burst, wide.accesses, wide.address_bits) == (64, 8, 8, 18)


@pytest.mark.parametrize(
    ("clock", "latency", "mode", "cycles"),
    [(60, 2, 0x22, (2, 2, 4)), (100, 2, 0x22, (3, 3, 7)), (133, 3, 0x32, (3, 3, 9))],
)
def test_times_in_cycles(clock, latency, mode, cycles):
    """The mode register and the cycles of tRCD, tRP and tRFC, by hand from the data sheets."""
    config = SdramConfig(clock_mhz=clock)
    chip = config.figures
    assert (config.latency, config.mode) == (latency, mode)
    assert tuple(map(config.cycles, (chip.rcd, chip.rp, chip.rfc))) == cycles


def test_the_slowest_chip_has_the_worst_of_each_figure():
    slowest, *others = SDRAM_CHIPS["slowest"], *SDRAM_CHIPS.values()
    for chip in others:
        for name in ("rcd", "rp", "ras", "rc", "rrd", "wr", "rfc", "mrd", "power_up"):
            assert getattr(slowest, name) >= getattr(chip, name)
        for name in ("refresh", "ras_max", "latency_2_mhz", "latency_3_mhz"):
            assert getattr(slowest, name) <= getattr(chip, name)
    assert (slowest.rcd, slowest.rc, slowest.latency_3_mhz) == (21, 66, 133)


def test_places():
    """A row of 512 words holds 128 beats of 64 bits; the next row is of the next bank."""
    assert located(CONFIG, 0) == (0, 0, 0)
    assert located(CONFIG, 127) == (0, 0, 508)
    assert located(CONFIG, 128) == (1, 0, 0)
    assert located(CONFIG, 512) == (0, 1, 0)
    assert located(CONFIG, 2**22 - 1) == (3, 8191, 508)


@pytest.mark.parametrize(
    ("pin", "lines"), [(0, 1 << 9), (2, 1 << 11 | 1), (8, 1 << 17 | 1 << 6), (9, 1 << 18)]
)
def test_lines_of_pins(pin, lines):
    """A pin carries a bit of the row; up to pin 8, also one of the column, in words."""
    assert lines_of_pin(CONFIG, pin) == lines


def test_every_line_has_a_pin_or_is_of_the_bank():
    lines = 0
    for pin in range(13):
        lines |= lines_of_pin(CONFIG, pin)
    assert lines == (1 << 22) - 1 & ~(3 << 7)


@settings(max_examples=20)
@given(st.integers(0, 2**22 - 1), st.integers(1, 9), st.integers(0, 2**32))
def test_what_is_written_is_read(address, length, seed):
    memory = Sdram(CONFIG)
    beats = np.random.default_rng(seed).integers(0, 2**16, (length, 4), np.uint16)
    memory.write(address, beats)
    assert (memory.read(address, length) == beats).all()
    assert (memory.cells != 0).sum() == (beats != 0).sum()
    if address + length > 2**22:
        assert (memory.read(0, address + length - 2**22) == beats[2**22 - address :]).all()


def test_responses():
    memory = Sdram(CONFIG)
    lasts = [[True], [False, True], [True, True], [False, False]]
    assert memory.responses([1, 2, 2, 2], lasts) == [False, False, True, True]
