"""Walks over the windows of a plan's steps: what is read each cycle, and which weights are."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.activation_store import ActivationStore
from seedbed.hw.engine.step_constants import StepConstants
from seedbed.hw.parts.loop_nest import strided
from seedbed.spec.engine import FRAMES, EngineConfig

__all__ = ["LayerSequencer"]


class LayerSequencer(wiring.Component):
    """Gives the addresses of a program's beats, one a cycle.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    start, first, stop, buffer_select : In
        Runs the plan's steps from ``first`` to the one before ``stop``, in a buffer of the store.
    busy : Out(1)
        From the cycle after ``start`` until the last beat has been given.
    written : In
        How many steps' outputs are in the store, counted from ``first``: a step waits for all
        before it where the plan says so.
    retired : In(1)
        A frame has left the array: no more than ``FRAMES`` are in flight.
    beat : Out(struct)
        ``valid``, ``address``, ``skew``, ``row`` of the weights, ``trainable``, ``first`` and
        ``last`` (of the frame), ``bias``, and the ``step``.

    Latency: ``latency`` cycles from ``start`` to the first beat, 1 from ``written`` to a beat that
    waits for it; ``interval`` - 1 cycles without a beat between two steps of which the second does
    not wait. Throughput: a beat a cycle within a step.
    """

    latency = StepConstants.latency + 1
    interval = StepConstants.latency

    def __init__(self, config: EngineConfig):
        self.config = config
        steps, plan = config.plan.steps, config.plan
        rows = max(plan.frozen_rows, plan.trainable_rows, 2)
        count = range(len(steps) + 1)
        fields = {
            "valid": 1,
            "address": ActivationStore.width(config),
            "skew": range(max(2, len(plan.skews))),
            "row": range(rows),
            "trainable": 1,
            "first": 1,
            "last": 1,
            "bias": 1,
            "step": count,
        }
        super().__init__(
            {
                "start": In(1),
                "first": In(count),
                "stop": In(count),
                "buffer_select": In(1),
                "busy": Out(1),
                "written": In(count),
                "retired": In(1),
                "beat": Out(data.StructLayout(fields)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.beat
        plan, steps, ways = config.plan, config.plan.steps, config.plan.ways
        issue = Signal()
        done = Signal()
        step = StepConstants(m, start=self.start, first=self.first, stop=self.stop, done=done)
        m.d.comb += self.busy.eq(step.loading | step.running)
        window = step.register("window", [s.window for s in steps])
        weights = step.register("weights", [s.weights for s in steps])
        skew = step.register("skew", [plan.skews.index(s.skew) for s in steps])
        trainable = step.register("trainable", [s.trainable for s in steps])
        bias = step.register("bias", [s.bias for s in steps])
        waits = step.register("waits", [s.waits for s in steps])
        # Of rows of weights: to a frame's first one, and to a step's.
        frame = step.register("frame_stride", [1 - s.beats for s in steps])
        whole = step.register("step_stride", [1 - s.beats * s.groups(ways) for s in steps])
        strides = [step.register(f"stride_{k}", [s.strides[k] for s in steps]) for k in range(7)]
        nest = step.nest(zip(*(s.loops(ways) for s in steps), strict=True))
        buffer = self.buffer_select << (len(beat.address) - 1)
        start = window.as_unsigned() + buffer
        address = strided(m, nest, "address", len(beat.address), start, strides)
        by_row = [1, 1, frame, frame, 1, whole, whole]
        row = strided(m, nest, "row", len(beat.row), weights, by_row)
        self._credits(m, step, nest, waits, issue)
        m.d.comb += [nest.advance.eq(issue), done.eq(issue & nest.last.all())]
        frame_last = nest.last[0] & nest.last[1]
        m.d.sync += [
            beat.valid.eq(issue),
            beat.address.eq(address),
            beat.skew.eq(skew),
            beat.row.eq(row),
            beat.trainable.eq(trainable),
            beat.first.eq(nest.first[0] & nest.first[1]),
            beat.last.eq(frame_last),
            beat.bias.eq(bias & frame_last),
            beat.step.eq(step.number),
        ]
        return m

    def _credits(self, m, step, nest, waits, issue):
        """Issue a beat where its inputs have been written, and where its frame has room."""
        begun = Signal.like(self.first)
        first_beat = Signal()
        ready = Signal()
        frame_issued = Signal()
        in_flight = Signal(range(FRAMES + 1))
        m.d.comb += [
            ready.eq(~waits | (self.written == begun)),
            issue.eq(step.running & (~first_beat | ready) & (in_flight != FRAMES)),
            frame_issued.eq(issue & nest.last[0] & nest.last[1]),
        ]
        m.d.sync += in_flight.eq(in_flight + frame_issued - self.retired)
        with m.If(step.load):
            m.d.sync += first_beat.eq(1)
        with m.If(issue):
            m.d.sync += first_beat.eq(0)
            with m.If(nest.last.all()):
                m.d.sync += begun.eq(begun + 1)
        with m.If(self.start):
            m.d.sync += begun.eq(0)
