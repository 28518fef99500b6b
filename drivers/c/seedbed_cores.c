// SPDX-License-Identifier: Apache-2.0
#include "seedbed_cores.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Writes a register between commands.
static enum seedbed_axi_error set(struct seedbed_axi *axi, uint32_t offset, uint32_t value) {
    if (axi->running) return SEEDBED_AXI_BUSY;
    return axi->port.write(axi->port.context, offset, value) ? SEEDBED_AXI_OK
                                                             : SEEDBED_AXI_REFUSED;
}

enum seedbed_axi_error seedbed_gemv_start(struct seedbed_axi *axi, uint32_t columns, uint32_t rows,
                                          enum seedbed_gemv_mode mode) {
    const uint32_t values[] = {columns, rows, mode == SEEDBED_GEMV_PLAIN};
    const size_t count = COUNT(values) - (mode == SEEDBED_GEMV_ONE_KIND);
    return seedbed_axi_start(axi, SEEDBED_GEMV_COLUMNS, values, count);
}

enum seedbed_axi_error seedbed_gemv_clear(struct seedbed_axi *axi) {
    return set(axi, SEEDBED_GEMV_CONTROL, axi->core->abort);
}

enum seedbed_axi_error seedbed_instantft_base(struct seedbed_axi *axi, uint32_t base) {
    return set(axi, SEEDBED_INSTANTFT_BASE, base);
}

enum seedbed_axi_error seedbed_instantft_start(struct seedbed_axi *axi,
                                               const struct seedbed_instantft_command *command) {
    const uint32_t values[] = {
        command->kind, command->samples, command->epochs, command->batch, command->rate,
    };
    return seedbed_axi_start(axi, SEEDBED_INSTANTFT_KIND, values, COUNT(values));
}

enum seedbed_axi_error seedbed_zo_trainer_schedule(struct seedbed_axi *axi,
                                                   const struct seedbed_zo_trainer_entry *entries,
                                                   size_t count) {
    for (size_t k = 0; k < count; k++) {
        const struct seedbed_zo_trainer_entry *entry = &entries[k];
        const uint32_t word = entry->epoch | (uint32_t)(entry->magnitude & 15) << 16 |
                              (uint32_t)(entry->zeros & 15) << 20 |
                              (uint32_t)(entry->update_bits & 15) << 24 |
                              (uint32_t)(k == count - 1) << 31;
        const enum seedbed_axi_error error = set(axi, SEEDBED_ZO_TRAINER_SCHEDULE, word);
        if (error) return error;
    }
    return SEEDBED_AXI_OK;
}

enum seedbed_axi_error seedbed_zo_trainer_start(struct seedbed_axi *axi,
                                                const struct seedbed_zo_trainer_command *command) {
    const uint32_t values[] = {
        command->kind,  command->samples, command->epochs,
        command->batch, command->seed,    command->exponent,
    };
    return seedbed_axi_start(axi, SEEDBED_ZO_TRAINER_KIND, values, COUNT(values));
}

enum seedbed_axi_error seedbed_sparse_trainer_base(struct seedbed_axi *axi, uint32_t base) {
    return set(axi, SEEDBED_SPARSE_TRAINER_BASE, base);
}

enum seedbed_axi_error seedbed_sparse_trainer_start(
    struct seedbed_axi *axi, const struct seedbed_sparse_trainer_command *command) {
    const uint32_t values[] = {
        command->kind, command->samples, command->epochs, command->batch,
        command->seed, command->rate,    command->decay,  command->shift,
    };
    return seedbed_axi_start(axi, SEEDBED_SPARSE_TRAINER_KIND, values, COUNT(values));
}

enum seedbed_axi_error seedbed_stream_engine_base(struct seedbed_axi *axi, uint32_t base) {
    return set(axi, SEEDBED_STREAM_ENGINE_BASE, base);
}

enum seedbed_axi_error seedbed_stream_engine_start(
    struct seedbed_axi *axi, const struct seedbed_stream_engine_command *command) {
    const uint32_t values[] = {
        command->kind, command->address, command->start, command->first,
        command->end,  command->seed,    command->delta,
    };
    // A core without `tune` lacks the last two.
    const size_t count = COUNT(values) - (command->kind == SEEDBED_STREAM_ENGINE_TUNE ? 0 : 2);
    return seedbed_axi_start(axi, SEEDBED_STREAM_ENGINE_KIND, values, count);
}

enum seedbed_axi_error seedbed_stream_trainer_base(struct seedbed_axi *axi, uint32_t base) {
    return set(axi, SEEDBED_STREAM_TRAINER_BASE, base);
}

enum seedbed_axi_error seedbed_stream_trainer_start(
    struct seedbed_axi *axi, const struct seedbed_stream_trainer_command *command) {
    const uint32_t values[] = {
        command->kind,    command->address, command->start,  command->first, command->end,
        command->seed,    command->delta,   command->samples, command->epochs, command->batch,
        command->head,    command->rate,    command->decay,  command->shift, command->most,
        command->vectors,
    };
    // A core without `inputs` lacks the last one.
    const size_t count = COUNT(values) - (command->vectors ? 0 : 1);
    return seedbed_axi_start(axi, SEEDBED_STREAM_TRAINER_KIND, values, count);
}

enum seedbed_axi_error seedbed_forward_cache_start(struct seedbed_axi *axi, unsigned kind,
                                                   uint16_t index) {
    const struct seedbed_axi_input request = {axi->request, 1, sizeof axi->request,
                                              NULL,         NULL, 0, 0};
    const struct seedbed_axi_output answer = {axi->answer, sizeof axi->answer, 1, NULL};
    enum seedbed_axi_error error;
    if (axi->running) return SEEDBED_AXI_BUSY;
    error = seedbed_axi_send(axi, SEEDBED_FORWARD_CACHE_S_AXIS_REQUEST, &request);
    if (error) return error;
    axi->request[0] = (uint8_t)index;
    axi->request[1] = (uint8_t)(index >> 8);
    axi->request[2] = (uint8_t)kind;
    error = seedbed_axi_receive(axi, SEEDBED_FORWARD_CACHE_M_AXIS_ANSWER, &answer);
    return error ? error : seedbed_axi_start(axi, 0, NULL, 0);
}
