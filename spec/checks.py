"""Checks of configuration values. An error names the value given and the values allowed."""

from collections.abc import Collection, Sequence

__all__ = [
    "is_zero",
    "require_bool",
    "require_choice",
    "require_int",
    "require_ints",
    "require_power",
]


def require_int(name: str, value: object, low: int, high: int) -> None:
    """Refuse ``value`` unless it is an integer in ``low .. high``.

    Raises ``TypeError`` for another type (``bool`` included) and ``ValueError`` for another range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer in {low}..{high}, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low}..{high}, not {value}")


def require_ints(
    name: str, values: object, low: int, high: int, *, least: int, most: int
) -> tuple[int, ...]:
    """Return ``values`` as a tuple; refuse all but ``least .. most`` integers in ``low .. high``.

    Raises as :func:`require_int`.
    """
    count = f"{least}" if least == most else f"{least}..{most}"
    allowed = f"{name} must be {count} integers in {low}..{high}"
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{allowed}, in a tuple, not {values!r}")
    if not least <= len(values) <= most:
        raise ValueError(f"{allowed}, not {len(values)} of them")
    for value in values:
        require_int(f"every one of {name}", value, low, high)
    return tuple(values)


def require_power(name: str, value: object, low: int, high: int) -> None:
    """Refuse ``value`` unless it is a power of two in ``low .. high``.

    Raises as :func:`require_int`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a power of two in {low}..{high}, not {value!r}")
    if not low <= value <= high or value & (value - 1):
        raise ValueError(f"{name} must be a power of two in {low}..{high}, not {value}")


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


def is_zero(value: object) -> bool:
    """Return whether ``value`` is the integer 0, which selects a default, and not ``False``."""
    return isinstance(value, int) and not isinstance(value, bool) and value == 0
