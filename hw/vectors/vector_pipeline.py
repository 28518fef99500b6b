"""The pipeline of the vector unit: lanes with two multipliers, a table, and a rounding shifter."""

from itertools import pairwise

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
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
from seedbed.hw.vectors.vector_rounding import VectorRounding, added, turned
from seedbed.spec import VectorUnitConfig

__all__ = ["PRODUCTS", "RESULTS", "SOURCES", "TABLES", "VectorPipeline"]

#: Cycles from the registers of a beat to its sum of products, and to its results.
PRODUCTS, RESULTS = 6, 10
#: Tables of 512 segments, by their places; that of the powers is there twice.
TABLES = codes(("power", "silu", "gelu", "sine"))
#: What the operands of the multipliers are.
SOURCES = codes(("product", "square", "rotate", "table"))
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


def _differences(table: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return each entry of a table but the last, with its distance to the next one."""
    return [(entry, after - entry) for entry, after in pairwise(table)]


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
        addend_8 = self._addends(m, control[0])
        for k in lanes:
            shift_4 = self._lane_shift(m, k, control, number_1[k])
            place_3 = self._place(m, k, *position_2[k])
            operands_4 = self._operands(
                m, k, control[3], number_3, factors_3[k], entry_3[k], place_3
            )
            total_6 = self._total(m, k, operands_4)
            m.d.comb += self.products[k].eq(total_6)
            # A sine of the second half of a turn is negative.
            negative = control[1].sine & number_1[k][SEGMENTS + BETWEEN]
            subtract = control[1].subtract | negative
            m.submodules[f"rounding_{k}"] = rounding = VectorRounding(self.config, len(total_6))
            m.d.comb += [
                rounding.total.eq(total_6),
                rounding.shift.eq(delayed(m, shift_4, 2, f"shift_{k}")),
                rounding.addend.eq(addend_8[k]),
                rounding.subtract.eq(delayed(m, subtract, 7, f"subtract_{k}")),
                rounding.wide.eq(control[9].wide),
                rounding.angle.eq(control[9].angle),
                rounding.outside.eq(control[9].outside[k]),
                self.values[k].eq(rounding.value),
            ]
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
        lower = turned(x[:WIDE], control.complement | negative)
        operand = Cat(lower, x[WIDE:]).as_signed()
        m.d.sync += number.eq(added(control.offset, operand, control.carry | negative))
        # An element beyond the length does not count.
        with m.If(control.outside[k]):
            m.d.sync += number.eq(0)
        return number

    def _factor(self, m, k, control) -> Signal:
        """Return the factor: that of the port, or the common one."""
        factor = Signal(signed(NARROW), name=f"factor_{k}", reset_less=True)
        m.d.sync += factor.eq(Mux(control.by_factors, self.factors[k], control.common))
        return factor

    def _addends(self, m, control) -> data.View:
        """Return the addends after eight cycles, from a memory in place of delay lines."""
        layout = addends_layout(self.config)
        m.submodules.addends = stored = memory.Memory(shape=layout, depth=8, init=[])
        write, read = stored.write_port(), stored.read_port(domain="comb")
        cycle = Signal(3)
        late = Signal(layout, reset_less=True)
        m.d.comb += [
            write.addr.eq(cycle),
            write.en.eq(1),
            read.addr.eq(cycle - 6),
            *(
                to.eq(self._addend(m, k, control))
                for k, to in zip(range(self.config.lanes), write.data, strict=True)
            ),
        ]
        m.d.sync += [cycle.eq(cycle + 1), late.eq(read.data)]
        return late

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

    def _place(self, m, k, position, inside) -> tuple[Signal, Signal]:
        """Return the place between two entries, 0 where it is not in the table, and whether it is.

        The entry then counts for nothing, either.
        """
        place = Signal(BETWEEN, name=f"place_{k}", reset_less=True)
        m.d.sync += place.eq(position)
        with m.If(~inside):
            m.d.sync += place.eq(0)
        return place, delayed(m, inside, 1, f"inside_{k}")

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

    def _lane_shift(self, m, k, control, number) -> Signal:
        """Return the shift of the lane: the common one less that of a key, or that of a power."""
        part = Signal(5, name=f"part_{k}", reset_less=True)
        shift = Signal(self.config.shift_bits, name=f"shift_{k}", reset_less=True)
        fraction = self.config.score_fraction
        whole = number[fraction : fraction + 5] | number[fraction + 5 : WIDE].any().replicate(5)
        key = delayed(m, self.factors[k][:KEY], 1, f"key_{k}")
        part_3 = delayed(m, part, 1, f"part_{k}")
        m.d.sync += [
            part.eq(Mux(control[1].power, whole, Mux(control[1].by_key, key, 0))),
            shift.eq(Mux(control[3].power, part_3 + LOW, control[3].shift - part_3)),
        ]
        return shift

    def _operands(self, m, k, control, numbers, factors, entry, place) -> list[Signal]:
        """Return what the two multipliers multiply: a wide and a narrow operand of each."""
        number, neighbour = numbers[k], numbers[k ^ 1]
        own, other = factors
        first, distance = entry
        between, inside = place
        a, b = (neighbour, number) if k % 2 else (number, neighbour)
        shifted = b[: WIDE - LOW + ROTATED].as_signed() << LOW - ROTATED
        upper, lower = number >> LOW, number[:LOW]
        sources = {
            "product": (upper, own, lower, own),
            "square": (number, upper, number, lower),
            "rotate": (a, own, shifted, other << ROTATED),
            "table": (first, inside, distance, between << LOW - BETWEEN),
        }
        operands = [
            Signal(signed(width), name=f"{name}_{k}", reset_less=True)
            for name, width in (("x_1", WIDE), ("y_1", NARROW), ("x_2", WIDE), ("y_2", NARROW))
        ]
        with m.Switch(control.source):
            for name, values in sources.items():
                with m.Case(SOURCES[name]):
                    m.d.sync += [to.eq(value) for to, value in zip(operands, values, strict=True)]
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
