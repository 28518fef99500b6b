// Testbench for the emitted lfsr.v: one seed, random back-pressure. The words are compared with
// those of the golden model, which lfsr_words.py writes to lfsr_words.hex.
`timescale 1ns / 1ps

module lfsr_tb;
    localparam WORDS = 1000;

    reg        clk = 1'b0;
    reg        rst = 1'b1;
    reg  [7:0] i_seed_payload = 8'd0;
    reg        i_seed_valid = 1'b0;
    wire       i_seed_ready;
    wire [7:0] o_payload;
    wire       o_valid;
    reg        o_ready = 1'b0;

    reg [7:0] expected [0:WORDS-1];
    integer   count = 0;
    integer   errors = 0;
    reg       loaded = 1'b0;

    lfsr dut (
        .clk(clk),
        .rst(rst),
        .i_seed_payload(i_seed_payload),
        .i_seed_valid(i_seed_valid),
        .i_seed_ready(i_seed_ready),
        .o_payload(o_payload),
        .o_valid(o_valid),
        .o_ready(o_ready)
    );

    always #5 clk = ~clk;

    // The stimulus changes at the falling edge, so that there is no race with the core.
    always @(negedge clk) o_ready <= $random;

    initial begin
        $readmemh("lfsr_words.hex", expected);
        repeat (2) @(negedge clk);
        rst = 1'b0;
        i_seed_payload = 8'h5a;
        i_seed_valid = 1'b1;
        // The seed is transferred at the rising edge at which both valid and ready are high.
        while (!loaded) begin
            @(posedge clk);
            loaded = i_seed_ready;
        end
        @(negedge clk) i_seed_valid = 1'b0;
    end

    always @(posedge clk)
        if (loaded && !i_seed_valid && o_valid && o_ready) begin
            if (o_payload !== expected[count]) begin
                $display("word %0d: %h, not %h", count, o_payload, expected[count]);
                errors = errors + 1;
            end
            count = count + 1;
            if (count == WORDS) begin
                $display("%0d words, %0d errors", count, errors);
                $finish;
            end
        end
endmodule
