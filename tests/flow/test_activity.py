from pathlib import Path

import pytest

from seedbed.flow.fpga import activity

COUNTER = """\
module counter(input clk, input rst, output [3:0] q);
  reg [3:0] count;
  always @(posedge clk) if (rst) count <= 0; else count <= count + 1;
  assign q = count;
endmodule
"""
# A beat in every other cycle; the payload is read, and held at zero by the input that never comes.
HALF = """\
module half(input clk, input rst, input i_valid, input o_ready, output reg o_valid, output o);
  reg held;
  assign o = held;
  always @(posedge clk) begin
    if (rst) begin o_valid <= 0; held <= 0; end
    else begin
      o_valid <= o_ready & ~o_valid;
      if (i_valid) held <= ~held;
    end
  end
endmodule
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def measure(build, text, top, **options):
    verilog = build / f"{top}.v"
    verilog.write_text(text)
    return activity.toggles(verilog, top, build=build, **options)


def test_a_binary_counter_toggles_as_it_must(build):
    result = measure(build, COUNTER, "counter", numbers_per_beat=2, cycles=160)
    # Bit k changes every 2^k cycles, and so does its next state, which a carry chain computes (of
    # bit 0 an inverter): eight nets.
    every_16_cycles = 2 * (16 + 8 + 4 + 2)
    assert result["nets"] == 8
    assert result["beats"] == result["cycles"] == 160
    assert result["toggles"] == 10 * every_16_cycles
    assert result["toggles_per_beat"] == every_16_cycles / 16
    assert result["toggles_per_number"] == result["toggles_per_beat"] / 2


def test_a_core_with_modules_inside_is_counted_as_a_whole(build):
    """Their names stay in the netlist, as cells of a kind that is no logic."""
    outer = "module outer(input clk, input rst, output [3:0] q);\n  counter inner(clk, rst, q);\n"
    result = measure(build, f"{COUNTER}{outer}endmodule\n", "outer", numbers_per_beat=2, cycles=160)
    assert (result["nets"], result["toggles"]) == (8, 10 * 2 * (16 + 8 + 4 + 2))


def test_beats_are_counted_where_they_are_valid_and_inputs_stay_quiet(build):
    result = measure(build, HALF, "half", numbers_per_beat=1, cycles=100)
    assert result["beats"] == 50
    # The flip-flop of o_valid and its next state, every cycle; `held` never.
    assert result["toggles"] == 200
    assert result["toggles_per_number"] == 4
    saif = Path(result["saif"])
    recorded = saif.read_bytes()
    saif.write_bytes(recorded[:100])
    assert measure(build, HALF, "half", numbers_per_beat=1, cycles=100) == result
    assert saif.read_bytes() == recorded


def test_a_core_that_waits_for_input_is_refused(build):
    silent = HALF.replace("o_ready & ~o_valid", "i_valid")
    with pytest.raises(RuntimeError, match="half transferred no output beat in 10 cycles"):
        measure(build, silent, "half", numbers_per_beat=1, cycles=10)


@pytest.mark.parametrize("bad", [{"cycles": 0}, {"numbers_per_beat": 0}, {"cycles": True}])
def test_counts_below_one_are_refused(build, bad):
    with pytest.raises(ValueError, match="must be an integer of 1 or more"):
        measure(build, COUNTER, "counter", **{"numbers_per_beat": 1, "cycles": 1, **bad})
