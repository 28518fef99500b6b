"""Finds the cross-entropy of a vector, with the class that came with its token."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.hw.parts.fixed_requantize import saturate
from seedbed.hw.stream.stream_layouts import LABEL_BITS, result_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD

__all__ = ["LabelLoss"]


class LabelLoss(wiring.Component):
    """Gives the loss of a vector of logits, and the number of its greatest element.

    Other vectors go through.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    on, count, label : In
        Whether the loss is given; elements of the vector; its class. They are steady to its end.
    i : In(stream)
        The beats of the vector.
    o : Out(stream)
        Loss and number, as the first elements of a vector of one beat.
    busy : Out(1)
        A vector has begun whose loss has not been taken.

    Latency: that of :class:`~seedbed.hw.loss.softmax_loss.SoftmaxLoss`. Throughput: an element
    every cycle, of one vector after another.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        vector = stream.Signature(result_layout(config))
        super().__init__(
            {
                "on": In(1),
                "count": In(RECORD["rows"]),
                "label": In(LABEL_BITS),
                "i": In(vector),
                "o": Out(vector),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        m.submodules.softmax = loss = SoftmaxLoss(config.loss)
        lane = Signal(range(lanes))
        number = Signal(len(self.count))
        last = number + 1 >= self.count
        logit, _ = saturate(m, Array(self.i.payload.values)[lane], config.loss.logits, "logit")
        fire = Signal()
        ends = Signal()
        result = loss.o
        m.d.comb += [
            loss.i.valid.eq(self.i.valid & self.on & (~self.busy | (number != 0))),
            loss.i.payload.logit.eq(logit),
            loss.i.payload.label.eq(self.label),
            loss.i.payload.last.eq(last),
            fire.eq(loss.i.valid & loss.i.ready),
            ends.eq(fire & (last | (lane == lanes - 1))),
        ]
        with m.If(self.on):
            m.d.comb += [
                self.i.ready.eq(ends),
                self.o.valid.eq(result.valid & result.payload.last),
                # A label that is no class has the greatest loss.
                self.o.payload.values[0].eq(
                    Mux(self.label < self.count, result.payload.loss, config.loss.logits.high)
                ),
                self.o.payload.values[1].eq(result.payload.best),
                self.o.payload.last.eq(1),
                result.ready.eq(~result.payload.last | self.o.ready),
            ]
        with m.Else():
            wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += self.busy.eq(0)
        with m.If(fire):
            m.d.sync += [self.busy.eq(1), lane.eq(lane + 1), number.eq(number + 1)]
            with m.If(last):
                m.d.sync += [lane.eq(0), number.eq(0)]
        return m
