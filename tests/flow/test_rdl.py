# amaranth: UnusedElaboratable=no
"""Register maps as SystemRDL: compiled, checked against the RTL, and given to PeakRDL."""

import subprocess
from pathlib import Path
from types import MappingProxyType

import pytest
from amaranth.hdl import Signal
from amaranth.sim import Simulator
from systemrdl import RDLCompiler

from seedbed.boards.apps import APPS, find
from seedbed.boards.register_files import texts
from seedbed.boards.registers import COMMON, PROTOCOL, RegisterBank, addresses, board_rdl
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.emit.rdl import rdl
from seedbed.flow.emit.verilog import write
from seedbed.hw.stream.weight_tuner import DELTA_BITS
from seedbed.hw.zeroth_order.zo_control import EXPONENT
from seedbed.sim import tools
from seedbed.sim.verilog.verilate import run_tests
from seedbed.spec.axi_registers import AXI_REGISTERS, held
from seedbed.spec.registers import Field, Register, meaning

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "drivers" / "c"
CORES = [f"{name}_axi" for name in AXI_REGISTERS]
MAPS = [*CORES, *(f"board_{app}" for app in APPS)]
BENCH = ["reset_values", "accesses", "self_clearing"]
#: Cores with registers that others lack.
OPTIONS = [
    ("stream_engine_axi", {"trellis": 4, "kept": 4, "tune": 1}),
    ("stream_trainer_axi", {"inputs": True}),
]


def described(field):
    codes = field.get_property("encode", default=None) or ()
    return {
        "low": field.low,
        "width": field.width,
        "reset": field.get_property("reset", default=None),
        "pulse": field.get_property("singlepulse"),
        "codes": [each.name for each in codes],
    }


def compiled(text, folder):
    """Return the registers of a map as its RDL says, as :mod:`register_bench` reads them."""
    path = folder / "map.rdl"
    path.write_text(text)
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    found = {}
    for node in compiler.elaborate().top.registers():
        fields = {field.inst_name: described(field) for field in node.fields()}
        known = all(each["reset"] is not None for each in fields.values())
        found[node.inst_name] = {
            "offset": node.address_offset,
            "readable": node.has_sw_readable,
            "writable": node.has_sw_writable,
            "mask": sum((1 << f["width"]) - 1 << f["low"] for f in fields.values()),
            "reset": sum(f["reset"] << f["low"] for f in fields.values()) if known else None,
            "fields": fields,
        }
    return found


def words_of(params):
    return [f"{key}={value}" for key, value in params.items()]


def registers_of(name, params=MappingProxyType({})):
    core = name.removesuffix("_axi")
    if core in AXI_REGISTERS:
        return held(core, WRAPPERS[name].configure(params))
    return (*COMMON, *find(name.removeprefix("board_")).REGISTERS)


@pytest.mark.parametrize(("name", "params"), [*((name, {}) for name in MAPS), *OPTIONS], ids=str)
def test_every_map_is_compiled_with_its_registers(name, params, tmp_path):
    found = compiled(texts(name, words_of(params))[name], tmp_path)
    registers = registers_of(name, params)
    assert [(each, 4 * k) for k, each in enumerate(found)] == [
        (register.name, found[register.name]["offset"]) for register in registers
    ]
    for register in registers:
        each = found[register.name]
        assert each["readable"] == (register.access != "strobe")
        assert each["writable"] == (register.access != "read")
        named = [field for field in each["fields"].values() if field["codes"]]
        codes = [list(f.values) for f in (*register.fields, register) if f.values]
        if register.name == "kind":
            # A code that has no place in the register is one of an option.
            codes = [codes[0][: 1 << named[0]["width"]]]
        assert [field["codes"] for field in named] == codes


@pytest.mark.parametrize(("name", "params"), [*((name, {}) for name in CORES), *OPTIONS], ids=str)
def test_the_rtl_has_the_resets_and_accesses_of_the_map(name, params, tmp_path, kept):
    core = WRAPPERS[name]
    params = core.small | params
    found = compiled(texts(name, words_of(params))[name], tmp_path)
    for register in found.values():
        register["alone"] = register["mask"]
    for signed, width in (("exponent", len(Signal(EXPONENT))), ("delta", DELTA_BITS)):
        if signed in found:
            # It has all bits above it in a word.
            found[signed]["alone"] = (1 << width - 1) - 1
    ports = core.signature(core.configure(params)).members
    outputs = [p.removesuffix("_tdata") for p in ports if p.startswith("m_") and "tdata" in p]
    run_tests(
        write(core, params, tmp_path, kept=kept), name, "register_bench", BENCH,
        {"registers": found, "outputs": outputs}, seed=1, build=ROOT / "build" / "cocotb",
    )  # fmt: skip


def test_a_bank_has_the_resets_and_accesses_of_its_map(tmp_path):
    registers = find("noise").REGISTERS
    found = compiled(board_rdl("noise", registers), tmp_path)
    bank = RegisterBank(registers, 0x1234, 99)
    built = {"identifier": 0x1234, "bit_cycles": 99}

    async def bench(ctx):
        async def command(register, word=None):
            """Write a word, or read one; return the pulses in the cycle after the command."""
            payload = {"address": register["offset"] // 4, "write": word is not None}
            ctx.set(bank.i.payload, payload | {"data": word or 0})
            ctx.set(bank.i.valid, 1)
            await ctx.tick()
            ctx.set(bank.i.valid, 0)
            return ctx.get(bank.o.payload)

        ctx.set(bank.o.ready, 1)
        for name, register in found.items():
            want = register["reset"] if register["readable"] else 0
            assert await command(register) == built.get(name, want)
        for name, register in found.items():
            await command(register, register["mask"])
            if any(field["pulse"] for field in register["fields"].values()):
                assert ctx.get(bank.control[name]) == 1
                await ctx.tick()
                assert ctx.get(bank.control[name]) == 0
            held = register["readable"] and register["writable"]
            want = register["mask"] if held else built.get(name, register["reset"])
            assert await command(register) == want

    assert found["protocol"]["reset"] == PROTOCOL
    assert {name for name, each in found.items() if each["reset"] is None} == {*built}
    simulator = Simulator(bank)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def defined(name, registers):
    """Yield what PeakRDL's header and that of the driver define, in pairs."""
    board, prefix = name.startswith("board_"), f"SEEDBED_{name.removesuffix('_axi').upper()}"
    for register in registers:
        if register not in COMMON:
            offset = f"offsetof({name}_t, {register.name})"
            own = f"{prefix}_{register.name.upper()}"
            yield (offset, f"4 * {own}" if board else own)
    if not board:
        upper = f"{name.upper()}__STATUS__"
        yield f"{upper}BUSY_bm", "SEEDBED_AXI_STATUS_BUSY"
        yield f"{upper}DONE_bm", "SEEDBED_AXI_STATUS_DONE"
        yield f"{upper}CODE_bp", "SEEDBED_AXI_STATUS_CODE"


@pytest.mark.parametrize("name", MAPS)
def test_peakrdl_writes_the_header_that_the_driver_has(name, tmp_path):
    source = tmp_path / f"{name}.rdl"
    source.write_text(texts(name)[name])
    tools.run("PEAKRDL", "c-header", source, "-o", tmp_path / "map.h")
    pairs = [*defined(name, registers_of(name))]
    asserted = "".join(f'_Static_assert({a} == {b}, "{a}");\n' for a, b in pairs)
    own = "seedbed_board_registers.h" if name.startswith("board_") else "seedbed_axi_registers.h"
    program = tmp_path / "program.c"
    program.write_text(f'#include <stddef.h>\n#include "map.h"\n#include "{own}"\n{asserted}')
    assert len(pairs) >= len(registers_of(name)) - len(COMMON)
    subprocess.run(
        ["gcc", "-std=c11", "-Werror", "-fsyntax-only", "-I", str(HEADERS), str(program)],
        check=True,
    )


WRITERS = [
    # command of PeakRDL, its output, a file with the names of gemv's registers
    (["html"], "html", "html/data/*"),
    (["uvm"], "package.sv", "package.sv"),
    (["ip-xact"], "map.xml", "map.xml"),
]


@pytest.mark.parametrize(("words", "output", "files"), WRITERS, ids=[w[1] for w in WRITERS])
def test_peakrdl_takes_a_map(words, output, files, tmp_path, called):
    assert called(["registers", "gemv_axi", "-o", "."], tmp_path)[:2] == (0, "gemv_axi.rdl\n")
    tools.run("PEAKRDL", *words, "gemv_axi.rdl", "-o", output, cwd=tmp_path)
    text = "".join(path.read_text() for path in tmp_path.glob(files))
    assert all(f"{register.name}" in text for register in AXI_REGISTERS["gemv"])


def test_the_accessors_of_peakrdl_are_those_of_the_map(tmp_path, monkeypatch):
    """Python's, on a memory in place of the bus."""
    source = tmp_path / "gemv_axi.rdl"
    source.write_text(texts("gemv_axi")["gemv_axi"])
    arguments = ["--skip_test_case_generation", source, "-o", tmp_path]
    tools.run("PEAKRDL", "python", *arguments)
    monkeypatch.syspath_prepend(tmp_path)
    from gemv_axi.lib import NormalCallbackSet
    from gemv_axi.reg_model.gemv_axi import gemv_axi_cls

    memory = dict.fromkeys(range(0, 32, 4), 0)

    def read(addr, width, accesswidth):
        return memory[addr]

    def write(addr, width, accesswidth, data):
        memory[addr] = data

    port = gemv_axi_cls(callbacks=NormalCallbackSet(read_callback=read, write_callback=write))
    port.columns.value.write(77)
    port.control.write_fields(start=1, clear=0)
    memory[4] = 2 | 3 << 4
    assert memory == {0: 1, 4: 2 | 3 << 4, 8: 77, 12: 0, 16: 0, 20: 0, 24: 0, 28: 0}
    assert (port.status.done.read(), port.status.code.read().name) == (1, "ROW")


def test_a_map_of_ones_own(tmp_path):
    """Every kind of register, with texts that have quotation marks and backslashes."""
    parts = (Field("low", 0, 3, 'a "b" \\ c', ("one", "two")), Field("high", 9, 1, "d"))
    registers = [
        Register("parts", "write", meaning(*parts), fields=parts),
        Register("entry", "strobe", "e", fields=parts),
        Register("base", "write", "f", 12),
    ]
    text = rdl("mine", "title", registers, offsets={"parts": 0, "entry": 8, "base": 4})
    found = compiled(text, tmp_path)
    assert [found[name]["offset"] for name in ("parts", "entry", "base")] == [0, 8, 4]
    assert found["base"]["mask"] == 0xFFFFF000
    assert found["parts"]["fields"]["low"]["codes"] == ["one", "two"]
    # A word of several fields is no pulse.
    assert not any(field["pulse"] for field in found["entry"]["fields"].values())
    assert parts[0].bits, parts[1].bits == ("2..0", "9")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["gemv_ax"], "no registers are called 'gemv_ax' (did you mean 'gemv_axi'?); there are "),
        (["forward_cache_axi"], "forward_cache_axi has no registers; gemv_axi, instantft_axi, "),
        (["board_noise", "--set", "a=1"], "--set and --config need a core with AXI ports, such "),
        (["gemv_axi", "--set", "a=1"], "gemv_axi has no parameter 'a'; it has "),
    ],
)
def test_what_has_no_registers_is_refused(words, sentence, tmp_path, called):
    status, printed, problem = called(["registers", *words], tmp_path)
    assert (status, printed) == (2, "")
    assert problem.startswith(f"error: {sentence}")


def test_the_command_writes_all_maps(tmp_path, called):
    status, printed, _ = called(["registers", "-o", "maps"], tmp_path)
    assert (status, printed.split()) == (0, [f"maps/{name}.rdl" for name in MAPS])
    (tmp_path / "maps" / "gemv_axi.rdl").write_text("mine\n")
    status, _, problem = called(["registers", "-o", "maps"], tmp_path)
    assert (status, problem) == (
        2, "error: maps/gemv_axi.rdl exists already; --force overwrites it\n",
    )  # fmt: skip


def test_a_register_that_the_configuration_lacks_is_left_out(tmp_path):
    for decode, there in (("seedlm", True), ("trellis", False)):
        found = compiled(texts("gemv_axi", [f"decode={decode}"])["gemv_axi"], tmp_path)
        assert ("mode" in found) == there


def test_addresses_of_a_board_count_words(tmp_path):
    registers = find("link").REGISTERS
    found = compiled(board_rdl("link", registers), tmp_path)
    assert {n: each["offset"] // 4 for n, each in found.items()} == addresses(registers)
