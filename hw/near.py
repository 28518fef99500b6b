"""Copies of a register, for what reads it in many places."""

from amaranth.hdl import Module, Signal, Value

__all__ = ["near"]

#: Readers of a copy, in groups of their own.
READERS = 8


def near(
    m: Module,
    value: Value,
    readers: int,
    name: str,
    *,
    sharing: int = READERS,
    step: Value | None = None,
) -> list[Signal]:
    """Return, for each reader, a register with ``value`` of the step before.

    As many neighbouring readers share one as ``sharing`` says; a step is a cycle, or one in which
    ``step`` is 1. A register that all of an array reads has a line to every corner of the device,
    which no placer shortens. The registers are marked ``keep``, so that synthesis does not make one
    of them again, and have no reset.
    """
    shape = Value.cast(value).shape()
    copies = [
        Signal(shape, name=f"{name}_near_{k}", reset_less=True, attrs={"keep": True})
        for k in range(-(-readers // sharing))
    ]
    taken = [copy.eq(value) for copy in copies]
    if step is None:
        m.d.sync += taken
    else:
        with m.If(step):
            m.d.sync += taken
    return [copies[k // sharing] for k in range(readers)]
