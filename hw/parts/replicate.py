"""Register duplication, for values with a large fan-out."""

from amaranth.hdl import Module, Signal, Value

__all__ = ["replicate"]

#: Readers of a copy.
FANOUT = 8


def replicate(
    m: Module,
    value: Value,
    readers: int,
    name: str,
    *,
    fanout: int = FANOUT,
    enable: Value | None = None,
) -> list[Signal]:
    """Return, for each reader, a register with the ``value`` of the cycle before.

    ``fanout`` neighbouring readers share a register, ``NAME_copy_0`` and so on. A register that is
    read by a whole array has nets to every corner of the device, which no placer shortens. The
    copies are marked ``keep``, so that synthesis does not merge them, and have no reset.

    Parameters
    ----------
    readers
        How many registers to return; those that share one are the same.
    enable
        Clock enable of the registers; without it, they take a value in every cycle.
    """
    shape = Value.cast(value).shape()
    copies = [
        Signal(shape, name=f"{name}_copy_{k}", reset_less=True, attrs={"keep": True})
        for k in range(-(-readers // fanout))
    ]
    loads = [copy.eq(value) for copy in copies]
    if enable is None:
        m.d.sync += loads
    else:
        with m.If(enable):
            m.d.sync += loads
    return [copies[k // fanout] for k in range(readers)]
