# amaranth: UnusedElaboratable=no
"""The emitted Verilog is proved equal to what Yosys writes, module by module."""

import re

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import Component, In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit import expressions
from seedbed.flow.emit.convert import convert
from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.emit.identifiers import legalize
from seedbed.flow.emit.postprocess import postprocess
from seedbed.sim import tools

#: Cores whose proofs take seconds; CI has all configurations.
QUICK = ["lfsr", "skid_buffer", "urng_array", "loss_sign", "requantize", "host_link", "sdram"]

SIDE = """\
read_verilog {0}.v
proc -norom
dump -m -o {0}.initial a:init
memory_collect
opt_clean
design -save {0}
"""
PROOF = """\
design -reset
{boxes}
design -copy-from gold -as gold {module}
design -copy-from gate -as gate {module}
equiv_make gold gate proof
delete gold gate
cd proof
opt_expr -undriven
opt_merge
opt_clean
equiv_struct
equiv_simple
tee -q -o {module}.status equiv_status
cd
"""


def elaborated(component, name):
    """Return the RTLIL of a component, with names of Verilog."""
    return legalize(deduplicate(rtlil.convert(component, name=name, emit_src=False)))


def initial(dump, text):
    """Return the initial values of the registers of a text, from yosys's dump of all wires."""
    declared = re.findall(r"^module (\w+)(.*?)^endmodule", text, re.M | re.S)
    registers = {name: {*re.findall(r"^  reg .*?(\w+) = ", body, re.M)} for name, body in declared}
    found, value, module = [], "", ""
    for words in map(str.split, dump.splitlines()):
        match words:
            case ["module", name]:
                module = name[1:]
            case ["attribute", "\\init", value]:
                pass
            case ["wire", *_, name] if name[1:] in registers[module]:
                found.append((module, name[1:], value))
    return sorted(found)


def prove(folder, old, new):
    """Return the signals that differ; submodules are equal by their own proofs."""
    (folder / "gold.v").write_text(old)
    (folder / "gate.v").write_text(new)
    modules = dict(re.findall(r"^module (\w+)(.*?)^endmodule", old, re.M | re.S))
    assert sorted(modules) == sorted(re.findall(r"^module (\w+)", new, re.M))
    script = SIDE.format("gold") + "design -reset\n" + SIDE.format("gate")
    for module, body in modules.items():
        parts = sorted({*re.findall(r"^  (\w+) \w+ \($", body, re.M)} & {*modules})
        boxes = (f"design -copy-from gold -as {part} {part}\nblackbox {part}" for part in parts)
        script += PROOF.format(module=module, boxes="\n".join(boxes))
    (folder / "run.ys").write_text(script)
    tools.run("YOSYS", "-q", "-s", "run.ys", cwd=folder)
    found = []
    for module in modules:
        status = (folder / f"{module}.status").read_text()
        (count,) = re.findall(r"and (\d+) are unproven", status)
        found += [module] * int(count)
    first, second = ((folder / f"{side}.initial").read_text() for side in ("gold", "gate"))
    if initial(first, old) != initial(second, old):
        found.append("initial values")
    return found


def differing(component, name, folder):
    text = convert(elaborated(component, name)).partition("\n")[2]
    # Words of the language are escaped.
    return prove(folder, re.sub(r"\\(\w+) ", r"\1_", text), postprocess(text))


@pytest.mark.parametrize("name", QUICK)
def test_text_is_equal_to_the_netlist(name, tmp_path):
    core = CORES[name]
    assert differing(core.component(core.configure(core.small)), name, tmp_path) == []


@pytest.mark.long
def test_text_is_equal_to_the_netlist_of_every_configuration(configured, tmp_path):
    core, params = configured
    assert differing(core.component(core.configure(params)), core.name, tmp_path) == []


class Operators(Component):
    """All operators, of signed and unsigned numbers of several widths, in each other's place."""

    def __init__(self):
        ports = {"a": In(5), "b": In(3), "c": In(1), "p": In(signed(5)), "q": In(signed(3))}
        super().__init__({**ports, "o": Out(400), "r": Out(signed(7))})

    def elaborate(self, platform):
        m = Module()
        a, b, c, p, q = self.a, self.b, self.c, self.p, self.q
        sums = [a + b, p + q, a + q, a - b, q - p, a * b, p * q, -p, -a, ~p, ~a, a & b, p | q]
        sums += [a ^ q, a << b, p << b, a >> b, p >> b, Mux(c, a, b), Mux(c, p, q), Mux(a, p, b)]
        sums += [a == b, p == q, p == a, a < b, p < q, p > a, p <= q, a >= b, a != b]
        sums += [a.any(), p.all(), b.xor(), a.bool(), ~(a == b), abs(p), a.bit_select(b, 2)]
        sums += [a // 3, a % 3, p // 3, p % 3, p * 3 + q * 5, a + b + c, (a + b)[:5], (p + q)[1:4]]
        sums += [(a + b + c).bit_select(b, 2), (a - b).word_select(c, 3)]
        # As parts, as operands of wider and of narrower operators, and as conditions.
        nested = [part + p for part in sums] + [(part ^ b)[:3] for part in sums]
        count = Signal(4, init=5)
        m.d.comb += [self.o.eq(Cat(*sums, *nested, count)), self.r.eq(sums[6] + sums[1])]
        m.d.sync += count.eq(count + 1)
        with m.If(a + b):
            m.d.sync += count.eq(count - b)
        return m


def test_operators_keep_their_values_in_every_place(tmp_path):
    assert differing(Operators(), "operators", tmp_path) == []


def test_a_context_that_widens_an_operand_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(expressions, "_extended", lambda e, width: e)
    assert "operators" in differing(Operators(), "operators", tmp_path)


def test_another_initial_value_is_found(tmp_path):
    text = convert(elaborated(Operators(), "operators")).partition("\n")[2]
    other = postprocess(text).replace("count = 4'h5", "count = 4'h4")
    assert prove(tmp_path, text, other) == ["initial values"]
