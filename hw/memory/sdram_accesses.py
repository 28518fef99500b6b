"""Splits bursts of beats into reads and writes of an SDRAM."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import command_layout
from seedbed.spec import SdramConfig

__all__ = ["SdramAccesses", "access_layout"]


def access_layout(config: SdramConfig) -> data.StructLayout:
    """Return the layout of an access: ``config.burst`` words of a row, from ``column`` on.

    ``first`` is of its beat, and ``last`` of its burst. A column counts such accesses. ``same``
    says that the access before it has the same bank and row; it is 0 for the first one of a burst.
    """
    chip = config.figures
    column = chip.column_bits - (config.burst.bit_length() - 1)
    fields = {"column": column, "bank": chip.bank_bits, "row": chip.row_bits}
    return data.StructLayout(fields | {"write": 1, "first": 1, "last": 1, "same": 1})


class SdramAccesses(wiring.Component):
    """Gives the accesses of each burst, one after the other.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i : In(stream of :func:`~seedbed.hw.memory.memory_port.command_layout`)
    o : Out(stream of :func:`access_layout`)

    Latency: a cycle. Throughput: an access every cycle, also from burst to burst.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(command_layout(config.address_bits))),
                "o": Out(stream.Signature(access_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, command, access = self.config, self.i.payload, self.o.payload
        parts = config.accesses
        low = parts.bit_length() - 1
        address = Signal(config.address_bits + low)
        left = Signal(8 + low)
        write, valid, last, same = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.o.valid.eq(valid),
            self.i.ready.eq(~valid | (self.o.ready & last)),
            access.column.eq(address),
            access.bank.eq(address[len(access.column) :]),
            access.row.eq(address[len(access.column) + len(access.bank) :]),
            access.write.eq(write),
            access.first.eq(address[:low] == 0),
            access.last.eq(last),
            access.same.eq(same),
        ]
        with m.If(self.o.ready & valid):
            m.d.sync += [
                address.eq(address + 1),
                left.eq(left - 1),
                last.eq(left == 1),
                same.eq(~access.column.all()),
            ]
        with m.If(self.i.ready):
            m.d.sync += valid.eq(self.i.valid)
            with m.If(self.i.valid):
                m.d.sync += [
                    address.eq(command.address << low),
                    left.eq((command.length << low) | Const(parts - 1)),
                    write.eq(command.write),
                    last.eq((command.length == 0) & (parts == 1)),
                    same.eq(0),
                ]
        return m
