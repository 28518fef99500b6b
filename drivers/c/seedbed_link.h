// SPDX-License-Identifier: Apache-2.0
// Host link of seedbed's boards: registers, and streams of words in both directions.
//
// The functions need no operating system, no heap and no C library. They call the functions of
// struct seedbed_link_port, which the user writes. A request is sent until its response arrives
// undamaged. A write is done once. A link is used by one thread at a time.
#ifndef SEEDBED_LINK_H
#define SEEDBED_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// How a function ended. seedbed_link_text() returns a sentence for each.
enum seedbed_link_error {
    SEEDBED_LINK_OK,
    SEEDBED_LINK_DISCONNECTED,
    SEEDBED_LINK_NO_ANSWER,
    SEEDBED_LINK_PROTOCOL,
    SEEDBED_LINK_BUILD,
    SEEDBED_LINK_RESET,
    SEEDBED_LINK_OPERATION,
    SEEDBED_LINK_NO_WORDS,
    SEEDBED_LINK_NOT_ACCEPTED,
    SEEDBED_LINK_NO_JOB,
    SEEDBED_LINK_OTHER_JOB,
    SEEDBED_LINK_MORE_WORDS,
    SEEDBED_LINK_ERRORS
};

// Words of a frame, at most.
#define SEEDBED_LINK_WORDS 128
// Bytes of a frame with its delimiters, at most: packet, CRC-32, and three COBS codes.
#define SEEDBED_LINK_FRAME (8 + 4 * SEEDBED_LINK_WORDS + 4 + 3 + 2)
// Responses to words that are stored while another response is awaited.
#define SEEDBED_LINK_QUEUE 16

// The line to a board, by functions of the user.
struct seedbed_link_port {
    // The first argument of the functions.
    void *context;
    // Sends all bytes. Returns false if the line is lost.
    bool (*write)(void *context, const uint8_t *bytes, size_t count);
    // Waits at most `milliseconds` for a byte, and stores what has come, at most `room` bytes.
    // Returns the number of bytes, 0 if none came, or -1 if the line is lost.
    int (*read)(void *context, uint8_t *bytes, size_t room, uint32_t milliseconds);
    // Returns a count of milliseconds. It may wrap after 2^32 - 1.
    uint32_t (*now)(void *context);
};

// A response to words: which word is the next one, and how many the board has room for.
struct seedbed_link_acknowledgement {
    uint8_t round;
    uint16_t room;
    uint32_t position;
};

// An open link. `repeated` and `identifier` may be read, `timeout` may be written.
struct seedbed_link {
    struct seedbed_link_port port;
    // Milliseconds without a byte after which a request is sent again.
    uint32_t timeout;
    // Requests that were sent again.
    uint32_t repeated;
    // Of the board's build.
    uint32_t identifier;
    // The rest is of the functions only.
    uint8_t sequence, round;
    uint16_t block;
    bool overflow;
    size_t received, queued;
    struct seedbed_link_acknowledgement queue[SEEDBED_LINK_QUEUE];
    uint8_t bytes[SEEDBED_LINK_FRAME], packet[SEEDBED_LINK_FRAME], frame[SEEDBED_LINK_FRAME];
};

// Called while words are sent, for example to read words. An error ends the sending.
typedef enum seedbed_link_error seedbed_link_meanwhile(void *context);

// Returns the sentence of an error.
const char *seedbed_link_text(enum seedbed_link_error error);

// Opens a link. `timeout` is 200 for a UART. `nonce` is any number that the last program did not
// use, such as a time. `identifier` is that of the expected build, or 0 for any build.
enum seedbed_link_error seedbed_link_open(struct seedbed_link *link,
                                          const struct seedbed_link_port *port, uint32_t timeout,
                                          uint32_t nonce, uint32_t identifier);

// Reads a register.
enum seedbed_link_error seedbed_link_read(struct seedbed_link *link, uint16_t address,
                                          uint32_t *value);

// Writes a register, once.
enum seedbed_link_error seedbed_link_write(struct seedbed_link *link, uint16_t address,
                                           uint32_t value);

// Returns the position in the stream of the oldest word that the board stores.
enum seedbed_link_error seedbed_link_position(struct seedbed_link *link, uint32_t *position);

// Reads words from `position` on, at most `room`, and none if none is there. The board discards
// the words before `position`.
enum seedbed_link_error seedbed_link_words(struct seedbed_link *link, uint32_t position,
                                           uint32_t *words, size_t room, size_t *count);

// Reads `count` words from `position` on. The board stores the last ones until the next request
// for words. The error after `patience` milliseconds without a word is SEEDBED_LINK_NO_WORDS.
enum seedbed_link_error seedbed_link_receive(struct seedbed_link *link, uint32_t position,
                                             uint32_t *words, size_t count, uint32_t patience);

// Discards the words before `position`.
enum seedbed_link_error seedbed_link_discard(struct seedbed_link *link, uint32_t position);

// Returns the position in the stream to the board of the next word that it accepts.
enum seedbed_link_error seedbed_link_accepted(struct seedbed_link *link, uint32_t *position);

// Sends words, each once, and returns when the board has accepted all of them. `meanwhile`, which
// may be null, is called with `context` after each response. The error after `patience`
// milliseconds without an accepted word is SEEDBED_LINK_NOT_ACCEPTED.
enum seedbed_link_error seedbed_link_send(struct seedbed_link *link, const uint32_t *words,
                                          size_t count, seedbed_link_meanwhile *meanwhile,
                                          void *context, uint32_t patience);

// Ends a job of an application with the registers `busy` and `stop`, and discards what is left of
// its words. Returns whether a job ran, and the position of the next job's first word.
enum seedbed_link_error seedbed_link_stop(struct seedbed_link *link, uint16_t busy, uint16_t stop,
                                          bool *ran, uint32_t *position);

#ifdef __cplusplus
}
#endif

#endif
