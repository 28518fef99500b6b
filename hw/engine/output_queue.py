"""What all writers of a step's outputs have: their ports, and the queue of a program's outputs."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.spec.engine import EngineConfig

__all__ = ["OutputQueue", "outputs_layout", "shift_members", "writer_members"]


def outputs_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a program's outputs: ``values``, ``count`` of which are valid, last."""
    ways = config.plan.ways
    values = data.ArrayLayout(signed(config.values.width), ways)
    return data.StructLayout({"values": values, "count": range(ways + 1), "last": 1})


def writer_members(config: EngineConfig) -> dict[str, wiring.Member]:
    """Return the ports of a writer, see :class:`~seedbed.hw.engine.layer_writer.LayerWriter`."""
    plan = config.plan
    count = range(len(plan.steps) + 1)
    number = data.ArrayLayout(signed(config.number), plan.ways)
    sums = data.ArrayLayout(signed(config.mac.accumulator_width), plan.ways)
    return {
        "start": In(1),
        "first": In(count),
        "stop": In(count),
        "buffer_select": In(1),
        "i": In(stream.Signature(data.StructLayout({"sums": sums}))),
        "write": Out(1),
        "target": Out(ActivationStore.width(config)),
        "count": Out(range(plan.ways + 1)),
        "values": Out(number),
        "written": Out(count),
        "busy": Out(1),
        "saturated": Out(range(plan.ways + 1)),
        "o": Out(stream.Signature(outputs_layout(config))),
    }


def shift_members(config: EngineConfig) -> dict[str, wiring.Member]:
    """Return the ports of outputs of dynamic formats: how they are shifted, and what they are.

    See :class:`~seedbed.hw.engine.dynamic_writer.DynamicWriter`.
    """
    shift = range(config.requantize.most_shift + 1)
    steps = range(len(config.plan.steps) + 1)
    tap = data.StructLayout(dict(outputs_layout(config).members) | {"shift": shift, "step": steps})
    return {"shift": Out(shift), "shifted": Out(1), "o_tap": Out(stream.Signature(tap))}


class OutputQueue(wiring.Component):
    """Queues what is not only written, but also given out: there is room for all of it.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    push, values, count, last : In
        Outputs of the plan's step ``output``.
    o : Out(stream of :func:`outputs_layout`)

    Latency: ``latency`` cycle.
    """

    latency = 1

    def __init__(self, config: EngineConfig):
        self.config = config
        members = writer_members(config)
        ports = {"push": In(1), "values": members["values"].flip()}
        ports |= {"count": members["count"].flip(), "last": In(1), "o": members["o"]}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        plan, outputs = self.config.plan, self.o
        layout = outputs.payload.shape()
        step = plan.output
        groups = step.groups(plan.ways) * step.height * step.width
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=groups)
        beat = data.View(layout, fifo.w_data)
        m.d.comb += [
            *(to.eq(value) for to, value in zip(beat.values, self.values, strict=True)),
            beat.count.eq(self.count),
            beat.last.eq(self.last),
            fifo.w_en.eq(self.push),
            outputs.payload.eq(fifo.r_data),
            outputs.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(outputs.ready),
        ]
        return m
