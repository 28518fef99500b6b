// SPDX-License-Identifier: Apache-2.0
#include "seedbed_axi.h"

const char *seedbed_axi_text(enum seedbed_axi_error error) {
    static const char *const texts[SEEDBED_AXI_ERRORS] = {
        "no error",
        "transfers or a command are not done",
        "the command ended with an error",
        "the core refused an access to a register: a value does not fit, or a command runs",
        "a transfer of a stream failed",
        "the core has no such stream",
        "the command cannot be aborted: it takes no samples, or their beats are not given",
    };
    return error < SEEDBED_AXI_ERRORS ? texts[error] : "unknown error";
}

const char *seedbed_axi_status_text(const struct seedbed_axi *axi) {
    const struct seedbed_axi_core *core = axi->core;
    return axi->status < core->statuses ? core->texts[axi->status] : "unknown status";
}

enum seedbed_axi_error seedbed_axi_open(struct seedbed_axi *axi,
                                        const struct seedbed_axi_core *core,
                                        const struct seedbed_axi_port *port) {
    static const struct seedbed_axi_input no_input;
    static const struct seedbed_axi_output no_output;
    uint32_t word = 0;
    axi->port = *port;
    axi->core = core;
    axi->status = 0;
    axi->running = axi->ended = axi->aborting = false;
    for (unsigned k = 0; k < SEEDBED_AXI_STREAMS; k++) {
        axi->inputs[k] = no_input;
        axi->outputs[k] = no_output;
        axi->begun[k] = axi->over[k] = axi->bytes[k] = 0;
    }
    if (core->registers && !port->read(port->context, SEEDBED_AXI_STATUS_REGISTER, &word))
        return SEEDBED_AXI_REFUSED;
    return word & SEEDBED_AXI_STATUS_BUSY ? SEEDBED_AXI_BUSY : SEEDBED_AXI_OK;
}

// Whether packets of a stream are missing or in flight.
static bool missing(const struct seedbed_axi *axi, unsigned stream) {
    const bool input = stream < axi->core->inputs;
    return axi->over[stream] <
           (input ? axi->inputs[stream].packets : axi->outputs[stream].packets);
}

static bool any_missing(const struct seedbed_axi *axi) {
    for (unsigned k = 0; k < axi->core->streams; k++)
        if (missing(axi, k)) return true;
    return false;
}

enum seedbed_axi_error seedbed_axi_send(struct seedbed_axi *axi, unsigned stream,
                                        const struct seedbed_axi_input *input) {
    if (stream >= axi->core->inputs) return SEEDBED_AXI_STREAM;
    if (missing(axi, stream)) return SEEDBED_AXI_BUSY;
    axi->inputs[stream] = *input;
    axi->begun[stream] = axi->over[stream] = axi->bytes[stream] = 0;
    return SEEDBED_AXI_OK;
}

enum seedbed_axi_error seedbed_axi_receive(struct seedbed_axi *axi, unsigned stream,
                                           const struct seedbed_axi_output *output) {
    if (stream < axi->core->inputs || stream >= axi->core->streams) return SEEDBED_AXI_STREAM;
    if (missing(axi, stream)) return SEEDBED_AXI_BUSY;
    axi->outputs[stream] = *output;
    axi->begun[stream] = axi->over[stream] = axi->bytes[stream] = 0;
    return SEEDBED_AXI_OK;
}

enum seedbed_axi_error seedbed_axi_start(struct seedbed_axi *axi, uint32_t offset,
                                         const uint32_t *values, size_t count) {
    const struct seedbed_axi_port *port = &axi->port;
    if (axi->running) return SEEDBED_AXI_BUSY;
    // What the core discards after an error is sent before the next command.
    for (unsigned k = 0; k < axi->core->inputs; k++)
        if (axi->begun[k] > axi->over[k]) return SEEDBED_AXI_BUSY;
    for (size_t k = 0; k < count; k++)
        if (!port->write(port->context, offset + 4 * (uint32_t)k, values[k]))
            return SEEDBED_AXI_REFUSED;
    if (axi->core->registers && !port->write(port->context, SEEDBED_AXI_CONTROL_REGISTER, 1))
        return SEEDBED_AXI_REFUSED;
    axi->running = true;
    axi->ended = axi->aborting = false;
    return SEEDBED_AXI_OK;
}

// Ends and begins receptions of an output.
static enum seedbed_axi_error take(struct seedbed_axi *axi, unsigned stream) {
    const struct seedbed_axi_port *port = &axi->port;
    const struct seedbed_axi_output *output = &axi->outputs[stream];
    if (axi->begun[stream] > axi->over[stream]) {
        size_t bytes = 0;
        const int done = port->done(port->context, stream, &bytes);
        if (done < 0) return SEEDBED_AXI_TRANSFER;
        if (done == 0) return SEEDBED_AXI_OK;
        axi->over[stream]++;
        axi->bytes[stream] += bytes;
    }
    if (axi->begun[stream] < output->packets) {
        uint8_t *data = (uint8_t *)output->data + axi->bytes[stream];
        const size_t room = output->room - axi->bytes[stream];
        if (!port->receive(port->context, stream, data, room, output->users))
            return SEEDBED_AXI_TRANSFER;
        axi->begun[stream]++;
    }
    return SEEDBED_AXI_OK;
}

// Ends a packet of an input, and begins the next one.
static enum seedbed_axi_error feed(struct seedbed_axi *axi, unsigned stream) {
    const struct seedbed_axi_port *port = &axi->port;
    struct seedbed_axi_input *input = &axi->inputs[stream];
    const size_t number = axi->begun[stream];
    if (number > axi->over[stream]) {
        size_t bytes;
        const int done = port->done(port->context, stream, &bytes);
        if (done < 0) return SEEDBED_AXI_TRANSFER;
        if (done == 0) return SEEDBED_AXI_OK;
        axi->over[stream]++;
    }
    // A command that has ended takes no more packets.
    if (axi->running && axi->ended) input->packets = number;
    if (number == input->packets) return SEEDBED_AXI_OK;
    size_t bytes = input->sizes ? input->sizes[number] : input->bytes;
    size_t users = input->users_of_packet;
    const size_t user = number * users;
    const uint8_t *data = (const uint8_t *)input->data + axi->bytes[stream];
    if (axi->aborting && stream == axi->core->samples) {
        bytes = input->beat;
        users = users > 1 ? 1 : users;
        input->packets = number + 1;
    }
    if (!port->send(port->context, stream, data, bytes, users ? input->users + user : NULL, users))
        return SEEDBED_AXI_TRANSFER;
    axi->begun[stream]++;
    axi->bytes[stream] += bytes;
    return SEEDBED_AXI_OK;
}

// Reads how a command ended, if it has.
static enum seedbed_axi_error check(struct seedbed_axi *axi) {
    const struct seedbed_axi_port *port = &axi->port;
    const struct seedbed_axi_core *core = axi->core;
    if (core->registers) {
        uint32_t word;
        if (!port->read(port->context, SEEDBED_AXI_STATUS_REGISTER, &word))
            return SEEDBED_AXI_REFUSED;
        axi->ended = word & SEEDBED_AXI_STATUS_DONE;
        axi->status = word >> SEEDBED_AXI_STATUS_CODE;
    } else if (axi->over[core->results]) {
        axi->ended = true;
        axi->status = axi->answer[0];
    }
    return SEEDBED_AXI_OK;
}

// Ends receptions for which no packet comes after an error.
static enum seedbed_axi_error cancel(struct seedbed_axi *axi) {
    const struct seedbed_axi_port *port = &axi->port;
    const struct seedbed_axi_core *core = axi->core;
    uint32_t streams = core->may_miss;
    if (core->miss_without_steps) {
        uint32_t steps;
        if (!port->read(port->context, SEEDBED_AXI_STEPS_REGISTER, &steps))
            return SEEDBED_AXI_REFUSED;
        if (steps == 0) streams |= core->miss_without_steps;
    }
    for (unsigned k = core->inputs; k < core->streams; k++) {
        if (!(streams >> k & 1) || !missing(axi, k)) continue;
        if (axi->begun[k] > axi->over[k]) port->cancel(port->context, k);
        axi->outputs[k].packets = axi->begun[k] = axi->over[k];
    }
    return SEEDBED_AXI_OK;
}

enum seedbed_axi_error seedbed_axi_poll(struct seedbed_axi *axi) {
    const struct seedbed_axi_core *core = axi->core;
    enum seedbed_axi_error error;
    // Before the outputs: the packets of a command that has ended are in flight or there.
    if (axi->running && !axi->ended && (error = check(axi))) return error;
    for (unsigned k = core->inputs; k < core->streams; k++)
        if ((error = take(axi, k))) return error;
    for (unsigned k = 0; k < core->inputs; k++)
        if ((error = feed(axi, k))) return error;
    if (axi->running && axi->ended && axi->status && !missing(axi, core->results) &&
        (error = cancel(axi)))
        return error;
    if (any_missing(axi) || (axi->running && !axi->ended)) return SEEDBED_AXI_BUSY;
    const bool failed = axi->running && axi->status;
    axi->running = false;
    return failed ? SEEDBED_AXI_STATUS : SEEDBED_AXI_OK;
}

enum seedbed_axi_error seedbed_axi_abort(struct seedbed_axi *axi) {
    const struct seedbed_axi_port *port = &axi->port;
    const struct seedbed_axi_core *core = axi->core;
    if (!axi->running || axi->ended) return SEEDBED_AXI_OK;
    if (core->abort) {
        return port->write(port->context, SEEDBED_AXI_CONTROL_REGISTER, core->abort)
                   ? SEEDBED_AXI_OK
                   : SEEDBED_AXI_REFUSED;
    }
    if (core->samples >= core->inputs || !axi->inputs[core->samples].beat)
        return SEEDBED_AXI_NO_ABORT;
    axi->aborting = true;
    return SEEDBED_AXI_OK;
}

size_t seedbed_axi_received(const struct seedbed_axi *axi, unsigned stream) {
    return stream < axi->core->streams ? axi->bytes[stream] : 0;
}
