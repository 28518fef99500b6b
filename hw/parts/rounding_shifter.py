"""Shifts wide numbers to int8, with NITI's roundings, and ReLU."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec.requantize import VALUE_BITS, RequantizeConfig

__all__ = ["RoundingShifter"]


def _shifted(number: list[Value], by: Value, step: int, width: int) -> list[Value]:
    """Return the bits of ``number`` that can reach the low ``width`` after 0 or 2^step places.

    Later steps shift by less than 2^step. Bits from above the number are undefined: a number is
    shifted by so much only if they do not reach the low ``width``.
    """
    places = 1 << step
    kept = number[: width + places - 1]
    later = number[places:]
    return [Mux(by, later[k], bit) if k < len(later) else bit for k, bit in enumerate(kept)]


class RoundingShifter(wiring.Component):
    """Divides numbers by 2^shift, rounds, and saturates: to -127..127.

    The magnitude x of a number, below 2^(shift + 7), is divided. With rounding to nearest, a half
    is rounded away from zero. With pseudo-stochastic rounding, the remainder's low floor(shift / 2)
    bits are the random number, and the others the probability; both are compared as fractions, and
    the quotient is rounded away from zero if the probability is greater.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.requantize.RequantizeConfig`.

    Members
    -------
    ce : In(1)
        Clock enable of all stages.
    shift : In(0..most_shift)
        Stable while there are numbers in the pipeline.
    relu : In(1)
        With ``i``: negative numbers become 0.
    i : In(ways x signed(width + 1))
        Ones' complement: x - 1 for a negative x, with the same sign.
    o : Out(ways x signed(8))
        The values, of as many enabled cycles before as :meth:`latency_of` says.

    Latency: :meth:`latency_of`, 3 enabled cycles, or 4 with pseudo-stochastic rounding. Throughput:
    one set of numbers a cycle.
    """

    def __init__(self, config: RequantizeConfig):
        self.config = config
        self._nearest = config.rounding == "nearest"
        super().__init__(
            {
                "ce": In(1),
                "shift": In(range(config.most_shift + 1)),
                "relu": In(1),
                "i": In(data.ArrayLayout(signed(config.width + 1), config.ways)),
                "o": Out(data.ArrayLayout(signed(VALUE_BITS + 1), config.ways)),
            }
        )

    @staticmethod
    def latency_of(config: RequantizeConfig) -> int:
        """Return the enabled cycles from a number to its value."""
        return 3 if config.rounding == "nearest" else 4

    def elaborate(self, platform):
        m = Module()
        most = self.config.most_shift
        # Bits after the binary point that rounding looks at: half of the remainder, or its top.
        guard = 1 if self._nearest else (most + 1) // 2
        relu = delayed(m, self.relu, self.latency_of(self.config) - 1, "relu", enable=self.ce)
        # Of the random number: how far it is shifted up, and which bits the probability has.
        raised = Signal(range(guard + 1))
        mask = Signal(guard)
        if not self._nearest:
            m.d.sync += [
                raised.eq(guard - (self.shift >> 1)),
                mask.eq(Cat((self.shift + 1 >> 1) > guard - 1 - k for k in range(guard))),
            ]
        for k, (number, out) in enumerate(zip(self.i, self.o, strict=True)):

            def register(value, name, k=k):
                return delayed(m, value, 1, f"{name}_{k}", enable=self.ce)

            sign = number[-1]
            magnitude = number[:-1] ^ sign.replicate(self.config.width)
            bits = self._steps(Cat(Const(0, guard), magnitude), register)
            sign = register(register(sign, "sign"), "sign_2")
            fixed = register(Cat(bits), "fixed")
            quotient = fixed[guard:]
            up = fixed[0]
            if not self._nearest:
                random = register(magnitude[:guard], "low")
                random = register((random << raised)[:guard], "random")
                up = register((fixed[:guard] & mask) > random, "up")
                quotient, sign = register(quotient, "quotient"), register(sign, "sign_3")
            # -(q + up) is ~q + 1 - up. The quotient 127 is not rounded up.
            up = (up & ~quotient.all()) ^ sign
            flipped = Cat(quotient ^ sign.replicate(VALUE_BITS), sign)
            value = Signal(signed(VALUE_BITS + 1), name=f"value_{k}", reset_less=True)
            with m.If(self.ce):
                m.d.sync += value.eq(Mux(relu & sign, 0, flipped + up))
            m.d.comb += out.eq(value)
        return m

    def _steps(self, number: Value, register) -> list[Value]:
        """Shift by powers of two, the largest first, with a register after the first two."""
        width = len(number) - self.config.most_shift
        bits, steps = [*number], len(self.shift)
        for step in reversed(range(steps)):
            bits = _shifted(bits, self.shift[step], step, width)
            if step == max(steps - 2, 1):
                bits = [*register(Cat(bits), "partial")]
        return bits
