"""Walks the records of a program for a block of tokens."""

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.burst_reader import BEATS_BITS
from seedbed.hw.stream.record_loops import Walk, matrix_flight, record_loops
from seedbed.hw.stream.row_output import constants_layout
from seedbed.hw.stream.stream_layouts import (
    POSITION_BITS,
    TOKEN_BITS,
    header_layout,
    is_given,
    record_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import (
    CONSTANTS,
    KEPT_BEATS,
    LENGTHS,
    PLACE,
    RECORD,
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
    header, count, position, token : In
        As of :class:`~seedbed.hw.stream.job_intake.JobIntake`.
    failed : In(1)
        The memory had an error: the walk ends after this record.
    index, take, record : Out, Out, In
        The place of a record that is read; a pulse: the one whose place was there a cycle ago is
        ``record``. While a record is done, the one that follows is read.
    in_block : Out
        The place of the token in its block.
    read, read_address, read_beats, i : Out, Out, Out, In(stream)
        A part of memory that is read; the beat with the constants of a table's row.
    idle : In(1)
        No result of the vector unit is on its way: a record of another kind may begin.
    begins, ended : Out(1), In(1)
        A pulse: the record is to be done; the next one may begin.
    number_at, factor_at, addend_at, target_at : Out
        Places of this token and head.
    cache_at : Out
        The first token's key or value.
    keep_at, keep_bank : Out
        The row of this token in the cache, and its bank.
    length, seen, constant, tokens, row_beats : Out
        Of the pass: elements, tokens that are attended to, the constant; of a matrix: the tokens of
        this pass over its weights; beats of a row.
    kept : Out
        Beats of the kept weights of a matrix.
    left : In
        Beats of the part that have not come.
    leaves, flight, follows : Out
        With ``ahead``: this matrix may be left when its vectors have come; one has been left and
        runs; this record's vectors may be read meanwhile.
    matrix_done, matrix_loading : In(1)
        With ``ahead``: as of :class:`~seedbed.hw.stream.matrix_unit.MatrixUnit`.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        place = PLACE["place"]
        ahead = {name: Out(1) for name in ("leaves", "flight", "follows")}
        ahead |= {name: In(1) for name in ("matrix_done", "matrix_loading")}
        super().__init__(
            {
                "start": In(1),
                "done": Out(1),
                "header": In(header_layout()),
                "count": In(range(config.block + 1)),
                "position": In(POSITION_BITS),
                "token": In(TOKEN_BITS),
                "failed": In(1),
                "index": Out(range(config.records)),
                "take": Out(1),
                "record": In(record_layout()),
                "in_block": Out(range(config.block)),
                "read": Out(1),
                "read_address": Out(config.address_bits),
                "read_beats": Out(BEATS_BITS),
                "i": In(stream.Signature(config.beat_bits)),
                "begins": Out(1),
                "ended": In(1),
                "idle": In(1),
                "number_at": Out(place),
                "factor_at": Out(place),
                "addend_at": Out(place),
                "target_at": Out(place),
                "cache_at": Out(range(config.cache)),
                "keep_at": Out(range(config.cache)),
                "keep_bank": Out(range(config.keys)),
                "length": Out(RECORD["length"]),
                "seen": Out(range(config.context + 1)),
                "constant": Out(config.unit.constant_bits),
                "tokens": Out(range(config.vectors + 1)),
                "row_beats": Out(RECORD["length"]),
                "kept": Out(range(config.kept_beats + 1)),
                "left": In(BEATS_BITS),
            }
            | (ahead if config.ahead else {})
        )

    def elaborate(self, platform):
        m = Module()
        walk = Walk(m, self.config, self.record)
        self._places(m, walk)
        self._lengths(m, walk)
        m.d.comb += [
            self.in_block.eq(walk.token),
            self.constant.eq(self.record.constant),
            self.index.eq(walk.following),
        ]
        constants = (("position", self.position + walk.token), ("row", walk.multiplier))
        for name, value in constants:
            with m.If(self.record.constant_from == CONSTANTS.index(name)):
                m.d.comb += self.constant.eq(value)
        self._memory(m, walk)
        record_loops(m, self, walk)
        if self.config.ahead:
            matrix_flight(m, self, walk)
        return m

    def _places(self, m, walk) -> None:
        """Find the places of a record for this token and this head."""
        record = self.record
        of_next = walk.of_head["next"]
        head_offset = Mux(of_next, walk.next_head_offset, walk.head_offset)
        for name in ("number", "factor", "addend", "target"):
            place = record[f"{name}_place"]
            moved = Mux(place.shared, 0, walk.frame) + Mux(place.by_head, head_offset, 0)
            m.d.sync += getattr(self, f"{name}_at").eq(place.place + moved)
        m.d.sync += self.cache_at.eq(
            record.cache + Mux(of_next, walk.next_cache_offset, walk.cache_offset)
        )
        # Token t is in bank t mod keys. Both registers are valid before the next record has come.
        token = Signal(POSITION_BITS)
        m.d.sync += [
            token.eq(self.position + walk.token),
            self.keep_bank.eq(token),
            self.keep_at.eq((token >> len(self.keep_bank)) * self.header.row),
        ]

    def _lengths(self, m, walk) -> None:
        """Find the lengths of a record for this token, a cycle later."""
        config, record = self.config, self.record
        length = Signal.like(self.length)
        seen = Signal.like(self.seen)
        left = self.count - walk.token
        m.d.comb += [
            seen.eq(self.position + Mux(record.all, self.count, walk.token + 1)),
            length.eq(record.length),
        ]
        with m.If(walk.is_["pass"] & (record.length_from == LENGTHS.index("tokens"))):
            m.d.comb += length.eq(self.count)
        with m.If(
            walk.is_["pass"]
            & ((record.length_from == LENGTHS.index("seen")) | walk.numbers["scores"])
        ):
            m.d.comb += length.eq(seen)
        with m.If(walk.is_["keep"] | (walk.is_["pass"] & walk.numbers["mix"])):
            m.d.comb += length.eq(record.head << config.lanes.bit_length() - 1)
        row_beats = self._row_beats(length, config.weights)
        if config.wide_sums:
            packs = walk.is_[config.packed]
            if config.groups:
                packs &= ~record.constant[0]
            row_beats = Mux(packs, self._row_beats(length, config.gemv.lanes), row_beats)
        m.d.sync += [
            self.length.eq(length),
            self.seen.eq(seen),
            self.row_beats.eq(row_beats + walk.exchanges),
            self.tokens.eq(Mux(record.by_token & (left < config.vectors), left, config.vectors)),
        ]
        with m.If(~record.by_token | is_given(config, record)):
            m.d.sync += self.tokens.eq(1)
        if config.kept:
            constant = record.constant[:KEPT_BEATS] if config.tune else record.constant
            m.d.comb += self.kept.eq(Mux(walk.is_["trellis"], constant, 0))

    @staticmethod
    def _row_beats(length, weights: int) -> Value:
        """Return the beats of a row; a beat has a power of two of ``weights``."""
        return length + (weights - 1) >> weights.bit_length() - 1

    def _memory(self, m, walk) -> None:
        """Ask for a part of memory, or for the constants of a row and then for the row."""
        config, record = self.config, self.record
        bits = config.entries.bit_length() - 1
        # The row of a table, or the rows of a matrix, times the beats of a row.
        row, factor, product = Signal(TOKEN_BITS), Signal(TOKEN_BITS), Signal(BEATS_BITS)
        other = Mux(walk.exchanges, self.position, row >> bits)
        heads = record.rows + (config.entries - 1) >> bits
        beats = heads + product + self.kept if config.kept else heads + product
        # Rows have the beats of their groups before them.
        rows = walk.rows
        if config.groups:
            whole = config.group_beats(1, whole=True).bit_length() - 1
            each = Mux(record.constant[0], heads, heads << 1) << whole
            rows = Mux(walk.is_["groups"], walk.rows + each, walk.rows)
        address = Signal.like(self.read_address)
        m.d.sync += product.eq(factor * self.row_beats)
        m.d.comb += [
            row.eq(Mux(walk.numbers["position"], self.position + walk.token, self.token)),
            self.read_address.eq(address),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += self.index.eq(walk.index)
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += self.take.eq(1)
                m.next = "PLACE"
            with m.State("PLACE"):
                m.d.sync += [
                    address.eq(record.address),
                    factor.eq(Mux(walk.is_["matrix"], rows, other)),
                ]
                m.next = "MULTIPLY"
                self._decide(m, walk)
            self._skip(m, walk)
            with m.State("MULTIPLY"):
                m.next = "ASK"
            with m.State("ASK"):
                self._ask(m, walk, row >> bits, beats, product, address)
            self._row(m, walk, row[:bits], factor, product, address)
            with m.State("BEGIN"):
                may = self._ahead(m, walk, beats) if config.ahead else 1
                with m.If((self.idle | walk.does["pass"]) & may):
                    m.d.comb += self.begins.eq(1)
                    m.d.sync += walk.asked.eq(0)
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += walk.runs.eq(1)
                with m.If(self.ended & ~(walk.flight & walk.ends)):
                    m.d.comb += [walk.advance.eq(1), self.take.eq(walk.to_following)]
                    m.next = "FETCH"
                    with m.If(walk.to_following):
                        m.next = "PLACE"
                    with m.If(self.done):
                        m.next = "IDLE"
        if config.tune:
            self._rows_part(m, walk, heads + product)

    def _decide(self, m, walk) -> None:
        """Say whether something is read of memory, and whether the record is for now."""
        # Nothing is read of memory, or words at the record's own address.
        with m.If(walk.is_["keep"] | (walk.is_["pass"] & ~walk.of_table)):
            m.next = "BEGIN"
            with m.If(walk.words):
                m.next = "ASK"
        # The last head has no next one.
        with m.If(walk.skips):
            m.next = "SKIP"
        # The record has to do with a matrix that runs.
        with m.If(walk.blocked):
            m.next = "PLACE"

    def _skip(self, m, walk) -> None:
        """Go to the record after one that is for no other head."""
        with m.State("SKIP"), m.If(~(walk.flight & walk.ends)):
            m.d.comb += walk.advance.eq(1)
            m.next = "FETCH"
            with m.If(self.done):
                m.next = "IDLE"

    def _ask(self, m, walk, row, beats, product, address) -> None:
        """Ask for what a record reads: a matrix has ``beats``, ``product`` of them rows."""
        config, record = self.config, self.record
        bits = config.entries.bit_length() - 1
        m.next = "BEGIN"
        with m.If(walk.is_["matrix"]):
            if not config.ahead:
                m.d.comb += [self.read.eq(1), self.read_beats.eq(beats)]
            if config.tune:
                self._kept_part(m, walk)
        with m.Elif(walk.of_table):
            m.d.sync += address.eq(record.address + row + (product << bits))
            m.next = "ROW"
        if config.external:
            with m.Elif(walk.is_["restore"]):
                m.d.comb += [self.read.eq(1), self.read_beats.eq(product)]
            with m.Elif(walk.is_["save"]):
                m.d.sync += address.eq(address + product)
        with m.Elif(walk.words):
            m.d.comb += self.read.eq(1)
            m.d.comb += self.read_beats.eq(self.length + (config.entries - 1) >> bits)

    def _ahead(self, m, walk, beats) -> Value:
        """Ask for the rows of a matrix when those of one that runs have come.

        Return whether this record may begin.
        """
        is_matrix = walk.does["matrix"]
        m.d.comb += self.follows.eq(walk.flight & walk.apart & self.idle)
        with m.If(is_matrix & ~walk.asked & (self.left == 0)):
            m.d.comb += [self.read.eq(1), self.read_beats.eq(beats)]
            m.d.sync += walk.asked.eq(1)
        return ~is_matrix | (walk.asked & ~walk.flight & ~self.matrix_loading)

    def _kept_part(self, m, walk) -> None:
        """Ask for kept weights alone where they are not before the rows of their matrix."""
        with m.If((self.kept != 0) & self.header.trellis[0]):
            address = self.record.constant >> KEPT_BEATS
            m.d.comb += [self.read_address.eq(address), self.read_beats.eq(self.kept)]
            m.d.sync += walk.rows_left.eq(1)

    def _rows_part(self, m, walk, beats) -> None:
        """Ask for the rows when the matrix has taken its kept weights."""
        with m.If(walk.rows_left & (self.left == 0)):
            m.d.comb += [self.read.eq(1), self.read_beats.eq(beats)]
            m.d.sync += walk.rows_left.eq(0)

    def _row(self, m, walk, row, factor, product, address) -> None:
        """Ask for the constants of a row of a table, and then for the row."""
        constants = data.ArrayLayout(constants_layout(), self.config.entries)(self.i.payload)
        with m.State("ROW"):
            m.d.comb += [self.read.eq(1), self.read_beats.eq(1)]
            m.d.sync += factor.eq(row)
            m.next = "CONSTANTS"
        with m.State("CONSTANTS"):
            m.d.comb += self.i.ready.eq(1)
            m.d.sync += walk.multiplier.eq(Array(constants)[row].multiplier)
            with m.If(self.i.valid):
                m.d.sync += address.eq(address + 1 + product)
                m.next = "WEIGHTS"
        with m.State("WEIGHTS"):
            m.d.comb += [self.read.eq(1), self.read_beats.eq(self.row_beats)]
            m.next = "BEGIN"
