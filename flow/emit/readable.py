"""Passes over the statements of a module that make expressions of temporaries.

Yosys writes each operator as an assignment to a signal ``_123_``. These passes put a temporary into
the expression that uses it, name those that are left after what they are of, and join processes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from seedbed.flow.emit.expressions import Expr, bits, mapped, names
from seedbed.flow.emit.names import RESERVED
from seedbed.flow.emit.postprocess import name_next_values
from seedbed.flow.emit.processes import join, registers
from seedbed.flow.emit.reader import MODULE, outputs, read
from seedbed.flow.emit.statements import (
    Always,
    Instance,
    Item,
    Module,
    Set,
    rewritten,
    targets,
    values,
)  # fmt: skip
from seedbed.flow.emit.writer import write

__all__ = ["readable"]

#: A signal that Yosys or :func:`~seedbed.flow.emit.identifiers.legalize` names by a number.
_TEMPORARY = re.compile(r"_\w*\d+_")
#: Most operands of an expression; those of a concatenation are counted one by one.
_OPERANDS = 12
#: Fewest operands of an expression that is written once where it is used several times.
_SHARED = 3
#: Words in the names of temporaries, by operator.
_WORDS = {
    "&": "and", "|": "or", "^": "xor", "u~": "not", "+": "sum", "-": "difference", "*": "product",
    "?": "mux", "==": "equal", "!=": "differs", "<": "less", "<=": "less", ">": "greater",
    ">=": "greater", "<<": "shifted", ">>": "shifted", ">>>": "shifted", "u-": "negative",
    "u|": "any", "u&": "all", "u^": "parity", "word": "data", "concat": "bits",
}  # fmt: skip


def readable(text: str, *, grouped: bool = True) -> str:
    """Return modules with expressions in place of temporaries.

    ``text`` is from :func:`seedbed.flow.emit.postprocess.postprocess`. With ``grouped``, one line
    declares several signals. A module with a statement that is not known keeps its text.
    """
    known = outputs(text)

    def rewrite(found: re.Match[str]) -> str:
        try:
            module = read(found[0], found[1], known)
        except ValueError:
            return name_next_values(found[0])
        _Passes(module).run()
        return write(module, grouped=grouped)

    return MODULE.sub(rewrite, text)


def _is_temporary(name: str) -> bool:
    return bool(_TEMPORARY.fullmatch(name))


def _cost(e: Expr) -> int:
    found = [_cost(arg) for arg in e.args]
    return max(found) if e.op == "concat" else sum(found) or 1


def _is_short(e: Expr) -> bool:
    inner = e.args[0] if e.op == "u~" else e
    return inner.op in ("name", "slice", "const")


def _after_needed(every: Iterable[str], needed: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield names after those that they need: a recursion would be too deep for long chains."""
    begun: set[str] = set()
    for name in every:
        waiting = [] if name in begun else [name]
        while waiting:
            begun.add(waiting[-1])
            first = next((each for each in needed(waiting[-1]) if each not in begun), None)
            if first is None:
                yield waiting.pop()
            else:
                waiting.append(first)


def _is_selection(e: Expr) -> bool:
    """Return whether an expression takes bits, and computes nothing."""
    return e.op in ("name", "slice", "const", "concat") and all(map(_is_selection, e.args))


class _Passes:
    """The passes over one module."""

    def __init__(self, module: Module):
        self.module = module

    def run(self) -> None:
        registers(self.module)
        self.take_names()
        self.resolve()
        self.drop_unread()
        self.inline()
        registers(self.module)
        self.drop_unread()
        self.name()
        join(self.module)

    def reads(self) -> Iterator[Expr]:
        """Yield all signals, slices and memories that are read."""
        for item in self.module.items:
            for e in values(item):
                yield from names(e)

    def drivers(self) -> dict[str, Expr]:
        """Return the values of all signals with one assignment."""
        return {
            item.target.text: item.value
            for item in self.module.items
            if isinstance(item, Set) and item.target.op == "name"
        }

    def take_names(self) -> None:
        """Give a temporary the name of the first signal that it is assigned to."""
        signals = self.module.signals
        new: dict[str, str] = {}
        kept: list[Item] = []
        for item in self.module.items:
            if isinstance(item, Set) and item.target.op == item.value.op == "name":
                name, value = item.target.text, item.value.text
                # A comparison of signed ports would be a signed one.
                is_free = not (_is_temporary(name) or signals[name].signed)
                if is_free and _is_temporary(value) and value not in new:
                    new[value] = name
                    given, own = signals.pop(value), signals[name]
                    own.kind, own.initial = given.kind, given.initial
                    own.attributes += given.attributes
                    continue
            kept.append(item)
        self.module.items = kept
        self.rename(new)

    def rename(self, new: Mapping[str, str]) -> None:
        """Rename signals."""

        def renamed(e: Expr) -> Expr:
            return mapped(e, lambda ref: replace(ref, text=new.get(ref.text, ref.text)))

        self.module.items = [
            rewritten(item, lambda e, _: renamed(e), renamed) for item in self.module.items
        ]
        for name, signal in self.module.signals.items():
            signal.name = new.get(name, name)
        self.module.signals = {signal.name: signal for signal in self.module.signals.values()}

    def resolve(self) -> None:
        """Replace temporaries that are equal to another signal, or are as short as a name."""
        drivers = self.drivers()
        known: dict[Expr, Expr] = {}
        found: dict[str, Expr | None] = {}

        def alias(name: str) -> Expr | None:
            if name not in found:
                found[name] = None
                signal = self.module.signals[name]
                e = mapped(drivers[name], replaced)
                if e.bound or e.width != signal.width or signal.signed:
                    return None
                first = known.setdefault(e, Expr("name", (), name, e.width))
                if _is_temporary(name):
                    is_equal = first.text != name and not (
                        _is_temporary(first.text) and _cost(e) < _SHARED
                    )
                    found[name] = e if _is_short(e) else first if is_equal else None
            return found[name]

        def replaced(e: Expr) -> Expr | None:
            is_read = e.op in ("name", "slice") and e.text in drivers and _is_temporary(e.text)
            by = alias(e.text) if is_read else None
            return by and bits(by, e.low, e.width)

        def needed(name: str) -> Iterator[str]:
            read = names(drivers[name])
            return (e.text for e in read if e.text in drivers and _is_temporary(e.text))

        for name in _after_needed(sorted(drivers, key=_is_temporary), needed):
            alias(name)
        self.change(lambda e, _: mapped(e, replaced))

    def change(self, new: Callable[[Expr, int | None], Expr]) -> None:
        """Replace all expressions; ``new`` is told the width of an assignment's target."""
        self.module.items = [rewritten(item, new) for item in self.module.items]

    def inline(self) -> None:
        """Put a temporary that is read once into the expression that reads it."""
        drivers = self.drivers()
        reads = Counter(e.text for e in self.reads())
        once = {name for name in drivers if _is_temporary(name) and reads[name] == 1}
        final: dict[str, Expr] = {}

        def value(name: str) -> Expr:
            if name not in final:
                final[name] = inlined(drivers[name], self.module.signals[name].width)
            return final[name]

        def inlined(e: Expr, to: int | None) -> Expr:
            if e.op == "name" and e.text in once and e.width == to:
                # The whole value of an assignment of the same width.
                return value(e.text)
            found: dict[str, Expr] = {}
            indices = {
                ref.text for each in names(e) if each.op in ("word", "part")
                for ref in names(each.args[0])
            }  # fmt: skip
            for ref in names(e):
                if ref.text in once and ref.op in ("name", "slice"):
                    whole = value(ref.text)
                    part = None if whole.bound else bits(whole, ref.low, ref.width)
                    # The context of a bound expression would widen an operator.
                    is_widened = e.bound and ref in e.args and part and part.args
                    is_whole = whole.width == self.module.signals[ref.text].width
                    # In Icarus Verilog, an index that is a sum has no width, and leaves its range.
                    is_index = ref.text in indices and part and not _is_selection(part)
                    if part is not None and is_whole and not is_widened and not is_index:
                        found[ref.text] = part
            while found and _cost(new := mapped(e, lambda ref: found.get(ref.text))) > _OPERANDS:
                del found[max(found, key=lambda name: _cost(found[name]))]
            return new if found else e

        def needed(name: str) -> Iterator[str]:
            return (e.text for e in names(drivers[name]) if e.text in once)

        for name in _after_needed(sorted(once), needed):
            value(name)
        self.change(inlined)

    def drop_unread(self) -> None:
        """Remove wires that nobody reads, and declarations that nothing needs."""
        signals = self.module.signals
        kept = {
            name
            for name, signal in signals.items()
            if signal.direction or signal.depth or "keep" in "".join(signal.attributes)
        }
        while True:
            read = kept | {e.text for e in self.reads()}
            items = [
                item for item in self.module.items
                if isinstance(item, Instance) or (isinstance(item, Always) and item.clock)
                or any(e.text in read for e in targets(item))
            ]  # fmt: skip
            if len(items) == len(self.module.items):
                break
            self.module.items = items
        for item in self.module.items:
            pins = item.pins.values() if isinstance(item, Instance) else ()
            read |= {e.text for pin in pins if pin for e in names(pin)}
            read |= {e.text for e in targets(item)}
        self.module.signals = {name: signals[name] for name in signals if name in read}

    def name(self) -> None:
        """Name what is left: after the first signal in its value, and the operator."""
        taken = {*self.module.signals, *RESERVED}
        taken |= {item.name for item in self.module.items if isinstance(item, Instance)}
        new: dict[str, str] = {}
        bases: dict[str, str] = {}
        for name, base, first in self.origins(bases):
            bases[name] = base
            found, number = first, 1
            while found in taken:
                number += 1
                found = f"{first}_{number}"
            taken.add(found)
            new[name] = found
        self.rename(new)

    def origins(self, bases: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield each temporary with the signal that it is named after, and its name."""
        for item in self.module.items:
            if isinstance(item, Instance):
                for pin in sorted(item.outputs):
                    e = item.pins.get(pin)
                    if e and _is_temporary(e.text):
                        yield e.text, f"{item.name}_{pin}", f"{item.name}_{pin}"
            for name in sorted({e.text for e in targets(item) if _is_temporary(e.text)}):
                read = [e for v in values(item) for e in names(v)]
                if isinstance(item, Set) and item.value.op == "?":
                    # The condition comes last.
                    read = [e for arg in (*item.value.args[1:], item.value) for e in names(arg)]
                base = _base(read, bases)
                if isinstance(item, Set):
                    word = _WORDS.get(item.value.op, "value")
                    yield name, base, _fire(item.value) or f"{base}_{word}"
                elif isinstance(item, Always):
                    yield name, base, f"{base}_{'data' if item.clock else 'case'}"


def _fire(e: Expr) -> str:
    """Return a name for the handshake of a stream, or "" if an expression is none."""
    found = sorted(arg.text.rpartition("_")[::2] for arg in e.args if arg.op == "name")
    stream = found[0][0] if found else ""
    is_fire = e.op == "&" and found == [(stream, "ready"), (stream, "valid")]
    return f"{stream}_fire" if is_fire else ""


def _base(found: list[Expr], bases: Mapping[str, str]) -> str:
    """Return the first name among signals: of a temporary, the one that it is named after."""
    for e in found:
        if e.text in bases:
            return bases[e.text]
        if not _is_temporary(e.text):
            return f"{e.text}_{e.low}" if e.op == "slice" and e.width == 1 else e.text
    return "value"
