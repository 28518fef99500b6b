"""The testbench in plain Verilog: it must notice what it is there for."""

from dataclasses import replace
from random import Random

import pytest
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.flow.emit.verilog import write
from seedbed.flow.registry import CORES
from seedbed.sim import tools, verilog_bench
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Mismatch

# A module that breaks one rule a port.
FAULTY = """
module faulty(input clk, input rst,
    output [7:0] o_changes_payload, output o_changes_valid, input o_changes_ready,
    output [7:0] o_falls_payload, output o_falls_valid, input o_falls_ready,
    output [7:0] o_keeps_payload, output o_keeps_valid, input o_keeps_ready,
    output [7:0] o_waits_payload, output o_waits_valid, input o_waits_ready,
    output [7:0] o_counts_payload, output o_counts_valid, input o_counts_ready,
    output [7:0] o_partly_payload, output o_partly_valid, input o_partly_ready,
    output [7:0] o_unknown_payload, output o_unknown_valid, input o_unknown_ready,
    output [7:0] o_repeats_payload, output o_repeats_valid, input o_repeats_ready,
    input [7:0] i_payload, input i_valid, output i_ready,
    input [7:0] i_open_payload, input i_open_valid, output i_open_ready);
  reg [7:0] now = 0, keeps = 0, waits = 0, counts = 0, falls = 0, repeats = 0;
  assign o_changes_payload = now, o_falls_payload = falls, o_keeps_payload = keeps;
  assign o_waits_payload = waits, o_counts_payload = counts, o_repeats_payload = repeats;
  assign o_partly_payload = 8'b0000000x, o_unknown_payload = 0;
  assign o_changes_valid = 1, o_keeps_valid = 1, o_counts_valid = 1, o_partly_valid = 1;
  assign o_falls_valid = now[0], o_waits_valid = o_waits_ready, o_repeats_valid = 1;
  assign o_unknown_valid = 1'bx, i_ready = 0, i_open_ready = ^i_open_payload;
  always @(posedge clk) begin
    now <= rst ? 0 : now + 1;
    falls <= rst ? 0 : falls + (o_falls_valid & o_falls_ready);
    keeps <= keeps + o_keeps_ready;
    waits <= rst ? 0 : waits + o_waits_ready;
    counts <= rst ? 0 : counts + o_counts_ready;
    repeats <= rst ? 0 : repeats + (o_repeats_ready & ~now[2]);
  end
endmodule
"""


def expects(port, payloads=range(40), *, quiet=False, drain=False, **inputs):
    phase = Phase(inputs=inputs, outputs={port: [*payloads]}, drain=drain)
    return Case(phases=[phase], quiet=quiet)


FAULTS = [
    # settings, case, message
    ({}, expects("o_changes"), "o_changes changed before its transfer"),
    ({}, expects("o_falls"), "o_falls changed before its transfer"),
    ({"cycles": 200}, expects("o_keeps"), "o_keeps, phase 0, beat 0: expected 00, got"),
    ({"seed": 2}, expects("o_waits"), "phase 0 hangs"),
    ({}, expects("o_counts", quiet=True), "o_counts, a beat after the last one"),
    ({}, expects("o_counts", i=[1]), "phase 0 hangs"),
    ({}, expects("o_counts", i=[1], drain=True), "phase 0 hangs"),
    ({"stalls": 0}, expects("o_repeats"), "o_repeats, phase 0, beat 5: expected 05, got 04"),
    ({}, expects("o_counts", [0, 1, 7]), "o_counts, phase 0, beat 2: expected 07, got 02"),
    ({"seed": 5}, expects("o_counts", [7]), r"expected 07, got 00 \(seed 5\)"),
    ({"reset": 0}, expects("o_partly", [0]), "o_partly, an unknown payload 0X in cycle 1 "),
    ({"reset": 0}, expects("o_unknown", [0]), "o_unknown_valid is unknown in cycle 1 "),
    ({"unknown": 1}, expects("o_counts", i_open=[3]), "i_open_ready is unknown|phase 0 hangs"),
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
def test_bench_notices_faults(settings, case, message, tmp_path, icarus):
    (tmp_path / "faulty.v").write_text(FAULTY)
    command = verilog_bench.icarus(
        bench(tmp_path, case), [tmp_path / "faulty.v"], generation="2005"
    )
    with pytest.raises(Mismatch, match=message):
        verilog_bench.run(command, tmp_path, **settings)


def test_a_core_that_does_all_right_passes(tmp_path, icarus):
    (tmp_path / "faulty.v").write_text(FAULTY)
    path = bench(tmp_path, expects("o_counts", range(30)))
    for generation in verilog_bench.GENERATIONS:
        command = verilog_bench.icarus(path, [tmp_path / "faulty.v"], generation=generation)
        # Two cycles of reset, then a beat a cycle.
        assert verilog_bench.run(command, tmp_path, stalls=0) == 32
        slow = verilog_bench.run(command, tmp_path, seed=2)
        assert 50 < slow < 120
        assert slow != verilog_bench.run(command, tmp_path, seed=3)
        assert verilog_bench.run(command, tmp_path, cycles=1000) >= 1000


# A memory's master: an answer that comes before its command shows in the next command.
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


def test_answers_come_after_their_commands(tmp_path, icarus):
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


def test_a_testbench_that_does_not_end_is_no_success(tmp_path):
    with pytest.raises(RuntimeError, match="the testbench came to no end:\nhello"):
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
