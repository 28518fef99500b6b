"""How layers are laid out in an engine's memories: from networks and adapters to a plan."""

from dataclasses import replace
from typing import TYPE_CHECKING

from seedbed.spec.adapter_schedule import place_adapters, place_hidden
from seedbed.spec.checks import require_int
from seedbed.spec.network import Layer
from seedbed.spec.plan import Plan, Region, Step

if TYPE_CHECKING:
    from seedbed.spec.lora import LoraConfig

__all__ = ["Builder", "plan"]

#: A region begins at a multiple of this many numbers at least: codes of a beat of the cache.
ALIGN = 32


class Builder:
    """Places regions one after the other in the store, and rows of weights in the memories.

    ``rows`` counts rows of weights, of the frozen ones and of those that are trainable.
    """

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
        """Place a plain vector so that what is placed next begins with the row after it."""
        rows = -(-length // self.lanes)
        self.free += -rows * self.lanes % self.unit
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

    def add(self, *, groups: int, trainable: bool = False, **fields) -> Step:
        """Add a step with so many groups of outputs."""
        step = Step(trainable=trainable, weights=self.rows[trainable], **fields)
        self.rows[trainable] += groups * step.beats
        self.steps.append(step)
        return step

    def layer(self, layer: Layer, source: Region, target: Region) -> None:
        """Add a layer of the frozen network."""
        plain = (0,) * self.lanes
        if layer.kind == "dense":
            used = {address - source.first for address in source.addresses()}
            pieces = source.rows + (layer.bias and source.rows * self.lanes - 1 in used)
            shape: dict = {"window": source.first, "pieces": pieces, "skew": plain}
        else:
            row, lines = layer.kernel * layer.inputs[0], self._lines(layer)
            reads = -(-layer.kernel // lines)
            # With a bias, the last lane of the last beat must be free.
            left = (layer.kernel - lines * (reads - 1)) * row if lines > 1 else row
            pieces = -(-(left + layer.bias) // self.lanes)
            if lines > 1 and pieces > 1:
                reads, pieces = reads + 1, 1
            extra = (source.stride - row) // self.lanes
            skew = tuple(
                min(lane // row, lines - 1) * extra if lines > 1 else 0
                for lane in range(self.lanes)
            )
            pad = layer.padding
            shape = {
                "window": source.origin - pad * (source.stride + layer.inputs[0]),
                "column_stride": layer.stride * layer.inputs[0],
                "row_stride": layer.stride * source.stride,
                "pieces": pieces,
                "reads": reads,
                "read_stride": lines * source.stride,
                "skew": skew,
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
            target_row_stride=target.stride,
            relu=layer.relu,
            bias=layer.bias,
            **shape,
        )

    def repeat(self, step: Step, target: Region) -> None:
        """Add a step again, with the same weights, whose outputs go to ``target``."""
        self.steps.append(
            replace(step, target=target.origin, target_row_stride=target.stride, repeats=True)
        )

    def dense(
        self, name: str, source: int, pieces: int, outputs: int, target: int, **fields
    ) -> Step:
        """Add a layer without bias, from and to plain vectors."""
        return self.add(
            name=name,
            groups=-(-outputs // self.ways),
            window=source,
            pieces=pieces,
            skew=(0,) * self.lanes,
            outputs=outputs,
            target=target,
            **fields,
        )


def plan(
    *, lanes: int, ways: int, layers: tuple[Layer, ...] = (), lora: "LoraConfig | None" = None
) -> Plan:
    """Return the plan of a frozen network, of adapters, or of both.

    Regions are ``x0`` .. for what layers and adapters take, ``logits`` for the network's outputs;
    those of adapters are :mod:`seedbed.spec.adapter_schedule`'s. Who adds a step says whether its
    rows are trainable.

    What is cached for adapters is dense. A layer whose outputs the next one takes with padding is
    run twice with adapters: ``x1_dense`` has the outputs of the first layer for its adapter.

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
    made = Builder(lanes, ways)
    if layers:
        shapes = [layers[0].inputs, *(layer.shape for layer in layers)]
        inputs = [
            made.image(f"x{k}", layer, shape)
            for k, (layer, shape) in enumerate(zip(layers, shapes, strict=False))
        ]
        outputs, height, width = layers[-1].shape
        last = (height, width, outputs)
    else:
        assert lora is not None
        inputs = [made.vector(f"x{k}", width) for k, width in enumerate(lora.widths)]
        last = (1, 1, lora.classes)
    adapted = list(inputs)
    if lora:
        for k, region in enumerate(inputs[1:], 1):
            if not region.dense:
                adapted[k] = made.map(f"{region.name}_dense", region.shape)
    hidden = place_hidden(made, len(inputs), lora) if lora else None
    logits = made.map("logits", last)
    for layer, source, target in zip(layers, inputs, [*inputs[1:], logits], strict=False):
        made.layer(layer, source, target)
    for step, region, dense in zip(tuple(made.steps), inputs[1:], adapted[1:], strict=False):
        if dense is not region:
            made.repeat(step, dense)
    base = (0, len(made.steps))
    adapters = None
    if hidden and lora:
        adapters = place_adapters(made, tuple(adapted), hidden, logits, lora)
    return Plan(
        lanes=lanes,
        ways=ways,
        regions=made.regions,
        inputs=tuple(inputs),
        steps=tuple(made.steps),
        base=base,
        output=adapters.output if adapters else made.steps[-1],
        frozen_rows=made.rows[False],
        trainable_rows=made.rows[True],
        adapters=adapters,
    )
