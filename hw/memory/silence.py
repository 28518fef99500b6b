"""Counts the cycles in which a memory is waited for, and is silent."""

from amaranth.hdl import Module, Signal, Value

__all__ = ["silence"]


def silence(m: Module, active: Value, *, drain: int, timeout: int) -> tuple[Value, Value]:
    """Count the cycles since ``active``; return whether they are ``drain``, and ``timeout``.

    After ``drain`` cycles, nothing comes any more of what was asked for and is not needed. After
    ``timeout`` cycles, what is needed does not come.
    """
    most = max(drain, timeout)
    count = Signal(range(most + 1), name="silence")
    with m.If(active):
        m.d.sync += count.eq(0)
    with m.Elif(count != most):
        m.d.sync += count.eq(count + 1)
    return count >= drain, count >= timeout
