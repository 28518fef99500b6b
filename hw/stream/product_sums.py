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

__all__ = ["DEPTH", "ProductSums"]

#: Groups of sums that are begun and not taken at most.
DEPTH = 4


class ProductSums(wiring.Component):
    """Adds products, a word of each bank of the cache a cycle, and gives sums ``lanes`` at a time.

    A mix has a sum for each element of a word. Scores have one for a token: it is the sum of all
    elements, and ``lanes`` of them are given together. With several ``keys``, the sums of each bank
    are separate, up to the end of a mix.

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
        With several ``keys``: the banks that have a token.
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
                "query": In(data.ArrayLayout(values_layout(config), parts)),
                "shares": In(element_layout(config)),
                "kept": In(data.ArrayLayout(kept_layout(config), parts * config.keys)),
                "room": Out(1),
                "valid": Out(1),
                "o": Out(products_layout(config)),
            }
            | ({"there": In(config.keys)} if config.keys > 1 else {})
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
        sums = [self._bank(m, bank, at, share) for bank, share in enumerate(self._shares(m, lane))]
        self._collect(m, sums, at, delayed(m, lane, 4, "of_lane"))
        return m

    @property
    def _banks(self) -> list[str]:
        """What names of each bank end with."""
        return [f"_{bank}" for bank in range(self.config.keys)] if self.config.keys > 1 else [""]

    def _shares(self, m, lane) -> list[Signal]:
        """Return the share of each bank."""
        keys, factor = self.config.keys, signed(self.config.unit.factor_bits + 1)
        if keys == 1:
            share = Signal(factor)
            m.d.comb += share.eq(Array(self.shares)[lane])
            return [share]
        there = delayed(m, self.there, STORE_CYCLES, "there")
        shares = [Signal(factor, name=f"share_{bank}") for bank in range(keys)]
        every = [*self.shares]
        for bank, share in enumerate(shares):
            with m.If(there[bank]):
                m.d.comb += share.eq(Array(every[bank::keys])[lane >> keys.bit_length() - 1])
        return shares

    def _bank(self, m, bank: int, at, share) -> list[Signal]:
        """Return the sums of the products of a bank, one for each element of a word."""
        config, sums = self.config, []
        width, factor = config.unit.width, share.shape()
        # Registers for the operands, for the products, then the sums of all of them so far.
        for part in range(len(self.query)):
            for k in range(config.lanes):
                name = f"{part}_{k}{self._banks[bank]}"
                kept = self.kept[bank * len(self.query) + part]
                operand = Signal(factor, name=f"operand_{name}", reset_less=True)
                other = Signal(signed(width), name=f"other_{name}", reset_less=True)
                product = Signal(signed(2 * width + 1), name=f"product_{name}", reset_less=True)
                total = Signal(signed(config.unit.sum_width), name=f"sum_{name}", reset_less=True)
                m.d.sync += [
                    operand.eq(Mux(self.mix, share, self.query[part][k])),
                    other.eq(Mux(self.mix, kept.numbers[k] << kept.shift, kept.numbers[k])),
                    product.eq(operand * other),
                ]
                with m.If(at["comes"][2]):
                    m.d.sync += total.eq(Mux(at["first"][2], 0, total) + product)
                sums.append(total)
        return sums

    def _collect(self, m, sums, at, lane) -> None:
        """Put the sums of a group together, and into the queue."""
        config, lanes, parts = self.config, self.config.lanes, len(self.query)
        shape = signed(config.unit.sum_width)
        layout = data.StructLayout(
            {
                "sums": data.ArrayLayout(shape, config.products),
                "shifts": data.ArrayLayout(SHIFT_BITS, lanes),
            }
        )
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=DEPTH)
        complete = Signal(data.ArrayLayout(shape, config.products), reset_less=True)
        partial = [
            [Signal(shape, name=f"partial_{k}{name}", reset_less=True) for k in range(parts)]
            for name in self._banks
        ]
        with m.If(at["last"][3]):
            for to, each in zip(complete, zip(*sums, strict=True), strict=True):
                m.d.sync += to.eq(sum(each[1:], each[0]))
            for of_bank, to_bank in zip(sums, partial, strict=True):
                for k, to in enumerate(to_bank):
                    each = of_bank[lanes * k : lanes * (k + 1)]
                    m.d.sync += to.eq(sum(each[1:], each[0]))
        collected = Signal(layout, reset_less=True)
        shifts = [
            delayed(m, self.kept[bank * parts].shift, 4, f"shift{name}")
            for bank, name in enumerate(self._banks)
        ]
        bits = config.keys.bit_length() - 1
        with m.If(at["last"][4]):
            with m.If(self.mix):
                m.d.sync += collected.sums.eq(complete)
            with m.Else():
                for bank, (of_bank, shift) in enumerate(zip(partial, shifts, strict=True)):
                    to = Cat(Const(bank, bits), lane[bits:]) if bits else lane
                    m.d.sync += [
                        collected.sums[to].eq(sum(of_bank[1:], of_bank[0])),
                        collected.shifts[to].eq(shift),
                    ]
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
