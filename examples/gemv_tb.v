// Testbench for the emitted gemv.v with files of 'seedbed export': weights of a checkpoint, a
// vector, and the product of the golden model. Shapes are in gemv.vh. Both sides pause at random.
`timescale 1ns / 1ps

module gemv_tb;
`include "gemv.vh"

    reg clk = 1'b0;
    reg rst = 1'b1;
    always #5 clk = ~clk;

    reg [GEMV_WEIGHTS_BITS-1:0] weights [0:GEMV_WEIGHTS_WORDS-1];
    reg [GEMV_VECTOR_BITS-1:0]  vector  [0:GEMV_VECTOR_WORDS-1];
    reg [GEMV_SUMS_BITS-1:0]    sums    [0:GEMV_SUMS_WORDS-1];

    // The command: the shape of the matrix.
    wire [GEMV_COLUMNS_BITS-1:0] columns = GEMV_COLUMNS;
    wire [GEMV_ROWS_BITS-1:0]    rows = GEMV_ROWS;
    wire                         plain = GEMV_PLAIN;
    reg                          command = 1'b1;
    wire                         command_ready;

    // Places in the memories; row and beat of the row of the next weights.
    integer vector_at = 0, weights_at = 0, sums_at = 0, vector_next, weights_next;
    integer row = 0, beat = 0, errors = 0;
    reg     vector_valid = 1'b0, weights_valid = 1'b0, sum_ready = 1'b0;
    wire    vector_ready, weights_ready, sum_valid, sum_last;
    wire    vector_last = vector_at == GEMV_VECTOR_WORDS - 1;
    wire    weights_last = beat == (row == 0 ? GEMV_FIRST_ROW_BEATS :
                                    row == GEMV_ROWS - 1 ? GEMV_LAST_ROW_BEATS :
                                    GEMV_ROW_BEATS) - 1;
    wire [GEMV_SUMS_BITS-1:0] sum;
    wire [2:0]                status;

    // i_plain is a port of the core with decode=seedlm, the default.
    gemv dut (
        .clk(clk),
        .rst(rst),
        .i_columns(columns),
        .i_rows(rows),
        .i_plain(plain),
        .i_clear(1'b0),
        .i_valid(command && !rst),
        .i_ready(command_ready),
        .i_vector_lanes(vector[vector_at]),
        .i_vector_last(vector_last),
        .i_vector_valid(vector_valid),
        .i_vector_ready(vector_ready),
        .i_weights_data(weights[weights_at]),
        .i_weights_last(weights_last),
        .i_weights_valid(weights_valid),
        .i_weights_ready(weights_ready),
        .o_sum(sum),
        .o_status(status),
        .o_last(sum_last),
        .o_valid(sum_valid),
        .o_ready(sum_ready)
    );

    initial begin
        $readmemh("gemv_weights.hex", weights);
        $readmemh("gemv_vector.hex", vector);
        $readmemh("gemv_sums.hex", sums);
        repeat (2) @(negedge clk);
        rst = 1'b0;
    end

    // A valid beat stays until its transfer. Stimulus changes after the rising edge: what the core
    // reads is assigned with "<=".
    always @(posedge clk) if (!rst) begin
        sum_ready <= $random;
        if (command_ready) command <= 1'b0;
        vector_next = vector_at + (vector_valid && vector_ready);
        vector_at <= vector_next;
        if (!vector_valid || vector_ready)
            vector_valid <= vector_next < GEMV_VECTOR_WORDS && $random % 2 != 0;
        weights_next = weights_at + (weights_valid && weights_ready);
        weights_at <= weights_next;
        if (weights_valid && weights_ready) begin
            row <= weights_last ? row + 1 : row;
            beat <= weights_last ? 0 : beat + 1;
        end
        if (!weights_valid || weights_ready)
            weights_valid <= weights_next < GEMV_WEIGHTS_WORDS && $random % 2 != 0;
        if (sum_valid && sum_ready) begin
            if (sum !== sums[sums_at] || status != 0) begin
                $display("row %0d: %h, not %h, with status %0d", sums_at, sum, sums[sums_at],
                         status);
                errors = errors + 1;
            end
            sums_at = sums_at + 1;
            if (sum_last) begin
                $display("%0d of %0d rows, %0d errors", sums_at, GEMV_ROWS, errors);
                $finish;
            end
        end
    end
endmodule
