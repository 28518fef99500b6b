"""Multipliers and sums of attention: of a query and a key, and of a share and a value."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, signed
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
    """Adds products, a word of the cache each cycle, and gives the sums ``lanes`` at a time.

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
        it; the place of the sum of a score, or of the share of a mix. The operands come
        ``STORE_CYCLES`` later:
    mix, query, shares, kept : In
        What is multiplied: query and keys, or a share and values, beats of a word each.
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
                "kept": In(data.ArrayLayout(kept_layout(config), parts)),
                "room": Out(1),
                "valid": Out(1),
                "o": Out(products_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, parts = self.config, len(self.kept)
        lanes, width = config.lanes, config.unit.width
        names = ("comes", "first", "last", "ends")
        # Of the cycle when operands come, and of those that follow.
        at = {
            name: delay_line(m, getattr(self, name), STORE_CYCLES + 4, name, reset=True)[
                STORE_CYCLES:
            ]
            for name in names
        }
        lane = delayed(m, self.lane, STORE_CYCLES, "lane")
        factor = signed(config.unit.factor_bits + 1)
        share = Signal(factor)
        m.d.comb += share.eq(Array(self.shares)[lane])
        # Registers for the operands, for the products, then the sums of all of them so far.
        sums = []
        for part in range(parts):
            for k in range(lanes):
                name = f"{part}_{k}"
                number, shift = self.kept[part].numbers[k], self.kept[part].shift
                operand = Signal(factor, name=f"operand_{name}", reset_less=True)
                other = Signal(signed(width), name=f"other_{name}", reset_less=True)
                product = Signal(signed(2 * width + 1), name=f"product_{name}", reset_less=True)
                total = Signal(signed(config.unit.sum_width), name=f"sum_{name}", reset_less=True)
                m.d.sync += [
                    operand.eq(Mux(self.mix, share, self.query[part][k])),
                    other.eq(Mux(self.mix, number << shift, number)),
                    product.eq(operand * other),
                ]
                with m.If(at["comes"][2]):
                    m.d.sync += total.eq(Mux(at["first"][2], 0, total) + product)
                sums.append(total)
        self._collect(m, sums, at, delayed(m, lane, 4, "of_lane"))
        return m

    def _collect(self, m, sums, at, lane) -> None:
        """Put the sums of a group together, and into the queue."""
        config, lanes, parts = self.config, self.config.lanes, len(self.kept)
        shape = signed(config.unit.sum_width)
        layout = data.StructLayout(
            {
                "sums": data.ArrayLayout(shape, config.products),
                "shifts": data.ArrayLayout(SHIFT_BITS, lanes),
            }
        )
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=DEPTH)
        complete = Signal(data.ArrayLayout(shape, config.products), reset_less=True)
        partial = [Signal(shape, name=f"partial_{k}", reset_less=True) for k in range(parts)]
        with m.If(at["last"][3]):
            m.d.sync += [to.eq(each) for to, each in zip(complete, sums, strict=True)]
            for k, to in enumerate(partial):
                m.d.sync += to.eq(sum(sums[lanes * k + 1 : lanes * (k + 1)], sums[lanes * k]))
        collected = Signal(layout, reset_less=True)
        shift = delayed(m, self.kept[0].shift, 4, "shift")
        with m.If(at["last"][4]):
            with m.If(self.mix):
                m.d.sync += collected.sums.eq(complete)
            with m.Else():
                m.d.sync += [
                    collected.sums[lane].eq(sum(partial[1:], partial[0])),
                    collected.shifts[lane].eq(shift),
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
