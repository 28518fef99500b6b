"""Zeroth-order SGD, and the sources of perturbations that are compared.

PeZO (ICCAD 2025), Eq. 1 and 2, with q = 1: two losses per step give the slope along a perturbation,

    g = (L(theta + eps z) - L(theta - eps z)) / (2 eps),    theta' = theta - eta g z.

In hardware z is never stored: it is identified by its seed, and generated again for each of its
three uses. The same seed gives the same bits, so here it is generated once per step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf, sqrt
from typing import Any, Protocol

import numpy as np

from seedbed.golden.perturbation import Perturbation
from seedbed.golden.urng_array import UrngArray
from seedbed.spec import PerturbationConfig, UrngConfig

__all__ = ["SOURCES", "Run", "Source", "make_source", "step", "train"]

#: Maps parameters of shape (networks, d) to each network's loss.
Loss = Callable[[np.ndarray], np.ndarray]


class Source(Protocol):
    """Perturbations z of any length, identified by a seed; the same seed gives the same z."""

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """Return the d numbers of the perturbation ``seed``, float64."""

    def seeds(self, rng: np.random.Generator, d: int) -> Iterator[int]:
        """Yield a seed for each step of a run, endlessly."""


def random_seeds(rng: np.random.Generator, first: int, stop: int) -> Iterator[int]:
    """Yield independent seeds in ``first .. stop - 1``, endlessly."""
    while True:
        yield int(rng.integers(first, stop))


class Gaussian:
    """N(0, 1) in double precision, as in MeZO."""

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        return np.random.default_rng(seed).standard_normal(d)

    def seeds(self, rng: np.random.Generator, d: int) -> Iterator[int]:
        """See :class:`Source`."""
        return random_seeds(rng, 0, 2**63)


class Rademacher(Gaussian):
    """+1 or -1, each with probability 1/2."""

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        return np.random.default_rng(seed).integers(0, 2, d) * 2.0 - 1.0


class Scaled(Gaussian):
    """Independent uniform numbers, scaled by PeZO's adaptive power of two, 31 at a time.

    Eq. 3 with the modulus of every 31 numbers, and the factor rounded to a power of two.
    """

    GROUP = 31

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        found = np.random.default_rng(seed).uniform(-1, 1, (-(-d // self.GROUP), self.GROUP))
        moduli = np.linalg.norm(found, axis=1, keepdims=True)
        factors = np.exp2(np.rint(np.log2(sqrt(self.GROUP - 0.5) / moduli)))
        return (found * factors).reshape(-1)[:d]


class Unscaled:
    """The array's words as integers s - 2^(b-1), without scaling: the naive replacement."""

    def __init__(self, *, lanes: int = 31, width: int = 14):
        self.array = UrngArray(UrngConfig(lanes=lanes, width=width, seeding="grown"))

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        config = self.array.config
        self.array.grow(seed)
        beats = self.array.beats(-(-d // config.lanes))
        return beats.reshape(-1)[:d] - 2.0 ** (config.width - 1)

    def seeds(self, rng: np.random.Generator, d: int) -> Iterator[int]:
        """See :class:`Source`."""
        return random_seeds(rng, 1, 2**self.array.config.width)


class Uniform(Unscaled):
    """The array's words as fractions in -1..1, whose modulus is 0.58 of a Gaussian's."""

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        return super().numbers(seed, d) / 2.0 ** (self.array.config.width - 1)


class OnTheFly:
    """PeZO's array of uniform generators, scaled beat by beat: the core's golden model."""

    def __init__(self, *, lanes: int = 31, width: int = 14, leap: int = 1):
        config = PerturbationConfig(source="urng", lanes=lanes, width=width, leap=leap)
        self.model = Perturbation(config)

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        return self.model.values(seed=seed, d=d)

    def seeds(self, rng: np.random.Generator, d: int) -> Iterator[int]:
        """See :class:`Source`."""
        allowed = self.model.config.seeds
        return random_seeds(rng, allowed.start, allowed.stop)


class Linear(OnTheFly):
    """The LUT-optimised generator with a constant scale: the core's golden model."""

    def __init__(self, *, lanes: int = 31, width: int = 14):
        self.model = Perturbation(PerturbationConfig(source="lutopt", lanes=lanes, width=width))


class PreGenerated:
    """PeZO's circular pool of scaled numbers: the core's golden model."""

    def __init__(self, *, size: int = 4095):
        self.model = Perturbation(PerturbationConfig(source="pool", size=size))

    def numbers(self, seed: int, d: int) -> np.ndarray:
        """See :class:`Source`."""
        return self.model.values(seed=seed, d=d)

    def seeds(self, rng: np.random.Generator, d: int) -> Iterator[int]:
        """See :class:`Source`; a perturbation starts where the previous one ended."""
        seed = int(rng.integers(self.model.config.size))
        while True:
            yield seed
            seed = self.model.next_seed(seed, d)


#: The sources by name, in the order of the tables.
SOURCES: dict[str, Callable[..., Source]] = {
    "gaussian": Gaussian,
    "on-the-fly": OnTheFly,
    "leap-3": partial(OnTheFly, leap=3),
    "leap-14": partial(OnTheFly, leap=14),
    "lutopt": Linear,
    "pre-generated": PreGenerated,
    "scaled": Scaled,
    "unscaled": Unscaled,
    "uniform": Uniform,
    "rademacher": Rademacher,
}


def make_source(name: str, **params: Any) -> Source:
    """Return the source called ``name`` with its parameters set.

    Raises ``ValueError`` for an unknown name, and what the source's configuration raises.
    """
    if name not in SOURCES:
        raise ValueError(f"a perturbation source is one of {', '.join(SOURCES)}, not {name!r}")
    return SOURCES[name](**params)


def step(
    loss: Loss, theta: np.ndarray, source: Source, *seeds: int, eps: float, rate: float,
    clip: float = inf,
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Return theta after one step along the perturbations ``seeds``, and the mean of all losses.

    With several perturbations (q > 1 in Eq. 1), all losses are those of the theta before the step,
    in one call of ``loss``, and the step is the mean of theirs. The slope g is limited to
    -clip .. clip.
    """
    z = np.stack([source.numbers(seed, len(theta)) for seed in seeds])
    offsets = eps * z
    found = loss(np.stack([theta + offsets, theta - offsets], axis=1).reshape(-1, len(theta)))
    plus, minus = np.asarray(found, np.float64).reshape(-1, 2).T
    slopes = np.clip((plus - minus) / (2 * eps), -clip, clip)
    for slope, numbers in zip(slopes.tolist(), z, strict=True):
        theta = theta - rate / len(seeds) * slope * numbers
    return theta, float((plus + minus).mean() / 2)


@dataclass(frozen=True)
class Run:
    """Result of a run: the last finite theta, the loss of every step, and where it diverged.

    ``diverged`` counts the steps before an overflow of a loss or of a parameter, after which there
    are no losses. It is ``None`` for a run without an overflow.
    """

    theta: np.ndarray
    losses: np.ndarray
    diverged: int | None


def train(
    batches: Iterator[Loss],
    theta: np.ndarray,
    source: Source,
    *,
    steps: int,
    eps: float,
    rate: float,
    rng: np.random.Generator,
) -> Run:
    """Return ``steps`` steps of zeroth-order SGD from ``theta``.

    Parameters
    ----------
    batches
        A loss for every step: the same network on the step's batch.
    source
        Source of every step's seed, with ``rng``, and of that seed's numbers.
    eps, rate
        epsilon of Eq. 1, eta of Eq. 2.
    """
    losses: list[float] = []
    seeds = source.seeds(rng, len(theta))
    # A run that diverges is a valid result, and ends at the first number that is not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        for loss, seed in zip(islice(batches, steps), seeds, strict=False):
            updated, level = step(loss, theta, source, seed, eps=eps, rate=rate)
            if not (np.isfinite(level) and np.isfinite(updated).all()):
                return Run(theta, np.array(losses), len(losses))
            theta = updated
            losses.append(level)
    return Run(theta, np.array(losses), None)
