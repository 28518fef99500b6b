"""Makes int8 activations of a layer's sums, with one exponent, and says where each is written."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from seedbed.hw.engine.output_queue import OutputQueue, shift_members, writer_members
from seedbed.hw.engine.requantize import Requantize, latency
from seedbed.hw.engine.step_constants import StepConstants
from seedbed.hw.parts.loop_nest import strided
from seedbed.spec.engine import EngineConfig
from seedbed.spec.plan import Step

__all__ = ["DynamicWriter"]


class DynamicWriter(wiring.Component):
    """Takes the sums of a step's frames, and then gives what is to be written, and where.

    A sample's sums of a layer have one exponent, which is known after the last of them. They are
    kept by :class:`~seedbed.hw.engine.requantize.Requantize`, and given out in a second pass.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`, with ``dynamic`` set.

    Members
    -------
    start, first, stop, buffer_select, i, write, target, count, values, written, busy, o
        As those of :class:`~seedbed.hw.engine.layer_writer.LayerWriter`; the array's sums wait
        while a step's outputs are given out.
    saturated : Out
        0: nothing saturates.
    shift : Out
        By how many bits the outputs in ``write`` were shifted.
    shifted : Out(1)
        In the cycle with the last ``write`` of a step: ``shift`` is added to the exponent.
    o_tap : Out(stream of struct)
        All outputs: ``values``, ``count``, ``last`` of the ``step``, and its ``shift``. They are
        written as they are transferred.

    Latency: ``step_latency`` from a step's last sums to its last outputs. Throughput: a frame a
    cycle, then a square a cycle.
    """

    #: From the last output to the write.
    latency = 1

    def __init__(self, config: EngineConfig):
        self.config = config
        super().__init__(writer_members(config) | shift_members(config))

    @classmethod
    def step_latency(cls, config: EngineConfig, step: Step) -> int:
        """Return the cycles from a step's last sums to its last outputs in the store."""
        squares = step.groups(config.plan.ways) * step.width * step.height
        return latency(config.requantize) + squares - 1 + cls.latency

    def elaborate(self, platform):
        m = Module()
        config, plan = self.config, self.config.plan
        steps, ways = plan.steps, plan.ways
        m.submodules.requantize = requantize = Requantize(config.requantize)
        done = Signal()
        step = StepConstants(m, start=self.start, first=self.first, stop=self.stop, done=done)
        frames = step.nest(zip(*(s.output_loops(ways) for s in steps), strict=True), "frames")
        squares = step.nest(zip(*(s.output_loops(ways)[1:] for s in steps), strict=True), "squares")
        rest = step.register("rest", [s.outputs - (s.groups(ways) - 1) * ways for s in steps])
        is_output = step.register("is_output", [s is plan.output for s in steps])
        origin = step.register("origin", [s.target for s in steps])
        by_loop = zip(*(s.target_strides(ways) for s in steps), strict=True)
        strides = [step.register(f"stride_{k}", by) for k, by in enumerate(by_loop)]
        start = origin + (self.buffer_select << (len(self.target) - 1))
        address = strided(m, squares, "address", len(self.target), start, strides)
        given, sums, out = self.i, requantize.i, requantize.o
        fire = Signal()
        m.d.comb += [
            self.busy.eq(step.loading | step.running),
            sums.valid.eq(given.valid & step.running),
            given.ready.eq(sums.ready & step.running),
            sums.payload.sums.eq(given.payload.sums),
            sums.payload.count.eq(Mux(frames.last[1], rest, ways)),
            sums.payload.square_last.eq(frames.last[0]),
            sums.payload.relu.eq(step.register("relu", [s.relu for s in steps])),
            sums.payload.last.eq(frames.last.all()),
            frames.advance.eq(given.valid & given.ready),
            self.o_tap.valid.eq(out.valid),
            self.o_tap.payload.values.eq(out.payload.values),
            self.o_tap.payload.count.eq(out.payload.count),
            self.o_tap.payload.last.eq(out.payload.last),
            self.o_tap.payload.shift.eq(out.payload.shift),
            self.o_tap.payload.step.eq(step.number),
            out.ready.eq(self.o_tap.ready),
            fire.eq(out.valid & out.ready),
            squares.advance.eq(fire),
            done.eq(fire & out.payload.last),
        ]
        self._outputs(m, out.payload, fire, done, address, is_output)
        return m

    def _outputs(self, m, given, fire, done, address, is_output):
        """Write outputs, and queue those of the program."""
        pushed, last = Signal(), Signal(reset_less=True)
        m.d.sync += [
            self.write.eq(fire),
            self.target.eq(address),
            self.count.eq(given.count),
            self.values.eq(given.values),
            self.shift.eq(given.shift),
            self.shifted.eq(done),
            self.written.eq(self.written + done),
            pushed.eq(fire & is_output),
            last.eq(given.last),
        ]
        with m.If(self.start):
            m.d.sync += self.written.eq(0)
        m.submodules.outputs = outputs = OutputQueue(self.config)
        m.d.comb += [
            outputs.push.eq(pushed),
            outputs.values.eq(self.values),
            outputs.count.eq(self.count),
            outputs.last.eq(last),
        ]
        wiring.connect(m, outputs.o, wiring.flipped(self.o))
