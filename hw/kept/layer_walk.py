"""Walks through the layers of a network: a forward pass of a sample, or a pass over the entries."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import layer_layout
from seedbed.hw.parts.codes import codes
from seedbed.hw.products.gemv_layouts import command_layout
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.sparse_mac import SPARSE_MAC_KINDS

__all__ = ["LayerWalk"]

_KINDS = codes(SPARSE_MAC_KINDS)


class LayerWalk(wiring.Component):
    """Gives the engine a command for each layer, and waits for the layer's end.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    start : In(1)
        A pulse: begin with the first layer.
    kind, perturb, negative, seed, gain : In
        Of the engine's commands, steady from ``start`` to ``done``; layer l has the seed plus l.
    index, given : Out, In
        A layer of the table, and what the table shows.
    layer : Out(struct)
        The current layer.
    o : Out(stream of struct)
        Commands for the engine.
    fetch : Out(1)
        A pulse: the layer's weights and its vector are needed.
    hold : In(1)
        The last layer must not begin.
    ended : In(1)
        A pulse: the layer has ended.
    busy, done : Out(1)
        A walk runs; a pulse at its end.
    """

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        layer = layer_layout(config)
        super().__init__(
            {
                "start": In(1),
                "kind": In(2),
                "perturb": In(1),
                "negative": In(1),
                "seed": In(SEED_BITS),
                "gain": In(signed(config.gain_width)),
                "index": Out(range(max(2, config.layers))),
                "given": In(layer),
                "layer": Out(layer),
                "o": Out(stream.Signature(command_layout(config.gemv))),
                "fetch": Out(1),
                "hold": In(1),
                "ended": In(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        layer, command = self.layer, self.o.payload
        product = Signal()
        m.d.comb += [
            product.eq(self.kind == _KINDS["product"]),
            command.kind.eq(self.kind),
            command.rows.eq(layer.rows),
            command.columns.eq(layer.columns),
            *([command.plain.eq(layer.plain)] if self.config.gemv.decode == "seedlm" else []),
            command.first.eq(layer.first),
            command.count.eq(layer.entries),
            command.shift.eq(layer.sparse_shift),
            command.perturb.eq(self.perturb),
            command.negative.eq(self.negative),
            command.scale.eq(layer.scale),
            command.seed.eq(self.seed + self.index),
            command.gain.eq(self.gain),
        ]
        with m.If(self.kind == _KINDS["update"]):
            m.d.comb += command.shift.eq(layer.update_shift)
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += self.index.eq(0)
                m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "LATCH"
            with m.State("LATCH"):
                m.d.sync += layer.eq(self.given)
                m.next = "COMMAND"
            with m.State("COMMAND"):
                # The first layer's vector and weights may come at once: nothing is in the way.
                m.d.comb += self.o.valid.eq(~(self.hold & product & layer.last))
                with m.If(self.o.valid & self.o.ready):
                    m.d.comb += self.fetch.eq(product)
                    m.next = "RUN"
            with m.State("RUN"), m.If(self.ended):
                m.d.sync += self.index.eq(self.index + 1)
                m.next = "FETCH"
                with m.If(layer.last):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
        return m
