"""Golden model of the pool of pre-generated numbers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec import PoolConfig

__all__ = ["PrngPool", "Request"]


@dataclass(frozen=True)
class Request:
    """One request: see the port ``i`` of :class:`seedbed.hw.generators.prng_pool.PrngPool`."""

    count: int
    last: bool = False
    seek: bool = False
    start: int = 0


class PrngPool:
    """A circular buffer of N numbers, and a read position.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.PoolConfig`.
    """

    def __init__(self, config: PoolConfig):
        self.config = config
        self.position = 0
        # Stored twice, so that N numbers from any index are one slice.
        self._twice = np.empty(2 * config.size, np.int32)
        self.load(config.numbers)

    def load(self, numbers: Sequence[int] | np.ndarray) -> None:
        """Write ``numbers`` to index 0, 1, 2, ..; the rest of the pool is unchanged.

        Raises ``ValueError`` for more than N numbers, or one that ``width`` bits do not hold.
        """
        size, half = self.config.size, 1 << (self.config.width - 1)
        new = require_integers("numbers", numbers, -half, half - 1)
        if len(new) > size:
            raise ValueError(f"the pool holds {size} numbers, not {len(new)}")
        self._twice[: len(new)] = new
        self._twice[size : size + len(new)] = new

    @property
    def contents(self) -> np.ndarray:
        """The N numbers, in order."""
        return self._twice[: self.config.size].copy()

    def take(self, start: int, d: int) -> np.ndarray:
        """Return ``d`` consecutive numbers from index ``start`` on, int32 of shape (d,)."""
        start %= self.config.size
        return np.resize(self._twice[start : start + self.config.size], d)

    def next_start(self, start: int, d: int) -> int:
        """Return the start of the perturbation after one of ``d`` numbers from ``start``."""
        return (start + d) % self.config.size

    def beats(self, requests: Iterable[Request]) -> np.ndarray:
        """Return one beat per request, int32 of shape (requests, lanes), and advance."""
        lanes = self.config.lanes
        out = []
        for request in requests:
            start = request.start if request.seek else self.position
            out.append(self.take(start, lanes))
            self.position = self.next_start(start, request.count)
        return np.array(out, np.int32).reshape(-1, lanes)

    def requests(self, d: int, start: int | None = None) -> Iterator[Request]:
        """Yield the requests that read ``d`` numbers, from ``start`` or from the position."""
        lanes = self.config.lanes
        for done in range(0, d, lanes):
            seek = start is not None and done == 0
            yield Request(
                count=min(lanes, d - done),
                last=done + lanes >= d,
                seek=seek,
                start=(start or 0) if seek else 0,
            )
