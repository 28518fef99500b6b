"""The pipeline of the vector unit: lanes with two multipliers, a table, and a rounding shifter."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.codes import codes
from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.vectors.vector_layouts import (
    addends_layout,
    control_layout,
    factors_layout,
    numbers_layout,
)
from seedbed.spec import VectorUnitConfig

__all__ = ["PRODUCTS", "RESULTS", "TABLES", "VectorPipeline"]

#: Cycles from the registers of a beat to its sum of products, and to its results.
PRODUCTS, RESULTS = 6, 10
#: Tables of 512 segments, by their places; that of the powers is there twice.
TABLES = codes(("power", "silu", "gelu", "sine"))
#: Index bits of a table, and bits between two entries.
SEGMENTS, BETWEEN = 9, 12
#: The lowest bit of a magnitude that can be beyond the end of an activation's table.
BOUND = 9
#: Bits of the shift of a key.
KEY = 4
#: Bits by which a sine is shifted to the left; the neighbour's number is by the rest of LOW.
ROTATED = 2
#: The upper bits of a number are multiplied by one multiplier, these lower ones by the other.
LOW = 13
#: Bits of an entry.
ENTRY = 16
#: Bits of the operands of a multiplier.
WIDE, NARROW = 27, 18
#: Bits of a shifted number that are added to an addend of 24: a greater one saturates with any.
KEPT = 25


def _differences(table: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return each entry of a table but the last, with its distance to the next one."""
    return [(entry, after - entry) for entry, after in pairwise(table)]


def _turned(number: Value, turn: Value) -> Value:
    """Return a signed number, or its complement, -1 - number."""
    return (number.as_unsigned() ^ turn.replicate(len(number))).as_signed()


def _added(a: Value, b: Value, carry: Value) -> Value:
    """Return a + b + carry, by one carry chain."""
    return (Cat(Const(1, 1), a).as_signed() + Cat(carry, b).as_signed())[1:].as_signed()


class VectorPipeline(wiring.Component):
    """Computes the elements of a beat, a beat a cycle, without stalls.

    With the number x, the factor f and the addend a of a lane::

        c = x or its magnitude, plus an offset
        V = c f, or c c, or c f plus the product of the neighbour, or an entry of a table
        y = a + round(V / 2^shift), saturated

    One multiplier has the upper bits of c, the other the low 13: V = P1 2^13 + P2. Between entries
    of a table, P1 is the entry, and P2 the distance to the next one times the place between them.
    In a rotation, P2 is 2^13 times the product of the neighbour.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.VectorUnitConfig`.

    Members
    -------
    valid, numbers, factors, addends, control : In
        A beat, in registers.
    summable, products, product_control : Out
        Whether there is a V of each lane, and what is pipelined with it: ``PRODUCTS`` cycles later.
    given, values, value_control : Out
        Whether there is a y of each lane, and what is pipelined with it: ``RESULTS`` cycles later.
        Elements beyond the length are 0.
    """

    def __init__(self, config: VectorUnitConfig):
        self.config = config
        total = WIDE + NARROW + LOW + 1
        super().__init__(
            {
                "valid": In(1),
                "numbers": In(numbers_layout(config)),
                "factors": In(factors_layout(config)),
                "addends": In(addends_layout(config)),
                "control": In(control_layout(config)),
                "summable": Out(1),
                "products": Out(data.ArrayLayout(signed(total), config.lanes)),
                "product_control": Out(control_layout(config)),
                "given": Out(1),
                "values": Out(addends_layout(config)),
                "value_control": Out(control_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = range(self.config.lanes)
        # A value with the suffix n, and control[n], are n cycles after the registers of the beat.
        control = delay_line(m, self.control, RESULTS, "control")
        valid = delay_line(m, self.valid, RESULTS, "valid", reset=True)
        number_1 = [self._number(m, k, control[0]) for k in lanes]
        factor_1 = [self._factor(m, k, control[0]) for k in lanes]
        position_2 = [self._position(m, k, control[1], number_1[k]) for k in lanes]
        entry_3 = self._tables(m, control[2], [position for position, _ in position_2])
        number_3 = [delayed(m, number_1[k], 2, f"number_{k}") for k in lanes]
        factors_3 = self._factors(m, factor_1)
        for k in lanes:
            shift_2, subtract_2 = self._modes(m, k, control[1], number_1[k])
            operands_4 = self._operands(
                m, k, control[3], number_3, factors_3[k], entry_3[k], position_2[k]
            )
            total_6 = self._total(m, k, operands_4)
            m.d.comb += self.products[k].eq(total_6)
            shifted_8 = self._shifted(m, k, total_6, delayed(m, shift_2, 4, f"shift_{k}"))
            addend_8 = delayed(m, self._addend(m, k, control[0]), 7, f"addend_{k}")
            subtract_8 = delayed(m, subtract_2, 6, f"subtract_{k}")
            sum_9 = self._sum(m, k, addend_8, subtract_8, shifted_8)
            self._result(m, k, control[9], *sum_9)
        m.d.comb += [
            self.summable.eq(valid[PRODUCTS]),
            self.product_control.eq(control[PRODUCTS]),
            self.given.eq(valid[RESULTS]),
            self.value_control.eq(control[RESULTS]),
        ]
        return m

    def _number(self, m, k, control) -> Signal:
        """Return c: the number, its complement or its magnitude, plus the offset."""
        x = self.numbers[k]
        number = Signal(x.shape(), name=f"number_{k}", reset_less=True)
        negative = control.magnitude & x[-1]
        # Only the lower bits of a complement or a magnitude are used.
        turned = Cat(_turned(x[:WIDE], control.complement | negative), x[WIDE:]).as_signed()
        m.d.sync += number.eq(_added(control.offset, turned, control.carry | negative))
        # An element beyond the length does not count.
        with m.If(~control.mask[k]):
            m.d.sync += number.eq(0)
        return number

    def _factor(self, m, k, control) -> Signal:
        """Return the factor: that of the port, or the common one."""
        factor = Signal(signed(NARROW), name=f"factor_{k}", reset_less=True)
        m.d.sync += factor.eq(Mux(control.by_factors, self.factors[k], control.common))
        return factor

    def _addend(self, m, k, control) -> Signal:
        """Return the addend: that of the port, max(x, 0), a quarter turn for a cosine, or 0."""
        x, width = self.numbers[k], self.config.width
        addend = Signal(signed(self.config.residual_width), name=f"addend_{k}", reset_less=True)
        m.d.sync += addend.eq(Mux(control.magnitude, x[:width], self.addends[k]))
        with m.If(~(control.add | (control.magnitude & ~x[-1]))):
            m.d.sync += addend.eq(0)
        if not k % 2:
            with m.If(control.angle):
                m.d.sync += addend.eq(1 << self.config.sine_angle_bits - 2)
        return addend

    def _position(self, m, k, control, number) -> tuple[Signal, Signal]:
        """Return the place in a table, shifted to the left, and whether it is in the table."""
        width = SEGMENTS + BETWEEN
        position = Signal(width, name=f"position_{k}", reset_less=True)
        inside = Signal(name=f"inside_{k}", reset_less=True)
        top = number[BOUND : BOUND + len(control.beyond)]
        m.d.sync += [
            position.eq(number[:width] << control.left),
            inside.eq(~(control.linear | (top & control.beyond).any())),
        ]
        return position, inside

    def _tables(self, m, control, positions) -> list[tuple[Value, Value]]:
        """Return an entry of each lane and its distance to the next one; a memory for two lanes."""
        config = self.config
        powers = _differences(config.powers) * 2
        rows = [*powers, *_differences(config.corrections("silu"))]
        rows += [*_differences(config.corrections("gelu")), *_differences(config.sines)]
        layout = data.StructLayout({"entry": ENTRY, "distance": signed(BETWEEN + 1)})
        init = [{"entry": entry, "distance": distance} for entry, distance in rows]
        found = []
        for k in range(0, config.lanes, 2):
            table = memory.Memory(shape=layout, depth=len(init), init=init)
            m.submodules[f"table_{k}"] = table
            for position in positions[k : k + 2]:
                read = table.read_port()
                m.d.comb += read.addr.eq(Cat(position[BETWEEN:], control.table))
                found.append((read.data.entry, read.data.distance))
        return found

    def _factors(self, m, factors) -> list[tuple[Signal, Signal]]:
        """Return the factor of each lane, and that of its neighbour: in an even lane its negative.

        Lane 2 i has a cos - b sin, lane 2 i + 1 has a sin + b cos.
        """
        found = []
        for k in range(self.config.lanes):
            other = Signal(signed(NARROW - ROTATED), name=f"other_{k}", reset_less=True)
            neighbour = delayed(m, factors[k ^ 1], 1, f"neighbour_{k}")
            m.d.sync += other.eq(neighbour if k % 2 else -neighbour)
            found.append((delayed(m, factors[k], 2, f"own_{k}"), other))
        return found

    def _modes(self, m, k, control, number) -> tuple[Signal, Signal]:
        """Return the shift of the lane, and whether its sum is subtracted from the addend."""
        shift = Signal.like(control.shift, name=f"shift_{k}", reset_less=True)
        subtract = Signal(name=f"subtract_{k}", reset_less=True)
        fraction = self.config.score_fraction
        whole = number[fraction : fraction + 5] | number[fraction + 5 : WIDE].any().replicate(5)
        key = delayed(m, self.factors[k][:KEY], 1, f"key_{k}")
        less = Mux(control.by_key, key, 0)
        m.d.sync += [
            shift.eq(Mux(control.power, whole + LOW, control.shift - less)),
            subtract.eq(control.subtract | (control.sine & number[SEGMENTS + BETWEEN])),
        ]
        return shift, subtract

    def _operands(self, m, k, control, numbers, factors, entry, position) -> list[Signal]:
        """Return what the two multipliers multiply: a wide and a narrow operand of each."""
        number, neighbour = numbers[k], numbers[k ^ 1]
        own, other = factors
        entry, distance = entry
        position, inside = position
        place = delayed(m, position[:BETWEEN], 1, f"place_{k}")
        in_table = delayed(m, inside, 1, f"in_table_{k}")
        operands = [
            Signal(signed(width), name=f"{name}_{k}", reset_less=True)
            for name, width in (("x_1", WIDE), ("y_1", NARROW), ("x_2", WIDE), ("y_2", NARROW))
        ]
        upper, lower = number >> LOW, number[:LOW]
        with m.If(control.tabulate):
            place = Mux(in_table, Cat(Const(0, LOW - BETWEEN), place), 0)
            chosen = [entry, in_table, distance, place]
            m.d.sync += [to.eq(value) for to, value in zip(operands, chosen, strict=True)]
        with m.Elif(control.square):
            chosen = [number, upper, number, lower]
            m.d.sync += [to.eq(value) for to, value in zip(operands, chosen, strict=True)]
        with m.Elif(control.rotate):
            a, b = (neighbour, number) if k % 2 else (number, neighbour)
            shifted = b[: WIDE - LOW + ROTATED].as_signed() << LOW - ROTATED
            chosen = [a, own, shifted, other << ROTATED]
            m.d.sync += [to.eq(value) for to, value in zip(operands, chosen, strict=True)]
        with m.Else():
            chosen = [upper, own, lower, own]
            m.d.sync += [to.eq(value) for to, value in zip(operands, chosen, strict=True)]
        return operands

    def _total(self, m, k, operands) -> Value:
        """Return V: the products, the first one shifted by ``LOW`` bits, added.

        The low bits of the second product are not in the addition, which has a multiplier's width.
        """
        x_1, y_1, x_2, y_2 = operands
        products = [Signal(signed(WIDE + NARROW), name=f"p_{n}_{k}", reset_less=True) for n in "12"]
        upper = Signal(signed(WIDE + NARROW + 1), name=f"upper_{k}", reset_less=True)
        lower = Signal(LOW, name=f"lower_{k}", reset_less=True)
        m.d.sync += [
            products[0].eq(x_1 * y_1),
            products[1].eq(x_2 * y_2),
            upper.eq(products[0] + (products[1] >> LOW)),
            lower.eq(products[1]),
        ]
        return Cat(lower, upper).as_signed()

    def _shifted(self, m, k, total, shift) -> tuple[Signal, Signal, Signal]:
        """Return floor(V / 2^shift) in ``KEPT`` bits, the bit below it, and whether it overflows.

        A number has one bit more at its low end for the rounding.
        """
        # A coarse shift by 0, 16, 32 or 48, then a fine one by up to 15.
        width = KEPT + 1 + 15
        coarse = Signal(signed(width), name=f"coarse_{k}", reset_less=True)
        beyond, sign = (Signal(name=f"{n}_{k}", reset_less=True) for n in ("beyond", "sign"))
        kept = Signal(signed(KEPT), name=f"kept_{k}", reset_less=True)
        half = Signal(name=f"half_{k}", reset_less=True)
        sides = Signal(2, name=f"sides_{k}", reset_less=True)
        fine = delayed(m, shift[:4], 1, f"fine_{k}")
        number = Cat(Const(0, 1), total).as_signed()
        differ = _turned(number, number[-1])
        m.d.sync += [
            coarse.eq(number >> Cat(Const(0, 4), shift[4:])),
            beyond.eq(
                ((shift[4:] == 0) & differ[width : width + 16].any())
                | (~shift[5] & differ[width + 16 :].any())
            ),
            sign.eq(number[-1]),
        ]
        by_fours = (coarse >> Cat(Const(0, 2), fine[2:]))[: KEPT + 4]
        bits = (by_fours >> fine[:2])[: KEPT + 1]
        # Bits that the fine shift leaves above those that are kept.
        reach = Cat(fine <= n for n in range(15))
        between = (_turned(coarse, sign)[KEPT : KEPT + 15] & reach).any()
        m.d.sync += [
            kept.eq(bits[1:]),
            half.eq(bits[0]),
            sides.eq(Cat(beyond | between, sign)),
        ]
        return kept, half, sides

    def _sum(self, m, k, addend, subtract, shifted) -> tuple[Signal, Signal, Signal]:
        """Return the addend plus or less the rounded number; whether it overflows, and its sign."""
        kept, half, sides = shifted
        total = Signal(signed(KEPT + 1), name=f"sum_{k}", reset_less=True)
        overflow = Signal(name=f"overflow_{k}", reset_less=True)
        negative = Signal(name=f"negative_{k}", reset_less=True)
        # -(n + half) is ~n + 1 - half.
        turned = _turned(kept, subtract)
        m.d.sync += [
            total.eq(_added(addend, turned, half ^ subtract)),
            overflow.eq(sides[0]),
            negative.eq(sides[1] ^ subtract),
        ]
        return total, overflow, negative

    def _result(self, m, k, control, total, overflow, negative) -> None:
        """Saturate the sum to the width of a vector or of the residual."""
        narrow, wide = self.config.width, self.config.residual_width
        value = Signal(signed(wide), name=f"value_{k}", reset_less=True)
        top, middle = total[wide - 1 :], total[narrow - 1 : wide - 1]
        differs = Mux(total[-1], ~top.all(), top.any())
        differs = differs | (~control.wide & Mux(total[-1], ~middle.all(), middle.any()))
        saturated = overflow | differs
        sign = Mux(overflow, negative, total[-1])
        # The bits of a limit: those of the number, and those that are its sign where it is narrow.
        limit = Cat((~sign).replicate(narrow - 1), (sign ^ control.wide).replicate(wide - narrow))
        m.d.sync += value.eq(Mux(saturated, Cat(limit, sign), total))
        with m.If(control.angle):
            m.d.sync += value.eq(total[: self.config.sine_angle_bits])
        with m.If(~control.mask[k]):
            m.d.sync += value.eq(0)
        m.d.comb += self.values[k].eq(value)
