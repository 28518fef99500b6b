"""Which record of a program is next: of its body, of the next head or token, or a new body."""

from amaranth.hdl import Const, Mux, Signal

from seedbed.hw.stream.stream_layouts import is_given, record_kinds
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import ADDENDS, FACTORS, HEADS, NUMBERS, PLACE, RECORD

__all__ = ["Walk", "matrix_flight", "record_loops"]


class Walk:
    """Signals of the record that is done, which the methods of the walker share."""

    def __init__(self, config: StreamEngineConfig, record):
        self.is_ = record_kinds(config, record)
        # Keys and values are saved or restored.
        self.exchanges = self.is_["save"] | self.is_["restore"] if config.external else Const(0)
        self.numbers = {name: record.numbers == k for k, name in enumerate(NUMBERS)}
        # Whether a row of a table is read, or words.
        self.of_table = self.is_["pass"] & (self.numbers["token"] | self.numbers["position"])
        by_words = (record.factors == FACTORS.index("words")) | (
            record.addends == ADDENDS.index("words")
        )
        self.words = self.is_["pass"] & (self.numbers["words"] | by_words)
        # Rows of a matrix; those that are read together count as one.
        self.rows = record.rows
        if config.trellis:
            together = record.rows + (config.ways - 1) >> config.ways.bit_length() - 1
            self.rows = Mux(self.is_["trellis"], together, record.rows)
        # The token in its block, the repetition, and what they add to places.
        self.token = Signal(range(config.block + 4))
        self.head = Signal(RECORD["repeat"])
        self.frame = Signal(PLACE["place"])
        self.head_offset = Signal(PLACE["place"])
        self.cache_offset = Signal(RECORD["cache"])
        # Those of the next repetition, and whether this one is the last.
        self.next_head_offset = Signal(PLACE["place"])
        self.next_cache_offset = Signal(RECORD["cache"])
        self.heads_end = Signal()
        self.of_head = {name: record.of_head == k for k, name in enumerate(HEADS)}
        # That of the row of a table.
        self.multiplier = Signal(32)
        # The record is being done; a pulse: it has been done, or is for no other head.
        self.runs = Signal()
        self.advance = Signal()
        # The program ends with this record; the rows of a matrix have been asked for.
        self.ends = Signal()
        self.asked = Signal()
        # A matrix runs whose record has been left; this record has to wait for its end.
        self.flight = Signal()
        self.blocked = Signal()
        # The vectors of this matrix can be read while another one runs.
        self.apart = Signal()
        # Kept weights have been asked for, and the rows of their matrix have not.
        self.rows_left = Signal()


def record_loops(m, walker, walk: Walk) -> None:
    """Go to the next record: of this body, of the next head or token, or of the next body."""
    config, record = walker.config, walker.record
    # The first record of this body, and the first one that is repeated.
    first, again = Signal.like(walker.index), Signal.like(walker.index)
    following = walker.index + 1
    shared = Signal(RECORD["group"])
    last_record = following == walker.header.records
    body_ends = record.last | last_record
    # Results of a matrix that go out do so token by token.
    together = walk.is_["matrix"] & ~is_given(config, record)
    step = Mux(together, config.vectors, 1)
    ends = shared + 1 >= record.group
    tokens_end = ~record.by_token | (walk.token + step >= walker.count)
    whole_end = body_ends & walk.heads_end & tokens_end & last_record
    m.d.comb += [
        walk.heads_end.eq(walk.head + 1 >= record.repeat),
        walk.next_head_offset.eq(walk.head_offset + record.head),
        walk.next_cache_offset.eq(walk.cache_offset + Mux(ends, record.head, 0)),
        walk.ends.eq(whole_end | walker.failed),
        walker.done.eq(walk.advance & walk.ends),
    ]

    def next_head():
        m.d.sync += [
            walker.index.eq(again),
            walk.head.eq(walk.head + 1),
            walk.head_offset.eq(walk.next_head_offset),
            shared.eq(Mux(ends, 0, shared + 1)),
            walk.cache_offset.eq(walk.next_cache_offset),
        ]

    def first_head():
        counters = walk.head, walk.head_offset, walk.cache_offset, shared
        m.d.sync += [each.eq(0) for each in counters]

    def body(index):
        m.d.sync += [each.eq(index) for each in (walker.index, first, again)]

    def place(values):
        m.d.sync += [to.eq(value) for to, value in zip(places, values, strict=True)]

    # The token, its frame, and its row of the cache: now, and next.
    places = walk.token, walk.frame, walker.keep_at
    bits = config.vectors.bit_length() - 1
    frame, row = (
        Mux(together, one << bits, one) for one in (walker.header.frame, walker.header.row)
    )
    after = walk.token + step, walk.frame + frame, walker.keep_at + row
    beginning = 0, 0, walker.row
    # Bodies that are joined: the first record of them, and the first token of this group.
    joined = Signal()
    start = Signal.like(walker.index)
    group = [Signal.like(each, name=f"group_{k}") for k, each in enumerate(places)]
    joins = record.joined & ~last_record
    group_ends = (joined | joins) & (after[0] >= group[0] + config.vectors)

    def begin_group(values):
        place(values)
        m.d.sync += [to.eq(value) for to, value in zip(group, values, strict=True)]

    with m.If(walker.start):
        m.d.sync += joined.eq(0)
        body(0)
        first_head()
        begin_group(beginning)
    with m.Elif(walk.advance):
        with m.If(~body_ends):
            m.d.sync += walker.index.eq(following)
            with m.If(walk.of_head["first"]):
                m.d.sync += again.eq(following)
        with m.Elif(~walk.heads_end):
            next_head()
        with m.Else():
            first_head()
            with m.If(~tokens_end & ~group_ends):
                m.d.sync += [walker.index.eq(first), again.eq(first)]
                place(after)
            with m.Elif(joins):
                m.d.sync += joined.eq(1)
                with m.If(~joined):
                    m.d.sync += start.eq(first)
                body(following)
                place(group)
            with m.Elif(joined & ~tokens_end):
                m.d.sync += joined.eq(0)
                body(start)
                begin_group(after)
            with m.Else():
                m.d.sync += joined.eq(0)
                body(following)
                begin_group(beginning)


def matrix_flight(m, walker, walk: Walk) -> None:
    """Leave a matrix when its vectors have come, and let others begin that it has no part in.

    Its results are those of tokens from the one where it began on. A record of other tokens may
    begin, if it reads no memory and gives nothing out. Another vector of these tokens may be kept.
    """
    config, record, is_ = walker.config, walker.record, walk.is_
    given = is_given(config, record)
    # Those of the matrix.
    first = Signal.like(walk.token, name="flight_token")
    source = Signal.like(walker.number_at, name="flight_source")
    target = Signal.like(record.target_place.place, name="flight_target")
    keeps = is_["keep"] & (record.number_place.place != target)
    same = (walk.token >= first) & (walk.token < first + config.vectors)
    quiet = is_["keep"] | (is_["pass"] & ~walk.of_table & ~walk.words & ~given)
    may = (quiet & ~same) | keeps
    leaves = is_["matrix"] & ~given
    leaves &= ~record.number_place.shared & ~record.target_place.shared
    m.d.comb += [
        walker.flight.eq(walk.flight),
        walker.leaves.eq(leaves & ~walk.ends),
        walk.blocked.eq(walk.flight & ~is_["matrix"] & ~may),
        # What several matrices read is no result of one of them.
        walk.apart.eq(leaves & (~same | (walker.number_at == source))),
    ]
    with m.If(walk.runs & walk.advance & is_["matrix"] & ~walker.matrix_done):
        m.d.sync += [
            walk.flight.eq(1),
            first.eq(walk.token),
            source.eq(walker.number_at),
            target.eq(record.target_place.place),
        ]
    with m.Elif(walker.matrix_done):
        m.d.sync += walk.flight.eq(0)
