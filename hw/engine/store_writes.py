"""Gives a store's one write to the writer, then to the streams that write, in their order."""

from collections.abc import Sequence

from amaranth.hdl import Module, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.spec.engine import EngineConfig

__all__ = ["StoreWrites", "fill_layout", "put_layout"]


def put_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of ``values`` (ways), the first ``count`` of them for an ``address``."""
    ways = config.plan.ways
    values = data.ArrayLayout(signed(config.number), ways)
    fields = {"address": ActivationStore.width(config), "values": values, "count": range(ways + 1)}
    return data.StructLayout(fields)


def fill_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of ``config.fill`` values for an ``address``, a multiple of as many."""
    values = data.ArrayLayout(signed(config.values.width), config.fill)
    return data.StructLayout({"address": ActivationStore.width(config), "values": values})


class StoreWrites(wiring.Component):
    """Arbitrates the write port of the store.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.
    puts
        Names of the streams of numbers, highest priority first.
    fill
        Whether there is a stream of whole groups, which comes after them.

    Members
    -------
    write, target, count, values : In
        Of the writer, which has the highest priority and does not wait.
    PUT : In(stream of :func:`put_layout`)
    i_fill : In(stream of :func:`fill_layout`)
    o_write, o_target, o_count, o_values, o_fill, o_filling : Out
        To the store.

    No latency. Throughput: a write a cycle.
    """

    def __init__(self, config: EngineConfig, puts: Sequence[str], *, fill: bool):
        self._puts, self._fill = puts, fill
        number, ways = signed(config.number), config.plan.ways
        width = ActivationStore.width(config)
        ports = {
            "write": In(1),
            "target": In(width),
            "count": In(range(ways + 1)),
            "values": In(data.ArrayLayout(number, ways)),
            "o_write": Out(1),
            "o_target": Out(width),
            "o_count": Out(range(ways + 1)),
            "o_values": Out(data.ArrayLayout(number, ways)),
            "o_fill": Out(1),
            "o_filling": Out(data.ArrayLayout(number, config.fill)),
        }
        ports |= {name: In(stream.Signature(put_layout(config))) for name in puts}
        if fill:
            ports["i_fill"] = In(stream.Signature(fill_layout(config)))
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.o_write.eq(self.write),
            self.o_target.eq(self.target),
            self.o_count.eq(self.count),
            self.o_values.eq(self.values),
        ]
        free = ~self.write
        for name in self._puts:
            put = getattr(self, name)
            m.d.comb += put.ready.eq(free)
            with m.If(free & put.valid):
                m.d.comb += [
                    self.o_write.eq(1),
                    self.o_target.eq(put.payload.address),
                    self.o_count.eq(put.payload.count),
                    self.o_values.eq(put.payload.values),
                ]
            free = free & ~put.valid
        if self._fill:
            fill = self.i_fill
            m.d.comb += [
                fill.ready.eq(free),
                self.o_fill.eq(free & fill.valid),
                *(v.eq(f) for v, f in zip(self.o_filling, fill.payload.values, strict=True)),
            ]
            with m.If(self.o_fill):
                m.d.comb += [self.o_write.eq(1), self.o_target.eq(fill.payload.address)]
        return m
