"""Golden model of the SDRAM controller: a memory of beats, and what a faulty board shows."""

import numpy as np

from seedbed.spec import SdramConfig

__all__ = ["Sdram", "lines_of_pin", "located"]


class Sdram:
    """A memory that bursts of beats write and read.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        self.cells = np.zeros((1 << config.address_bits, config.words), np.uint16)

    def write(self, address: int, beats: np.ndarray) -> None:
        """Write beats, uint16 of shape (beats, words) with the first word lowest, from a beat on.

        What does not fit at the end of the memory is written at its start.
        """
        self.cells[(address + np.arange(len(beats))) % len(self.cells)] = beats

    def read(self, address: int, count: int) -> np.ndarray:
        """Return ``count`` beats from an address on, uint16 of shape (count, words)."""
        return self.cells[(address + np.arange(count)) % len(self.cells)]

    def responses(self, lengths: list[int], lasts: list[list[bool]]) -> list[bool]:
        """Return the error of the response to each written burst.

        ``lengths`` are the bursts' beats, and ``lasts`` says for each of them at which beats
        ``last`` was.
        """
        return [
            last != [False] * (length - 1) + [True]
            for length, last in zip(lengths, lasts, strict=True)
        ]


def located(config: SdramConfig, address: int) -> tuple[int, int, int]:
    """Return bank, row and first column of the beat at an address."""
    chip = config.figures
    place, column = divmod(address * config.words, 1 << chip.column_bits)
    row, bank = divmod(place, 1 << chip.bank_bits)
    return bank, row, column


def lines_of_pin(config: SdramConfig, pin: int) -> int:
    """Return, as a number of ones, the bits of a beat's address that an address pin carries.

    A pin carries a bit of the row, and one of the column if there are as many columns.
    """
    lines = 0
    for bit in range(config.address_bits):
        _, row, column = located(config, 1 << bit)
        lines |= (row >> pin & 1 | (column >> pin & 1)) << bit
    return lines
