"""Where the multipliers and the memories of a large array stand on a device.

A placer spreads what is to stand together: it sees block memories and multipliers as points, and
moves them to sites, which stand in a few rows, in the end. Lines of a LeNet-5 fine-tuning core were
then half as long again, and could not be routed.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Columns", "arrange"]

_MEMORY = re.compile(r".*engine\.memory\.pair_(\d+)\.0\.(\d)")
_BANK = re.compile(r".*engine\.store\.bank_(\d+)\.0\.\d")
_MULTIPLIER = "MULT18X18D"
#: Cells between a memory's output and a multiplier: registers, and what chooses between two.
_BETWEEN = ("TRELLIS_FF", "LUT4", "PFUMX")


@dataclass(frozen=True)
class Columns:
    """Sites of multipliers and block memories, in rows of the same columns.

    Parameters
    ----------
    blocks
        X of the first column of each block of four.
    multipliers, memories
        Offsets of the four in a block, and the names of their sites.
    rows
        Y of each row of multipliers, and of the row of memories next to it.
    """

    blocks: tuple[int, ...]
    multipliers: tuple[tuple[int, str], ...]
    memories: tuple[tuple[int, str], ...]
    rows: tuple[tuple[int, int], ...]

    def sites(self, row: int) -> list[tuple[str, str]]:
        """Return the multiplier and the memory of each column of a row."""
        y, below = self.rows[row]
        fours = list(zip(self.multipliers, self.memories, strict=True))
        return [
            (f"X{x + dx}/Y{y}/{name}", f"X{x + ex}/Y{below}/{memory}")
            for x in self.blocks
            for (dx, name), (ex, memory) in fours
        ]


def arrange(module: dict[str, Any], columns: Columns) -> int:
    """Fix each lane's multipliers, and its parameters' memories, in columns of their own.

    ``module`` is yosys's JSON of a mapped core that has a
    :class:`~seedbed.hw.layer_engine.LayerEngine` with one memory a multiplier. Lanes go from left
    to right; three ways have a row each, and the lanes of another are spread over the rows, four
    and four. Returns how many multipliers have been fixed: none, where the core is another one or
    does not fit.
    """
    cells = module["cells"]
    lanes = sum(_BANK.fullmatch(name) is not None for name in cells)
    memories = {2 * int(k[1]) + int(k[2]): k[0] for k in map(_MEMORY.fullmatch, cells) if k}
    if not lanes or not memories:
        return 0
    multipliers = _multipliers(cells, {name: k for k, name in memories.items()})
    if multipliers.keys() != memories.keys():
        return 0
    ways, count = len(memories) // lanes, len(columns.rows)
    rows: list[list[int]] = [[] for _ in range(count)]
    for lane in range(lanes):
        for way in range(ways):
            row = way % count if way < ways - ways % count else lane // 4 % count
            rows[row].append(way * lanes + lane)
    if any(len(row) > len(columns.sites(0)) for row in rows):
        return 0
    for number, row in enumerate(rows):
        sites = columns.sites(number)
        for place, k in enumerate(row):
            # The free columns between them, for what else multiplies and remembers.
            bels = sites[(2 * place + 1) * len(sites) // (2 * len(row))]
            for name, bel in zip((multipliers[k], memories[k]), bels, strict=True):
                cells[name]["attributes"]["BEL"] = bel
    return len(memories)


def _multipliers(cells: dict[str, Any], memories: dict[str, int]) -> dict[int, str]:
    """Return the multiplier that most of each memory's bits go to."""
    drivers = {bit: name for name, bit in _ends(cells, "output")}
    found = {}
    for name, cell in cells.items():
        if cell["type"] != _MULTIPLIER:
            continue
        votes: Counter[int] = Counter()
        level = {name}
        for _ in range(5):
            bits = [
                bit
                for one in level
                for port, bits in cells[one]["connections"].items()
                if cells[one]["port_directions"][port] == "input" and port not in ("CE", "LSR")
                for bit in bits
            ]
            level = {drivers[bit] for bit in bits if bit in drivers} - level
            votes.update(memories[one] for one in level if one in memories)
            level = {one for one in level if cells[one]["type"] in _BETWEEN}
        if votes:
            found[votes.most_common(1)[0][0]] = name
    return found


def _ends(cells: dict[str, Any], direction: str) -> Iterator[tuple[str, Any]]:
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == direction:
                yield from ((name, bit) for bit in bits)
