from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.flow.emit.deduplicate import deduplicate
from seedbed.flow.fpga import synth


class Adder(wiring.Component):
    def __init__(self, addend):
        super().__init__({"i": In(8), "o": Out(8)})
        self.addend = addend

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i + self.addend)
        return m


class Pair(wiring.Component):
    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = Adder(3)
        m.submodules.second = second = Adder(3)
        m.d.comb += [first.i.eq(self.i), second.i.eq(first.o), self.o.eq(second.o)]
        return m


class Top(wiring.Component):
    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        value = self.i
        for name, part in (("a", Pair()), ("b", Pair()), ("c", Adder(4))):
            m.submodules[name] = part
            m.d.comb += part.i.eq(value)
            value = Signal(8, name=f"after_{name}")
            m.d.comb += value.eq(part.o)
        m.d.comb += self.o.eq(value)
        return m


def modules(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("module ")]


def test_equal_modules_are_merged_level_by_level():
    text = rtlil.convert(Top(), name="top", emit_src=False)
    assert len(modules(text)) == 8
    merged = deduplicate(text)
    left = modules(merged)
    assert len(left) == 4
    used = [line.split()[1] for line in merged.splitlines() if line.startswith("  cell \\top")]
    assert set(used) == set(left) - {"\\top"}
    assert len(used) == 5


def test_nothing_else_changes():
    text = rtlil.convert(Adder(1), name="top", emit_src=False)
    assert deduplicate(text) == text


# Two inverters in a row: a mapper that sees both leaves a wire.
PAIR = """\
module part(input i, output o);
  assign o = ~i;
endmodule

module pair(input i, output o);
  wire between;
  part  first (
    .i(i), .o(between)
  );
  part  second (
    .i(between), .o(o)
  );
endmodule
"""


def test_a_module_that_is_used_often_is_mapped_by_itself(tmp_path, monkeypatch):
    path = tmp_path / "pair.v"
    path.write_text(PAIR)

    def luts(many):
        monkeypatch.setattr(synth, "_MANY", many)
        return synth.synthesize(path, "pair", target="xcup", build=tmp_path)["lut"]

    assert luts(3) == 0
    assert luts(2) == 2
