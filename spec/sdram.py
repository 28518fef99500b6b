"""Configuration of the SDRAM controller, and the timing of the chips that it drives."""

from dataclasses import dataclass, fields
from math import ceil, floor, log2

from seedbed.spec.checks import require_choice, require_int, require_power

__all__ = ["SDRAM_CHIPS", "SdramChip", "SdramConfig"]

#: Refreshes after power-up, before the mode register is loaded.
POWER_UP_REFRESHES = 8
#: The longest burst of a chip, in words, that ends at a multiple of its length.
LONGEST = 8


@dataclass(frozen=True, kw_only=True)
class SdramChip:
    """Timing and geometry of an SDR SDRAM with words of 16 bits; times are in nanoseconds.

    Parameters
    ----------
    rcd, rp, ras, rc, rrd
        Activate to read or write; precharge to activate; activate to precharge; activate to
        activate of the same bank, and of another one.
    wr, rfc, mrd
        Last written word to precharge; refresh to any command; mode register to any command.
    ras_max
        The longest time for which a row may be open.
    refresh
        Mean interval of the refreshes.
    power_up
        From power-up to the first command.
    latency_2_mhz, latency_3_mhz
        The fastest clock with a CAS latency of 2, and of 3.
    row_bits, column_bits, bank_bits
        Address bits of rows, of columns and of banks.
    """

    rcd: float
    rp: float
    ras: float
    rc: float
    rrd: float
    wr: float
    rfc: float
    mrd: float
    ras_max: float = 100_000
    refresh: float = 64_000_000 / 8192
    power_up: float = 200_000
    latency_2_mhz: int = 100
    latency_3_mhz: int = 143
    row_bits: int = 13
    column_bits: int = 9
    bank_bits: int = 2


#: Chips of 32 MiB, from their data sheets: Alliance Memory AS4C16M16SA, rev. 3.0, table 16;
#: Micron MT48LC16M16A2, 256Mb SDR SDRAM, electrical characteristics. Two clock cycles of a data
#: sheet are those of the speed grade's fastest clock.
SDRAM_CHIPS = {
    "AS4C16M16SA-7": SdramChip(rcd=21, rp=21, ras=42, rc=63, rrd=14, wr=14, rfc=63, mrd=14),
    "MT48LC16M16A2-75": SdramChip(
        rcd=20, rp=20, ras=44, rc=66, rrd=15, wr=15, rfc=66, mrd=15, power_up=100_000,
        latency_3_mhz=133,
    ),
}  # fmt: skip

_SHORTEST = ("ras_max", "refresh", "latency_2_mhz", "latency_3_mhz")
#: The slowest value of each figure: boards of one name have chips of several makers.
SDRAM_CHIPS["slowest"] = SdramChip(
    **{
        field.name: (min if field.name in _SHORTEST else max)(
            getattr(chip, field.name) for chip in SDRAM_CHIPS.values()
        )
        for field in fields(SdramChip)
    }
)


@dataclass(frozen=True, kw_only=True)
class SdramConfig:
    """A controller of an SDR SDRAM, with a self-test, and a port that transfers bursts of beats.

    A beat is ``words`` words of 16 bits, the first one lowest. From its lowest bit, the address
    of a word is column, bank and row: a burst that leaves a row continues in the next bank.

    Parameters
    ----------
    clock_mhz
        Clock of controller and chip, up to that of the chip.
    beat_bits
        Bits of a beat, a power of two, 32..1024.
    read_beats
        Beats of the FIFO of what is read, a power of two, 4..256.
    pad_cycles
        Cycles that the pads add to a read, 0..4: one for each register, less one if the chip's
        clock is delayed by a part of a cycle.
    refresh_group
        Refreshes that are due before a burst is interrupted for them, 1..8.
    retention
        Refreshes between writing and reading of the self-test, 0..65535.
    power_up_us
        Microseconds from reset to the first command, 0..1000; at least those of the chip, unless
        something else waits for them.
    chip
        A name in :data:`SDRAM_CHIPS`.
    other
        The figures of another chip, or ``None``.

    Raises ``TypeError`` or ``ValueError`` with a sentence that names what is allowed.
    """

    clock_mhz: int = 60
    beat_bits: int = 64
    read_beats: int = 16
    pad_cycles: int = 1
    refresh_group: int = 4
    retention: int = 1024
    power_up_us: int = 200
    chip: str = "slowest"
    other: SdramChip | None = None

    def __post_init__(self) -> None:
        require_choice("chip", self.chip, SDRAM_CHIPS)
        if not isinstance(self.other, SdramChip | None):
            raise TypeError(f"other must be an SdramChip or None, not {self.other!r}")
        require_int("clock_mhz", self.clock_mhz, 1, self.figures.latency_3_mhz)
        require_power("beat_bits", self.beat_bits, 32, 1024)
        require_power("read_beats", self.read_beats, 4, 256)
        require_int("pad_cycles", self.pad_cycles, 0, 4)
        require_int("refresh_group", self.refresh_group, 1, 8)
        require_int("retention", self.retention, 0, 65535)
        require_int("power_up_us", self.power_up_us, 0, 1000)

    @property
    def figures(self) -> SdramChip:
        """The figures of the chip."""
        return self.other or SDRAM_CHIPS[self.chip]

    def cycles(self, time: float) -> int:
        """Return the cycles that last at least ``time`` nanoseconds, 1 or more."""
        return max(1, ceil(time * self.clock_mhz / 1000))

    @property
    def words(self) -> int:
        """Words of a beat."""
        return self.beat_bits // 16

    @property
    def burst(self) -> int:
        """Words of a read or write of the chip."""
        return min(self.words, LONGEST)

    @property
    def accesses(self) -> int:
        """Reads or writes of the chip for a beat."""
        return self.words // self.burst

    @property
    def word_bits(self) -> int:
        """Address bits of a word."""
        return self.figures.column_bits + self.figures.bank_bits + self.figures.row_bits

    @property
    def address_bits(self) -> int:
        """Address bits of a beat."""
        return self.word_bits - round(log2(self.words))

    @property
    def bytes(self) -> int:
        """Bytes of the memory."""
        return 2 << self.word_bits

    @property
    def latency(self) -> int:
        """CAS latency."""
        return 2 if self.clock_mhz <= self.figures.latency_2_mhz else 3

    @property
    def mode(self) -> int:
        """Value of the mode register: bursts of ``burst`` words in order, and the latency."""
        return round(log2(self.burst)) | self.latency << 4

    @property
    def refresh_cycles(self) -> int:
        """Cycles between two refreshes."""
        return floor(self.figures.refresh * self.clock_mhz / 1000)
