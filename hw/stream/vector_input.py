"""Takes the vectors of a block, one packet for each block, whatever becomes of it."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.stream_layouts import input_layout, values_layout
from seedbed.spec import StreamEngineConfig

__all__ = ["VectorInput", "connect_input"]


class VectorInput(wiring.Component):
    """Gives the beats of a packet to the passes that read them, and discards the others.

    A packet that ends too early goes on with zeros, so that a pass ends.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse: a block begins, and a packet belongs to it.
    i : In(stream)
        Beats of vectors; ``last``: of the block.
    valid, values, pop : Out, Out, In
        There is a beat for a pass; the beat; it is taken.
    final : In(1)
        With ``pop``: the pass takes no beat of this block after this one.
    drop : In(1)
        Passes do not read: the rest of the packet is discarded.
    ended : Out(1)
        The packet of the block has come whole.
    wrong : Out(1)
        The packet of the block had another number of beats than passes have read.

    Throughput: a beat every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(input_layout(config))),
                "valid": Out(1),
                "values": Out(values_layout(config)),
                "pop": In(1),
                "final": In(1),
                "drop": In(1),
                "ended": Out(1),
                "wrong": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        given, taken = self.i, Signal()
        awaited = Signal()
        last = given.payload.last
        m.d.comb += [
            self.ended.eq(~awaited),
            self.valid.eq(given.valid | ~awaited),
            Value.cast(self.values).eq(Mux(awaited, Value.cast(given.payload.values), 0)),
            given.ready.eq(awaited & (self.pop | self.drop)),
            taken.eq(given.valid & given.ready),
        ]
        with m.If(taken & last):
            m.d.sync += awaited.eq(0)
        with m.If(self.pop & (~awaited | (last != self.final))):
            m.d.sync += self.wrong.eq(1)
        with m.If(self.start):
            m.d.sync += [awaited.eq(1), self.wrong.eq(0)]
        return m


def connect_input(m: Module, engine, intake, walker, vectors) -> Value:
    """Give vectors of a block to passes; return whether there are too few or too many."""
    m.submodules.inputs = inputs = VectorInput(engine.config)
    wiring.connect(m, wiring.flipped(engine.i_vectors), inputs.i)
    m.d.comb += [
        inputs.start.eq(intake.run),
        inputs.pop.eq(vectors.input_pop),
        inputs.final.eq(vectors.input_last & (walker.in_block + 1 == walker.count)),
        inputs.drop.eq(intake.ends),
        vectors.input.eq(inputs.values),
        vectors.input_valid.eq(inputs.valid),
        intake.input_ended.eq(inputs.ended),
        intake.input_wrong.eq(inputs.wrong),
    ]
    return inputs.wrong
