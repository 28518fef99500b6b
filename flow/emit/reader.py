"""The Verilog that Yosys writes, as statements."""

import re
from collections.abc import Iterator

from seedbed.flow.emit.expressions import Expr, exact, parse
from seedbed.flow.emit.postprocess import WAKE
from seedbed.flow.emit.statements import Always, Choice, Instance, Module, Set, Signal, Statement

__all__ = ["MODULE", "outputs", "read"]

#: Text and name of a module.
MODULE = re.compile(r"^module (\w+) ?\(.*?^endmodule\n", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"^  output (?:.* )?(\w+)(?: = \S+?)?[;,]?(?:  //.*)?$", re.MULTILINE)
_DECLARATION = re.compile(
    r"(?:(input|output) )?(?:(wire|reg) )?(?:(signed) )?(?:\[(\d+):0\] )?(\w+)"
    r"(?: \[(\d+):0\])?(?: = (.*))?"
)
_INSTANCE = re.compile(r"(\w+) (\w+) \(")
_PIN = re.compile(r"\.(\w+)\((.*)\),?")
#: What :mod:`seedbed.flow.emit.postprocess` adds to processes, and attributes without a meaning:
#: a register is declared with its initial value. Signals of no bits are not read.
_IGNORED = (
    "reg _starts_;", "initial _starts_ <= 1'b0;", "// ", "(* init ", "(* full_case ",
    "wire [-1:0] ",
)  # fmt: skip


def outputs(text: str) -> dict[str, frozenset[str]]:
    """Return the outputs of each module of a text."""
    return {found[1]: frozenset(_OUTPUT.findall(found[0])) for found in MODULE.finditer(text)}


def read(text: str, name: str, outputs: dict[str, frozenset[str]]) -> Module:
    """Return the module ``name``, whose text has no escaped names.

    Raises ``ValueError`` for a statement that is not known.
    """
    return _Reader(text, name, outputs).module


def _split(text: str) -> Iterator[str]:
    """Yield the lines of a module's body, with ``begin``, ``end`` and ``else`` on their own."""
    for line in map(str.strip, text.splitlines()):
        if line == WAKE or line.startswith(_IGNORED):
            continue
        yield from filter(None, map(str.strip, re.split(r"\b(begin|end|else)\b", line)))


class _Reader:
    def __init__(self, text: str, name: str, outputs: dict[str, frozenset[str]]):
        self.module = Module(name)
        self.outputs = outputs
        self.widths: dict[str, int] = {}
        head, _, body = text.partition(");\n")
        ports = head.partition("(")[2]
        if ports.startswith("\n"):
            self.header(ports)
        else:
            self.module.ports = re.split(r"\s*,\s*", ports.strip())
        self.lines = list(_split(body))
        self.at = 0
        while self.peek() != "endmodule":
            attributes = []
            while self.peek().startswith("(*"):
                attributes.append(self.take())
            self.item(self.take(), tuple(attributes))

    def peek(self) -> str:
        return self.lines[self.at]

    def take(self) -> str:
        self.at += 1
        return self.lines[self.at - 1]

    def header(self, text: str) -> None:
        """Read ports that are declared in the module's header."""
        for line in filter(None, map(str.strip, text.splitlines())):
            declared, _, comment = line.partition("  // ")
            self.module.ports.append(self.declaration(declared.removesuffix(","), (), comment))

    def item(self, line: str, attributes: tuple[str, ...]) -> None:
        module = self.module
        if line.startswith(("input ", "output ", "wire ", "reg ")):
            self.declaration(line.removesuffix(";"), attributes)
        elif line.startswith("localparam "):
            module.parameters.append(line)
        elif line.startswith("assign "):
            module.items.append(self.assignment(line.removeprefix("assign ")))
        elif line == "always @*":
            module.items.append(Always("", self.statement()))
        elif found := re.fullmatch(r"always @\(posedge (\w+)\)", line):
            module.items.append(Always(found[1], self.statement(), attributes))
        elif line == "initial":
            self.take()
            block = []
            while (line := self.take()) != "end":
                block.append(line)
            module.initial.append(block)
        elif found := _INSTANCE.fullmatch(line):
            pins: dict[str, Expr | None] = {}
            while pin := _PIN.fullmatch(self.take()):
                pins[pin[1]] = parse(pin[2], self.widths) if pin[2] else None
            known = self.outputs[found[1]]
            module.items.append(Instance(found[1], found[2], pins, attributes, known))
        else:
            raise ValueError(f"{line!r} is no statement that is known")

    def declaration(self, line: str, attributes: tuple[str, ...], comment: str = "") -> str:
        found = _DECLARATION.fullmatch(line)
        if not found:
            raise ValueError(f"{line!r} is no declaration that is known")
        direction, kind, signed, high, name, depth, initial = found.groups()
        signal = self.module.signals.setdefault(name, Signal(name, "wire", comment=comment))
        signal.width, signal.signed = int(high or 0) + 1, bool(signed)
        signal.attributes += attributes
        signal.direction = direction or signal.direction
        signal.kind = kind or signal.kind
        signal.depth, signal.initial = int(depth or -1) + 1, initial or ""
        self.widths[name] = signal.width
        if signal.depth:
            self.widths[f"{name}[]"] = signal.width
        return name

    def assignment(self, line: str) -> Set:
        # A target has no operators.
        target, value = re.split(r" <?= ", line.removesuffix(";"), maxsplit=1)
        to = parse(target, self.widths)
        return Set(to, exact(parse(value, self.widths), to.width))

    def statement(self) -> list[Statement]:
        line = self.take()
        if line == "begin":
            found = []
            while self.peek() != "end":
                found += self.statement()
            self.take()
            return found
        if line.startswith("if ("):
            arms = {"yes": self.statement(), "no": []}
            if self.peek() == "else":
                self.take()
                arms["no"] = self.statement()
            return [Choice(parse(line[4:-1], self.widths), arms, is_if=True)]
        if case := re.fullmatch(r"casez? \((.*)\)", line):
            arms = {}
            while (line := self.take()) != "endcase":
                arms[line.removesuffix(":")] = self.statement()
            return [Choice(parse(case[1], self.widths), arms)]
        return [] if line in ("/* empty */;", ";") else [self.assignment(line)]
