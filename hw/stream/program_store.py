"""Loads a program from external memory, checks it, and gives its records."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.wiring import In, Out

from seedbed.hw.stream.burst_reader import BEATS_BITS
from seedbed.hw.stream.stream_layouts import KIND_CODES, STATUS, header_layout, record_layout
from seedbed.spec import VECTOR_OPERATIONS, StreamEngineConfig
from seedbed.spec.engine_records import (
    FACTORS,
    KEPT_BEATS,
    LENGTHS,
    MAGIC,
    NUMBERS,
    RECORD_BITS,
)

__all__ = ["ProgramStore"]

WORD = 32
#: Words of a record; the last one of the header is the CRC.
WORDS = RECORD_BITS // WORD


class ProgramStore(wiring.Component):
    """Keeps the records of one program.

    The header is read first, and its sizes are compared with the core's. Then header and records
    are read, a word of 32 bits a cycle: their CRC must be right, and no record may have a pass
    without elements or of an unknown operation.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start, address : In
        A pulse, and where the header is in memory, in beats.
    read, read_address, read_beats : Out
        A pulse and a part of memory that is to be read.
    first, end : In
        Where memory is written: the addresses that may be.
    i : In(stream)
        The beats of the part.
    failed : In(1)
        The memory had an error.
    done, status : Out
        A pulse: the program is there, or not.
    loaded : Out(1)
        There is a program.
    header : Out(struct)
        The header of the program.
    index : In
        The place of a record that is read.
    take : In(1)
        A pulse: the record whose place was there a cycle ago is the one that is done.
    record : Out(struct)
        That record.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        limits = {"first": In(config.address_bits), "end": In(config.address_bits + 1)}
        super().__init__(
            {
                "start": In(1),
                "address": In(config.address_bits),
                "read": Out(1),
                "read_address": Out(config.address_bits),
                "read_beats": Out(BEATS_BITS),
                "i": In(stream.Signature(config.beat_bits)),
                "failed": In(1),
                "done": Out(1),
                "status": Out(range(len(STATUS))),
                "loaded": Out(1),
                "header": Out(header_layout()),
                "index": In(range(config.records)),
                "take": In(1),
                "record": Out(record_layout()),
                **(limits if config.writes else {}),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.records = records = memory.Memory(
            shape=record_layout(), depth=config.records, init=[], attrs={"no_rw_check": True}
        )
        write, read = records.write_port(), records.read_port()
        # A part of memory is asked for; its words come; the records of the program do.
        asks = Signal()
        takes = Signal()
        checking = Signal()
        bad = Signal()
        count = Signal(range(config.records + 2))
        bits, word, fire, whole = self._words(m, asks, takes)
        m.submodules.checksum = crc = catalog.CRC32_ISO_HDLC(data_width=WORD).create()
        m.d.comb += [
            self.read.eq(asks),
            read.addr.eq(self.index),
            write.addr.eq(count - 1),
            Value.cast(write.data).eq(bits),
            write.en.eq(whole & checking & (count != 0)),
            crc.start.eq(asks),
            crc.data.eq(bits[-WORD:]),
        ]
        # A register: from the memory's output, a quarter of the cycle is gone.
        with m.If(self.take):
            m.d.sync += self.record.eq(read.data)
        # Of the header, the last word is not counted.
        m.d.sync += crc.valid.eq(fire & ~((count == 0) & (word == WORDS - 1)))
        layout = record_layout()
        with m.If(write.en & self._is_wrong(layout(bits[: layout.size]))):
            m.d.sync += bad.eq(1)
        with m.If(asks):
            m.d.sync += [count.eq(0), bad.eq(0)]
        with m.Elif(whole):
            m.d.sync += count.eq(count + 1)
        self._sequence(
            m, asks, takes, checking, bits, whole, count, bad | (crc.crc != self.header.crc)
        )
        return m

    def _words(self, m, asks, takes):
        """Take words of beats; return a record, its next word's place, and whether one comes.

        The last result is whether the record is whole: in the cycle after its last word.
        """
        held = Signal(self.config.beat_bits, reset_less=True)
        left = Signal(range(self.config.beat_bits // WORD + 1))
        bits = Signal(RECORD_BITS, reset_less=True)
        word = Signal(range(WORDS))
        fire = Signal()
        whole = Signal()
        m.d.comb += [self.i.ready.eq(takes & (left == 0)), fire.eq(takes & (left != 0))]
        m.d.sync += whole.eq(fire & (word == WORDS - 1))
        with m.If(fire):
            m.d.sync += [
                left.eq(left - 1),
                held.eq(held >> WORD),
                bits.eq(Cat(bits[WORD:], held[:WORD])),
                word.eq(word + 1),
            ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.payload), left.eq(self.config.beat_bits // WORD)]
        with m.If(asks):
            m.d.sync += [left.eq(0), word.eq(0)]
        return bits, word, fire, whole

    def _sequence(self, m, asks, takes, checking, bits, whole, count, damaged) -> None:
        """Read the header, then header and records."""
        config = self.config
        sizes = (self.header.records + 1) * RECORD_BITS + (config.beat_bits - 1)
        known, fits = (Signal(name=name) for name in ("known", "fits"))
        m.d.sync += [known.eq(self._known()), fits.eq(self._fits())]
        m.d.comb += self.read_beats.eq(-(-RECORD_BITS // config.beat_bits))
        with m.FSM():
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [self.loaded.eq(0), self.read_address.eq(self.address)]
                m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += asks.eq(1)
                m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += takes.eq(~whole)
                with m.If(whole):
                    m.d.sync += Value.cast(self.header).eq(bits)
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "SIZES"
            with m.State("SIZES"):
                m.d.comb += self.read_beats.eq(sizes >> config.beat_bits.bit_length() - 1)
                with m.If(known & fits):
                    m.d.comb += asks.eq(1)
                    m.next = "RECORDS"
                with m.Else():
                    m.d.sync += self.status.eq(Mux(known, STATUS["size"], STATUS["damaged"]))
                    m.next = "END"
            with m.State("RECORDS"):
                m.d.comb += [takes.eq(~whole | (count != self.header.records)), checking.eq(1)]
                with m.If(whole & (count == self.header.records)):
                    m.next = "CRC"
            with m.State("CRC"):
                m.d.sync += self.status.eq(Mux(damaged, STATUS["damaged"], STATUS["ok"]))
                m.next = "END"
            with m.State("END"):
                m.d.comb += self.done.eq(1)
                m.d.sync += self.loaded.eq((self.status == STATUS["ok"]) & ~self.failed)
                m.next = "IDLE"

    def _known(self) -> Value:
        """Return whether the header is that of a program for this core."""
        config, header = self.config, self.header
        chosen = []
        if not config.classes:
            chosen.append(header.loss)
        if not config.choose:
            chosen.append(header.choose & ~header.loss if config.classes else header.choose)
        code = Cat(header.trellis, *chosen)
        codes = {0, config.code_field}
        if config.tune:
            code = Cat(code, header.fraction)
            codes.add(config.trellis + 1 | config.tune << len(code) - len(header.fraction))
        return (
            (header.magic == MAGIC)
            & (header.lanes == config.lanes)
            & Cat(code == bits for bits in sorted(codes)).any()
            & (header.beat_bytes == config.beat_bits // 8 % 256)
            & (header.records != 0)
        )

    def _fits(self) -> Value:
        """Return whether the core has room for the program."""
        config, header = self.config, self.header
        names = ("records", "store", "cache", "block", "context")
        return Cat(header[name] <= getattr(config, name) for name in names).all()

    def _is_wrong(self, record) -> Value:
        """Return whether a record would never end, or write where it must not."""
        is_ = {name: record.kind == code for name, code in KIND_CODES.items()}
        is_pass, is_matrix, is_keep, is_trellis, is_save, is_restore = (
            is_[name] for name in ("pass", "matrix", "keep", "trellis", "save", "restore")
        )
        known = is_pass | is_matrix | is_keep
        if self.config.trellis:
            # More weights are kept than the core has room for.
            kept = record.constant
            if self.config.tune:
                kept = Mux(self.header.trellis[0], kept[:KEPT_BEATS], kept)
            known |= is_trellis & (kept <= self.config.kept_beats)
            is_matrix |= is_trellis
        if self.config.wide_sums:
            known |= is_[self.config.packed]
            is_matrix |= is_[self.config.packed]
        if self.config.external:
            stop = record.address + record.rows
            known |= (is_save | is_restore) & (record.length != 0)
            known &= ~is_save | ((record.address >= self.first) & (stop <= self.end))
        words = self.config.products // self.config.lanes
        unknown = record.operation >= len(VECTOR_OPERATIONS)
        if not self.config.inputs:
            unknown |= record.numbers == NUMBERS.index("input")
        empty = record.length == 0
        of_field = record.length_from == LENGTHS.index("field")
        matrix = empty | (record.rows == 0) | (record.length > self.config.columns)
        attends = is_pass & (
            (record.numbers == NUMBERS.index("scores")) | (record.numbers == NUMBERS.index("mix"))
        )
        by_head = Cat(
            is_keep,
            attends,
            is_pass & (record.factors == FACTORS.index("store")),
        ).any()
        return (
            ~known
            | (is_pass & (unknown | (empty & of_field) | (record.length_from >= len(LENGTHS))))
            | (is_matrix & matrix)
            | (by_head & (record.head == 0))
            # A head has whole words of the cache.
            | (attends & record.head[: words.bit_length() - 1].any())
        )
