"""Multipliers and accumulators of the tail's gradients."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.tail.inner_error import sum_bits
from seedbed.spec import BpTailConfig

__all__ = ["TailProducts"]

#: Cycles from a step to its sums.
LATENCY = 4


class TailProducts(wiring.Component):
    """Multiplies an error by ``lanes`` numbers, and adds the products to gradients or to sums.

    Gradients are in a memory; sums over successive steps are in registers.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.

    Members
    -------
    step : In(struct)
        ``valid``; ``gradient``: the products are added to the gradients at ``address``, unless
        that is ``padding``; otherwise to sums, from ``first`` to ``last``.
    clear : In(1)
        Gradients count as 0: they are those of a batch's first sample.
    shift : In
        Of a step one cycle before: how far the error is shifted left, for gradients.
    error : In(signed(8))
        Of a step one cycle before.
    numbers : In(lanes x signed(8))
        Of a step one cycle before.
    sums : Out(lanes x signed)
        With ``captured``.
    captured : Out(1)
        The sums up to a ``last`` step are complete.
    busy : Out(1)
        Steps are in the pipeline.
    read : In(struct)
        ``enable`` and ``address``: a read of gradients, while there are no steps. ``ce``: clock
        enable of the register after the memory, 1 while there are steps.
    gradients : Out(lanes x signed(accumulator_bits))
        Of the read, after two enabled cycles.

    Latency: 4 cycles from a step to its sums. Throughput: a step a cycle; an address must not come
    again within 4 cycles.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        address = range(max(2, config.entries))
        step = {"valid": 1, "padding": 1, "gradient": 1, "first": 1, "last": 1, "address": address}
        self._bits = max(config.accumulator_bits, sum_bits(config))
        lanes = config.lanes
        super().__init__(
            {
                "step": In(data.StructLayout(step)),
                "clear": In(1),
                "shift": In(range(max(2, 2 * config.exponent_range + 1))),
                "error": In(signed(8)),
                "numbers": In(data.ArrayLayout(signed(8), lanes)),
                "sums": Out(data.ArrayLayout(signed(self._bits), lanes)),
                "captured": Out(1),
                "busy": Out(1),
                "read": In(data.StructLayout({"enable": 1, "ce": 1, "address": address})),
                "gradients": Out(data.ArrayLayout(signed(config.accumulator_bits), lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, step = self.config, self.step
        m.submodules.accumulators = accumulators = memory.Memory(
            shape=self.gradients.shape(),
            depth=max(2, config.entries),
            init=[],
            attrs={"no_rw_check": True},
        )
        read, write = accumulators.read_port(), accumulators.write_port()
        valid = delay_line(m, step.valid, LATENCY, "valid", reset=True)
        gradient = delay_line(m, step.gradient, LATENCY, "gradient")
        padding = delay_line(m, step.padding, LATENCY, "padding")
        first = delay_line(m, step.first, LATENCY - 1, "first")
        last = delay_line(m, step.last, LATENCY, "last")
        address = delay_line(m, step.address, LATENCY, "address")
        m.d.comb += [
            read.addr.eq(Mux(self.read.enable, self.read.address, address[1])),
            # Steps of sums, and of padding, may come while a gradient at their address is written.
            read.en.eq(self.read.enable | (valid[1] & gradient[1] & ~padding[1])),
            write.en.eq(valid[4] & gradient[4] & ~padding[4]),
            write.addr.eq(address[4]),
            self.captured.eq(valid[4] & ~gradient[4] & last[4]),
            self.busy.eq(Cat(valid).any()),
        ]
        # Several block memories are selected from before this register.
        with m.If(self.read.ce):
            m.d.sync += self.gradients.eq(read.data)
        shifted = Signal(signed(8 + 2 * config.exponent_range), reset_less=True)
        m.d.sync += shifted.eq(self.error << Mux(gradient[1], self.shift, 0))
        keeps = Signal(2)
        m.d.comb += keeps.eq(Cat(gradient[3] & ~self.clear, ~gradient[3] & ~first[3]))
        for k in range(config.lanes):
            number = Signal(signed(8), name=f"number_{k}", reset_less=True)
            product = Signal(
                signed(len(shifted) + len(number)), name=f"product_{k}", reset_less=True
            )
            total = Signal(signed(self._bits), name=f"sum_{k}", reset_less=True)
            before = Mux(keeps[0], self.gradients[k], Mux(keeps[1], total, Const(0)))
            m.d.sync += [number.eq(self.numbers[k]), product.eq(shifted * number)]
            with m.If(valid[3]):
                m.d.sync += total.eq(before + product)
            m.d.comb += [self.sums[k].eq(total), write.data[k].eq(total)]
        return m
