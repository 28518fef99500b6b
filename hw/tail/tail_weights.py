"""The last layer's weights, for the error of the layer before."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.tail.row_walk import RowWalk
from seedbed.spec import BpTailConfig

__all__ = ["TailWeights", "weights_layout"]


def weights_layout(config: BpTailConfig) -> data.StructLayout:
    """Return the layout of a beat of weights: two numbers, and whether they are the last."""
    return data.StructLayout({"values": data.ArrayLayout(signed(8), 2), "last": 1})


class TailWeights(wiring.Component):
    """Stores the last layer's weights, which come row by row, by their input and class.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`, of two layers.

    Members
    -------
    i : In(stream of struct)
        As the port ``i_weights`` of the core.
    accept : In(1)
        Beats may come.
    begun : Out(1)
        There is a beat of an incomplete packet.
    length_error : Out(1)
        With the transfer of ``last``: the packet is shorter or longer than the layer.
    word, output : In
        The inputs' word and the class to read.
    weights : Out(lanes x signed(8))
        In the next cycle.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(weights_layout(config))),
                "accept": In(1),
                "begun": Out(1),
                "length_error": Out(1),
                "word": In(range(max(2, config.layers[-1].words))),
                "output": In(range(config.classes)),
                "weights": Out(data.ArrayLayout(signed(8), config.lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, given = self.config, self.i
        pairs = config.lanes // 2
        m.submodules.walk = walk = RowWalk(config, last_only=True)
        # What is read while it is written is not used.
        m.submodules.memory = store = memory.Memory(
            shape=self.weights.shape(),
            depth=1 << len(self.word) + len(self.output),
            init=[],
            attrs={"no_rw_check": True},
        )
        read, write = store.read_port(), store.write_port(granularity=2)
        fire = Signal()
        loaded = Signal()
        complete = Signal()
        ends = Signal()
        pair = Signal(range(max(2, pairs)))
        m.d.comb += [
            given.ready.eq(self.accept & loaded),
            fire.eq(given.valid & given.ready),
            walk.load.eq(~loaded),
            walk.advance.eq(fire & (pair == pairs - 1)),
            ends.eq(walk.advance & walk.last),
            self.length_error.eq(fire & given.payload.last & (complete | ~ends)),
            write.en.eq((fire & ~complete & ~walk.padding) << pair),
            write.addr.eq(Cat(walk.output[: len(self.output)], walk.word[: len(self.word)])),
            *(each.eq(given.payload.values[k % 2]) for k, each in enumerate(write.data)),
            read.addr.eq(Cat(self.output, self.word)),
            self.weights.eq(read.data),
        ]
        # The walk is loaded between packets.
        m.d.sync += loaded.eq(1)
        with m.If(fire):
            m.d.sync += [
                self.begun.eq(1),
                pair.eq(Mux(walk.advance, 0, pair + 1)),
                complete.eq(complete | ends),
            ]
            with m.If(given.payload.last):
                m.d.sync += [self.begun.eq(0), pair.eq(0), complete.eq(0), loaded.eq(0)]
        return m
