"""Between a memory and its user in another clock domain."""

from amaranth.hdl import DomainRenamer, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from seedbed.hw.memory.memory_port import memory_members, user_members
from seedbed.hw.parts.clock_crossing import ClockCrossing
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.spec import SkidBufferConfig

__all__ = ["MemoryCrossing"]

#: Beats of the FIFOs: a command or a response is of a burst.
BEATS = {"command": 4, "write": 16, "response": 4, "read": 16}


class MemoryCrossing(wiring.Component):
    """A FIFO between two clocks in each stream of a memory port.

    Beats have a skid buffer between FIFO and memory: the faster clock is that of the memory.

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

    Latency: that of a :class:`~seedbed.hw.parts.clock_crossing.ClockCrossing` in each stream, and
    a cycle of ``domain`` for beats.
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
            outer = [flipped(given), flipped(taken)]
            inner = [crossing.i, crossing.o]
            if name in ("write", "read"):
                config = SkidBufferConfig(width=len(Value.cast(given.payload)))
                piece = SkidBuffer(config, given.payload.shape())
                m.submodules[f"{name}_slice"] = DomainRenamer(self.domain)(piece)
                if name == "write":
                    inner[1] = piece.o
                    connect(m, crossing.o, piece.i)
                else:
                    inner[0] = piece.i
                    connect(m, piece.o, crossing.i)
            connect(m, outer[0], inner[0])
            connect(m, inner[1], outer[1])
        return m
