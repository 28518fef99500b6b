"""Host link: frames of bytes to registers and to streams of words in both directions."""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.host.link_frames import FrameReceiver, FrameTransmitter, packet_layout
from seedbed.hw.host.link_words import WordBuffer, WordReceiver
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.spec import HostLinkConfig, SkidBufferConfig
from seedbed.spec.host_link import PACKET_BYTES, RESPONSE, LinkError, Operation

__all__ = ["HostLink", "command_layout"]


def command_layout() -> data.StructLayout:
    """Return the layout of a command to the registers, see :class:`HostLink`."""
    return data.StructLayout({"write": 1, "address": 16, "data": 32})


class HostLink(wiring.Component):
    """Answers a host's requests.

    A request is executed only if its frame is complete and has the right CRC. It has a sequence
    number, one more than that of the request before. A request with the same number is a
    repetition: its response is sent again, and a write is not done again. Words of the stream are
    stored until the host asks for later ones, so that a lost response loses none.

    Words from the host have a position, not a sequence number: a frame is accepted if its first
    word is the next one and all of them fit. Frames are received while responses to such frames are
    sent, and one response may be that of several.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`.

    Members
    -------
    i : In(stream of unsigned(8))
        bytes from the host. While a request other than ``SEND`` is answered, none is accepted.
    o : Out(stream of unsigned(8))
        bytes to the host
    o_commands : Out(stream of struct)
        command: a read or write of a register
        write : 1: write; 0: read
        address : address of the register
        data : value to write
    i_values : In(stream of unsigned(32))
        value of the register, one for each read
    i_words : In(stream of unsigned(32))
        stream of words for the host. Not ready while ``depth`` of them are stored.
    o_words : Out(stream of unsigned(32))
        stream of words from the host. ``receive_depth`` of them are stored at most.

    Latency: ``latency`` cycles from the delimiter of a request to its command.
    Throughput: 1 request at a time; words from the host at the rate of the line. Stored words come
    in every second cycle, and a byte of a response in two cycles.
    """

    latency = 2

    def __init__(self, config: HostLinkConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
                "o_commands": Out(stream.Signature(command_layout())),
                "i_values": In(stream.Signature(32)),
                "i_words": In(stream.Signature(32)),
                "o_words": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = FrameReceiver(self.config)
        m.submodules.transmitter = transmitter = FrameTransmitter(self.config)
        wiring.connect(m, wiring.flipped(self.i), receiver.i)
        wiring.connect(m, wiring.flipped(self.o), transmitter.o)
        # Between the bytes of a response and the frame's, so that no path has the states of both.
        byte = transmitter.i.payload.shape()
        m.submodules.bytes = queue = SkidBuffer(SkidBufferConfig(width=byte.size), byte)
        wiring.connect(m, queue.o, transmitter.i)
        request = receiver.o.payload
        # The last request's sequence number.
        last = Signal(8)
        # The response's bytes that are not sent, those of the current word only, and their number.
        response = Signal(packet_layout())
        left = Signal(range(PACKET_BYTES + 1))
        m.d.comb += [
            self.o_commands.payload.write.eq(request.operation == Operation.WRITE),
            self.o_commands.payload.address.eq(request.argument),
            self.o_commands.payload.data.eq(request.data),
        ]
        m.submodules.words = words = WordBuffer(self.config)
        wiring.connect(m, wiring.flipped(self.i_words), words.i)
        m.d.comb += [words.position.eq(request.data), words.limit.eq(request.argument)]
        pending, acknowledgement = self._received(m, receiver, response)
        # The response is to words from the host.
        acknowledges = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [left.eq(PACKET_BYTES), acknowledges.eq(pending)]
                with m.If(pending):
                    m.d.sync += [acknowledgement, pending.eq(receiver.good)]
                    m.next = "RESPOND"
                with m.Elif(receiver.o.valid):
                    self._decode(m, request, response, last)
            with m.State("COMMAND"):
                m.d.comb += self.o_commands.valid.eq(1)
                with m.If(self.o_commands.ready):
                    m.d.sync += last.eq(request.sequence)
                    m.next = "RESPOND"
                    with m.If(request.operation == Operation.READ):
                        m.next = "VALUE"
            with m.State("VALUE"):
                m.d.comb += self.i_values.ready.eq(1)
                with m.If(self.i_values.valid):
                    m.d.sync += response.data.eq(self.i_values.payload)
                    m.next = "RESPOND"
            with m.State("WORDS"):
                m.d.sync += last.eq(request.sequence)
                m.next = "RESPOND"
                with m.If(request.argument == 0):
                    m.d.sync += response.data.eq(words.released)
                with m.Elif(words.found):
                    m.d.comb += words.select.eq(1)
                    m.d.sync += response.argument.eq(words.count)
                with m.Else():
                    self._refuse(m, response, LinkError.POSITION)
            with m.State("RESPOND"):
                self._respond(m, receiver, queue.i, response, left, words, acknowledges)
        return m

    def _received(self, m, receiver, response):
        """Connect the buffer of words from the host.

        Return whether a response to some is pending, which who sends it clears, and the statements
        that set the response.
        """
        m.submodules.received = received = WordReceiver(self.config)
        # The sequence number of the last frame.
        pending, number = Signal(), Signal(8)
        wiring.connect(m, received.o, wiring.flipped(self.o_words))
        m.d.comb += [
            received.position.eq(receiver.header.data),
            received.word.eq(receiver.word),
            received.write.eq(receiver.write),
            received.end.eq(receiver.end),
            received.good.eq(receiver.good),
        ]
        with m.If(receiver.good):
            m.d.sync += [pending.eq(1), number.eq(receiver.header.sequence)]
        return pending, [
            response.operation.eq(RESPONSE | Operation.SEND),
            response.sequence.eq(number),
            response.argument.eq(received.room),
            response.data.eq(received.accepted),
        ]

    def _decode(self, m, request, response, last):
        """Choose the next state for a request, and set the response of most."""
        is_new = request.sequence == (last + 1)[:8]
        m.d.sync += [
            response.operation.eq(RESPONSE | request.operation),
            response.sequence.eq(request.sequence),
            response.argument.eq(0),
            response.data.eq(request.data),
        ]
        m.next = "RESPOND"
        with m.If(request.operation == Operation.HELLO):
            m.d.sync += response.sequence.eq(last)
        with m.Elif(~is_new & (request.sequence != last)):
            m.d.sync += response.sequence.eq(last)
            self._refuse(m, response, LinkError.SEQUENCE)
        with m.Elif(request.operation == Operation.READ):
            m.next = "COMMAND"
        with m.Elif(request.operation == Operation.WRITE), m.If(is_new):
            m.next = "COMMAND"
        with m.Elif(request.operation == Operation.WORDS):
            m.next = "WORDS"
        with m.Else():
            m.d.sync += last.eq(request.sequence)
            self._refuse(m, response, LinkError.OPERATION)

    def _respond(self, m, receiver, out, response, left, words, acknowledges):
        """Send the response's bytes, then those of its words."""
        byte = out.payload
        m.d.comb += [
            out.valid.eq(1),
            byte.byte.eq(response.operation),
            byte.last.eq((left == 1) & (words.left == 0)),
        ]
        with m.If(out.ready):
            m.d.sync += [
                Value.cast(response).eq(Value.cast(response) >> 8),
                left.eq(left - 1),
            ]
            with m.If(byte.last):
                m.d.comb += receiver.o.ready.eq(~acknowledges)
                m.next = "IDLE"
            with m.Elif(left == 1):
                m.d.comb += words.step.eq(1)
                m.d.sync += [Value.cast(response).eq(words.word), left.eq(4)]

    def _refuse(self, m, response, reason):
        m.d.sync += [response.operation.eq(RESPONSE), response.data.eq(reason)]
