"""Levels of a step: what an update is, by the loss difference relative to its average."""

__all__ = ["AVERAGE_BITS", "LEVELS", "ONE", "require_levels"]

#: What an update is, by the magnitude d of a batch's loss difference and its average m: none where
#: 4 d < m, half a step where 4 d < 3 m, one where 2 d < 3 m, and else two.
LEVELS = ("none", "half", "one", "two")
#: The level of a whole step.
ONE = LEVELS.index("one")
#: Of the average of d: it moves by 2^-6 of the difference. The first batch is one step.
AVERAGE_BITS = 6


def require_levels(levels: object) -> None:
    """Refuse levels of a step but 1 and 4."""
    if isinstance(levels, bool) or levels not in (1, 4):
        raise ValueError(f"levels must be 1 or 4, not {levels!r}")
