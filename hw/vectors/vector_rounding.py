"""Shifts a sum of products, rounds it, adds it to an addend, and saturates."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import VectorUnitConfig

__all__ = ["VectorRounding", "added", "turned"]

#: Bits of a shifted number that are added to an addend of 24: a greater one saturates with any.
KEPT = 25
#: The fine shift is less than 2^4.
FINE = 4


def turned(number: Value, turn: Value) -> Value:
    """Return a signed number, or its complement, -1 - number."""
    return (number.as_unsigned() ^ turn.replicate(len(number))).as_signed()


def added(a: Value, b: Value, carry: Value) -> Value:
    """Return a + b + carry of signed numbers, by one carry chain."""
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:].as_signed()


class VectorRounding(wiring.Component):
    """Gives addend + round(total / 2^shift), or less it, saturated, in four stages.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.VectorUnitConfig`.
    width
        Bits of the total.

    Members
    -------
    total, shift : In
        The sum of products, and how far it is shifted.
    addend, subtract : In
        Two cycles later: the addend, and whether the rounded number is subtracted from it.
    wide, angle, outside : In(1)
        Three cycles later: whether the result has the residual's width; whether it is an angle,
        which wraps; whether it is 0.
    value : Out(signed(residual_width))
        The result, four cycles later.
    """

    def __init__(self, config: VectorUnitConfig, width: int = 59):
        self.config = config
        super().__init__(
            {
                "total": In(signed(width)),
                "shift": In(config.shift_bits),
                "addend": In(signed(config.residual_width)),
                "subtract": In(1),
                "wide": In(1),
                "angle": In(1),
                "outside": In(1),
                "value": Out(signed(config.residual_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._result(m, *self._sum(m, *self._fine(m, *self._coarse(m))))
        return m

    def _coarse(self, m) -> tuple[Signal, Signal, Signal]:
        """Shift by 0, 16, 32 or 48; return the low bits, the sign, and whether others differ.

        The number has one bit more at its low end for the rounding.
        """
        width = KEPT + (1 << FINE) - 1
        coarse = Signal(width, reset_less=True)
        sign = Signal(reset_less=True)
        beyond = Signal(reset_less=True)
        number = Cat(Const(0, 1), self.total).as_signed()
        differ = turned(number, number[-1])
        steps = self.shift[FINE:]
        low, high = differ[width : width + 16].any(), differ[width + 16 :].any()
        m.d.sync += [
            coarse.eq(number >> Cat(Const(0, FINE), steps)),
            beyond.eq(((steps == 0) & low) | (~steps[1] & high)),
            sign.eq(number[-1]),
        ]
        return coarse, sign, beyond

    def _fine(self, m, coarse, sign, beyond) -> tuple[Signal, Signal, Signal, Signal]:
        """Shift by up to 15; return the floor, the bit below it, the overflow, and the sign."""
        kept = Signal(signed(KEPT), reset_less=True)
        half = Signal(reset_less=True)
        overflow = Signal(reset_less=True)
        fine = delayed(m, self.shift[:FINE], 1, "fine")
        by_fours = (Cat(coarse, sign).as_signed() >> Cat(Const(0, 2), fine[2:]))[: KEPT + 4]
        bits = (by_fours >> fine[:2])[: KEPT + 1]
        # Bits that the fine shift leaves above those that are kept.
        above = coarse[KEPT:] ^ sign.replicate(len(coarse) - KEPT)
        reach = Cat(fine <= n for n in range(len(above)))
        m.d.sync += [
            kept.eq(bits[1:]),
            half.eq(bits[0]),
            overflow.eq(beyond | (above & reach).any()),
        ]
        return kept, half, overflow, delayed(m, sign, 1, "sign")

    def _sum(self, m, kept, half, overflow, sign) -> tuple[Signal, Signal, Signal]:
        """Return the addend plus or less the number; whether it overflows, and to which side."""
        total = Signal(signed(KEPT + 1), name="sum", reset_less=True)
        negative = Signal(reset_less=True)
        # -(n + half) is ~n + 1 - half.
        m.d.sync += [
            total.eq(added(self.addend, turned(kept, self.subtract), half ^ self.subtract)),
            negative.eq(sign ^ self.subtract),
        ]
        return total, delayed(m, overflow, 1, "overflow"), negative

    def _result(self, m, total, overflow, negative) -> None:
        """Saturate to the width of a vector or of the residual."""
        narrow, wide = self.config.width, self.config.residual_width
        top, middle = total[wide - 1 :], total[narrow - 1 : wide - 1]
        differs = Mux(total[-1], ~top.all(), top.any())
        differs = differs | (~self.wide & Mux(total[-1], ~middle.all(), middle.any()))
        sign = Mux(overflow, negative, total[-1])
        # The bits of a limit: those of the number, and those that are its sign where it is narrow.
        limit = Cat((~sign).replicate(narrow - 1), (sign ^ self.wide).replicate(wide - narrow))
        m.d.sync += self.value.eq(Mux(overflow | differs, Cat(limit, sign), total))
        with m.If(self.angle):
            m.d.sync += self.value.eq(total[: self.config.sine_angle_bits])
        with m.If(self.outside):
            m.d.sync += self.value.eq(0)
