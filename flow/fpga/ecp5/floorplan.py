"""Floorplan of the multipliers and block memories of a large MAC array.

An analytical placer treats block memories and multipliers as points and legalises them to their
few rows of sites at the end, which separates connected cells. For a LeNet-5 fine-tuning core, nets
became 1.5 times as long and routing failed.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from seedbed.flow.fpga.ecp5.multiplier_registers import MULTIPLIER

__all__ = ["Columns", "arrange"]

_MEMORY = re.compile(r".*pipeline\.memory\.pair_(\d+)\.(\d+)\.(\d+)")
_BANK = re.compile(r".*pipeline\.store\.bank_\d+\.0\.0")
#: Cells between a memory's output and a multiplier: registers, multiplexers, adders.
_BETWEEN = ("TRELLIS_FF", "LUT4", "PFUMX", "CCU2C")
_DEPTH = 8
_SHARED = ("CE", "CLK", "LSR", "RST")


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
        """Return the multiplier site and the memory site of each column of a row."""
        y, below = self.rows[row]
        fours = list(zip(self.multipliers, self.memories, strict=True))
        return [
            (f"X{x + dx}/Y{y}/{name}", f"X{x + ex}/Y{below}/{memory}")
            for x in self.blocks
            for (dx, name), (ex, memory) in fours
        ]


def arrange(module: dict[str, Any], columns: Columns) -> dict[str, str]:
    """Return a site for each lane's multipliers and parameter memories, by cell name.

    ``module`` is yosys's JSON of a mapped core that has a
    :class:`~seedbed.hw.engine.inference_pipeline.InferencePipeline` with as many multipliers for
    each memory of parameters, found by the names of its submodules. The multipliers of a memory are
    neighbours. Lanes run from left to right. Three ways have a row each; the lanes of a fourth are
    distributed over the rows in groups of four memories. Returns an empty dictionary if the core is
    another one or does not fit.
    """
    cells = module["cells"]
    lanes = sum(_BANK.fullmatch(name) is not None for name in cells)
    # Two per pair of lanes, more for a deeper memory, one for a shallower or narrower one.
    matches = filter(None, map(_MEMORY.fullmatch, cells))
    memories = [k[0] for k in sorted(matches, key=lambda k: [int(part) for part in k.groups()])]
    multipliers = _multipliers(cells, memories)
    each = min(map(len, multipliers.values()), default=0)
    if not each or any(len(names) != each for names in multipliers.values()):
        return {}
    if lanes % each or not lanes or len(memories) % (lanes // each):
        return {}
    lanes //= each
    ways, count = len(memories) // lanes, len(columns.rows)
    rows: list[list[str]] = [[] for _ in range(count)]
    for lane in range(lanes):
        for way in range(ways):
            row = way % count if way < ways - ways % count else lane // 4 % count
            rows[row].append(memories[way * lanes + lane])
    places: dict[str, str] = {}
    for number, chosen in enumerate(rows):
        sites = columns.sites(number)
        room = len(sites) // each
        if len(chosen) > room:
            return {}
        for place, memory in enumerate(chosen):
            # Unused columns are evenly spaced, for other multipliers and memories.
            first = (2 * place + 1) * room // (2 * len(chosen)) * each
            bels = sites[first : first + each]
            places |= {name: bel for name, (bel, _) in zip(multipliers[memory], bels, strict=True)}
            places[memory] = bels[0][1]
    return places


def _multipliers(cells: dict[str, Any], memories: list[str]) -> dict[str, list[str]]:
    """Return the multipliers that each memory drives, more than any other memory does."""
    drivers = {bit: name for name, cell in cells.items() for bit in _bits(cell, "output")}
    found: dict[str, list[str]] = {name: [] for name in memories}
    for name, cell in cells.items():
        if cell["type"] != MULTIPLIER:
            continue
        votes: Counter[str] = Counter()
        level = {name}
        for _ in range(_DEPTH):
            bits = [bit for one in level for bit in _bits(cells[one], "input")]
            level = {drivers[bit] for bit in bits if bit in drivers}
            votes.update(one for one in level if one in found)
            level = {one for one in level if cells[one]["type"] in _BETWEEN}
        if votes:
            found[votes.most_common(1)[0][0]].append(name)
    return found


def _bits(cell: dict[str, Any], direction: str) -> Iterator[Any]:
    """Yield the nets at a cell's ports, without clock, enable and reset."""
    for port, bits in cell["connections"].items():
        if cell["port_directions"][port] == direction and not port.startswith(_SHARED):
            yield from bits
