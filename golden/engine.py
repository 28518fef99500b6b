"""Parameters in the rows that an engine's memories have, and back."""

from collections.abc import Mapping, Sequence

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec.fixed import Fixed
from seedbed.spec.network import Layer
from seedbed.spec.plan import Plan, Region, Step

__all__ = ["adapter_rows", "adapters", "frozen_rows", "network_weights", "words"]


#: What any number of an engine fits.
WIDEST = Fixed(48, 0)


def _whole(name: str, numbers: np.ndarray) -> np.ndarray:
    return require_integers(name, numbers, WIDEST.low, WIDEST.high)


def _places(step: Step, region: Region, layer: Layer | None) -> np.ndarray:
    """Return the place of each weight of an output in its frame, counted from its first beat.

    For a layer of the network in the order of its weights' columns; for an adapter in the order of
    its input, rows, columns, channels.
    """
    if layer is None:
        return np.array(list(region.addresses())) - region.first
    height, width, channels = region.shape
    if layer.kind == "dense":
        flat = np.array(list(region.addresses())).reshape(height, width, channels)
        return flat.transpose(2, 0, 1).ravel() - region.first
    side, row = layer.kernel, layer.kernel * channels
    channel, line, column = np.indices((channels, side, side)).reshape(3, -1)
    along = column * channels + channel
    if step.read_stride == region.stride or step.pieces > 1:
        return line * step.pieces * step.lanes + along
    lines = step.read_stride // region.stride
    return line // lines * step.lanes + line % lines * row + along


def frozen_rows(
    plan: Plan, layers: Sequence[Layer], parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the frozen network's rows, int64 (frozen_rows, ways, lanes).

    ``parameters`` are integers. A bias is in a frame's last lane, whose activation is 1.
    """
    found = np.zeros((plan.frozen_rows, plan.ways, plan.lanes), np.int64)
    for layer, step, region in zip(layers, plan.steps, plan.inputs, strict=False):
        places = _places(step, region, layer)
        parts = ("weight", "bias") if layer.bias else ("weight",)
        names = (f"{layer.name}.{part}" for part in parts)
        weights, *bias = (_whole(name, parameters[name]) for name in names)
        for k in range(step.outputs):
            group, way = divmod(k, plan.ways)
            frame = np.zeros(step.beats * plan.lanes, np.int64)
            frame[places] = weights[k]
            for numbers in bias:
                frame[-1] = numbers[k]
            at = step.weights + group * step.beats
            found[at : at + step.beats, way] = frame.reshape(-1, plan.lanes)
    return found


def _frames(plan: Plan, step: Step) -> list[tuple[slice, int]]:
    """Return rows and way of each of a step's outputs."""
    found = []
    for k in range(step.outputs):
        group, way = divmod(k, plan.ways)
        at = step.weights + group * step.beats
        found.append((slice(at, at + step.beats), way))
    return found


def adapter_rows(
    plan: Plan, a: Sequence[np.ndarray], b: Sequence[np.ndarray], one: int
) -> np.ndarray:
    """Return the adapters' rows, int64 (trainable_rows, ways, lanes).

    ``a`` and ``b`` as :class:`~seedbed.golden.lora.Lora` has them; ``one`` is a parameter of 1, by
    which the frozen network's logits are added in the schedule's step ``output``.
    """
    found = np.zeros((plan.trainable_rows, plan.ways, plan.lanes), np.int64)
    a, b = [_whole("a", part) for part in a], [_whole("b", part) for part in b]
    schedule = plan.schedule
    for part, (region, step) in zip(a, schedule.a, strict=True):
        places = _places(step, region, None)
        for row, (rows, way) in zip(part, _frames(plan, step), strict=True):
            frame = np.zeros(step.beats * plan.lanes, np.int64)
            frame[places] = row
            found[rows, way] = frame.reshape(-1, plan.lanes)
    both = np.concatenate(b, axis=1)
    out, back = schedule.output, schedule.back
    logits = schedule.inputs[-1].first - schedule.hidden.first
    for k, (rows, way) in enumerate(_frames(plan, out)):
        frame = np.zeros(out.beats * plan.lanes, np.int64)
        frame[: both.shape[1]] = both[k]
        frame[logits + k] = one
        found[rows, way] = frame.reshape(-1, plan.lanes)
    for k, (rows, way) in enumerate(_frames(plan, back)):
        frame = np.zeros(back.beats * plan.lanes, np.int64)
        frame[: both.shape[0]] = both[:, k]
        found[rows, way] = frame.reshape(-1, plan.lanes)
    return found


def adapters(plan: Plan, rows: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return A and B of each adapter from rows as :func:`adapter_rows` gives them."""
    a = []
    schedule = plan.schedule
    for region, step in schedule.a:
        places = _places(step, region, None)
        a.append(np.array([rows[at, way].ravel()[places] for at, way in _frames(plan, step)]))
    inner = schedule.hidden.shape[2]
    whole = [rows[at, way].ravel()[:inner] for at, way in _frames(plan, schedule.output)]
    return a, np.split(np.array(whole), len(a), axis=1)


def words(rows: np.ndarray) -> np.ndarray:
    """Return rows as the stream has them: (count, 2) numbers."""
    return rows.reshape(-1, 2)


def network_weights(plan: Plan, layers: Sequence[Layer], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return each layer's weights (outputs, fan_in) from rows as :func:`frozen_rows` gives them.

    ``rows`` may be the first ones only: then the layers are those that they hold whole.
    """
    found = {}
    for layer, step, region in zip(layers, plan.steps, plan.inputs, strict=False):
        if step.weights + step.beats * step.groups(plan.ways) > len(rows):
            break
        places = _places(step, region, layer)
        frames = rows[step.weights :][: step.beats * step.groups(plan.ways)]
        frames = frames.reshape(-1, step.beats, plan.ways, plan.lanes).transpose(0, 2, 1, 3)
        found[layer.name] = frames.reshape(-1, step.beats * plan.lanes)[: step.outputs, places]
    return found
