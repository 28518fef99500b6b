"""The port of a memory that transfers bursts of beats, and how it is connected."""

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

__all__ = [
    "command_layout",
    "connect_memory",
    "memory_members",
    "pass_memory",
    "read_layout",
    "response_layout",
    "user_members",
    "write_layout",
]


def command_layout(address_bits: int) -> data.StructLayout:
    """Return the layout of a burst's command: address in beats, and beats - 1."""
    return data.StructLayout({"address": address_bits, "write": 1, "length": 8})


def write_layout(beat_bits: int) -> data.StructLayout:
    """Return the layout of a beat that is written; ``last`` is of its burst."""
    return data.StructLayout({"data": beat_bits, "last": 1})


def read_layout(beat_bits: int) -> data.StructLayout:
    """Return the layout of a beat that is read; ``last`` is of its burst."""
    return data.StructLayout({"data": beat_bits, "error": 1, "last": 1})


def response_layout() -> data.StructLayout:
    """Return the layout of the response to a burst that was written."""
    return data.StructLayout({"error": 1})


def user_members(address_bits: int, beat_bits: int) -> dict[str, Member]:
    """Return the members of a component that uses a memory.

    ``o_command`` is a burst: ``address`` (of its first beat, in beats), ``write``, ``length``
    (beats - 1). ``o_write`` has ``data`` and ``last`` (of a burst), in the order of the commands,
    before or after their transfer. ``i_response`` has ``error``, once for each burst that was
    written. ``i_read`` has ``data``, ``error`` and ``last`` (of a burst), in the order of the
    commands.
    """
    return {
        "o_command": Out(stream.Signature(command_layout(address_bits))),
        "o_write": Out(stream.Signature(write_layout(beat_bits))),
        "i_response": In(stream.Signature(response_layout())),
        "i_read": In(stream.Signature(read_layout(beat_bits))),
    }


def memory_members(address_bits: int, beat_bits: int) -> dict[str, Member]:
    """Return the members of a memory: those of :func:`user_members` from the other side."""
    names = {
        "o_command": "i_command",
        "o_write": "i_write",
        "i_response": "o_response",
        "i_read": "o_read",
    }
    found = user_members(address_bits, beat_bits)
    return {other: found[name].flip() for name, other in names.items()}


def connect_memory(m, user, memory) -> None:
    """Connect a user of a memory to it.

    The user's address may have fewer bits than the memory's. Raises ``ValueError`` if their beats
    have different widths.
    """
    widths = [len(stream.payload.data) for stream in (memory.i_write, user.o_write)]
    if widths[0] != widths[1]:
        raise ValueError(
            f"the memory has beats of {widths[0]} bits, and its user beats of {widths[1]}"
        )
    command, write = user.o_command, user.o_write
    response, read = user.i_response, user.i_read
    m.d.comb += [
        memory.i_command.valid.eq(command.valid),
        command.ready.eq(memory.i_command.ready),
        memory.i_write.valid.eq(write.valid),
        write.ready.eq(memory.i_write.ready),
        response.valid.eq(memory.o_response.valid),
        memory.o_response.ready.eq(response.ready),
        read.valid.eq(memory.o_read.valid),
        memory.o_read.ready.eq(read.ready),
        response.payload.error.eq(memory.o_response.payload.error),
    ]
    m.d.comb += [
        memory.i_command.payload[name].eq(command.payload[name])
        for name in ("address", "write", "length")
    ]
    m.d.comb += [memory.i_write.payload[name].eq(write.payload[name]) for name in ("data", "last")]
    m.d.comb += [
        read.payload[name].eq(memory.o_read.payload[name]) for name in ("data", "error", "last")
    ]


def pass_memory(m, component, user) -> None:
    """Connect a user of a memory to the same members of the component that it is a part of."""
    for name in user_members(0, 0):
        wiring.connect(m, wiring.flipped(getattr(component, name)), getattr(user, name))
