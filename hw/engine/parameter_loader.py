"""Counts through packets of parameters, for a memory of rows."""

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec.engine import EngineConfig

__all__ = ["ParameterLoader", "packet_layout", "take_packets", "words_layout"]


def words_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a beat of parameters: two numbers, and whether they are the last."""
    return data.StructLayout({"word": data.ArrayLayout(signed(config.word), 2), "last": 1})


def packet_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a beat of a packet: of parameters, and which memory they are for."""
    return data.StructLayout(dict(words_layout(config).members) | {"trainable": 1})


class ParameterLoader(wiring.Component):
    """Says where each word of a packet goes: rows from the first on, in order.

    Members
    -------
    i : In(stream of struct)
        ``word`` (two numbers), ``last``, and ``trainable``: which memory the packet is for.
    accepts : In(1)
        Whether words may come.
    load, row, pair : Out
        The word that is transferred is to be written, and where.
    length_error : Out(1)
        With the transfer of ``last``: the packet is shorter or longer than its memory. What is too
        much is dropped.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        plan = config.plan
        super().__init__(
            {
                "i": In(stream.Signature(packet_layout(config))),
                "accepts": In(1),
                "load": Out(1),
                "row": Out(range(max(plan.frozen_rows, plan.trainable_rows, 2))),
                "pair": Out(range(plan.ways * plan.lanes // 2)),
                "length_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, given = self.config.plan, self.i
        pairs = plan.ways * plan.lanes // 2
        complete = Signal()
        ends = Signal()
        fire = Signal()
        rows = Mux(given.payload.trainable, plan.trainable_rows, plan.frozen_rows)
        m.d.comb += [
            given.ready.eq(self.accepts),
            fire.eq(given.valid & given.ready),
            ends.eq((self.pair == pairs - 1) & (self.row == rows - 1)),
            self.load.eq(fire & ~complete),
            self.length_error.eq(fire & given.payload.last & (complete | ~ends)),
        ]
        with m.If(self.load):
            m.d.sync += self.pair.eq(self.pair + 1)
            with m.If(self.pair == pairs - 1):
                m.d.sync += [self.pair.eq(0), self.row.eq(self.row + 1)]
            with m.If(ends):
                m.d.sync += complete.eq(1)
        with m.If(fire & given.payload.last):
            m.d.sync += [self.pair.eq(0), self.row.eq(0), complete.eq(0)]
        return m


def take_packets(m: Module, words, pipeline, *, accepts: Value, whole: Signal) -> Value:
    """Connect a port of words to a pipeline that takes packets while ``accepts``.

    Parameters
    ----------
    words
        In(stream of :func:`words_layout`).
    pipeline
        :class:`~seedbed.hw.engine.inference_pipeline.InferencePipeline`. Its ``row_values`` are
        left.
    accepts
        Whether words may come.
    whole
        A register: 1 if the last packet was as long as the rows. To tell it after a reset in a
        packet, the register is without reset.

    Returns whether no packet has begun, and none begins in this cycle.
    """
    within = Signal()
    m.d.comb += [
        pipeline.accepts.eq(accepts),
        pipeline.i_parameters.valid.eq(words.valid),
        pipeline.i_parameters.payload.word.eq(words.payload.word),
        pipeline.i_parameters.payload.last.eq(words.payload.last),
        words.ready.eq(pipeline.i_parameters.ready),
    ]
    with m.If(words.valid & words.ready):
        m.d.sync += [
            within.eq(~words.payload.last),
            whole.eq(words.payload.last & ~pipeline.length_error),
        ]
    return ~within & ~words.valid
