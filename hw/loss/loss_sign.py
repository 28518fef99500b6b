"""The sign of a batch's loss difference, from the integer logits of two passes."""

from amaranth.hdl import Array, Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.loss.log_sum import SEARCH, TERM, LogSum
from seedbed.spec import LossSignConfig
from seedbed.spec.loss_sign import EXPONENT_BITS, LOGIT_BITS, RANGE

__all__ = ["LossSign", "classes_layout", "logits_layout", "sign_layout"]


def logits_layout(config: LossSignConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i``."""
    return data.StructLayout(
        {
            "logits": data.ArrayLayout(signed(LOGIT_BITS), config.ways),
            "count": range(config.ways + 1),
            "exponent": signed(EXPONENT_BITS),
            "label": Shape.cast(range(config.classes)),
            "last": 1,
            "batch_last": 1,
        }
    )


def sign_layout(config: LossSignConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o``."""
    size = {"size": config.total_bits - 1} if config.levels > 1 else {}
    return data.StructLayout({"sign": signed(2), "error": 1} | size)


def classes_layout(config: LossSignConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``o_classes``."""
    return data.StructLayout({"best": Shape.cast(range(config.classes)), "minus": 1, "error": 1})


class LossSign(wiring.Component):
    """From the logits of two passes over a batch: the sign of the difference of their losses.

    Integers only. With a the logits of a pass, s their exponent, t the label, F ``fraction``::

        e_j = floor(47274 (a_j - a_t) 2^(s - 15) 2^F),  p = max e_j of both passes - 10 2^F
        loss = log2 of the sum of 2^(max(e_j - p, 0) / 2^F), rounded down to F fraction bits
        sign = sign of the sum over the batch of loss(+) - loss(-)

    Logits are stored one a cycle, those of the + pass and of the - pass. After both, the greatest
    exponent of each pass is computed, which is that of its greatest logit; then a term of each
    class, one a cycle; then the sum is shifted until its leading one is at the top, and the next
    bits are the address of the logarithm's fraction. One multiplier, by the constant 47274.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.LossSignConfig`.

    Members
    -------
    i : In(stream of struct)
        logits of a pass: of each sample the + pass, then the - pass. They are in the order of the
        classes. A frame is a pass.
        logits (ways x signed(8)) : logits of the next classes
        count : number of valid logits. Range 0 to ``ways``.
        exponent (signed(8)) : exponent of the logits; valid with last
        label : class label; valid with last; that of the - pass counts
        last : last beat of the pass
        batch_last : last sample of the batch; valid with last of a - pass
    o : Out(stream of struct)
        signs, one per batch
        sign : sign of the loss difference: -1, 0 or 1
        error : 1: a sample of the batch does not count
        size (unsigned) : magnitude of the loss difference, in 2^-F. The field exists only with four
            ``levels``.
    o_classes : Out(stream of struct)
        classes, one per pass
        best : class with the largest logit. Of equal logits, that with the lowest index.
        minus : 0: the + pass; 1: the - pass
        error : 1: wrong number of logits, label that is no class, or exponent too large

    A sample does not count if one of its passes has an error, or if there are ``batch`` samples
    before it in the batch. Errors of a pass: more or fewer logits than ``classes`` (those after
    the first ``classes`` are discarded), a label that is no class, an exponent above 15 - F.

    Latency: ``latency`` cycles from the last logits of a batch to its sign.
    Throughput: 1 sample per ``interval`` cycles.
    Source: ElasticZO, section 4.3.
    """

    def __init__(self, config: LossSignConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(logits_layout(config))),
                "o": Out(stream.Signature(sign_layout(config))),
                "o_classes": Out(stream.Signature(classes_layout(config))),
            }
        )
        # Cycles after a pass's first term: the sum is complete; it is normalised, and its logarithm
        # has been read. The sum is at least 2^-RANGE of the greatest.
        self._summed = config.classes + TERM
        self.last_tick = self._summed + RANGE + 1

    @property
    def latency(self) -> int:
        """Cycles from the transfer of a batch's last logits to its sign."""
        return 2 + 2 * SEARCH + 2 * (self.last_tick + 2)

    @property
    def interval(self) -> int:
        """Cycles from one sample to the next: logits in, the end of each pass, computation."""
        return 2 * self.config.classes + self.latency

    def elaborate(self, platform):
        m = Module()
        config = self.config
        address = data.StructLayout({"index": Shape.cast(range(config.classes)), "minus": 1})
        m.submodules.logits = logits = memory.Memory(
            shape=signed(LOGIT_BITS), depth=1 << address.size, init=[]
        )
        closing = Signal()
        computing = Signal()
        finished = Signal()
        open_ = ~(closing | computing | finished)
        sample, closed = self._collect(m, address, logits.write_port(), open_, closing)
        with m.If(closed & sample["minus"]):
            m.d.sync += computing.eq(1)
        phase, tick, phase_end = self._count(m, computing)
        sample_end = Signal()
        m.d.comb += sample_end.eq(phase_end & phase.minus & phase.terms)
        with m.If(sample_end):
            m.d.sync += [computing.eq(0), finished.eq(sample["batch_end"])]
        read = logits.read_port(domain="comb")
        at = data.View(address, read.addr)
        label_tick = tick.all()
        best, places = (
            Mux(phase.minus, sample[name], sample[f"plus_{name}"]) for name in ("best", "places")
        )
        m.d.comb += [
            at.minus.eq(phase.minus),
            at.index.eq(Mux(label_tick, sample["label"], Mux(phase.terms, tick, best))),
        ]
        m.submodules.log_sum = log_sum = LogSum(config)
        loss = Signal.like(log_sum.loss)
        m.d.comb += [
            log_sum.logit.eq(read.data),
            log_sum.is_label.eq(label_tick),
            log_sum.search.eq(computing & ~phase.terms & (tick == 0)),
            log_sum.term.eq(computing & phase.terms & (tick < config.classes)),
            log_sum.places.eq(places),
            log_sum.summed.eq(tick == self._summed),
            log_sum.phase_end.eq(phase_end),
            log_sum.sample_end.eq(sample_end),
            loss.eq(log_sum.loss),
        ]
        add = Signal()
        m.d.comb += add.eq(phase_end & phase.terms & ~sample["wrong"])
        self._sign(m, loss, add, phase.minus, sample_end, sample["wrong"], finished)
        return m

    def _collect(self, m, address, write, open_, closing):
        """Store a pass's logits, find the greatest, and check the pass at its end.

        Return what is known of the sample, and the cycle in which a pass is checked.
        """
        config, beat = self.config, self.i.payload
        index = Shape.cast(range(config.classes))
        way = Signal(range(max(config.ways, 2)))
        stored_count = Signal(range(config.classes + 1))
        excess = Signal()
        exponent = Signal(signed(EXPONENT_BITS), reset_less=True)
        greatest_logit = Signal(signed(LOGIT_BITS), reset_less=True)
        sample = {
            "minus": Signal(name="minus"),
            "wrong": Signal(name="wrong"),
            "batch_end": Signal(name="batch_end"),
            "label": Signal(index, name="label"),
            "best": Signal(index, name="best"),
            "plus_best": Signal(index, name="plus_best"),
            "places": Signal(range(config.most_shift + 1), name="places"),
            "plus_places": Signal(range(config.most_shift + 1), name="plus_places"),
        }
        logit = Signal(signed(LOGIT_BITS))
        present = Signal()
        store = Signal()
        fire = Signal()
        at = data.View(address, write.addr)
        m.d.comb += [
            logit.eq(Array(beat.logits)[way]),
            present.eq(self.i.valid & open_ & (way < beat.count)),
            store.eq(present & (stored_count != config.classes)),
            # The beat stays at the input until its last logit is stored.
            self.i.ready.eq(open_ & ((way + 1 >= beat.count) | (way == config.ways - 1))),
            fire.eq(self.i.valid & self.i.ready),
            write.en.eq(store),
            write.data.eq(logit),
            at.index.eq(stored_count),
            at.minus.eq(sample["minus"]),
        ]
        with m.If(store):
            m.d.sync += stored_count.eq(stored_count + 1)
            with m.If((stored_count == 0) | (logit > greatest_logit)):
                m.d.sync += [greatest_logit.eq(logit), sample["best"].eq(stored_count)]
        with m.If(present):
            m.d.sync += [way.eq(way + 1), excess.eq(excess | ~store)]
        with m.If(fire):
            m.d.sync += [
                way.eq(0),
                exponent.eq(beat.exponent),
                sample["label"].eq(beat.label),
                sample["batch_end"].eq(beat.batch_last),
                closing.eq(beat.last),
            ]
        return sample, self._close(m, sample, closing, stored_count, excess, exponent)

    def _close(self, m, sample, closing, stored_count, excess, exponent):
        """At the end of a pass: output its class, check it, and find the shift of its logits."""
        config, classes = self.config, self.o_classes
        closed = Signal()
        error = Signal()
        places = Signal(signed(EXPONENT_BITS + 2))
        m.d.comb += [
            closed.eq(closing & (~classes.valid | classes.ready)),
            places.eq(config.most_exponent - exponent),
            error.eq(
                excess
                | (stored_count != config.classes)
                | (sample["label"] >= config.classes)
                | (places < 0)
            ),
        ]
        with m.If(classes.ready):
            m.d.sync += classes.valid.eq(0)
        with m.If(closed):
            m.d.sync += [
                closing.eq(0),
                stored_count.eq(0),
                excess.eq(0),
                classes.valid.eq(1),
                classes.payload.best.eq(sample["best"]),
                classes.payload.minus.eq(sample["minus"]),
                classes.payload.error.eq(error),
                sample["wrong"].eq((sample["minus"] & sample["wrong"]) | error),
                sample["minus"].eq(~sample["minus"]),
                sample["places"].eq(Mux(places > config.most_shift, config.most_shift, places)),
                sample["plus_places"].eq(sample["places"]),
            ]
            # The shift is written at the end of a pass, the best class from its first logit on.
            with m.If(~sample["minus"]):
                m.d.sync += sample["plus_best"].eq(sample["best"])
        return closed

    def _count(self, m, computing):
        """Count the cycles of the phases: a search of each pass, then the terms of each.

        The tick before 0 has all bits set: then, the label's logit is read.
        """
        tick = Signal((self.last_tick + 1).bit_length(), init=-1)
        phase = Signal(data.StructLayout({"minus": 1, "terms": 1}))
        phase_end = Signal()
        end = Mux(phase.terms, tick == self.last_tick, tick == SEARCH - 2)
        m.d.comb += phase_end.eq(computing & end)
        with m.If(computing):
            m.d.sync += tick.eq(tick + 1)
        with m.If(phase_end):
            m.d.sync += [
                tick.eq(-1),
                phase.minus.eq(~phase.minus),
                phase.terms.eq(phase.terms ^ phase.minus),
            ]
        return phase, tick, phase_end

    def _sign(self, m, loss: Value, add, minus, sample_end, wrong, finished):
        """Add the differences up, and output the sign at the end of a batch."""
        config, beat = self.config, self.o.payload
        total_difference = Signal(signed(config.total_bits))
        error = Signal()
        samples = Signal(range(config.batch + 1))
        overflow = Signal()
        m.d.comb += [
            overflow.eq(samples == config.batch),
            self.o.valid.eq(finished),
            beat.sign.eq(Cat(total_difference.any(), total_difference[-1])),
            beat.error.eq(error),
        ]
        if config.levels > 1:
            negative = total_difference[-1]
            m.d.comb += beat.size.eq(Mux(negative, -total_difference, total_difference))
        with m.If(add & ~overflow):
            m.d.sync += total_difference.eq(total_difference + Mux(minus, -loss, loss))
        with m.If(sample_end):
            m.d.sync += [samples.eq(samples + ~overflow), error.eq(error | wrong | overflow)]
        with m.If(finished & self.o.ready):
            m.d.sync += [finished.eq(0), total_difference.eq(0), error.eq(0), samples.eq(0)]
