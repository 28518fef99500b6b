"""Golden model of the levels of a step: by the loss difference relative to its average."""

from seedbed.spec.step_levels import AVERAGE_BITS, LEVELS, ONE

__all__ = ["StepLevels"]


class StepLevels:
    """Finds the level of each batch; its state is the average, in 2^-6."""

    def __init__(self) -> None:
        self.average: int | None = None

    def begin(self) -> None:
        """Begin a job: its first batch is one step, and begins the average."""
        self.average = None

    def level(self, difference: int) -> int:
        """Return the level of a batch's loss difference, an index of :data:`LEVELS`."""
        size = abs(difference)
        if self.average is None:
            self.average = size << AVERAGE_BITS
            return ONE
        mean = self.average >> AVERAGE_BITS
        self.average += size - mean
        if 4 * size < mean:
            return LEVELS.index("none")
        if 4 * size < 3 * mean:
            return LEVELS.index("half")
        return ONE if 2 * size < 3 * mean else LEVELS.index("two")
