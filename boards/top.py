"""The top of an application: serial port, host link, registers, and the application itself."""

from hashlib import sha256
from types import ModuleType

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from seedbed.boards.memory import add_memory, has_own_clock, memory_of, pin_members
from seedbed.boards.registers import RegisterBank
from seedbed.flow.run.cache import definitions
from seedbed.hw.host.host_link import HostLink
from seedbed.hw.host.uart import UartReceiver, UartTransmitter
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.spec import HostLinkConfig, SkidBufferConfig

__all__ = ["Top", "identifier"]


def identifier(app: ModuleType) -> int:
    """Return what identifies a build of an application: 32 bits of a hash.

    It is of the sources of the design, its registers and its configuration. A host's program is not
    part of it.
    """
    text = definitions(app.__name__, "Top", "REGISTERS") + definitions(__name__, "Top")
    text += repr([getattr(app, name, None) for name in ("config", "MEMORY")])
    return int.from_bytes(sha256(text.encode()).digest()[:4], "little")


class Top(wiring.Component):
    """An application with its host link. It knows neither board nor clock.

    Parameters
    ----------
    app
        A module of :mod:`seedbed.boards.apps`. With ``MEMORY``, a
        :class:`~seedbed.spec.SdramConfig`, its design has the ports of
        :func:`~seedbed.boards.memory.memory_ports`, and its registers are, among others,
        :data:`~seedbed.boards.memory.MEMORY_REGISTERS`.
    divisor
        Clock cycles of a bit of the serial port.

    Members
    -------
    rx : In(1)
        From the host, asynchronous.
    tx : Out(1)
        To the host.
    leds : Out(8)
        Those of the application.
    sdram_* : Out, In
        Pins of its memory, if it has one, see :func:`~seedbed.hw.memory.sdram.pin_signature`. They
        are in the domain :data:`~seedbed.boards.memory.DOMAIN` if the memory has its own clock.
    """

    def __init__(self, app: ModuleType, divisor: int):
        self.app, self.divisor = app, divisor
        members = {"rx": In(1, init=1), "tx": Out(1, init=1), "leds": Out(8)}
        self.memory = memory_of(app)
        super().__init__(members | (pin_members(self.memory) if self.memory else {}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self.divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(self.divisor)
        m.submodules.link = link = HostLink(HostLinkConfig())
        m.submodules.registers = bank = RegisterBank(
            self.app.REGISTERS, identifier(self.app), self.divisor
        )
        # The link's words are those of a block RAM, whose outputs are late in a cycle.
        m.submodules.words = words = SkidBuffer(SkidBufferConfig(width=32))
        m.submodules.app = app = self.app.Top()
        connect(m, receiver.o, link.i)
        connect(m, link.o, transmitter.i)
        connect(m, link.o_commands, bank.i)
        connect(m, bank.o, link.i_values)
        connect(m, app.o, link.i_words)
        connect(m, link.o_words, words.i)
        connect(m, words.o, app.i)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            self.leds.eq(app.leds),
            bank.status.eq(app.status),
            app.control.eq(bank.control),
        ]
        if self.memory:
            values = add_memory(m, self, app, self.memory, own_clock=has_own_clock(self.app))
            m.d.comb += [bank.status[name].eq(value) for name, value in values.items()]
        return m
