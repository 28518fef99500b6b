"""Makes activations of sums: rounding, ReLU, pooling, and where each is written."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.layer_sequencer import constants
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Fixed

__all__ = ["LayerWriter", "beyond", "fitted", "shown_layout"]


def beyond(number, form: Fixed):
    """Return whether a signed number is beyond ``form``'s width."""
    top = number[form.width - 1 :]
    return top.any() & ~top.all()


def fitted(m: Module, number, form: Fixed, name: str) -> tuple[Signal, Signal]:
    """Return a signed number saturated to ``form``'s width, and whether it was beyond it."""
    over = Signal(name=f"{name}_beyond")
    fit = Signal(signed(form.width), name=f"{name}_fit")
    m.d.comb += [
        over.eq(beyond(number, form)),
        fit.eq(Mux(over, Mux(number[-1], form.low, form.high), number)),
    ]
    return fit, over


def shown_layout(config: EngineConfig) -> data.StructLayout:
    """Return the layout of logits that are given out: so many at a time, and how many count."""
    ways = config.plan.ways
    values = data.ArrayLayout(signed(config.values.width), ways)
    return data.StructLayout({"values": values, "count": range(ways + 1), "last": 1})


class LayerWriter(wiring.Component):
    """Takes the sums of a program's frames and gives what is to be written, and where.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.engine.EngineConfig`.

    Members
    -------
    start, first, behind, half : In
        As the sequencer's; the program's steps must not have begun before.
    i : In(stream of struct)
        ``sums`` (ways), one beat a frame.
    write, target, count, values : Out
        A write to the store, ``LATENCY`` cycles behind the last frame of its square.
    written : Out
        How many steps' outputs have been given, counted from ``first``.
    busy : Out(1)
        Whether steps are left.
    saturated : Out
        How many numbers were beyond their format, in that cycle.
    o : Out(stream of struct)
        The logits as they are written: those of the program that ends with them, once. They must
        have been taken when the next such program gives its own.

    Latency: ``LATENCY``. Throughput: a frame a cycle within a step, two cycles between steps.
    """

    LATENCY = 3

    def __init__(self, config: EngineConfig, address_width: int):
        self.config = config
        plan = config.plan
        count = range(len(plan.steps) + 1)
        number = data.ArrayLayout(signed(config.number), plan.ways)
        sums = data.ArrayLayout(signed(config.mac.accumulator_width), plan.ways)
        super().__init__(
            {
                "start": In(1),
                "first": In(count),
                "behind": In(count),
                "half": In(1),
                "i": In(stream.Signature(data.StructLayout({"sums": sums}))),
                "write": Out(1),
                "target": Out(address_width),
                "count": Out(range(plan.ways + 1)),
                "values": Out(number),
                "written": Out(count),
                "busy": Out(1),
                "saturated": Out(range(plan.ways + 1)),
                "o": Out(stream.Signature(shown_layout(config))),
            }
        )
        shown = plan.step("z") if config.lora else plan.steps[-1]
        self._shown = plan.steps.index(shown)
        groups = shown.groups(plan.ways) * shown.height * shown.width
        self._fifo = SyncFIFO(width=shown_layout(config).size, depth=groups)

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        plan = self.config.plan
        steps, ways = plan.steps, plan.ways
        number = Signal.like(self.first)
        behind = Signal.like(self.behind)
        loading = Signal()
        running = Signal()
        m.d.comb += self.busy.eq(loading | running)

        def rom(name, values):
            return constants(m, number, name, list(values), now=loading)

        parts = [s.strides(ways) for s in steps]
        # From a step's constants on.
        origin = rom("origin", [s.target for s in steps])
        strides = [rom(f"stride_{k}", [part[k] for part in parts]) for k in range(3)]
        square = rom("square", [s.pool**2 - 1 for s in steps])
        groups = rom("groups", [s.groups(ways) - 1 for s in steps])
        width = rom("width", [s.width - 1 for s in steps])
        height = rom("height", [s.height - 1 for s in steps])
        rest = rom("rest", [s.outputs - (s.groups(ways) - 1) * ways for s in steps])
        relu = rom("relu", [s.relu for s in steps])
        gradient = rom("gradient", [s.gradient for s in steps])
        learned = rom("learned", [s.learned for s in steps])
        shown = rom("shown", [k == self._shown for k in range(len(steps))])
        tops = (square, groups, width, height)
        left = [Signal.like(top, name=f"left_{k}", reset_less=True) for k, top in enumerate(tops)]
        ends = [Signal(name=f"ends_{k}") for k in range(4)]
        m.d.comb += [end.eq(count == 0) for end, count in zip(ends, left, strict=True)]
        address = Signal.like(self.target, reset_less=True)
        # Beats on their way: what each stage needs to know of its own.
        facts = data.StructLayout(
            {
                "begins": 1, "ends": 1, "over": 1, "relu": 1, "gradient": 1, "learned": 1,
                "shown": 1, "count": range(ways + 1), "address": len(self.target),
            }
        )  # fmt: skip
        moved = Signal()
        stages = [Signal(facts, name=f"facts_{k}", reset_less=True) for k in range(3)]
        valid = [Signal(name=f"valid_{k}") for k in range(3)]
        settled = Signal()
        m.d.comb += [
            self.i.ready.eq(running),
            moved.eq(self.i.valid & running),
            valid[0].eq(moved),
            stages[0].begins.eq(left[0] == square),
            stages[0].ends.eq(ends[0]),
            stages[0].over.eq(ends[0] & ends[1] & ends[2] & ends[3]),
            stages[0].relu.eq(relu),
            stages[0].gradient.eq(gradient),
            stages[0].learned.eq(learned),
            stages[0].shown.eq(shown),
            stages[0].count.eq(Mux(ends[1], rest, ways)),
            stages[0].address.eq(address),
        ]
        m.d.sync += [new.eq(old) for old, new in pairwise(stages)]
        m.d.sync += [new.eq(old) for old, new in pairwise(valid)]
        with m.If(moved):
            fresh = Mux(ends[1], Mux(ends[2], strides[2], strides[1]), strides[0])
            going = True
            with m.If(ends[0]):
                m.d.sync += address.eq(address + fresh)
            for k in range(4):
                with m.If(going):
                    m.d.sync += left[k].eq(Mux(ends[k], tops[k], left[k] - 1))
                going = going & ends[k]
            with m.If(going):
                m.d.sync += [
                    running.eq(0),
                    number.eq(number + 1),
                    settled.eq(0),
                    loading.eq(number + 1 != behind),
                ]
        with m.If(loading):
            m.d.sync += settled.eq(1)
            with m.If(settled):
                m.d.sync += [
                    loading.eq(0),
                    running.eq(1),
                    address.eq(origin + (self.half << (len(address) - 1))),
                ]
                m.d.sync += [count.eq(top) for count, top in zip(left, tops, strict=True)]
        with m.If(self.start):
            m.d.sync += [
                number.eq(self.first),
                behind.eq(self.behind),
                loading.eq(1),
                settled.eq(0),
            ]
        self._numbers(m, stages, valid)
        m.d.comb += [
            fifo.w_data.eq(self._beat),
            fifo.w_en.eq(self._gives),
            self.o.payload.eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        with m.If(self.start):
            m.d.sync += self.written.eq(0)
        return m

    def _numbers(self, m, stages, valid):
        """Round, then saturate, then ReLU and maximum: a stage each."""
        config = self.config
        beyonds = []
        one, two = stages[1], stages[2]
        for w, total in enumerate(self.i.payload.sums):
            rounded = Signal(signed(len(total) + 1), name=f"rounded_{w}", reset_less=True)
            value = Signal(signed(config.number), name=f"value_{w}", reset_less=True)
            over = Signal(name=f"over_{w}", reset_less=True)
            fraction = config.weights.fraction
            down = total.shift_right(fraction) + (total[fraction - 1] if fraction else 0)
            if config.lora and config.lora.parameters.fraction != fraction:
                other = config.lora.parameters.fraction
                learned = total.shift_right(other) + (total[other - 1] if other else 0)
                down = Mux(stages[0].learned, learned, down)
            m.d.sync += rounded.eq(down)
            fit, out = fitted(m, rounded, config.values, f"value_{w}")
            m.d.sync += [value.eq(fit), over.eq(out & valid[1] & (w < one.count))]
            if config.lora:
                slope, steep = fitted(m, rounded, config.lora.gradients, f"slope_{w}")
                with m.If(one.gradient):
                    m.d.sync += [value.eq(slope), over.eq(steep & valid[1] & (w < one.count))]
            beyonds.append(over)
            cut = Signal.like(value, name=f"cut_{w}")
            peak = Signal.like(value, name=f"peak_{w}", reset_less=True)
            m.d.comb += cut.eq(Mux(two.relu & value[-1], 0, value))
            with m.If(valid[2] & (two.begins | (cut > peak))):
                m.d.sync += peak.eq(cut)
            m.d.comb += self.values[w].eq(peak)
        m.d.comb += self.saturated.eq(sum(beyonds[1:], beyonds[0]))
        m.d.sync += [
            self.write.eq(valid[2] & two.ends),
            self.target.eq(two.address),
            self.count.eq(two.count),
            self.written.eq(self.written + (valid[2] & two.over)),
        ]
        self._beat = Signal(shown_layout(config))
        shown, over = Signal(), Signal(reset_less=True)
        m.d.sync += [shown.eq(two.shown & valid[2] & two.ends), over.eq(two.over)]
        m.d.comb += [
            *(to.eq(value) for to, value in zip(self._beat.values, self.values, strict=True)),
            self._beat.count.eq(self.count),
            self._beat.last.eq(over),
        ]
        self._gives = shown
