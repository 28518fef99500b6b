"""Portability fixes for the Verilog that Yosys writes."""

import re
from collections.abc import Callable
from itertools import groupby

__all__ = ["BLOCK", "START", "WAKE", "name_next_values", "postprocess"]

_MODULE = re.compile(r"^module .*?^endmodule\n", re.MULTILINE | re.DOTALL)

#: A register that Yosys adds to a module, initialised to 0: every ``always @*`` reads it.
_TRIGGER = re.compile(r"\\\$auto\$verilog_backend\.cc:\d+:dump_module\$\d+ ")
_TRIGGER_DECLARATION = re.compile(rf"^  reg {_TRIGGER.pattern} = 0;\n", re.MULTILINE)
#: Assignment of part of a signal whose other bits are assigned in separate ``always`` blocks.
_PART = re.compile(r"^  always @\*\n    (\S.* = .*;)\n", re.MULTILINE)
#: These make ``always @*`` run at time 0: the first statement of each, and a signal that it reads.
WAKE = "if (_starts_) begin end"
START = """\
  reg _starts_;
  // verilator lint_off INITIALDLY
  initial _starts_ <= 1'b0;
  // verilator lint_on INITIALDLY
"""

_KEPT = re.compile(r"^  \(\* keep = 32'd1 \*\)\n  reg (?:signed )?(?:\[.*?\] )?(\w+)", re.MULTILINE)

#: Escaped identifiers: Verilog keywords, and names that Yosys generated.
_ESCAPED = re.compile(r"\\(?:(\w+)|\$\S+?:(\w+)\$(\d+)) ")

#: A register that is loaded from an unnamed signal.
_NEXT_VALUE = re.compile(r"^    (\w+) <= (_\d+_);\n", re.MULTILINE)

#: A write port of a memory: clock, enable, assignment and memory; and several ports.
_WRITE = re.compile(
    r"  always @\(posedge (\w+)\) begin\n    if \((\w+)\)\n      ((\w+)\[.*;)\n  end\n"
)
_WRITES = re.compile(
    r"(?:  always @\(posedge \w+\) begin\n    if \(\w+\)\n      \w+\[.*;\n  end\n){2,}"
)

#: A block of initial values, and the maximum number of lines in one.
_INITIAL = re.compile(r"^  initial begin\n((?:    .*;\n)+)  end\n", re.MULTILINE)
BLOCK = 1024


def postprocess(text: str) -> str:
    """Return the Verilog that Yosys wrote, in a form that all supported tools read alike."""
    steps: tuple[Callable[[str], str], ...] = (
        _run_at_time_zero, _mark_kept_registers, _unescape, _join_writes, _split_initial,
    )  # fmt: skip

    def module(found: re.Match[str]) -> str:
        result = found[0]
        for step in steps:
            result = step(result)
        return result

    return _MODULE.sub(module, text)


def _run_at_time_zero(module: str) -> str:
    """Make every ``always @*`` run at time 0.

    ``always @*`` waits for a change of a signal that it reads. In SystemVerilog, an initial value
    in a declaration is no change, and a blocking assignment in ``initial`` may precede the wait. A
    nonblocking assignment follows the wait, whatever the order of the processes.
    """
    module = _TRIGGER.sub("_starts_", _TRIGGER_DECLARATION.sub("", module))
    module = _PART.sub(rf"  always @* begin\n    {WAKE}\n    \1\n  end\n", module)
    if WAKE not in module:
        return module
    head, body = module.split(";\n", 1)
    return f"{head};\n{START}{body}"


def _mark_kept_registers(module: str) -> str:
    """Copy the ``keep`` attribute of a register to its ``always`` block.

    Yosys attaches the attribute to the wire, and merges equal flip-flops without it.
    """
    names = _KEPT.findall(module)
    if not names:
        return module
    clocked = rf"^  (always @\(posedge \w+\)\n    (?:{'|'.join(names)}) <=)"
    return re.sub(clocked, r"  (* keep = 32'd1 *)\n  \1", module, flags=re.MULTILINE)


def _unescape(module: str) -> str:
    """Rename escaped identifiers to plain ones that end in an underscore.

    Names from :func:`seedbed.flow.emit.identifiers.legalize` do not end in an underscore.
    """
    return _ESCAPED.sub(lambda n: f"{n[1]}_" if n[1] else f"_{n[2]}_{n[3]}_", module)


def name_next_values(text: str) -> str:
    """Name the next value of a register ``NAME_next`` in all modules of a text.

    Other temporary signals keep their numbers: Yosys's ``autoname`` would concatenate the
    operators on the path to a named signal into names of a hundred letters and more.
    """

    def named(module: re.Match[str]) -> str:
        used = set(re.findall(r"\w+", module[0]))
        new = {}
        for register, value in _NEXT_VALUE.findall(module[0]):
            name = f"{register}_next"
            if name not in used and not register.startswith("_"):
                new[value] = name
                used.add(name)
        return re.sub(r"\b_\d+_\b", lambda found: new.get(found[0], found[0]), module[0])

    return _MODULE.sub(named, text)


def _join_writes(module: str) -> str:
    """Write a memory in one ``always`` block where several ports have the same enable.

    Synthesis tools infer block RAM with a wide write port from one block, and refuse to infer it
    from a memory that many blocks write.
    """

    def join(found: re.Match[str]) -> str:
        blocks = []
        ports = _WRITE.finditer(found[0])
        for (clock, enable, _), group in groupby(ports, lambda port: port.group(1, 2, 4)):
            same = list(group)
            if len(same) == 1:
                blocks.append(same[0][0])
                continue
            lines = "".join(f"      {port[3]}\n" for port in same)
            begin = f"  always @(posedge {clock}) begin\n    if ({enable}) begin\n"
            blocks.append(f"{begin}{lines}    end\n  end\n")
        return "".join(blocks)

    return _WRITES.sub(join, module)


def _split_initial(module: str) -> str:
    """Split a long ``initial`` block into several.

    Yosys's run time for memory contents grows with the square of the lines in a block: 16,384 lines
    take half a minute.
    """

    def split(found: re.Match[str]) -> str:
        lines = found[1].splitlines(keepends=True)
        parts = ["".join(lines[k : k + BLOCK]) for k in range(0, len(lines), BLOCK)]
        return "".join(f"  initial begin\n{part}  end\n" for part in parts)

    return _INITIAL.sub(split, module)
