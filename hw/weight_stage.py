"""The stage between the parameter memory and the multipliers."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["WeightStage"]


class WeightStage(wiring.Component):
    """Passes weights on unchanged: decoders and perturbations have the same two ports.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    i, o : In, Out(ways * lanes numbers)
        A row of the parameter memory, and ``latency`` cycles later the weights of a beat.

    Latency: ``latency`` cycles. Throughput: a row a cycle.
    """

    latency = 0

    def __init__(self, config: EngineConfig):
        plan = config.plan
        row = data.ArrayLayout(signed(config.mac.weight_width), plan.ways * plan.lanes)
        super().__init__({"i": In(row), "o": Out(row)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m
