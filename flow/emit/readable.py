"""Passes over the statements of a module that make expressions of temporaries.

Yosys writes each operator as an assignment to a signal ``_123_``. These passes put a temporary into
the expression that uses it, name those that are left after what they are of, and join processes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from seedbed.flow.emit.expressions import Expr, bits, concat, mapped, names, renamed
from seedbed.flow.emit.names import RESERVED
from seedbed.flow.emit.processes import (
    join,
    multiplexers,
    registers,
    rewritten,
    simplify,
    targets,
    values,
)  # fmt: skip
from seedbed.flow.emit.statements import Always, Assign, Instance, Item, Module, Set

__all__ = ["make_readable"]

#: A signal that Yosys or :func:`~seedbed.flow.emit.identifiers.legalize` names by a number.
_TEMPORARY = re.compile(r"_\w*\d+_")
#: Most operands of an expression; those of a concatenation are counted one by one.
_OPERANDS = 12
#: Words in the names of temporaries, by operator.
_WORDS = {
    "&": "and", "|": "or", "^": "xor", "u~": "not", "+": "sum", "-": "difference", "*": "product",
    "?": "mux", "==": "equal", "!=": "differs", "<": "less", "<=": "less", ">": "greater",
    ">=": "greater", "<<": "shifted", ">>": "shifted", ">>>": "shifted", "u-": "negative",
    "u|": "any", "u&": "all", "u^": "parity", "word": "data", "concat": "bits", "case": "case",
}  # fmt: skip


def make_readable(module: Module) -> None:
    """Change a module in place."""
    _Passes(module).run()


def _is_temporary(name: str) -> bool:
    return bool(_TEMPORARY.fullmatch(name))


def _named(name: str, width: int) -> Expr:
    return Expr("name", (), name, width)


def _cost(e: Expr) -> int:
    found = [_cost(arg) for arg in e.args]
    return max(found) if e.op == "concat" else sum(found) or 1


class _Passes:
    """The passes over one module."""

    def __init__(self, module: Module):
        self.module = module
        self.drivers: dict[str, Expr] = {}

    def run(self) -> None:
        simplify(self.module)
        registers(self.module)
        multiplexers(self.module)
        self.join_parts()
        self.take_names()
        self.resolve()
        self.drop_unread()
        self.narrow()
        self.inline()
        registers(self.module)
        self.drop_unread()
        self.name()
        join(self.module)

    def find_drivers(self) -> None:
        """Find the values of all signals with one assignment."""
        self.drivers = {
            item.target.text: item.value
            for item in self.module.items
            if isinstance(item, Assign) and item.target.op == "name"
        }

    def change(self, new: Callable[[Expr, int | None], Expr]) -> None:
        """Replace all expressions; ``new`` is told the width of an assignment's target."""
        self.module.items = [rewritten(item, new) for item in self.module.items]

    def references(self) -> Iterator[Expr]:
        """Yield all signals, slices and memories that are read."""
        for item in self.module.items:
            for e in values(item):
                yield from names(e)

    def join_parts(self) -> None:
        """Join assignments of the parts of a signal to one of a concatenation."""
        parts: dict[str, list[Assign]] = {}
        for item in self.module.items:
            if isinstance(item, Assign) and item.target.op == "slice":
                parts.setdefault(item.target.text, []).append(item)
        first: dict[int, Assign] = {}
        for name, found in parts.items():
            width = self.module.signals[name].width
            found.sort(key=lambda item: -item.target.low)
            whole = sum(item.target.width for item in found) == width
            if whole and not any(item.value.bound for item in found):
                value = concat(item.value for item in found)
                first |= dict.fromkeys(map(id, found), Assign(_named(name, width), value))
        joined = [first.get(id(item), item) for item in self.module.items]
        self.module.items = list({id(item): item for item in joined}.values())

    def take_names(self) -> None:
        """Give a temporary the name of the first signal that it is assigned to."""
        new: dict[str, str] = {}
        signals = self.module.signals
        kept = []
        for item in self.module.items:
            if isinstance(item, Assign) and item.target.op == item.value.op == "name":
                name, value = signals[item.target.text], signals[item.value.text]
                if _is_temporary(value.name) and value.name not in new and not (
                    # A comparison of signed ports would be a signed one.
                    name.signed or _is_temporary(name.name)
                ):  # fmt: skip
                    new[value.name] = name.name
                    name.kind, name.initial = value.kind, value.initial
                    name.attributes = value.attributes
                    continue
            kept.append(item)
        self.module.items = kept
        self.rename(new)

    def rename(self, new: Mapping[str, str]) -> None:
        """Rename signals: two become one if the new name has a declaration."""

        def target(e: Expr) -> Expr:
            return renamed(e, new)

        self.module.items = [
            rewritten(item, lambda e, _: target(e), target) for item in self.module.items
        ]
        found = {}
        for name, signal in self.module.signals.items():
            if name not in new:
                found[name] = signal
            elif new[name] not in self.module.signals:
                signal.name = new[name]
                found[signal.name] = signal
        self.module.signals = found

    def resolve(self) -> None:
        """Replace temporaries that are equal, or are as short as their names."""
        self.find_drivers()
        signals = self.module.signals
        known: dict[Expr, Expr] = {}
        aliases: dict[str, Expr | None] = {}

        def short(e: Expr) -> bool:
            if e.op == "concat":
                return len(e.args) < 3 and all(map(short, e.args))
            return e.op in ("name", "slice", "const") or (e.op == "u~" and short(e.args[0]))

        def alias(name: str) -> Expr | None:
            if name not in aliases:
                aliases[name] = None
                signal = signals[name]
                own = _named(name, signal.width)
                e = mapped(self.drivers[name], replaced)
                self.drivers[name] = e
                if e.bound or e.width != signal.width or signal.signed:
                    return None
                if _is_temporary(name) and (short(e) or e in known):
                    aliases[name] = e if short(e) else known[e]
                known.setdefault(e, own)
            return aliases[name]

        def replaced(e: Expr) -> Expr | None:
            if e.text not in self.drivers or not _is_temporary(e.text):
                return None
            found = alias(e.text)
            return found and bits(found, e.low, e.width)

        for name in sorted(self.drivers, key=_is_temporary):
            alias(name)
        self.change(lambda e, _: mapped(e, replaced))

    def narrow(self) -> None:
        """Narrow a temporary whose high bits nobody reads, such as the carry of a counter."""
        self.find_drivers()
        read: dict[str, int] = {}
        for e in self.references():
            if e.text in self.drivers and _is_temporary(e.text):
                whole = self.module.signals[e.text].width if e.op == "part" else 0
                read[e.text] = max(read.get(e.text, 0), e.low + e.width, whole)
        narrow = {}
        for name, width in read.items():
            if width < self.module.signals[name].width:
                value = bits(self.drivers[name], 0, width)
                if value is not None:
                    narrow[name] = value
                    self.module.signals[name].width = width

        def narrowed(e: Expr) -> Expr | None:
            if e.text in narrow and (e.low, e.width) == (0, narrow[e.text].width):
                return _named(e.text, e.width)
            return None

        for item in self.module.items:
            if isinstance(item, Assign) and item.target.text in narrow:
                item.value = narrow[item.target.text]
                item.target = _named(item.target.text, item.value.width)
        self.change(lambda e, _: mapped(e, narrowed))

    def inline(self) -> None:
        """Put a temporary that is read once into the expression that reads it."""
        self.find_drivers()
        reads = Counter(e.text for e in self.references())
        once = {name for name in self.drivers if _is_temporary(name) and reads[name] == 1}
        final: dict[str, Expr] = {}

        def value(name: str) -> Expr:
            if name not in final:
                width = self.module.signals[name].width
                final[name] = inlined(self.drivers[name], width)
            return final[name]

        def inlined(e: Expr, to: int | None) -> Expr:
            if e.op == "name" and e.text in once and e.width == to:
                # The whole value of an assignment of the same width.
                return value(e.text)
            found = {}
            for ref in names(e):
                if ref.text in once:
                    whole = value(ref.text)
                    part = None if whole.bound else bits(whole, ref.low, ref.width)
                    if part is not None and whole.width == self.module.signals[ref.text].width:
                        found[ref.text] = part
            while found and _cost(new := mapped(e, lambda ref: found.get(ref.text))) > _OPERANDS:
                del found[max(found, key=lambda name: _cost(found[name]))]
            return new if found else e

        self.change(inlined)

    def drop_unread(self) -> None:
        """Remove wires that nobody reads, and declarations that nothing needs."""
        signals = self.module.signals
        while True:
            read = {e.text for e in self.references()}

            def needed(name: str, read: set[str] = read) -> bool:
                signal = signals[name]
                return name in read or signal.direction != "" or any(
                    "keep" in attribute for attribute in signal.attributes
                )  # fmt: skip

            def kept(item: Item) -> bool:
                if isinstance(item, Instance) or (isinstance(item, Always) and item.clock):
                    return True
                return any(needed(e.text) for e in targets(item))

            items = [item for item in self.module.items if kept(item)]
            if len(items) == len(self.module.items):
                break
            self.module.items = items
        written = {e.text for item in self.module.items for e in targets(item)}
        pins = {
            e.text
            for item in self.module.items
            if isinstance(item, Instance)
            for pin in item.pins.values()
            if pin
            for e in names(pin)
        }
        self.module.signals = {
            name: signal
            for name, signal in signals.items()
            if needed(name) or name in written | pins or signal.depth
        }

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
        next_values = {
            s.value.text: s.target.text
            for item in self.module.items
            if isinstance(item, Always) and item.clock
            for s in item.body
            if isinstance(s, Set) and s.value.op == "name" and s.target.op == "name"
        }
        for item in self.module.items:
            if isinstance(item, Instance):
                for pin in sorted(item.outputs):
                    e = item.pins.get(pin)
                    if e and e.op == "name" and _is_temporary(e.text):
                        yield e.text, f"{item.name}_{pin}", f"{item.name}_{pin}"
                continue
            for name in sorted({e.text for e in targets(item)}):
                if not _is_temporary(name):
                    continue
                read = [e for v in values(item) for e in names(v)]
                if isinstance(item, Assign) and item.value.op == "?":
                    read = [e for arg in (*item.value.args[1:], item.value) for e in names(arg)]
                base = _base(read, bases)
                if isinstance(item, Assign):
                    yield name, base, _fire(item.value) or f"{base}_{_word(item.value)}"
                elif name in next_values:
                    yield name, next_values[name], f"{next_values[name]}_next"
                else:
                    yield name, base, f"{base}_{'data' if item.clock else 'case'}"


def _word(e: Expr) -> str:
    return _WORDS.get(e.op, "value")


def _fire(e: Expr) -> str:
    """Return a name for the handshake of a stream, if an expression is one."""
    found = {arg.text.rpartition("_")[::2] for arg in e.args if arg.op == "name"}
    streams = {stream for stream, _ in found}
    is_fire = e.op == "&" and len(found) == len(e.args) == 2 and len(streams) == 1
    return (
        f"{streams.pop()}_fire" if is_fire and {n for _, n in found} == {"valid", "ready"} else ""
    )


def _base(found: list[Expr], bases: Mapping[str, str]) -> str:
    """Return the first name among signals: of a temporary, the one that it is named after."""
    for e in found:
        if e.text in bases:
            return bases[e.text]
        if not _is_temporary(e.text):
            return f"{e.text}_{e.low}" if e.op == "slice" and e.width == 1 else e.text
    return "value"
