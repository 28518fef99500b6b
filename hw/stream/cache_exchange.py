"""Saves keys and values of tokens to external memory, and restores them."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.beat_writer import beat_layout
from seedbed.hw.stream.stream_layouts import word_layout
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import RECORD

__all__ = ["CacheExchange"]

#: Bits that the shift of a word has in memory.
SHIFT = 8


class _Rows:
    """Signals of the row that is moved, which the methods of the exchange share."""

    def __init__(self, exchange):
        config = exchange.config
        products = config.products.bit_length() - 1
        # Words of a beat of memory.
        parts = config.weights // config.products
        self.token = Signal.like(exchange.tokens)
        self.word = Signal(RECORD["length"])
        self.base = Signal.like(exchange.at)
        self.address = Signal.like(exchange.address)
        self.shifts = Signal(data.ArrayLayout(SHIFT, config.weights))
        self.values = Signal(data.ArrayLayout(SHIFT * config.products, parts))
        # Values of a row are being saved, not its shifts; they are all in the beat.
        self.second = Signal()
        self.ended = Signal()
        self.last_word = (self.word + 1) << products >= exchange.length
        self.part = self.word[: parts.bit_length() - 1]
        self.whole = self.last_word | (self.part == parts - 1)


class CacheExchange(wiring.Component):
    """Moves rows of the cache, one for each token.

    In memory, a row is a beat with a byte for the shift of each word, and then the keys and values
    of 8 bits, in whole beats.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the end:
    save : In(1)
        Rows are saved, not restored.
    tokens, length : In
        Rows, and keys and values of each.
    at, row : In
        The first row's place in the cache, and the beats to the next one there.
    first, bank : In, Out
        The bank of the first row; that of the word. The rows of as many tokens as there are banks
        have one place, each in its own bank.
    address : In
        Where the first row is saved in memory.
    i : In(stream)
        Beats of the rows that are restored.
    o : Out(stream)
        Beats of the rows that are saved, with their addresses.
    idle : In(1)
        Beats that were taken are in memory.
    place, write, word, data : Out, Out, Out, In
        The cache: the place of a word; it is written; what; the word that was there a cycle ago.
    done : Out(1)
        All rows are where they belong.

    Throughput: a row of W words and B beats is restored in W + 1 cycles, and saved in 4 W + 2 B or
    more.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        cache, banks, word = range(config.cache), range(config.keys), word_layout(config)
        super().__init__(
            {
                "start": In(1),
                "save": In(1),
                "tokens": In(range(config.context + 1)),
                "length": In(RECORD["length"]),
                "at": In(cache),
                "row": In(cache),
                "address": In(config.address_bits),
                "i": In(stream.Signature(config.beat_bits)),
                "o": Out(stream.Signature(beat_layout(config))),
                "idle": In(1),
                "place": Out(cache),
                "write": Out(1),
                "word": Out(word),
                "data": In(word),
                "first": In(banks),
                "bank": Out(banks),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rows = _Rows(self)
        m.d.comb += [
            self.o.payload.address.eq(rows.address),
            self.o.payload.data.eq(
                Mux(rows.second, Value.cast(rows.values), Value.cast(rows.shifts))
            ),
        ]
        self._word(m, rows.part, rows.shifts)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.done.eq(~self.start)
                m.d.sync += [
                    rows.token.eq(0),
                    rows.base.eq(self.at),
                    rows.address.eq(self.address),
                    self.bank.eq(self.first),
                    *(each.eq(0) for each in (rows.second, rows.ended)),
                    *(Value.cast(each).eq(0) for each in (rows.values, rows.shifts)),
                ]
                self._first_word(m, rows, self.at)
                with m.If(self.start & (self.tokens != 0)):
                    m.next = "SHIFTS"
                    with m.If(self.save):
                        m.next = "READ"
            self._restore(m, rows)
            self._save(m, rows)
            with m.State("END"), m.If(self.idle):
                m.next = "IDLE"
        return m

    def _restore(self, m, rows) -> None:
        """Take the shifts of a row, and then its words."""
        shifts = Value.cast(rows.shifts)
        with m.State("SHIFTS"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += shifts.eq(self.i.payload)
            with m.If(self.i.valid):
                m.next = "WORDS"
        with m.State("WORDS"):
            m.d.comb += [self.write.eq(self.i.valid), self.i.ready.eq(rows.whole)]
            with m.If(self.i.valid):
                m.d.sync += shifts.eq(shifts >> SHIFT)
                self._next_word(m, rows)
                with m.If(rows.last_word):
                    self._next_row(m, rows, "SHIFTS")

    def _save(self, m, rows) -> None:
        """Read the words of a row for their shifts, and once more for their values."""
        with m.State("READ"):
            m.next = "TAKE"
        with m.State("TAKE"):
            m.next = "READ"
            m.d.sync += rows.values[rows.part].eq(_numbers(self.data))
            with m.If(~rows.second):
                m.d.sync += rows.shifts[rows.word].eq(self.data[0].shift)
            self._next_word(m, rows)
            with m.If(Mux(rows.second, rows.whole, rows.last_word)):
                m.d.sync += rows.ended.eq(rows.last_word)
                m.next = "GIVE"
        with m.State("GIVE"):
            m.d.comb += self.o.valid.eq(1)
            with m.If(self.o.ready):
                m.d.sync += [rows.address.eq(rows.address + 1), Value.cast(rows.values).eq(0)]
                m.next = "READ"
                with m.If(~rows.second):
                    m.d.sync += rows.second.eq(1)
                    self._first_word(m, rows, rows.base)
                with m.Elif(rows.ended):
                    m.d.sync += Value.cast(rows.shifts).eq(0)
                    self._next_row(m, rows, "READ")

    def _first_word(self, m, rows, place) -> None:
        m.d.sync += [rows.word.eq(0), self.place.eq(place)]

    def _next_word(self, m, rows) -> None:
        m.d.sync += [rows.word.eq(rows.word + 1), self.place.eq(self.place + len(self.word))]

    def _next_row(self, m, rows, state: str) -> None:
        """Go on with the next row, if there is one."""
        last_bank = self.bank == self.config.keys - 1
        base = Mux(last_bank, rows.base + self.row, rows.base)
        m.d.sync += [
            rows.token.eq(rows.token + 1),
            rows.base.eq(base),
            rows.second.eq(0),
            self.bank.eq(self.bank + 1),
        ]
        self._first_word(m, rows, base)
        m.next = state
        with m.If(rows.token + 1 == self.tokens):
            m.next = "END"

    def _word(self, m, part, shifts) -> None:
        """Give a word of the beat that is restored."""
        config, lanes = self.config, self.config.lanes
        size = SHIFT * config.products
        beat = self.i.payload
        words = [beat[k : k + size] for k in range(0, len(beat), size)]
        numbers = Signal(size)
        m.d.comb += numbers.eq(Array(words)[part])
        for k, kept in enumerate(self.word):
            m.d.comb += [
                kept.shift.eq(shifts[0]),
                Value.cast(kept.numbers).eq(numbers.word_select(k, SHIFT * lanes)),
            ]


def _numbers(word) -> Value:
    """Return the numbers of a word, one after another."""
    return Cat(*(Value.cast(each) for beat in word for each in beat.numbers))
