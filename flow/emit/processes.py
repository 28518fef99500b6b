"""Processes of a module: next values become clocked assignments, equal conditions are joined."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from seedbed.flow.emit.expressions import Expr, bits, const, names
from seedbed.flow.emit.statements import (
    Always,
    Assign,
    Case,
    If,
    Instance,
    Item,
    Module,
    Set,
    Statement,
)  # fmt: skip

__all__ = ["join", "multiplexers", "registers", "rewritten", "simplify", "targets", "values"]

#: What makes a new expression of one, and of the width of the target that it is assigned to.
Change = Callable[[Expr, int | None], Expr]
#: Most conditions of a process that becomes an assignment.
_CONDITIONS = 3
#: Most assignments in a process to which another one is joined.
_ASSIGNMENTS = 64


def rewritten(item: Item, new: Change, target: Callable[[Expr], Expr] | None = None) -> Item:
    """Return an item with other expressions, and other targets if ``target`` makes them."""

    def assigned(e: Expr) -> Expr:
        if e.op == "bits":
            return replace(e, args=(assigned(e.args[0]),))
        e = replace(e, args=tuple(new(arg, None) for arg in e.args)) if e.op == "word" else e
        return target(e) if target else e

    def changed(body: list[Statement]) -> list[Statement]:
        found: list[Statement] = []
        for s in body:
            match s:
                case Set():
                    found.append(Set(assigned(s.target), new(s.value, s.target.width)))
                case If():
                    found.append(If(new(s.condition, None), changed(s.yes), changed(s.no)))
                case Case():
                    items = [(label, changed(inner)) for label, inner in s.items]
                    found.append(Case(new(s.selector, None), items))
        return found

    match item:
        case Assign():
            return Assign(assigned(item.target), new(item.value, item.target.width))
        case Always():
            return replace(item, body=changed(item.body))
        case Instance():
            pins = {
                pin: e and (new(e, None) if pin not in item.outputs else target(e) if target else e)
                for pin, e in item.pins.items()
            }
            return replace(item, pins=pins)


def _sets(body: list[Statement]) -> Iterator[Set]:
    for s in body:
        match s:
            case Set():
                yield s
            case If():
                yield from _sets(s.yes)
                yield from _sets(s.no)
            case Case():
                for _, inner in s.items:
                    yield from _sets(inner)


def targets(item: Item) -> list[Expr]:
    """Return all signals, slices and memories that an item assigns to, pins excluded."""
    match item:
        case Assign():
            found = [item.target]
        case Always():
            found = [s.target for s in _sets(item.body)]
        case Instance():
            found = []
    return [part for e in found for part in (e.args if e.op in ("concat", "bits") else (e,))]


def _addresses(target: Expr) -> tuple[Expr, ...]:
    word = target.args[0] if target.op == "bits" else target
    return word.args if word.op == "word" else ()


def values(item: Item) -> Iterator[Expr]:
    """Yield all expressions that an item reads: values, conditions, addresses, pins."""

    def read(body: list[Statement]) -> Iterator[Expr]:
        for s in body:
            match s:
                case Set():
                    yield s.value
                    yield from _addresses(s.target)
                case If():
                    yield s.condition
                    yield from (*read(s.yes), *read(s.no))
                case Case():
                    yield s.selector
                    for _, inner in s.items:
                        yield from read(inner)

    match item:
        case Assign():
            yield from (item.value, *_addresses(item.target))
        case Always():
            yield from read(item.body)
        case Instance():
            yield from (e for pin, e in item.pins.items() if e and pin not in item.outputs)


def _at(body: list[Statement], change: Callable[[Set], list[Statement]]) -> list[Statement]:
    """Return statements with others in place of each assignment."""
    found: list[Statement] = []
    for s in body:
        match s:
            case Set():
                found += change(s)
            case If():
                found.append(If(s.condition, _at(s.yes, change), _at(s.no, change)))
            case Case():
                found.append(Case(s.selector, [(n, _at(inner, change)) for n, inner in s.items]))
    return found


def multiplexers(module: Module) -> None:
    """Write processes without a clock that have few conditions as assignments."""
    for k, item in enumerate(module.items):
        if isinstance(item, Always) and not item.clock:
            found = {s.target for s in _sets(item.body)}
            target = found.pop()
            if target.op == "name" and not found:
                value = _value(item.body, None)
                if value and value.width == target.width:
                    module.items[k] = Assign(target, value)
                    module.signals[target.text].kind = "wire"


def _value(body: list[Statement], value: Expr | None) -> Expr | None:
    """Return what the statements leave in their target, which has a value before them.

    There is none for a choice by labels, for a value that is read several times, and for one that
    depends on the width of its target.
    """
    conditions = 0
    for s in body:
        match s:
            case Set():
                value = None if s.value.bound else s.value
            case If() if value and conditions < _CONDITIONS:
                conditions += 1
                yes, no = _value(s.yes, value), _value(s.no, value)
                value = yes and no and _chosen(s.condition, yes, no)
            case _:
                return None
    return value


def _chosen(condition: Expr, yes: Expr, no: Expr) -> Expr:
    zero, one = const(1, 0), const(1, 1)
    if condition.width == 1:
        if (yes, no) == (one, zero):
            return condition
        if (yes, no) == (zero, one):
            return Expr("u~", (condition,))
        if no == zero:
            return Expr("&", (condition, yes))
        if yes == one:
            return Expr("|", (condition, no))
    return Expr("?", (condition, yes, no), width=yes.width)


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

    def moved(s: Set) -> list[Statement]:
        if s.value.op != "name" or s.value.text not in found or s.target.op == "word":
            return [s]
        process = found.pop(s.value.text)
        gone.add(id(process))
        # The result itself may be that of another process.
        return _at(_at(process.body, to(s.target)), moved)

    def to(target: Expr) -> Callable[[Set], list[Statement]]:
        def change(s: Set) -> list[Statement]:
            part = bits(target, s.target.low, s.target.width)
            assert part is not None
            # A register holds its value without an assignment.
            return [] if s.value == part else [Set(part, s.value)]

        return change

    gone: set[int] = set()
    for item in module.items:
        if isinstance(item, Always) and item.clock:
            item.body = _at(item.body, moved)
            # Yosys attaches the attribute to the wire, and merges equal flip-flops without it.
            signs = {a for e in targets(item) for a in module.signals[e.text].attributes}
            kept = {a for a in signs if a.startswith("(* keep ")}
            item.attributes = tuple(sorted({*item.attributes, *kept}))
    for item in module.items:
        if isinstance(item, Always) and id(item) not in gone:
            item.body = _at(item.body, moved)
    module.items = [item for item in module.items if id(item) not in gone]


def simplify(module: Module) -> None:
    """Remove conditions of nothing; a choice with one label becomes a condition."""
    for item in module.items:
        if isinstance(item, Always):
            item.body = _simple(item.body)


def join(module: Module) -> None:
    """Join processes of registers with the same conditions."""
    found: list[Item] = []
    last: dict[object, tuple[object, Always]] = {}
    for item in module.items:
        if isinstance(item, Always):
            if not item.body:
                continue
            conditions = tuple(_condition(s) for s in item.body if not isinstance(s, Set))
            key = _key(module, item) or (item.attributes, conditions)
            before, other = last.get((item.clock, key), (None, None))
            if other and before == conditions and len(targets(other)) < _ASSIGNMENTS:
                other.body = _joined(other.body, item.body)
                continue
            if item.clock:
                last[item.clock, key] = conditions, item
        found.append(item)
    module.items = found


def _key(module: Module, item: Always) -> object:
    """Return the memory that a process writes, or the process itself if it reads one.

    Tools know a memory by its processes: a port has one, or one with the ports of equal enables
    that follow one another. Of two ports that write a word, the later one wins.
    """
    if any(e.op == "word" for v in values(item) for e in names(v)):
        return id(item)
    return next((e.text for e in targets(item) if module.signals[e.text].depth), None)


def _condition(s: Statement) -> object:
    """Return what two statements have in common that can be one."""
    match s:
        case Set():
            return None
        case If():
            return s.condition
        case Case():
            labels = tuple(label for label, _ in s.items)
            open_ = any("?" in label or label == "default" for label in labels)
            return s.selector, labels if open_ else ()


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
            case If() as a, If() as b:
                found[k] = If(a.condition, _joined(a.yes, b.yes), _joined(a.no, b.no))
            case Case() as a, Case() as b:
                items = dict(a.items)
                for label, body in b.items:
                    items[label] = _joined(items.get(label, []), body)
                found[k] = Case(a.selector, list(items.items()))
    return found


def _simple(body: list[Statement]) -> list[Statement]:
    found: list[Statement] = []
    for s in body:
        match s:
            case Set():
                found.append(s)
            case If():
                found += _simple_if(s.condition, _simple(s.yes), _simple(s.no))
            case Case():
                found += _simple_case(s)
    return found


def _simple_if(condition: Expr, yes: list[Statement], no: list[Statement]) -> list[Statement]:
    if not yes and no:
        inverted = condition.args[0] if condition.op == "u~" else Expr("u~", (condition,))
        return [If(inverted, no, [])]
    return [If(condition, yes, no)] if yes else []


def _simple_case(s: Case) -> list[Statement]:
    items = [(label, _simple(body)) for label, body in s.items]
    if any("?" in label or label == "default" for label, _ in items):
        return [Case(s.selector, items)] if any(body for _, body in items) else []
    items = [(label, body) for label, body in items if body]
    if s.selector.width == 1:
        found = dict(items)
        return _simple_if(s.selector, found.get("1'h1", []), found.get("1'h0", []))
    if len(items) == 1 and "," not in items[0][0]:
        label, body = items[0]
        size, _, value = label.partition("'h")
        return [If(Expr("==", (s.selector, const(int(size), int(value, 16)))), body, [])]
    return [Case(s.selector, items)] if items else []
