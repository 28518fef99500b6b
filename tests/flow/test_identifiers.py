import re

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from seedbed.flow.emit.identifiers import legalize

PAIR = data.StructLayout({"low": 4, "high": data.ArrayLayout(2, 2)})


class Inner(wiring.Component):
    """A memory between streams of structures."""

    i: In(wiring.Signature({"word": Out(PAIR)}))
    o: Out(wiring.Signature({"word": Out(PAIR)}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = Memory(shape=8, depth=16, init=[])
        write, read = table.write_port(), table.read_port()
        m.d.comb += [
            write.en.eq(1),
            write.addr.eq(self.i.word.low),
            write.data.eq(self.i.word.high),
            read.addr.eq(self.i.word.low),
            self.o.word.high.eq(read.data),
        ]
        return m


class Outer(wiring.Component):
    """Two parts, and several signals of one name."""

    i: In(wiring.Signature({"word": Out(PAIR)}))
    o: Out(wiring.Signature({"word": Out(PAIR)}))

    def elaborate(self, platform):
        m = Module()
        m.submodules.first, m.submodules.second = first, second = Inner(), Inner()
        wiring.connect(m, wiring.flipped(self.i), first.i)
        for name in ("word_1", "word", "word", "word"):
            value = Signal(PAIR, name=name)
            m.d.sync += value.eq(first.o.word)
            m.d.comb += second.i.word.eq(value)
            first = Inner()
            m.submodules += first
            m.d.comb += first.i.word.eq(value)
        wiring.connect(m, second.o, wiring.flipped(self.o))
        return m


@pytest.fixture(scope="module")
def texts():
    text = rtlil.convert(Outer(), name="outer", emit_src=False)
    return text, legalize(text)


def declared(text, kind):
    """Names by module, as the text has them."""
    modules = re.findall(r"^module (\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL)
    return {name: re.findall(rf"^  {kind} .*?(\S+)$", body, re.M) for name, body in modules}


def test_names_are_plain_and_no_two_are_the_same(texts):
    before, after = texts
    assert any(not re.fullmatch(r"\\\w+", n) for n in declared(before, "wire")["\\outer"])
    for module, wires in declared(after, "wire").items():
        names = [module, *wires, *declared(after, "memory")[module]]
        assert all(re.fullmatch(r"\\\w+", name) for name in names)
        assert not any("__" in name for name in names)
        assert len(set(names)) == len(names)


def test_ports_have_one_underscore(texts):
    _, after = texts
    ports = set(re.findall(r"wire width 8 (?:input|output) \d +(\S+)", after))
    assert {r"\i_word", r"\o_word"} <= ports


def test_fields_of_a_structure_are_no_wires(texts):
    before, after = texts
    fields = re.compile(r"\\i__word\.(?:low|high)")
    assert fields.search(before)
    assert not re.search(r"\\i_word_?\.?(?:low|high)", after)
    kept = [n for n in declared(before, "wire")["\\outer"] if not re.search(r"[.\[]", n)]
    assert len(declared(after, "wire")["\\outer"]) == len(kept)


def test_a_name_that_is_plain_stays_and_others_get_a_number(texts):
    before, after = texts
    names = declared(before, "wire")["\\outer"]
    numbered = [n for n in names if re.fullmatch(r"\\word\$\d+", n)]
    assert len(numbered) == 2
    assert {"\\word", "\\word_1", *(n.replace("$", "_") for n in numbered)} <= set(
        declared(after, "wire")["\\outer"]
    )
    # Amaranth would have to draw the same number for this.
    clash = numbered[0].replace("$", "_")
    wires = declared(legalize(before.replace("\\word_1", clash)), "wire")["\\outer"]
    assert {clash, f"{clash}_2"} <= set(wires)
    assert len(set(wires)) == len(wires)


def test_pins_and_memories_are_called_as_what_they_belong_to(texts):
    _, after = texts
    modules = set(declared(after, "wire"))
    cells = re.findall(r"^  cell (\\\S+) \\(\w+)\n(.*?)^  end$", after, re.MULTILINE | re.DOTALL)
    assert {"first", "second"} <= {name for _, name, _ in cells}
    for kind, _, body in cells:
        assert kind in modules
        pins = set(re.findall(r"connect (\S+)", body))
        assert pins == {p for p in declared(after, "wire")[kind] if p in pins}
        assert {"\\i_word", "\\o_word"} & pins
    used = set(re.findall(r'MEMID "\\(\\\S+)"', after))
    assert used == {name for names in declared(after, "memory").values() for name in names}


class Clashing(wiring.Component):
    """Two ports that one underscore does not tell apart."""

    i: In(wiring.Signature({"word": Out(1)}))
    i_word: In(1)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i.word ^ self.i_word)
        return m


def test_ports_of_one_name_are_refused():
    text = rtlil.convert(Clashing(), name="clashing", emit_src=False)
    with pytest.raises(ValueError, match=r"the ports i_+word and i_+word would both be named i"):
        legalize(text)
