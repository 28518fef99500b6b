// A program on a host with POSIX: runs lines of a script on the driver of the host link.
//
// host PORT TIMEOUT NONCE IDENTIFIER < SCRIPT: prints what each line gives, one number a line. An
// error of the driver is printed as its sentence, and ends the program with status 1.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "seedbed_job.h"

static bool write_line(void *context, const uint8_t *bytes, size_t count) {
    const int port = *(int *)context;
    while (count) {
        const ssize_t done = write(port, bytes, count);
        if (done <= 0) return false;
        bytes += done;
        count -= (size_t)done;
    }
    return true;
}

static int read_line(void *context, uint8_t *bytes, size_t room, uint32_t milliseconds) {
    struct pollfd ready = {*(int *)context, POLLIN, 0};
    const int found = poll(&ready, 1, (int)milliseconds);
    if (found <= 0) return found;
    const ssize_t count = read(ready.fd, bytes, room);
    return count > 0 ? (int)count : -1;
}

static uint32_t now(void *context) {
    struct timespec time;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint32_t)time.tv_sec * 1000u + (uint32_t)(time.tv_nsec / 1000000);
}

static void require(enum seedbed_link_error error) {
    if (!error) return;
    printf("%s\n", seedbed_link_text(error));
    exit(1);
}

static void show(const uint32_t *words, size_t count) {
    for (size_t k = 0; k < count; k++) printf("%lu\n", (unsigned long)words[k]);
}

// Words of a file, little-endian.
static uint32_t *load(const char *path, size_t *count) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(2);
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    uint8_t *bytes = malloc(size + 1);
    uint32_t *words = malloc(size + 4);
    rewind(file);
    if (!bytes || !words || fread(bytes, 1, size, file) != size) exit(2);
    fclose(file);
    *count = size / 4;
    for (size_t k = 0; k < *count; k++)
        words[k] = bytes[4 * k] | bytes[4 * k + 1] << 8 | bytes[4 * k + 2] << 16 |
                   (uint32_t)bytes[4 * k + 3] << 24;
    free(bytes);
    return words;
}

// What is read while words are sent: from a position on, up to so many.
struct reading {
    struct seedbed_link *link;
    uint32_t position;
    uint32_t *words;
    size_t room, count;
};

static enum seedbed_link_error meanwhile(void *context) {
    struct reading *of = context;
    size_t count;
    const enum seedbed_link_error error =
        seedbed_link_words(of->link, of->position + (uint32_t)of->count, of->words + of->count,
                           of->room - of->count, &count);
    of->count += count;
    return error;
}

int main(int argc, char **argv) {
    static struct seedbed_link link;
    char line[1024], name[32], path[512];
    if (argc != 5) return 2;
    int port = open(argv[1], O_RDWR | O_NOCTTY);
    struct termios raw;
    if (port < 0 || tcgetattr(port, &raw)) return 2;
    raw.c_iflag = raw.c_oflag = raw.c_lflag = 0;
    raw.c_cflag = CS8 | CREAD | CLOCAL;
    tcsetattr(port, TCSANOW, &raw);
    tcflush(port, TCIFLUSH);
    const struct seedbed_link_port functions = {&port, write_line, read_line, now};
    require(seedbed_link_open(&link, &functions, (uint32_t)strtoul(argv[2], NULL, 0),
                              (uint32_t)strtoul(argv[3], NULL, 0),
                              (uint32_t)strtoul(argv[4], NULL, 0)));
    while (fgets(line, sizeof line, stdin)) {
        unsigned long a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;
        uint32_t value;
        size_t count;
        path[0] = 0;
        if (sscanf(line, "%31s %511s", name, path) < 1) continue;
        sscanf(line, "%*s %lu %lu %lu", &a, &b, &c);
        if (!strcmp(name, "read")) {
            require(seedbed_link_read(&link, (uint16_t)a, &value));
            show(&value, 1);
        } else if (!strcmp(name, "write")) {
            require(seedbed_link_write(&link, (uint16_t)a, (uint32_t)b));
        } else if (!strcmp(name, "position")) {
            require(seedbed_link_position(&link, &value));
            show(&value, 1);
        } else if (!strcmp(name, "accepted")) {
            require(seedbed_link_accepted(&link, &value));
            show(&value, 1);
        } else if (!strcmp(name, "words")) {
            uint32_t *words = malloc(4 * b + 4);
            require(seedbed_link_words(&link, (uint32_t)a, words, b, &count));
            show(words, count);
            free(words);
        } else if (!strcmp(name, "receive")) {
            // receive POSITION COUNT PATIENCE
            uint32_t *words = malloc(4 * b + 4);
            require(seedbed_link_receive(&link, (uint32_t)a, words, b, (uint32_t)c));
            require(seedbed_link_discard(&link, (uint32_t)(a + b)));
            show(words, b);
            free(words);
        } else if (!strcmp(name, "stop")) {
            bool ran;
            require(seedbed_link_stop(&link, (uint16_t)a, (uint16_t)b, &ran, &value));
            printf("%d\n", ran);
            show(&value, 1);
        } else if (!strcmp(name, "send")) {
            // send FILE PATIENCE
            uint32_t *words = load(path, &count);
            sscanf(line, "%*s %*s %lu", &a);
            require(seedbed_link_send(&link, words, count, NULL, NULL, (uint32_t)a));
            free(words);
        } else if (!strcmp(name, "echo")) {
            // echo FILE POSITION: words that come back while they are sent, and then.
            uint32_t *words = load(path, &count);
            struct reading of = {&link, 0, malloc(4 * count + 4), count, 0};
            sscanf(line, "%*s %*s %lu", &a);
            of.position = (uint32_t)a;
            require(seedbed_link_send(&link, words, count, meanwhile, &of, 30000));
            require(seedbed_link_receive(&link, of.position + (uint32_t)of.count,
                                         of.words + of.count, count - of.count, 30000));
            require(seedbed_link_discard(&link, of.position + (uint32_t)count));
            show(of.words, count);
            free(of.words);
            free(words);
        } else if (!strcmp(name, "run") || !strcmp(name, "resume")) {
            // run FILE HOLD ORIGIN_IN ORIGIN_OUT DIGEST JOBS EXPECTED: first, and the words.
            struct seedbed_job job = {0};
            uint32_t *words = load(path, &job.count);
            if (sscanf(line, "%*s %*s %lu %lu %lu %lu %lu %lu", &a, &b, &c, &d, &e, &f) != 6)
                return 2;
            job.registers = (struct seedbed_job_registers){(uint16_t)a, (uint16_t)b, (uint16_t)c,
                                                           (uint16_t)d, (uint16_t)e};
            job.words = words;
            job.expected = f;
            job.results = malloc(4 * f + 4);
            job.patience = 60000;
            require(!strcmp(name, "run") ? seedbed_job_run(&link, &job)
                                         : seedbed_job_resume(&link, &job));
            printf("%lu\n", (unsigned long)job.first);
            show(job.results, job.received);
            free(job.results);
            free(words);
        } else {
            return 2;
        }
        fflush(stdout);
    }
    fprintf(stderr, "%lu\n", (unsigned long)link.repeated);
    return 0;
}
