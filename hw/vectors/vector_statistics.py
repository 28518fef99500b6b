"""Sums, greatest elements and reciprocals of a vector: what the next commands use of it."""

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.vectors.vector_layouts import addends_layout
from seedbed.spec import VectorUnitConfig

__all__ = ["FINISH", "PRODUCT", "WIDTH", "VectorStatistics"]

#: Cycles from a complete sum to its reciprocal, at most: 7 shifts by eight, 7 by one, the table.
FINISH = 18

#: Bits of a product that is added: of the square of an element less its mean.
PRODUCT = 50
#: Bits of a sum, the last of which is the leading one of a normalised sum.
WIDTH = 63
#: Bits after the leading one that find an entry of a table.
NORMAL = 15
#: Bits between two entries of a table, of 256 segments.
BETWEEN = 8
#: The place of a mean in the sum that is shifted to the left.
MEAN = 38


def _sum(m: Module, values: list, shape: Shape, name: str) -> Signal:
    """Return the sum of values, by pairs, with a register after each level."""
    level = 0
    while len(values) > 1:
        level += 1
        found = []
        for k, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
            register = Signal(shape, name=f"{name}_{level}_{k}", reset_less=True)
            m.d.sync += register.eq(a + b)
            found.append(register)
        values = found
    return values[0]


class VectorStatistics(wiring.Component):
    """Adds the products or the results of a vector, or finds the greatest result.

    At the end of the vector, a sum becomes a mean (shifted and rounded), or a reciprocal or
    reciprocal root r / 2^(15 + p): it is shifted by eight places or by one until its leading one is
    at the top, and the next bits find an entry of a table.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.VectorUnitConfig`.

    ``constant``, ``shift``, ``mean`` and ``root`` are taken with ``start_sum``.

    Members
    -------
    start_sum, start_peak : In(1)
        A vector begins whose elements are added, or compared.
    constant : In
        The sum begins with it.
    shift : In
        That of a mean.
    mean, root : In(1)
        What the sum becomes, if it is not a reciprocal.
    products, add_products, values, add_values, compare, outside, last : In
        Products or results of a beat, and what is done with them.
    greatest : Out(signed)
        The greatest result.
    centre : Out(signed)
        The mean.
    reciprocal, places : Out
        r, and the shift that it is used with: p - 2 of a root, or 15 + p.
    peaked, done : Out(1)
        The greatest result is there; what the sum becomes is.
    """

    def __init__(self, config: VectorUnitConfig):
        self.config = config
        width = config.residual_width
        super().__init__(
            {
                "start_sum": In(1),
                "start_peak": In(1),
                "constant": In(config.constant_bits),
                "shift": In(config.shift_bits),
                "mean": In(1),
                "root": In(1),
                "products": In(data.ArrayLayout(signed(PRODUCT), config.lanes)),
                "add_products": In(1),
                "products_last": In(1),
                "values": In(addends_layout(config)),
                "outside": In(config.lanes),
                "add_values": In(1),
                "compare": In(1),
                "values_last": In(1),
                "greatest": Out(signed(width)),
                "centre": Out(signed(width + 1)),
                "reciprocal": Out(config.table_fraction + 1),
                "places": Out(config.shift_bits),
                "peaked": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        peaked = self._peak(m)
        total, summed = self._sums(m)
        m.d.comb += [self.peaked.eq(peaked), self.done.eq(self._finish(m, total, summed))]
        return m

    @property
    def _levels(self) -> int:
        return self.config.lanes.bit_length() - 1

    def _peak(self, m) -> Signal:
        """Find the greatest result; return whether that of the last beat is there."""
        form = self.config.residual
        values, outside, level = [*self.values], self.outside, 0
        # The elements within the length are the first ones: element 0 is always one of them.
        while len(values) > 1:
            level += 1
            found = []
            for k, (a, b) in enumerate(zip(values[::2], values[1::2], strict=True)):
                peak = Signal(signed(form.width), name=f"peak_{level}_{k}", reset_less=True)
                m.d.sync += peak.eq(Mux(~outside[2 * k + 1] & (b > a), b, a))
                found.append(peak)
            values = found
            outside = delayed(m, outside[::2], 1, f"outside_{level}")
        (peak,) = values
        compare = delayed(m, self.compare, self._levels, "compare", reset=True)
        last = delayed(m, self.compare & self.values_last, self._levels + 1, "peaked", reset=True)
        with m.If(self.start_peak):
            m.d.sync += self.greatest.eq(form.low)
        with m.Elif(compare & (peak > self.greatest)):
            m.d.sync += self.greatest.eq(peak)
        return last

    def _sums(self, m) -> tuple[Signal, Signal]:
        """Add the products or the results; return the sum, and whether it is complete."""
        levels = self._levels
        bits = self.config.table_fraction + 1
        product = _sum(m, list(self.products), signed(PRODUCT + levels), "product")
        value = _sum(m, [v[:bits] for v in self.values], unsigned(bits + levels), "value")
        total = Signal(WIDTH)
        by_products = delayed(m, self.add_products, levels, "by_products", reset=True)
        by_values = delayed(m, self.add_values, levels, "by_values", reset=True)
        ended = (self.add_products & self.products_last) | (self.add_values & self.values_last)
        summed = delayed(m, ended, levels + 1, "summed", reset=True)
        with m.If(self.start_sum):
            m.d.sync += total.eq(self.constant)
        with m.Elif(by_products | by_values):
            m.d.sync += total.eq(total + Mux(by_values, value, product))
        return total, summed

    def _finish(self, m, total, summed) -> Signal:
        """Shift the sum to its mean or to its leading one; return whether the result is there."""
        place = Signal(6)
        to_mean, of_root, shifting, arrived, coarse, found = (
            Signal(name=name)
            for name in ("to_mean", "of_root", "shifting", "arrived", "coarse", "found")
        )
        m.d.comb += [
            arrived.eq((place == 0) | (~to_mean & total[-1])),
            coarse.eq(place[3:].any() & (to_mean | ~total[-8:].any())),
            found.eq(shifting & arrived),
        ]
        with m.If(self.start_sum):
            m.d.sync += [
                to_mean.eq(self.mean),
                of_root.eq(self.root),
                place.eq(Mux(self.mean, MEAN - self.shift, WIDTH - 1)),
            ]
        with m.If(summed | found):
            m.d.sync += shifting.eq(summed)
        with m.Elif(shifting):
            m.d.sync += [
                total.eq(Mux(coarse, total << 8, total << 1)),
                place.eq(Mux(coarse, place - 8, place - 1)),
            ]
        mean = found & to_mean
        with m.If(mean):
            m.d.sync += self.centre.eq(total[MEAN : MEAN + len(self.centre)] + total[MEAN - 1])
        looked_up = self._reciprocal(m, total, place, of_root, found & ~to_mean)
        return delayed(m, mean, 1, "centred", reset=True) | looked_up

    def _reciprocal(self, m, total, place, root, normal) -> Signal:
        """Look up the reciprocal or its root; return whether it is there."""
        config = self.config
        tables = [*zip(config.reciprocals, config.reciprocals[1:], strict=False)]
        tables += zip(config.reciprocal_roots, config.reciprocal_roots[1:], strict=False)
        layout = data.StructLayout(
            {"entry": config.table_fraction + 1, "distance": signed(BETWEEN + 1)}
        )
        init = [{"entry": entry, "distance": after - entry} for entry, after in tables]
        m.submodules.table = table = memory.Memory(shape=layout, depth=len(init), init=init)
        read = table.read_port()
        mantissa = total[WIDTH - 1 - NORMAL : WIDTH - 1]
        position = Mux(root, Cat(mantissa, place[0]), Cat(Const(0, 1), mantissa))
        low = delayed(m, position[:BETWEEN], 1, "low")
        product = Signal(signed(2 * BETWEEN + 2), reset_less=True)
        entry = delayed(m, read.data.entry, 1, "entry")
        stages = [normal]
        for k in range(1, 4):
            stages.append(delayed(m, stages[-1], 1, f"looked_up_{k}", reset=True))
        half = 1 << BETWEEN - 1
        m.d.comb += read.addr.eq(Cat(position[BETWEEN:], root))
        m.d.sync += product.eq(read.data.distance * Cat(low, Const(0, 1)).as_signed())
        with m.If(stages[2]):
            m.d.sync += [
                self.reciprocal.eq(entry + (product + half >> BETWEEN)),
                self.places.eq(
                    Mux(
                        root,
                        (place >> 1) + (config.table_fraction - config.normal_fraction),
                        place + config.table_fraction,
                    )
                ),
            ]
        return stages[3]
