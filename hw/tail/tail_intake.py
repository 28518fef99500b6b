"""The inputs of the tail's layers and the logits of a sample, and their memory."""

from amaranth.hdl import Array, Module, Mux, Shape, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import BpTailConfig
from seedbed.spec.bp_tail import EXPONENT_BITS

__all__ = ["TailIntake", "vector_layout", "vector_words"]


def vector_layout(config: BpTailConfig) -> data.StructLayout:
    """Return the layout of a beat of a sample."""
    return data.StructLayout(
        {
            "values": data.ArrayLayout(signed(8), config.ways),
            "exponent": signed(EXPONENT_BITS),
            "label": Shape.cast(range(config.classes)),
            "last": 1,
        }
    )


def vector_words(config: BpTailConfig) -> list[int]:
    """Return the first word of each vector of a sample, the logits' included, and of the next."""
    bases = [0]
    for length in (*config.inputs, config.classes):
        bases.append(bases[-1] - (-length // config.lanes))
    return bases


class TailIntake(wiring.Component):
    """Stores the vectors of a sample, ``lanes`` numbers a word; checks their lengths and the label.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.BpTailConfig`.

    Members
    -------
    i : In(stream of struct)
        As the port ``i`` of the core.
    accept : In(1)
        Beats may come.
    discard : In(1)
        What there is of a sample is dropped.
    begun : Out(1)
        There is a beat of an incomplete sample.
    complete : Out(1)
        With the transfer of a sample's last beat.
    length_error, label_error : Out(1)
        Of the sample, with ``complete``.
    exponents, label : Out
        Of the sample, after ``complete``, until the next beat.
    first : In(1)
        The sample is the first of a batch.
    shifts : Out
        For each layer: the exponent relative to that of the batch's first sample, limited to
        -exponent_range .. exponent_range, plus exponent_range. Three cycles after ``complete``.
    address : In
        A word to read.
    word : Out(lanes x signed(8))
        In the next cycle.

    Throughput: a beat a cycle, or a word a cycle where a beat has several.
    """

    def __init__(self, config: BpTailConfig):
        self.config = config
        vectors = len(config.inputs) + 1
        self._words = vector_words(config)
        super().__init__(
            {
                "i": In(stream.Signature(vector_layout(config))),
                "accept": In(1),
                "discard": In(1),
                "begun": Out(1),
                "complete": Out(1),
                "length_error": Out(1),
                "label_error": Out(1),
                "exponents": Out(data.ArrayLayout(signed(EXPONENT_BITS), vectors)),
                "label": Out(Shape.cast(range(config.classes))),
                "first": In(1),
                "shifts": Out(
                    data.ArrayLayout(
                        range(max(2, 2 * config.exponent_range + 1)), len(config.inputs)
                    )
                ),
                "address": In(range(self._words[-1])),
                "word": Out(data.ArrayLayout(signed(8), config.lanes)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.i.payload
        # A write is a part of a word or of a beat, whichever is smaller.
        part = min(config.lanes, config.ways)
        parts, beat_parts = config.lanes // part, config.ways // part
        lengths = (*config.inputs, config.classes)
        vector = Signal(range(len(lengths)))
        place = Signal(range(self._words[-1] * parts + 1))
        number = Signal(range(max(2, beat_parts)))
        excess = Signal()
        wrong = Signal()
        write_en = Signal()
        store = Signal()
        ends = Signal()
        bad = Signal()
        starts = [word * parts for word in self._words]
        stops = [
            start - (-length // part) for start, length in zip(starts[:-1], lengths, strict=True)
        ]
        stop = Signal(range(max(stops) + 1))
        with m.Switch(vector):
            for k, value in enumerate(stops):
                with m.Case(k):
                    m.d.comb += stop.eq(value)
        m.d.comb += [
            write_en.eq(self.i.valid & self.accept),
            self.i.ready.eq(self.accept & (number == beat_parts - 1)),
            store.eq(write_en & (place != stop)),
            ends.eq(self.i.valid & self.i.ready & beat.last),
            # Only a last beat may have more parts than the vector.
            bad.eq(excess | ((place == stop) & (number == 0)) | (place + store != stop)),
            self.complete.eq(ends & (vector == len(lengths) - 1)),
            self.length_error.eq(wrong | bad),
            self.label_error.eq(0 if config.classes == 1 << len(beat.label) else
                                beat.label >= config.classes),
        ]  # fmt: skip
        with m.If(write_en):
            m.d.sync += [
                self.begun.eq(1),
                number.eq(Mux(self.i.ready, 0, number + 1)),
                excess.eq(excess | ((place == stop) & (number == 0))),
                place.eq(place + store),
            ]
        with m.If(ends):
            m.d.sync += [excess.eq(0), wrong.eq(wrong | bad), vector.eq(vector + 1)]
            m.d.sync += self.label.eq(beat.label)
            with m.Switch(vector):
                for k, start in enumerate(starts[1:]):
                    with m.Case(k):
                        m.d.sync += [place.eq(start), self.exponents[k].eq(beat.exponent)]
        with m.If(self.complete | self.discard):
            m.d.sync += [signal.eq(0) for signal in (vector, place, number, excess, wrong)]
            m.d.sync += self.begun.eq(0)
        self._memory(m, store, place, number, part)
        self._align(m)
        return m

    def _align(self, m):
        """Find how far each layer's errors are shifted left."""
        reach = self.config.exponent_range
        for k, shift in enumerate(self.shifts):
            reference = Signal(signed(EXPONENT_BITS), name=f"reference_{k}", reset_less=True)
            relative = Signal(signed(EXPONENT_BITS + 2), name=f"relative_{k}")
            # A first sample's own exponent is the reference before its gradients are computed.
            with m.If(self.first):
                m.d.sync += reference.eq(self.exponents[k])
            m.d.comb += relative.eq(self.exponents[k] - reference + reach)
            m.d.sync += shift.eq(
                Mux(relative < 0, 0, Mux(relative > 2 * reach, 2 * reach, relative))
            )

    def _memory(self, m, store, place, number, part):
        """The sample's words, of which ``part`` numbers are written at a time."""
        config, values = self.config, self.i.payload.values
        # What is read while it is written is not used.
        m.submodules.vectors = vectors = memory.Memory(
            shape=self.word.shape(),
            depth=max(2, self._words[-1]),
            init=[],
            attrs={"no_rw_check": True},
        )
        write, read = vectors.write_port(granularity=part), vectors.read_port()
        parts = config.lanes // part
        inside = (parts - 1).bit_length()
        m.d.comb += [
            write.addr.eq(place >> inside),
            write.en.eq(store << place[:inside] if inside else store),
            read.addr.eq(self.address),
            self.word.eq(read.data),
        ]
        for k, each in enumerate(write.data):
            # The beat in each part of a word; or, of a beat's parts, the next one.
            choices = [values[n] for n in range(k % part, len(values), part)]
            m.d.comb += each.eq(Array(choices)[number] if len(choices) > 1 else choices[0])
