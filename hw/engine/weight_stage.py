"""The stage between the parameter memory and the multipliers."""

from amaranth.hdl import Module, ShapeLike, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["WeightStage", "mark_layout", "stage_members"]


def mark_layout(config: EngineConfig) -> dict[str, ShapeLike]:
    """Return the fields that say which row comes: ``valid``, ``row``, and the ``step`` it is of."""
    plan = config.plan
    rows = range(max(plan.frozen_rows, plan.trainable_rows, 2))
    return {"valid": 1, "row": rows, "step": range(len(plan.steps) + 1)}


def stage_members(config: EngineConfig) -> dict[str, wiring.Member]:
    """Return the ports of a stage, see :class:`WeightStage`."""
    plan = config.plan
    row = data.ArrayLayout(signed(config.mac.weight_width), plan.ways * plan.lanes)
    return {"i": In(row), "mark": In(data.StructLayout(mark_layout(config))), "o": Out(row)}


class WeightStage(wiring.Component):
    """Passes weights on unchanged: decoders and perturbations have the same ports.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    i, o : In, Out(ways * lanes numbers)
        A row of the parameter memory, and ``latency`` cycles later the weights of a beat.
    mark : In(struct)
        With ``i``: whether it is of a step's beat, and which row it is, of which step.

    Latency: ``latency`` cycles. Throughput: a row a cycle.
    """

    latency = 0

    def __init__(self, config: EngineConfig):
        super().__init__(stage_members(config))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m
