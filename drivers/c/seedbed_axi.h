// SPDX-License-Identifier: Apache-2.0
// Cores of seedbed with AXI ports: what holds for all of them. See seedbed_cores.h for each core.
//
// The functions need no operating system, no heap and no C library. They call the functions of
// struct seedbed_axi_port, which the user writes, and never wait: seedbed_axi_poll() does what can
// be done, and returns SEEDBED_AXI_BUSY until all of it is done.
#ifndef SEEDBED_AXI_H
#define SEEDBED_AXI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "seedbed_axi_registers.h"

#ifdef __cplusplus
extern "C" {
#endif

// How a function ended. seedbed_axi_text() returns a sentence for each.
enum seedbed_axi_error {
    SEEDBED_AXI_OK,
    SEEDBED_AXI_BUSY,
    SEEDBED_AXI_STATUS,
    SEEDBED_AXI_REFUSED,
    SEEDBED_AXI_TRANSFER,
    SEEDBED_AXI_STREAM,
    SEEDBED_AXI_NO_ABORT,
    SEEDBED_AXI_ERRORS
};

// Streams of a core, at most.
#define SEEDBED_AXI_STREAMS 6

// The ports of a core, by functions of the user. A stream is one of the numbers
// SEEDBED_..._S_AXIS_... and SEEDBED_..._M_AXIS_... of seedbed_axi_registers.h.
struct seedbed_axi_port {
    // The first argument of the functions.
    void *context;
    // Writes and reads a register at an offset of s_axi_control. Returns false if the response is
    // an error. A core without registers needs neither.
    bool (*write)(void *context, uint32_t offset, uint32_t value);
    bool (*read)(void *context, uint32_t offset, uint32_t *value);
    // Begins to send a packet, whose last beat has tlast, and returns at once. `users` has `count`
    // values of tuser: none, one for the whole packet, or one for each beat. The memory is not
    // changed until the packet is sent. Returns false for an error.
    bool (*send)(void *context, unsigned stream, const void *data, size_t bytes,
                 const uint32_t *users, size_t count);
    // Begins to receive a packet of at most `room` bytes, and returns at once. `users` is null, or
    // memory for tuser of each beat. Returns false for an error.
    bool (*receive)(void *context, unsigned stream, void *data, size_t room, uint32_t *users);
    // Returns 1 if the packet that was begun last is transferred, 0 if it is not, or -1 for an
    // error. `bytes` is set to the length of a packet that was received.
    int (*done)(void *context, unsigned stream, size_t *bytes);
    // Ends a reception for which no packet comes.
    void (*cancel)(void *context, unsigned stream);
};

// Packets to a core, one after the other in memory.
struct seedbed_axi_input {
    const void *data;
    // How many packets, and the bytes of each.
    size_t packets, bytes;
    // Bytes of each packet where they differ, or null.
    const size_t *sizes;
    // Values of tuser, and how many a packet has: none, one, or one for each beat.
    const uint32_t *users;
    size_t users_of_packet;
    // Bytes of a beat, for seedbed_axi_abort() of a core that has no abort.
    size_t beat;
};

// Packets from a core, one after the other in memory.
struct seedbed_axi_output {
    void *data;
    size_t room;
    // How many packets come.
    size_t packets;
    // Null, or memory for tuser of each beat of a single packet.
    uint32_t *users;
};

// What the functions know of a core: one of seedbed_axi_registers.h.
struct seedbed_axi_core {
    const char *name;
    // Streams: the inputs come first.
    unsigned inputs, streams;
    // Whether there are registers; else the answer on `results` has the status.
    bool registers;
    // Bits of `control` that abort a command; 0: a packet of one beat on `samples` does.
    uint32_t abort;
    unsigned samples;
    // The output that every command ends with.
    unsigned results;
    // Bits of outputs that may miss after an error, and of those that miss if no step was taken.
    uint32_t may_miss, miss_without_steps;
    // The sentences of the status codes.
    const char *const *texts;
    unsigned statuses;
};

// A core. `status` may be read after SEEDBED_AXI_STATUS.
struct seedbed_axi {
    struct seedbed_axi_port port;
    const struct seedbed_axi_core *core;
    // How the last command ended: a code SEEDBED_..._STATUS_....
    unsigned status;
    // The rest is of the functions only.
    bool running, ended, aborting;
    uint8_t request[3], answer[1];
    struct seedbed_axi_input inputs[SEEDBED_AXI_STREAMS];
    struct seedbed_axi_output outputs[SEEDBED_AXI_STREAMS];
    // Packets that were begun and ended, and bytes of those that ended.
    size_t begun[SEEDBED_AXI_STREAMS], over[SEEDBED_AXI_STREAMS], bytes[SEEDBED_AXI_STREAMS];
};

// Returns the sentence of an error.
const char *seedbed_axi_text(enum seedbed_axi_error error);

// Returns the sentence of the last command's status.
const char *seedbed_axi_status_text(const struct seedbed_axi *axi);

// Begins to use a core, such as seedbed_gemv_axi. SEEDBED_AXI_BUSY: it runs a command of an
// earlier program, and has to be reset.
enum seedbed_axi_error seedbed_axi_open(struct seedbed_axi *axi,
                                        const struct seedbed_axi_core *core,
                                        const struct seedbed_axi_port *port);

// Gives packets to send on an input, from the next poll on. Those of a command are given before
// the command is started, and are dropped when it ends.
enum seedbed_axi_error seedbed_axi_send(struct seedbed_axi *axi, unsigned stream,
                                        const struct seedbed_axi_input *input);

// Gives memory for packets of an output, from the next poll on.
enum seedbed_axi_error seedbed_axi_receive(struct seedbed_axi *axi, unsigned stream,
                                           const struct seedbed_axi_output *output);

// Writes `count` registers from `offset` on, and starts a command. The functions of seedbed_cores.h
// call it.
enum seedbed_axi_error seedbed_axi_start(struct seedbed_axi *axi, uint32_t offset,
                                         const uint32_t *values, size_t count);

// Begins and ends transfers. Returns SEEDBED_AXI_BUSY while some are missing or a command runs,
// SEEDBED_AXI_OK when all is done, and SEEDBED_AXI_STATUS if a command ended with another status
// than 0: then nothing is in flight, either.
enum seedbed_axi_error seedbed_axi_poll(struct seedbed_axi *axi);

// Aborts the command that runs. Polls go on until it has ended. A core without an abort ends with
// the status of a sample that is too short.
enum seedbed_axi_error seedbed_axi_abort(struct seedbed_axi *axi);

// Returns the bytes that were received on an output.
size_t seedbed_axi_received(const struct seedbed_axi *axi, unsigned stream);

#ifdef __cplusplus
}
#endif

#endif
