"""Configuration of the cache of 4-bit activations that lies in external memory."""

from dataclasses import dataclass
from itertools import accumulate

from seedbed.spec.checks import require_int, require_ints, require_power

__all__ = ["FORWARD_CACHE_KINDS", "FORWARD_CACHE_STATUS", "ForwardCacheConfig"]

#: What is asked for, by code.
FORWARD_CACHE_KINDS = ("fetch", "store", "clear")
#: How a request ended, by code: well, with an entry that is not there, with an index or kind that
#: does not exist, with an error that the memory answered, or with a frame of the wrong length.
FORWARD_CACHE_STATUS = ("done", "miss", "range", "memory", "frame")

#: Bits of a code, and the most bytes and beats that an AXI4 burst may span.
CODE, BOUNDARY, BURST = 4, 4096, 256


@dataclass(frozen=True, kw_only=True)
class ForwardCacheConfig:
    """An entry for each image: vectors of codes, and a peak for each block of a vector.

    In memory, an entry is whole beats: first the peaks of all vectors' blocks in order, the first
    one lowest, then each vector's codes, the first one lowest. What is left over of the peaks' last
    beat and of each vector's last beat is zero. Entry k begins at beat k ``beats``. A burst ends at
    every multiple of ``page`` beats: so none crosses a boundary of 4,096 bytes.

    Parameters
    ----------
    lengths
        Numbers of the vectors of an image, each 1..65536, 1..64 of them.
    entries
        Images, 1..65536.
    block
        Numbers a peak, whole beats of memory, up to 4096.
    peak_width
        Bits of a peak: 4, 8 or 16.
    beat_bits
        Bits of a beat of memory, a power of two, 32..1024.
    store_lanes, fetch_lanes
        Codes a beat of what is stored and of what is fetched, a power of two, 2 up to those of a
        beat of memory.
    burst
        The most beats of a burst, a power of two, 2..256: 16 for AXI3.
    drain_cycles
        After a reset, and after an answer that does not fit what was asked, the memory's beats are
        discarded until none has come for so many cycles, 1..65536.
    timeout_cycles
        Cycles that an outstanding burst is waited for since the memory's last beat, at least
        ``drain_cycles``, up to 2^24.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    Source: InstantFT, sections 3.1, 3.2 and 4.1; block, peaks and the layout are this project's.
    """

    lengths: tuple[int, ...] = (1176, 400, 120, 84, 10)
    entries: int = 1024
    block: int = 64
    peak_width: int = 16
    beat_bits: int = 128
    store_lanes: int = 32
    fetch_lanes: int = 8
    burst: int = BURST
    drain_cycles: int = 256
    timeout_cycles: int = 65536

    def __post_init__(self) -> None:
        lengths = require_ints("lengths", self.lengths, 1, 65536, least=1, most=64)
        object.__setattr__(self, "lengths", lengths)
        require_int("entries", self.entries, 1, 65536)
        require_power("beat_bits", self.beat_bits, 32, 1024)
        require_power("peak_width", self.peak_width, 4, 16)
        lanes = self.beat_bits // CODE
        require_int("block", self.block, lanes, 4096)
        if self.block % lanes:
            raise ValueError(
                f"block must be a multiple of the {lanes} codes of a beat of memory, "
                f"not {self.block}"
            )
        require_power("store_lanes", self.store_lanes, 2, lanes)
        require_power("fetch_lanes", self.fetch_lanes, 2, lanes)
        require_power("burst", self.burst, 2, BURST)
        require_int("drain_cycles", self.drain_cycles, 1, 65536)
        require_int("timeout_cycles", self.timeout_cycles, self.drain_cycles, 1 << 24)

    @property
    def vector_beats(self) -> tuple[int, ...]:
        """Beats of each vector's codes."""
        return tuple(-(-length * CODE // self.beat_bits) for length in self.lengths)

    @property
    def vector_blocks(self) -> tuple[int, ...]:
        """Blocks of each vector."""
        return tuple(-(-length // self.block) for length in self.lengths)

    @property
    def blocks(self) -> int:
        """Peaks of an entry."""
        return sum(self.vector_blocks)

    @property
    def beat_peaks(self) -> int:
        """Peaks that a beat holds."""
        return self.beat_bits // self.peak_width

    @property
    def peak_beats(self) -> int:
        """Beats of an entry's peaks."""
        return -(-self.blocks // self.beat_peaks)

    @property
    def code_beats(self) -> int:
        """Beats of an entry's codes."""
        return sum(self.vector_beats)

    @property
    def beats(self) -> int:
        """Beats of an entry."""
        return self.peak_beats + self.code_beats

    @property
    def store_pieces(self) -> int:
        """Beats at the input that make one of memory."""
        return self.beat_bits // CODE // self.store_lanes

    @property
    def fetch_pieces(self) -> int:
        """Beats at the output that one of memory makes."""
        return self.beat_bits // CODE // self.fetch_lanes

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat."""
        return self.beat_bits // 8

    @property
    def entry_bytes(self) -> int:
        """Bytes of an entry."""
        return self.beats * self.beat_bytes

    @property
    def bytes(self) -> int:
        """Bytes of all entries."""
        return self.entries * self.entry_bytes

    @property
    def address_bits(self) -> int:
        """Bits of the address of a beat."""
        return (max(2, self.entries * self.beats) - 1).bit_length()

    @property
    def page(self) -> int:
        """Beats between two places where a burst ends, a power of two."""
        return min(self.burst, BOUNDARY // self.beat_bytes)

    @property
    def block_ends(self) -> tuple[bool, ...]:
        """For each beat of codes, whether it is its block's last."""
        ends = set(accumulate(self.vector_beats))
        step = self.block * CODE // self.beat_bits
        found, place = [], 0
        for beat in range(1, self.code_beats + 1):
            place += 1
            found.append(place % step == 0 or beat in ends)
            place = 0 if beat in ends else place
        return tuple(found)

    def most_bursts(self, beats: int) -> int:
        """Return into how many bursts so many beats may fall."""
        return (beats + self.page - 2) // self.page + 1
