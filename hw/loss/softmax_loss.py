"""Softmax with cross-entropy: loss and gradient of a sample's logits, by tables."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import SoftmaxLossConfig

__all__ = ["SoftmaxLoss", "logit_layout", "result_layout"]

#: Flags that are pipelined with an exponential in the second pass.
_FLAGS = data.StructLayout({"valid": 1, "hit": 1, "last": 1})


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


def _select(one_hot: Value, values: list[Value]) -> Value:
    """Return the value that ``one_hot`` selects."""
    return reduce(or_, (Mux(bit, value, 0) for bit, value in zip(one_hot, values, strict=True)))


class SoftmaxLoss(wiring.Component):
    """From a sample's logits and label: class, loss, and the loss's gradient by each logit.

    With logits z_k, label t, P probability_bits, and the tables of the configuration::

        m = max z,  d_k = m - z_k,  e_k = exp(-d_k),  s = sum of e_k = 2^n (1 + f)
        p_k = min(e_k reciprocal(f) / 2^n, 1 - 2^-P)
        gradient_k = p_k - [k = t],  loss = log(1 + f) + log(2^n) + d_t

    Three passes over a sample. The first stores the logits and finds the greatest. The second
    looks up one exponential per cycle, stores it, and adds it to the sum. The third multiplies each
    by the sum's reciprocal. The next sample's logits are accepted during the third. The
    configuration defines the rounding; the gradient cannot saturate in any format it allows.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SoftmaxLossConfig`.

    Members
    -------
    i : In(stream of struct)
        logits of a sample, one per beat. A frame is a sample; it may have fewer logits than
        classes.
        logit (signed(logits.width)) : logit of the next class
        label : class label; valid with last. Range 0 to classes - 1.
        last : last logit of the sample
    o : Out(stream of struct)
        gradients of a sample, one per beat. They are in the order of the logits.
        gradient (signed(gradients.width)) : loss gradient with respect to the logit of the class
        best : class with the largest logit. Of equal logits, that with the lowest index. The same
            in every beat of the frame.
        loss (signed(logits.width)) : cross-entropy loss of the sample. The same in every beat of
            the frame.
        saturated : count of saturated numbers of the sample. Only the loss can; the same in every
            beat of the frame.
        last : last gradient of the sample

    A class without a logit counts as minus infinity. If it is the label, the loss saturates, and no
    gradient has the -1. Logits after the first ``classes`` are discarded; the label is still the
    one with ``last``.

    Latency: n + 7 cycles from the last of n logits to the first gradient. The last one comes after
    2 n + 6 cycles.
    Throughput: 1 sample per 2 n + 6 cycles. For all classes that is ``latency``.
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
        # Half of the least significant bit of the exponentials' index, in the logits' format.
        self._half = 1 << (config.logits.fraction - config.exp_fraction) >> 1

    @property
    def latency(self) -> int:
        """Cycles from a sample's last logit to its last gradient, with a logit for each class."""
        return 2 * self.config.classes + 6

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # ``busy`` is 1 from the end of a sample's second pass to its last gradient's transfer.
        busy = Signal()
        sample_done = Signal()
        m.d.comb += sample_done.eq(self.o.valid & self.o.ready & self.o.payload.last)
        word = data.StructLayout({"exp": config.probability_bits, "hit": 1})
        m.submodules.stored_exps = exps = memory.Memory(shape=word, depth=config.classes, init=[])
        difference, flags = self._first_pass(m, busy)
        total, count, ended = self._second_pass(
            m, exps.write_port(), difference, flags, sample_done
        )
        one_hot, log_floor, entry = self._normalize(m, total)
        self._third_pass(m, exps.read_port(), one_hot, entry.reciprocal, count, ended)
        self._loss(m, difference, flags, log_floor, entry.log, sample_done)
        m.d.sync += busy.eq((busy | flags.last) & ~sample_done)
        return m

    def _first_pass(self, m, busy):
        """First pass: store a sample's logits; then, unless ``busy``, read the differences."""
        config, beat = self.config, self.i.payload
        width = config.logits.width + 1
        m.submodules.logits = logits = memory.Memory(
            shape=signed(width), depth=config.classes, init=[]
        )
        write, read = logits.write_port(), logits.read_port(domain="comb")
        full = Signal()
        fire = Signal()
        store = Signal()
        stored_count = Signal(range(config.classes + 1))
        read_index = Signal(range(config.classes))
        greatest = Signal(signed(config.logits.width), reset_less=True)
        best = Signal.like(self.o.payload.best, reset_less=True)
        label = Signal.like(beat.label, reset_less=True)
        difference = Signal(width)
        flags = Signal(_FLAGS)
        m.d.comb += [
            self.i.ready.eq(~full),
            fire.eq(self.i.valid & self.i.ready),
            store.eq(fire & (stored_count != config.classes)),
            write.en.eq(store),
            write.addr.eq(stored_count),
            # Negated, with the half added, so that a difference needs one addition.
            write.data.eq(self._half - beat.logit),
            read.addr.eq(read_index),
            difference.eq(greatest + read.data),
            flags.valid.eq(full & ~busy),
            flags.hit.eq(flags.valid & (read_index == label)),
            flags.last.eq(flags.valid & (read_index + 1 == stored_count)),
        ]
        with m.If(store):
            m.d.sync += stored_count.eq(stored_count + 1)
            with m.If((stored_count == 0) | (beat.logit > greatest)):
                m.d.sync += [greatest.eq(beat.logit), best.eq(stored_count)]
        with m.If(fire):
            m.d.sync += [label.eq(beat.label), full.eq(beat.last)]
        with m.If(flags.valid):
            m.d.sync += read_index.eq(read_index + 1)
        with m.If(flags.last):
            m.d.sync += [
                full.eq(0),
                stored_count.eq(0),
                read_index.eq(0),
                self.o.payload.best.eq(best),
            ]
        return difference, flags

    def _second_pass(self, m, write, difference, flags, sample_done):
        """Second pass: look up the exponentials, store them, and add them."""
        config, shift = self.config, self.config.logits.fraction - self.config.exp_fraction
        m.submodules.exps = table = memory.Memory(
            shape=config.probability_bits, depth=1 << config.exp_bits, init=config.exps
        )
        read = table.read_port()
        in_table = Signal(reset_less=True)
        exp = Signal(config.probability_bits, reset_less=True)
        total = Signal(range(config.sums[1] + 1))
        count = Signal(range(config.classes + 1))
        flags_d2 = delayed(m, flags, 2, "flags", reset=True)
        ended = Signal()
        m.d.comb += [
            read.addr.eq(difference[shift:]),
            write.en.eq(flags_d2.valid),
            write.addr.eq(count),
            write.data.exp.eq(exp),
            write.data.hit.eq(flags_d2.hit),
        ]
        m.d.sync += [
            in_table.eq(difference >> shift < 1 << config.exp_bits),
            exp.eq(Mux(in_table, read.data, 0)),
            ended.eq(flags_d2.last),
        ]
        with m.If(flags_d2.valid):
            m.d.sync += [total.eq(total + exp), count.eq(count + 1)]
        with m.If(sample_done):
            m.d.sync += [total.eq(0), count.eq(0)]
        return total, count, ended

    def _normalize(self, m, total):
        """Return n of the sum, one-hot, its floor and, two cycles later, the tables' entry."""
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
        floors = {n: log_floor - self._half for n, log_floor in config.floors.items()}
        # The sum's leading one. It is at the least n or above: the bit of the least n is unused.
        leading, higher = [], Const(0)
        for n in reversed(floors):
            leading.insert(0, (total[n] | (n == min(floors))) & ~higher)
            higher = higher | total[n]
        leading_one = Signal(len(floors))
        log_floor = Signal(Shape.cast(range(min(floors.values()), max(floors.values()) + 1)))
        m.d.comb += [
            leading_one.eq(Cat(leading)),
            read.addr.eq(_select(leading_one, [total[n - bits : n] for n in floors])),
        ]
        m.d.sync += log_floor.eq(
            _select(leading_one, [Const(value, log_floor.shape()) for value in floors.values()])
        )
        one_hot = delayed(m, leading_one, 1, "one_hot")
        return one_hot, log_floor, delayed(m, read.data, 1, "entry")

    def _third_pass(self, m, read, one_hot, reciprocal, count, ended):
        """Third pass: multiply the exponentials by the reciprocal, shift, and output gradients."""
        config, bits = self.config, self.config.probability_bits
        reading = Signal()
        enable = Signal()
        index = Signal(range(config.classes))
        product = Signal(2 * bits, reset_less=True)
        hit = Signal(reset_less=True)
        stages = [
            Signal(data.StructLayout({"valid": 1, "last": 1}), name=f"stage_{k}") for k in range(3)
        ]
        m.d.comb += [
            enable.eq(~self.o.valid | self.o.ready),
            stages[0].valid.eq(reading),
            stages[0].last.eq(reading & (index + 1 == count)),
            read.addr.eq(index),
            read.en.eq(enable & reading),
        ]
        scaled = Signal(bits + 1)
        probability = Signal(bits)
        dropped_bits = bits - config.gradients.fraction
        m.d.comb += [
            scaled.eq(_select(one_hot, [product[n : n + bits + 1] for n in config.floors])),
            probability.eq(Mux(scaled[bits], (1 << bits) - 1, scaled)),
        ]
        half_bit = probability[dropped_bits - 1] if dropped_bits else Const(0)
        # The probability is below 1: subtracting 1 at the label sets the sign bits.
        sign = hit.replicate(config.gradients.width - config.gradients.fraction)
        gradient = Cat(probability[dropped_bits:], sign).as_signed()
        with m.If(enable):
            m.d.sync += [
                stages[1].eq(stages[0]),
                product.eq(read.data.exp * reciprocal),
                hit.eq(read.data.hit),
                stages[2].eq(stages[1]),
                self.o.payload.gradient.eq(gradient + half_bit),
                self.o.payload.last.eq(stages[2].last),
                self.o.valid.eq(stages[2].valid),
            ]
            with m.If(reading):
                m.d.sync += index.eq(index + 1)
            with m.If(stages[0].last):
                m.d.sync += [reading.eq(0), index.eq(0)]
        with m.If(ended):
            m.d.sync += reading.eq(1)

    def _loss(self, m, difference, flags, log_floor, log, sample_done):
        """Add the loss's terms and saturate it."""
        config = self.config
        width = config.logits.width
        distance = Signal(width + 1, reset_less=True)
        label_seen = Signal()
        highest = (2 << width) + max(config.floors.values()) + max(config.logs)
        base = Signal(signed(highest.bit_length() + 1), reset_less=True)
        loss = Signal.like(base)
        overflow = Signal()
        m.d.comb += overflow.eq(~label_seen | (~loss[-1] & loss[width - 1 : -1].any()))
        # Without an enable: sum and distance are stable until the sample's last transfer.
        m.d.sync += [
            base.eq(log_floor + distance),
            loss.eq(base + log),
            self.o.payload.saturated.eq(overflow),
            self.o.payload.loss.eq(
                Mux(overflow, config.logits.high, Mux(loss[-1], 0, loss[: width - 1]))
            ),
        ]
        with m.If(flags.hit):
            m.d.sync += [distance.eq(difference), label_seen.eq(1)]
        with m.If(sample_done):
            m.d.sync += label_seen.eq(0)
