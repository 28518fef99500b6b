"""Checks that every configuration shares: what was given, and what is allowed, in one sentence."""

from collections.abc import Collection

__all__ = ["require_bool", "require_choice", "require_int"]


def require_int(name: str, value: object, low: int, high: int) -> None:
    """Refuse ``value`` unless it is an integer in ``low .. high``.

    Raises ``TypeError`` for another type (``bool`` included) and ``ValueError`` for another range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer in {low}..{high}, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low}..{high}, not {value}")


def require_bool(name: str, value: object) -> None:
    """Refuse ``value`` unless it is ``True`` or ``False``."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def require_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Refuse ``value`` unless it is one of the strings in ``allowed``."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
