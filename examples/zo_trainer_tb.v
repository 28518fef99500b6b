// Testbench for the emitted zo_trainer.v with files of 'seedbed export': weights of a network,
// images, and the classes of the golden model. Constants are in zo_trainer.vh. Both sides pause at
// random.
`timescale 1ns / 1ps

module zo_trainer_tb;
`include "zo_trainer.vh"

    reg clk = 1'b0;
    reg rst = 1'b1;
    always #5 clk = ~clk;

    reg [ZO_TRAINER_PARAMETERS_BITS-1:0] parameters [0:ZO_TRAINER_PARAMETERS_WORDS-1];
    reg [ZO_TRAINER_SAMPLES_BITS-1:0]    samples    [0:ZO_TRAINER_SAMPLES_WORDS-1];
    reg [ZO_TRAINER_CLASSES_BITS-1:0]    classes    [0:ZO_TRAINER_CLASSES_WORDS-1];

    // The command: kind 1 classifies; an epoch of all images. The weights come before it, and the
    // images after it.
    wire [31:0]       images = ZO_TRAINER_SAMPLES;
    wire signed [8:0] exponent = ZO_TRAINER_EXPONENT;
    reg               command = 1'b1;
    wire              command_ready;

    // Places in the memories; beat of the image of the next pixels.
    integer parameters_at = 0, samples_at = 0, classes_at = 0, beat = 0, errors = 0;
    reg     parameters_valid = 1'b0, samples_valid = 1'b0, class_ready = 1'b0;
    wire    parameters_ready, samples_ready, class_valid, class_error, status_valid;
    // What the next beats are, which the clock's edge takes over.
    wire [31:0] parameters_next = parameters_at + (parameters_valid && parameters_ready);
    wire [31:0] samples_next = samples_at + (samples_valid && samples_ready);
    wire    loaded = parameters_at == ZO_TRAINER_PARAMETERS_WORDS;
    wire    sample_last = beat == ZO_TRAINER_SAMPLE_BEATS - 1;
    wire [ZO_TRAINER_CLASSES_BITS-1:0] best;
    wire [2:0]                         status;

    // No schedule is needed to classify, and no log comes. Labels are 0: they only matter in a
    // training.
    zo_trainer dut (
        .clk(clk),
        .rst(rst),
        .i_parameters_word(parameters[parameters_at]),
        .i_parameters_last(parameters_at == ZO_TRAINER_PARAMETERS_WORDS - 1),
        .i_parameters_valid(parameters_valid),
        .i_parameters_ready(parameters_ready),
        .i_schedule_epoch(16'd0),
        .i_schedule_phase_magnitude(3'd0),
        .i_schedule_phase_zeros(4'd0),
        .i_schedule_last(1'b0),
        .i_schedule_valid(1'b0),
        .i_schedule_ready(),
        .i_kind(2'd1),
        .i_samples(images),
        .i_epochs(16'd1),
        .i_batch(13'd1),
        .i_seed(32'd1),
        .i_exponent(exponent),
        .i_valid(command && loaded && !rst),
        .i_ready(command_ready),
        .i_samples_pixels(samples[samples_at]),
        .i_samples_label({ZO_TRAINER_CLASSES_BITS{1'b0}}),
        .i_samples_last(sample_last),
        .i_samples_valid(samples_valid),
        .i_samples_ready(samples_ready),
        .o_best(best),
        .o_error(class_error),
        .o_valid(class_valid),
        .o_ready(class_ready),
        .o_log_ready(1'b1),
        .o_parameters_ready(1'b1),
        .o_status_status(status),
        .o_status_valid(status_valid),
        .o_status_ready(1'b1)
    );

    initial begin
        $readmemh("zo_trainer_parameters.hex", parameters);
        $readmemh("zo_trainer_samples.hex", samples);
        $readmemh("zo_trainer_classes.hex", classes);
        repeat (2) @(negedge clk);
        rst = 1'b0;
    end

    // A valid beat stays until its transfer. Stimulus changes after the rising edge.
    always @(posedge clk) if (!rst) begin
        class_ready <= $random;
        parameters_at <= parameters_next;
        if (!parameters_valid || parameters_ready)
            parameters_valid <= parameters_next < ZO_TRAINER_PARAMETERS_WORDS && $random % 2 != 0;
        if (command && loaded && command_ready) command <= 1'b0;
        if (samples_valid && samples_ready) begin
            samples_at <= samples_at + 1;
            beat <= sample_last ? 0 : beat + 1;
        end
        if (!samples_valid || samples_ready)
            samples_valid <= !command && samples_next < ZO_TRAINER_SAMPLES_WORDS && $random % 2 != 0;
        if (class_valid && class_ready) begin
            if (best !== classes[classes_at] || class_error) begin
                $display("image %0d: class %0d, not %0d", classes_at, best, classes[classes_at]);
                errors = errors + 1;
            end
            classes_at = classes_at + 1;
        end
        if (status_valid) begin
            $display("%0d of %0d classes, %0d errors, status %0d", classes_at, ZO_TRAINER_SAMPLES,
                     errors, status);
            $finish;
        end
    end
endmodule
