"""Where layers lie in an engine's memories, and the steps that run them there.

Everything is in rows of ``lanes`` numbers. Activations of an image are a map (rows, columns,
channels) in a buffer of the store, so that a window's row of a convolution is contiguous. A row of
weights has ``ways`` times ``lanes`` numbers, one vector for each of so many outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seedbed.spec.schedule import AdapterSchedule

__all__ = ["Plan", "Region", "Step"]


@dataclass(frozen=True)
class Region:
    """A map of (rows, columns, channels) in the store: of a row of it, ``stride`` to the next.

    ``first`` is the address where its first row of lanes begins, ``origin`` its first number's.
    What is between the map's numbers is never written, and 0.
    """

    name: str
    shape: tuple[int, int, int]
    first: int
    origin: int
    stride: int
    lanes: int

    @property
    def rows(self) -> int:
        """Rows of lanes from the one at ``first`` to the map's last number."""
        last = self.origin + (self.shape[0] - 1) * self.stride + self.shape[1] * self.shape[2] - 1
        return (last - self.first) // self.lanes + 1

    @property
    def dense(self) -> bool:
        """Whether its numbers follow each other, from the beginning of a row of lanes on."""
        return self.first == self.origin and self.stride == self.shape[1] * self.shape[2]

    def addresses(self) -> Iterator[int]:
        """Yield the address of every number, row by row, column by column, channel by channel."""
        for y in range(self.shape[0]):
            for k in range(self.shape[1] * self.shape[2]):
                yield self.origin + y * self.stride + k


@dataclass(frozen=True, kw_only=True)
class Step:
    """One layer: which windows it reads, with which weights, and where its outputs go.

    A frame is one window with ``ways`` outputs' weights: ``lines`` rows of the window at a time, of
    ``pieces`` beats, ``reads`` times. Windows are walked so: rows of the pooled map, its columns,
    groups of ``ways`` outputs, then the pool's rows and columns.

    Parameters
    ----------
    trainable
        Whether the weights are trainable rows.
    weights
        Their first row; each group has ``beats`` rows.
    window
        Address of the first window.
    column_stride, row_stride
        Addresses from a window to that of the next column, and of the next row.
    pieces, reads, read_stride
        Beats along a window's row, and how many such there are; addresses between them.
    skew
        Rows by which each lane reads further on: several of a window's rows at once.
    height, width, pool
        Of the pooled map, and the side of the square that a maximum is taken over.
    outputs
        Channels.
    target, target_row_stride
        Address of the first output, and from one row of the map to the next.
    relu, bias
        Whether negative outputs become 0; whether the last lane of a frame's last beat is 1.
    gradient
        Whether outputs are of the gradients' format.
    waits
        Whether outputs of the steps before are read here.
    repeats
        Whether the outputs are those of an earlier step, stored a second time.
    """

    name: str
    trainable: bool = False
    weights: int
    window: int
    column_stride: int = 0
    row_stride: int = 0
    pieces: int
    reads: int = 1
    read_stride: int = 0
    skew: tuple[int, ...]
    height: int = 1
    width: int = 1
    pool: int = 1
    outputs: int
    target: int
    target_row_stride: int = 0
    relu: bool = False
    bias: bool = False
    gradient: bool = False
    waits: bool = True
    repeats: bool = False

    @property
    def beats(self) -> int:
        """Beats of a frame."""
        return self.pieces * self.reads

    @property
    def rewind(self) -> int:
        """Addresses from a frame's first beat to its last."""
        return (self.pieces - 1) * self.lanes + (self.reads - 1) * self.read_stride

    def loops(self, ways: int) -> tuple[int, ...]:
        """Return the iterations of the loops over beats, innermost first.

        They are pieces, reads, the pool's columns and rows, groups, columns, rows.
        """
        groups = self.groups(ways)
        return self.pieces, self.reads, self.pool, self.pool, groups, self.width, self.height

    def output_loops(self, ways: int) -> tuple[int, ...]:
        """Return the iterations of the loops over frames, innermost first."""
        return self.pool**2, self.groups(ways), self.width, self.height

    @property
    def strides(self) -> tuple[int, ...]:
        """Address increments after a beat, by the one of :meth:`loops` that continues."""
        pool = self.pool - 1
        square = pool * (self.row_stride + self.column_stride)
        return (
            self.lanes,
            self.read_stride - (self.pieces - 1) * self.lanes,
            self.column_stride - self.rewind,
            self.row_stride - pool * self.column_stride - self.rewind,
            -square - self.rewind,
            self.pool * self.column_stride - square - self.rewind,
            self.pool * (self.row_stride - (self.width - 1) * self.column_stride)
            - square
            - self.rewind,
        )

    @property
    def lanes(self) -> int:
        """Of a row."""
        return len(self.skew)

    def target_strides(self, ways: int) -> tuple[int, int, int]:
        """Return the target's increments after a square, by the outer three of its loops."""
        back = (self.groups(ways) - 1) * ways
        column = self.outputs - back
        return ways, column, self.target_row_stride - (self.width - 1) * self.outputs - back

    def groups(self, ways: int) -> int:
        """Return how many groups of ``ways`` outputs there are."""
        return -(-self.outputs // ways)

    def cycles(self, ways: int) -> int:
        """Return the beats of the whole step."""
        return self.height * self.width * self.groups(ways) * self.pool**2 * self.beats


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Regions of a buffer of the store, steps, and sizes of the memories, in rows.

    Parameters
    ----------
    inputs
        What layers take, or adapters without a network, the image first.
    base
        The frozen network's steps: the first one, and the one after the last. A step a layer comes
        first, then the steps that repeat layers.
    output
        The step whose outputs are the engine's.
    adapters
        How the trainable rows are trained, if there are any.
    """

    lanes: int
    ways: int
    regions: dict[str, Region]
    inputs: tuple[Region, ...]
    steps: tuple[Step, ...]
    base: tuple[int, int]
    output: Step
    frozen_rows: int
    trainable_rows: int = 0
    adapters: "AdapterSchedule | None" = None

    @property
    def schedule(self) -> "AdapterSchedule":
        """How the trainable rows are trained. Raises ``ValueError`` if there are none."""
        if self.adapters is None:
            raise ValueError("the plan has no adapters, and so no schedule")
        return self.adapters

    @property
    def image(self) -> Region:
        """Return what the first layer takes."""
        return self.inputs[0]

    @property
    def cycles(self) -> int:
        """Return the beats of all steps."""
        return sum(step.cycles(self.ways) for step in self.steps)

    @property
    def skews(self) -> list[tuple[int, ...]]:
        """Return the different skews of the steps, by number; the first is none."""
        return list(dict.fromkeys([(0,) * self.lanes, *(step.skew for step in self.steps)]))

    @property
    def store_rows(self) -> int:
        """Rows of a buffer of the store, a power of two."""
        last = max(region.first // self.lanes + region.rows for region in self.regions.values())
        return 1 << (last - 1).bit_length()
