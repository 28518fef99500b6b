"""Splits a transfer from or to memory into bursts."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import command_layout
from seedbed.spec import ForwardCacheConfig

__all__ = ["Bursts"]


def _times(value, factor: int):
    """Return ``value * factor`` as a few additions: no multiplier is spent on it."""
    total, place = Const(0), 0
    while factor:
        if factor & 3 == 3:
            # Ones in a row are one subtraction at their foot and one addition above them.
            total, factor = total - (value << place), factor + 1
        elif factor & 1:
            total = total + (value << place)
        factor, place = factor >> 1, place + 1
    return total


class Bursts(wiring.Component):
    """Gives the commands of a part of an entry: a burst ends at every multiple of ``page`` beats.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    start : In(1)
        A pulse, while not ``busy``, and with it:
    index, skip, rest, write : In
        The entry, how many of its beats come before the part, and the part's beats - 1; what
        ``write`` of its commands is.
    column : Out
        Where in a page the part's first beat is; at all times.
    busy : Out(1)
        Not all of the part's commands have been taken.
    o : Out(stream of struct)
        ``address`` (in beats), ``write``, ``length`` (beats - 1).

    Latency: 2 cycles from ``start`` to the first command. Throughput: a command every cycle.
    """

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "index": In(range(config.entries)),
                "skip": In(range(config.peak_beats + 1)),
                "rest": In(range(config.beats)),
                "write": In(1),
                "column": Out(range(config.page)),
                "busy": Out(1),
                "o": Out(stream.Signature(command_layout(config.address_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        page, width = self.config.page, len(self.column)
        command = Signal(self.o.payload.shape(), reset_less=True)
        first = Signal.like(command.address)
        address = Signal.like(first, reset_less=True)
        rest = Signal.like(self.rest, reset_less=True)
        pending = Signal()
        valid = Signal()
        # The last beat, counted from the page's start.
        end = Signal(range(page + self.config.beats))
        crosses = Signal()
        m.d.comb += [
            first.eq(_times(self.index, self.config.beats) + self.skip),
            self.column.eq(first),
            end.eq(address[:width] + rest),
            crosses.eq(end >= page),
            self.busy.eq(pending | valid),
            self.o.valid.eq(valid),
            self.o.payload.eq(command),
        ]
        with m.If(self.o.ready):
            m.d.sync += valid.eq(0)
        with m.If(pending & (~valid | self.o.ready)):
            m.d.sync += [
                valid.eq(1),
                pending.eq(crosses),
                command.address.eq(address),
                command.write.eq(self.write),
                command.length.eq(Mux(crosses, ~address[:width], rest)),
                rest.eq(end - page),
                address[:width].eq(0),
                address[width:].eq(address[width:] + 1),
            ]
        with m.If(self.start):
            m.d.sync += [pending.eq(1), address.eq(first), rest.eq(self.rest)]
        return m
