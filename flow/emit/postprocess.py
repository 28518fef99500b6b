"""What Yosys's Verilog needs besides, so that every tool reads it alike."""

import re
from collections.abc import Callable

__all__ = ["BLOCK", "postprocess"]

_MODULE = re.compile(r"^module .*?^endmodule\n", re.MULTILINE | re.DOTALL)

#: A register of Yosys's, one a module, that is 0 from the start: every ``always @*`` reads it.
_TRIGGER = re.compile(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+ ")
_DECLARED = re.compile(rf"^  reg {_TRIGGER.pattern} = 0;\n", re.MULTILINE)
#: What Yosys writes of a part of a signal, where others are assigned in an ``always`` of their own.
_PART = re.compile(r"^  always @\*\n    (\S.* = .*;)\n", re.MULTILINE)
_WAKE = "if (_starts_) begin end"
_STARTS = """\
  reg _starts_;
  // verilator lint_off INITIALDLY
  initial _starts_ <= 1'b0;
  // verilator lint_on INITIALDLY
"""

_KEPT = re.compile(r"^  \(\* keep = 32'd1 \*\)\n  reg (?:signed )?(?:\[.*?\] )?(\w+)", re.MULTILINE)

#: What Yosys escapes: words of the language, and names that it made itself.
_ESCAPED = re.compile(r"\\(?:(\w+)|\$\S+?:(\w+)\$(\d+)) ")

#: A register that is loaded from a signal without a name of its own.
_LOADED = re.compile(r"^    (\w+) <= (_\d+_);\n", re.MULTILINE)

#: A block of initial values, and the most lines that one gets.
_INITIAL = re.compile(r"^  initial begin\n((?:    .*;\n)+)  end\n", re.MULTILINE)
BLOCK = 1024


def postprocess(text: str) -> str:
    """Return the Verilog that Yosys wrote of Amaranth's modules, as tools of all sorts need it."""

    def module(found: re.Match[str]) -> str:
        made = found[0]
        steps: tuple[Callable[[str], str], ...] = (_started, _marked, _unescaped, _named, _split)
        for step in steps:
            made = step(made)
        return made

    return _MODULE.sub(module, text)


def _started(module: str) -> str:
    """Have every ``always @*`` run at time 0.

    It waits for a change of what it reads. A declaration's initial value is none in SystemVerilog,
    and an assignment in ``initial`` may come before the wait: a nonblocking one comes after it,
    in whatever order processes start.
    """
    module = _TRIGGER.sub("_starts_", _DECLARED.sub("", module))
    module = _PART.sub(rf"  always @* begin\n    {_WAKE}\n    \1\n  end\n", module)
    if _WAKE not in module:
        return module
    head, body = module.split(";\n", 1)
    return f"{head};\n{_STARTS}{body}"


def _marked(module: str) -> str:
    """Mark, of registers that are to be kept, the ``always`` as well.

    Yosys has a register's mark at the wire, and merges equal flip-flops that have none themselves.
    """
    names = _KEPT.findall(module)
    if not names:
        return module
    clocked = rf"^  (always @\(posedge \w+\)\n    (?:{'|'.join(names)}) <=)"
    return re.sub(clocked, r"  (* keep = 32'd1 *)\n  \1", module, flags=re.MULTILINE)


def _unescaped(module: str) -> str:
    """Give what is escaped a name without escapes, ending in an underscore.

    No name of :func:`seedbed.flow.emit.identifiers.legalize` ends so.
    """
    return _ESCAPED.sub(lambda n: f"{n[1]}_" if n[1] else f"_{n[2]}_{n[3]}_", module)


def _named(module: str) -> str:
    """Call the next value of a register ``NAME_next``.

    Yosys's own ``autoname`` joins the operators on the path to a signal that has a name, to words
    of a hundred letters and more: all other temporary signals keep their numbers.
    """
    taken = set(re.findall(r"\w+", module))
    new = {}
    for register, value in _LOADED.findall(module):
        name = f"{register}_next"
        if name not in taken and not register.startswith("_"):
            new[value] = name
            taken.add(name)
    return re.sub(r"\b_\d+_\b", lambda found: new.get(found[0], found[0]), module)


def _split(module: str) -> str:
    """Make several ``initial`` blocks of a long one.

    Yosys takes apart what a memory holds in a time that grows with the square of the block's lines:
    16,384 of them take half a minute.
    """

    def split(found: re.Match[str]) -> str:
        lines = found[1].splitlines(keepends=True)
        parts = ["".join(lines[k : k + BLOCK]) for k in range(0, len(lines), BLOCK)]
        return "".join(f"  initial begin\n{part}  end\n" for part in parts)

    return _INITIAL.sub(split, module)
