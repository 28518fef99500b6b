"""Buffers of the host link: words of the streams to the host and from the host."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.spec import HostLinkConfig

__all__ = ["WordBuffer", "WordReceiver"]

#: Synthesis must not merge the copies.
KEEP = {"keep": True}


class WordBuffer(wiring.Component):
    """Stores the words of a stream by their position, modulo 2**32.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`.

    Members
    -------
    i : In(stream of unsigned(32))
        The words; not ready while ``depth`` of them are stored.
    position, limit : In(32), In(16)
        The position from which a response wants words, and how many at most.
    found, count : Out(1), Out(16)
        A cycle later: whether it is stored or the next one, and how many words the response has.
    released : Out(32)
        The position of the oldest word.
    select : In(1)
        The response begins: words before ``position`` are discarded.
    word, left : Out(32), Out(16)
        The response's next word, two cycles after it changes, and how many are left.
    step : In(1)
        The word is taken.
    """

    def __init__(self, config: HostLinkConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(32)),
                "position": In(32),
                "limit": In(16),
                "found": Out(1),
                "count": Out(16),
                "released": Out(32),
                "select": In(1),
                "word": Out(32),
                "left": Out(16),
                "step": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self.config.depth
        m.submodules.memory = memory = Memory(shape=32, depth=depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        # The position of the next word.
        written = Signal(32)
        address = Signal(range(depth))
        level = Signal(range(depth + 1))
        # The distance of the position from the oldest word and to the next one.
        offset, available, stored = Signal(32), Signal(32), Signal.like(level)
        m.d.comb += [
            level.eq(written - self.released),
            self.i.ready.eq(level != depth),
            write.addr.eq(written),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
            read.addr.eq(address),
            self.word.eq(read.data),
            self.found.eq(offset <= stored),
            self.count.eq(Mux(available < self.limit, available, self.limit)),
        ]
        m.d.sync += [
            written.eq(written + write.en),
            offset.eq(self.position - self.released),
            available.eq(written - self.position),
            stored.eq(level),
        ]
        with m.If(self.select):
            m.d.sync += [
                self.released.eq(self.position),
                address.eq(self.position),
                self.left.eq(self.count),
            ]
        with m.If(self.step):
            m.d.sync += [address.eq(address + 1), self.left.eq(self.left - 1)]
        return m


class WordReceiver(wiring.Component):
    """Outputs the words of frames whose position is the next one; discards those of others.

    Words are written as they come, and output after their frame has ended well. A frame that does
    not fit is discarded.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`.

    Members
    -------
    position : In(32)
        That of the frame's first word.
    word, write, end, good
        Those of :class:`~seedbed.hw.host.link_frames.FrameReceiver`.
    o : Out(stream of unsigned(32))
        The words, one in two cycles: the line brings one in 40 bits.
    accepted : Out(32)
        The position of the next word.
    room : Out(16)
        How many words fit.
    """

    def __init__(self, config: HostLinkConfig):
        self.config = config
        super().__init__(
            {
                "position": In(32),
                "word": In(32),
                "write": In(1),
                "end": In(1),
                "good": In(1),
                "o": Out(stream.Signature(32)),
                "accepted": Out(32),
                "room": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        depth = self.config.receive_depth
        # Accepted words that are stored; words of the current frame, and whether some did not fit.
        level, count = Signal(range(depth + 1)), Signal(range(depth + 1))
        overflow = Signal()
        full, fire, commit, writes = Signal(), Signal(), Signal(), Signal()
        place = (self.accepted + count)[: (depth - 1).bit_length()]
        m.d.comb += [
            self.room.eq(depth - level),
            full.eq(level + count == depth),
            writes.eq(self.write & ~full),
            commit.eq(self.end & self.good & (self.position == self.accepted) & ~overflow),
            fire.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [
            # The word after one that is taken is read in the next cycle: no path from a user's
            # ready to the address of the memory.
            self.o.valid.eq((level != 0) & ~fire),
            level.eq(level - fire + Mux(commit, count, 0)),
            count.eq(count + writes),
        ]
        # Two memories, each with an address of its own, and written a cycle late: where they are
        # LUTs, an address has hundreds of them. A frame ends a byte after its last word, or later.
        halves, upper = [], Signal()
        for half in range(2):
            memory = Memory(shape=32, depth=depth // 2, init=[])
            m.submodules[f"memory_{half}"] = memory
            write, read = memory.write_port(), memory.read_port()
            oldest = Signal(range(depth), attrs=KEEP, name=f"oldest_{half}")
            m.d.comb += read.addr.eq(oldest)
            m.d.sync += [
                oldest.eq(oldest + fire),
                write.addr.eq(place),
                write.data.eq(self.word),
                write.en.eq(writes & (place[-1] == half)),
            ]
            if half == 0:
                m.d.sync += upper.eq(oldest[-1])
            halves.append(read.data)
        m.d.comb += self.o.payload.eq(Mux(upper, halves[1], halves[0]))
        with m.If(self.write & full):
            m.d.sync += overflow.eq(1)
        with m.If(commit):
            m.d.sync += self.accepted.eq(self.accepted + count)
        with m.If(self.end):
            m.d.sync += [count.eq(0), overflow.eq(0)]
        return m
