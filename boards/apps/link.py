"""Application ``link``: words from the host come back, or are counted; the link's throughput."""

from typing import Annotated

import numpy as np
import typer
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from rich.console import Console

from seedbed.boards.device import Device
from seedbed.boards.registers import Register, ports
from seedbed.spec.checks import require_int

__all__ = ["REGISTERS", "Top", "run"]

REGISTERS = (
    Register("returns", "write", "1: words come back; 0: they are counted only"),
    Register("clear", "strobe", "sets the counters to 0"),
    Register("words", "read", "words from the host"),
    Register("total", "read", "their sum, modulo 2^32"),
    Register("cycles", "read", "cycles from the first word to the last"),
)
#: Words between two readings of those that come back.
PART = 256


class Top(wiring.Component):
    """Returns or counts the words from the host.

    Members
    -------
    control, status
        :data:`REGISTERS`.
    i : In(stream of unsigned(32))
        Words from the host.
    o : Out(stream of unsigned(32))
        The same words, if they come back.
    leds : Out(8)
        Bits 10 to 17 of the number of words.
    """

    def __init__(self):
        super().__init__(ports(REGISTERS))

    def elaborate(self, platform):
        m = Module()
        words, total, cycles, elapsed = (Signal(32) for _ in range(4))
        fire = self.i.valid & self.i.ready
        m.d.comb += [
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & self.control.returns[0]),
            self.i.ready.eq(self.o.ready | ~self.control.returns[0]),
            self.status.words.eq(words),
            self.status.total.eq(total),
            self.status.cycles.eq(cycles),
            self.leds.eq(words[10:18]),
        ]
        m.d.sync += elapsed.eq(elapsed + 1)
        with m.If(fire):
            m.d.sync += [words.eq(words + 1), total.eq(total + self.i.payload), cycles.eq(elapsed)]
            with m.If(words == 0):
                m.d.sync += [elapsed.eq(1), cycles.eq(0)]
        with m.If(self.control.clear):
            m.d.sync += [words.eq(0), total.eq(0), cycles.eq(0)]
        return m


def run(
    device: Device,
    console: Console,
    *,
    words: Annotated[int, typer.Option(help="How many words are sent.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The seed of the words.")] = 1,
) -> None:
    """Send random words, compare their sum, and let a part of them come back.

    Parameters
    ----------
    device
        The board.
    console
        Where the results are printed.
    words
        How many are sent, 2..10000000.
    seed
        Of the words.

    Raises ``AssertionError`` for a difference, and ``ValueError`` for a value out of range.
    """
    require_int("words", words, 2, 10_000_000)
    require_int("seed", seed, 0, 2**32 - 1)
    sent = np.random.default_rng(seed).integers(0, 2**32, words, dtype=np.uint32)
    device.write("returns", 0)
    device.write("clear", 1)
    device.send(sent.tolist())
    counted, total, cycles = (device.read(name) for name in ("words", "total", "cycles"))
    assert counted == words, f"the board counted {counted} words, not {words}"
    assert total == int(sent.sum(dtype=np.uint32)), "the sum of the words differs"
    # The first word's bytes are not within the cycles.
    limit = device.read("bit_cycles") * 10 * 4 * (words - 1)
    console.print(f"{words:,} words in {cycles:,} cycles")
    console.print(f"{100 * limit / cycles:.1f} % of the line's bytes, 10 bits each, are of words")
    device.write("returns", 1)
    position = device.position()
    for first in range(0, min(words, 4 * PART), PART):
        part = sent[first : first + PART].tolist()
        device.send(part)
        back = [word for some in device.stream(position, len(part)) for word in some]
        position = (position + len(part)) % 2**32
        assert back == part, f"words {first} to {first + len(part)} came back changed"
    console.print(f"{min(words, 4 * PART)} words came back unchanged")
