"""The host's side of the link: registers and streams of words of a board."""

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import serial

from seedbed.boards.registers import PROTOCOL
from seedbed.boards.sender import LinkFailure, Sender
from seedbed.golden.host_link import FrameError, Packet, decode, encode
from seedbed.spec.host_link import RESPONSE, LinkError, Operation

__all__ = ["Device", "LinkFailure"]

#: Requests that are sent at most before the board is said not to answer: at first, and later.
FIRST_ATTEMPTS, ATTEMPTS = 10, 200
#: Words of a response, at most; fewer while responses are damaged.
MOST_WORDS = 128


class Device:
    """An open link to a board, to be used in a ``with`` statement.

    A request is sent until its response arrives undamaged. A write is done once.

    Parameters
    ----------
    port
        The serial port, or the path of a virtual board.
    addresses
        Address of each register by name, see :func:`seedbed.boards.registers.addresses`.
    identifier
        That of the expected build, or ``None`` for any; of several, :attr:`identifier` is what was
        found.
    baud
        Bits a second. It has no meaning for a virtual board.
    timeout
        Seconds without a byte after which a request is sent again.

    Raises :class:`LinkFailure` for a port that is missing or in use, without an answer, and for
    another build.
    """

    def __init__(
        self,
        port: str,
        addresses: Mapping[str, int],
        *,
        identifier: int | Collection[int] | None = None,
        baud: int = 3_000_000,
        timeout: float = 0.2,
    ):
        self.port, self.addresses, self.timeout = port, addresses, timeout
        self.repeated = self.identifier = 0
        #: Shows words that are sent: of their number, a context with a function of how many are.
        self.shown: Callable[[int], AbstractContextManager[Callable[[int], object]]]
        self.shown = lambda count: nullcontext(lambda sent: None)
        self._block = MOST_WORDS
        self._received = bytearray()
        self._acknowledgements: deque[Packet] = deque()
        self._sequence = self._round = 0
        self._serial = _open(port, baud, timeout)
        try:
            self._sequence = self._hello()
            self._require(identifier)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the port. The board continues what it does."""
        self._serial.close()

    def read(self, name: str) -> int:
        """Return the value of a register."""
        return self._request(Operation.READ, self.addresses[name], 0).data

    def write(self, name: str, value: int) -> None:
        """Write a register, once."""
        self._request(Operation.WRITE, self.addresses[name], value)

    def position(self) -> int:
        """Return the position in the stream of the oldest word that the board stores."""
        return self._request(Operation.WORDS, 0, 0).data

    def words(self, position: int, count: int) -> list[int]:
        """Return words from ``position`` on, at most ``count``, or none if none is there.

        The board discards the words before ``position``. A line that damages long responses has
        short ones.
        """
        return self._request(Operation.WORDS, min(count, self._block), position).words

    def stream(self, position: int, count: int, *, patience: float = 30) -> Iterator[list[int]]:
        """Yield ``count`` words from ``position`` on, in lists as they arrive.

        The board stores a list until the next one is asked for. Raises :class:`LinkFailure` if no
        word comes for ``patience`` seconds.
        """
        limit = time.monotonic() + patience
        while count:
            words = self.words(position, count)
            if words:
                limit = time.monotonic() + patience
                yield words
            elif time.monotonic() > limit:
                raise LinkFailure(f"{self.port} sends no words: does the board run a job?")
            position = (position + len(words)) % 2**32
            count -= len(words)
        # It discards the last ones.
        self.words(position, 1)

    def stop(self) -> tuple[bool, int]:
        """End a job, and discard what is left of its words.

        For applications with the registers ``busy`` and ``stop``. Returns whether a job ran, and
        the position of the next job's first word.
        """
        ran = bool(self.read("busy"))
        if ran:
            self.write("stop", 1)
        position = self.position()
        while True:
            idle = not self.read("busy")
            left = self.words(position, MOST_WORDS)
            position = (position + len(left)) % 2**32
            if idle and not left:
                return ran, position

    def accepted(self) -> int:
        """Return the position in the stream to the board of the next word that it accepts."""
        return self._room().data

    def send(
        self,
        words: Sequence[int],
        *,
        meanwhile: Callable[[], object] | None = None,
        patience: float = 30,
    ) -> None:
        """Send words to the board, and return when it has accepted all of them, each once.

        Parameters
        ----------
        words
            Numbers of 32 bits without sign.
        meanwhile
            Called after each response, for example to read words of a board that accepts no more
            before.
        patience
            Seconds without an accepted word after which :class:`LinkFailure` is raised.
        """
        sender = Sender(self, words, self._room())
        try:
            with self.shown(len(words)) as progress:
                sender.run(meanwhile, patience, progress)
        finally:
            # A late response is not taken for one to the next round.
            self._round = sender.number

    def transmit(self, packet: Packet) -> None:
        """Send a request. The delimiter before the frame ends what noise may have begun."""
        try:
            self._serial.write(b"\0" + encode(packet.to_bytes()))
        except (serial.SerialException, OSError) as problem:
            raise LinkFailure(f"{self.port} was disconnected") from problem

    def acknowledgement(self, seconds: float) -> Packet | None:
        """Return the next response to words, or ``None`` after this time without a byte."""
        while not self._acknowledgements:
            frame = self._frame(seconds)
            if frame is None:
                return None
            try:
                packet = Packet.from_bytes(decode(frame))
            except FrameError:
                continue
            if packet.operation == RESPONSE | Operation.SEND:
                return packet
        return self._acknowledgements.popleft()

    def _room(self) -> Packet:
        """Ask for the next word that the board accepts, and for its room."""
        self._round = (self._round + 1) % 256
        response = self._exchange(Packet(Operation.SEND, self._round), attempts=ATTEMPTS)
        self._acknowledgements.clear()
        return response

    def _hello(self) -> int:
        """Return the sequence number of the last request of this host or of an earlier one."""
        nonce = int.from_bytes(os.urandom(4), "little")
        request = Packet(Operation.HELLO, 0, 0, nonce)
        return self._exchange(request, attempts=FIRST_ATTEMPTS).sequence

    def _require(self, identifier: int | Collection[int] | None) -> None:
        protocol, found = self.read("protocol"), self.read("identifier")
        self.identifier = found
        if protocol != PROTOCOL:
            raise LinkFailure(
                f"{self.port} has version {protocol} of the protocol, not {PROTOCOL}: load a "
                "bitstream of this version"
            )
        wanted = [identifier] if isinstance(identifier, int) else identifier
        if wanted is not None and found not in wanted:
            names = " or ".join(f"{each:08x}" for each in wanted)
            raise LinkFailure(
                f"{self.port} runs the build {found:08x}, not {names}: load the application's "
                "bitstream, built from the same sources and with the same parameters"
            )

    def _request(self, operation: int, argument: int, data: int) -> Packet:
        request = Packet(operation, (self._sequence + 1) % 256, argument, data)
        response = self._exchange(request, attempts=ATTEMPTS)
        if response.operation == RESPONSE:
            if response.data in (LinkError.SEQUENCE, LinkError.POSITION):
                raise LinkFailure(f"{self.port} was reset, or another program uses it")
            raise LinkFailure(
                f"{self.port} refused a request: wrong {LinkError(response.data).name.lower()}"
            )
        self._sequence = request.sequence
        return response

    def _exchange(self, request: Packet, *, attempts: int) -> Packet:
        for attempt in range(attempts):
            if attempt:
                self.repeated += 1
                if request.operation == Operation.WORDS and request.argument > 1:
                    # A long response is damaged more often than a short one.
                    self._block = max(1, request.argument // 2)
                    request = Packet(request.operation, request.sequence, self._block, request.data)
            elif request.operation == Operation.WORDS:
                self._block = min(MOST_WORDS, self._block + 1)
            self.transmit(request)
            response = self._response(request)
            if response is not None:
                return response
        raise LinkFailure(
            f"{self.port} does not answer: is the board on, with the application's bitstream?"
        )

    def _response(self, request: Packet) -> Packet | None:
        """Return the response to a request; ``None`` after a bad frame, or without any."""
        while (frame := self._frame(self.timeout)) is not None:
            try:
                packet = Packet.from_bytes(decode(frame))
            except FrameError:
                return None
            if packet.operation == RESPONSE | request.operation:
                if request.operation == Operation.HELLO:
                    if packet.data == request.data:
                        return packet
                elif packet.sequence == request.sequence:
                    return packet
            elif packet.operation == RESPONSE | Operation.SEND:
                self._acknowledgements.append(packet)
            elif packet.operation == RESPONSE and request.operation != Operation.HELLO:
                return packet
            # Another request's response, which came twice.
        return None

    def _frame(self, seconds: float) -> bytes | None:
        """Return the next frame, or ``None`` if no byte comes for this time."""
        while True:
            end = self._received.find(0)
            if end >= 0:
                frame = bytes(self._received[:end])
                del self._received[: end + 1]
                if frame:
                    return frame
                continue
            try:
                if self._serial.timeout != seconds:
                    self._serial.timeout = seconds
                new = self._serial.read(max(1, self._serial.in_waiting))
            except (serial.SerialException, OSError) as problem:
                raise LinkFailure(f"{self.port} was disconnected") from problem
            if not new:
                # The rest of a frame whose delimiter was lost.
                self._received.clear()
                return None
            self._received += new


def _open(port: str, baud: int, timeout: float) -> serial.Serial:
    try:
        opened = serial.Serial(port, baud, timeout=timeout, exclusive=True)
    except ValueError as problem:
        raise LinkFailure(f"{port} does not support {baud} baud") from problem
    except serial.SerialException as problem:
        if problem.errno == errno.ENOENT:
            raise LinkFailure(f"no port is called {port}: is the board connected?") from None
        if problem.errno in (errno.EAGAIN, errno.EBUSY):
            raise LinkFailure(f"{port} is in use by another program") from None
        if problem.errno == errno.EACCES:
            raise LinkFailure(f"{port} may not be opened by this user") from None
        raise LinkFailure(f"{port} is no serial port") from problem
    # The bridge's default is to wait 16 ms for more bytes.
    with suppress(ValueError, OSError, NotImplementedError, AttributeError):
        opened.set_low_latency_mode(True)
    opened.reset_input_buffer()
    return opened
