"""What becomes of products: gradients that are accumulated, and adapters that move against them."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.layer_writer import fitted
from seedbed.spec.engine import EngineConfig

__all__ = ["AdapterLearning"]


class AdapterLearning(wiring.Component):
    """In each lane, one adder for both::

        a = fit(a + r(p, G + V - C))        accumulate, from 0 on where ``anew``
        A = fit(A - r(p, R + C - P))        ``update``, from 0 on where ``anew``

    with products p and the formats of :class:`~seedbed.spec.lora.LoraConfig`. What is rounded off
    is added as a carry: r(p, s) = (p >> s) + the bit below, and -r = ~(p >> s) + 1 - that bit.

    Members
    -------
    products : In
        Of the array.
    update, anew, counts : In
        With the products. ``counts``: whether what saturates is counted.
    row : In
        What is moved, one cycle behind its products.
    values : Out
        Two cycles behind the products.
    saturated : Out
        How many of a row's numbers were beyond their format, ``COUNTED`` cycles behind the
        products.
    """

    COUNTED = 4

    def __init__(self, config: EngineConfig):
        self.config = config
        mac, count = config.mac, config.plan.ways * config.plan.lanes
        product = signed(mac.weight_width + mac.activation_width)
        number = signed(mac.weight_width)
        super().__init__(
            {
                "products": In(data.ArrayLayout(product, count)),
                "update": In(1),
                "anew": In(1),
                "counts": In(1),
                "row": In(data.ArrayLayout(number, count)),
                "values": Out(data.ArrayLayout(number, count)),
                "saturated": Out(range(count + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lora = self.config.lora
        gather = lora.gradients.fraction + lora.values.fraction - lora.accumulators.fraction
        move = lora.rate_fraction + lora.accumulators.fraction - lora.parameters.fraction
        update, anew, counts = (Signal(name=n) for n in ("updates", "begins", "counted"))
        m.d.sync += [update.eq(self.update), anew.eq(self.anew), counts.eq(self.counts)]
        beyond = []
        for k, (product, row) in enumerate(zip(self.products, self.row, strict=True)):
            gathered, moved = product.shift_right(gather), product.shift_right(move)
            shape = signed(max(len(gathered), len(moved)))
            step = Signal(shape, name=f"step_{k}", reset_less=True)
            carry = Signal(name=f"carry_{k}", reset_less=True)
            # Beyond the product's bits, there is its sign.
            sign = len(product) - 1
            under = [product[min(s - 1, sign)] if s else 0 for s in (gather, move)]
            m.d.sync += [
                step.eq(Mux(self.update, ~moved, gathered)),
                carry.eq(Mux(self.update, ~under[1] if move else 1, under[0])),
            ]
            total = Signal(signed(max(len(step), len(row)) + 1), name=f"total_{k}")
            m.d.comb += total.eq(Mux(anew, 0, row) + step + carry)
            kept, high = fitted(m, total, lora.accumulators, f"kept_{k}")
            new, over = fitted(m, total, lora.parameters, f"new_{k}")
            value = Signal(row.shape(), name=f"value_{k}", reset_less=True)
            flag = Signal(name=f"flag_{k}", reset_less=True)
            m.d.sync += [
                value.eq(Mux(update, new, kept)),
                flag.eq(counts & Mux(update, over, high)),
            ]
            m.d.comb += self.values[k].eq(value)
            beyond.append(flag)
        # Counted in two stages: sixteen flags at a time, and then their sums.
        some = [sum(beyond[k + 1 : k + 16], beyond[k]) for k in range(0, len(beyond), 16)]
        kept = [Signal(5, name=f"some_{k}", reset_less=True) for k in range(len(some))]
        m.d.sync += [to.eq(value) for to, value in zip(kept, some, strict=True)]
        m.d.sync += self.saturated.eq(sum(kept[1:], kept[0]))
        return m
