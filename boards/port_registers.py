"""Registers between a memory and its user, so that no path of one ends in the other."""

from amaranth.hdl import Module, Shape
from amaranth.lib import wiring
from amaranth.lib.wiring import connect, flipped

from seedbed.hw.memory.memory_port import memory_members, user_members
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.spec import SkidBufferConfig

__all__ = ["PortRegisters"]


class PortRegisters(wiring.Component):
    """A skid buffer in each stream of a memory port: payload, valid and ready are registers.

    Parameters
    ----------
    address_bits, beat_bits
        Of the port.

    Members
    -------
    i_command, i_write, o_response, o_read
        A memory, to the user: those of :func:`seedbed.hw.memory.memory_port.memory_members`.
    o_command, o_write, i_response, i_read
        A user, to the memory: those of :func:`seedbed.hw.memory.memory_port.user_members`.

    Latency: a cycle in each stream. Throughput: a beat every cycle.
    """

    def __init__(self, address_bits: int, beat_bits: int):
        self.sizes = (address_bits, beat_bits)
        super().__init__(memory_members(*self.sizes) | user_members(*self.sizes))

    def elaborate(self, platform):
        m = Module()
        for stream in ("command", "write", "response", "read"):
            shape = getattr(self, f"i_{stream}").payload.shape()
            config = SkidBufferConfig(width=Shape.cast(shape).width)
            m.submodules[stream] = buffer = SkidBuffer(config, shape)
            connect(m, flipped(getattr(self, f"i_{stream}")), buffer.i)
            connect(m, buffer.o, flipped(getattr(self, f"o_{stream}")))
        return m
