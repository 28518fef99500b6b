"""Training by forward passes as a schedule: which steps are perturbed, which rows an update has."""

from dataclasses import dataclass

from seedbed.spec.network import Layer
from seedbed.spec.plan import Plan, Step
from seedbed.spec.rank_one import RankOneConfig

__all__ = ["ZeroOrderSchedule", "place_rank_one", "place_zero_order"]


@dataclass(frozen=True, kw_only=True)
class ZeroOrderSchedule:
    """How the first layers of a network are trained by zeroth order.

    Parameters
    ----------
    steps
        Steps that are perturbed, from the first one on.
    rows
        Their rows of weights, from row 0 on: an update has each of them once.
    used
        For each row of a convolution, how many of its lanes have weights. Such rows are the first
        ones. They are read again at every window; a dense layer's rows are read once, in order.
    """

    steps: int
    rows: int
    used: tuple[int, ...]


def place_zero_order(plan: Plan, layers: tuple[Layer, ...], partition: int) -> ZeroOrderSchedule:
    """Return the schedule of a plan's first ``partition`` layers.

    Raises ``ValueError`` where a convolution comes after a dense layer among them: its rows would
    not be the first ones.
    """
    steps, used = plan.steps[:partition], []
    kinds = [layer.kind for layer in layers[:partition]]
    if "dense" in kinds and "conv" in kinds[kinds.index("dense") :]:
        raise ValueError("layers trained by zeroth order must not have a conv after a dense one")
    for layer, step in zip(layers[:partition], steps, strict=True):
        if layer.kind == "conv":
            used += _used(layer, step) * step.groups(plan.ways)
    last = steps[-1] if steps else None
    rows = last.weights + last.beats * last.groups(plan.ways) if last else 0
    return ZeroOrderSchedule(steps=partition, rows=rows, used=tuple(used))


def place_rank_one(
    plan: Plan, layers: tuple[Layer, ...], partition: int, bits: int
) -> RankOneConfig:
    """Return perturbations of rank 1 of the plan's first ``partition`` layers.

    The words of inputs are the beats of a frame, the words of outputs the groups of outputs.
    """
    used: list[int] = []
    rows: list[tuple[int, int]] = []
    outputs = 0
    for layer, step in zip(layers[:partition], plan.steps, strict=False):
        inputs, groups = range(len(used), len(used) + step.beats), step.groups(plan.ways)
        used += _used(layer, step) if layer.kind == "conv" else [plan.lanes] * step.beats
        rows += [(outputs + group, number) for group in range(groups) for number in inputs]
        outputs += groups
    return RankOneConfig(
        lanes=plan.lanes, ways=plan.ways, bits=bits, used=tuple(used), outputs=outputs,
        rows=tuple(rows),
    )  # fmt: skip


def _used(layer: Layer, step: Step) -> list[int]:
    """Return how many lanes of each beat of a frame have weights: the first ones."""
    row, counts = layer.kernel * layer.inputs[0], []
    # Rows of a window that a read has: one in several beats, or several in one.
    lines = max(1, min(layer.kernel, step.lanes // row)) if step.pieces == 1 else 1
    for read in range(step.reads):
        left = min(lines, layer.kernel - read * lines) * row
        for piece in range(step.pieces):
            counts.append(min(max(left - piece * step.lanes, 0), step.lanes))
    return counts
