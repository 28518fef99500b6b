"""Model of an SDR SDRAM chip that checks its rules, for Amaranth's simulator."""

from collections import deque
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path

from seedbed.spec import SdramChip, SdramConfig

__all__ = ["RULES", "Fault", "RuleBroken", "SdramModel", "connect_chip", "figures"]

#: The rules that a model checks, in the order of its C++ twin.
RULES = (
    "power-up", "initialisation", "mode", "row", "tRCD", "tRP", "tRAS", "tRAS max", "tRC", "tRRD",
    "tWR", "tRFC", "tMRD", "refresh", "turnaround",
)  # fmt: skip
#: Refreshes that may be late: a data sheet allows any grouping within the retention time.
LATE = 9


class RuleBroken(AssertionError):
    """A command that the chip does not allow: the rule, and the cycle."""

    def __init__(self, rule: str, cycle: int, detail: str):
        super().__init__(f"{rule} in cycle {cycle}: {detail}")
        self.rule, self.cycle = rule, cycle


@dataclass(frozen=True)
class Fault:
    """A defect of a board: a pin of the address, or of the data, that is stuck at a level; cells
    that lose their contents after some nanoseconds. A stuck address pin is that of rows and columns
    only, so that the chip is initialised.
    """

    address: int | None = None
    data: int | None = None
    level: int = 0
    decay: float | None = None


@dataclass
class _Bank:
    row: int | None = None
    activated: int = -(10**9)
    precharged: int = -(10**9)
    written: int = -(10**9)


@dataclass
class SdramModel:
    """A chip. :meth:`step` is called once a clock cycle.

    Parameters
    ----------
    chip, clock_mhz
        Its figures, and its clock.
    fault
        What is broken, if anything.
    """

    chip: SdramChip
    clock_mhz: float
    fault: Fault = field(default_factory=Fault)

    def __post_init__(self) -> None:
        self.cycle = -1
        self.cells: dict[int, tuple[int, int]] = {}
        self.banks = [_Bank() for _ in range(1 << self.chip.bank_bits)]
        self.activated = self.refreshed = self.mode_set = -(10**9)
        self.precharged = False
        self.refreshes = 0
        self.configured: int | None = None
        self.burst, self.latency = 0, 0
        # Words that the chip drives, by cycle; and where the next word is written, and how many.
        self.driven: dict[int, int] = {}
        self.writing: tuple[int, int, int] | None = None

    def _require(self, rule: str, fine: bool, detail: str) -> None:
        if not fine:
            raise RuleBroken(rule, self.cycle, detail)

    def _after(self, rule: str, since: int, time: float) -> None:
        """Require so many nanoseconds since a cycle."""
        passed = (self.cycle - since) * 1000 / self.clock_mhz
        self._require(rule, passed >= time - 1e-6, f"{passed:.1f} ns, not {time:g}")

    def step(self, *, ras: int, cas: int, we: int, ba: int, a: int, dq: int | None) -> int | None:
        """Take a command (1 is active) and the level of the data pins, ``None`` if not driven.

        Return what the chip drives until the next call, or ``None``. Raises :class:`RuleBroken`.
        """
        self.cycle += 1
        self._refresh_interval()
        code = ras | cas << 1 | we << 2
        if self.fault.address is not None and code in (0b001, 0b010, 0b110):
            a = a & ~(1 << self.fault.address) | self.fault.level << self.fault.address
        if code:
            self._command(code, ba, a)
        if dq is not None:
            taken = self.driven.keys() & {self.cycle - 1, self.cycle - 2}
            self._require("turnaround", not taken, "the chip still drives the data pins")
            dq = self._stuck(dq)
        if self.writing:
            bank, address, left = self.writing
            self._require("row", dq is not None, "a written word is missing")
            self.cells[address] = (dq or 0, self.cycle)
            self.banks[bank].written = self.cycle
            self.writing = (bank, self._next(address), left - 1) if left > 1 else None
        word = self.driven.get(self.cycle)
        return None if word is None else self._stuck(word)

    def _stuck(self, word: int) -> int:
        if self.fault.data is None:
            return word
        return word & ~(1 << self.fault.data) | self.fault.level << self.fault.data

    def _refresh_interval(self) -> None:
        if self.configured is not None:
            due = (self.cycle - self.configured) * 1000 / self.clock_mhz / self.chip.refresh
            self._require("refresh", due - self.refreshes <= LATE, "overdue")
        for bank in self.banks:
            if bank.row is not None:
                open_for = (self.cycle - bank.activated) * 1000 / self.clock_mhz
                self._require("tRAS max", open_for <= self.chip.ras_max, "a row is open too long")

    def _command(self, code: int, ba: int, a: int) -> None:
        chip = self.chip
        self._after("power-up", 0, chip.power_up)
        self._after("tRFC", self.refreshed, chip.rfc)
        self._after("tMRD", self.mode_set, chip.mrd)
        if code == 0b101:
            for number, bank in enumerate(self.banks):
                if number == ba or a >> 10 & 1:
                    self._precharge(number, bank)
            self.precharged |= bool(a >> 10 & 1)
        elif code == 0b011:
            self._idle("tRP")
            self._require("initialisation", self.precharged, "no precharge of all banks yet")
            self.refreshed = self.cycle
            self.refreshes += 1
        elif code == 0b111:
            self._idle("tRP")
            fine = self.refreshes >= 2 and self.precharged
            self._require("initialisation", fine, "a mode before two refreshes")
            known = a & 7 in (0, 1, 2, 3) and a >> 4 & 7 in (2, 3) and not a & 0b1110001000
            self._require("mode", known, f"{a:#x}")
            fast = chip.latency_2_mhz if a >> 4 & 7 == 2 else chip.latency_3_mhz
            self._require("mode", self.clock_mhz <= fast, "the latency is too short")
            self.burst, self.latency = 1 << (a & 7), a >> 4 & 7
            self.mode_set = self.configured = self.cycle
            self.refreshes = 0
        else:
            self._require("initialisation", self.configured is not None, "no mode yet")
            bank = self.banks[ba]
            if code == 0b001:
                self._activate(bank, a)
            else:
                self._access(code == 0b110, ba, bank, a)

    def _idle(self, rule: str) -> None:
        for bank in self.banks:
            self._require("row", bank.row is None, "a row is open")
            self._after(rule, bank.precharged, self.chip.rp)

    def _precharge(self, number: int, bank: _Bank) -> None:
        if bank.row is not None:
            self._after("tRAS", bank.activated, self.chip.ras)
            writes = self.writing is not None and self.writing[0] == number
            self._require("tWR", not writes, "words are still written")
            self._after("tWR", bank.written, self.chip.wr)
            bank.precharged = self.cycle
        bank.row = None

    def _activate(self, bank: _Bank, a: int) -> None:
        self._require("row", bank.row is None, "a row is open")
        self._after("tRP", bank.precharged, self.chip.rp)
        self._after("tRC", bank.activated, self.chip.rc)
        self._after("tRRD", self.activated, self.chip.rrd)
        bank.row, bank.activated = a & (1 << self.chip.row_bits) - 1, self.cycle
        self.activated = self.cycle

    def _access(self, write: bool, ba: int, bank: _Bank, a: int) -> None:
        chip = self.chip
        self._require("row", bank.row is not None, "no row is open")
        self._after("tRCD", bank.activated, chip.rcd)
        column = a & (1 << chip.column_bits) - 1
        wraps = column % self.burst != 0 and self.fault.address is None
        self._require("row", not wraps, "a burst that wraps")
        row = bank.row or 0
        address = (row << chip.bank_bits | ba) << chip.column_bits | column
        self.writing = (ba, address, self.burst) if write else None
        if a >> 10 & 1:
            self._precharge_later(bank, write)
        first = self.cycle + self.latency - 1
        # A new access ends the one before.
        ends = self.cycle if write else first
        self.driven = {k: word for k, word in self.driven.items() if self.cycle - 2 <= k < ends}
        if not write:
            for k in range(self.burst):
                self.driven[first + k] = self._cell(address)
                address = self._next(address)

    def _precharge_later(self, bank: _Bank, write: bool) -> None:
        """Close a row after an access, as early as its times allow."""
        ends = self.cycle + self.burst
        if write:
            ends += self._cycles(self.chip.wr) - 1
        bank.precharged = max(ends, bank.activated + self._cycles(self.chip.ras))
        bank.row = None

    def _cycles(self, time: float) -> int:
        """Return the cycles that last at least so many nanoseconds."""
        return ceil(time * self.clock_mhz / 1000 - 1e-6)

    def _next(self, address: int) -> int:
        """Return the next address of a burst, which wraps at a multiple of its length."""
        low = self.burst - 1
        return address & ~low | (address + 1) & low

    def _cell(self, address: int) -> int:
        word, written = self.cells.get(address, (address * 0x9E37 & 0xFFFF, 0))
        age = (self.cycle - written) * 1000 / self.clock_mhz
        if self.fault.decay is not None and age > self.fault.decay:
            return word & 0xFF00
        return word


def connect_chip(pins, model: SdramModel, *, delay: int):
    """Return a background process that connects a chip to the pins of a controller.

    ``delay`` is the number of cycles that the pads add.
    """
    names = ("ras", "cas", "we", "ba", "a", "dq_o", "dq_oe")

    async def run(ctx) -> None:
        words: deque[int | None] = deque([None] * delay)
        async for _, _, *values in ctx.tick().sample(*(getattr(pins, name) for name in names)):
            ras, cas, we, ba, a, dq, driven = values
            words.append(model.step(ras=ras, cas=cas, we=we, ba=ba, a=a, dq=dq if driven else None))
            word = words.popleft()
            # Pins that nobody drives.
            ctx.set(pins.dq_i, 0xFFFF if word is None else word)

    return run


def figures(config: SdramConfig) -> dict[str, str]:
    """Return the model in C++ and its figures, as files by name."""
    values = [*asdict(config.figures).values(), config.clock_mhz]
    line = f"constexpr SdramFigures FIGURES{{{', '.join(map(str, values))}}};"
    return {
        "sdram_figures.h": f'#pragma once\n#include "sdram_chip.h"\n{line}\n',
        "sdram_chip.h": Path(__file__).with_suffix(".h").read_text(),
    }
