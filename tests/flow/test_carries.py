"""LUTs that lead into carry chains of UltraScale+: on small netlists and on synthesized ones."""

import json
import re

import pytest

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import carries, synth

# Eight bits, whose carry chain is driven by what stands in brackets.
SOURCES = """\
module sources(input clk, input [7:0] a, input [7:0] b, output [8:0] sum, output reg [7:0] count);
  reg [7:0] x;
  always @(posedge clk) begin x <= a & b; count <= count + 8'd1; end
  assign sum = {sum};
endmodule
"""


def cell(kind, **connections):
    outputs = {"O", "O5", "O6", "CO", "Q"}
    return {
        "type": kind,
        "connections": connections,
        "port_directions": {p: "output" if p in outputs else "input" for p in connections},
    }


def module(*cells):
    return {"cells": {f"c{k}": found for k, found in enumerate(cells)}}


def carry4(s):
    return cell("CARRY4", CI=["0"], CYINIT=["0"], DI=[90, 91, "0", "1"], S=s,
                O=[80, 81, 82, 83], CO=[84, 85, 86, 87])  # fmt: skip


def test_a_lut_at_each_place_takes_nothing():
    luts = [cell("LUT2", I0=[1], I1=[2], O=[10]), cell("LUT6", I0=[1], O=[11]),
            cell("INV", I=[3], O=[12]), cell("LUT6_2", I0=[1], O5=[20], O6=[13])]  # fmt: skip
    assert carries.carry4_route_throughs(module(*luts, carry4([10, 11, 12, 13]))) == 0


@pytest.mark.parametrize(
    "driver",
    [
        cell("FDRE", C=[1], D=[2], Q=[10]),
        cell("CARRY4", S=["0"] * 4, O=[10, 21, 22, 23], CO=[24, 25, 26, 27]),
        cell("MUXF7", I0=[2], I1=[3], S=[4], O=[10]),
        # At O5 no carry is reached.
        cell("LUT6_2", I0=[1], O5=[10], O6=[20]),
    ],
    ids=lambda driver: driver["type"],
)
def test_another_driver_takes_a_lut(driver):
    assert carries.carry4_route_throughs(module(driver, carry4([10, "0", "1", "x"]))) == 1


def test_a_port_takes_a_lut_at_each_place():
    assert carries.carry4_route_throughs(module(carry4([2, 2, 3, "0"]))) == 3


def test_a_lut_is_at_one_place():
    """The same XOR at two places of one chain, and again in another, of eight bits."""
    lut = cell("LUT2", I0=[1], I1=[2], O=[10])
    eight = cell("CARRY8", CI=["0"], DI=["0"] * 8, S=[10, *["0"] * 7], O=[60], CO=[61])
    assert carries.carry4_route_throughs(module(lut, carry4([10, 10, "0", "0"]), eight)) == 2


def test_other_inputs_take_none():
    fed = carry4(["0"] * 4)
    fed["connections"] |= {"CI": [70], "CYINIT": [71], "DI": [72, 73, 74, 75]}
    assert carries.carry4_route_throughs(module(fed)) == 0


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return tmp_path_factory.mktemp("carries")


def synthesized(build, text, target):
    path = build / "sources.v"
    path.write_text(text)
    return synth.synthesize(path, "sources", target=target, build=build)


def test_a_counter_leads_its_register_into_the_chain(build):
    """All bits of the count but the first, whose next is an inverter."""
    found = synthesized(build, SOURCES.format(sum="{1'b0, x}").replace("{sum}", "x"), "xcup")
    luts = sum(n for kind, n in found["cells"].items() if re.match("LUT|INV", kind))
    assert found["lut_carry"] == 7
    assert found["lut"] == luts + 7


def test_an_adder_has_its_luts(build):
    found = synthesized(build, SOURCES.format(sum="x + a").replace("count + 8'd1", "a"), "xcup")
    assert found["cells"]["CARRY4"] >= 2
    assert found["lut_carry"] == 0


@pytest.mark.parametrize("target", ["ecp5", "ice40", "gowin"])
def test_other_families_have_them_in_cells(build, target):
    assert synthesized(build, SOURCES.format(sum="x + a"), target)["lut_carry"] == 0


def test_softmax_takes_what_its_registers_and_ports_drive(build):
    """Counted once more, by hand: inputs without a LUT, and those that share one."""
    core = registry.find("softmax_loss")
    path = verilog.write(core, {}, build / "softmax_loss", plain=True)
    found = synth.synthesize(path, "softmax_loss", target="xcup", build=build)
    (file,) = build.glob("softmax_loss-xcup-*/mapped.json")
    cells = json.loads(file.read_text())["modules"]["softmax_loss"]["cells"].values()
    driven = {
        bit for one in cells if re.match("LUT|INV", one["type"]) for bit in one["connections"]["O"]
    }
    bits = [bit for one in cells if one["type"] == "CARRY4" for bit in one["connections"]["S"]
            if not isinstance(bit, str)]  # fmt: skip
    without = sum(bit not in driven for bit in bits)
    shared = len([bit for bit in bits if bit in driven]) - len(set(bits) & driven)
    assert found["lut_carry"] == without + shared
    assert without > 20
