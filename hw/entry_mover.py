"""Moves an entry of the forward cache between streams of codes and beats of memory."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, Value
from amaranth.lib import data, enum, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.spec import ForwardCacheConfig

__all__ = ["EntryMover", "Part", "codes_layout", "read_layout", "write_layout"]


class Part(enum.Enum, shape=2):
    """What is to be moved: a store's frame of codes, or one that is dropped; the peaks of a store,
    behind it; a whole entry that is fetched.
    """

    CODES = 0
    DROP = 1
    PEAKS = 2
    FETCH = 3


def codes_layout(config: ForwardCacheConfig, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of codes, see :class:`EntryMover`."""
    codes = data.ArrayLayout(4, lanes)
    return data.StructLayout({"codes": codes, "peak": config.peak_width, "last": 1})


def write_layout(config: ForwardCacheConfig) -> data.StructLayout:
    """Return the layout of a beat that is written, see :class:`EntryMover`."""
    return data.StructLayout({"data": config.beat_bits, "last": 1})


def read_layout(config: ForwardCacheConfig) -> data.StructLayout:
    """Return the layout of a beat that is read, see :class:`EntryMover`."""
    return data.StructLayout({"data": config.beat_bits, "error": 1, "last": 1})


class EntryMover(wiring.Component):
    """Cuts beats of memory into beats of codes, or joins them, and keeps an entry's peaks.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    start, part, column : In
        A pulse, while ``idle``, and with it which :class:`Part` moves and where in a page of
        memory its first beat stands.
    idle : Out(1)
        The part has moved, its last beat too.
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
        As those of :class:`~seedbed.hw.forward_cache.ForwardCache`.

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
                "o_write": Out(stream.Signature(write_layout(config))),
                "i_read": In(stream.Signature(read_layout(config))),
            }
        )
        row = data.ArrayLayout(config.peak_width, config.beat_peaks)
        # A memory of one row would have no address.
        self._peaks = memory.Memory(shape=row, depth=max(2, config.peak_beats), init=[])

    def elaborate(self, platform):
        m = Module()
        m.submodules.peaks = self._peaks
        config, codes, read = self.config, self.i_codes, self.i_read
        write_peaks = self._peaks.write_port(granularity=1)
        read_peaks = self._peaks.read_port(domain="comb")
        # A beat of memory on its way in either direction, and which of its pieces is next.
        held = Signal(config.beat_bits, reset_less=True)
        full = Signal()
        writes = Signal(reset_less=True)
        closes = Signal(reset_less=True)
        piece = Signal(range(max(config.store_pieces, config.fetch_pieces)), reset_less=True)
        # Of the beat that is next: how many of its sort are behind it, where in a page it stands,
        # and the number of its block or of its first peak.
        left = Signal(range(max(config.peak_beats, config.code_beats)), reset_less=True)
        column = Signal.like(self.column, reset_less=True)
        number = Signal(range(config.peak_beats * config.beat_peaks), reset_less=True)
        slots = config.beat_peaks.bit_length() - 1
        slot, row = number[:slots], number[slots:]
        ended = Signal(reset_less=True)
        room = Signal()
        source = Signal(2)
        loads = Signal()
        stored = Signal()
        given = Signal()
        taken = Signal()
        steps = Signal()
        heads = Signal()
        peaks = Signal()
        final = Signal()
        ends = Signal()
        fetches = Signal()
        # A beat of the entry: memory's, or a substitute for one that is lost.
        comes = Signal()
        misplaced = Signal()
        m.d.comb += [
            final.eq(left == 0),
            # Codes follow the peaks that are read in the same burst.
            ends.eq(column.all() | (final & ~heads)),
            comes.eq(read.valid | self.lost),
            misplaced.eq(~self.outstanding | (fetches & (read.payload.last != ends))),
            self.fault.eq(read.valid & read.ready & (read.payload.error | misplaced)),
            # What nobody waits for is discarded, so that no later fetch takes it for its own.
            read.ready.eq(1),
            self.o_write.valid.eq(full & writes),
            self.o_write.payload.data.eq(held),
            self.o_write.payload.last.eq(closes),
            self.o_codes.valid.eq(full & ~writes),
            Value.cast(self.o_codes.payload.codes).eq(held),
            self.o_codes.payload.last.eq(closes & _last(piece, config.fetch_pieces)),
            given.eq(self.o_codes.valid & self.o_codes.ready),
            taken.eq(given & _last(piece, config.fetch_pieces)),
            room.eq(~full | taken | (self.o_write.valid & self.o_write.ready)),
            write_peaks.addr.eq(row),
            read_peaks.addr.eq(row),
        ]
        peak = Signal(config.peak_width, reset_less=True)
        m.d.comb += self.o_codes.payload.peak.eq(peak)
        with m.If(room):
            m.d.sync += full.eq(0)
        # What the beat becomes is chosen by the state alone, and not by who is ready.
        joined = Cat(held, codes.payload.codes)[-len(held) :]
        sources = [held >> 4 * config.fetch_lanes, joined, read_peaks.data, read.payload.data]
        with m.If(given | loads):
            m.d.sync += [held.eq(Array(sources)[source]), piece.eq(piece + 1)]
        with m.If(loads & (ended | self.lost)):
            m.d.sync += held.eq(0)
        with m.If(fetches & ((read.valid & read.ready & misplaced) | self.abandon)):
            m.d.sync += self.lost.eq(1)
        block_ends = Signal()
        last_of_blocks = [k for k, ending in enumerate(reversed(config.block_ends)) if ending]
        with m.Switch(left), m.Case(*last_of_blocks):
            m.d.comb += block_ends.eq(1)
        with m.If(steps):
            m.d.sync += [left.eq(left - 1), column.eq(column + 1)]
            m.d.sync += [closes.eq(final | (writes & ends)), peak.eq(Array(read_peaks.data)[slot])]
            with m.If(self.lost):
                m.d.sync += peak.eq(0)
            with m.If(peaks):
                m.d.sync += number.eq(number + config.beat_peaks)
            with m.Else():
                m.d.sync += number.eq(number + block_ends)
        # What lies behind the last peak is never written: it stays 0.
        spare = -config.blocks % config.beat_peaks
        inside = Cat(Const(1).replicate((1 << slots) - spare), (~final).replicate(spare))
        m.d.comb += Value.cast(write_peaks.data).eq(read.payload.data)
        with m.If(heads):
            given_peaks = read.valid & ~self.lost
            m.d.comb += write_peaks.en.eq(given_peaks.replicate(1 << slots) & inside)
        with m.Else():
            m.d.comb += [to.eq(codes.payload.peak) for to in write_peaks.data]
            m.d.comb += write_peaks.en.eq(Cat(stored & (slot == k) for k in range(1 << slots)))
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(~full)
                with m.If(self.start):
                    m.d.sync += [
                        writes.eq(self.part != Part.FETCH),
                        left.eq(config.peak_beats - 1),
                        column.eq(self.column),
                        number.eq(0),
                        piece.eq(0),
                        ended.eq(0),
                        self.lost.eq(0),
                    ]
                    with m.Switch(self.part):
                        with m.Case(Part.CODES):
                            m.d.sync += left.eq(config.code_beats - 1)
                            m.next = "CODES"
                        with m.Case(Part.DROP):
                            m.next = "DROP"
                        with m.Case(Part.PEAKS):
                            m.next = "PEAKS"
                        with m.Case(Part.FETCH):
                            m.next = "HEADS"
            with m.State("CODES"):
                m.d.comb += [
                    codes.ready.eq(room & ~ended),
                    stored.eq(codes.valid & codes.ready),
                    source.eq(1),
                    loads.eq(stored | (room & ended)),
                    steps.eq(loads & _last(piece, config.store_pieces)),
                ]
                with m.If(loads):
                    m.d.sync += full.eq(steps)
                with m.If(stored):
                    m.d.sync += ended.eq(codes.payload.last)
                with m.If(steps & final):
                    m.d.comb += self.broken.eq(ended | ~codes.payload.last)
                    m.next = "IDLE"
                    with m.If(~ended & ~codes.payload.last):
                        m.next = "DROP"
            with m.State("DROP"):
                m.d.comb += codes.ready.eq(1)
                with m.If(codes.valid & codes.payload.last):
                    m.next = "IDLE"
            with m.State("PEAKS"):
                m.d.comb += [peaks.eq(1), source.eq(2), loads.eq(room), steps.eq(room)]
                with m.If(room):
                    m.d.sync += full.eq(1)
                with m.If(steps & final):
                    m.next = "IDLE"
            with m.State("HEADS"):
                m.d.comb += [fetches.eq(1), heads.eq(1), peaks.eq(1), steps.eq(comes)]
                with m.If(steps & final):
                    m.d.sync += [left.eq(config.code_beats - 1), number.eq(0)]
                    m.next = "FETCH"
            with m.State("FETCH"):
                m.d.comb += [
                    fetches.eq(1),
                    read.ready.eq(room | self.lost),
                    source.eq((~full | _last(piece, config.fetch_pieces)).replicate(2)),
                    loads.eq(comes & room),
                    steps.eq(loads),
                ]
                with m.If(steps):
                    m.d.sync += [full.eq(1), piece.eq(0)]
                with m.If(steps & final):
                    m.next = "IDLE"
        return m


def _last(piece: Signal, pieces: int) -> Value:
    """Return whether ``piece`` is the last of so many, a power of two."""
    return piece[: pieces.bit_length() - 1].all() if pieces > 1 else Const(1)
