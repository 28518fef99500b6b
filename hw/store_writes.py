"""Gives a store's one write to the writer, then to gradients, then to what comes from outside."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["StoreWrites", "fill_layout", "gradient_layout", "put_layout"]


def put_layout(config: EngineConfig, address_width: int) -> data.StructLayout:
    """Return the layout of ``values`` (ways), the first ``count`` of them for an ``address``."""
    ways = config.plan.ways
    values = data.ArrayLayout(signed(config.values.width), ways)
    return data.StructLayout({"address": address_width, "values": values, "count": range(ways + 1)})


def fill_layout(config: EngineConfig, address_width: int) -> data.StructLayout:
    """Return the layout of ``config.fill`` values for an ``address``, a multiple of as many."""
    values = data.ArrayLayout(signed(config.values.width), config.fill)
    return data.StructLayout({"address": address_width, "values": values})


def gradient_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of one logit's gradient; ``last`` with a sample's last one."""
    return data.StructLayout({"gradient": signed(config.lora.gradients.width), "last": 1})


class StoreWrites(wiring.Component):
    """Who is to write in a cycle: the first of them in the order of the members here.

    Members
    -------
    write, target, count, values : In
        Of the writer, which does not wait.
    i_gradient : In(stream of :func:`gradient_layout`)
        For ``buffer_select`` of the store; only with adapters, as ``i_fill``.
    i_put : In(stream of :func:`put_layout`)
    i_fill : In(stream of :func:`fill_layout`)
    o_write, o_target, o_count, o_values, o_fill, o_filling : Out
        To the store.
    """

    def __init__(self, config: EngineConfig, address_width: int):
        self.config = config
        number, ways = signed(config.number), config.plan.ways
        several = data.ArrayLayout(number, ways)
        ports = {
            "buffer_select": In(1),
            "write": In(1),
            "target": In(address_width),
            "count": In(range(ways + 1)),
            "values": In(several),
            "i_put": In(stream.Signature(put_layout(config, address_width))),
            "o_write": Out(1),
            "o_target": Out(address_width),
            "o_count": Out(range(ways + 1)),
            "o_values": Out(several),
            "o_fill": Out(1),
            "o_filling": Out(data.ArrayLayout(number, config.fill)),
        }
        if config.lora:
            ports |= {
                "i_gradient": In(stream.Signature(gradient_layout(config))),
                "i_fill": In(stream.Signature(fill_layout(config, address_width))),
            }
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        put = self.i_put
        free = ~self.write
        m.d.comb += [
            self.o_write.eq(self.write),
            self.o_target.eq(self.target),
            self.o_count.eq(self.count),
            self.o_values.eq(self.values),
        ]
        if self.config.lora:
            slope, region = self.i_gradient, self.config.plan.regions["dz"]
            number = Signal(range(region.shape[2] + 1))
            m.d.comb += slope.ready.eq(free)
            with m.If(free & slope.valid):
                m.d.comb += [
                    self.o_write.eq(1),
                    self.o_target.eq(
                        region.first + number + (self.buffer_select << (len(self.o_target) - 1))
                    ),
                    self.o_count.eq(1),
                    self.o_values[0].eq(slope.payload.gradient),
                ]
                m.d.sync += number.eq(Mux(slope.payload.last, 0, number + 1))
            free = free & ~slope.valid
        m.d.comb += put.ready.eq(free)
        with m.If(free & put.valid):
            m.d.comb += [
                self.o_write.eq(1),
                self.o_target.eq(put.payload.address),
                self.o_count.eq(put.payload.count),
            ]
            m.d.comb += [v.eq(p) for v, p in zip(self.o_values, put.payload.values, strict=True)]
        if self.config.lora:
            fill = self.i_fill
            m.d.comb += [
                fill.ready.eq(free & ~put.valid),
                self.o_fill.eq(fill.ready & fill.valid),
                *(v.eq(f) for v, f in zip(self.o_filling, fill.payload.values, strict=True)),
            ]
            with m.If(self.o_fill):
                m.d.comb += [self.o_write.eq(1), self.o_target.eq(fill.payload.address)]
        return m
