// SPDX-License-Identifier: Apache-2.0
// Written by 'seedbed drivers': registers and streams of the cores with AXI.
#ifndef SEEDBED_AXI_REGISTERS_H
#define SEEDBED_AXI_REGISTERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct seedbed_axi_core;

// What all maps have.
enum {
    SEEDBED_AXI_CONTROL_REGISTER = 0,
    SEEDBED_AXI_STATUS_REGISTER = 4,
    SEEDBED_AXI_STEPS_REGISTER = 8,
    SEEDBED_AXI_STATUS_BUSY = 1,
    SEEDBED_AXI_STATUS_DONE = 2,
    SEEDBED_AXI_STATUS_CODE = 4, // the lowest bit of the code
};

// gemv_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start a job, with `columns`, `rows` and `mode`; refused while busy; bit 1:
    // clear: abort the job, and end the discarding after an error
    SEEDBED_GEMV_CONTROL = 0,
    SEEDBED_GEMV_STATUS = 4, // read: bit 0: busy
    SEEDBED_GEMV_COLUMNS = 8, // write: number
    SEEDBED_GEMV_ROWS = 12, // write: number
    SEEDBED_GEMV_MODE = 16, // write: bit 0: plain weights; only with `decode` = `seedlm`
};
// How a command ended.
enum {
    SEEDBED_GEMV_STATUS_OK = 0,
    SEEDBED_GEMV_STATUS_SHAPE = 1,
    SEEDBED_GEMV_STATUS_VECTOR = 2,
    SEEDBED_GEMV_STATUS_ROW = 3,
    SEEDBED_GEMV_STATUS_CLEARED = 4,
};
// Its streams.
enum {
    SEEDBED_GEMV_S_AXIS_VECTOR = 0,
    SEEDBED_GEMV_S_AXIS_WEIGHTS = 1,
    SEEDBED_GEMV_M_AXIS_RESULT = 2,
};
extern const struct seedbed_axi_core seedbed_gemv_axi;

// forward_cache_axi.
// Its commands.
enum {
    SEEDBED_FORWARD_CACHE_FETCH = 0,
    SEEDBED_FORWARD_CACHE_STORE = 1,
    SEEDBED_FORWARD_CACHE_CLEAR = 2,
};
// How a command ended.
enum {
    SEEDBED_FORWARD_CACHE_STATUS_DONE = 0,
    SEEDBED_FORWARD_CACHE_STATUS_MISS = 1,
    SEEDBED_FORWARD_CACHE_STATUS_RANGE = 2,
    SEEDBED_FORWARD_CACHE_STATUS_MEMORY = 3,
    SEEDBED_FORWARD_CACHE_STATUS_FRAME = 4,
};
// Its streams.
enum {
    SEEDBED_FORWARD_CACHE_S_AXIS_REQUEST = 0,
    SEEDBED_FORWARD_CACHE_S_AXIS_CODES = 1,
    SEEDBED_FORWARD_CACHE_M_AXIS_ANSWER = 2,
    SEEDBED_FORWARD_CACHE_M_AXIS_CODES = 3,
};
extern const struct seedbed_axi_core seedbed_forward_cache_axi;

// instantft_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start the command in the registers below; refused while busy
    SEEDBED_INSTANTFT_CONTROL = 0,
    SEEDBED_INSTANTFT_STATUS = 4, // read: bit 0: busy
    SEEDBED_INSTANTFT_KIND = 8, // write: 0 train, 1 infer, 2 clear, 3 read, 4 forget
    SEEDBED_INSTANTFT_SAMPLES = 12, // write: number in an epoch
    SEEDBED_INSTANTFT_EPOCHS = 16, // write: number
    SEEDBED_INSTANTFT_BATCH = 20, // write: samples of a batch
    SEEDBED_INSTANTFT_RATE = 24, // write: learning rate
    SEEDBED_INSTANTFT_BASE = 28, // write: byte address of the cache; bits 11..0 must be 0
    SEEDBED_INSTANTFT_COUNTED_SAMPLES = 32, // read: samples in the current or last job
    SEEDBED_INSTANTFT_COUNTED_HITS = 36, // read: hits in the current or last job
    SEEDBED_INSTANTFT_COUNTED_MISSES = 40, // read: misses in the current or last job
    SEEDBED_INSTANTFT_COUNTED_BATCHES = 44, // read: batches in the current or last job
    SEEDBED_INSTANTFT_COUNTED_SATURATIONS = 48, // read: saturations in the current or last job
    SEEDBED_INSTANTFT_COUNTED_CYCLES = 52, // read: cycles in the current or last job
};
// Its commands.
enum {
    SEEDBED_INSTANTFT_TRAIN = 0,
    SEEDBED_INSTANTFT_INFER = 1,
    SEEDBED_INSTANTFT_CLEAR = 2,
    SEEDBED_INSTANTFT_READ = 3,
    SEEDBED_INSTANTFT_FORGET = 4,
};
// How a command ended.
enum {
    SEEDBED_INSTANTFT_STATUS_OK = 0,
    SEEDBED_INSTANTFT_STATUS_COMMAND = 1,
    SEEDBED_INSTANTFT_STATUS_SAMPLE = 2,
    SEEDBED_INSTANTFT_STATUS_INDEX = 3,
    SEEDBED_INSTANTFT_STATUS_MEMORY = 4,
    SEEDBED_INSTANTFT_STATUS_PARAMETERS = 5,
};
// Its streams.
enum {
    SEEDBED_INSTANTFT_S_AXIS_PARAMETERS = 0,
    SEEDBED_INSTANTFT_S_AXIS_SAMPLES = 1,
    SEEDBED_INSTANTFT_M_AXIS_RESULTS = 2,
    SEEDBED_INSTANTFT_M_AXIS_ADAPTERS = 3,
};
// A command's registers.
struct seedbed_instantft_command {
    uint32_t kind, samples, epochs, batch, rate;
};
extern const struct seedbed_axi_core seedbed_instantft_axi;

// zo_trainer_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start the command in the registers below; refused while busy
    SEEDBED_ZO_TRAINER_CONTROL = 0,
    SEEDBED_ZO_TRAINER_STATUS = 4, // read: bit 0: busy
    SEEDBED_ZO_TRAINER_STEPS = 8, // read: batches trained in the current or last command
    // strobe: an entry: bits 15..0: epoch; 19..16: magnitude; 23..20: zeros; 26..24: update bits,
    // with a tail; 31: last
    SEEDBED_ZO_TRAINER_SCHEDULE = 12,
    SEEDBED_ZO_TRAINER_KIND = 16, // write: 0 train, 1 infer, 2 read
    SEEDBED_ZO_TRAINER_SAMPLES = 20, // write: number in an epoch
    SEEDBED_ZO_TRAINER_EPOCHS = 24, // write: number
    SEEDBED_ZO_TRAINER_BATCH = 28, // write: samples of a batch
    SEEDBED_ZO_TRAINER_SEED = 32, // write: of the first batch
    // write: sum of the exponents of all layers' weights, sign-extended to 32 bits
    SEEDBED_ZO_TRAINER_EXPONENT = 36,
};
// Its commands.
enum {
    SEEDBED_ZO_TRAINER_TRAIN = 0,
    SEEDBED_ZO_TRAINER_INFER = 1,
    SEEDBED_ZO_TRAINER_READ = 2,
};
// How a command ended.
enum {
    SEEDBED_ZO_TRAINER_STATUS_OK = 0,
    SEEDBED_ZO_TRAINER_STATUS_COMMAND = 1,
    SEEDBED_ZO_TRAINER_STATUS_SAMPLE = 2,
    SEEDBED_ZO_TRAINER_STATUS_PARAMETERS = 3,
    SEEDBED_ZO_TRAINER_STATUS_SCHEDULE = 4,
};
// Its streams.
enum {
    SEEDBED_ZO_TRAINER_S_AXIS_PARAMETERS = 0,
    SEEDBED_ZO_TRAINER_S_AXIS_SAMPLES = 1,
    SEEDBED_ZO_TRAINER_M_AXIS_RESULTS = 2,
    SEEDBED_ZO_TRAINER_M_AXIS_LOG = 3,
    SEEDBED_ZO_TRAINER_M_AXIS_PARAMETERS = 4,
};
// A command's registers.
struct seedbed_zo_trainer_command {
    uint32_t kind, samples, epochs, batch, seed, exponent;
};
extern const struct seedbed_axi_core seedbed_zo_trainer_axi;

// sparse_trainer_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start the command in the registers below; refused while busy; bit 1: abort
    // the command that runs, or that waits for the end of a table of layers, which is then
    // dropped; ignored unless busy
    SEEDBED_SPARSE_TRAINER_CONTROL = 0,
    SEEDBED_SPARSE_TRAINER_STATUS = 4, // read: bit 0: busy
    SEEDBED_SPARSE_TRAINER_STEPS = 8, // read: steps of the current or last command
    SEEDBED_SPARSE_TRAINER_SATURATED = 12, // read: gains of the last command that saturated
    // write: byte address of the core's address 0; bits 11..0 must be 0
    SEEDBED_SPARSE_TRAINER_BASE = 16,
    SEEDBED_SPARSE_TRAINER_KIND = 20, // write: 0 train, 1 infer, 2 load, 3 read, 4 abort
    SEEDBED_SPARSE_TRAINER_SAMPLES = 24, // write: number in an epoch
    SEEDBED_SPARSE_TRAINER_EPOCHS = 28, // write: number
    SEEDBED_SPARSE_TRAINER_BATCH = 32, // write: samples of a batch
    SEEDBED_SPARSE_TRAINER_SEED = 36, // write: of the first step
    SEEDBED_SPARSE_TRAINER_RATE = 40, // write: learning rate
    SEEDBED_SPARSE_TRAINER_DECAY = 44, // write: of the rate, per epoch
    SEEDBED_SPARSE_TRAINER_SHIFT = 48, // write: right shift of the rate
};
// Its commands.
enum {
    SEEDBED_SPARSE_TRAINER_TRAIN = 0,
    SEEDBED_SPARSE_TRAINER_INFER = 1,
    SEEDBED_SPARSE_TRAINER_LOAD = 2,
    SEEDBED_SPARSE_TRAINER_READ = 3,
    SEEDBED_SPARSE_TRAINER_ABORT = 4,
};
// How a command ended.
enum {
    SEEDBED_SPARSE_TRAINER_STATUS_OK = 0,
    SEEDBED_SPARSE_TRAINER_STATUS_COMMAND = 1,
    SEEDBED_SPARSE_TRAINER_STATUS_LAYERS = 2,
    SEEDBED_SPARSE_TRAINER_STATUS_SAMPLE = 3,
    SEEDBED_SPARSE_TRAINER_STATUS_MEMORY = 4,
    SEEDBED_SPARSE_TRAINER_STATUS_ORDER = 5,
    SEEDBED_SPARSE_TRAINER_STATUS_REPEATED = 6,
    SEEDBED_SPARSE_TRAINER_STATUS_RANGE = 7,
    SEEDBED_SPARSE_TRAINER_STATUS_ENTRIES = 8,
    SEEDBED_SPARSE_TRAINER_STATUS_ABORTED = 9,
};
// Its streams.
enum {
    SEEDBED_SPARSE_TRAINER_S_AXIS_LAYERS = 0,
    SEEDBED_SPARSE_TRAINER_S_AXIS_ENTRIES = 1,
    SEEDBED_SPARSE_TRAINER_S_AXIS_SAMPLES = 2,
    SEEDBED_SPARSE_TRAINER_M_AXIS_RESULTS = 3,
    SEEDBED_SPARSE_TRAINER_M_AXIS_LOG = 4,
    SEEDBED_SPARSE_TRAINER_M_AXIS_ENTRIES = 5,
};
// A command's registers.
struct seedbed_sparse_trainer_command {
    uint32_t kind, samples, epochs, batch, seed, rate, decay, shift;
};
extern const struct seedbed_axi_core seedbed_sparse_trainer_axi;

// stream_engine_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start the command in the registers below; refused while busy
    SEEDBED_STREAM_ENGINE_CONTROL = 0,
    SEEDBED_STREAM_ENGINE_STATUS = 4, // read: bit 0: busy
    // write: byte address of the core's address 0; bits 11..0 must be 0
    SEEDBED_STREAM_ENGINE_BASE = 8,
    SEEDBED_STREAM_ENGINE_KIND = 12, // write: 0 load, 1 run, 2 tune; the last one with `tune` only
    SEEDBED_STREAM_ENGINE_ADDRESS = 16, // write: of the program in memory, in beats; of a load
    // write: 1: the block's first token is the first of all; of a run
    SEEDBED_STREAM_ENGINE_START = 20,
    // write: the first address that is written, in beats; of a load that may write, of a tune
    SEEDBED_STREAM_ENGINE_FIRST = 24,
    // write: the address after the last one that is written; of a load that may write, of a tune
    SEEDBED_STREAM_ENGINE_END = 28,
    SEEDBED_STREAM_ENGINE_SEED = 32, // write: of the signs, not 0; of a tune
    // write: added to values of kept weights, times their signs; of a tune; sign-extended to 32
    // bits
    SEEDBED_STREAM_ENGINE_DELTA = 36,
};
// Its commands.
enum {
    SEEDBED_STREAM_ENGINE_LOAD = 0,
    SEEDBED_STREAM_ENGINE_RUN = 1,
    SEEDBED_STREAM_ENGINE_TUNE = 2,
};
// How a command ended.
enum {
    SEEDBED_STREAM_ENGINE_STATUS_OK = 0,
    SEEDBED_STREAM_ENGINE_STATUS_MEMORY = 1,
    SEEDBED_STREAM_ENGINE_STATUS_DAMAGED = 2,
    SEEDBED_STREAM_ENGINE_STATUS_SIZE = 3,
    SEEDBED_STREAM_ENGINE_STATUS_MISSING = 4,
    SEEDBED_STREAM_ENGINE_STATUS_TOKENS = 5,
};
// Its streams.
enum {
    SEEDBED_STREAM_ENGINE_S_AXIS_TOKENS = 0,
    SEEDBED_STREAM_ENGINE_M_AXIS_RESULTS = 1,
};
// A command's registers.
struct seedbed_stream_engine_command {
    uint32_t kind, address, start, first, end, seed, delta;
};
extern const struct seedbed_axi_core seedbed_stream_engine_axi;

// stream_trainer_axi.
// Offsets of its registers at s_axi_control.
enum {
    // strobe: bit 0: start the command in the registers below; refused while busy; bit 1: abort
    // the training that runs; ignored without one
    SEEDBED_STREAM_TRAINER_CONTROL = 0,
    SEEDBED_STREAM_TRAINER_STATUS = 4, // read: bit 0: busy
    // read: steps of the current or last training; 0 after another command
    SEEDBED_STREAM_TRAINER_STEPS = 8,
    // write: byte address of the core's address 0; bits 11..0 must be 0
    SEEDBED_STREAM_TRAINER_BASE = 12,
    SEEDBED_STREAM_TRAINER_KIND = 16, // write: 0 load, 1 run, 2 tune, 3 train, 4 abort
    // write: in memory, in beats: of the program to load, or of the first sample of a training
    SEEDBED_STREAM_TRAINER_ADDRESS = 20,
    // write: 1: the block's first token is the first of all; of a run
    SEEDBED_STREAM_TRAINER_START = 24,
    // write: the first address that is written, in beats; of a load, a tune and a training
    SEEDBED_STREAM_TRAINER_FIRST = 28,
    // write: the address after the last one that is written; of a load, a tune and a training
    SEEDBED_STREAM_TRAINER_END = 32,
    // write: of the signs of a tune, not 0, or of the first step of a training, with 23 bits
    SEEDBED_STREAM_TRAINER_SEED = 36,
    // write: added to values of kept weights, times their signs; of a tune; eps of a training,
    // 1..16384; sign-extended to 32 bits
    SEEDBED_STREAM_TRAINER_DELTA = 40,
    SEEDBED_STREAM_TRAINER_SAMPLES = 44, // write: number in an epoch
    SEEDBED_STREAM_TRAINER_EPOCHS = 48, // write: number
    SEEDBED_STREAM_TRAINER_BATCH = 52, // write: samples of a batch
    SEEDBED_STREAM_TRAINER_HEAD = 56, // write: beats of a sample's tokens
    SEEDBED_STREAM_TRAINER_RATE = 60, // write: factor of the difference of the losses
    SEEDBED_STREAM_TRAINER_DECAY = 64, // write: of the rate, per epoch
    SEEDBED_STREAM_TRAINER_SHIFT = 68, // write: right shift of the product
    SEEDBED_STREAM_TRAINER_MOST = 72, // write: the most that a value changes in a step
    // write: beats of a sample's vectors, each of `lanes` elements
    SEEDBED_STREAM_TRAINER_VECTORS = 76,
};
// Its commands.
enum {
    SEEDBED_STREAM_TRAINER_LOAD = 0,
    SEEDBED_STREAM_TRAINER_RUN = 1,
    SEEDBED_STREAM_TRAINER_TUNE = 2,
    SEEDBED_STREAM_TRAINER_TRAIN = 3,
    SEEDBED_STREAM_TRAINER_ABORT = 4,
};
// How a command ended.
enum {
    SEEDBED_STREAM_TRAINER_STATUS_OK = 0,
    SEEDBED_STREAM_TRAINER_STATUS_MEMORY = 1,
    SEEDBED_STREAM_TRAINER_STATUS_DAMAGED = 2,
    SEEDBED_STREAM_TRAINER_STATUS_SIZE = 3,
    SEEDBED_STREAM_TRAINER_STATUS_MISSING = 4,
    SEEDBED_STREAM_TRAINER_STATUS_TOKENS = 5,
    SEEDBED_STREAM_TRAINER_STATUS_COMMAND = 6,
    SEEDBED_STREAM_TRAINER_STATUS_ABORTED = 7,
};
// Its streams.
enum {
    SEEDBED_STREAM_TRAINER_S_AXIS_TOKENS = 0,
    SEEDBED_STREAM_TRAINER_M_AXIS_RESULTS = 1,
    SEEDBED_STREAM_TRAINER_M_AXIS_LOG = 2,
};
// A command's registers.
struct seedbed_stream_trainer_command {
    uint32_t kind, address, start, first, end, seed, delta, samples, epochs, batch, head, rate,
             decay, shift, most, vectors;
};
extern const struct seedbed_axi_core seedbed_stream_trainer_axi;

#ifdef __cplusplus
}
#endif

#endif
