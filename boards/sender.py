"""The host's side of the stream to a board: several frames in flight."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from seedbed.golden.host_link import Packet
from seedbed.spec.host_link import Operation

__all__ = ["LinkFailure", "Sender"]

#: Words of a frame at first and at most, and frames in flight at most.
FIRST_WORDS, MOST_WORDS, WINDOW = 32, 128, 8
#: Seconds between two questions for room, and for which a response is waited at most.
POLL, LONGEST = 0.005, 2.0


class LinkFailure(RuntimeError):
    """The board does not answer, or is not the expected one; the message says which."""


class Line(Protocol):
    """What a sender needs of a device."""

    port: str
    timeout: float
    repeated: int

    def transmit(self, packet: Packet) -> None:
        """Send a request."""

    def acknowledgement(self, seconds: float) -> Packet | None:
        """Return a response to words, or ``None`` if none comes in this time."""


class Sender:
    """Sends words until the board has accepted them all.

    A response says which word is the next one that the board accepts, and how many it has room for.
    All frames after a lost one are sent again: go-back-N. The sequence number is that of such a
    round. A response to a frame of the current round that accepts nothing means that a frame
    before it was lost.

    Parameters
    ----------
    line
        The open link.
    words
        The words.
    start
        The response to a request without words: the position of the first word, and the room.
    """

    def __init__(self, line: Line, words: Sequence[int], start: Packet):
        self.line, self.words = line, words
        self.position, self.room, self.number = start.data, start.argument, start.sequence
        # Words that are accepted, sent in this round, and sent at all.
        self.done = self.sent = self.most = 0
        self.block = FIRST_WORDS
        # The end and the time of each frame in flight, and the mean time to a response.
        self.flight: deque[tuple[int, float]] = deque()
        self.delay = 0.0
        self.backoff = 1

    def run(
        self,
        meanwhile: Callable[[], object] | None,
        patience: float,
        progress: Callable[[int], object] = lambda sent: None,
    ) -> None:
        """Send words; call ``meanwhile`` after each response, and ``progress`` with their number.

        Raises :class:`LinkFailure` if no word is accepted for ``patience`` seconds.
        """
        limit = time.monotonic() + patience
        while self.done < len(self.words):
            before = self.done
            if not self._fill():
                time.sleep(POLL)
                self._transmit(0)
            wait = max(self.line.timeout, 4 * self.delay) * self.backoff
            # A response that was lost does not come later, however slow the board was before.
            wait = min(wait, max(LONGEST, self.line.timeout))
            packet = self.line.acknowledgement(wait)
            if packet is None:
                self.backoff = min(32, 2 * self.backoff)
                self._go_back()
            else:
                self._accept(packet)
            if meanwhile:
                meanwhile()
            if self.done > before:
                progress(self.done)
                limit = time.monotonic() + patience
            elif time.monotonic() > limit:
                raise LinkFailure(f"{self.line.port} accepts no words: does the board run a job?")

    def _fill(self) -> bool:
        """Send what the window and the board have room for; return whether words are in flight."""
        stop = min(len(self.words), self.done + self.room)
        while self.sent < stop and len(self.flight) < WINDOW:
            self._transmit(min(self.block, stop - self.sent))
        return bool(self.flight)

    def _transmit(self, count: int) -> None:
        part = [int(word) for word in self.words[self.sent : self.sent + count]]
        position = (self.position + self.sent) % 2**32
        self.line.transmit(Packet(Operation.SEND, self.number, 0, position, part))
        if count:
            self.sent += count
            self.flight.append((self.sent, time.monotonic()))
        self.most = max(self.most, self.sent)

    def _accept(self, packet: Packet) -> None:
        """Update what was accepted from a response."""
        accepted = (packet.data - self.position) % 2**32
        if not self.done <= accepted <= self.most:
            raise LinkFailure(f"{self.line.port} was reset, or another program uses it")
        self.room = packet.argument
        if accepted > self.done:
            self.done, self.sent = accepted, max(accepted, self.sent)
            while self.flight and self.flight[0][0] <= accepted:
                self.delay += (time.monotonic() - self.flight.popleft()[1] - self.delay) / 4
            self.block = min(MOST_WORDS, self.block + 1 + self.block // 8)
            self.backoff = 1
        elif packet.sequence == self.number and self.flight:
            self._go_back()

    def _go_back(self) -> None:
        """Begin a round with the first word that was not accepted, in shorter frames."""
        self.line.repeated += 1
        self.number = (self.number + 1) % 256
        self.sent = self.done
        self.flight.clear()
        self.block = max(4, self.block // 2)
