"""Time of a job on a board, of its cycles, its clock and what it moves to and from memory."""

from dataclasses import dataclass

__all__ = ["Prediction", "predict"]


@dataclass(frozen=True)
class Prediction:
    """Seconds of a job.

    Parameters
    ----------
    core_s
        Of the core alone: cycles / clock.
    memory_s
        Of the memory alone: bytes / bandwidth.
    """

    core_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        """The longer of both: a core that streams from memory overlaps the two."""
        return max(self.core_s, self.memory_s)

    @property
    def waiting(self) -> float:
        """Share of the time in which the core waits for memory."""
        return 1 - self.core_s / self.seconds


def predict(
    *, cycles: float, clock_mhz: float, octets: float, bits: int, memory_mhz: float, share: float
) -> Prediction:
    """Return the time of a job.

    The bandwidth is ``bits / 8 * memory_mhz * share`` bytes a microsecond: a single data rate
    memory transfers a word of ``bits`` a cycle, except for activations and refreshes.

    Parameters
    ----------
    cycles, clock_mhz
        Clock cycles of the core, and its clock.
    octets
        Bytes to and from memory; 0 if all memory is on the chip.
    bits, memory_mhz, share
        Width of the memory, its clock, and the share of its peak that is reached, above 0 to 1.

    Raises
    ------
    ValueError
        If a clock, the share or the width is not positive, a count is negative, or both are 0.
    """
    if min(clock_mhz, memory_mhz, bits) <= 0 or not 0 < share <= 1:
        raise ValueError("clocks and width must be positive, and the share above 0 and at most 1")
    if min(cycles, octets) < 0 or not cycles + octets:
        raise ValueError("cycles and bytes must not be negative, and one of them not 0")
    return Prediction(cycles / clock_mhz / 1e6, octets * 8 / (bits * memory_mhz * share) / 1e6)
