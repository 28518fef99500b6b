"""Buffer of the host link: words of a stream, stored until the host asks for later ones."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.spec import HostLinkConfig

__all__ = ["WordBuffer"]


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
