// SPDX-License-Identifier: Apache-2.0
#include "seedbed_link.h"

#include "seedbed_board_registers.h"

// Requests that are sent at most before the board is said not to answer: at first, and later.
enum { FIRST_ATTEMPTS = 10, ATTEMPTS = 200 };
// Words of a sent frame at first and at least, and frames in flight at most.
enum { FIRST_WORDS = 32, LEAST_WORDS = 4, WINDOW = 8 };
// Milliseconds between two questions for room, and for which a response is awaited at most.
enum { POLL = 5, LONGEST = 2000 };
// Bytes of a packet before its words, and of its CRC.
enum { HEAD = 8, CRC = 4 };
// A mean is stored as a multiple of 1 / FRACTION.
enum { FRACTION = 16 };
// Nonzero bytes of the longest COBS group.
enum { GROUP = 254 };

// A request or a response. `words` of a response are in the link's buffer.
struct packet {
    uint8_t operation, sequence;
    uint16_t argument;
    uint32_t data;
    const uint8_t *words;
    size_t count;
};

// What came of the line.
enum arrival { NOTHING, FRAME, BAD_FRAME, LOST };

const char *seedbed_link_text(enum seedbed_link_error error) {
    static const char *const texts[SEEDBED_LINK_ERRORS] = {
        "no error",
        "the line was disconnected",
        "the board does not answer: is it on, with the application's bitstream?",
        "the board has another version of the protocol: load a bitstream of this version",
        "the board runs another build: load the application's bitstream",
        "the board was reset, or another program uses it",
        "the board refused a request: wrong operation",
        "the board sends no words: does it run a job?",
        "the board accepts no words: does it run a job?",
        "there is no job to continue: the board was reset",
        "the board runs another job",
        "the board sent more words than the job has",
    };
    return error < SEEDBED_LINK_ERRORS ? texts[error] : "unknown error";
}

static uint32_t load(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void store(uint8_t *bytes, uint32_t value) {
    for (int k = 0; k < 4; k++) bytes[k] = (uint8_t)(value >> 8 * k);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static uint32_t crc32(const uint8_t *bytes, size_t count) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t k = 0; k < count; k++) {
        crc ^= bytes[k];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

// Codes bytes by COBS, and returns the length with the delimiter.
static size_t encode(uint8_t *frame, const uint8_t *raw, size_t count) {
    size_t code = 0, end = 1;
    for (size_t k = 0; k < count; k++) {
        // No zero is implied after a group of the greatest length, so that another one follows it.
        if (end - code == GROUP + 1) {
            frame[code] = GROUP + 1;
            code = end++;
        }
        if (raw[k]) {
            frame[end++] = raw[k];
        } else {
            frame[code] = (uint8_t)(end - code);
            code = end++;
        }
    }
    frame[code] = (uint8_t)(end - code);
    frame[end++] = 0;
    return end;
}

// Decodes a frame without its delimiter; returns the bytes of the packet, or 0 for a bad frame.
static size_t decode(uint8_t *raw, const uint8_t *frame, size_t count) {
    size_t length = 0, at = 0;
    while (at < count) {
        const size_t code = frame[at], stop = at + code;
        if (stop > count) return 0;
        for (at++; at < stop; at++) raw[length++] = frame[at];
        if (code <= GROUP && at < count) raw[length++] = 0;
    }
    if (length < HEAD + CRC || length % 4) return 0;
    length -= CRC;
    return crc32(raw, length) == load(raw + length) ? length : 0;
}

// Sends a request. The delimiter before the frame ends what noise may have begun.
static enum seedbed_link_error transmit(struct seedbed_link *link, const struct packet *request,
                                        const uint32_t *words) {
    uint8_t *raw = link->packet;
    size_t length = HEAD;
    raw[0] = request->operation;
    raw[1] = request->sequence;
    raw[2] = (uint8_t)request->argument;
    raw[3] = (uint8_t)(request->argument >> 8);
    store(raw + 4, request->data);
    for (size_t k = 0; k < request->count; k++, length += 4) store(raw + length, words[k]);
    store(raw + length, crc32(raw, length));
    link->frame[0] = 0;
    length = 1 + encode(link->frame + 1, raw, length + CRC);
    return link->port.write(link->port.context, link->frame, length) ? SEEDBED_LINK_OK
                                                                     : SEEDBED_LINK_DISCONNECTED;
}

// Waits for bytes, and appends them to those that have come.
static enum arrival listen(struct seedbed_link *link, uint32_t milliseconds) {
    if (link->received == sizeof link->bytes) {
        // Longer than any frame.
        link->received = 0;
        link->overflow = true;
    }
    const int count = link->port.read(link->port.context, link->bytes + link->received,
                                      sizeof link->bytes - link->received, milliseconds);
    if (count < 0) return LOST;
    if (count == 0) return NOTHING;
    link->received += (size_t)count;
    return FRAME;
}

// Takes the next frame from the line; NOTHING if no byte comes for this time.
static enum arrival next(struct seedbed_link *link, struct packet *packet, uint32_t milliseconds) {
    size_t end = 0;
    for (;;) {
        while (end < link->received && link->bytes[end]) end++;
        if (end < link->received) {
            const bool bad = link->overflow;
            const size_t length = decode(link->packet, link->bytes, end);
            const size_t taken = end + 1;
            for (size_t k = taken; k < link->received; k++) link->bytes[k - taken] = link->bytes[k];
            link->received -= taken;
            link->overflow = false;
            end = 0;
            if (taken == 1 && !bad) continue;
            if (length == 0 || bad) return BAD_FRAME;
            packet->operation = link->packet[0];
            packet->sequence = link->packet[1];
            packet->argument = (uint16_t)(link->packet[2] | link->packet[3] << 8);
            packet->data = load(link->packet + 4);
            packet->words = link->packet + HEAD;
            packet->count = (length - HEAD) / 4;
            return FRAME;
        }
        const enum arrival came = listen(link, milliseconds);
        if (came != FRAME) {
            // The rest of a frame whose delimiter was lost.
            link->received = 0;
            link->overflow = false;
            return came;
        }
        if (link->overflow) end = 0;
    }
}

// Stores a response to words. Each says how far the board is: without room, the oldest is dropped.
static void enqueue(struct seedbed_link *link, const struct packet *packet) {
    if (link->queued == SEEDBED_LINK_QUEUE) {
        link->queued--;
        for (size_t k = 0; k < link->queued; k++) link->queue[k] = link->queue[k + 1];
    }
    struct seedbed_link_acknowledgement *last = &link->queue[link->queued++];
    last->round = packet->sequence;
    last->room = packet->argument;
    last->position = packet->data;
}

// Waits for the response to a request; NOTHING without one, BAD_FRAME after a bad frame.
static enum arrival response(struct seedbed_link *link, const struct packet *request,
                             struct packet *found) {
    for (;;) {
        const enum arrival came = next(link, found, link->timeout);
        if (came != FRAME) return came;
        if (found->operation == (SEEDBED_RESPONSE | request->operation)) {
            const bool hello = request->operation == SEEDBED_HELLO;
            if (hello ? found->data == request->data : found->sequence == request->sequence)
                return FRAME;
        } else if (found->operation == (SEEDBED_RESPONSE | SEEDBED_SEND)) {
            enqueue(link, found);
        } else if (found->operation == SEEDBED_RESPONSE && request->operation != SEEDBED_HELLO) {
            return FRAME;
        }
        // Another request's response, which came twice.
    }
}

// Sends a request until its response arrives.
static enum seedbed_link_error exchange(struct seedbed_link *link, struct packet request,
                                        struct packet *found, int attempts) {
    const bool words = request.operation == SEEDBED_WORDS;
    for (int attempt = 0; attempt < attempts; attempt++) {
        if (attempt) {
            link->repeated++;
            // A long response is damaged more often than a short one.
            if (words && request.argument > 1) link->block = request.argument /= 2;
        } else if (words) {
            link->block = (uint16_t)least(SEEDBED_LINK_WORDS, link->block + 1u);
        }
        const enum seedbed_link_error error = transmit(link, &request, NULL);
        if (error) return error;
        const enum arrival came = response(link, &request, found);
        if (came == LOST) return SEEDBED_LINK_DISCONNECTED;
        if (came == FRAME) return SEEDBED_LINK_OK;
    }
    return SEEDBED_LINK_NO_ANSWER;
}

// Sends a request of the sequence.
static enum seedbed_link_error ask(struct seedbed_link *link, uint8_t operation, uint16_t argument,
                                   uint32_t data, struct packet *found) {
    const uint8_t sequence = (uint8_t)(link->sequence + 1);
    const struct packet request = {operation, sequence, argument, data, NULL, 0};
    const enum seedbed_link_error error = exchange(link, request, found, ATTEMPTS);
    if (error) return error;
    if (found->operation == SEEDBED_RESPONSE)
        return found->data == SEEDBED_WRONG_OPERATION ? SEEDBED_LINK_OPERATION : SEEDBED_LINK_RESET;
    link->sequence = sequence;
    return SEEDBED_LINK_OK;
}

enum seedbed_link_error seedbed_link_open(struct seedbed_link *link,
                                          const struct seedbed_link_port *port, uint32_t timeout,
                                          uint32_t nonce, uint32_t identifier) {
    const struct packet hello = {SEEDBED_HELLO, 0, 0, nonce, NULL, 0};
    struct packet found;
    uint32_t protocol;
    link->port = *port;
    link->timeout = timeout;
    link->repeated = link->identifier = 0;
    link->sequence = link->round = 0;
    link->block = SEEDBED_LINK_WORDS;
    link->overflow = false;
    link->received = link->queued = 0;
    enum seedbed_link_error error = exchange(link, hello, &found, FIRST_ATTEMPTS);
    if (error) return error;
    // That of the last request of an earlier program.
    link->sequence = found.sequence;
    if ((error = seedbed_link_read(link, SEEDBED_BOARD_PROTOCOL, &protocol))) return error;
    error = seedbed_link_read(link, SEEDBED_BOARD_IDENTIFIER, &link->identifier);
    if (error) return error;
    if (protocol != SEEDBED_PROTOCOL_VERSION) return SEEDBED_LINK_PROTOCOL;
    if (identifier && identifier != link->identifier) return SEEDBED_LINK_BUILD;
    return SEEDBED_LINK_OK;
}

enum seedbed_link_error seedbed_link_read(struct seedbed_link *link, uint16_t address,
                                          uint32_t *value) {
    struct packet found;
    const enum seedbed_link_error error = ask(link, SEEDBED_READ, address, 0, &found);
    if (!error) *value = found.data;
    return error;
}

enum seedbed_link_error seedbed_link_write(struct seedbed_link *link, uint16_t address,
                                           uint32_t value) {
    struct packet found;
    return ask(link, SEEDBED_WRITE, address, value, &found);
}

enum seedbed_link_error seedbed_link_position(struct seedbed_link *link, uint32_t *position) {
    struct packet found;
    const enum seedbed_link_error error = ask(link, SEEDBED_WORDS, 0, 0, &found);
    if (!error) *position = found.data;
    return error;
}

enum seedbed_link_error seedbed_link_words(struct seedbed_link *link, uint32_t position,
                                           uint32_t *words, size_t room, size_t *count) {
    struct packet found;
    const uint16_t most = (uint16_t)least(room, link->block);
    *count = 0;
    if (room == 0) return SEEDBED_LINK_OK;
    const enum seedbed_link_error error = ask(link, SEEDBED_WORDS, most, position, &found);
    if (error) return error;
    // A late response to a longer request has no more than `room`, either.
    *count = least(room, found.count);
    for (size_t k = 0; k < *count; k++) words[k] = load(found.words + 4 * k);
    return SEEDBED_LINK_OK;
}

enum seedbed_link_error seedbed_link_receive(struct seedbed_link *link, uint32_t position,
                                             uint32_t *words, size_t count, uint32_t patience) {
    uint32_t begin = link->port.now(link->port.context);
    for (size_t done = 0; done < count;) {
        size_t came;
        const enum seedbed_link_error error =
            seedbed_link_words(link, position + (uint32_t)done, words + done, count - done, &came);
        if (error) return error;
        const uint32_t now = link->port.now(link->port.context);
        if (came)
            begin = now;
        else if (now - begin > patience)
            return SEEDBED_LINK_NO_WORDS;
        done += came;
    }
    return SEEDBED_LINK_OK;
}

enum seedbed_link_error seedbed_link_discard(struct seedbed_link *link, uint32_t position) {
    uint32_t word;
    size_t count;
    return seedbed_link_words(link, position, &word, 1, &count);
}

enum seedbed_link_error seedbed_link_stop(struct seedbed_link *link, uint16_t busy, uint16_t stop,
                                          bool *ran, uint32_t *position) {
    uint32_t value, words[SEEDBED_LINK_WORDS];
    enum seedbed_link_error error = seedbed_link_read(link, busy, &value);
    if (error) return error;
    *ran = value != 0;
    if (*ran && (error = seedbed_link_write(link, stop, 1))) return error;
    if ((error = seedbed_link_position(link, position))) return error;
    for (;;) {
        size_t left;
        if ((error = seedbed_link_read(link, busy, &value))) return error;
        error = seedbed_link_words(link, *position, words, SEEDBED_LINK_WORDS, &left);
        if (error) return error;
        *position += (uint32_t)left;
        if (value == 0 && left == 0) return SEEDBED_LINK_OK;
    }
}

// Asks for the next word that the board accepts, and for its room.
static enum seedbed_link_error ask_room(struct seedbed_link *link, struct packet *found) {
    const struct packet request = {SEEDBED_SEND, ++link->round, 0, 0, NULL, 0};
    const enum seedbed_link_error error = exchange(link, request, found, ATTEMPTS);
    link->queued = 0;
    if (!error && found->operation == SEEDBED_RESPONSE) return SEEDBED_LINK_RESET;
    return error;
}

enum seedbed_link_error seedbed_link_accepted(struct seedbed_link *link, uint32_t *position) {
    struct packet found;
    const enum seedbed_link_error error = ask_room(link, &found);
    if (!error) *position = found.data;
    return error;
}

// Takes the next response to words; NOTHING after this time without a byte.
static enum arrival acknowledgement(struct seedbed_link *link, uint32_t milliseconds,
                                    struct seedbed_link_acknowledgement *found) {
    while (link->queued == 0) {
        struct packet packet;
        const enum arrival came = next(link, &packet, milliseconds);
        if (came == NOTHING || came == LOST) return came;
        if (came == FRAME && packet.operation == (SEEDBED_RESPONSE | SEEDBED_SEND))
            enqueue(link, &packet);
    }
    *found = link->queue[0];
    link->queued--;
    for (size_t k = 0; k < link->queued; k++) link->queue[k] = link->queue[k + 1];
    return FRAME;
}

// Words on their way. All frames after a lost one are sent again: go-back-N. The sequence number
// is that of such a round.
struct sender {
    struct seedbed_link *link;
    const uint32_t *words;
    size_t count;
    uint32_t position;
    size_t room;
    // Words that are accepted, sent in this round, and sent at all; words of a frame.
    size_t done, sent, most, block;
    // The end and the time of each frame in flight, the oldest first.
    size_t ends[WINDOW];
    uint32_t times[WINDOW];
    size_t flight;
    // The mean time to a response, in milliseconds times FRACTION.
    uint32_t delay, backoff;
};

static enum seedbed_link_error send_words(struct sender *sender, size_t count) {
    struct seedbed_link *link = sender->link;
    const uint32_t position = sender->position + (uint32_t)sender->sent;
    const struct packet request = {SEEDBED_SEND, link->round, 0, position, NULL, count};
    const enum seedbed_link_error error = transmit(link, &request, sender->words + sender->sent);
    if (error) return error;
    if (count) {
        sender->sent += count;
        sender->ends[sender->flight] = sender->sent;
        sender->times[sender->flight++] = link->port.now(link->port.context);
    }
    if (sender->sent > sender->most) sender->most = sender->sent;
    return SEEDBED_LINK_OK;
}

// Sends what the window and the board have room for.
static enum seedbed_link_error fill(struct sender *sender) {
    const size_t stop = least(sender->count, sender->done + sender->room);
    while (sender->sent < stop && sender->flight < WINDOW) {
        const size_t count = least(sender->block, stop - sender->sent);
        const enum seedbed_link_error error = send_words(sender, count);
        if (error) return error;
    }
    if (sender->flight) return SEEDBED_LINK_OK;
    struct seedbed_link *link = sender->link;
    const uint32_t begin = link->port.now(link->port.context);
    for (;;) {
        const uint32_t waited = link->port.now(link->port.context) - begin;
        if (waited >= POLL || link->received == sizeof link->bytes) break;
        if (listen(link, POLL - waited) == LOST) return SEEDBED_LINK_DISCONNECTED;
    }
    return send_words(sender, 0);
}

// Begins a round with the first word that was not accepted, in shorter frames.
static void go_back(struct sender *sender) {
    sender->link->repeated++;
    sender->link->round++;
    sender->sent = sender->done;
    sender->flight = 0;
    sender->block /= 2;
    if (sender->block < LEAST_WORDS) sender->block = LEAST_WORDS;
}

// Forgets the frames that were accepted, and updates the mean time to a response.
static void landed(struct sender *sender) {
    struct seedbed_link *link = sender->link;
    size_t gone = 0;
    while (gone < sender->flight && sender->ends[gone] <= sender->done) {
        const uint32_t taken = link->port.now(link->port.context) - sender->times[gone++];
        sender->delay = (3 * sender->delay + FRACTION * taken) / 4;
    }
    sender->flight -= gone;
    for (size_t k = 0; k < sender->flight; k++) {
        sender->ends[k] = sender->ends[k + gone];
        sender->times[k] = sender->times[k + gone];
    }
}

// Updates what was accepted from a response.
static enum seedbed_link_error accept(struct sender *sender,
                                      const struct seedbed_link_acknowledgement *found) {
    const size_t accepted = found->position - sender->position;
    if (accepted < sender->done || accepted > sender->most) return SEEDBED_LINK_RESET;
    sender->room = found->room;
    if (accepted > sender->done) {
        sender->done = accepted;
        if (sender->sent < accepted) sender->sent = accepted;
        landed(sender);
        sender->block = least(SEEDBED_LINK_WORDS, sender->block + 1 + sender->block / 8);
        sender->backoff = 1;
    } else if (found->round == sender->link->round && sender->flight) {
        // A frame before it was lost.
        go_back(sender);
    }
    return SEEDBED_LINK_OK;
}

// Waits for a response, and updates what was accepted.
static enum seedbed_link_error await_response(struct sender *sender) {
    struct seedbed_link *link = sender->link;
    struct seedbed_link_acknowledgement found;
    const uint32_t mean = 4 * sender->delay / FRACTION;
    uint32_t wait = (mean > link->timeout ? mean : link->timeout) * sender->backoff;
    // A response that was lost does not come later, however slow the board was before.
    const uint32_t longest = link->timeout > LONGEST ? link->timeout : LONGEST;
    if (wait > longest) wait = longest;
    const enum arrival came = acknowledgement(link, wait, &found);
    if (came == LOST) return SEEDBED_LINK_DISCONNECTED;
    if (came == FRAME) return accept(sender, &found);
    sender->backoff = sender->backoff < 16 ? 2 * sender->backoff : 32;
    go_back(sender);
    return SEEDBED_LINK_OK;
}

enum seedbed_link_error seedbed_link_send(struct seedbed_link *link, const uint32_t *words,
                                          size_t count, seedbed_link_meanwhile *meanwhile,
                                          void *context, uint32_t patience) {
    struct packet start;
    struct sender sender;
    enum seedbed_link_error error = ask_room(link, &start);
    if (error) return error;
    sender.link = link;
    sender.words = words;
    sender.count = count;
    sender.position = start.data;
    sender.room = start.argument;
    sender.done = sender.sent = sender.most = sender.flight = 0;
    sender.block = FIRST_WORDS;
    sender.delay = 0;
    sender.backoff = 1;
    uint32_t begin = link->port.now(link->port.context);
    while (sender.done < count) {
        const size_t before = sender.done;
        if ((error = fill(&sender))) return error;
        if ((error = await_response(&sender))) return error;
        if (meanwhile && (error = meanwhile(context))) return error;
        const uint32_t now = link->port.now(link->port.context);
        if (sender.done > before)
            begin = now;
        else if (now - begin > patience)
            return SEEDBED_LINK_NOT_ACCEPTED;
    }
    return SEEDBED_LINK_OK;
}
