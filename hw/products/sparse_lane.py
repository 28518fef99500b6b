"""Perturbs and multiplies entries of a sparse matrix, or updates them."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.hw.products.sparse_layouts import entry_layout, products_layout, token_layout
from seedbed.spec import SparseMacConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.sparse_mac import GAIN_FRACTION, MOST_SCALE

__all__ = ["SparseLane"]

#: Stages, counted from an entry's transfer: operands of the multiplier, the product, and the
#: updated value.
OPERANDS, SHIFTED, UPDATED = 4, 6, 8
#: Bits of a shift that are a factor of the activation. The rest is a multiplexer before an adder.
FINE = 3


class SparseLane(wiring.Component):
    """Multiplies entries for each vector; the first multiplier is for updates, too.

    A second multiplier shifts an activation by up to 7 bits: it multiplies by a power of two.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseMacConfig`.

    Members
    -------
    ce : In(1)
        Clock enable of all registers.
    run : In(1)
        A pass is on; without it, nothing is in the pipeline.
    update, perturb, negative, scale, shift, gain : In
        Of the pass, ``perturb`` and ``negative`` a bit for each vector. The scale is 0 in an
        update, and the gain where values are only passed on.
    i : In(struct)
        See :class:`~seedbed.hw.products.sparse_entries.SparseEntries`.
    number : In(signed(number_width + 1))
        That of the entry at ``i``.
    activations : In(vectors x signed(activation_width))
        Those of the column of the entry, one cycle of ``ce`` after it.
    valid, row, products : Out
        A product of each vector, shifted, and the row that it belongs to.
    ended : Out(1)
        All of them have been given.
    error : In(1)
        The last entry was wrong.
    o : Out(struct)
        ``valid``, ``end``, ``last``, ``entry``: the entry with its updated value.
    """

    def __init__(self, config: SparseMacConfig):
        self.config = config
        token = token_layout(config)
        activation = signed(config.activation_width)
        super().__init__(
            {
                "ce": In(1),
                "run": In(1),
                "update": In(1),
                "perturb": In(config.vectors),
                "negative": In(config.vectors),
                "scale": In(range(MOST_SCALE + 1)),
                "shift": In(range(max(2, config.most_shift + 1))),
                "gain": In(signed(config.activation_width)),
                "error": In(1),
                "i": In(token),
                "number": In(signed(config.number_width + 1)),
                "activations": In(data.ArrayLayout(activation, config.vectors)),
                "valid": Out(1),
                "row": Out(config.row_width),
                "products": Out(products_layout(config)),
                "ended": Out(1),
                "o": Out(
                    data.StructLayout(
                        {"valid": 1, "end": 1, "last": 1, "entry": entry_layout(config)}
                    )
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        tokens = [Signal(2, name=f"token_{k}") for k in range(UPDATED + 1)]
        m.d.comb += tokens[0].eq(Cat(self.i.valid, self.i.end))
        for before, token in pairwise(tokens):
            with m.If(~self.run):
                m.d.sync += token.eq(0)
            with m.Elif(self.ce):
                m.d.sync += token.eq(before)
        entries = self._delayed(m, self.i.entry, UPDATED, "entry")
        # An update multiplies the number, and not its sum with a value.
        base = self._register(
            m, entries[1].value, signed(self.config.value_width), "base", clear=self.update
        )
        number = self._number(m)
        power = Signal(1 << FINE, reset_less=True)
        m.d.sync += power.eq(1 << self.shift[:FINE])
        coarse = self.shift[FINE:]
        if len(coarse):
            # Not an update's: a multiplexer that two adders share is in the LUTs of neither.
            coarse = Signal(len(coarse), reset_less=True)
            m.d.sync += coarse.eq(self.shift[FINE:] & (~self.update).replicate(len(coarse)))
        found = [self._multiply(m, v, base, number, power) for v in range(self.config.vectors)]
        for to, product in zip(self.products, found, strict=True):
            m.d.comb += to.eq(product << Cat(Const(0, FINE), coarse))
        step = found[0] << Cat(Const(0, FINE), self.shift[FINE:])
        end, after_end = tokens[SHIFTED][1], Signal()
        m.d.sync += after_end.eq(self.run & self.ended)
        m.d.comb += [
            self.ended.eq(end | after_end),
            self.valid.eq(tokens[SHIFTED][0]),
            self.row.eq(entries[SHIFTED].row),
            self.o.valid.eq(tokens[UPDATED][0]),
            self.o.end.eq(tokens[UPDATED][1]),
            self.o.last.eq(tokens[UPDATED - 1][1] & ~self.error),
            self.o.entry.row.eq(entries[UPDATED].row),
            self.o.entry.column.eq(entries[UPDATED].column),
            self.o.entry.value.eq(self._updated(m, entries[SHIFTED].value, step)),
        ]
        return m

    def _delayed(self, m, value, cycles, name):
        """Return a delay line whose registers have a reset: shift registers of LUTs have none."""
        return delay_line(m, value, cycles, name, enable=self.ce, reset=True)

    def _register(self, m, value, shape, name, clear=0):
        """Return ``value`` in a register, which is 0 after a cycle of ``ce`` with ``clear``."""
        register = Signal(shape, name=name, reset_less=True)
        with m.If(self.ce):
            m.d.sync += register.eq(value)
        with m.If(self.ce & clear):
            m.d.sync += register.eq(0)
        return register

    def _number(self, m):
        """Return an entry's number two cycles after it, shifted by the scale."""
        width = self.config.number_width + 1 + 3
        coarse = self._register(m, self.number << self.scale[:2], signed(width), "number")
        coarse = self._delayed(m, coarse, 1, "number")[-1]
        return (coarse << Cat(Const(0, 2), self.scale[2:])).as_unsigned()

    def _multiply(self, m, vector, base, number, power):
        """Return the product: of perturbed value and activation, or of number and gain.

        Another multiplier applies the lower bits of the shift to the activation or the gain.
        """
        config = self.config
        form = Fixed(config.value_width, 0)
        perturb, negative = self.perturb[vector], self.negative[vector]
        factor = self.activations[vector]
        if vector == 0:
            factor = Mux(self.update, self.gain, factor)
            perturb, negative = perturb | self.update, negative & ~self.update
        # In one's complement: the 1 that is missing is the carry into the sum.
        carry = negative & perturb
        step = Mux(perturb, number ^ negative.replicate(len(number)), 0).as_signed()
        moved = (Cat(carry, base).as_signed() + Cat(carry, step).as_signed())[1:].as_signed()
        moved = self._delayed(m, moved, 1, "moved")[-1]
        clamped, _ = saturate(m, moved, form, f"perturbed_{vector}")
        a = self._delayed(m, clamped, 1, "factor")[-1]
        factor = self._delayed(m, factor, 1, "activation")[-1]
        b = self._delayed(m, (factor * power)[:-1].as_signed(), 2, "shifted")[-1]
        return self._delayed(m, a * b, 2, "product")[-1]

    def _updated(self, m, value, product):
        """Return the value less the product by 2^16, rounded half up, and saturated."""
        config = self.config
        # Those of number and gain have fewer bits than others, and some have no bit of a half.
        width = config.number_width + config.activation_width + config.most_shift
        product = Cat(product, product[-1].replicate(GAIN_FRACTION + 1))[
            : max(width, GAIN_FRACTION + 1)
        ].as_signed()
        half, step = product[GAIN_FRACTION - 1], product[GAIN_FRACTION:].as_signed()
        # value + ~step + 1 - half: the last two are the carry into the sum.
        less = (Cat(1, value).as_signed() + Cat(~half, ~step).as_signed())[1:].as_signed()
        less = self._delayed(m, less, 1, "less")[-1]
        clamped, _ = saturate(m, less, Fixed(config.value_width, 0), "new_value")
        return self._delayed(m, clamped, 1, "updated")[-1]
