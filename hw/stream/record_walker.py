"""Walks the records of a program for a block of tokens."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.burst_reader import BEATS_BITS
from seedbed.hw.stream.row_output import constants_layout
from seedbed.hw.stream.stream_layouts import (
    KIND_CODES,
    POSITION_BITS,
    TOKEN_BITS,
    header_layout,
    record_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import (
    ADDENDS,
    CONSTANTS,
    FACTORS,
    LENGTHS,
    NUMBERS,
    PLACE,
    RECORD,
    TARGETS,
)

__all__ = ["RecordWalker"]


class RecordWalker(wiring.Component):
    """Gives the parts of the engine a record at a time, with the places of this token and head.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start, done : In(1), Out(1)
        Pulses: the program is to be walked; it was.
    header, count, position, row, token : In
        As of :class:`~seedbed.hw.stream.job_intake.JobIntake`.
    failed : In(1)
        The memory had an error: the walk ends after this record.
    index, record : Out, In
        The place of a record, and the record a cycle later.
    in_block : Out
        The place of the token in its block.
    read, read_address, read_beats, i : Out, Out, Out, In(stream)
        A part of memory that is read; the beat with the constants of a table's row.
    begins, ended : Out(1), In(1)
        A pulse: the record is to be done; it was.
    number_at, factor_at, addend_at, target_at : Out
        Places of this token and head.
    cache_at, keep_at : Out
        The first token's key or value; that of this token.
    length, seen, constant, tokens, row_beats : Out
        Of the pass: elements, tokens that are attended to, the constant; of a matrix: the tokens of
        this pass over its weights; beats of a row.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        place = PLACE["place"]
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "header": In(header_layout()),
                "count": In(range(config.block + 1)),
                "position": In(POSITION_BITS),
                "row": In(range(config.cache)),
                "token": In(TOKEN_BITS),
                "failed": In(1),
                "index": Out(range(config.records)),
                "record": In(record_layout()),
                "in_block": Out(range(config.block)),
                "read": Out(1),
                "read_address": Out(config.address_bits),
                "read_beats": Out(BEATS_BITS),
                "i": In(stream.Signature(config.beat_bits)),
                "begins": Out(1),
                "ended": In(1),
                "number_at": Out(place),
                "factor_at": Out(place),
                "addend_at": Out(place),
                "target_at": Out(place),
                "cache_at": Out(range(config.cache)),
                "keep_at": Out(range(config.cache)),
                "length": Out(RECORD["length"]),
                "seen": Out(range(config.context + 1)),
                "constant": Out(config.unit.constant_bits),
                "tokens": Out(range(config.vectors + 1)),
                "row_beats": Out(RECORD["length"]),
            }
        )

    def elaborate(self, platform):
        m = Module()
        record = self.record
        is_ = {name: record.kind == code for name, code in KIND_CODES.items()}
        numbers = {name: record.numbers == k for k, name in enumerate(NUMBERS)}
        of_table = is_["pass"] & (numbers["token"] | numbers["position"])
        # What is added to places: of the token's frame, and of the head.
        frame = Signal(PLACE["place"])
        head_offset = Signal(PLACE["place"])
        cache_offset = Signal(RECORD["cache"])
        token = Signal(range(self.config.block + 4))
        head = Signal(RECORD["repeat"])
        m.d.comb += self.in_block.eq(token)
        self._places(m, frame, head_offset, cache_offset)
        self._lengths(m, is_, numbers, token)
        multiplier = Signal(32)
        m.d.comb += self.constant.eq(record.constant)
        for name, value in (("position", self.position + token), ("row", multiplier)):
            with m.If(record.constant_from == CONSTANTS.index(name)):
                m.d.comb += self.constant.eq(value)
        advance = self._memory(m, is_, numbers, of_table, token, multiplier)
        self._loops(m, is_, advance, frame, head_offset, cache_offset, token, head)
        return m

    def _places(self, m, frame, head_offset, cache_offset) -> None:
        """Find the places of a record for this token and this head."""
        record = self.record
        for name in ("number", "factor", "addend", "target"):
            place = record[f"{name}_place"]
            moved = Mux(place.shared, 0, frame) + Mux(place.by_head, head_offset, 0)
            m.d.sync += getattr(self, f"{name}_at").eq(place.place + moved)
        m.d.sync += self.cache_at.eq(record.cache + cache_offset)

    def _lengths(self, m, is_, numbers, token) -> None:
        """Find the lengths of a record for this token, a cycle later."""
        config, record = self.config, self.record
        length = Signal.like(self.length)
        seen = Signal.like(self.seen)
        left = self.count - token
        given = record.target == TARGETS.index("output")
        shift = config.lanes.bit_length() - 1
        m.d.comb += [
            seen.eq(self.position + Mux(record.all, self.count, token + 1)),
            length.eq(record.length),
        ]
        with m.If(is_["pass"] & (record.length_from == LENGTHS.index("tokens"))):
            m.d.comb += length.eq(self.count)
        with m.If(
            is_["pass"] & ((record.length_from == LENGTHS.index("seen")) | numbers["scores"])
        ):
            m.d.comb += length.eq(seen)
        with m.If(is_["keep"] | (is_["pass"] & numbers["mix"])):
            m.d.comb += length.eq(record.head << shift)
        m.d.sync += [
            self.length.eq(length),
            self.seen.eq(seen),
            self.row_beats.eq(length + (config.weights - 1) >> config.weights.bit_length() - 1),
            self.tokens.eq(Mux(record.by_token & (left < config.vectors), left, config.vectors)),
        ]
        with m.If(~record.by_token | given):
            m.d.sync += self.tokens.eq(1)

    def _memory(self, m, is_, numbers, of_table, token, multiplier) -> Signal:
        """Ask for what a record reads, and have it done; return whether it was."""
        record = self.record
        # The row of a table, or the rows of a matrix, times the beats of a row.
        row = Signal(TOKEN_BITS)
        factor = Signal(TOKEN_BITS)
        product = Signal(BEATS_BITS)
        address = Signal.like(self.read_address)
        advance = Signal()
        by_words = (record.factors == FACTORS.index("words")) | (
            record.addends == ADDENDS.index("words")
        )
        words = is_["pass"] & (numbers["words"] | by_words)
        m.d.sync += product.eq(factor * self.row_beats)
        m.d.comb += [
            row.eq(Mux(numbers["position"], self.position + token, self.token)),
            self.read_address.eq(address),
        ]
        self._sequence(m, is_, of_table, words, row, factor, product, address, multiplier, advance)
        return advance

    def _sequence(
        self, m, is_, of_table, words, row, factor, product, address, multiplier, advance
    ) -> None:
        """Ask for a part of memory, or for the constants of a row and then for the row."""
        config, record = self.config, self.record
        bits = config.entries.bit_length() - 1
        low = row[:bits]
        constants = data.ArrayLayout(constants_layout(), config.entries)(self.i.payload)
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.next = "FETCH"
            with m.State("FETCH"):
                m.next = "PLACE"
            with m.State("PLACE"):
                m.d.sync += [
                    address.eq(record.address),
                    factor.eq(Mux(is_["matrix"], record.rows, row >> bits)),
                ]
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.next = "ASK"
            with m.State("ASK"):
                m.next = "BEGIN"
                heads = record.rows + (config.entries - 1) >> bits
                with m.If(is_["matrix"]):
                    m.d.comb += [self.read.eq(1), self.read_beats.eq(heads + product)]
                with m.Elif(of_table):
                    m.d.sync += address.eq(record.address + (row >> bits) + (product << bits))
                    m.next = "ROW"
                with m.Elif(words):
                    m.d.comb += self.read.eq(1)
                    m.d.comb += self.read_beats.eq(self.length + (config.entries - 1) >> bits)
            with m.State("ROW"):
                m.d.comb += [self.read.eq(1), self.read_beats.eq(1)]
                m.d.sync += factor.eq(low)
                m.next = "CONSTANTS"
            with m.State("CONSTANTS"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += multiplier.eq(Array(constants)[low].multiplier)
                with m.If(self.i.valid):
                    m.d.sync += address.eq(address + 1 + product)
                    m.next = "WEIGHTS"
            with m.State("WEIGHTS"):
                m.d.comb += [self.read.eq(1), self.read_beats.eq(self.row_beats)]
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += self.begins.eq(1)
                m.next = "RUN"
            with m.State("RUN"), m.If(self.ended):
                m.d.comb += advance.eq(1)
                m.next = "FETCH"
                with m.If(self.done):
                    m.next = "IDLE"

    def _loops(self, m, is_, advance, frame, head_offset, cache_offset, token, head) -> None:
        """Go to the next record: of this body, of the next head or token, or of the next body."""
        config, record = self.config, self.record
        first = Signal.like(self.index)
        shared = Signal(RECORD["group"])
        last_record = self.index + 1 == self.header.records
        body_ends = record.last | last_record
        # The results of a matrix go out token by token.
        together = is_["matrix"] & (record.target != TARGETS.index("output"))
        step = Mux(together, config.vectors, 1)
        heads_end = head + 1 >= record.repeat
        tokens_end = ~record.by_token | (token + step >= self.count)
        m.d.comb += self.done.eq(
            advance & ((body_ends & heads_end & tokens_end & last_record) | self.failed)
        )

        def next_head():
            ends = shared + 1 >= record.group
            m.d.sync += [
                self.index.eq(first),
                head.eq(head + 1),
                head_offset.eq(head_offset + record.head),
                shared.eq(Mux(ends, 0, shared + 1)),
                cache_offset.eq(cache_offset + Mux(ends, record.head, 0)),
            ]

        def first_head():
            m.d.sync += [head.eq(0), head_offset.eq(0), shared.eq(0), cache_offset.eq(0)]

        def next_token():
            width = config.vectors.bit_length() - 1
            m.d.sync += [
                self.index.eq(first),
                token.eq(token + step),
                frame.eq(frame + Mux(together, self.header.frame << width, self.header.frame)),
                self.keep_at.eq(self.keep_at + self.header.row),
            ]

        def first_token():
            m.d.sync += [token.eq(0), frame.eq(0), self.keep_at.eq(self.row)]

        with m.If(self.start):
            m.d.sync += [self.index.eq(0), first.eq(0)]
            first_head()
            first_token()
        with m.Elif(advance):
            with m.If(~body_ends):
                m.d.sync += self.index.eq(self.index + 1)
            with m.Elif(~heads_end):
                next_head()
            with m.Else():
                first_head()
                with m.If(~tokens_end):
                    next_token()
                with m.Else():
                    first_token()
                    m.d.sync += [self.index.eq(self.index + 1), first.eq(self.index + 1)]
