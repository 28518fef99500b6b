"""Frames of the host link: COBS with a CRC-32 and a delimiter, received and transmitted."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.crc import catalog
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import PACKET_BYTES, Operation

__all__ = ["FrameReceiver", "FrameTransmitter", "packet_layout"]

#: Nonzero bytes of the longest COBS group.
GROUP = 254
#: Bytes of a CRC.
CRC_BYTES = 4
#: Bytes of a word.
WORD_BYTES = 4
#: Bytes of a request with its CRC, without words.
REQUEST_BYTES = PACKET_BYTES + CRC_BYTES


def packet_layout() -> data.StructLayout:
    """Return the layout of a request, or of a response before its words."""
    return data.StructLayout({"operation": 8, "sequence": 8, "argument": 16, "data": 32})


class FrameReceiver(wiring.Component):
    """Outputs the requests whose frames are complete and have the right CRC; discards the others.

    The words of a frame are output before its CRC is known.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`; the frames do not depend on it.

    Members
    -------
    i : In(stream of unsigned(8))
        Bytes of the line. None is accepted while a request is pending.
    o : Out(stream of :func:`packet_layout`)
        A request other than ``SEND``, one cycle after its delimiter.
    header : Out(:func:`packet_layout`)
        The first bytes of a frame with words, from the first word to the end.
    word, write : Out(32), Out(1)
        A word of a frame, for one cycle.
    end, good : Out(1), Out(1)
        For one cycle, one cycle after its delimiter: a frame ended; it is a ``SEND`` with the
        right CRC.
    """

    def __init__(self, config: HostLinkConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(packet_layout())),
                "header": Out(packet_layout()),
                "word": Out(32),
                "write": Out(1),
                "end": Out(1),
                "good": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.checksum = crc = catalog.CRC32_ISO_HDLC(data_width=8).create()
        # COBS: bytes left of the group, and whether a zero comes before the next group.
        left = Signal(8)
        implied = Signal()
        # The last decoded bytes, the newest on top, and their number, modulo a word after those of
        # a request; whether there are words.
        shift = Signal(8 * PACKET_BYTES, reset_less=True)
        count = Signal(range(REQUEST_BYTES + WORD_BYTES))
        has_words = Signal()
        fire, code, delimiter, decoded = Signal(), Signal(), Signal(), Signal()
        byte = Signal(8)
        next_shift = Cat(shift[8:], byte)
        is_send = self.header.operation == Operation.SEND
        whole = (left == 0) & (count == REQUEST_BYTES) & crc.match_detected
        m.d.comb += [
            self.i.ready.eq(~self.o.valid),
            fire.eq(self.i.valid & self.i.ready),
            delimiter.eq(fire & (self.i.payload == 0)),
            code.eq(fire & ~delimiter & (left == 0)),
            decoded.eq(Mux(code, implied, fire & ~delimiter)),
            byte.eq(Mux(code, 0, self.i.payload)),
            crc.valid.eq(decoded),
            crc.data.eq(byte),
            crc.start.eq((count == 0) & ~has_words),
            self.o.payload.eq(self.header),
            self.word.eq(shift[: 8 * WORD_BYTES]),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        m.d.sync += [self.write.eq(0), self.end.eq(delimiter), self.good.eq(0)]
        with m.If(decoded):
            m.d.sync += [shift.eq(next_shift), count.eq(count + 1)]
            with m.If(count == PACKET_BYTES - 1):
                m.d.sync += Value.cast(self.header).eq(next_shift)
            with m.If(count == REQUEST_BYTES + WORD_BYTES - 1):
                m.d.sync += [count.eq(REQUEST_BYTES), has_words.eq(1), self.write.eq(1)]
        with m.If(code):
            m.d.sync += [left.eq(self.i.payload - 1), implied.eq(self.i.payload != GROUP + 1)]
        with m.Elif(fire):
            m.d.sync += left.eq(left - 1)
        with m.If(delimiter):
            m.d.sync += [left.eq(0), implied.eq(0), count.eq(0), has_words.eq(0)]
            with m.If(whole):
                m.d.sync += [self.o.valid.eq(~is_send & ~has_words), self.good.eq(is_send)]
        return m


class FrameTransmitter(wiring.Component):
    """Codes packets as frames.

    A COBS group begins with its length, so that its bytes are collected first and output then: a
    frame takes two cycles a byte. A UART takes longer.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`; the frames do not depend on it.

    Members
    -------
    i : In(stream of struct)
        Bytes of a packet (``byte``, ``last``).
    o : Out(stream of unsigned(8))
        Bytes of the frame.
    """

    def __init__(self, config: HostLinkConfig):
        self.config = config
        layout = data.StructLayout({"byte": 8, "last": 1})
        super().__init__({"i": In(stream.Signature(layout)), "o": Out(stream.Signature(8))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.checksum = crc = catalog.CRC32_ISO_HDLC(data_width=8).create()
        m.submodules.group = group = Memory(shape=8, depth=256, init=[])
        write, read = group.write_port(), group.read_port()
        length, index = Signal(8), Signal(8)
        # The next byte is of the CRC; its number; the frame began; the group is the last one, or
        # only an empty one follows, after a zero.
        in_crc, number, begun = Signal(), Signal(range(CRC_BYTES)), Signal()
        final, zero_last = Signal(), Signal()
        byte = Signal(8)
        fire_o = self.o.valid & self.o.ready
        crc_bytes = Array(crc.crc.word_select(k, 8) for k in range(CRC_BYTES))
        m.d.comb += [
            byte.eq(Mux(in_crc, crc_bytes[number], self.i.payload.byte)),
            crc.data.eq(byte),
            crc.start.eq(~begun),
            crc.valid.eq(self.i.valid & self.i.ready),
            write.addr.eq(length),
            write.data.eq(byte),
            read.addr.eq(index),
        ]
        with m.FSM():
            with m.State("COLLECT"):
                fire = in_crc | self.i.valid
                m.d.comb += [self.i.ready.eq(~in_crc), write.en.eq(fire & (byte != 0))]
                with m.If(fire):
                    self._collected(m, byte, in_crc, number, begun)
                    is_last = in_crc & (number == CRC_BYTES - 1)
                    m.d.sync += [final.eq(is_last), zero_last.eq(byte == 0)]
                    m.d.sync += length.eq(length + (byte != 0))
                    with m.If((byte == 0) | (length == GROUP - 1) | is_last):
                        m.next = "CODE"
            with m.State("CODE"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(length + 1)]
                with m.If(fire_o & (length == 0)):
                    m.next = "END"
                with m.Elif(fire_o):
                    m.next = "BYTES"
            with m.State("BYTES"):
                m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(read.data)]
                with m.If(fire_o):
                    m.d.comb += read.addr.eq(index + 1)
                    m.d.sync += index.eq(index + 1)
                with m.If(fire_o & (index == length - 1)):
                    m.next = "END"
            with m.State("END"):
                m.d.sync += [length.eq(0), index.eq(0)]
                m.next = "COLLECT"
                with m.If(final & zero_last):
                    m.d.sync += zero_last.eq(0)
                    m.next = "CODE"
                with m.Elif(final):
                    m.next = "DELIMITER"
            with m.State("DELIMITER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(fire_o):
                    m.next = "COLLECT"
        return m

    def _collected(self, m, byte, in_crc, number, begun):
        """Update the position in the frame after a byte of the packet or of the CRC."""
        m.d.sync += begun.eq(1)
        with m.If(in_crc):
            m.d.sync += number.eq(number + 1)
            with m.If(number == CRC_BYTES - 1):
                m.d.sync += [in_crc.eq(0), begun.eq(0)]
        with m.Else():
            m.d.sync += in_crc.eq(self.i.payload.last)
