"""The testbench in plain Verilog detects errors of a core."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.sim import tools
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog import verilog_bench

#: A core whose outputs each break one rule.
FAULTY = Path(__file__).parents[1] / "faulty.v"


def expects(port, payloads=range(40), *, quiet=False, drain=False, **inputs):
    phase = Phase(inputs=inputs, outputs={port: [*payloads]}, drain=drain)
    return Case(phases=[phase], quiet=quiet)


FAULTS = [
    # settings, case, message
    ({}, expects("o_changes"), "o_changes changed before its transfer"),
    ({}, expects("o_falls"), "o_falls changed before its transfer"),
    ({"cycles": 200}, expects("o_keeps"), "o_keeps, phase 0, beat 0: expected 00, got"),
    ({"seed": 2}, expects("o_waits"), "phase 0 timed out"),
    ({}, expects("o_counts", quiet=True), "o_counts, a beat after the last one"),
    ({}, expects("o_counts", i=[1]), "phase 0 timed out"),
    ({}, expects("o_counts", i=[1], drain=True), "phase 0 timed out"),
    ({"stalls": 0}, expects("o_repeats"), "o_repeats, phase 0, beat 5: expected 05, got 04"),
    ({}, expects("o_counts", [0, 1, 7]), "o_counts, phase 0, beat 2: expected 07, got 02"),
    ({"seed": 5}, expects("o_counts", [7]), r"expected 07, got 00 \(seed 5\)"),
    ({"reset": 0}, expects("o_partly", [0]), "o_partly, an unknown payload 0X in cycle 1 "),
    ({"reset": 0}, expects("o_unknown", [0]), "o_unknown_valid is unknown in cycle 1 "),
    ({"unknown": 1}, expects("o_counts", i_open=[3]), "i_open_ready is unknown|phase 0 timed out"),
]


def bench(folder, case):
    (phase,) = case.phases
    ports = {name: In(stream.Signature(8)) for name in phase.inputs}
    ports |= {name: Out(stream.Signature(8)) for name in phase.outputs}
    return verilog_bench.write(folder, "faulty", case, wiring.Signature(ports))


@pytest.fixture(scope="module")
def icarus():
    try:
        tools.find("IVERILOG")
    except tools.ToolMissing as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize(("settings", "case", "message"), FAULTS)
def test_bench_detects_errors(settings, case, message, tmp_path, icarus):
    command = verilog_bench.icarus(bench(tmp_path, case), [FAULTY], generation="2005")
    with pytest.raises(Mismatch, match=message):
        verilog_bench.run(command, tmp_path, **settings)


def test_a_correct_output_passes(tmp_path, icarus):
    path = bench(tmp_path, expects("o_counts", range(30)))
    for generation in verilog_bench.GENERATIONS:
        command = verilog_bench.icarus(path, [FAULTY], generation=generation)
        # Two cycles of reset, then a beat per cycle.
        assert verilog_bench.run(command, tmp_path, stalls=0) == 32
        slow = verilog_bench.run(command, tmp_path, seed=2)
        assert 50 < slow < 120
        assert slow != verilog_bench.run(command, tmp_path, seed=3)
        assert verilog_bench.run(command, tmp_path, cycles=1000) >= 1000


# A memory's manager: a response before its command sets a bit of the next command.
EARLY = """
module early(input clk, input rst,
    output [7:0] o_payload, output o_valid, input o_ready,
    input [7:0] i_payload, input i_valid, output i_ready);
  reg [7:0] commands = 0, answers = 0;
  reg early = 0;
  assign o_payload = {early, commands[6:0]}, o_valid = 1, i_ready = 1;
  always @(posedge clk) begin
    commands <= rst ? 0 : commands + o_ready;
    answers <= rst ? 0 : answers + i_valid;
    early <= !rst && (early || answers > commands);
  end
endmodule
"""


def test_responses_come_after_their_commands(tmp_path, icarus):
    (tmp_path / "early.v").write_text(EARLY)
    ports = {"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))}
    one = Phase(
        inputs={"i": [1, 2, 3, 4]}, outputs={"o": [*range(10)]}, after={"i": {"o": [4, 8, 8, 9]}}
    )

    def command(first):
        case = Case(phases=[first, replace(one, outputs={"o": [*range(10, 20)]})])
        path = verilog_bench.write(tmp_path, "early", case, wiring.Signature(ports))
        return verilog_bench.icarus(path, [tmp_path / "early.v"], generation="2005")

    good = command(one)
    for seed in range(1, 9):
        assert verilog_bench.run(good, tmp_path, seed=seed) > 20
    with pytest.raises(Mismatch, match=r"o, phase|o changed"):
        verilog_bench.run(command(replace(one, after={})), tmp_path)


def test_a_testbench_without_a_verdict_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="the testbench printed no verdict:\nhello"):
        verilog_bench.run(["echo", "hello"], tmp_path)


def test_it_runs_in_verilator_as_well(tmp_path, kept):
    core = CORES["urng_array"]
    params = {"lanes": 3, "width": 4}
    config = core.configure(params)
    verilog = write(core, params, tmp_path, kept=kept)
    case = core.case(config, Random(1))
    command = verilog_bench.verilator(
        verilog_bench.write(tmp_path, core.name, case, core.signature(config)), [verilog]
    )
    assert verilog_bench.run(command, tmp_path, cycles=3000) > 3000
    case.phases[-1].outputs["o"][-1] ^= 1
    verilog_bench.write(tmp_path, core.name, case, core.signature(config))
    with pytest.raises(Mismatch, match="o, phase"):
        verilog_bench.run(command, tmp_path, cycles=3000)
