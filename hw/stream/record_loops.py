"""Which record of a program is next: of its body, of the next head or token, or a new body."""

from amaranth.hdl import Cat, Const, Mux, Signal

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.stream.stream_layouts import is_given, record_kinds
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import ADDENDS, FACTORS, HEADS, NUMBERS, PLACE, RECORD

__all__ = ["Walk", "matrix_flight", "record_loops"]


#: Kinds of records that begin differently.
DOES = ("matrix", "pass")


class Walk:
    """Signals of the record that is done, which the methods of the walker share."""

    def __init__(self, m, config: StreamEngineConfig, record):
        self.is_ = record_kinds(config, record)
        # Those of a record that is there for a cycle or more: as it is done.
        self.does = {name: delayed(m, self.is_[name], 1, f"does_{name}") for name in DOES}
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
        # The record's place, and the one after it; whether that one is the next to be done.
        self.index = Signal(range(config.records))
        self.following = Signal(range(config.records + 1))
        self.to_following = Signal()
        # The token in its block, the repetition, and what they add to places.
        self.token = Signal(range(config.block + 4))
        self.head = Signal(RECORD["repeat"])
        self.frame = Signal(PLACE["place"])
        self.head_offset = Signal(PLACE["place"])
        self.cache_offset = Signal(RECORD["cache"])
        # Those of the next repetition; whether there is none, and the record is for one.
        self.next_head_offset = Signal(PLACE["place"])
        self.next_cache_offset = Signal(RECORD["cache"])
        self.skips = Signal()
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


class _Loops:
    """Counters of a program's loops: heads in a body, tokens around it, and joined bodies."""

    def __init__(self, m, walker, walk: Walk):
        self.m, self.walker, self.walk = m, walker, walk
        config, record = walker.config, walker.record
        # The first record of this body, and the first one that is repeated.
        self.first = Signal.like(walk.index, name="first")
        self.again = Signal.like(walk.index, name="again")
        # Repetitions with the same keys and values, up to this one.
        self.shared = Signal(RECORD["group"], name="shared", init=1)
        self.group_ends = self.shared >= record.group
        # Results of a matrix that go out do so token by token.
        self.together = walk.is_["matrix"] & ~is_given(config, record)
        # The token and its frame: now, and next.
        self.places = walk.token, walk.frame
        one, bits = walker.header.frame, config.vectors.bit_length() - 1
        frame, step = Mux(self.together, one << bits, one), Mux(self.together, config.vectors, 1)
        self.after = walk.token + step, walk.frame + frame
        # Bodies that are joined: the first record of them, and the first token of this group.
        self.joined = Signal(name="joined")
        self.start = Signal.like(walk.index, name="start")
        self.group = [Signal.like(each, name=f"group_{k}") for k, each in enumerate(self.places)]

    def next_head(self):
        """Go to the next repetition."""
        walk = self.walk
        self.m.d.sync += [
            walk.index.eq(self.again),
            walk.head.eq(walk.head + 1),
            walk.head_offset.eq(walk.next_head_offset),
            self.shared.eq(Mux(self.group_ends, 1, self.shared + 1)),
            walk.cache_offset.eq(walk.next_cache_offset),
        ]

    def first_head(self):
        """Go to the first repetition."""
        walk = self.walk
        counters = walk.head, walk.head_offset, walk.cache_offset
        self.m.d.sync += [*(each.eq(0) for each in counters), self.shared.eq(1)]

    def body(self, index):
        """Go to a body."""
        self.m.d.sync += [each.eq(index) for each in (self.walk.index, self.first, self.again)]

    def place(self, values):
        """Go to a token."""
        self.m.d.sync += [to.eq(value) for to, value in zip(self.places, values, strict=True)]

    def begin_group(self, values):
        """Go to the first token of a group."""
        self.place(values)
        self.m.d.sync += [to.eq(value) for to, value in zip(self.group, values, strict=True)]


def _ends(m, walker, walk: Walk, loops: _Loops) -> list:
    """Return whether a record ends its body, its heads, tokens or group, is joined, ends all.

    Registers: it has been there for a cycle or more when it has been done, or is skipped.
    """
    record = walker.record
    last_record = walk.following == walker.header.records
    body_ends = record.last | last_record
    heads_end = walk.head + 1 >= record.repeat
    tokens_end = ~record.by_token | (loops.after[0] >= walker.count)
    joins = record.joined & ~last_record
    group_ends = (loops.joined | joins) & (loops.after[0] >= loops.group[0] + walker.config.vectors)
    m.d.comb += walk.skips.eq(walk.of_head["next"] & heads_end)
    found = {
        "body_ends": body_ends,
        "heads_end": heads_end,
        "tokens_end": tokens_end,
        "group_ends": group_ends,
        "joins": joins,
        "all_ends": body_ends & heads_end & tokens_end & last_record,
    }
    return [delayed(m, value, 1, name) for name, value in found.items()]


def record_loops(m, walker, walk: Walk) -> None:
    """Go to the next record: of this body, of the next head or token, or of the next body."""
    record, loops = walker.record, _Loops(m, walker, walk)
    body_ends, heads_end, tokens_end, group_ends, joins, ends = _ends(m, walker, walk, loops)
    m.d.comb += [
        walk.following.eq(walk.index + 1),
        walk.to_following.eq(~body_ends),
        walk.next_head_offset.eq(walk.head_offset + record.head),
        walk.next_cache_offset.eq(walk.cache_offset + Mux(loops.group_ends, record.head, 0)),
        walk.ends.eq(ends | walker.failed),
        walker.done.eq(walk.advance & walk.ends),
    ]
    with m.If(walker.start):
        m.d.sync += loops.joined.eq(0)
        loops.body(0)
        loops.first_head()
        loops.begin_group((0, 0))
    with m.Elif(walk.advance):
        with m.If(~body_ends):
            m.d.sync += walk.index.eq(walk.following)
            with m.If(walk.of_head["first"]):
                m.d.sync += loops.again.eq(walk.following)
        with m.Elif(~heads_end):
            loops.next_head()
        with m.Else():
            loops.first_head()
            with m.If(~tokens_end & ~group_ends):
                m.d.sync += [walk.index.eq(loops.first), loops.again.eq(loops.first)]
                loops.place(loops.after)
            with m.Elif(joins):
                m.d.sync += loops.joined.eq(1)
                with m.If(~loops.joined):
                    m.d.sync += loops.start.eq(loops.first)
                loops.body(walk.following)
                loops.place(loops.group)
            with m.Elif(loops.joined & ~tokens_end):
                m.d.sync += loops.joined.eq(0)
                loops.body(loops.start)
                loops.begin_group(loops.after)
            with m.Else():
                m.d.sync += loops.joined.eq(0)
                loops.body(walk.following)
                loops.begin_group((0, 0))


def matrix_flight(m, walker, walk: Walk) -> None:
    """Leave a matrix when its vectors have come, and let others begin that it has no part in.

    Its results are those of tokens from the one where it began on. A record of other tokens may
    begin, if it reads no memory and gives nothing out. So may one of these tokens that has other
    vectors than the results. Where results are read as they come, it may have them, too, unless it
    writes others in their place. Vectors of the next matrix come if they are of other tokens, or
    the same as those of this one, and none of its results.
    """
    config, record, is_ = walker.config, walker.record, walk.is_
    given = is_given(config, record)
    # Those of the matrix.
    first = Signal.like(walk.token, name="flight_token")
    source = Signal.like(walker.number_at, name="flight_source")
    target = Signal.like(record.target_place.place, name="flight_target")
    names = ("number", "factor", "addend", "target")
    has = {}
    for name in names:
        place = record[f"{name}_place"]
        has[name] = (place.place == target) & ~place.shared
    apart = ~Cat(has.values()).any()
    keeps = is_["keep"] & ~has["number"]
    if config.chains:
        apart = is_["keep"] | ~has["target"] | (walk.numbers["store"] & has["number"])
    same = (walk.token >= first) & (walk.token < first + config.vectors)
    quiet = is_["keep"] | (is_["pass"] & ~walk.of_table & ~walk.words & ~given)
    may = (quiet & (~same | apart)) | keeps
    leaves = is_["matrix"] & ~given
    leaves &= ~record.number_place.shared & ~record.target_place.shared
    # A record is there for two cycles before it runs, the rows of a matrix for more before they are
    # asked for; an error may come when it runs. What several matrices read is no result of one.
    may_leave = Signal()
    m.d.sync += [
        may_leave.eq(leaves & ~walk.ends),
        walk.apart.eq(leaves & (~same | ((walker.number_at == source) & ~has["number"]))),
    ]
    m.d.comb += [
        walker.leaves.eq(may_leave & ~walker.failed),
        walker.flight.eq(walk.flight),
        walk.blocked.eq(walk.flight & ~is_["matrix"] & ~may),
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
