"""Statements as readable Verilog."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from textwrap import wrap

from seedbed.flow.emit.expressions import Expr, show
from seedbed.flow.emit.postprocess import START, WAKE
from seedbed.flow.emit.statements import (
    Always,
    Choice,
    Instance,
    Item,
    Module,
    Set,
    Signal,
    Statement,
)  # fmt: skip

__all__ = ["write"]

_COLUMNS = 100
#: A comment that makes a line longer has a line before the port.
_COMMENTED = 119
#: Digits of a long constant that it has without them, too.
_ZEROS = re.compile(r"(?<='h)0{16,}(?=[0-9a-f])")


def write(module: Module, *, grouped: bool) -> str:
    """Return the text of a module; with ``grouped``, one line declares several signals."""
    lines = [f"module {module.name} ("]
    for k, name in enumerate(module.ports):
        signal = module.signals[name]
        lines += [f"  {line}" for line in signal.attributes]
        line = f"  {_type(signal)}{_name(signal)}{',' if k < len(module.ports) - 1 else ''}"
        comment = f"  // {signal.comment}" if signal.comment else ""
        if len(line) + len(comment) > _COMMENTED:
            lines += [f"  // {part}" for part in wrap(signal.comment, 95)]
            comment = ""
        lines.append(line + comment)
    lines += [");", *(f"  {line}" for line in module.parameters)]
    if any(isinstance(item, Always) and not item.clock for item in module.items):
        lines += START.splitlines()
    lines += _declarations(module, grouped)
    for number, block in enumerate(module.initial):
        lines += _initial(block, f"initial_{number}")
    for item in module.items:
        lines += _item(item)
    return _ZEROS.sub("", "\n".join([*lines, "endmodule", ""]))


def _type(signal: Signal) -> str:
    words = [signal.direction, signal.kind, "signed" * signal.signed]
    words += [f"[{signal.width - 1}:0]" * (signal.width > 1)]
    return "".join(f"{word} " for word in words if word)


def _name(signal: Signal) -> str:
    depth = f" [{signal.depth - 1}:0]" if signal.depth else ""
    return f"{signal.name}{depth}{f' = {signal.initial}' if signal.initial else ''}"


def _declarations(module: Module, grouped: bool) -> Iterator[str]:
    def order(signal: Signal) -> tuple[object, ...]:
        name = re.sub(r"\d+", lambda number: number[0].zfill(9), signal.name)
        return signal.depth > 0, signal.kind, signal.attributes, signal.width, name

    def key(signal: Signal) -> tuple[object, ...]:
        return (*order(signal)[:4], None if grouped else signal.name)

    signals = (signal for signal in module.signals.values() if not signal.direction)
    for _, group in groupby(sorted(signals, key=order), key):
        first, *rest = group
        yield from (f"  {line}" for line in first.attributes)
        parts = [f"{_type(first)}{_name(first)}", *map(_name, rest)]
        ends = ["," for _ in rest] + [";"]
        line, *more = _filled(map("".join, zip(parts, ends, strict=True)), "    ")
        yield from (line[2:], *more)


def _initial(block: list[str], name: str) -> Iterator[str]:
    """Yield initial values of a memory: a loop where they are all the same."""
    words = [re.fullmatch(r"(\w+)\[(\d+)\] = (.*);", line) for line in block]
    contents = {(word[1], word[3]) if word else None for word in words}
    if len(block) > 4 and len(contents) == 1 and words[0]:
        memory, low, value = words[0].groups()
        stop = int(low) + len(block)
        yield f"  initial begin : {name}"
        yield "    integer k;"
        yield f"    for (k = {low}; k < {stop}; k = k + 1) {memory}[k] = {value};"
    else:
        yield "  initial begin"
        yield from _filled(block, "    ")
    yield "  end"


def _filled(parts: Iterable[str], indent: str) -> Iterator[str]:
    """Yield lines with as many statements each as fit."""
    line = ""
    for part in parts:
        if line and len(line) + len(part) >= _COLUMNS:
            yield line
            line = ""
        line = f"{line} {part}" if line else f"{indent}{part}"
    yield line


def _wrapped(text: str) -> list[str]:
    """Return lines that are broken at spaces, the others with four more spaces of indentation."""
    indent = " " * (len(text) - len(text.lstrip()) + 4)
    lines = []
    while len(text) > _COLUMNS and (at := text.rfind(" ", len(indent), _COLUMNS)) > 0:
        lines.append(text[:at])
        text = indent + text[at + 1 :]
    return [*lines, text]


def _item(item: Item) -> list[str]:
    match item:
        case Set():
            return _wrapped(f"  assign {show(item.target)} = {show(item.value)};")
        case Instance():
            pins = [f"    .{pin}({show(e) if e else ''})" for pin, e in item.pins.items()]
            lines = [f"  {item.kind} {item.name} ("]
            lines += [line for pin in pins[:-1] for line in _wrapped(f"{pin},")]
            lines += [line for pin in pins[-1:] for line in _wrapped(pin)]
            lines.append("  );")
        case Always():
            body = _body(item.body, "<=" if item.clock else "=", "    ")
            if item.clock:
                lines = _block(f"  always @(posedge {item.clock})", body)
            else:
                lines = _block("  always @*", [f"    {WAKE}", *body])
    return [*(f"  {line}" for line in item.attributes), *lines]


def _block(head: str, body: list[str], *, short: bool = True) -> list[str]:
    """Return a head with its statements: with ``short``, on one line if they are one that fits."""
    line = f"{head} {body[0].lstrip()}" if body else f"{head} ;"
    if short and len(body) < 2 and len(line) <= _COLUMNS and line.endswith(";"):
        return [line]
    indent = " " * (len(head) - len(head.lstrip()))
    return [*_wrapped(f"{head} begin"), *body, f"{indent}end"]


def _body(body: list[Statement], op: str, indent: str) -> list[str]:
    return [line for s in body for line in _statement(s, op, indent)]


def _statement(s: Statement, op: str, indent: str) -> list[str]:
    if isinstance(s, Set):
        return _wrapped(f"{indent}{show(s.target)} {op} {show(s.value)};")
    if s.is_if:
        return _condition(s, op, indent)
    word = "casez" if any("?" in label for label in s.arms) else "case"
    lines = _wrapped(f"{indent}{word} ({show(s.selector)})")
    for label, body in s.arms.items():
        lines += _block(f"{indent}  {label}:", _body(body, op, f"{indent}    "))
    if "default" not in s.arms and len(s.arms) < 2**s.selector.width:
        lines.append(f"{indent}  default: ;")
    return [*lines, f"{indent}endcase"]


def _condition(s: Choice, op: str, indent: str) -> list[str]:
    """Return a condition: an ``else`` with nothing but another condition is joined."""
    condition, yes, no = show(s.selector), s.arms["yes"], s.arms["no"]
    if not yes:
        condition, yes, no = show(Expr("u!", (s.selector,))), no, []
    # An "else" belongs to the last "if".
    short = isinstance(yes[0], Set)
    lines = _block(f"{indent}if ({condition})", _body(yes, op, f"{indent}  "), short=short)
    match no:
        case []:
            return lines
        case [Choice(is_if=True) as inner]:
            first, *rest = _condition(inner, op, indent)
            first = f"else {first.lstrip()}"
        case _:
            first, *rest = _block(f"{indent}else", _body(no, op, f"{indent}  "))
    if lines[-1] == f"{indent}end":
        return [*lines[:-1], f"{lines[-1]} {first.lstrip()}", *rest]
    return [*lines, f"{indent}{first.lstrip()}", *rest]
