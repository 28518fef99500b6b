"""The Verilog that Yosys writes, as statements, and statements as readable Verilog."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from seedbed.flow.emit.expressions import Expr, exact, parse, show

__all__ = [
    "BLOCK", "Always", "Assign", "Case", "If", "Instance", "Item", "Module", "Set", "Signal",
    "Statement", "read", "write",
]  # fmt: skip

_MODULE = re.compile(
    r"^((?: *\(\*[^\n]*\*\)\n)*)module (\w+)\s*\(([^;]*)\);\n(.*?)^endmodule\n", re.M | re.S
)
_DECLARATION = re.compile(
    r"(input|output|wire|reg) (?:(signed) )?(?:\[(\d+):0\] )?(\w+)(?: \[(\d+):0\])?(?: = (.*))?;"
)
_INSTANCE = re.compile(r"(\w+) (\w+) \(")
_PIN = re.compile(r"\.(\w+)\((.*)\),?")
#: A register that Yosys adds to a module, initialised to 0: every ``always @*`` reads it.
_TRIGGER = re.compile(r"_dump_module_\d+_")
#: Signals of divisions that are rounded down.
_VALUE = re.compile(r"(wire (?:\[\d+:0\] )?)(\w+) = (.*);")
_WIRES = re.compile(r"(wire (?:\[\d+:0\] )?)(\w+(?:, \w+)+);")
_LINE = re.compile(r"(end)? ?(else)? ?(.*?)? ?(begin)?")
_COLUMNS = 100
#: Most lines in a block of initial values: Yosys's run time for memory contents grows with the
#: square of the lines in a block, and 16,384 lines take half a minute.
BLOCK = 1024

#: ``always @*`` waits for a change of a signal that it reads. In SystemVerilog, an initial value in
#: a declaration is no change, and a blocking assignment in ``initial`` may precede the wait. A
#: nonblocking assignment follows the wait, whatever the order of the processes.
_WAKE = "if (_starts_) begin end"
_START_SIGNAL = """\
  reg _starts_;
  // verilator lint_off INITIALDLY
  initial _starts_ <= 1'b0;
  // verilator lint_on INITIALDLY
"""


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


@dataclass
class Set:
    """An assignment in a process."""

    target: Expr
    value: Expr


@dataclass
class If:
    """A condition."""

    condition: Expr
    yes: list["Statement"]
    no: list["Statement"]


@dataclass
class Case:
    """A choice, by labels."""

    selector: Expr
    items: list[tuple[str, list["Statement"]]]


Statement = Set | If | Case


@dataclass
class Assign:
    """A continuous assignment."""

    target: Expr
    value: Expr


@dataclass
class Always:
    """A process: with a clock, its assignments are nonblocking ones."""

    clock: str
    body: list[Statement]
    attributes: tuple[str, ...] = ()


@dataclass
class Instance:
    """A submodule, with the expressions at its pins."""

    kind: str
    name: str
    pins: dict[str, Expr | None]
    attributes: tuple[str, ...] = ()
    #: Pins that drive what is at them.
    outputs: frozenset[str] = frozenset()


Item = Assign | Always | Instance


@dataclass
class Module:
    """A module: its ports in order, its signals, and everything else in the order of the text."""

    name: str
    ports: list[str]
    signals: dict[str, Signal] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    #: Lines of initial values of memories, by block.
    initial: list[list[str]] = field(default_factory=list)
    attributes: tuple[str, ...] = ()


def read(text: str) -> list[Module]:
    """Return the modules of a text without escaped names.

    Raises ``ValueError`` for a statement that Yosys writes for no design of Amaranth.
    """
    modules = [_Reader(*found.groups()).module for found in _MODULE.finditer(text)]
    outputs = {
        module.name: frozenset(n for n, s in module.signals.items() if s.direction == "output")
        for module in modules
    }
    for module in modules:
        for item in module.items:
            if isinstance(item, Instance):
                item.outputs = outputs[item.kind]
    return modules


class _Reader:
    def __init__(self, attributes: str, name: str, ports: str, body: str):
        self.module = Module(name, [port.strip() for port in ports.split(",")])
        self.module.attributes = tuple(line.strip() for line in attributes.splitlines())
        self.lines = list(_split(body))
        self.at = 0
        self.widths: dict[str, int] = {}
        attributes_: list[str] = []
        while self.at < len(self.lines):
            line = self.take()
            if line.startswith("(* init "):
                # A register is declared with its initial value.
                continue
            if line.startswith("(*"):
                attributes_.append(line)
            else:
                self.item(line, tuple(attributes_))
                attributes_.clear()

    def take(self) -> str:
        self.at += 1
        return self.lines[self.at - 1]

    def item(self, line: str, attributes: tuple[str, ...]) -> None:
        if found := _DECLARATION.fullmatch(line):
            self.declaration(found, attributes)
            return
        items = self.module.items
        if line.startswith("assign "):
            items.append(Assign(*self.assignment(line.removeprefix("assign "))))
        elif line == "always @*":
            items.append(Always("", self.statement()))
        elif found := re.fullmatch(r"always @\(posedge (\w+)\)", line):
            items.append(Always(found[1], self.statement(), attributes))
        elif line == "initial":
            self.take()
            block = []
            while (line := self.take()) != "end":
                block.append(line)
            self.module.initial.append(block)
        elif found := _INSTANCE.fullmatch(line):
            pins: dict[str, Expr | None] = {}
            while pin := _PIN.fullmatch(self.take()):
                pins[pin[1]] = parse(pin[2], self.widths) if pin[2] else None
            items.append(Instance(found[1], found[2], pins, attributes))
        else:
            raise ValueError(f"{line!r} is no statement that is known")

    def declaration(self, found: re.Match[str], attributes: tuple[str, ...]) -> None:
        kind, signed, high, name, depth, initial = found.groups()
        if _TRIGGER.match(name):
            return
        signal = self.module.signals.setdefault(name, Signal(name, "wire"))
        signal.width, signal.signed = int(high or 0) + 1, bool(signed)
        signal.attributes += attributes
        if kind in ("input", "output"):
            signal.direction = kind
        else:
            signal.kind = kind
        signal.depth, signal.initial = int(depth or -1) + 1, initial or ""
        self.widths[name] = signal.width
        if signal.depth:
            self.widths[f"{name}[]"] = signal.width

    def assignment(self, line: str) -> tuple[Expr, Expr]:
        # A target has no operators.
        target, value = re.split(r" <?= ", line.removesuffix(";"), maxsplit=1)
        to = parse(target, self.widths)
        return to, exact(parse(value, self.widths), to.width)

    def statement(self) -> list[Statement]:
        line = self.take()
        if line.startswith("(*"):
            return self.statement()
        if line == "begin":
            found = []
            while self.lines[self.at] != "end":
                found += self.statement()
            self.take()
            return found
        if line.startswith("if ("):
            return self.condition(line[4:-1])
        if found_case := re.fullmatch(r"casez? \((.*)\)", line):
            return self.case(found_case[1])
        if line in ("/* empty */;", ";"):
            return []
        return [Set(*self.assignment(line))]

    def condition(self, condition: str) -> list[Statement]:
        yes, no = self.statement(), []
        if self.lines[self.at : self.at + 1] == ["else"]:
            self.take()
            no = self.statement()
        if _TRIGGER.match(condition):
            return []
        return [If(parse(condition, self.widths), yes, no)]

    def case(self, selector: str) -> list[Statement]:
        items = []
        while (line := self.take()) != "endcase":
            items.append((line.removesuffix(":"), self.statement()))
        return [Case(parse(selector, self.widths), items)]


def _split(body: str) -> Iterator[str]:
    """Yield the lines of a body, with ``begin`` and ``else`` on lines of their own."""
    for line in map(str.strip, body.splitlines()):
        if found := _WIRES.fullmatch(line):
            yield from (f"{found[1]}{name};" for name in found[2].split(", "))
            continue
        if found := _VALUE.fullmatch(line):
            yield from (f"{found[1]}{found[2]};", f"assign {found[2]} = {found[3]};")
            continue
        found = _LINE.fullmatch(line.removesuffix(" begin end"))
        if line.endswith((" begin", " begin end")) or line.startswith("end else"):
            assert found is not None
            yield from filter(None, found.groups())
            yield from ("begin", "end") if line.endswith("begin end") else ()
        elif line:
            yield line


def write(module: Module, *, grouped: bool) -> str:
    """Return the text of a module; with ``grouped``, one line declares several signals."""
    lines = [*module.attributes, f"module {module.name} ("]
    ports = [_declared(module.signals[name]) for name in module.ports]
    for k, (attributes, head, name) in enumerate(ports):
        lines += [f"  {line}" for line in attributes]
        lines.append(f"  {head}{name}{',' if k < len(ports) - 1 else ''}")
    lines.append(");")
    if any(isinstance(item, Always) and not item.clock for item in module.items):
        lines += _START_SIGNAL.splitlines()
    lines += _declarations(module, grouped)
    for number, block in enumerate(module.initial):
        lines += _initial(block, f"initial_{number}")
    for item in module.items:
        lines += _item(item)
    return "\n".join([*lines, "endmodule", ""])


def _declared(signal: Signal) -> tuple[tuple[str, ...], str, str]:
    """Return attributes, the type, and the name with what follows it."""
    words = [*filter(None, [signal.direction]), signal.kind, *(["signed"] if signal.signed else [])]
    words += [f"[{signal.width - 1}:0]"] if signal.width > 1 else []
    name = f"{signal.name} [{signal.depth - 1}:0]" if signal.depth else signal.name
    name += f" = {signal.initial}" if signal.initial else ""
    return signal.attributes, f"{' '.join(words)} ", name


def _order(signal: Signal) -> tuple[object, ...]:
    name = re.sub(r"\d+", lambda number: number[0].zfill(9), signal.name)
    return signal.depth > 0, signal.kind, signal.attributes, signal.width, name


def _declarations(module: Module, grouped: bool) -> Iterator[str]:
    signals = [signal for signal in module.signals.values() if not signal.direction]
    found = list(map(_declared, sorted(signals, key=_order)))
    numbered = enumerate(found)
    for key, group in groupby(numbered, lambda pair: (pair[1][:2], not grouped and pair[0])):
        (attributes, head), _ = key
        declared = [f"{name}," for _, (*_, name) in group]
        yield from (f"  {line}" for line in attributes)
        declared = [f"{head}{declared[0]}", *declared[1:-1], *declared[1:][-1:]]
        declared[-1] = f"{declared[-1][:-1]};"
        first, *rest = _filled(declared, "    ")
        yield from (first[2:], *rest)


def _initial(block: list[str], name: str) -> Iterator[str]:
    """Yield initial values of a memory: a loop where they are all the same."""
    words = [re.fullmatch(r"(\w+)\[(\d+)\] = (.*);", line) for line in block]
    contents = {(word[1], word[3]) if word else None for word in words}
    is_loop = len(block) > 4 and len(contents) == 1 and None not in contents
    for start in range(0, len(block), BLOCK):
        part = block[start : start + BLOCK]
        first = words[start]
        if is_loop and first:
            memory, low, value = first.groups()
            stop = int(low) + len(part)
            yield f"  initial begin : {name}_{low}"
            yield "    integer k;"
            yield f"    for (k = {low}; k < {stop}; k = k + 1) {memory}[k] = {value};"
        else:
            yield "  initial begin"
            yield from _filled(part, "    ")
        yield "  end"


def _filled(parts: list[str], indent: str) -> Iterator[str]:
    """Yield lines with as many statements each as fit."""
    line = ""
    for part in parts:
        if line and len(line) + len(part) >= _COLUMNS:
            yield line
            line = ""
        line = f"{line} {part}" if line else f"{indent}{part}"
    if line:
        yield line


def _wrapped(text: str, indent: str) -> Iterator[str]:
    """Yield lines that are broken at spaces; those after the first begin with ``indent``."""
    while len(text) > _COLUMNS:
        start = len(text) - len(text.lstrip())
        at = text.rfind(" ", start + 1, _COLUMNS)
        if at < 0:
            break
        yield text[:at]
        text = indent + text[at + 1 :]
    yield text


def _item(item: Item) -> Iterator[str]:
    match item:
        case Assign():
            text = f"  assign {show(item.target)} = {show(item.value)};"
            yield from _wrapped(text, "    ")
        case Instance():
            yield from (f"  {line}" for line in item.attributes)
            yield f"  {item.kind} {item.name} ("
            pins = [f"    .{pin}({show(e) if e else ''})" for pin, e in item.pins.items()]
            for k, pin in enumerate(pins):
                yield from _wrapped(f"{pin}{',' if k < len(pins) - 1 else ''}", "      ")
            yield "  );"
        case Always():
            yield from (f"  {line}" for line in item.attributes)
            lines = list(_block(item.body, "<=" if item.clock else "=", "    "))
            event = f"(posedge {item.clock})" if item.clock else "*"
            if item.clock and len(item.body) == 1:
                yield f"  always @{event}"
                yield from lines
            else:
                yield f"  always @{event} begin"
                yield from lines if item.clock else [f"    {_WAKE}", *lines]
                yield "  end"


def _block(body: list[Statement], op: str, indent: str) -> Iterator[str]:
    for statement in body:
        yield from _statement(statement, op, indent)


def _statement(statement: Statement, op: str, indent: str) -> Iterator[str]:
    more = f"{indent}    "
    match statement:
        case Set():
            text = f"{indent}{show(statement.target)} {op} {show(statement.value)};"
            yield from _wrapped(text, more)
        case If():
            head = f"{indent}if ({show(statement.condition)}) "
            if not statement.no and isinstance(statement.yes[0], Set) and len(statement.yes) == 1:
                (line, *rest) = _statement(statement.yes[0], op, "")
                if not rest and len(head + line) <= _COLUMNS:
                    yield head + line
                    return
            yield from _wrapped(f"{head}begin", more)
            yield from _block(statement.yes, op, f"{indent}  ")
            yield from _otherwise(statement.no, op, indent)
        case Case():
            labels = [label for label, _ in statement.items]
            word = "casez" if any("?" in label for label in labels) else "case"
            yield from _wrapped(f"{indent}{word} ({show(statement.selector)})", more)
            for label, body in statement.items:
                lines = list(_block(body, op, f"{indent}    "))
                if len(body) == 1 and len(lines) == 1:
                    yield from _wrapped(f"{indent}  {label}: {lines[0].lstrip()}", more)
                elif body:
                    yield from _wrapped(f"{indent}  {label}: begin", more)
                    yield from lines
                    yield f"{indent}  end"
                else:
                    yield from _wrapped(f"{indent}  {label}: ;", more)
            if "default" not in labels and len(labels) < 2**statement.selector.width:
                yield f"{indent}  default: ;"
            yield f"{indent}endcase"


def _otherwise(no: list[Statement], op: str, indent: str) -> Iterator[str]:
    """Yield the rest of a condition: an ``else`` with another condition is joined."""
    match no:
        case []:
            yield f"{indent}end"
        case [If()]:
            first, *rest = _statement(no[0], op, indent)
            yield f"{indent}end else {first.lstrip()}"
            yield from rest
        case _:
            yield f"{indent}end else begin"
            yield from _block(no, op, f"{indent}  ")
            yield f"{indent}end"
