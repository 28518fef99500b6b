"""Configuration and frame layout of the host link."""

from dataclasses import dataclass
from enum import IntEnum

from seedbed.spec.checks import require_power

__all__ = ["PACKET_BYTES", "RESPONSE", "HostLinkConfig", "LinkError", "Operation"]

#: Bytes of a request or a response before its words: operation, sequence number, address or count
#: (2, little-endian) and data (4, little-endian). The CRC-32 (4, little-endian) comes last.
PACKET_BYTES = 8
#: Bit of the operation that distinguishes a response from a request.
RESPONSE = 0x80


class Operation(IntEnum):
    """First byte of a request.

    ``HELLO`` returns its data and the last sequence number, and changes no state. ``READ`` returns
    the register at the address. ``WRITE`` writes the data to it. ``WORDS`` returns up to ``count``
    words of the stream from the position in the data, and discards the words before it; with a
    count of 0 it only returns the position of the oldest word. ``SEND`` has words for the device,
    from the position in the data; the response has the position of the next word that the device
    accepts, and in place of the count how many it has room for.
    """

    HELLO = 1
    READ = 2
    WRITE = 3
    WORDS = 4
    SEND = 5


class LinkError(IntEnum):
    """Data of a response whose operation is 0: why a request was refused.

    ``SEQUENCE``: the sequence number is neither that of the last request nor the next one.
    ``OPERATION``: there is no such operation. ``POSITION``: words at this position were discarded,
    or were not yet accepted.
    """

    SEQUENCE = 1
    OPERATION = 2
    POSITION = 3


@dataclass(frozen=True, kw_only=True)
class HostLinkConfig:
    """A bridge from frames of bytes to registers and to streams of words in both directions.

    Parameters
    ----------
    depth
        Words of 32 bits in the buffer of the stream to the host, a power of two in 4..4096.
    receive_depth
        The same of the stream from the host.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    depth: int = 512
    receive_depth: int = 1024

    def __post_init__(self) -> None:
        for name in ("depth", "receive_depth"):
            require_power(name, getattr(self, name), 4, 4096)
