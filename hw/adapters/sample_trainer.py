"""Classifies a sample, and trains on it: the programs from its activations to the update."""

from amaranth.hdl import Array, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.adapters.gradient_writer import gradient_layout
from seedbed.hw.adapters.job_control import handover_layout
from seedbed.hw.adapters.layer_engine import Program, program_layout
from seedbed.hw.engine.output_queue import outputs_layout
from seedbed.hw.engine.sample_intake import label_shape
from seedbed.hw.loss.softmax_loss import SoftmaxLoss
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["SampleTrainer", "classified_layout"]


def classified_layout(config: InstantFtConfig) -> data.StructLayout:
    """Return the layout of what came of a sample: ``best``, ``loss``, and ``hit``."""
    loss = signed(config.values.width)
    return data.StructLayout({"best": label_shape(config), "loss": loss, "hit": 1})


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


class SampleTrainer(wiring.Component):
    """Takes a sample at a time, whose activations are in the store.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    i : In(stream of :func:`~seedbed.hw.adapters.job_control.handover_layout`)
        Taken when the sample before is done with: its buffer of the store is free again.
    o_program : Out(stream of :func:`~seedbed.hw.adapters.layer_engine.program_layout`)
        To the engine, which is ready when the program before is over.
    i_logits : In(stream of :func:`~seedbed.hw.engine.output_queue.outputs_layout`)
    o_gradient : Out(stream of :func:`~seedbed.hw.adapters.gradient_writer.gradient_layout`)
    o : Out(stream of :func:`classified_layout`)
        One a sample.
    saturated : Out(1)
        Whether a loss did not fit its format, in that cycle.
    updates : Out(1)
        In the cycle in which an update begins.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(handover_layout(config))),
                "o_program": Out(stream.Signature(program_layout())),
                "i_logits": In(stream.Signature(outputs_layout(config.engine))),
                "o_gradient": Out(stream.Signature(gradient_layout(config.engine))),
                "o": Out(stream.Signature(classified_layout(config))),
                "saturated": Out(1),
                "updates": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.loss = loss = LossPath(self.config)
        wiring.connect(m, wiring.flipped(self.i_logits), loss.i)
        wiring.connect(m, loss.o_gradient, wiring.flipped(self.o_gradient))
        sample = Signal(self.i.payload.shape(), reset_less=True)
        free = Signal(init=1)
        reported = Signal()
        m.d.comb += [
            self.i.ready.eq(free),
            self.o_program.payload.buffer_select.eq(sample.buffer_select),
            self.o_program.payload.clear.eq(sample.first),
            loss.label.eq(sample.label),
            loss.trains.eq(sample.train),
            self.o.valid.eq(loss.o.valid),
            self.o.payload.best.eq(loss.o.payload.best),
            self.o.payload.loss.eq(loss.o.payload.loss),
            self.o.payload.hit.eq(sample.hit),
            loss.o.ready.eq(self.o.ready),
            self.saturated.eq(loss.saturated),
        ]
        with m.If(loss.o.valid & loss.o.ready):
            m.d.sync += reported.eq(1)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [free.eq(0), reported.eq(0), sample.eq(self.i.payload)]
        self._programs(m, loss.o.valid | reported, sample, free, reported)
        return m

    def _ask(self, m, program, then: str):
        """Ask the engine for a program in this state."""
        m.d.comb += [self.o_program.valid.eq(1), self.o_program.payload.program.eq(program)]
        with m.If(self.o_program.ready):
            m.next = then

    def _programs(self, m, classified, sample, free, reported):
        engine_ready = self.o_program.ready
        with m.FSM():
            with m.State("IDLE"), m.If(self.i.valid & self.i.ready):
                m.next = "FORWARD"
            with m.State("FORWARD"):
                self._ask(m, Program.FORWARD, "LOSS")
            with m.State("LOSS"), m.If(classified):
                m.next = "REPORT"
                with m.If(sample.train):
                    m.next = "BACKWARD"
            with m.State("BACKWARD"):
                self._ask(m, Program.BACKWARD, "ACCUMULATE")
            with m.State("ACCUMULATE"):
                self._ask(m, Program.ACCUMULATE, "REPORT")
                with m.If(engine_ready & sample.last):
                    m.next = "UPDATE"
            with m.State("UPDATE"):
                m.d.comb += self.updates.eq(engine_ready)
                self._ask(m, Program.UPDATE, "SETTLE")
            with m.State("SETTLE"), m.If(engine_ready):
                m.next = "REPORT"
            # The buffer of the store is read until then.
            with m.State("REPORT"), m.If(reported & engine_ready):
                m.d.sync += free.eq(1)
                m.next = "IDLE"
