"""Processes of a module: next values become clocked assignments, equal conditions are joined."""

from collections import Counter
from collections.abc import Callable

from seedbed.flow.emit.expressions import Expr, bits, names
from seedbed.flow.emit.statements import (
    Always,
    Choice,
    Item,
    Module,
    Set,
    Statement,
    rebuilt,
    targets,
    values,
)  # fmt: skip

__all__ = ["join", "registers"]

#: Most assignments in a process to which another one is joined.
_ASSIGNMENTS = 64


def registers(module: Module) -> None:
    """Move processes to the one assignment that reads their result.

    ``always @(posedge clk) x <= x_next`` becomes the process of ``x_next``, with ``x`` as its
    target.
    """
    reads = Counter(e.text for item in module.items for v in values(item) for e in names(v))
    found: dict[str, Always] = {}
    for item in module.items:
        if isinstance(item, Always) and not item.clock:
            own = {e.text for e in targets(item)}
            name = min(own, default="")
            if len(own) == 1 and reads[name] == 1 and not module.signals[name].direction:
                found[name] = item
    gone: set[int] = set()

    def moved(s: Set) -> list[Statement]:
        if s.value.op != "name" or s.value.text not in found or s.target.op == "word":
            return [s]
        process = found.pop(s.value.text)
        gone.add(id(process))
        # The result itself may be that of another process.
        return rebuilt(rebuilt(process.body, to(s.target)), moved)

    def to(target: Expr) -> Callable[[Set], list[Statement]]:
        def change(s: Set) -> list[Statement]:
            part = bits(target, s.target.low, s.target.width)
            assert part is not None
            # A register holds its value without an assignment.
            return [] if s.value == part else [Set(part, s.value)]

        return change

    for item in module.items:
        if isinstance(item, Always) and id(item) not in gone:
            item.body = rebuilt(item.body, moved)
    module.items = [item for item in module.items if id(item) not in gone]


def join(module: Module) -> None:
    """Join processes of registers with the same conditions.

    Those of memories stay alone: tools know the ports of a memory by its processes.
    """
    found: list[Item] = []
    last: dict[object, Always] = {}
    for item in module.items:
        if isinstance(item, Always) and item.clock:
            if not item.body:
                continue
            read = (e for v in values(item) for e in names(v))
            if not any(module.signals[e.text].depth for e in (*read, *targets(item))):
                conditions = tuple(filter(None, map(_condition, item.body)))
                key = item.clock, item.attributes, conditions
                other = last.get(key)
                if other and len(targets(other)) < _ASSIGNMENTS:
                    other.body = _joined(other.body, item.body)
                    continue
                last[key] = item
        found.append(item)
    module.items = found


def _condition(s: Statement) -> object:
    """Return what two choices have in common that can be one."""
    if isinstance(s, Set):
        return None
    return s.selector, s.is_if, tuple(s.arms) if s.is_open else ()


def _joined(first: list[Statement], second: list[Statement]) -> list[Statement]:
    """Return statements of different registers as one list, in which each has its own order."""
    found, at = list(first), 0
    for s in second:
        key = _condition(s)
        same = (k for k in range(at, len(found)) if key and _condition(found[k]) == key)
        k = next(same, None)
        if k is None:
            while key is None and at < len(found) and isinstance(found[at], Set):
                at += 1
            found.insert(at, s)
            at += 1
            continue
        at = k + 1
        match found[k], s:
            case Choice() as a, Choice() as b:
                arms = dict(a.arms)
                for label, body in b.arms.items():
                    arms[label] = _joined(arms.get(label, []), body)
                found[k] = Choice(a.selector, arms, a.is_if)
    return found
