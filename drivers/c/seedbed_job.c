// SPDX-License-Identifier: Apache-2.0
#include "seedbed_job.h"

// Milliseconds between two readings of the board's words while words are sent.
enum { INTERVAL = 50 };

// The CRC-32 of the job's words, by which the board knows it.
static uint32_t digest_of(const struct seedbed_job *job) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t k = 0; k < job->count; k++) {
        crc ^= job->words[k];
        for (int bit = 0; bit < 32; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

// Ends an earlier job, discards what is left of it, and starts this one.
static enum seedbed_link_error start(struct seedbed_link *link, const struct seedbed_job *job) {
    const struct seedbed_job_registers *at = &job->registers;
    uint32_t in, out, words[SEEDBED_LINK_WORDS];
    size_t left;
    enum seedbed_link_error error = seedbed_link_write(link, at->hold, 1);
    if (error) return error;
    if ((error = seedbed_link_position(link, &out))) return error;
    do {
        error = seedbed_link_words(link, out, words, SEEDBED_LINK_WORDS, &left);
        if (error) return error;
        out += (uint32_t)left;
    } while (left);
    if ((error = seedbed_link_accepted(link, &in))) return error;
    if ((error = seedbed_link_write(link, at->origin_in, in))) return error;
    if ((error = seedbed_link_write(link, at->origin_out, out))) return error;
    if ((error = seedbed_link_write(link, at->digest, digest_of(job)))) return error;
    return seedbed_link_write(link, at->hold, 0);
}

// Refuses another job than the one that the board runs.
static enum seedbed_link_error require(struct seedbed_link *link, const struct seedbed_job *job) {
    uint32_t jobs, digest;
    enum seedbed_link_error error = seedbed_link_read(link, job->registers.jobs, &jobs);
    if (error) return error;
    if (jobs == 0) return SEEDBED_LINK_NO_JOB;
    if ((error = seedbed_link_read(link, job->registers.digest, &digest))) return error;
    return digest == digest_of(job) ? SEEDBED_LINK_OK : SEEDBED_LINK_OTHER_JOB;
}

// Reads words once, and returns how many came.
static enum seedbed_link_error take(struct seedbed_job *job, size_t *count) {
    const size_t missing = job->expected - job->first - job->received;
    const uint32_t at = job->position + (uint32_t)job->received;
    uint32_t more;
    enum seedbed_link_error error;
    if (missing == 0) {
        error = seedbed_link_words(job->link, at, &more, 1, count);
        return !error && *count ? SEEDBED_LINK_MORE_WORDS : error;
    }
    error = seedbed_link_words(job->link, at, job->results + job->received, missing, count);
    if (error) return error;
    job->received += *count;
    if (*count && job->progress) job->progress(job);
    return SEEDBED_LINK_OK;
}

// Reads words while others are sent: a board whose buffer is full accepts no more.
static enum seedbed_link_error meanwhile(void *context) {
    struct seedbed_job *job = context;
    const struct seedbed_link_port *port = &job->link->port;
    size_t count;
    if (port->now(port->context) - job->checked < INTERVAL) return SEEDBED_LINK_OK;
    do {
        const enum seedbed_link_error error = take(job, &count);
        if (error) return error;
    } while (count);
    job->checked = port->now(port->context);
    return SEEDBED_LINK_OK;
}

// Sends the words from the first one that the board has not accepted, and reads the others.
static enum seedbed_link_error go_on(struct seedbed_link *link, struct seedbed_job *job) {
    const struct seedbed_link_port *port = &link->port;
    uint32_t accepted, in, position, out;
    enum seedbed_link_error error = seedbed_link_accepted(link, &accepted);
    if (error) return error;
    if ((error = seedbed_link_read(link, job->registers.origin_in, &in))) return error;
    if ((error = seedbed_link_position(link, &position))) return error;
    if ((error = seedbed_link_read(link, job->registers.origin_out, &out))) return error;
    const uint32_t sent = accepted - in, first = position - out;
    if (sent > job->count || first > job->expected) return SEEDBED_LINK_OTHER_JOB;
    job->link = link;
    job->first = first;
    job->position = position;
    job->checked = port->now(port->context);
    error = seedbed_link_send(link, job->words + sent, job->count - sent, meanwhile, job,
                              job->patience);
    if (error) return error;
    uint32_t begin = port->now(port->context);
    while (job->received < job->expected - job->first) {
        size_t count;
        if ((error = take(job, &count))) return error;
        const uint32_t now = port->now(port->context);
        if (count)
            begin = now;
        else if (now - begin > job->patience)
            return SEEDBED_LINK_NO_WORDS;
    }
    return seedbed_link_discard(link, out + (uint32_t)job->expected);
}

enum seedbed_link_error seedbed_job_run(struct seedbed_link *link, struct seedbed_job *job) {
    job->first = job->received = 0;
    const enum seedbed_link_error error = start(link, job);
    return error ? error : go_on(link, job);
}

enum seedbed_link_error seedbed_job_resume(struct seedbed_link *link, struct seedbed_job *job) {
    job->first = job->received = 0;
    const enum seedbed_link_error error = require(link, job);
    return error ? error : go_on(link, job);
}
