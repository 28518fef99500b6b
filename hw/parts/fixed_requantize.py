"""Wide sums to numbers of a narrower format: shift, rounding, saturation."""

from collections.abc import Sequence

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec.fixed import Fixed

__all__ = ["FixedRequantize", "overflows", "saturate"]


def overflows(number: Value, form: Fixed) -> Value:
    """Return whether a signed number does not fit ``form``."""
    top = number[form.width - 1 :]
    return top.any() & ~top.all()


def saturate(m: Module, number: Value, form: Fixed, name: str) -> tuple[Signal, Signal]:
    """Return a signed number saturated to ``form``, and whether it did not fit."""
    overflow = Signal(name=f"{name}_overflow")
    fit = Signal(signed(form.width), name=f"{name}_fit")
    m.d.comb += [
        overflow.eq(overflows(number, form)),
        fit.eq(Mux(overflow, Mux(number[-1], form.low, form.high), number)),
    ]
    return fit, overflow


class FixedRequantize(wiring.Component):
    """Shifts sums to the right, rounds half up, saturates: clamp(floor(i / 2^shift + 1/2), form).

    Parameters
    ----------
    width, count
        Bits of a sum, and how many sums there are side by side.
    shifts
        The shifts that can be selected.
    forms
        The formats that can be selected; the widest is the output's.

    Members
    -------
    i : In(count x signed(width))
    shift, form : In
        Which of ``shifts`` and ``forms``; each only where there are several.
    counted : In(count)
        For each sum, whether its saturation is counted.
    o : Out(count x signed)
        ``latency`` cycles later.
    saturated : Out
        With ``o``, how many of the counted sums did not fit.

    Latency: ``latency`` cycles, 2: the rounded number, then the saturated one. Throughput: one set
    of sums a cycle.
    """

    latency = 2

    def __init__(self, *, width: int, count: int, shifts: Sequence[int], forms: Sequence[Fixed]):
        self._shifts, self._forms = shifts, forms
        number = signed(max(form.width for form in forms))
        ports = {
            "i": In(data.ArrayLayout(signed(width), count)),
            "counted": In(count),
            "o": Out(data.ArrayLayout(number, count)),
            "saturated": Out(range(count + 1)),
        }
        selects = {"shift": shifts, "form": forms}
        ports |= {name: In(range(len(of))) for name, of in selects.items() if len(of) > 1}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        counted = delayed(m, self.counted, 1, "counted")
        form = delayed(m, self.form, 1, "form") if len(self._forms) > 1 else Const(0)
        flags = []
        for k, (total, out) in enumerate(zip(self.i, self.o, strict=True)):
            rounded = Signal(signed(len(total) + 1), name=f"rounded_{k}", reset_less=True)
            m.d.sync += rounded.eq(self._round(total))
            value = Signal(out.shape(), name=f"value_{k}", reset_less=True)
            flag = Signal(name=f"flag_{k}", reset_less=True)
            for n, to in enumerate(self._forms):
                fit, overflow = saturate(m, rounded, to, f"value_{k}_{n}")
                with m.If(form == n):
                    m.d.sync += [value.eq(fit), flag.eq(overflow & counted[k])]
            m.d.comb += out.eq(value)
            flags.append(flag)
        m.d.comb += self.saturated.eq(sum(flags[1:], flags[0]))
        return m

    def _round(self, total: Value) -> Value:
        """Return a sum after the selected shift: the bit below the last one rounds."""
        found = [total.shift_right(by) + (total[by - 1] if by else 0) for by in self._shifts]
        return Array(found)[self.shift] if len(found) > 1 else found[0]
