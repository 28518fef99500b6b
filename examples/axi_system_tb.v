// Testbench of axi_system: one job; the results are compared with those of the golden model.
`timescale 1ns / 1ps

module axi_system_tb;
    localparam ROWS = 8;

    reg         clk = 1'b0;
    reg         resetn = 1'b0;
    reg   [2:0] row = 0;
    wire        done;
    wire [31:0] status;
    wire [63:0] result;

    reg [63:0] sums [0:ROWS-1];
    integer    cycles = 0;
    integer    errors = 0;
    integer    k;

    axi_system dut (
        .clk(clk), .resetn(resetn), .done(done), .status(status), .row(row), .result(result)
    );

    always #5 clk = ~clk;
    always @(posedge clk) cycles = cycles + 1;

    initial begin
        $readmemh("sums.hex", sums);
        repeat (4) @(negedge clk);
        resetn = 1'b1;
        while (!done && cycles < 10000) @(negedge clk);
        // Bit 0: busy, bit 1: done, bits 6..4: status of the job, 0 is ok.
        if (status !== 32'h2) begin
            $display("status %h, not 00000002", status);
            errors = errors + 1;
        end
        for (k = 0; k < ROWS; k = k + 1) begin
            row = k;
            #1;
            if (result !== sums[k]) begin
                $display("row %0d: %h, not %h", k, result, sums[k]);
                errors = errors + 1;
            end
        end
        $display("%0d rows, %0d errors, %0d cycles", ROWS, errors, cycles);
        $finish;
    end
endmodule
