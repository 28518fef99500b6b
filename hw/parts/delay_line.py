"""Delay lines: pipeline registers of a value or of a struct."""

from itertools import pairwise

from amaranth.hdl import Module, Signal, Value

__all__ = ["delay_line", "delayed"]


def delay_line(
    m: Module, value, cycles: int, name: str, *, enable: Value | None = None, reset: bool = False
) -> list:
    """Return ``value`` and its pipeline registers: tap k is the value of k cycles before.

    Parameters
    ----------
    value
        A value, or a view of a struct or an array; the registers have its shape.
    cycles
        Registers. None at 0.
    name
        The registers are called ``NAME_d1``, ``NAME_d2``, ...
    enable
        Clock enable of all registers; without it, they take a value in every cycle.
    reset
        Whether a reset clears the registers. Payloads do without, a valid bit does not.
    """
    taps = [value if hasattr(value, "shape") else Value.cast(value)]
    for k in range(1, cycles + 1):
        taps.append(Signal(taps[0].shape(), name=f"{name}_d{k}", reset_less=not reset))
    shifts = [after.eq(before) for before, after in pairwise(taps)]
    if enable is None:
        m.d.sync += shifts
    else:
        with m.If(enable):
            m.d.sync += shifts
    return taps


def delayed(m: Module, value, cycles: int, name: str, **options):
    """Return the last tap of :func:`delay_line`."""
    return delay_line(m, value, cycles, name, **options)[-1]
