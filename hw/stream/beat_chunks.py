"""Cuts beats of memory into what one beat of the vector unit takes."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import StreamEngineConfig

__all__ = ["BeatChunks"]


class BeatChunks(wiring.Component):
    """Gives the entries or the weights of beats, ``lanes`` at a time, the lowest first.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    clear : In(1)
        What is left of a beat is discarded.
    weights : In(1)
        Elements are weights, not entries of 64 bits.
    i : In(stream)
        Beats of memory.
    o : Out(stream)
        ``lanes`` entries, or as many weights in the lowest bits.

    Latency: 1 cycle. Throughput: a chunk every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "clear": In(1),
                "weights": In(1),
                "i": In(stream.Signature(config.beat_bits)),
                "o": Out(stream.Signature(64 * config.lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        entry_bits, weight_bits = 64 * config.lanes, config.weight_width * config.lanes
        held = Signal(config.beat_bits, reset_less=True)
        left = Signal(range(config.beat_bits // weight_bits + 1))
        pops = Signal()
        m.d.comb += [
            self.o.valid.eq(left != 0),
            self.o.payload.eq(held),
            pops.eq(self.o.valid & self.o.ready),
            self.i.ready.eq((left == 0) | ((left == 1) & pops)),
        ]
        with m.If(pops):
            m.d.sync += [
                left.eq(left - 1),
                held.eq(Mux(self.weights, held >> weight_bits, held >> entry_bits)),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                held.eq(self.i.payload),
                left.eq(
                    Mux(
                        self.weights,
                        config.beat_bits // weight_bits,
                        config.beat_bits // entry_bits,
                    )
                ),
            ]
        with m.If(self.clear):
            m.d.sync += left.eq(0)
        return m
