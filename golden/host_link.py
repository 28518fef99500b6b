"""Golden model of the host link: frames by COBS and CRC-32, and the answers to requests."""

from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from seedbed.spec.host_link import PACKET_BYTES, RESPONSE, HostLinkConfig, LinkError, Operation

__all__ = ["FrameError", "HostLink", "Packet", "decode", "encode"]

#: Nonzero bytes of the longest COBS group.
GROUP = 254


class FrameError(ValueError):
    """The bytes are no valid frame: they were damaged on the line, or are incomplete."""


@dataclass(frozen=True)
class Packet:
    """A request or a response; ``argument`` is an address or a count, see ``spec.host_link``."""

    operation: int
    sequence: int
    argument: int = 0
    data: int = 0
    words: list[int] = field(default_factory=list)

    def to_bytes(self) -> bytes:
        """Return the bytes without CRC and framing."""
        parts = [(self.operation, 1), (self.sequence, 1), (self.argument, 2), (self.data, 4)]
        parts += [(word, 4) for word in self.words]
        return b"".join(value.to_bytes(width, "little") for value, width in parts)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Packet":
        """Return the packet of these bytes; raise :class:`FrameError` for a wrong length."""
        if len(raw) < PACKET_BYTES or len(raw) % 4:
            raise FrameError(f"a packet must have 8, 12, 16, ... bytes, not {len(raw)}")
        words = [int.from_bytes(raw[k : k + 4], "little") for k in range(4, len(raw), 4)]
        return cls(raw[0], raw[1], int.from_bytes(raw[2:4], "little"), words[0], words[1:])


def encode(raw: bytes) -> bytes:
    """Return the frame of ``raw``: its CRC-32 appended, coded by COBS, and the delimiter 0."""
    raw += crc32(raw).to_bytes(4, "little")
    frame = bytearray()
    *groups, last = raw.split(b"\0")
    for group in groups:
        # No zero is implied after a group of the greatest length, so that another one follows it.
        while len(group) >= GROUP:
            frame += bytes([GROUP + 1]) + group[:GROUP]
            group = group[GROUP:]
        frame += bytes([len(group) + 1]) + group
    while len(last) > GROUP:
        frame += bytes([GROUP + 1]) + last[:GROUP]
        last = last[GROUP:]
    frame += bytes([len(last) + 1]) + last
    return bytes(frame) + b"\0"


def decode(frame: bytes) -> bytes:
    """Return what :func:`encode` coded, from a frame without its delimiter.

    Raises :class:`FrameError` for a frame that is incomplete, or whose CRC is wrong.
    """
    raw = bytearray()
    position = 0
    while position < len(frame):
        code = frame[position]
        group = frame[position + 1 : position + code]
        position += code
        if 0 in (code, *group) or len(group) != code - 1:
            raise FrameError("the frame is damaged or incomplete")
        raw += group
        if code <= GROUP and position < len(frame):
            raw.append(0)
    content, crc = bytes(raw[:-4]), bytes(raw[-4:])
    if len(raw) < 4 or crc32(content).to_bytes(4, "little") != crc:
        raise FrameError("the CRC of the frame is wrong")
    return content


class HostLink:
    """The answers of :class:`seedbed.hw.host.host_link.HostLink` to frames.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.HostLinkConfig`.
    read
        Called with an address; returns the value of the register.
    write
        Called with an address and a value.
    """

    def __init__(
        self,
        config: HostLinkConfig,
        *,
        read: Callable[[int], int],
        write: Callable[[int, int], None],
    ):
        self.config, self.read, self.write = config, read, write
        self.sequence = 0
        self.words: list[int] = []
        self.released = 0
        self.received: list[int] = []
        self.accepted = 0

    def push(self, word: int) -> bool:
        """Append a word to the stream; return ``False`` if the buffer is full."""
        accepted = len(self.words) < self.config.depth
        if accepted:
            self.words.append(word)
        return accepted

    def pop(self) -> int | None:
        """Return the next word from the host, or ``None`` if none is stored."""
        return self.received.pop(0) if self.received else None

    def answer(self, frame: bytes) -> bytes:
        """Return the answer to a frame without its delimiter, which is empty for a bad one."""
        try:
            raw = decode(frame)
        except FrameError:
            return b""
        if len(raw) < PACKET_BYTES or len(raw) % 4:
            return b""
        request = Packet.from_bytes(raw)
        if request.words and request.operation != Operation.SEND:
            return b""
        return encode(self.respond(request).to_bytes())

    def respond(self, request: Packet) -> Packet:
        """Return the response to a request, and do what it asks for."""
        operation, sequence = request.operation, request.sequence
        if operation == Operation.HELLO:
            return Packet(RESPONSE | operation, self.sequence, 0, request.data)
        if operation == Operation.SEND:
            return self._send(request)
        following = (self.sequence + 1) % 256
        if sequence not in (self.sequence, following):
            return Packet(RESPONSE, self.sequence, 0, LinkError.SEQUENCE)
        is_new = sequence == following
        self.sequence = sequence
        if operation == Operation.READ:
            value = self.read(request.argument)
            return Packet(RESPONSE | operation, sequence, 0, value)
        if operation == Operation.WRITE:
            if is_new:
                self.write(request.argument, request.data)
            return Packet(RESPONSE | operation, sequence, 0, request.data)
        if operation == Operation.WORDS:
            return self._words(request)
        return Packet(RESPONSE, sequence, 0, LinkError.OPERATION)

    def _words(self, request: Packet) -> Packet:
        position, count = request.data, request.argument
        if count == 0:
            return Packet(RESPONSE | Operation.WORDS, request.sequence, 0, self.released)
        first = (position - self.released) % 2**32
        if first > len(self.words):
            return Packet(RESPONSE, request.sequence, 0, LinkError.POSITION)
        del self.words[:first]
        self.released = position
        words = self.words[:count]
        return Packet(RESPONSE | Operation.WORDS, request.sequence, len(words), position, words)

    def _send(self, request: Packet) -> Packet:
        room = self.config.receive_depth - len(self.received)
        if request.data == self.accepted and len(request.words) <= room:
            self.received += request.words
            self.accepted = (self.accepted + len(request.words)) % 2**32
            room -= len(request.words)
        operation = RESPONSE | Operation.SEND
        return Packet(operation, request.sequence, room, self.accepted)
