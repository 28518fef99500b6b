"""What becomes of products: gradients that are accumulated, and parameters that are updated."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.parts.fixed_requantize import overflows
from seedbed.hw.parts.replicate import replicate
from seedbed.spec.engine import EngineConfig

__all__ = ["GradientUpdate"]

#: Flags that one adder counts.
COUNTED_AT_ONCE = 16


class GradientUpdate(wiring.Component):
    """In each lane, one adder for both::

        a = fit(a + r(p, G + V - C))        accumulate
        A = fit(A - r(p, R + C - P))        ``update``

    with products p and the formats of :class:`~seedbed.spec.lora.LoraConfig`. The rounding is added
    as a carry: r(p, s) = (p >> s) + the bit below, and -r = ~(p >> s) + 1 - that bit. Words that
    are loaded pass the same registers on their way to the memory.

    Members
    -------
    update, counts : In
        ``ahead`` cycle before the products. ``counts``: whether what saturates is counted.
    products : In
        Of the array.
    row : In
        Accumulators or parameters, ``row_after`` cycle after their products.
    load, word : In
        Gives ``word`` in place of every two numbers, ``load_latency`` cycles later; not together
        with products.
    values : Out
        ``latency`` cycles after the products.
    saturated : Out
        How many of a row's numbers did not fit their format, ``count_latency`` cycles after the
        products.
    """

    ahead = 1
    row_after = 1
    latency = 3
    count_latency = latency + 2
    load_latency = 2

    def __init__(self, config: EngineConfig):
        self.config = config
        mac, count = config.mac, config.plan.ways * config.plan.lanes
        product = signed(mac.weight_width + mac.activation_width)
        number = signed(mac.weight_width)
        super().__init__(
            {
                "update": In(1),
                "counts": In(1),
                "products": In(data.ArrayLayout(product, count)),
                "row": In(data.ArrayLayout(number, count)),
                "load": In(1),
                "word": In(data.ArrayLayout(signed(config.word), 2)),
                "values": Out(data.ArrayLayout(number, count)),
                "saturated": Out(range(count + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        totals = self._add(m)
        flags = self._saturate(m, totals)
        # Counted in two stages: a few flags at a time, and then their sums.
        some = [
            sum(flags[k + 1 : k + COUNTED_AT_ONCE], flags[k])
            for k in range(0, len(flags), COUNTED_AT_ONCE)
        ]
        shape = range(COUNTED_AT_ONCE + 1)
        kept = [Signal(shape, name=f"flags_{k}", reset_less=True) for k in range(len(some))]
        m.d.sync += [to.eq(value) for to, value in zip(kept, some, strict=True)]
        m.d.sync += self.saturated.eq(sum(kept[1:], kept[0]))
        return m

    def _add(self, m) -> list[Signal]:
        """Shift the products, and add them to the row: two stages."""
        lora = self.config.lora
        gather = lora.gradients.fraction + lora.values.fraction - lora.accumulators.fraction
        scale = lora.rate_fraction + lora.accumulators.fraction - lora.parameters.fraction
        updates = replicate(m, self.update, len(self.products), "updates")
        totals = []
        for k, (product, row) in enumerate(zip(self.products, self.row, strict=True)):
            gathered, scaled = product.shift_right(gather), product.shift_right(scale)
            shape = signed(max(len(gathered), len(scaled)))
            step = Signal(shape, name=f"step_{k}", reset_less=True)
            carry = Signal(name=f"carry_{k}", reset_less=True)
            # Above the product's bits, there is its sign.
            sign = len(product) - 1
            under = [product[min(s - 1, sign)] if s else 0 for s in (gather, scale)]
            m.d.sync += [
                step.eq(Mux(updates[k], ~scaled, gathered)),
                carry.eq(Mux(updates[k], ~under[1] if scale else 1, under[0])),
            ]
            total = Signal(signed(max(len(step), len(row)) + 1), name=f"total_{k}", reset_less=True)
            m.d.sync += total.eq(row + step + carry)
            totals.append(total)
        return totals

    def _saturate(self, m, totals) -> list[Signal]:
        """Give the totals as they fit, or a loaded word; return which totals do not fit."""
        count = len(totals)
        new, old = self.config.lora.parameters, self.config.lora.accumulators
        words = [replicate(m, half, count // 2, f"word_{k}") for k, half in enumerate(self.word)]
        updated = replicate(m, delayed(m, self.update, 2, "update"), count, "updated")
        counted = replicate(m, delayed(m, self.counts, 2, "counts"), count, "counted")
        loaded = replicate(m, self.load, count, "loaded")
        flags = []
        for k, (total, out) in enumerate(zip(totals, self.values, strict=True)):
            overflow = Signal(name=f"overflow_{k}")
            # Two select bits, so that a bit of the value is one LUT4.
            select = Signal(2, name=f"select_{k}")
            m.d.comb += [
                overflow.eq(Mux(updated[k], overflows(total, new), overflows(total, old))),
                select[1].eq(~loaded[k] & overflow),
                select[0].eq(loaded[k] | (overflow & ~total[-1])),
            ]
            low, high = (
                Mux(updated[k], *ends) for ends in [(new.low, old.low), (new.high, old.high)]
            )
            value = Signal(out.shape(), name=f"value_{k}", reset_less=True)
            flag = Signal(name=f"flag_{k}", reset_less=True)
            m.d.sync += [
                value.eq(Array([total, words[k % 2][k // 2], low, high])[select]),
                flag.eq(counted[k] & overflow),
            ]
            m.d.comb += out.eq(value)
            flags.append(flag)
        return flags
