// Testbench for the emitted stream_engine.v with files of 'seedbed export': the memory of a program,
// commands, tokens, and the results of the golden model. Constants are in stream_engine.vh. All sides
// pause at random. With keys and values in memory, define EXTERNAL.
`timescale 1ns / 1ps

module stream_engine_tb;
`include "stream_engine.vh"

    localparam BITS = STREAM_ENGINE_MEMORY_BITS;
    // Bursts that wait: more than the core asks for.
    localparam QUEUE = 1024;

    reg clk = 1'b0;
    reg rst = 1'b1;
    always #5 clk = ~clk;

    reg [BITS-1:0]                        memory   [0:STREAM_ENGINE_MEMORY_BEATS-1];
    reg [STREAM_ENGINE_COMMANDS_BITS-1:0] commands [0:STREAM_ENGINE_COMMANDS_WORDS-1];
    reg [STREAM_ENGINE_TOKENS_BITS-1:0]   tokens   [0:STREAM_ENGINE_TOKENS_WORDS-1];
    reg [STREAM_ENGINE_RESULTS_BITS-1:0]  results  [0:STREAM_ENGINE_RESULTS_WORDS-1];

    integer commands_at = 0, tokens_at = 0, results_at = 0, errors = 0;
    reg     command_valid = 1'b0, token_valid = 1'b0, result_ready = 1'b0, taken = 1'b0;
    wire    command_ready, token_ready, result_valid, status_valid;
    wire [STREAM_ENGINE_COMMANDS_BITS-1:0] command = commands[commands_at];
    wire [STREAM_ENGINE_TOKENS_BITS-1:0]   token = tokens[tokens_at];
    wire [STREAM_ENGINE_RESULTS_BITS-1:0]  values;
    wire [2:0]                             status;

    // Bursts, in order: address and beats. The first of those that wait is answered.
    reg [31:0]     addresses [0:QUEUE-1];
    reg [8:0]      lengths   [0:QUEUE-1];
    integer        queued = 0, answered = 0, beat = 0;
    reg            burst_ready = 1'b0, read_valid = 1'b0;
    wire [ADDRESS-1:0] burst_address;
    wire [7:0]     burst_length;
    wire           burst_write, burst_valid, read_ready;
    wire [31:0]    read_at = addresses[answered % QUEUE] + beat;
    wire           read_last = beat == lengths[answered % QUEUE] - 1;
    // What is answered after this cycle, which the clock's edge takes over.
    wire [31:0]    answered_next = answered + (read_valid && read_ready && read_last);

`ifdef EXTERNAL
    // Written beats have bursts of their own; their addresses wait.
    localparam ADDRESS = (STREAM_ENGINE_COMMANDS_BITS - 3) / 3;
    reg [31:0]      targets [0:QUEUE-1];
    integer         asked = 0, written = 0, confirmed = 0;
    reg             write_ready = 1'b0, response_valid = 1'b0;
    wire            write_valid, response_ready;
    wire [BITS-1:0] write_data;
`else
    localparam ADDRESS = STREAM_ENGINE_COMMANDS_BITS - 2;
`endif

    stream_engine dut (
        .clk(clk),
        .rst(rst),
        .i_kind(command[0]),
        .i_address(command[ADDRESS:1]),
        .i_start(command[ADDRESS+1]),
        .i_valid(command_valid),
        .i_ready(command_ready),
        .i_tokens_token(token[23:0]),
        .i_tokens_last(token[24]),
        .i_tokens_valid(token_valid),
        .i_tokens_ready(token_ready),
        .o_command_address(burst_address),
        .o_command_write(burst_write),
        .o_command_length(burst_length),
        .o_command_valid(burst_valid),
        .o_command_ready(burst_ready),
        .i_read_data(memory[read_at]),
        .i_read_error(1'b0),
        .i_read_last(read_last),
        .i_read_valid(read_valid),
        .i_read_ready(read_ready),
`ifdef EXTERNAL
        .i_first(command[ADDRESS+2+:ADDRESS]),
        .i_end(command[2*ADDRESS+2+:ADDRESS+1]),
        .o_write_data(write_data),
        .o_write_last(),
        .o_write_valid(write_valid),
        .o_write_ready(write_ready),
        .i_response_error(1'b0),
        .i_response_valid(response_valid),
        .i_response_ready(response_ready),
`endif
        .o_values(values),
        .o_last(),
        .o_valid(result_valid),
        .o_ready(result_ready),
        .o_status_kind(),
        .o_status_status(status),
        .o_status_valid(status_valid),
        .o_status_ready(1'b1)
    );

    initial begin
        $readmemh("stream_engine_memory.hex", memory, 0, STREAM_ENGINE_MEMORY_WORDS - 1);
        $readmemh("stream_engine_commands.hex", commands);
        $readmemh("stream_engine_tokens.hex", tokens);
        $readmemh("stream_engine_results.hex", results);
        repeat (2) @(negedge clk);
        rst = 1'b0;
    end

    // A valid beat stays until its transfer. Stimulus changes after the rising edge.
    always @(posedge clk) if (!rst) begin
        // A command after the status of the one before it.
        if (command_valid && command_ready) begin
            command_valid <= 1'b0;
            taken <= 1'b1;
        end else if (!command_valid && !taken && commands_at < STREAM_ENGINE_COMMANDS_WORDS)
            command_valid <= $random % 2 != 0;
        if (token_valid && token_ready) begin
            tokens_at <= tokens_at + 1;
            token_valid <= 1'b0;
        end else if (!token_valid && tokens_at < STREAM_ENGINE_TOKENS_WORDS)
            token_valid <= $random % 2 != 0;
        // The memory.
        burst_ready <= queued - answered < QUEUE / 2 && $random % 4 != 0;
        if (burst_valid && burst_ready && !burst_write) begin
            addresses[queued % QUEUE] <= burst_address;
            lengths[queued % QUEUE] <= burst_length + 1;
            queued <= queued + 1;
        end
        answered <= answered_next;
        if (read_valid && read_ready) beat <= read_last ? 0 : beat + 1;
        if (!read_valid || read_ready)
            read_valid <= answered_next < queued && $random % 8 != 0;
`ifdef EXTERNAL
        if (burst_valid && burst_ready && burst_write) begin
            targets[asked % QUEUE] <= burst_address;
            asked <= asked + 1;
        end
        write_ready <= written < asked && $random % 2 != 0;
        if (write_valid && write_ready) begin
            memory[targets[written % QUEUE]] <= write_data;
            written <= written + 1;
            write_ready <= 1'b0;
        end
        if (response_valid && response_ready) begin
            confirmed <= confirmed + 1;
            response_valid <= 1'b0;
        end else if (!response_valid && confirmed < written)
            response_valid <= $random % 2 != 0;
`endif
        result_ready <= $random % 4 != 0;
        if (result_valid && result_ready) begin
            if (values !== results[results_at]) begin
                if (errors == 0)
                    $display("beat %0d of the results: %h, not %h", results_at, values,
                             results[results_at]);
                errors = errors + 1;
            end
            results_at = results_at + 1;
        end
        if (status_valid) begin
            commands_at <= commands_at + 1;
            taken <= 1'b0;
            if (status != 0 || commands_at == STREAM_ENGINE_COMMANDS_WORDS - 1) begin
                $display("%0d of %0d commands, %0d of %0d beats, %0d errors, status %0d",
                         commands_at + 1, STREAM_ENGINE_COMMANDS_WORDS, results_at, STREAM_ENGINE_RESULTS_WORDS,
                         errors, status);
                $finish;
            end
        end
    end
endmodule
