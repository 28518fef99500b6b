"""The parts of a module of Verilog, and walks over them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from seedbed.flow.emit.expressions import Expr

__all__ = [
    "Always", "Choice", "Instance", "Item", "Module", "Set", "Signal", "Statement", "rebuilt",
    "rewritten", "statements", "targets", "values",
]  # fmt: skip


@dataclass
class Signal:
    """A port, wire, register or memory of ``depth`` words."""

    name: str
    kind: str
    width: int = 1
    direction: str = ""
    signed: bool = False
    depth: int = 0
    initial: str = ""
    attributes: tuple[str, ...] = ()
    comment: str = ""


@dataclass
class Set:
    """An assignment: a continuous one, or one in a process."""

    target: Expr
    value: Expr


@dataclass
class Choice:
    """Statements by the labels of a ``case``; ``if`` has the labels ``yes`` and ``no``."""

    selector: Expr
    arms: dict[str, list["Statement"]]
    is_if: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a label depends on those before it."""
        return any("?" in label or label == "default" for label in self.arms)


Statement = Set | Choice


@dataclass
class Always:
    """A process: with a clock, its assignments are nonblocking ones."""

    clock: str
    body: list[Statement]
    attributes: tuple[str, ...] = ()


@dataclass
class Instance:
    """A submodule, with the expressions at its pins, of which it drives ``outputs``."""

    kind: str
    name: str
    pins: dict[str, Expr | None]
    attributes: tuple[str, ...] = ()
    outputs: frozenset[str] = frozenset()


Item = Set | Always | Instance


@dataclass
class Module:
    """A module: its ports in order, its signals, and everything else in the order of the text."""

    name: str
    ports: list[str] = field(default_factory=list)
    signals: dict[str, Signal] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    #: Lines of local parameters.
    parameters: list[str] = field(default_factory=list)
    #: Lines of initial values of memories, by block.
    initial: list[list[str]] = field(default_factory=list)


def statements(item: Item) -> Iterator[Statement]:
    """Yield all statements of an item, each choice before its own."""

    def walk(body: list[Statement]) -> Iterator[Statement]:
        for s in body:
            yield s
            if isinstance(s, Choice):
                for inner in s.arms.values():
                    yield from walk(inner)

    match item:
        case Set():
            yield item
        case Always():
            yield from walk(item.body)


def targets(item: Item) -> list[Expr]:
    """Return all signals, slices and memories that an item assigns to, pins excluded."""
    found = [s.target for s in statements(item) if isinstance(s, Set)]
    return [part for e in found for part in (e.args if e.op in ("concat", "bits") else (e,))]


def values(item: Item) -> Iterator[Expr]:
    """Yield all expressions that an item reads: values, conditions, addresses, pins."""
    if isinstance(item, Instance):
        yield from (e for pin, e in item.pins.items() if e and pin not in item.outputs)
    for s in statements(item):
        if isinstance(s, Choice):
            yield s.selector
            continue
        yield s.value
        word = s.target.args[0] if s.target.op == "bits" else s.target
        if word.op == "word":
            yield from word.args


def rebuilt(
    body: list[Statement],
    change: Callable[[Set], list[Statement]],
    select: Callable[[Expr], Expr] = lambda e: e,
) -> list[Statement]:
    """Return statements with others in place of each assignment, and other selectors.

    A choice of nothing is omitted, and so is a label of nothing if that keeps the others' meaning.
    """
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Set):
            found += change(s)
            continue
        arms = {label: rebuilt(inner, change, select) for label, inner in s.arms.items()}
        if not (s.is_if or s.is_open):
            arms = {label: inner for label, inner in arms.items() if inner}
        if any(arms.values()):
            found.append(Choice(select(s.selector), arms, s.is_if))
    return found


def rewritten(
    item: Item,
    new: Callable[[Expr, int | None], Expr],
    target: Callable[[Expr], Expr] = lambda e: e,
) -> Item:
    """Return an item with other expressions and targets.

    ``new`` is told the width of the target, if an expression is the value of an assignment.
    """

    def assigned(e: Expr) -> Expr:
        if e.op == "bits":
            return replace(e, args=(assigned(e.args[0]),))
        # The index of a word is read.
        return target(new(e, None) if e.op == "word" else e)

    def change(s: Set) -> list[Statement]:
        return [Set(assigned(s.target), new(s.value, s.target.width))]

    match item:
        case Set():
            return Set(assigned(item.target), new(item.value, item.target.width))
        case Always():
            return replace(item, body=rebuilt(item.body, change, lambda e: new(e, None)))
        case Instance():
            pins = {
                pin: e and (target(e) if pin in item.outputs else new(e, None))
                for pin, e in item.pins.items()
            }
            return replace(item, pins=pins)
