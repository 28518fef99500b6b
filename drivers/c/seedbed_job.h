// SPDX-License-Identifier: Apache-2.0
// Jobs of the applications of seedbed's boards that have the registers `hold`, `origin_in`,
// `origin_out` and `digest`: words to the board, and words that come back.
//
// The board stores where a job begins in both streams, so that another program goes on with it.
#ifndef SEEDBED_JOB_H
#define SEEDBED_JOB_H

#include "seedbed_link.h"

#ifdef __cplusplus
extern "C" {
#endif

// Addresses of an application's registers, SEEDBED_BOARD_..._JOB of seedbed_board_registers.h.
struct seedbed_job_registers {
    uint16_t hold, origin_in, origin_out, digest, jobs;
};

// A job. The first fields are given by the user, the last ones by the functions.
struct seedbed_job {
    struct seedbed_job_registers registers;
    // Words to the board.
    const uint32_t *words;
    size_t count;
    // Words that come back: how many, and the memory for them.
    uint32_t *results;
    size_t expected;
    // Milliseconds without a word in either direction.
    uint32_t patience;
    // Called with the job when words have come; may be null. `user` is of the user.
    void (*progress)(const struct seedbed_job *job);
    void *user;
    // Words that a program before this one has read: they are not in `results`.
    size_t first;
    // Words in `results`.
    size_t received;
    // The rest is of the functions only.
    struct seedbed_link *link;
    uint32_t position, checked;
};

// Runs a job: ends an earlier one, starts this one, sends its words, and reads what comes back.
enum seedbed_link_error seedbed_job_run(struct seedbed_link *link, struct seedbed_job *job);

// Goes on with a job that an earlier program started with the same words.
enum seedbed_link_error seedbed_job_resume(struct seedbed_link *link, struct seedbed_job *job);

#ifdef __cplusplus
}
#endif

#endif
