"""Makes activations of sums, and says where each is written."""

from amaranth.hdl import Module, Mux, ShapeLike, Signal, signed
from amaranth.lib import data, wiring

from seedbed.hw.engine.output_queue import OutputQueue, writer_members
from seedbed.hw.engine.pool import Pool
from seedbed.hw.engine.step_constants import StepConstants
from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.parts.fixed_requantize import FixedRequantize
from seedbed.hw.parts.loop_nest import strided
from seedbed.spec.engine import EngineConfig
from seedbed.spec.plan import Step

__all__ = ["LayerWriter"]


class LayerWriter(wiring.Component):
    """Takes the sums of a program's frames and gives what is to be written, and where.

    Sums are requantized, then ReLU and the maximum are taken.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    start, first, stop, buffer_select : In
        As the sequencer's; the program's steps must not have begun before.
    i : In(stream of struct)
        ``sums`` (ways), one beat a frame.
    write, target, count, values : Out
        A write to the store, ``latency`` cycles after the last frame of its square.
    written : Out
        How many steps' outputs have been given, counted from ``first``.
    busy : Out(1)
        Whether steps are left.
    saturated : Out
        How many numbers did not fit their format, in that cycle. Outputs that a step repeats are
        not counted again.
    o : Out(stream of struct)
        Outputs of the plan's step ``output``; they must be taken before the next program that has
        this step. See :func:`~seedbed.hw.engine.output_queue.outputs_layout`.

    Latency: ``latency``, and that of :class:`~seedbed.hw.engine.output_queue.OutputQueue` more to
    ``o``. Throughput: a frame a cycle within a step.
    """

    latency = FixedRequantize.latency + Pool.latency

    @classmethod
    def step_latency(cls, config: EngineConfig, step: Step) -> int:
        """Return the cycles from a step's last sums to its last outputs in the store."""
        return cls.latency

    def __init__(self, config: EngineConfig):
        self.config = config
        self._repeats = any(step.repeats for step in config.plan.steps)
        super().__init__(writer_members(config))

    def elaborate(self, platform):
        m = Module()
        frames = self._frames(m)
        fires = delay_line(m, self.i.valid & self.i.ready, self.latency - 1, "fire", reset=True)
        self._numbers(m, frames, fires)
        # The frame in the last stage before the writes, which are registers.
        frame, fire = frames[-1], fires[-1]
        is_output, last = Signal(), Signal(reset_less=True)
        m.d.sync += [
            self.write.eq(fire & frame.square_last),
            self.target.eq(frame.address),
            self.count.eq(frame.count),
            self.written.eq(self.written + (fire & frame.step_last)),
            is_output.eq(frame.is_output & fire & frame.square_last),
            last.eq(frame.step_last),
        ]
        with m.If(self.start):
            m.d.sync += self.written.eq(0)
        m.submodules.outputs = outputs = OutputQueue(self.config)
        m.d.comb += [
            outputs.push.eq(is_output),
            outputs.values.eq(self.values),
            outputs.count.eq(self.count),
            outputs.last.eq(last),
        ]
        wiring.connect(m, outputs.o, wiring.flipped(self.o))
        return m

    def _frames(self, m) -> list:
        """Count a step's frames; return the constants of each pipeline stage."""
        plan = self.config.plan
        steps, ways = plan.steps, plan.ways
        done = Signal()
        step = StepConstants(m, start=self.start, first=self.first, stop=self.stop, done=done)
        origin = step.register("origin", [s.target for s in steps])
        by_loop = zip(*(s.target_strides(ways) for s in steps), strict=True)
        strides = [step.register(f"stride_{k}", by) for k, by in enumerate(by_loop)]
        rest = step.register("rest", [s.outputs - (s.groups(ways) - 1) * ways for s in steps])
        nest = step.nest(zip(*(s.output_loops(ways) for s in steps), strict=True))
        start = origin + (self.buffer_select << (len(self.target) - 1))
        address = strided(m, nest, "address", len(self.target), start, [0, *strides])
        marks = {
            "relu": [s.relu for s in steps],
            "gradient": [s.gradient for s in steps],
            "trainable": [s.trainable for s in steps],
            "is_output": [s is plan.output for s in steps],
        }
        if self._repeats:
            marks["repeats"] = [s.repeats for s in steps]
        facts: dict[str, ShapeLike] = dict.fromkeys(
            ("square_first", "square_last", "step_last", *marks), 1
        )
        facts |= {"count": range(ways + 1), "address": len(self.target)}
        frame = Signal(data.StructLayout(facts))
        fire = self.i.valid & step.running
        m.d.comb += [
            self.busy.eq(step.loading | step.running),
            self.i.ready.eq(step.running),
            nest.advance.eq(fire),
            done.eq(fire & nest.last.all()),
            frame.square_first.eq(nest.first[0]),
            frame.square_last.eq(nest.last[0]),
            frame.step_last.eq(nest.last.all()),
            frame.count.eq(Mux(nest.last[1], rest, ways)),
            frame.address.eq(address),
            *(frame[name].eq(step.register(name, by)) for name, by in marks.items()),
        ]
        return delay_line(m, frame, self.latency - 1, "frame")

    def _numbers(self, m, frames, fires):
        """Requantize the sums, and take the maxima."""
        config, frame = self.config, frames[0]
        m.submodules.requantize = requantize = FixedRequantize(
            width=config.mac.accumulator_width,
            count=config.plan.ways,
            shifts=config.fractions,
            forms=config.output_forms,
        )
        m.submodules.pool = pool = Pool(signed(config.number), config.plan.ways)
        if len(config.fractions) > 1:
            m.d.comb += requantize.shift.eq(frame.trainable)
        if len(config.output_forms) > 1:
            m.d.comb += requantize.form.eq(frame.gradient)
        after = FixedRequantize.latency
        counts = fires[0] & ~frame.repeats if self._repeats else fires[0]
        m.d.comb += [
            *(to.eq(total) for to, total in zip(requantize.i, self.i.payload.sums, strict=True)),
            *(
                counted.eq(counts & (way < frame.count))
                for way, counted in enumerate(requantize.counted)
            ),
            pool.valid.eq(fires[after]),
            pool.first.eq(frames[after].square_first),
            pool.relu.eq(frames[after].relu),
            pool.i.eq(requantize.o),
            self.values.eq(pool.o),
            self.saturated.eq(requantize.saturated),
        ]
