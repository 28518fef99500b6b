from dataclasses import replace

import pytest

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.sim.case import Case, Phase
from seedbed.sim.verilog import mutate

CORE = registry.find("urng_array")
SMALL = {"lanes": 3, "width": 4}


def run(core, params, *, count, build):
    path = verilog.write(CORE, params, build, plain=True)
    return mutate.run(core, params, verilog=path, count=count, build=build)


def test_bench_kills_all_mutants(tmp_path):
    result = run(CORE, SMALL | {"repair": True}, count=60, build=tmp_path)
    figures = result["figures"]
    assert figures["mutants"] == figures["killed"] == 60 - len(result["equivalent"])
    assert figures["score_percent"] == 100
    assert figures["survivors"] == []


def test_a_case_without_outputs_kills_none(tmp_path):
    """The score depends on what the case compares."""
    core = replace(CORE, case=lambda *_: Case(phases=[]))
    result = run(core, SMALL, count=8, build=tmp_path)
    assert result["figures"]["killed"] == 0
    assert len(result["figures"]["survivors"]) + len(result["equivalent"]) == 8
    assert len(result["figures"]["survivors"]) >= 6


def test_wrong_expectation(tmp_path):
    """A core that fails its own case has no score."""
    core = replace(CORE, case=lambda *_: Case(phases=[Phase(outputs={"o": [0]})]))
    with pytest.raises(
        RuntimeError, match="the unmodified urng_array fails its case: killed o: a wr"
    ):
        run(core, SMALL, count=1, build=tmp_path)


def test_no_mutant_is_in_a_memory_cell(tmp_path):
    text = """
module memory(input clk, input [3:0] a, input w, input [7:0] d, output reg [7:0] q);
  reg [7:0] m [0:15];
  always @(posedge clk) begin
    if (w) m[a] <= d + 8'd1;
    q <= m[a];
  end
endmodule
"""
    made = mutate._mutants("memory", text, count=60, seed=1, folder=tmp_path)
    assert "cell $mem" in (tmp_path / "prepared.il").read_text()
    assert made
    assert not [mutation for mutation in made if "$mem" in mutation or "-port RD_" in mutation]
