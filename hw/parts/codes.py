"""Codes of named kinds and statuses."""

from collections.abc import Sequence

__all__ = ["codes"]


def codes(names: Sequence[str]) -> dict[str, int]:
    """Return the code of each name: its place."""
    return {name: code for code, name in enumerate(names)}
