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
        return Packet(operation, following, argument, self.random.getrandbits(32))


def _damaged(frame: bytes, random: Random) -> bytes:
    """Return a frame with a wrong, a missing or an additional byte."""
    place = random.randrange(len(frame) - 1)
    other = bytes([random.choice([b for b in range(256) if b != frame[place]])])
    before, after = frame[:place], frame[place + 1 :]
    doubled = before + frame[place : place + 1] * 2 + after
    return random.choice([before + other + after, before + after, doubled])


def case(config: HostLinkConfig, random: Random, *, requests: int = 12) -> Case:
    """Return alternating phases of words and of requests.

    How many words a response has depends on how many were accepted: the phases keep them in order.
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
                Packet(request.operation, (request.sequence + 7) % 256),
                Packet(Operation.WORDS, request.sequence, 1, random.getrandbits(32)),
                Packet(99, request.sequence),
            ]
        )
        good = encode(request.to_bytes())
        longer = encode(request.to_bytes() + bytes(4))
        frames = [_damaged(good, random), good, good, longer, b"\0"]
        frames.append(encode(wrong.to_bytes()))
        before = len(board.commands), len(board.values)
        answers = b"".join(
            board.model.answer(frame) for part in frames for frame in part.split(b"\0")[:-1]
        )
        phases.append(
            Phase(
                inputs={"i": list(b"".join(frames)), "i_values": board.values[before[1] :]},
                outputs={"o": list(answers), "o_commands": board.commands[before[0] :]},
            )
        )
    return Case(phases=phases, quiet=True, retains=True)
