"""Width converter between beats of memory and beats of codes of the forward cache."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.forward_cache_layouts import Part, codes_layout
from seedbed.hw.memory.memory_port import read_layout, write_layout
from seedbed.spec import ForwardCacheConfig

__all__ = ["EntryConverter"]


class EntryConverter(wiring.Component):
    """Converts beats of memory to narrower ones of codes, and back; keeps an entry's peaks.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    start, part, column : In
        A pulse, while ``idle``, and with it which :class:`Part` is transferred, and where in a page
        of memory its first beat is.
    idle : Out(1)
        The part has been transferred, its last beat too.
    broken : Out(1)
        A pulse: the frame of a store had another length. It is filled up with zeros where it was
        short, and dropped up to its ``last`` where it was long.
    outstanding : In(1)
        The last beat of a burst that was commanded has not been read.
    abandon : In(1)
        A pulse: no more beats are waited for.
    fault : Out(1)
        A pulse: a beat was read with an error, with ``last`` where no burst ends, without where one
        does, or with no burst outstanding.
    lost : Out(1)
        From the cycle after a burst of wrong length, or ``abandon``, until the next ``start``: what
        memory gives is discarded, and the codes that are missing are 0, with peaks of 0.
    i_codes, o_codes, o_write, i_read : streams
        As those of :class:`~seedbed.hw.memory.forward_cache.ForwardCache`.

    Latency: 1 cycle from a beat to the one that it completes, or to its first piece. Throughput: a
    beat of codes every cycle, or of memory, whichever is narrower.
    """

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "part": In(Part),
                "column": In(range(config.page)),
                "idle": Out(1),
                "broken": Out(1),
                "outstanding": In(1),
                "abandon": In(1),
                "fault": Out(1),
                "lost": Out(1),
                "i_codes": In(stream.Signature(codes_layout(config, config.store_lanes))),
                "o_codes": Out(stream.Signature(codes_layout(config, config.fetch_lanes))),
                "o_write": Out(stream.Signature(write_layout(config.beat_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        row = data.ArrayLayout(config.peak_width, config.beat_peaks)
        # A memory of one row would have no address.
        m.submodules.peaks = peaks = memory.Memory(
            shape=row, depth=max(2, config.peak_beats), init=[]
        )
        self._signals()
        self._count(m, peaks.read_port(domain="comb"))
        self._shift(m)
        self._write_peaks(m, peaks.write_port(granularity=1))
        self._streams(m)
        with m.FSM():
            self._idle_state(m)
            self._store_states(m)
            self._fetch_states(m)
        return m

    def _signals(self):
        config = self.config
        # A beat of memory on its way in either direction, and which of its pieces is next.
        self._held = Signal(config.beat_bits, name="held", reset_less=True)
        self._full = Signal(name="full")
        self._writes = Signal(name="writes", reset_less=True)
        pieces = range(max(config.store_pieces, config.fetch_pieces))
        self._piece = Signal(pieces, name="piece", reset_less=True)
        # Of the beat that is next: how many of its sort come after it, where in a page it is, and
        # the number of its block or of its first peak.
        beats = range(max(config.peak_beats, config.code_beats))
        self._left = Signal(beats, name="left", reset_less=True)
        self._column = Signal.like(self.column, name="column", reset_less=True)
        numbers = range(config.peak_beats * config.beat_peaks)
        self._number = Signal(numbers, name="number", reset_less=True)
        # The frame of a store has ended; what is held is its burst's or its entry's last beat.
        self._ended = Signal(name="ended", reset_less=True)
        self._closes = Signal(name="closes", reset_less=True)
        # Set by the states: what the next beat comes from, that it is taken, and that it is whole.
        self._source = Signal(2, name="source")
        self._loads, self._steps, self._stored = _flags("loads", "steps", "stored")
        self._heads, self._of_peaks, self._fetches = _flags("heads", "of_peaks", "fetches")
        # What follows from them; ``comes``: a beat of memory, or a substitute for one that is lost.
        self._final, self._ends, self._room = _flags("final", "ends", "room")
        self._given, self._misplaced, self._comes = _flags("given", "misplaced", "comes")

    def _streams(self, m):
        """Show what is held, and watch what is read."""
        config, read, write, codes = self.config, self.i_read, self.o_write, self.o_codes
        piece_last = _last(self._piece, config.fetch_pieces)
        taken = self._given & piece_last
        wrong_last = Signal()
        m.d.comb += [
            self._final.eq(self._left == 0),
            # Codes follow the peaks that are read in the same burst.
            self._ends.eq(self._column.all() | (self._final & ~self._heads)),
            self._comes.eq(read.valid | self.lost),
            wrong_last.eq(self._fetches & (read.payload.last != self._ends)),
            self._misplaced.eq(~self.outstanding | wrong_last),
            self.fault.eq(read.valid & read.ready & (read.payload.error | self._misplaced)),
            write.valid.eq(self._full & self._writes),
            write.payload.data.eq(self._held),
            write.payload.last.eq(self._closes),
            codes.valid.eq(self._full & ~self._writes),
            Value.cast(codes.payload.codes).eq(self._held),
            codes.payload.last.eq(self._closes & piece_last),
            self._given.eq(codes.valid & codes.ready),
            self._room.eq(~self._full | taken | (write.valid & write.ready)),
        ]
        lost = read.valid & read.ready & self._misplaced
        with m.If(self._fetches & (lost | self.abandon)):
            m.d.sync += self.lost.eq(1)

    def _shift(self, m):
        """Take the next beat, or the held one's next piece."""
        config, held = self.config, self._held
        # What nobody waits for is discarded, so that no later fetch takes it for its own.
        m.d.comb += self.i_read.ready.eq(1)
        with m.If(self._room):
            m.d.sync += self._full.eq(0)
        # What the beat becomes is selected by the state alone, and not by who is ready.
        joined = Cat(held, self.i_codes.payload.codes)[-len(held) :]
        sources = [
            held >> 4 * config.fetch_lanes,
            joined,
            self._peaks_read,
            self.i_read.payload.data,
        ]
        with m.If(self._given | self._loads):
            m.d.sync += [held.eq(Array(sources)[self._source]), self._piece.eq(self._piece + 1)]
        with m.If(self._loads & (self._ended | self.lost)):
            m.d.sync += held.eq(0)

    def _count(self, m, read_peaks):
        """Go from beat to beat: its place, its block, and its block's peak."""
        config, number = self.config, self._number
        slots = config.beat_peaks.bit_length() - 1
        peak = Signal(config.peak_width, reset_less=True)
        self._peaks_read = read_peaks.data
        m.d.comb += [read_peaks.addr.eq(number[slots:]), self.o_codes.payload.peak.eq(peak)]
        block_ends = Signal()
        last_of_blocks = [k for k, ending in enumerate(reversed(config.block_ends)) if ending]
        with m.Switch(self._left), m.Case(*last_of_blocks):
            m.d.comb += block_ends.eq(1)
        with m.If(self._steps):
            m.d.sync += [
                self._left.eq(self._left - 1),
                self._column.eq(self._column + 1),
                self._closes.eq(self._final | (self._writes & self._ends)),
                peak.eq(Array(read_peaks.data)[number[:slots]]),
            ]
            with m.If(self.lost):
                m.d.sync += peak.eq(0)
            with m.If(self._of_peaks):
                m.d.sync += number.eq(number + config.beat_peaks)
            with m.Else():
                m.d.sync += number.eq(number + block_ends)

    def _write_peaks(self, m, write):
        """Keep the peaks of an entry: memory's, or those that come with the codes of a store."""
        config = self.config
        slots = config.beat_peaks.bit_length() - 1
        slot = self._number[:slots]
        # What is after the last peak is never written: it stays 0.
        spare = -config.blocks % config.beat_peaks
        inside = Cat(Const(1).replicate((1 << slots) - spare), (~self._final).replicate(spare))
        m.d.comb += [
            write.addr.eq(self._number[slots:]),
            Value.cast(write.data).eq(self.i_read.payload.data),
        ]
        with m.If(self._heads):
            valid = self.i_read.valid & ~self.lost
            m.d.comb += write.en.eq(valid.replicate(1 << slots) & inside)
        with m.Else():
            m.d.comb += [to.eq(self.i_codes.payload.peak) for to in write.data]
            m.d.comb += write.en.eq(Cat(self._stored & (slot == k) for k in range(1 << slots)))

    def _idle_state(self, m):
        """Begin with a part."""
        config = self.config
        with m.State("IDLE"):
            m.d.comb += self.idle.eq(~self._full)
            with m.If(self.start):
                m.d.sync += [
                    self._writes.eq(self.part != Part.FETCH),
                    self._left.eq(config.peak_beats - 1),
                    self._column.eq(self.column),
                    self._number.eq(0),
                    self._piece.eq(0),
                    self._ended.eq(0),
                    self.lost.eq(0),
                ]
                with m.Switch(self.part):
                    with m.Case(Part.CODES):
                        m.d.sync += self._left.eq(config.code_beats - 1)
                        m.next = "CODES"
                    states = {Part.DROP: "DROP", Part.PEAKS: "PEAKS", Part.FETCH: "HEADS"}
                    for part, state in states.items():
                        with m.Case(part):
                            m.next = state

    def _store_states(self, m):
        """Join the codes of a store, or drop them; then give its peaks."""
        config, codes, ended = self.config, self.i_codes, self._ended
        with m.State("CODES"):
            m.d.comb += [
                codes.ready.eq(self._room & ~ended),
                self._stored.eq(codes.valid & codes.ready),
                self._source.eq(1),
                self._loads.eq(self._stored | (self._room & ended)),
                self._steps.eq(self._loads & _last(self._piece, config.store_pieces)),
            ]
            with m.If(self._loads):
                m.d.sync += self._full.eq(self._steps)
            with m.If(self._stored):
                m.d.sync += ended.eq(codes.payload.last)
            with m.If(self._steps & self._final):
                m.d.comb += self.broken.eq(ended | ~codes.payload.last)
                m.next = "IDLE"
                with m.If(~ended & ~codes.payload.last):
                    m.next = "DROP"
        with m.State("DROP"):
            m.d.comb += codes.ready.eq(1)
            with m.If(codes.valid & codes.payload.last):
                m.next = "IDLE"
        with m.State("PEAKS"):
            m.d.comb += [
                self._of_peaks.eq(1),
                self._source.eq(2),
                self._loads.eq(self._room),
                self._steps.eq(self._room),
            ]
            with m.If(self._room):
                m.d.sync += self._full.eq(1)
            with m.If(self._steps & self._final):
                m.next = "IDLE"

    def _fetch_states(self, m):
        """Keep the peaks that are fetched, then cut the codes."""
        config = self.config
        with m.State("HEADS"):
            m.d.comb += [
                self._fetches.eq(1),
                self._heads.eq(1),
                self._of_peaks.eq(1),
                self._steps.eq(self._comes),
            ]
            with m.If(self._steps & self._final):
                m.d.sync += [self._left.eq(config.code_beats - 1), self._number.eq(0)]
                m.next = "FETCH"
        with m.State("FETCH"):
            new = ~self._full | _last(self._piece, config.fetch_pieces)
            m.d.comb += [
                self._fetches.eq(1),
                self.i_read.ready.eq(self._room | self.lost),
                self._source.eq(new.replicate(2)),
                self._loads.eq(self._comes & self._room),
                self._steps.eq(self._loads),
            ]
            with m.If(self._steps):
                m.d.sync += [self._full.eq(1), self._piece.eq(0)]
            with m.If(self._steps & self._final):
                m.next = "IDLE"


def _flags(*names: str) -> list[Signal]:
    return [Signal(name=name) for name in names]


def _last(piece: Signal, pieces: int) -> Value:
    """Return whether ``piece`` is the last of so many, a power of two."""
    return piece[: pieces.bit_length() - 1].all() if pieces > 1 else Const(1)
