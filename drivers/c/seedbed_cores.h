// SPDX-License-Identifier: Apache-2.0
// Each core of seedbed with AXI ports: its commands.
//
// A command is run in four steps: seedbed_axi_send() and seedbed_axi_receive() for its streams, the
// function here that starts it, and seedbed_axi_poll() until that is done.
#ifndef SEEDBED_CORES_H
#define SEEDBED_CORES_H

#include "seedbed_axi.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a row of gemv's matrix is: packed or plain with `decode` = seedlm, else of the one kind.
enum seedbed_gemv_mode { SEEDBED_GEMV_PACKED, SEEDBED_GEMV_PLAIN, SEEDBED_GEMV_ONE_KIND };

// An entry of zo_trainer's schedule. `update_bits` is 0 without a tail.
struct seedbed_zo_trainer_entry {
    uint16_t epoch;
    uint8_t magnitude, zeros, update_bits;
};

// Starts a product. Inputs: s_axis_vector, a packet; s_axis_weights, a packet for each row.
// Output: m_axis_result, a packet.
enum seedbed_axi_error seedbed_gemv_start(struct seedbed_axi *axi, uint32_t columns, uint32_t rows,
                                          enum seedbed_gemv_mode mode);

// Ends the discarding after an error of gemv, without a job.
enum seedbed_axi_error seedbed_gemv_clear(struct seedbed_axi *axi);

// Sets the byte address of instantft's cache in the memory, a multiple of 4096.
enum seedbed_axi_error seedbed_instantft_base(struct seedbed_axi *axi, uint32_t base);

// Starts a command of instantft. Network and adapters are packets of s_axis_parameters with tuser
// 0 and 1, sent before it. Input: s_axis_samples, a packet for each image, with tuser: label, and
// index from bit 16 up. Outputs: m_axis_results, a packet; m_axis_adapters, a packet, of a read.
enum seedbed_axi_error seedbed_instantft_start(struct seedbed_axi *axi,
                                               const struct seedbed_instantft_command *command);

// Writes a schedule of zo_trainer.
enum seedbed_axi_error seedbed_zo_trainer_schedule(struct seedbed_axi *axi,
                                                   const struct seedbed_zo_trainer_entry *entries,
                                                   size_t count);

// Starts a command of zo_trainer. The weights are a packet of s_axis_parameters, sent before it.
// Input: s_axis_samples, a packet for each image, with its label in tuser. Outputs:
// m_axis_results, a packet; m_axis_log, a packet, of a training; m_axis_parameters, a packet, of a
// read.
enum seedbed_axi_error seedbed_zo_trainer_start(struct seedbed_axi *axi,
                                                const struct seedbed_zo_trainer_command *command);

// Sets the byte address of sparse_trainer's address 0 in the memory, a multiple of 4096.
enum seedbed_axi_error seedbed_sparse_trainer_base(struct seedbed_axi *axi, uint32_t base);

// Starts a command of sparse_trainer. The table of layers is a packet of s_axis_layers, sent before
// it. Inputs: s_axis_entries, a packet, of a load; s_axis_samples, a packet for each sample, with
// its label in tuser. Outputs: m_axis_results, a packet; m_axis_log, a packet, of a training;
// m_axis_entries, a packet for each layer, of a read.
enum seedbed_axi_error seedbed_sparse_trainer_start(
    struct seedbed_axi *axi, const struct seedbed_sparse_trainer_command *command);

// Sets the byte address of stream_engine's address 0 in the memory, a multiple of 4096.
enum seedbed_axi_error seedbed_stream_engine_base(struct seedbed_axi *axi, uint32_t base);

// Starts a command of stream_engine. Input: s_axis_tokens, a packet, of a run. Output:
// m_axis_results, a packet, whose last beat is the status. With keys and values in memory or with
// `tune`, a load says which beats may be written: from first to the one before end. Of a core with
// `tune`, a tune changes the kept weights in such a range by a seed and a delta, two's complement.
enum seedbed_axi_error seedbed_stream_engine_start(
    struct seedbed_axi *axi, const struct seedbed_stream_engine_command *command);

// Sets the byte address of stream_trainer's address 0 in the memory, a multiple of 4096.
enum seedbed_axi_error seedbed_stream_trainer_base(struct seedbed_axi *axi, uint32_t base);

// Starts a command of stream_trainer. The program is in memory, and so are the samples of a
// training. Input: s_axis_tokens, a packet, of a run, each with its class in bits 31..24. Outputs:
// m_axis_results, a packet, whose last beat is the status; m_axis_log, a packet, of a training. A
// delta is in two's complement. `vectors` is written unless it is 0: only a core with `inputs` has
// the register.
enum seedbed_axi_error seedbed_stream_trainer_start(
    struct seedbed_axi *axi, const struct seedbed_stream_trainer_command *command);

// Starts a request of forward_cache: one of SEEDBED_FORWARD_CACHE_FETCH, ..._STORE, ..._CLEAR.
// Input: s_axis_codes, a packet, of a store. Output: m_axis_codes, a packet, of a fetch. Both have
// tuser in each beat. The request and its answer need no memory of the user.
enum seedbed_axi_error seedbed_forward_cache_start(struct seedbed_axi *axi, unsigned kind,
                                                   uint16_t index);

#ifdef __cplusplus
}
#endif

#endif
