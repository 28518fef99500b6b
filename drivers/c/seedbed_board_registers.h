// SPDX-License-Identifier: Apache-2.0
// Written by 'seedbed drivers': registers of the boards' applications.
#ifndef SEEDBED_BOARD_REGISTERS_H
#define SEEDBED_BOARD_REGISTERS_H

#include <stdint.h>

// The protocol of the host link.
enum {
    SEEDBED_PROTOCOL_VERSION = 2,
    SEEDBED_RESPONSE = 128,
    SEEDBED_HELLO = 1,
    SEEDBED_READ = 2,
    SEEDBED_WRITE = 3,
    SEEDBED_WORDS = 4,
    SEEDBED_SEND = 5,
    SEEDBED_WRONG_SEQUENCE = 1,
    SEEDBED_WRONG_OPERATION = 2,
    SEEDBED_WRONG_POSITION = 3,
};

// The first registers of every application.
enum {
    SEEDBED_BOARD_PROTOCOL = 0, // read: version of the protocol
    SEEDBED_BOARD_IDENTIFIER = 1, // read: identifies the build: a hash of the design's sources
    SEEDBED_BOARD_BIT_CYCLES = 2, // read: clock cycles of a bit of the serial port
};

// Application noise.
enum {
    SEEDBED_BOARD_NOISE_SEED = 3, // write: seed of the perturbation, 1..255
    SEEDBED_BOARD_NOISE_NUMBERS = 4, // write: length of the perturbation, 1..16777215
    SEEDBED_BOARD_NOISE_WINDOW = 5, // write: first beat of the window of raw numbers
    SEEDBED_BOARD_NOISE_WINDOW_BEATS = 6, // write: beats in the window
    // write: for the host: position in the stream at which the job begins
    SEEDBED_BOARD_NOISE_ORIGIN = 7,
    SEEDBED_BOARD_NOISE_START = 8, // strobe: starts a job; ignored while one runs
    SEEDBED_BOARD_NOISE_STOP = 9, // strobe: ends a job without window and histogram
    SEEDBED_BOARD_NOISE_BUSY = 10, // read: 1: a job runs
    SEEDBED_BOARD_NOISE_JOBS = 11, // read: number of jobs that were started
    SEEDBED_BOARD_NOISE_CYCLES = 12, // read: cycles from the first beat to the last
    SEEDBED_BOARD_NOISE_NORM_LOW = 13, // read: sum of the squares, in units of 2^-14: bits 0..31
    SEEDBED_BOARD_NOISE_NORM_HIGH = 14, // read: bits 32..63
};

// Application link.
enum {
    SEEDBED_BOARD_LINK_RETURNS = 3, // write: 1: words come back; 0: they are counted only
    SEEDBED_BOARD_LINK_CLEAR = 4, // strobe: sets the counters to 0
    SEEDBED_BOARD_LINK_WORDS = 5, // read: words from the host
    SEEDBED_BOARD_LINK_TOTAL = 6, // read: their sum, modulo 2^32
    SEEDBED_BOARD_LINK_CYCLES = 7, // read: cycles from the first word to the last
};

// Application gemv.
enum {
    SEEDBED_BOARD_GEMV_MEMORY = 3, // read: bit 0: the self-test has ended; bit 1: it failed
    // read: bits of a beat's address at which the self-test failed
    SEEDBED_BOARD_GEMV_MEMORY_LINES = 4,
    SEEDBED_BOARD_GEMV_MEMORY_BITS = 5, // read: data pins at which the self-test failed
    SEEDBED_BOARD_GEMV_ADDRESS = 6, // write: first beat of the matrix in the memory
    SEEDBED_BOARD_GEMV_BEATS = 7, // write: beats of the matrix: rows times those of a row
    SEEDBED_BOARD_GEMV_ROW_BEATS = 8, // write: beats of a row, with that of its scale if it has one
    SEEDBED_BOARD_GEMV_ROWS = 9, // write: rows of the matrix
    SEEDBED_BOARD_GEMV_COLUMNS = 10, // write: columns of the matrix, 1..2048
    // write: for the host: position in the stream at which the job begins
    SEEDBED_BOARD_GEMV_ORIGIN = 11,
    SEEDBED_BOARD_GEMV_LOAD = 12, // strobe: stores the matrix: a word from the host for each beat
    SEEDBED_BOARD_GEMV_PRODUCT = 13, // strobe: multiplies: a word from the host for two numbers
    SEEDBED_BOARD_GEMV_STOP = 14, // strobe: ends a job
    SEEDBED_BOARD_GEMV_BUSY = 15, // read: 1: a job runs
    SEEDBED_BOARD_GEMV_JOBS = 16, // read: number of jobs that were started
    SEEDBED_BOARD_GEMV_CYCLES = 17, // read: from the first burst that is read to the last result
    // read: of them, those in which a beat waited for the engine
    SEEDBED_BOARD_GEMV_MEMORY_WAITS = 18,
    SEEDBED_BOARD_GEMV_STATUS = 19, // read: how the product ended: 0 without an error
    SEEDBED_BOARD_GEMV_ERRORS = 20, // read: errors of the memory in the job
};

// Application instantft.
enum {
    SEEDBED_BOARD_INSTANTFT_MEMORY = 3, // read: bit 0: the self-test has ended; bit 1: it failed
    // read: bits of a beat's address at which the self-test failed
    SEEDBED_BOARD_INSTANTFT_MEMORY_LINES = 4,
    SEEDBED_BOARD_INSTANTFT_MEMORY_BITS = 5, // read: data pins at which the self-test failed
    // write: 1: the core is reset, and words from the host are discarded
    SEEDBED_BOARD_INSTANTFT_HOLD = 6,
    // write: for the host: position of the job's first word to the board
    SEEDBED_BOARD_INSTANTFT_ORIGIN_IN = 7,
    // write: for the host: position of the job's first word to the host
    SEEDBED_BOARD_INSTANTFT_ORIGIN_OUT = 8,
    SEEDBED_BOARD_INSTANTFT_DIGEST = 9, // write: for the host: CRC-32 of the job's words
    SEEDBED_BOARD_INSTANTFT_JOBS = 10, // read: number of jobs that were started
    // read: cycles from the start of the job to its last word to the host
    SEEDBED_BOARD_INSTANTFT_CYCLES = 11,
    // read: cycles of them in which the board waited for a word from the host
    SEEDBED_BOARD_INSTANTFT_WAITS = 12,
    SEEDBED_BOARD_INSTANTFT_TRAIN_SAMPLES = 13, // read: samples of the last training
    SEEDBED_BOARD_INSTANTFT_TRAIN_HITS = 14, // read: hits of the last training
    SEEDBED_BOARD_INSTANTFT_TRAIN_MISSES = 15, // read: misses of the last training
    SEEDBED_BOARD_INSTANTFT_TRAIN_BATCHES = 16, // read: batches of the last training
    SEEDBED_BOARD_INSTANTFT_TRAIN_SATURATIONS = 17, // read: saturations of the last training
    SEEDBED_BOARD_INSTANTFT_TRAIN_CYCLES = 18, // read: cycles of the last training
};
// Of struct seedbed_job_registers.
#define SEEDBED_BOARD_INSTANTFT_JOB {6, 7, 8, 9, 10}

// Application zo_trainer.
enum {
    SEEDBED_BOARD_ZO_TRAINER_MEMORY = 3, // read: bit 0: the self-test has ended; bit 1: it failed
    // read: bits of a beat's address at which the self-test failed
    SEEDBED_BOARD_ZO_TRAINER_MEMORY_LINES = 4,
    SEEDBED_BOARD_ZO_TRAINER_MEMORY_BITS = 5, // read: data pins at which the self-test failed
    // write: 1: the core is reset, and words from the host are discarded
    SEEDBED_BOARD_ZO_TRAINER_HOLD = 6,
    // write: for the host: position of the job's first word to the board
    SEEDBED_BOARD_ZO_TRAINER_ORIGIN_IN = 7,
    // write: for the host: position of the job's first word to the host
    SEEDBED_BOARD_ZO_TRAINER_ORIGIN_OUT = 8,
    SEEDBED_BOARD_ZO_TRAINER_DIGEST = 9, // write: for the host: CRC-32 of the job's words
    SEEDBED_BOARD_ZO_TRAINER_JOBS = 10, // read: number of jobs that were started
    // read: cycles from the start of the job to its last word to the host
    SEEDBED_BOARD_ZO_TRAINER_CYCLES = 11,
    // read: cycles of them in which the board waited for a word from the host
    SEEDBED_BOARD_ZO_TRAINER_WAITS = 12,
};
// Of struct seedbed_job_registers.
#define SEEDBED_BOARD_ZO_TRAINER_JOB {6, 7, 8, 9, 10}

// Application lm.
enum {
    SEEDBED_BOARD_LM_MEMORY = 3, // read: bit 0: the self-test has ended; bit 1: it failed
    // read: bits of a beat's address at which the self-test failed
    SEEDBED_BOARD_LM_MEMORY_LINES = 4,
    SEEDBED_BOARD_LM_MEMORY_BITS = 5, // read: data pins at which the self-test failed
    SEEDBED_BOARD_LM_HOLD = 6, // write: 1: the core is reset, and words from the host are discarded
    // write: for the host: position of the job's first word to the board
    SEEDBED_BOARD_LM_ORIGIN_IN = 7,
    // write: for the host: position of the job's first word to the host
    SEEDBED_BOARD_LM_ORIGIN_OUT = 8,
    SEEDBED_BOARD_LM_DIGEST = 9, // write: for the host: CRC-32 of the job's words
    SEEDBED_BOARD_LM_JOBS = 10, // read: number of jobs that were started
    // read: cycles from the start of the job to its last word to the host
    SEEDBED_BOARD_LM_CYCLES = 11,
    // read: cycles of them in which the board waited for a word from the host
    SEEDBED_BOARD_LM_WAITS = 12,
    // read: cycles of the products in which none waited for the line
    SEEDBED_BOARD_LM_PRODUCT_CYCLES = 13,
};
// Of struct seedbed_job_registers.
#define SEEDBED_BOARD_LM_JOB {6, 7, 8, 9, 10}

// Application sentence.
enum {
    SEEDBED_BOARD_SENTENCE_MEMORY = 3, // read: bit 0: the self-test has ended; bit 1: it failed
    // read: bits of a beat's address at which the self-test failed
    SEEDBED_BOARD_SENTENCE_MEMORY_LINES = 4,
    SEEDBED_BOARD_SENTENCE_MEMORY_BITS = 5, // read: data pins at which the self-test failed
    // write: 1: the core is reset, and words from the host are discarded
    SEEDBED_BOARD_SENTENCE_HOLD = 6,
    // write: for the host: position of the job's first word to the board
    SEEDBED_BOARD_SENTENCE_ORIGIN_IN = 7,
    // write: for the host: position of the job's first word to the host
    SEEDBED_BOARD_SENTENCE_ORIGIN_OUT = 8,
    SEEDBED_BOARD_SENTENCE_DIGEST = 9, // write: for the host: CRC-32 of the job's words
    SEEDBED_BOARD_SENTENCE_JOBS = 10, // read: number of jobs that were started
    // read: cycles from the start of the job to its last word to the host
    SEEDBED_BOARD_SENTENCE_CYCLES = 11,
    // read: cycles of them in which the board waited for a word from the host
    SEEDBED_BOARD_SENTENCE_WAITS = 12,
    // write: for the host: CRC-32 of the program in the memory, or 0
    SEEDBED_BOARD_SENTENCE_IMAGE = 13,
    // read: cycles of the last command, from its start to its status
    SEEDBED_BOARD_SENTENCE_RUN_CYCLES = 14,
};
// Of struct seedbed_job_registers.
#define SEEDBED_BOARD_SENTENCE_JOB {6, 7, 8, 9, 10}

#endif
