"""Between a memory and its user in another clock domain."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from seedbed.hw.memory.memory_port import memory_members, user_members
from seedbed.hw.parts.clock_crossing import ClockCrossing

__all__ = ["MemoryCrossing"]

#: Beats of the FIFOs: a command or a response is of a burst.
BEATS = {"command": 4, "write": 16, "response": 4, "read": 16}


class MemoryCrossing(wiring.Component):
    """A FIFO between two clocks in each stream of a memory port.

    Parameters
    ----------
    address_bits, beat_bits
        Of the port.
    domain
        The memory's clock domain. The user's is ``sync``.

    Members
    -------
    i_command, i_write, o_response, o_read
        A memory, to the user: those of :func:`seedbed.hw.memory.memory_port.memory_members`.
    o_command, o_write, i_response, i_read
        A user, to the memory, in ``domain``: those of
        :func:`seedbed.hw.memory.memory_port.user_members`.

    Latency: that of a :class:`~seedbed.hw.parts.clock_crossing.ClockCrossing` in each stream.
    Throughput: a beat per cycle of the slower clock.
    """

    def __init__(self, address_bits: int, beat_bits: int, *, domain: str):
        self.domain, self.sizes = domain, (address_bits, beat_bits)
        super().__init__(memory_members(*self.sizes) | user_members(*self.sizes))

    def elaborate(self, platform):
        m = Module()
        for name, beats in BEATS.items():
            given, taken = getattr(self, f"i_{name}"), getattr(self, f"o_{name}")
            clocks = ("sync", self.domain)
            if name in ("response", "read"):
                clocks = clocks[::-1]
            m.submodules[name] = crossing = ClockCrossing(
                given.payload.shape(), i_domain=clocks[0], o_domain=clocks[1], depth=beats
            )
            connect(m, flipped(given), crossing.i)
            connect(m, crossing.o, flipped(taken))
        return m
