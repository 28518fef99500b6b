"""Perturbs and multiplies entries of a sparse matrix, or updates them."""

from itertools import pairwise

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.delay_line import delay_line, delayed
from seedbed.hw.fixed_requantize import saturate
from seedbed.hw.sparse_layouts import entry_layout, token_layout
from seedbed.spec import SparseMacConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.sparse_mac import GAIN_FRACTION, MOST_SCALE

__all__ = ["SparseLane"]

#: Stages, counted from an entry's transfer: operands of the multiplier, the shifted product, and
#: the updated value.
OPERANDS, SHIFTED, UPDATED = 4, 8, 11


class SparseLane(wiring.Component):
    """A multiplier for each vector, for the products of a pass; the first one is for updates, too.

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
        See :class:`~seedbed.hw.sparse_entries.SparseEntries`.
    number : In(signed(number_width + 1))
        That of the entry at ``i``.
    activations : In(vectors * group x signed(activation_width))
        Those of the vectors around the column of the entry, one cycle of ``ce`` after it.
    push, row, sums : Out
        In a cycle of ``ce``: the sparse part of a row is complete, for each vector.
    summed : Out(1)
        All of them have been given.
    error : In(1)
        The last entry was wrong: the row of the entry before is not complete.
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
                "activations": In(data.ArrayLayout(activation, config.vectors * config.group)),
                "push": Out(1),
                "row": Out(config.row_width),
                "sums": Out(data.ArrayLayout(signed(config.partial_width), config.vectors)),
                "summed": Out(1),
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
        values = [view.value for view in entries]
        scaled = self._scaled(m)
        group = self.config.group
        products = []
        for v in range(self.config.vectors):
            lanes = [*self.activations[v * group : (v + 1) * group]]
            activation = self._activation(m, lanes, entries[1].column)
            given = tokens[SHIFTED - 1][0]
            products.append(self._multiply(m, v, values[2], scaled, activation, given))
        self._sum(m, tokens[SHIFTED - 1 : SHIFTED + 1], entries[SHIFTED].row, products)
        m.d.comb += [
            self.o.valid.eq(tokens[UPDATED][0]),
            self.o.end.eq(tokens[UPDATED][1]),
            self.o.last.eq(tokens[UPDATED - 1][1] & ~self.error),
            self.o.entry.row.eq(entries[UPDATED].row),
            self.o.entry.column.eq(entries[UPDATED].column),
            self.o.entry.value.eq(self._updated(m, values, products[0])),
        ]
        return m

    def _delayed(self, m, value, cycles, name):
        return delay_line(m, value, cycles, name, enable=self.ce)

    def _register(self, m, value, shape, name, clear=0):
        """Return ``value`` in a register of a shape that may drop bits it does not need."""
        register = Signal(shape, name=name, reset_less=True)
        with m.If(self.ce):
            m.d.sync += register.eq(value)
        with m.If(self.ce & clear):
            m.d.sync += register.eq(0)
        return register

    def _activation(self, m, choices, column):
        """Return the activation of a column, two cycles after the group is there."""
        bits = column[: len(choices).bit_length() - 1]
        # Four to one is one LUT6 per bit: the first stage, which has the most, is all of these.
        step = len(bits) // 2
        late = self._delayed(m, bits[step:], 1, "lane")[-1]
        few = [
            self._register(m, self._select(choices[k : k + (1 << step)], bits[:step]),
                           choices[0].shape(), f"few_{k}")
            for k in range(0, len(choices), 1 << step)
        ]  # fmt: skip
        return self._register(m, self._select(few, late), few[0].shape(), "activation")

    def _select(self, choices, index):
        """Return the choice of an index; the number of choices is a power of two."""
        for bit in index:
            pairs = zip(choices[::2], choices[1::2], strict=True)
            choices = [Mux(bit, odd, even) for even, odd in pairs]
        return choices[0]

    def _scaled(self, m):
        """Return the number of an entry, shifted, two cycles after the entry."""
        config = self.config
        width = config.number_width + 1 + 3
        coarse = self._register(m, self.number << self.scale[:2], signed(width), "number")
        width += MOST_SCALE & ~3
        scaled = coarse << Cat(Const(0, 2), self.scale[2:])
        # Bits of a signed number: it is inverted.
        return self._register(m, scaled, width, "scaled")

    def _multiply(self, m, vector, value, scaled, activation, given):
        """Return the product, shifted: of the perturbed value, or of number and gain."""
        config = self.config
        form = Fixed(config.value_width, 0)
        perturb, negative = self.perturb[vector], self.negative[vector]
        other = activation
        if vector == 0:
            # An update multiplies the number by the gain.
            value, other = Mux(self.update, 0, value), Mux(self.update, self.gain, activation)
            perturb, negative = perturb | self.update, negative & ~self.update
        # In one's complement: the 1 that is missing is the carry into the sum.
        carry = negative & perturb
        signs = negative.replicate(len(scaled))
        step = Mux(perturb, scaled ^ signs, 0).as_signed()
        moved = (Cat(carry, value).as_signed() + Cat(carry, step).as_signed())[1:].as_signed()
        moved = self._delayed(m, moved, 1, "moved")[-1]
        clamped, _ = saturate(m, moved, form, f"perturbed_{vector}")
        a = self._delayed(m, clamped, 1, "factor")[-1]
        b = self._delayed(m, other, 1, "other")[-1]
        product = self._delayed(m, a * b, 2, "product")[-1]
        coarse = self._register(
            m,
            product << Cat(Const(0, 2), self.shift[2:]),
            signed(config.product_width + (config.most_shift & ~3)),
            "coarse",
        )
        shifted = signed(config.product_width + config.most_shift)
        return self._register(m, coarse << self.shift[:2], shifted, "fine", clear=~given)

    def _sum(self, m, tokens, row, products):
        """Add the products of a row; give the sums when the next row begins or all have come.

        Flip-flops clear the product of no entry, and the total in the cycle before a row: the adder
        needs no gates.
        """
        coming, (valid, end) = tokens
        coming_first, first = self._delayed(m, self.i.first, SHIFTED, "first")[SHIFTED - 1 :]
        ends = (coming[0] & coming_first) | coming[1]
        pending = Signal()
        sums = Signal.like(self.sums, name="sums", reset_less=True)
        totals = Signal.like(self.sums, name="totals", reset_less=True)
        total_row = Signal.like(self.row, name="total_row", reset_less=True)
        m.d.comb += [
            self.push.eq(pending & ~self.update & ((valid & first) | (end & ~self.error))),
            self.sums.eq(sums),
            self.row.eq(total_row),
        ]
        with m.If(~self.run):
            m.d.sync += [pending.eq(0), self.summed.eq(0)]
        with m.Elif(self.ce):
            m.d.sync += [pending.eq((pending | valid) & ~end), self.summed.eq(self.summed | end)]
        with m.If(self.ce & valid):
            m.d.sync += total_row.eq(row)
        for done, total, product in zip(sums, totals, products, strict=True):
            added = Signal.like(total, name="added")
            m.d.comb += added.eq(total + product)
            with m.If(self.ce):
                m.d.sync += total.eq(added)
            with m.If(self.ce & ends):
                m.d.sync += done.eq(added)
            with m.If((self.ce & ends) | ~self.run):
                m.d.sync += total.eq(0)

    def _updated(self, m, values, product):
        """Return the value less the product by 2^16, rounded half up, and saturated."""
        width = self.config.value_width
        # A product of few bits has no bit of a half.
        product = product | Const(0, signed(GAIN_FRACTION + 1))
        # One bit more than a value is enough for a step that goes from end to end.
        floor, _ = saturate(m, product >> GAIN_FRACTION, Fixed(width + 1, 0), "floor")
        step = self._delayed(m, floor, 1, "floor")[-1]
        half = self._delayed(m, product[GAIN_FRACTION - 1], 1, "half")[-1]
        # value + ~step + 1 - half: the last two are the carry into the sum.
        less = (Cat(1, values[SHIFTED + 1]).as_signed() + Cat(~half, ~step).as_signed())[
            1:
        ].as_signed()
        less = self._delayed(m, less, 1, "less")[-1]
        clamped, _ = saturate(m, less, Fixed(width, 0), "new_value")
        return delayed(m, clamped, 1, "updated", enable=self.ce)
