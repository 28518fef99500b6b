"""Puts vectors into the store, one after the other."""

from functools import partial

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.step_constants import select
from seedbed.hw.engine.store_writes import put_layout
from seedbed.spec.engine import EngineConfig

__all__ = ["VectorLoader", "vectors_layout"]


def vectors_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of a beat of vectors, see :class:`VectorLoader`."""
    values = data.ArrayLayout(signed(config.values.width), config.plan.ways)
    return data.StructLayout({"values": values, "last": 1})


class VectorLoader(wiring.Component):
    """Counts through what adapters take, and then the frozen network's logits.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    buffer_select : In(1)
        Of the store, steady during a packet.
    i : In(stream of struct)
        ``values`` (ways numbers), ``last``. Every vector begins in a new beat. The unused part of
        its last beat is ignored.
    o : Out(stream of struct)
        ``address``, ``values``, ``count``: to the engine.
    done, length_error : Out(1)
        With the transfer of ``last``: all vectors have come, or less or more of them. What is too
        much is dropped.

    No latency. Throughput: a beat every cycle.
    """

    def __init__(self, config: EngineConfig):
        self.config = config
        super().__init__(
            {
                "buffer_select": In(1),
                "i": In(stream.Signature(vectors_layout(config))),
                "o": Out(stream.Signature(put_layout(config))),
                "done": Out(1),
                "length_error": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, given, put = self.config.plan, self.i, self.o
        ways = plan.ways
        vectors = plan.schedule.inputs
        lengths = [region.shape[2] for region in vectors]
        beats = [-(-length // ways) for length in lengths]
        number = Signal(range(len(vectors)))
        beat = Signal(range(max(beats)))
        discard = Signal()
        fire = Signal()
        vector_last = Signal()
        ends = Signal()

        rom = partial(select, number)
        rest = rom(
            length - (count - 1) * ways for length, count in zip(lengths, beats, strict=True)
        )
        first = rom(region.first for region in vectors)
        # A number in the store may be wider than a value.
        pairs = zip(put.payload.values, given.payload.values, strict=True)
        m.d.comb += [
            put.valid.eq(given.valid & ~discard),
            given.ready.eq(put.ready | discard),
            *(to.eq(value) for to, value in pairs),
            put.payload.address.eq(
                first + beat * ways + (self.buffer_select << (len(put.payload.address) - 1))
            ),
            put.payload.count.eq(Mux(vector_last, rest, ways)),
            fire.eq(given.valid & given.ready),
            vector_last.eq(beat == rom(count - 1 for count in beats)),
            ends.eq(vector_last & (number == len(vectors) - 1) & ~discard),
            self.done.eq(fire & given.payload.last & ends),
            self.length_error.eq(fire & given.payload.last & ~ends),
        ]
        with m.If(fire):
            m.d.sync += beat.eq(beat + 1)
            with m.If(vector_last):
                m.d.sync += [beat.eq(0), number.eq(number + 1)]
            with m.If(ends):
                m.d.sync += discard.eq(1)
            with m.If(given.payload.last):
                m.d.sync += [beat.eq(0), number.eq(0), discard.eq(0)]
        return m
