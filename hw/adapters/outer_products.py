"""Walks over a schedule's outer products."""

from functools import partial

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.step_constants import select
from seedbed.spec.engine import EngineConfig

__all__ = ["OuterProducts"]


class OuterProducts(wiring.Component):
    """Gives the addresses of a sample's outer products, one a cycle.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with a schedule.

    Members
    -------
    start, buffer_select : In
        Begins, in a buffer of the store.
    busy : Out(1)
        Until the last beat has been given.
    beat : Out(struct)
        ``address``, ``left`` (the factors that belong to the ways are there) or ``right`` (those
        that belong to the lanes), ``row`` of the accumulators, and ``counts``: whether what
        saturates is counted.

    Latency: ``latency`` cycle after ``busy`` to a beat. Throughput: a beat a cycle.
    """

    latency = 1

    def __init__(self, config: EngineConfig):
        self.config = config
        bits = {"address": ActivationStore.width(config), "left": 1, "right": 1, "counts": 1}
        beat = data.StructLayout({**bits, "row": range(config.plan.trainable_rows)})
        super().__init__(
            {
                "start": In(1),
                "buffer_select": In(1),
                "busy": Out(1),
                "beat": Out(beat),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, beat = self.config.plan, self.beat
        products = plan.schedule.outer_products
        number = Signal(range(len(products)))
        # Rows that are left of the product; 0 where its left factors are to be read.
        left = Signal(range(max(product.count for product in products) + 1))
        address = Signal.like(beat.address, reset_less=True)
        row = Signal.like(beat.row, reset_less=True)
        rom = partial(select, number)
        last = number == len(products) - 1
        buffer = self.buffer_select << (len(address) - 1)
        begins = Signal()
        m.d.comb += begins.eq(left == 0)
        m.d.sync += [
            beat.left.eq(self.busy & begins),
            beat.right.eq(self.busy & ~begins),
            beat.counts.eq(rom([not product.duplicate for product in products])),
            beat.address.eq(Mux(begins, rom([p.left for p in products]) + buffer, address)),
            beat.row.eq(row),
        ]
        with m.If(self.busy):
            with m.If(begins):
                m.d.sync += [
                    left.eq(rom([product.count for product in products])),
                    address.eq(rom([product.right for product in products]) + buffer),
                    row.eq(rom([product.row for product in products])),
                ]
            with m.Else():
                m.d.sync += [
                    left.eq(left - 1),
                    address.eq(address + plan.lanes),
                    row.eq(row + 1),
                ]
                with m.If(left == 1):
                    # Ready for the next start, which comes late in its cycle.
                    m.d.sync += [number.eq(Mux(last, 0, number + 1)), self.busy.eq(~last)]
        with m.If(self.start):
            m.d.sync += self.busy.eq(1)
        return m
