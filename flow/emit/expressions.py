"""Expressions of Verilog in which no context widens an operand.

In Verilog, the width of a sum depends on where it is written: ``c = a + b`` keeps the carry if
``c`` is wider than ``a`` and ``b``, and ``{a + b}`` loses it. :func:`exact` writes the widths out,
as ``{1'h0, a} + {1'h0, b}``: such an expression has the same value in every place. Where that is
not possible, as in products of signed numbers, ``exact`` leaves an expression that is *bound* to
an assignment of its width.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

__all__ = ["Expr", "bits", "concat", "const", "exact", "mapped", "names", "parse", "show"]

_TOKEN = re.compile(
    r"\s*(\d*'s?[bdh][0-9a-fA-Fxz?]+|[\w$]+|>>>|<<|>>|<=|>=|==|!=|\+:|.)", re.DOTALL
)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_NAMED = ("name", "slice", "word", "part")
_ONE_BIT = ("!", "&", "|", "^")
_SHIFTS = ("<<", ">>", ">>>")
#: Of these, the low bits of the result depend on the low bits of the operands only.
_LOW = ("+", "-", "*")
#: Of these, each bit of the result depends on that bit of the operands only.
_BITWISE = ("&", "|", "^")
_OPERATORS = (*_COMPARISONS, *_SHIFTS, *_LOW, *_BITWISE)


@dataclass(frozen=True, slots=True)
class Expr:
    """An operator and its operands. ``width`` is that of the value on its own.

    The operators are those of Verilog, a unary one with a ``u`` before it, and ``name``, ``const``,
    ``slice`` (bits of the signal ``text`` from ``low``), ``part`` (the same with a variable place),
    ``word`` (of the memory ``text``), ``bits`` (of a word), ``concat``, ``$signed``.
    """

    op: str
    args: tuple["Expr", ...] = ()
    text: str = ""
    width: int = 1
    low: int = 0
    signed: bool = False
    #: Whether its value depends on the width of the assignment that it is in.
    bound: bool = False


def const(width: int, value: int) -> Expr:
    """Return an unsigned constant."""
    return Expr("const", (), f"{width}'h{value:0{-(-width // 4)}x}", width)


def _value(e: Expr) -> int | None:
    found = re.fullmatch(r"\d+'(b[01]+|h[0-9a-f]+)", e.text) if e.op == "const" else None
    return int(found[1][1:], 2 if found[1][0] == "b" else 16) if found else None


def concat(parts: Iterable[Expr]) -> Expr:
    """Return a concatenation, highest part first, with neighbours joined where they can be."""
    found: list[Expr] = []
    for part in (inner for e in parts for inner in (e.args if e.op == "concat" else (e,))):
        last = found[-1] if found else None
        values = (_value(last) if last else None), _value(part)
        if last and last.text == part.text and last.op == part.op == "slice" and (
            last.low == part.low + part.width
        ):  # fmt: skip
            found[-1] = replace(last, low=part.low, width=last.width + part.width)
        elif last and values[0] is not None and values[1] is not None:
            width = last.width + part.width
            found[-1] = const(width, values[0] << part.width | values[1])
        else:
            found.append(part)
    width = sum(e.width for e in found)
    return found[0] if len(found) == 1 else Expr("concat", tuple(found), width=width)


def bits(e: Expr, low: int, width: int) -> Expr | None:
    """Return bits of an expression, or None where Verilog has no text for them."""
    if (low, width) == (0, e.width) and not e.bound:
        return e
    value = _value(e)
    if e.op in ("name", "slice"):
        return Expr("slice", (), e.text, width, e.low + low)
    if value is not None:
        return const(width, value >> low & (1 << width) - 1)
    if e.op == "concat":
        return _bits_of_parts(e, low, width)
    args = e.args[1:] if e.op == "?" else e.args
    if e.bound or not (e.op in ("u~", "?", *_BITWISE) or (low == 0 and e.op in ("u-", *_LOW))):
        return None
    taken = [bits(arg, low, width) for arg in args]
    known = [arg for arg in taken if arg]
    if len(known) < len(args):
        return None
    return replace(e, args=(*e.args[: len(e.args) - len(args)], *known), width=width)


def _bits_of_parts(e: Expr, low: int, width: int) -> Expr | None:
    found: list[Expr] = []
    start = e.width
    for part in e.args:
        start -= part.width
        first, stop = max(low, start), min(low + width, start + part.width)
        if first < stop:
            taken = bits(part, first - start, stop - first)
            if taken is None:
                return None
            found.append(taken)
    return concat(found)


def _extended(e: Expr, width: int) -> Expr | None:
    """Return an operand with the width of its context: a signed one repeats its sign."""
    if e.op == "$signed":
        inner = e.args[0]
        if inner.width >= width:
            return bits(inner, 0, width)
        sign = bits(inner, inner.width - 1, 1)
        return sign and concat([sign] * (width - inner.width) + [inner])
    if e.signed or e.bound:
        return None
    if e.width >= width:
        return bits(e, 0, width)
    return concat([const(width - e.width, 0), e])


def _values(op: str, args: Sequence[Expr]) -> Sequence[Expr]:
    """Return the operands that a context widens: no condition, and no distance of a shift."""
    return args[op == "?" : 1 if op in _SHIFTS else None]


def _unsigned(e: Expr) -> Expr:
    return e.args[0] if e.op == "$signed" else e


def exact(e: Expr, width: int) -> Expr:
    """Return an expression whose value, assigned to ``width`` bits, is that of ``e`` there."""
    if not all(arg.signed for arg in _values(e.op, e.args)):
        # One unsigned operand makes all of them unsigned.
        e = replace(e, args=tuple(_unsigned(arg) for arg in e.args))
    if e.op in _COMPARISONS:
        longest = max(arg.width for arg in e.args)
        signed = all(arg.signed for arg in e.args)
        operands: list[Expr] = []
        for arg in e.args:
            longer = _extended(arg, longest)
            if longer and signed:
                longer = Expr("$signed", (longer,), width=longest, signed=True)
            operands.append(longer or arg)
        e = replace(e, args=tuple(operands))
    elif e.op == "u!" and e.args[0].width > 1:
        e = Expr("==", (e.args[0], const(e.args[0].width, 0)))
    elif e.op in ("u~", "u-", "?", "<<", ">>", "+", "-", "*", *_BITWISE):
        product = e.op == "*" and any(arg.width < width for arg in e.args)
        shift = e.op == ">>" and (e.signed or e.args[0].width > width)
        first = 1 if e.op == "?" else 0
        stop = 1 if e.op in ("<<", ">>") else len(e.args)
        known = [new for arg in e.args[first:stop] if (new := _extended(arg, width))]
        if product or shift or len(known) < stop - first:
            return replace(e, bound=True)
        args = (*e.args[:first], *known, *e.args[stop:])
        return replace(e, args=args, width=width, signed=False)
    elif e.op in (">>>", "$signed"):
        return replace(e, bound=True)
    return e if e.width == width and not e.signed else _extended(e, width) or replace(e, bound=True)


def mapped(e: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return an expression in which ``change`` replaces what has a name."""
    if e.args:
        args = tuple(mapped(arg, change) for arg in e.args)
        if e.op == args[0].op == "u~":
            return args[0].args[0]
        if any(new is not old for new, old in zip(args, e.args, strict=True)):
            e = concat(args) if e.op == "concat" else replace(e, args=args)
    return change(e) or e if e.op in _NAMED else e


def names(e: Expr) -> Iterator[Expr]:
    """Yield all signals, slices and memories that an expression reads."""
    if e.op in _NAMED:
        yield e
    for arg in e.args:
        yield from names(arg)


class _Parser:
    def __init__(self, text: str, widths: dict[str, int]):
        self.tokens = [token for token in _TOKEN.findall(text) if token.strip()]
        self.widths = widths
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ValueError(f"{token!r} is read in {''.join(self.tokens)!r}, not {expected!r}")
        self.at += 1
        return token

    def expression(self) -> Expr:
        """Return an operand, or one operator with its operands: Yosys writes no others."""
        if self.peek() in ("~", "-", "!", "&", "|", "^"):
            op = self.take()
            arg = self.operand()
            if op in _ONE_BIT:
                return Expr(f"u{op}", (arg,))
            return Expr(f"u{op}", (arg,), width=arg.width, signed=arg.signed)
        args = [self.operand()]
        op = self.peek()
        if op != "?" and op not in _OPERATORS:
            return args[0]
        self.take()
        args.append(self.operand())
        if op == "?":
            self.take(":")
            args.append(self.operand())
        if op in _COMPARISONS:
            return Expr(op, tuple(args))
        values = _values(op, args)
        width, signed = max(arg.width for arg in values), all(arg.signed for arg in values)
        return Expr(op, tuple(args), width=width, signed=signed)

    def operand(self) -> Expr:
        token = self.take()
        if token == "{":
            return self.concatenation()
        if token == "$signed":
            self.take("(")
            arg = self.operand()
            self.take(")")
            return Expr(token, (arg,), width=arg.width, signed=True)
        if "'" in token or token.isdigit():
            size = token.partition("'")[0]
            width = int(size) if size and "'" in token else 32
            return Expr("const", (), token, width, signed="'s" in token or "'" not in token)
        if token not in self.widths:
            raise ValueError(f"{token!r} is no signal")
        width = self.widths[token]
        if self.peek() != "[":
            return Expr("name", (), token, width)
        return self.selected(token, width)

    def concatenation(self) -> Expr:
        if self.tokens[self.at + 1] == "{":
            count = int(self.take())
            self.take("{")
            parts = [self.concatenation()] * count
            self.take("}")
            return concat(parts)
        parts = [self.operand()]
        while self.take() == ",":
            parts.append(self.operand())
        return concat(parts)

    def selected(self, name: str, width: int) -> Expr:
        self.take("[")
        index = self.operand()
        token = self.take()
        if token == ":":
            low = int(self.take())
            self.take("]")
            return bits(Expr("name", (), name, width), low, int(index.text) - low + 1)  # type: ignore[return-value]
        if token == "+:":
            size = int(self.take())
            self.take("]")
            return Expr("part", (index,), name, size)
        if index.text.isdigit() and f"{name}[]" not in self.widths:
            return Expr("slice", (), name, 1, int(index.text)) if width > 1 else (
                Expr("name", (), name, 1)
            )  # fmt: skip
        if f"{name}[]" not in self.widths:
            return Expr("part", (index,), name)
        word = Expr("word", (index,), name, width)
        if self.peek() != "[":
            return word
        self.take("[")
        high = low = int(self.take())
        if self.take() == ":":
            low = int(self.take())
            self.take("]")
        return Expr("bits", (word,), width=high - low + 1, low=low)


def parse(text: str, widths: dict[str, int]) -> Expr:
    """Return the expression of a text, whose signals have ``widths``, not yet exact.

    A memory has the width of a word, and an entry ``NAME[]``.
    """
    parser = _Parser(text, widths)
    found = parser.expression()
    if parser.peek():
        raise ValueError(f"{text!r} is no expression of Verilog that is known")
    return found


def show(e: Expr) -> str:
    """Return the text of an expression: parentheses wherever levels of operators meet."""
    match e.op:
        case "name" | "const":
            return e.text
        case "slice" | "bits":
            high = f"{e.low + e.width - 1}:" if e.width > 1 else ""
            return f"{e.text or show(e.args[0])}[{high}{e.low}]"
        case "word":
            return f"{e.text}[{show(e.args[0])}]"
        case "part":
            size = f" +: {e.width}" if e.width > 1 else ""
            return f"{e.text}[{show(e.args[0])}{size}]"
        case "concat":
            parts = list(_repeated(e.args))
            return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"
        case "$signed":
            return f"$signed({show(e.args[0])})"
        case "?":
            condition, yes, no = e.args
            last = show(no) if no.op == "?" else _operand(no)
            return f"{_operand(condition)} ? {_operand(yes)} : {last}"
    if e.op[0] == "u":
        # "^~" is another operator.
        inner = e.args[0]
        text = f"({show(inner)})" if inner.op == "u~" else _operand(inner)
        return f"{e.op[1:]}{text}"
    left, right = e.args
    # a & b & c is (a & b) & c.
    first = show(left) if left.op == e.op and e.op in ("+", *_BITWISE) else _operand(left)
    return f"{first} {e.op} {_operand(right)}"


def _operand(e: Expr) -> str:
    """Return the text of an operand, in parentheses if it is an operator other than ``~``."""
    is_operator = e.op in _OPERATORS or e.op == "?" or (e.op[0] == "u" and e.op != "u~")
    return f"({show(e)})" if is_operator else show(e)


def _repeated(parts: tuple[Expr, ...]) -> Iterator[str]:
    for part, group in groupby(parts):
        count, text = len(list(group)), show(part)
        yield text if count == 1 else f"{{{count}{{{text}}}}}"
