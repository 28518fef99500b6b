"""How adapters are laid out in an engine's memories, and trained."""

from typing import TYPE_CHECKING

from seedbed.spec.plan import Region
from seedbed.spec.schedule import AdapterSchedule, OuterProduct

if TYPE_CHECKING:
    from seedbed.spec.lora import LoraConfig
    from seedbed.spec.planner import Builder

__all__ = ["place_adapters", "place_hidden"]


def place_hidden(made: "Builder", count: int, lora: "LoraConfig") -> Region:
    """Place the outputs of ``count`` A, right before the frozen network's outputs.

    Both are read by the same step.
    """
    return made.before("h", count * lora.rank)


def place_adapters(
    made: "Builder", inputs: tuple[Region, ...], hidden: Region, outputs: Region, lora: "LoraConfig"
) -> AdapterSchedule:
    """Add the steps of adapters from ``inputs`` to the frozen network's ``outputs``.

    All their rows are trainable. Regions are ``z`` for the sums, ``dz`` and ``dh`` for gradients.
    """
    ways, rank, classes = made.ways, lora.rank, lora.classes
    inner = hidden.shape[2]
    z, dz, dh = (made.vector(n, k) for n, k in [("z", classes), ("dz", classes), ("dh", inner)])
    first = len(made.steps)
    a = []
    for k, source in enumerate(inputs):
        target = hidden.first + k * rank
        step = made.dense(
            f"h{k}", source.first, source.rows, rank, target, trainable=True, waits=k == 0
        )
        a.append((source, step))
    # From the hidden vector to the end of the outputs, with what is between them.
    pieces = (outputs.first - hidden.first) // made.lanes + outputs.rows
    out = made.dense("z", hidden.first, pieces, classes, z.first, trainable=True)
    back = made.dense("dh", dz.first, dz.rows, inner, dh.first, trainable=True, gradient=True)
    stop = len(made.steps)
    products = [
        OuterProduct(
            left=dz.first + g * ways,
            right=hidden.first,
            count=hidden.rows,
            row=out.weights + g * out.beats,
        )
        for g in range(out.groups(ways))
    ]
    products += [
        OuterProduct(
            left=hidden.first + g * ways,
            right=dz.first,
            count=dz.rows,
            row=back.weights + g * back.beats,
            duplicate=True,
        )
        for g in range(back.groups(ways))
    ]
    # B is 0 before training, and A is not.
    cleared = tuple(row for product in products for row in product.rows)
    products += [
        OuterProduct(
            left=dh.first + k * rank + g * ways,
            right=source.first,
            count=source.rows,
            row=step.weights + g * step.beats,
        )
        for k, (source, step) in enumerate(a)
        for g in range(step.groups(ways))
    ]
    return AdapterSchedule(
        inputs=(*inputs, outputs),
        gradients=dz,
        forward=(first, stop - 1),
        backward=(stop - 1, stop),
        outer_products=tuple(products),
        updates=(range(made.rows[True]),),
        cleared=cleared,
        a=tuple(a),
        hidden=hidden,
        output=out,
        back=back,
    )
