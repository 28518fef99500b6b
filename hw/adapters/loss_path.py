"""From the engine's logits to the loss, and gradients back."""

from amaranth.hdl import Array, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.gradient_writer import gradient_layout
from seedbed.hw.engine.output_queue import outputs_layout
from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["LossPath"]


class LossPath(wiring.Component):
    """Logits in, ``ways`` at a time; gradients out, one by one; then a sample's class and loss.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    label : In
        Of the sample, steady while its logits come.
    trains : In(1)
        Whether gradients are wanted; steady from the logits to the result.
    i : In(stream of struct)
        ``values``, ``count``, ``last``, from the engine.
    o_gradient : Out(stream of struct)
        ``gradient``, ``last``, to the engine.
    o : Out(stream of struct)
        ``best``, ``loss``: one a sample, after its gradients.
    saturated : Out(1)
        In the cycle of a result, whether its loss did not fit the format.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        loss = config.softmax_loss
        best = Shape.cast(range(loss.classes))
        result = {"best": best, "loss": signed(loss.logits.width)}
        super().__init__(
            {
                "label": In(best),
                "trains": In(1),
                "i": In(stream.Signature(outputs_layout(config.engine))),
                "o_gradient": Out(stream.Signature(gradient_layout(config.engine))),
                "o": Out(stream.Signature(data.StructLayout(result))),
                "saturated": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.softmax = loss = SoftmaxLoss(self.config.softmax_loss)
        logits, out, gradient = self.i, loss.o, self.o_gradient
        way = Signal(range(max(2, self.config.ways)))
        ends = Signal()
        m.d.comb += [
            ends.eq(way + 1 == logits.payload.count),
            loss.i.valid.eq(logits.valid),
            loss.i.payload.logit.eq(Array(logits.payload.values)[way]),
            loss.i.payload.label.eq(self.label),
            loss.i.payload.last.eq(logits.payload.last & ends),
            logits.ready.eq(loss.i.ready & ends),
        ]
        with m.If(loss.i.valid & loss.i.ready):
            m.d.sync += way.eq(Mux(ends, 0, way + 1))
        m.d.comb += [
            gradient.valid.eq(out.valid & self.trains & ~self.o.valid),
            gradient.payload.gradient.eq(out.payload.gradient),
            gradient.payload.last.eq(out.payload.last),
            out.ready.eq((gradient.ready | ~self.trains) & ~self.o.valid),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(out.valid & out.ready & out.payload.last):
            m.d.comb += self.saturated.eq(out.payload.saturated)
            m.d.sync += [
                self.o.valid.eq(1),
                self.o.payload.best.eq(out.payload.best),
                self.o.payload.loss.eq(out.payload.loss),
            ]
        return m
