"""Multipliers and sums of attention: of a query and a key, and of a share and a value."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.stream.stream_layouts import (
    SHIFT_BITS,
    STORE_CYCLES,
    element_layout,
    kept_layout,
    products_layout,
    values_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.stream_engine import QUERY

__all__ = ["DEPTH", "ProductSums"]

#: Groups of sums that are begun and not taken at most.
DEPTH = 4


class ProductSums(wiring.Component):
    """Adds products, a word of each bank of the cache a cycle, and gives sums ``lanes`` at a time.

    A mix has a sum for each element of a word. Scores have one for a token: it is the sum of all
    elements, and ``lanes`` of them are given together.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    comes, first, last, ends, lane : In
        A product comes; it is the first or the last one of its sum; the sums of a group end with
        it; the place of the sum of a score, or of the share of a mix, of the first bank. The
        operands come ``STORE_CYCLES`` later:
    there : In
        The banks after the first one that have a token, too.
    mix, query, shares, kept : In
        What is multiplied: query and keys, or shares and values, beats of a word of each bank, one
        bank after another.
    starts, room : In, Out
        A group begins; there is room for one.
    valid, pop, o : Out, In, Out
        There is a beat of sums; it is taken; the sums and the shifts of the keys.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        parts = config.products // config.lanes
        flags = ("comes", "first", "last", "ends", "mix", "starts", "pop")
        super().__init__(
            {name: In(1) for name in flags}
            | {
                "lane": In(range(config.lanes)),
                "there": In(config.keys - 1),
                "query": In(data.ArrayLayout(values_layout(config), parts)),
                "shares": In(element_layout(config)),
                "kept": In(data.ArrayLayout(kept_layout(config), parts * config.keys)),
                "room": Out(1),
                "valid": Out(1),
                "o": Out(products_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        names = ("comes", "first", "last", "ends")
        # Of the cycle when operands come, and of those that follow.
        at = {
            name: delay_line(m, getattr(self, name), STORE_CYCLES + 4, name, reset=True)[
                STORE_CYCLES:
            ]
            for name in names
        }
        lane = delayed(m, self.lane, STORE_CYCLES, "lane")
        products = [
            self._products(m, bank, share) for bank, share in enumerate(self._shares(m, lane))
        ]
        self._collect(m, products, at, delayed(m, lane, 4, "of_lane"))
        return m

    def _shares(self, m, lane) -> list[Signal]:
        """Return the share of each bank."""
        keys, factor = self.config.keys, signed(self.config.unit.factor_bits + 1)
        shares = [Signal(factor, name=f"share_{bank}") for bank in range(keys)]
        there = Cat(Const(1), delayed(m, self.there, STORE_CYCLES, "there"))
        every = [*self.shares]
        for bank, share in enumerate(shares):
            with m.If(there[bank]):
                m.d.comb += share.eq(Array(every[bank::keys])[lane >> keys.bit_length() - 1])
        return shares

    def _products(self, m, bank: int, share) -> list[Signal]:
        """Return the products of a bank, one for each element of a word."""
        width, parts, found = self.config.unit.width, len(self.query), []
        for part, query in enumerate(self.query):
            kept = self.kept[bank * parts + part]
            for k, number in enumerate(kept.numbers):
                name = f"{bank}_{part}_{k}"
                operand = Signal(share.shape(), name=f"operand_{name}", reset_less=True)
                other = Signal(signed(width), name=f"other_{name}", reset_less=True)
                product = Signal(signed(2 * width + 1), name=f"product_{name}", reset_less=True)
                m.d.sync += [
                    operand.eq(Mux(self.mix, share, query[k])),
                    other.eq(Mux(self.mix, number << kept.shift, number)),
                    product.eq(operand * other),
                ]
                found.append(product)
        return found

    def _mixes(self, m, products, at) -> data.View:
        """Return the sums of a mix so far, over all banks, a cycle after they are complete."""
        layout = data.ArrayLayout(signed(self.config.unit.sum_width), self.config.products)
        totals, complete = (
            Signal(layout, name=name, reset_less=True) for name in ("totals", "complete")
        )
        for total, of_banks in zip(totals, zip(*products, strict=True), strict=True):
            with m.If(at["comes"][2]):
                m.d.sync += total.eq(sum(of_banks, Mux(at["first"][2], 0, total)))
        with m.If(at["last"][3]):
            m.d.sync += complete.eq(totals)
        return complete

    def _score(self, m, bank: int, products, at) -> Signal:
        """Return the sum of the products of a query and a key so far."""
        config, lanes = self.config, self.config.lanes
        # Keys are not shifted, so that products have fewer bits than those of a mix.
        width = config.unit.width + config.unit.cache_width
        partial = []
        for part in range(len(self.query)):
            of_beat = [each[:width].as_signed() for each in products[lanes * part :][:lanes]]
            partial.append(
                Signal(
                    signed(width + lanes.bit_length() - 1), name=f"partial_{bank}_{part}",
                    reset_less=True,
                )
            )  # fmt: skip
            m.d.sync += partial[part].eq(sum(of_beat[1:], of_beat[0]))
        total = Signal(
            signed(width + (QUERY * config.products).bit_length() - 1), name=f"score_{bank}",
            reset_less=True,
        )  # fmt: skip
        with m.If(at["comes"][3]):
            m.d.sync += total.eq(sum(partial, Mux(at["first"][3], 0, total)))
        return total

    def _collect(self, m, products, at, lane) -> None:
        """Put the sums of a group together, and into the queue."""
        config, lanes, parts = self.config, self.config.lanes, len(self.query)
        layout = data.StructLayout(
            {
                "sums": data.ArrayLayout(signed(config.unit.sum_width), config.products),
                "shifts": data.ArrayLayout(SHIFT_BITS, lanes),
            }
        )
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=DEPTH)
        collected = Signal(layout, reset_less=True)
        mixes = self._mixes(m, products, at)
        with m.If(at["last"][4] & self.mix):
            m.d.sync += collected.sums.eq(mixes)
        bits = config.keys.bit_length() - 1
        for bank, of_bank in enumerate(products):
            score = self._score(m, bank, of_bank, at)
            shift = delayed(m, self.kept[bank * parts].shift, 4, f"shift_{bank}")
            to = Cat(Const(bank, bits), lane[bits:])
            with m.If(at["last"][4] & ~self.mix):
                m.d.sync += [collected.sums[to].eq(score), collected.shifts[to].eq(shift)]
        # Of a mix, a group has several beats.
        part = Signal(range(max(2, parts)))
        given = layout(fifo.r_data)
        last_part = ~self.mix | (part == parts - 1)
        every = [*given.sums]
        beats = [Cat(every[k : k + lanes]) for k in range(0, len(every), lanes)]
        fire = Signal()
        m.d.comb += [
            fire.eq(self.valid & self.pop),
            fifo.w_data.eq(collected),
            fifo.w_en.eq(delayed(m, at["ends"][4], 1, "whole", reset=True)),
            fifo.r_en.eq(fire & last_part),
            self.valid.eq(fifo.r_rdy),
            Value.cast(self.o.sums).eq(Array(beats)[part]),
            Value.cast(self.o.shifts).eq(given.shifts),
        ]
        with m.If(fire):
            m.d.sync += part.eq(Mux(last_part, 0, part + 1))
        begun = Signal(range(DEPTH + 1))
        m.d.comb += self.room.eq(begun != DEPTH)
        m.d.sync += begun.eq(begun + self.starts - fifo.r_en)
