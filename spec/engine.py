"""How layers are laid out in an engine's memories, and the steps that run them there.

Everything is in rows of ``lanes`` numbers. Activations of an image are a map (rows, columns,
channels) in a half of the store, so that a window's row of a convolution is contiguous. A row of
weights has ``ways`` times ``lanes`` numbers, one vector for each of so many outputs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from seedbed.spec.checks import require_int
from seedbed.spec.fixed import Fixed
from seedbed.spec.mac_array import MacArrayConfig
from seedbed.spec.network import Layer

if TYPE_CHECKING:
    from seedbed.spec.lora import LoraConfig

__all__ = ["EngineConfig", "Plan", "Region", "Run", "Step", "plan"]

#: A region begins at a multiple of this many numbers at least: codes of a beat of the cache.
ALIGN = 32
#: Frames that may be on their way from the sequencer to the writer: their latency, and some more.
FRAMES = 24


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
    learned
        Whether the weights are the adapters'.
    weights
        Their first row; each group has ``beats`` rows.
    window
        Address of the first window.
    column, line
        Addresses from a window to the next column's and to the next line's.
    pieces, reads, jump
        Beats along a window's row, and how many such there are; addresses between them.
    spread
        Rows that each lane reads behind the one that it would: several of a window's rows at once.
    height, width, pool
        Of the pooled map, and the side of the square that a maximum is taken over.
    outputs
        Channels.
    target, target_line
        Address of the first output, and from one line of the map to the next.
    relu, bias
        Whether negative outputs become 0; whether the last lane of a frame's last beat is 1.
    gradient
        Whether outputs are of the gradients' format.
    waits
        Whether outputs of the steps before are read here.
    """

    name: str
    learned: bool = False
    weights: int
    window: int
    column: int = 0
    line: int = 0
    pieces: int
    reads: int = 1
    jump: int = 0
    spread: tuple[int, ...]
    height: int = 1
    width: int = 1
    pool: int = 1
    outputs: int
    target: int
    target_line: int = 0
    relu: bool = False
    bias: bool = False
    gradient: bool = False
    waits: bool = True

    @property
    def beats(self) -> int:
        """Beats of a frame."""
        return self.pieces * self.reads

    @property
    def rewind(self) -> int:
        """Addresses from a frame's first beat to its last."""
        return (self.pieces - 1) * self.lanes + (self.reads - 1) * self.jump

    @property
    def moves(self) -> tuple[int, ...]:
        """What is added to the address behind a beat, by the first of the loops that goes on.

        The loops from the inside: pieces, reads, the pool's columns and rows, groups, columns,
        rows.
        """
        pool = self.pool - 1
        square = pool * (self.line + self.column)
        return (
            self.lanes,
            self.jump - (self.pieces - 1) * self.lanes,
            self.column - self.rewind,
            self.line - pool * self.column - self.rewind,
            -square - self.rewind,
            self.pool * self.column - square - self.rewind,
            self.pool * (self.line - (self.width - 1) * self.column) - square - self.rewind,
        )

    @property
    def lanes(self) -> int:
        """Of a row."""
        return len(self.spread)

    def strides(self, ways: int) -> tuple[int, int, int]:
        """Return what is added to the target behind a group, the last one, and a row's last."""
        back = (self.groups(ways) - 1) * ways
        column = self.outputs - back
        return ways, column, self.target_line - (self.width - 1) * self.outputs - back

    def groups(self, ways: int) -> int:
        """Return how many groups of ``ways`` outputs there are."""
        return -(-self.outputs // ways)

    def cycles(self, ways: int) -> int:
        """Return the beats of the whole step."""
        return self.height * self.width * self.groups(ways) * self.pool**2 * self.beats


@dataclass(frozen=True, kw_only=True)
class Run:
    """Outer products of ``ways`` numbers at the address ``left`` and ``count`` rows from ``right``.

    They are added to the accumulators of the adapters' rows from ``row`` on. ``copy`` says that the
    same products are in another run's rows too, transposed.
    """

    left: int
    right: int
    count: int
    row: int
    copy: bool = False


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Regions of half the store, steps, runs, and sizes of the memories, in rows.

    ``base``, ``forward`` and ``backward`` are the numbers of the first step and of the one behind
    the last. ``blank`` are the rows of adapters that are B, in two forms: as the steps ``z`` and
    ``dh`` read it. In the step ``z`` the frozen network's logits go through too, with weights of 1.
    """

    lanes: int
    ways: int
    regions: dict[str, Region]
    steps: tuple[Step, ...]
    runs: tuple[Run, ...]
    base: tuple[int, int]
    forward: tuple[int, int]
    backward: tuple[int, int]
    frozen_rows: int
    learned_rows: int
    blank: tuple[int, ...]

    @property
    def cached(self) -> tuple[Region, ...]:
        """Return what a forward cache keeps: all but the image, the logits last."""
        return (
            *(r for n, r in self.regions.items() if n[0] == "x" and n != "x0"),
            self.regions["logits"],
        )

    @property
    def spreads(self) -> list[tuple[int, ...]]:
        """Return the different spreads of the steps, by number; the first is none."""
        return list(dict.fromkeys([(0,) * self.lanes, *(step.spread for step in self.steps)]))

    @property
    def store_rows(self) -> int:
        """Rows of half the store, a power of two."""
        last = max(region.first // self.lanes + region.rows for region in self.regions.values())
        return 1 << (last - 1).bit_length()

    def step(self, name: str) -> Step:
        """Return the adapters' step of that name; a layer may have the same."""
        return next(step for step in self.steps if step.learned and step.name == name)


class _Builder:
    def __init__(self, lanes: int, ways: int):
        self.lanes, self.ways = lanes, ways
        self.unit = max(lanes, ALIGN)
        self.regions: dict[str, Region] = {}
        self.steps: list[Step] = []
        self.rows = {False: 0, True: 0}
        self.free = 0

    def vector(self, name: str, length: int) -> Region:
        """Place a plain vector."""
        return self.map(name, (1, 1, length))

    def before(self, name: str, length: int) -> Region:
        """Place a plain vector so that what is placed next begins with the row behind it."""
        self.free += length // -self.lanes * self.lanes % self.unit
        return self.vector(name, length)

    def map(self, name: str, shape: tuple[int, int, int]) -> Region:
        """Place rows, columns, channels without padding."""
        return self._place(name, shape, 0, shape[1] * shape[2])

    def image(self, name: str, layer: Layer, shape: tuple[int, int, int]) -> Region:
        """Place what a layer takes, of ``shape``, in the form that its windows need."""
        channels, height, width = shape
        if layer.kind == "dense":
            return self.map(name, (height, width, channels))
        pad, row = layer.padding, layer.kernel * channels
        stride = (width + 2 * pad) * channels
        if self._lines(layer) > 1:
            # Rows of a window, each in lanes of its own: the next begins `row` lanes on.
            stride += (row - stride) % self.lanes
        return self._place(name, (height, width, channels), pad * (stride + channels), stride)

    def _place(self, name: str, shape: tuple[int, int, int], offset: int, stride: int) -> Region:
        # The rows of lanes that hold nothing but padding are not the map's.
        first = self.free + offset // self.lanes * self.lanes
        region = Region(name, shape, first, self.free + offset, stride, self.lanes)
        self.regions[name] = region
        end = self.free + offset + shape[0] * stride + offset
        self.free = -(-end // self.unit) * self.unit
        return region

    def _lines(self, layer: Layer) -> int:
        """Return the rows of a window that are read in one beat."""
        return max(1, min(layer.kernel, self.lanes // (layer.kernel * layer.inputs[0])))

    def add(self, *, groups: int, learned: bool = False, **fields) -> Step:
        """Add a step with so many groups of outputs."""
        step = Step(learned=learned, weights=self.rows[learned], **fields)
        self.rows[learned] += groups * step.beats
        self.steps.append(step)
        return step

    def layer(self, layer: Layer, source: Region, target: Region) -> None:
        """Add a layer of the frozen network."""
        plain = (0,) * self.lanes
        if layer.kind == "dense":
            used = {address - source.first for address in source.addresses()}
            pieces = source.rows + (source.rows * self.lanes - 1 in used)
            shape: dict = {"window": source.first, "pieces": pieces, "spread": plain}
        else:
            row, lines = layer.kernel * layer.inputs[0], self._lines(layer)
            reads = -(-layer.kernel // lines)
            # The last lane of the last beat must be free for the bias.
            left = (layer.kernel - lines * (reads - 1)) * row if lines > 1 else row
            pieces = left // self.lanes + 1
            if lines > 1 and pieces > 1:
                reads, pieces = reads + 1, 1
            extra = (source.stride - row) // self.lanes
            spread = tuple(
                min(lane // row, lines - 1) * extra if lines > 1 else 0
                for lane in range(self.lanes)
            )
            pad = layer.padding
            shape = {
                "window": source.origin - pad * (source.stride + layer.inputs[0]),
                "column": layer.inputs[0],
                "line": source.stride,
                "pieces": pieces,
                "reads": reads,
                "jump": lines * source.stride,
                "spread": spread,
            }
        channels, height, width = layer.shape
        self.add(
            name=layer.name,
            groups=-(-channels // self.ways),
            height=height,
            width=width,
            pool=layer.pool,
            outputs=channels,
            target=target.origin,
            target_line=target.stride,
            relu=layer.relu,
            bias=True,
            **shape,
        )

    def dense(
        self, name: str, source: int, pieces: int, outputs: int, target: int, **fields
    ) -> Step:
        """Add a layer of the adapters."""
        return self.add(
            name=name,
            learned=True,
            groups=-(-outputs // self.ways),
            window=source,
            pieces=pieces,
            spread=(0,) * self.lanes,
            outputs=outputs,
            target=target,
            **fields,
        )


def plan(
    *, lanes: int, ways: int, layers: tuple[Layer, ...] = (), lora: "LoraConfig | None" = None
) -> Plan:
    """Return the plan of a frozen network, of adapters, or of adapters beside a network.

    Regions are ``x0`` .. for what layers and adapters take, ``logits`` for the network's outputs;
    with adapters ``h``, right before ``logits``, ``z``, ``dz`` and ``dh``.

    Raises ``TypeError`` or ``ValueError`` if ``lanes`` is no power of two in 8..64, or ``ways``
    none in 1..16, more than ``lanes``, or no divisor of the rank.
    """
    require_int("lanes", lanes, 8, 64)
    require_int("ways", ways, 1, min(16, lanes))
    for name, count in (("lanes", lanes), ("ways", ways)):
        if count & (count - 1):
            raise ValueError(f"{name} must be a power of two, not {count}")
    if lora and lora.rank % ways:
        raise ValueError(f"ways must divide the rank, {lora.rank}, not {ways}")
    made = _Builder(lanes, ways)
    if layers:
        shapes = [layers[0].inputs, *(layer.shape for layer in layers)]
        sources = [
            made.image(f"x{k}", layer, shape)
            for k, (layer, shape) in enumerate(zip(layers, shapes, strict=False))
        ]
        outputs, height, width = layers[-1].shape
        last = (height, width, outputs)
    else:
        assert lora is not None
        sources = [made.vector(f"x{k}", width) for k, width in enumerate(lora.widths)]
        last = (1, 1, lora.classes)
    if lora:
        inner = len(sources) * lora.rank
        h = made.before("h", inner)
    classes = prod(last)
    logits = made.map("logits", last)
    for layer, source, target in zip(layers, sources, [*sources[1:], logits], strict=False):
        made.layer(layer, source, target)
    base = (0, len(made.steps))
    if not lora:
        return Plan(
            lanes=lanes, ways=ways, regions=made.regions, steps=tuple(made.steps), runs=(),
            base=base, forward=(0, 0), backward=(0, 0), frozen_rows=made.rows[False],
            learned_rows=0, blank=(),
        )  # fmt: skip
    z, dz, dh = (made.vector(n, k) for n, k in [("z", classes), ("dz", classes), ("dh", inner)])
    ends = []
    for k, source in enumerate(sources):
        target = h.first + k * lora.rank
        ends.append(made.dense(f"h{k}", source.first, source.rows, lora.rank, target, waits=k == 0))
    # From h to the end of the logits, with what is between them.
    through = (logits.first - h.first) // lanes
    out = made.dense("z", h.first, through + logits.rows, classes, z.first)
    back = made.dense("dh", dz.first, dz.rows, inner, dh.first, gradient=True)
    runs: list[Run] = []
    blank: list[int] = []
    for g in range(out.groups(ways)):
        row = out.weights + g * out.beats
        runs.append(Run(left=dz.first + g * ways, right=h.first, count=h.rows, row=row))
        blank += range(row, row + h.rows)
    for g in range(back.groups(ways)):
        row = back.weights + g * back.beats
        left = h.first + g * ways
        runs.append(Run(left=left, right=dz.first, count=dz.rows, row=row, copy=True))
        blank += range(row, row + dz.rows)
    for k, (source, step) in enumerate(zip(sources, ends, strict=True)):
        for g in range(step.groups(ways)):
            left, row = dh.first + k * lora.rank + g * ways, step.weights + g * step.beats
            runs.append(Run(left=left, right=source.first, count=source.rows, row=row))
    first, behind = base[1], len(made.steps)
    return Plan(
        lanes=lanes, ways=ways, regions=made.regions, steps=tuple(made.steps), runs=tuple(runs),
        base=base, forward=(first, behind - 1), backward=(behind - 1, behind),
        frozen_rows=made.rows[False], learned_rows=made.rows[True], blank=tuple(blank),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """A plan with its number formats.

    Parameters
    ----------
    plan
        What runs.
    values
        Format of activations and logits.
    weights
        Format of the frozen network's parameters.
    lora
        The adapters, if there are any.

    Raises ``ValueError`` for a format of values, or of adapters, that 1 is beyond, and for whatever
    :class:`MacArrayConfig` refuses.
    """

    plan: Plan
    values: Fixed
    weights: Fixed
    lora: "LoraConfig | None" = None
    mac: MacArrayConfig = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # A bias is a weight of an activation of 1, the logits' way to the adapters one of 1.
        ones = {"values": self.values} | ({"parameters": self.lora.parameters} if self.lora else {})
        for name, form in ones.items():
            if form.one > form.high:
                raise ValueError(f"the format of {name} must have room for 1, which {form} has not")
        object.__setattr__(self, "mac", self._mac())

    @property
    def number(self) -> int:
        """Bits of a number in the store: a value or a gradient."""
        return max([self.values.width] + ([self.lora.gradients.width] if self.lora else []))

    def _mac(self) -> MacArrayConfig:
        # The array's factors are whatever stands at its two sides.
        weights, activations = [self.weights.width], [self.values.width]
        if self.lora:
            # Outer products have activations and gradients for weights; updates accumulators.
            formats = self.lora.parameters, self.lora.gradients, self.lora.accumulators, self.values
            weights += [form.width for form in formats]
            activations += [self.lora.gradients.width, self.lora.rate_width + 1]
        return MacArrayConfig(
            lanes=self.plan.lanes,
            blocks=1,
            ways=self.plan.ways,
            products=self.lora is not None,
            weight_width=max(weights),
            activation_width=max(activations),
            exponent_width=0,
            beats=max(step.beats for step in self.plan.steps),
            results=FRAMES,
            additions=1,
        )

    @property
    def fill(self) -> int:
        """Numbers that are written at once where a multiple of as many begins."""
        return min(16, self.plan.lanes)

    @property
    def word(self) -> int:
        """Bits of a parameter in a stream of them, two a beat."""
        return max([self.weights.width] + ([self.lora.parameters.width] if self.lora else []))
