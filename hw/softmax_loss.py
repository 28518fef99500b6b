"""Softmax with cross-entropy: loss and gradient of a sample's logits, by tables."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import SoftmaxLossConfig

__all__ = ["SoftmaxLoss", "logit_layout", "result_layout"]

#: What goes along with an exponential through the second pass.
_MARK = data.StructLayout({"valid": 1, "hit": 1, "last": 1})


def logit_layout(config: SoftmaxLossConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i``."""
    label = Shape.cast(range(config.classes))
    return data.StructLayout({"logit": signed(config.logits.width), "label": label, "last": 1})


def result_layout(config: SoftmaxLossConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o``."""
    return data.StructLayout(
        {
            "gradient": signed(config.gradients.width),
            "best": Shape.cast(range(config.classes)),
            "loss": signed(config.logits.width),
            "saturated": 1,
            "last": 1,
        }
    )


def _chosen(ways: Value, values: list[Value]) -> Value:
    """Return that of the values whose bit of ``ways``, the only one, is set."""
    return reduce(or_, (Mux(way, value, 0) for way, value in zip(ways, values, strict=True)))


class SoftmaxLoss(wiring.Component):
    """From a sample's logits and label: class, loss, and the loss's gradient by each logit.

    With logits z_k, label t, P probability_bits, and the tables of the configuration::

        m = max z,  d_k = m - z_k,  e_k = exp(-d_k),  s = sum of e_k = 2^n (1 + f)
        p_k = min(e_k reciprocal(f) / 2^n, 1 - 2^-P)
        gradient_k = p_k - [k = t],  loss = log(1 + f) + log(2^n) + d_t

    Three passes over a sample. The first takes the logits and finds the greatest. The second
    looks one exponential up a cycle, keeps it, and adds it to the sum. The third multiplies each
    by the sum's reciprocal. While it does, the next sample's logits are taken. What is rounded
    where stands in the configuration; the gradient cannot saturate in any format it allows.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SoftmaxLossConfig`.

    Members
    -------
    i : In(stream of struct)
        ``logit`` (signed(logits.width)), one a beat; ``label`` (0..classes - 1), that of the beat
        with ``last`` counts. A frame is a sample; it may have fewer logits than classes.
    o : Out(stream of struct)
        ``gradient`` (signed(gradients.width)), one for each logit, in their order, and ``last``.
        ``best`` (the class: lowest index of the greatest logit), ``loss`` (signed(logits.width))
        and ``saturated`` (how many of the sample's numbers saturated: only the loss can) hold in
        every beat of the frame.

    A class that was given no logit has one of minus infinity. If it is the label, the loss
    saturates, and no gradient has the -1. Logits beyond ``classes`` are dropped: the frame is the
    sample of the first ones, with the label that came with ``last``.

    Latency: n + 7 cycles from the last of n logits to the first gradient, and 2 n + 6 to the last
    one, which is ``latency`` for all classes. Throughput: a sample every ``latency`` cycles.
    Source: InstantFT, section 4.1.
    """

    def __init__(self, config: SoftmaxLossConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(logit_layout(config))),
                "o": Out(stream.Signature(result_layout(config))),
            }
        )
        # Half of the last place of the exponentials' index, in the logits' format.
        self._half = 1 << (config.logits.fraction - config.exp_fraction) >> 1

    @property
    def latency(self) -> int:
        """Cycles from a sample's last logit to its last gradient, with a logit for each class."""
        return 2 * self.config.classes + 6

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # A sample leaves the first pass when ``busy`` lets it, and is ``busy`` until it is given.
        busy = Signal()
        leaves = Signal()
        m.d.comb += leaves.eq(self.o.valid & self.o.ready & self.o.payload.last)
        word = data.StructLayout({"exp": config.probability_bits, "hit": 1})
        m.submodules.kept = kept = memory.Memory(shape=word, depth=config.classes, init=[])
        difference, mark = self._take(m, busy)
        total, count, ended = self._add(m, kept.write_port(), difference, mark, leaves)
        ways, floor, entry = self._normalize(m, total)
        self._give(m, kept.read_port(), ways, entry.reciprocal, count, ended)
        self._lose(m, difference, mark, floor, entry.log, leaves)
        m.d.sync += busy.eq((busy | mark.last) & ~leaves)
        return m

    def _take(self, m, busy):
        """Take a sample's logits; then, once not ``busy``, show the differences one by one."""
        config, beat = self.config, self.i.payload
        width = config.logits.width + 1
        m.submodules.logits = logits = memory.Memory(
            shape=signed(width), depth=config.classes, init=[]
        )
        write, read = logits.write_port(), logits.read_port(domain="comb")
        full = Signal()
        moved = Signal()
        stored = Signal()
        taken = Signal(range(config.classes + 1))
        place = Signal(range(config.classes))
        top = Signal(signed(config.logits.width), reset_less=True)
        best = Signal.like(self.o.payload.best, reset_less=True)
        label = Signal.like(beat.label, reset_less=True)
        difference = Signal(width)
        mark = Signal(_MARK)
        m.d.comb += [
            self.i.ready.eq(~full),
            moved.eq(self.i.valid & self.i.ready),
            stored.eq(moved & (taken != config.classes)),
            write.en.eq(stored),
            write.addr.eq(taken),
            # With its sign changed and the half added, so that one addition is left.
            write.data.eq(self._half - beat.logit),
            read.addr.eq(place),
            difference.eq(top + read.data),
            mark.valid.eq(full & ~busy),
            mark.hit.eq(mark.valid & (place == label)),
            mark.last.eq(mark.valid & (place + 1 == taken)),
        ]
        with m.If(stored):
            m.d.sync += taken.eq(taken + 1)
            with m.If((taken == 0) | (beat.logit > top)):
                m.d.sync += [top.eq(beat.logit), best.eq(taken)]
        with m.If(moved):
            m.d.sync += [label.eq(beat.label), full.eq(beat.last)]
        with m.If(mark.valid):
            m.d.sync += place.eq(place + 1)
        with m.If(mark.last):
            m.d.sync += [full.eq(0), taken.eq(0), place.eq(0), self.o.payload.best.eq(best)]
        return difference, mark

    def _add(self, m, write, difference, mark, leaves):
        """Look the exponentials up, keep them, and add them up."""
        config, cut = self.config, self.config.logits.fraction - self.config.exp_fraction
        m.submodules.exps = table = memory.Memory(
            shape=config.probability_bits, depth=1 << config.exp_bits, init=config.exps
        )
        read = table.read_port()
        inside = Signal(reset_less=True)
        exp = Signal(config.probability_bits, reset_less=True)
        total = Signal(range(config.sums[1] + 1))
        count = Signal(range(config.classes + 1))
        looked = Signal(_MARK)
        found = Signal(_MARK)
        ended = Signal()
        m.d.comb += [
            read.addr.eq(difference[cut:]),
            write.en.eq(found.valid),
            write.addr.eq(count),
            write.data.exp.eq(exp),
            write.data.hit.eq(found.hit),
        ]
        m.d.sync += [
            inside.eq(difference >> cut < 1 << config.exp_bits),
            exp.eq(Mux(inside, read.data, 0)),
            looked.eq(mark),
            found.eq(looked),
            ended.eq(found.last),
        ]
        with m.If(found.valid):
            m.d.sync += [total.eq(total + exp), count.eq(count + 1)]
        with m.If(leaves):
            m.d.sync += [total.eq(0), count.eq(0)]
        return total, count, ended

    def _normalize(self, m, total):
        """Look up what depends on the sum: one bit for each n, and two cycles later the tables."""
        config, bits = self.config, self.config.index_bits
        entry = data.StructLayout(
            {
                "reciprocal": config.probability_bits,
                "log": max(1, max(config.logs).bit_length()),
            }
        )
        rows = zip(config.reciprocals, config.logs, strict=True)
        m.submodules.sums = table = memory.Memory(
            shape=entry,
            depth=1 << bits,
            init=[{"reciprocal": reciprocal, "log": log} for reciprocal, log in rows],
        )
        read = table.read_port()
        floors = {n: floor - self._half for n, floor in config.floors.items()}
        # The sum's leading one; it is never below the least n, whose bit need not be looked at.
        leading, above = [], Const(0)
        for n in reversed(floors):
            leading.insert(0, (total[n] | (n == min(floors))) & ~above)
            above = above | total[n]
        leads = Signal(len(floors))
        ways = Signal(len(floors), reset_less=True)
        floor = Signal(Shape.cast(range(min(floors.values()), max(floors.values()) + 1)))
        shown = Signal(entry, reset_less=True)
        m.d.comb += [
            leads.eq(Cat(leading)),
            read.addr.eq(_chosen(leads, [total[n - bits : n] for n in floors])),
        ]
        m.d.sync += [
            ways.eq(leads),
            floor.eq(_chosen(leads, [Const(value, floor.shape()) for value in floors.values()])),
            shown.eq(read.data),
        ]
        return ways, floor, shown

    def _give(self, m, read, ways, reciprocal, count, ended):
        """Multiply the exponentials by the reciprocal, shift, and give the gradients out."""
        config, bits = self.config, self.config.probability_bits
        gives = Signal()
        moves = Signal()
        step = Signal(range(config.classes))
        product = Signal(2 * bits, reset_less=True)
        hit = Signal(reset_less=True)
        marks = [
            Signal(data.StructLayout({"valid": 1, "last": 1}), name=f"mark_{k}") for k in range(3)
        ]
        m.d.comb += [
            moves.eq(~self.o.valid | self.o.ready),
            marks[0].valid.eq(gives),
            marks[0].last.eq(gives & (step + 1 == count)),
            read.addr.eq(step),
            read.en.eq(moves & gives),
        ]
        scaled = Signal(bits + 1)
        probability = Signal(bits)
        behind = bits - config.gradients.fraction
        m.d.comb += [
            scaled.eq(_chosen(ways, [product[n : n + bits + 1] for n in config.floors])),
            probability.eq(Mux(scaled[bits], (1 << bits) - 1, scaled)),
        ]
        rounds = probability[behind - 1] if behind else Const(0)
        # The probability is below 1: what is taken away is its sign, if anything.
        sign = hit.replicate(config.gradients.width - config.gradients.fraction)
        gradient = Cat(probability[behind:], sign).as_signed()
        with m.If(moves):
            m.d.sync += [
                marks[1].eq(marks[0]),
                product.eq(read.data.exp * reciprocal),
                hit.eq(read.data.hit),
                marks[2].eq(marks[1]),
                self.o.payload.gradient.eq(gradient + rounds),
                self.o.payload.last.eq(marks[2].last),
                self.o.valid.eq(marks[2].valid),
            ]
            with m.If(gives):
                m.d.sync += step.eq(step + 1)
            with m.If(marks[0].last):
                m.d.sync += [gives.eq(0), step.eq(0)]
        with m.If(ended):
            m.d.sync += gives.eq(1)

    def _lose(self, m, difference, mark, floor, log, leaves):
        """Add the loss up and saturate it."""
        config = self.config
        width = config.logits.width
        distance = Signal(width + 1, reset_less=True)
        labelled = Signal()
        highest = (2 << width) + max(config.floors.values()) + max(config.logs)
        base = Signal(signed(highest.bit_length() + 1), reset_less=True)
        loss = Signal.like(base)
        beyond = Signal()
        m.d.comb += beyond.eq(~labelled | (~loss[-1] & loss[width - 1 : -1].any()))
        # Nothing here waits: sum and distance stay as they are until the sample has left.
        m.d.sync += [
            base.eq(floor + distance),
            loss.eq(base + log),
            self.o.payload.saturated.eq(beyond),
            self.o.payload.loss.eq(
                Mux(beyond, config.logits.high, Mux(loss[-1], 0, loss[: width - 1]))
            ),
        ]
        with m.If(mark.hit):
            m.d.sync += [distance.eq(difference), labelled.eq(1)]
        with m.If(leaves):
            m.d.sync += labelled.eq(0)
