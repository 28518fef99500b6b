"""What becomes of products: gradients that are accumulated, and adapters that move against them."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.delay_line import delayed
from seedbed.hw.replicate import replicate
from seedbed.hw.requantize import overflows
from seedbed.spec.engine import EngineConfig

__all__ = ["AdapterLearning"]


class AdapterLearning(wiring.Component):
    """In each lane, one adder for both::

        a = fit(a + r(p, G + V - C))        accumulate
        A = fit(A - r(p, R + C - P))        ``update``

    with products p and the formats of :class:`~seedbed.spec.lora.LoraConfig`. What is rounded off
    is added as a carry: r(p, s) = (p >> s) + the bit below, and -r = ~(p >> s) + 1 - that bit.
    Numbers that are loaded take the same way to the memory.

    Members
    -------
    update, counts : In
        One cycle ahead of the products. ``counts``: whether what saturates is counted.
    products : In
        Of the array.
    row : In
        What is moved, one cycle behind its products.
    load, word : In
        Gives ``word`` in place of every two numbers, two cycles later; not together with products.
    values : Out
        Three cycles behind the products.
    saturated : Out
        How many of a row's numbers were beyond their format, ``COUNTED`` cycles behind the
        products.
    """

    COUNTED = 5

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
        lora = self.config.lora
        gather = lora.gradients.fraction + lora.values.fraction - lora.accumulators.fraction
        move = lora.rate_fraction + lora.accumulators.fraction - lora.parameters.fraction
        updates_late = delayed(m, self.update, 2, "update")
        counts_late = delayed(m, self.counts, 2, "counts")
        count = len(self.products)
        word = delayed(m, self.word, 1, "word")
        updates = replicate(m, self.update, count, "updates")
        updated = replicate(m, updates_late, count, "updated")
        counted = replicate(m, counts_late, count, "counted")
        loaded = replicate(m, self.load, count, "loaded")
        flags = []
        for k, (product, row) in enumerate(zip(self.products, self.row, strict=True)):
            gathered, moved = product.shift_right(gather), product.shift_right(move)
            shape = signed(max(len(gathered), len(moved)))
            step = Signal(shape, name=f"step_{k}", reset_less=True)
            carry = Signal(name=f"carry_{k}", reset_less=True)
            # Beyond the product's bits, there is its sign.
            sign = len(product) - 1
            under = [product[min(s - 1, sign)] if s else 0 for s in (gather, move)]
            m.d.sync += [
                step.eq(Mux(updates[k], ~moved, gathered)),
                carry.eq(Mux(updates[k], ~under[1] if move else 1, under[0])),
            ]
            total = Signal(signed(max(len(step), len(row)) + 1), name=f"total_{k}", reset_less=True)
            m.d.sync += total.eq(row + step + carry)
            new, old = lora.parameters, lora.accumulators
            over = Signal(name=f"over_{k}")
            # Two bits choose what is given, so that it is one LUT4 for a bit.
            take = Signal(2, name=f"take_{k}")
            m.d.comb += [
                over.eq(Mux(updated[k], overflows(total, new), overflows(total, old))),
                take[1].eq(~loaded[k] & over),
                take[0].eq(loaded[k] | (over & ~total[-1])),
            ]
            low, high = (
                Mux(updated[k], *ends) for ends in [(new.low, old.low), (new.high, old.high)]
            )
            value = Signal(row.shape(), name=f"value_{k}", reset_less=True)
            flag = Signal(name=f"flag_{k}", reset_less=True)
            m.d.sync += [
                value.eq(Array([total, word[k % 2], low, high])[take]),
                flag.eq(counted[k] & over),
            ]
            m.d.comb += self.values[k].eq(value)
            flags.append(flag)
        # Counted in two stages: sixteen flags at a time, and then their sums.
        some = [sum(flags[k + 1 : k + 16], flags[k]) for k in range(0, len(flags), 16)]
        kept = [Signal(5, name=f"some_{k}", reset_less=True) for k in range(len(some))]
        m.d.sync += [to.eq(value) for to, value in zip(kept, some, strict=True)]
        m.d.sync += self.saturated.eq(sum(kept[1:], kept[0]))
        return m
