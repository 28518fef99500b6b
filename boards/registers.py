"""Register map: one table that gives the RTL, the host's addresses and the page."""

from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from seedbed.flow.emit.rdl import rdl
from seedbed.hw.host.host_link import command_layout
from seedbed.spec.registers import Register
from seedbed.spec.registers import addresses as addresses_of
from seedbed.spec.registers import table as table_of

__all__ = [
    "COMMON",
    "PROTOCOL",
    "Register",
    "RegisterBank",
    "addresses",
    "board_rdl",
    "ports",
    "table",
]

#: Version of the protocol and of the common registers.
PROTOCOL = 2

#: The first registers of every application.
COMMON = (
    Register("protocol", "read", "version of the protocol"),
    Register("identifier", "read", "identifies the build: a hash of the design's sources"),
    Register("bit_cycles", "read", "clock cycles of a bit of the serial port"),
)


def addresses(registers: Sequence[Register]) -> dict[str, int]:
    """Return the address of each register by name, those of :data:`COMMON` first."""
    return addresses_of((*COMMON, *registers))


def ports(registers: Sequence[Register]) -> dict[str, Member]:
    """Return the ports of the design of an application with ``registers``.

    ``control`` has a field of 32 bits for each register with access ``write``, and for each
    ``strobe`` a pulse of a cycle; ``status`` has a field for each with access ``read``. ``i`` is
    the stream of words from the host, ``o`` that of words for it, and ``leds`` are eight LEDs.
    """
    return {
        "control": In(layout(registers, "write", "strobe")),
        "status": Out(layout(registers, "read")),
        "i": In(stream.Signature(32)),
        "o": Out(stream.Signature(32)),
        "leds": Out(8),
    }


def table(registers: Sequence[Register]) -> str:
    """Return the map as a table in Markdown."""
    return table_of({str(k): each for k, each in enumerate((*COMMON, *registers))})


def board_rdl(name: str, registers: Sequence[Register]) -> str:
    """Return the map of an application, one of your own, too, as SystemRDL.

    SystemRDL counts bytes: an address there is four times the address at the host link.
    """
    constant = {"protocol": PROTOCOL, "identifier": None, "bit_cycles": None}
    return rdl(
        f"board_{name}",
        f"application {name}: registers of the host link, whose addresses count words",
        (*COMMON, *registers),
        offsets={each: 4 * address for each, address in addresses(registers).items()},
        resets=constant,
    )


class RegisterBank(wiring.Component):
    """The registers of an application, on the commands of the host link.

    Parameters
    ----------
    registers
        Those of the application; their addresses follow those of :data:`COMMON`.
    identifier
        Of the build, 32 bits.
    bit_cycles
        Clock cycles of a bit of the serial port.

    Members
    -------
    i : In(stream of struct)
        Commands of :class:`~seedbed.hw.host.host_link.HostLink`, always accepted. A write to
        another address has no effect.
    o : Out(stream of unsigned(32))
        The value of the register, one for each read; 0 at another address.
    status : In(struct)
        Values of the registers with access ``read``.
    control : Out(struct)
        Values of the registers with access ``write``, and the pulses of those with ``strobe``.

    Latency: a cycle from the command to the value, the new register or the pulse.
    """

    def __init__(self, registers: Sequence[Register], identifier: int, bit_cycles: int):
        self.registers = registers
        self.constants = {
            "protocol": PROTOCOL,
            "identifier": identifier,
            "bit_cycles": bit_cycles,
        }
        super().__init__(
            {
                "i": In(stream.Signature(command_layout())),
                "o": Out(stream.Signature(32)),
                "status": In(layout(registers, "read")),
                "control": Out(layout(registers, "write", "strobe")),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command = self.i.payload
        fire = self.i.valid & self.i.ready
        m.d.comb += self.i.ready.eq(1)
        # The link waits for the value of a read before its next command.
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(fire & ~command.write):
            m.d.sync += self.o.valid.eq(1)
        pulses = [r.name for r in self.registers if r.access == "strobe"]
        m.d.sync += [self.control[name].eq(0) for name in pulses]
        values = dict(self.constants)
        values |= {r.name: self.status[r.name] for r in self.registers if r.access == "read"}
        values |= {r.name: self.control[r.name] for r in self.registers if r.access == "write"}
        with m.If(fire):
            m.d.sync += self.o.payload.eq(0)
            with m.Switch(command.address):
                for name, address in addresses(self.registers).items():
                    with m.Case(address):
                        if name in values:
                            m.d.sync += self.o.payload.eq(values[name])
                        if name in pulses:
                            m.d.sync += self.control[name].eq(command.write)
                        elif name in self.control.shape().members:
                            with m.If(command.write):
                                m.d.sync += self.control[name].eq(command.data)
        return m


def layout(registers: Sequence[Register], *access: str) -> data.StructLayout:
    """Return the layout of the registers with one of these kinds of access."""
    widths = {"read": 32, "write": 32, "strobe": 1}
    return data.StructLayout({r.name: widths[r.access] for r in registers if r.access in access})
