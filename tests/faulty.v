// A core with errors on purpose: each output breaks one rule of the streams, and a testbench must
// detect each.
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
