"""Puts the gradients of the outputs into the store."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.store_writes import put_layout
from seedbed.spec.engine import EngineConfig

__all__ = ["GradientWriter", "gradient_layout"]


def gradient_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of one output's gradient; ``last`` with a sample's last one."""
    return data.StructLayout({"gradient": signed(config.lora.gradients.width), "last": 1})


class GradientWriter(wiring.Component):
    """Counts through the schedule's region of gradients.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with a schedule.

    Members
    -------
    buffer_select : In(1)
        Of the store, steady during a sample.
    i : In(stream of :func:`gradient_layout`)
    o : Out(stream of :func:`~seedbed.hw.engine.store_writes.put_layout`)

    No latency. Throughput: a gradient a cycle.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        super().__init__(
            {
                "buffer_select": In(1),
                "i": In(stream.Signature(gradient_layout(config))),
                "o": Out(stream.Signature(put_layout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given, put = self.i, self.o
        region = self.config.plan.schedule.gradients
        number = Signal(range(region.shape[2] + 1))
        buffer = self.buffer_select << (len(put.payload.address) - 1)
        m.d.comb += [
            put.valid.eq(given.valid),
            given.ready.eq(put.ready),
            put.payload.address.eq(region.first + number + buffer),
            put.payload.count.eq(1),
            put.payload.values[0].eq(given.payload.gradient),
        ]
        with m.If(given.valid & given.ready):
            m.d.sync += number.eq(Mux(given.payload.last, 0, number + 1))
        return m
