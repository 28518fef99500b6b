"""Rates of a training: a ladder, climbed from a first guess until both neighbours are worse."""

from collections.abc import Mapping
from math import log

__all__ = ["RATES", "best", "untried"]

#: With a factor of three, the best rate is less than 1.8 times from one of these.
RATES = tuple(float(f"{digit}e{power}") for power in range(-12, 2) for digit in (1, 3))


def best(tried: Mapping[float, float | None]) -> float:
    """Return the rate with the lowest result; the lowest rate if all diverge, which is ``None``."""
    return min(tried, key=lambda rate: (tried[rate] is None, tried[rate] or 0, rate))


def untried(
    tried: Mapping[float, float | None], first: float, rates: tuple[float, ...] = RATES
) -> list[float]:
    """Return the rates to try next: the one nearest to ``first``, or those next to the best."""
    if not tried:
        return [min(rates, key=lambda rate: abs(log(rate / first)))]
    place = rates.index(best(tried))
    return [rate for rate in rates[max(place - 1, 0) : place + 2] if rate not in tried]
