"""LiteDRAM and sdram on one pattern: every beat is compared, and the rows have the figures."""

from pathlib import Path

import pytest

from seedbed.sim import tools

litedram = pytest.importorskip("seedbed.boards.litedram")


@pytest.fixture(scope="module")
def programs(kept):
    tools.setup_environment()
    return {name: program for name, (_, _, program) in litedram.programs(Path(kept)).items()}


def test_the_patterns_are_bursts_in_the_memory():
    for name, text in litedram.patterns().items():
        bursts, beats, at_random = litedram.PATTERNS[name]
        lines = [tuple(map(int, line.split())) for line in text.splitlines()]
        assert len({place for place, _ in lines}) == len(lines) == bursts
        assert {length for _, length in lines} == {beats}
        assert max(place for place, _ in lines) + beats <= 1 << litedram.CONFIG.address_bits
        assert (lines != sorted(lines)) == at_random


def test_a_stream_of_each_controller(programs, tmp_path):
    """Nearly a word of two bytes a cycle; LiteDRAM splits beats of 64 bits."""
    stream = tmp_path / "stream.txt"
    stream.write_text("".join(f"{256 * k} 256\n" for k in range(16)))
    found = {name: litedram.measure(program, stream) for name, program in programs.items()}
    for name, least in zip(found, (1.9, 1.5, 1.85), strict=True):
        assert all(least < share <= 2 for share in found[name]), name


def test_a_beat_that_differs_ends_the_simulation(kept, tmp_path, monkeypatch):
    """Pads that are a cycle later than the controller expects."""
    stream = tmp_path / "stream.txt"
    stream.write_text("0 4\n")
    program = litedram._program
    monkeypatch.setattr(
        litedram, "_program",
        lambda path, top, build, header, pads: program(path, top, build, header, pads + 1),
    )  # fmt: skip
    for (name, _), (_, _, late) in litedram.programs(Path(kept)).items():
        said = "the self-test failed" if name == "sdram" else "a word differs"
        with pytest.raises(RuntimeError, match=f"^{said} in cycle"):
            litedram.measure(late, stream)


def test_rows_have_the_figures(kept):
    rows = litedram.compare(Path(kept))
    assert [row.core for row in rows] == ["sdram", "LiteDRAM", "LiteDRAM"]
    for row in rows:
        assert row.kind == "memory"
        shares = [row.figures[f"{name}_read"] for name in litedram.PATTERNS]
        assert shares == sorted(shares, reverse=True)
        assert row.figures["lut"] > 500
