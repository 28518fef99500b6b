"""What a trainer walks over: regions, steps, outer products, and the rows of an update."""

from dataclasses import dataclass
from itertools import chain

from seedbed.spec.plan import Region, Step

__all__ = ["AdapterSchedule", "OuterProduct", "TrainingSchedule"]


@dataclass(frozen=True, kw_only=True)
class OuterProduct:
    """``ways`` numbers at the address ``left``, each times ``count`` rows from ``right`` on.

    The products are added to the accumulators of the trainable rows from ``row`` on. ``duplicate``
    says that they are added to another outer product's rows too, transposed.
    """

    left: int
    right: int
    count: int
    row: int
    duplicate: bool = False

    @property
    def rows(self) -> range:
        """The trainable rows."""
        return range(self.row, self.row + self.count)

    @property
    def cycles(self) -> int:
        """Cycles on the array: the left factors, then a row a cycle."""
        return self.count + 1


@dataclass(frozen=True, kw_only=True)
class TrainingSchedule:
    """How parameters of an engine are trained. Addresses are those of a buffer of its store.

    Parameters
    ----------
    inputs
        The vectors that a sample is trained from, in the order in which they come from outside.
    gradients
        Where the gradients of the outputs are put.
    forward, backward
        The first step, and the one after the last: up to the outputs, and from the gradients back.
    outer_products
        The gradients of the trainable rows.
    updates
        The rows that an update rewrites, in this order.
    cleared
        Rows that are 0 before any training.

    Raises ``ValueError`` for updates that leave out a row before the last one, or have one twice:
    an update writes a new page of all rows, which then takes the place of the old one.
    """

    inputs: tuple[Region, ...]
    gradients: Region
    forward: tuple[int, int]
    backward: tuple[int, int]
    outer_products: tuple[OuterProduct, ...]
    updates: tuple[range, ...]
    cleared: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = sorted(chain(*self.updates))
        if rows != list(range(len(rows))):
            raise ValueError(f"updates must have every row once, not {self.updates}")

    @property
    def duplicates(self) -> tuple[int, ...]:
        """Rows whose parameters are in other rows too."""
        return tuple(chain(*(p.rows for p in self.outer_products if p.duplicate)))


@dataclass(frozen=True, kw_only=True)
class AdapterSchedule(TrainingSchedule):
    """How adapters into the outputs are trained.

    ``a`` has each adapter's input and the step that multiplies it by A; the products are in the
    region ``hidden``. The steps ``output`` and ``back`` multiply by all B, and by them transposed:
    B has rows of its own in both. In the step ``output`` the frozen network's outputs, which are
    the last one of ``inputs``, are added with weights of 1.
    """

    a: tuple[tuple[Region, Step], ...]
    hidden: Region
    output: Step
    back: Step

    @property
    def cached(self) -> tuple[Region, ...]:
        """What a forward cache keeps: all inputs but the first, the image."""
        return self.inputs[1:]
