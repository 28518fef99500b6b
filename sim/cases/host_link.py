"""Case of the host link: requests, some of them damaged or repeated, and words of the stream."""

from random import Random

from seedbed.golden.host_link import HostLink, Packet, encode
from seedbed.sim.case import Case, Phase
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import Operation

__all__ = ["case"]

#: Words of a phase, at most.
WORDS = 12


class _Board:
    """The model with random registers; records what crosses the ports."""

    def __init__(self, config: HostLinkConfig, random: Random):
        self.random = random
        self.commands: list[int] = []
        self.values: list[int] = []
        self.model = HostLink(config, read=self.read, write=self.write)

    def read(self, address: int) -> int:
        # The request's data is part of the command, though a read does not use it: it is 0 here.
        self.commands.append(address << 1)
        self.values.append(self.random.getrandbits(32))
        return self.values[-1]

    def write(self, address: int, value: int) -> None:
        self.commands.append(1 | address << 1 | value << 17)

    def request(self) -> Packet:
        """Return a random request that the model would execute."""
        operation = self.random.choice(list(Operation))
        following = (self.model.sequence + 1) % 256
        if operation == Operation.READ:
            return Packet(operation, following, self.random.getrandbits(16))
        if operation == Operation.WORDS:
            step = self.random.randint(0, len(self.model.words))
            position = (self.model.released + step) % 2**32
            return Packet(operation, following, self.random.randint(0, WORDS), position)
        argument = self.random.choice([0, self.random.getrandbits(16)])
        if operation == Operation.SEND:
            return self.send()
        return Packet(operation, following, argument, self.random.getrandbits(32))

    def send(self) -> Packet:
        """Return a random request with words for the board; at times, they do not fit."""
        room = self.model.config.receive_depth - len(self.model.received)
        words = [self.random.choice([0, self.random.getrandbits(32)]) for _ in range(WORDS)]
        words = words[: self.random.choice([0, room, room + 1, self.random.randint(0, WORDS)])]
        wrong = self.random.choice([0, 0, 0, -1, 1])
        position = (self.model.accepted + wrong) % 2**32
        sequence = self.random.getrandbits(8)
        return Packet(Operation.SEND, sequence, 0, position, words)

    def phase(self, frames: list[bytes]) -> Phase:
        """Return the phase of requests, one after the other."""
        commands, values = len(self.commands), len(self.values)
        parts = [part for frame in frames for part in frame.split(b"\0")[:-1]]
        answers = b"".join(map(self.model.answer, parts))
        return Phase(
            inputs={"i": list(b"".join(frames)), "i_values": self.values[values:]},
            outputs={"o": list(answers), "o_commands": self.commands[commands:]},
        )


def _damaged(frame: bytes, random: Random) -> bytes:
    """Return a frame with a wrong, a missing or an additional byte."""
    place = random.randrange(len(frame) - 1)
    other = bytes([random.choice([b for b in range(256) if b != frame[place]])])
    before, after = frame[:place], frame[place + 1 :]
    doubled = before + frame[place : place + 1] * 2 + after
    return random.choice([before + other + after, before + after, doubled])


def case(config: HostLinkConfig, random: Random, *, requests: int = 12) -> Case:
    """Return alternating phases of words, of requests, and of words that the board takes.

    How many words a response has depends on how many were accepted, and how much room on how many
    were taken: the phases keep them in order.
    """
    board = _Board(config, random)
    phases = []
    for _ in range(requests):
        sent = [random.getrandbits(32) for _ in range(random.randint(0, WORDS))]
        phases.append(Phase(inputs={"i_words": [word for word in sent if board.model.push(word)]}))
        request = board.request()
        # A sequence number out of order, a position that is not stored, or no operation.
        wrong = random.choice(
            [
                Packet(Operation.READ, (request.sequence + 7) % 256),
                Packet(Operation.WORDS, request.sequence, 1, random.getrandbits(32)),
                Packet(99, request.sequence),
            ]
        )
        good = encode(request.to_bytes())
        longer = encode(Packet(Operation.READ, request.sequence).to_bytes() + bytes(4))
        phases.append(board.phase([_damaged(good, random), good]))
        # Two requests with words, without a pause, may have one response.
        phases.append(board.phase([good, longer, b"\0", encode(wrong.to_bytes())]))
        taken = [board.model.pop() for _ in range(random.randint(0, len(board.model.received)))]
        phases.append(Phase(outputs={"o_words": [word for word in taken if word is not None]}))
    phases.append(Phase(outputs={"o_words": board.model.received}))
    return Case(phases=phases, quiet=True, retains=True)
