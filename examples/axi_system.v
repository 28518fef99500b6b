// AXI system with gemv_axi. Simple logic replaces the processor and the DMA channels.
//
// A sequencer writes the matrix shape to the registers of the core and starts the job. Two memories
// send the vector and the compressed matrix as AXI4-Streams; a third memory stores the results. At
// the end, the status register is read. axi_system.py writes the memory contents.
module axi_system #(
    parameter COLUMNS = 64,
    parameter ROWS = 8,
    parameter VECTOR_BEATS = 16,    // four 16-bit activations per beat
    parameter ROW_BEATS = 4         // two blocks of eight weights per beat
) (
    input  wire                    clk,
    input  wire                    resetn,
    output reg                     done,      // job finished, status valid
    output reg              [31:0] status,    // status register of the core at the end of the job
    input  wire [$clog2(ROWS)-1:0] row,
    output wire             [63:0] result     // result of the row, signed
);
    // Registers of the core, by byte address.
    localparam CONTROL = 5'h00, STATUS = 5'h04, COLUMNS_AT = 5'h08, ROWS_AT = 5'h0C, MODE = 5'h10;

    // ---- Processor: four register writes, then a status read after the last result. -------------
    reg   [2:0] step;
    reg         awvalid, wvalid, arvalid;
    wire        awready, wready, bvalid, arready, rvalid;
    wire  [1:0] bresp, rresp;
    wire [31:0] rdata;
    reg         collected;

    reg  [4:0] address;
    reg [31:0] value;
    always @* begin
        case (step)
            3'd0:    begin address = COLUMNS_AT; value = COLUMNS; end
            3'd1:    begin address = ROWS_AT;    value = ROWS;    end
            3'd2:    begin address = MODE;       value = 0;       end
            default: begin address = CONTROL;    value = 1;       end
        endcase
    end

    // Write in flight, until its response.
    reg pending;
    always @(posedge clk)
        if (!resetn || bvalid) pending <= 0;
        else if (awvalid) pending <= 1;

    always @(posedge clk) begin
        if (!resetn) begin
            step <= 0;
            {awvalid, wvalid, arvalid, done} <= 0;
            status <= 0;
        end else begin
            if (awvalid && awready) awvalid <= 0;
            if (wvalid && wready) wvalid <= 0;
            if (arvalid && arready) arvalid <= 0;
            if (step < 4) begin
                // The next write starts after the response.
                if (bvalid) step <= step + 1;
                else if (!awvalid && !wvalid && !pending) {awvalid, wvalid} <= 2'b11;
            end else if (step == 4 && collected) begin
                arvalid <= 1;
                step <= 5;
            end else if (rvalid) begin
                status <= rdata;
                done <= 1;
            end
        end
    end

    // ---- DMA channels: two memories as stream sources, and one for the results. -----------------
    reg [63:0] vector [0:VECTOR_BEATS-1];
    reg [63:0] weights [0:ROWS*ROW_BEATS-1];
    reg [63:0] results [0:ROWS-1];
    initial begin
        $readmemh("vector.hex", vector);
        $readmemh("weights.hex", weights);
    end

    localparam VECTOR_BITS = $clog2(VECTOR_BEATS + 1);
    localparam WEIGHTS_BITS = $clog2(ROWS * ROW_BEATS + 1);
    reg  [VECTOR_BITS-1:0] vector_beat;
    reg [WEIGHTS_BITS-1:0] weights_beat;
    wire                   vector_ready, weights_ready;
    wire                   vector_valid = resetn && vector_beat < VECTOR_BEATS;
    wire                   weights_valid = resetn && weights_beat < ROWS * ROW_BEATS;
    always @(posedge clk) begin
        if (!resetn) begin
            vector_beat <= 0;
            weights_beat <= 0;
        end else begin
            if (vector_valid && vector_ready) vector_beat <= vector_beat + 1;
            if (weights_valid && weights_ready) weights_beat <= weights_beat + 1;
        end
    end

    reg [$clog2(ROWS)-1:0] result_row;
    wire            [63:0] result_data;
    wire                   result_valid, result_last;
    always @(posedge clk) begin
        if (!resetn) begin
            result_row <= 0;
            collected <= 0;
        end else if (result_valid) begin
            results[result_row] <= result_data;
            result_row <= result_row + 1;
            if (result_last) collected <= 1;
        end
    end
    assign result = results[row];

    gemv_axi gemv (
        .aclk(clk),
        .aresetn(resetn),
        .s_axi_control_awaddr(address),
        .s_axi_control_awvalid(awvalid),
        .s_axi_control_awready(awready),
        .s_axi_control_wdata(value),
        .s_axi_control_wstrb(4'b1111),
        .s_axi_control_wvalid(wvalid),
        .s_axi_control_wready(wready),
        .s_axi_control_bresp(bresp),
        .s_axi_control_bvalid(bvalid),
        .s_axi_control_bready(1'b1),
        .s_axi_control_araddr(STATUS),
        .s_axi_control_arvalid(arvalid),
        .s_axi_control_arready(arready),
        .s_axi_control_rdata(rdata),
        .s_axi_control_rresp(rresp),
        .s_axi_control_rvalid(rvalid),
        .s_axi_control_rready(1'b1),
        .s_axis_vector_tdata(vector[vector_beat]),
        .s_axis_vector_tlast(vector_beat == VECTOR_BEATS - 1),
        .s_axis_vector_tvalid(vector_valid),
        .s_axis_vector_tready(vector_ready),
        .s_axis_weights_tdata(weights[weights_beat]),
        .s_axis_weights_tlast(weights_beat % ROW_BEATS == ROW_BEATS - 1),
        .s_axis_weights_tvalid(weights_valid),
        .s_axis_weights_tready(weights_ready),
        .m_axis_result_tdata(result_data),
        .m_axis_result_tlast(result_last),
        .m_axis_result_tvalid(result_valid),
        .m_axis_result_tuser(),
        .m_axis_result_tready(1'b1)
    );
endmodule
