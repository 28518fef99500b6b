// Runs a top with its serial port on a pseudo-terminal.
//
// bench DIVISOR ERRORS SEED FAULT: prints the path of the terminal, and runs until it or its parent is
// ended. On average one of ERRORS bytes on the line, in both directions, is lost, changed, doubled or
// late; 0: none is. FAULT is a defect of the memory, see sdram_chip.h, or empty. SIGUSR1 presses the
// reset button.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <random>

#include "Vtop.h"
#include "board.h"
#ifndef PADS
// A top without memory.
struct Memory {
    bool parse(const char* fault) { return !*fault; }
    void restart() {}
    void before_edge(const Vtop&) {}
    void after_edge(Vtop&) {}
};
#endif

static int divisor, errors;
static std::mt19937 generator;
static volatile sig_atomic_t pressed;

// A direction of the line: bytes, and how many byte times the first one is late.
struct Line {
    std::deque<int> bytes;
    int late = 0;

    void push(int byte) {
        if (errors == 0 || generator() % errors) {
            bytes.push_back(byte);
            return;
        }
        switch (generator() % 4) {
            case 0: break;
            case 1: bytes.push_back(byte ^ 1 << generator() % 8); break;
            case 2: bytes.push_back(byte); bytes.push_back(byte); break;
            default: bytes.push_back(byte); late = 3 + generator() % 50;
        }
    }
    // The next byte, or -1. Called once a byte time.
    int pop() {
        if (late) {
            late--;
            return -1;
        }
        if (bytes.empty()) return -1;
        int byte = bytes.front();
        bytes.pop_front();
        return byte;
    }
};

int main(int argc, char** argv) {
    divisor = atoi(argv[1]);
    errors = atoi(argv[2]);
    generator.seed(atoi(argv[3]));
    static Memory memory;
    if (!memory.parse(argv[4])) return 2;
    signal(SIGUSR1, [](int) { pressed = 1; });
    int host = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (host < 0 || grantpt(host) || unlockpt(host)) {
        perror("no pseudo-terminal");
        return 1;
    }
    // It stays open here, so that it outlives a host's program.
    int port = open(ptsname(host), O_RDWR | O_NOCTTY);
    struct termios raw;
    tcgetattr(port, &raw);
    cfmakeraw(&raw);
    tcsetattr(port, TCSANOW, &raw);
    printf("%s\n", ptsname(host));
    fflush(stdout);

    const pid_t parent = getppid();
    Vtop top;
    Line to_board, to_host;
    const long byte_time = 10L * divisor;
    // Byte times without a byte on the line.
    long idle = 0;
    int sending = -1, receiving = 0, timer = 0, reset = 4;
    bool restarts = false;
    top.rx = 1;
    for (unsigned long cycle = 0;; cycle++) {
        if (cycle % byte_time == 0) {
            unsigned char bytes[256];
            idle++;
            // Without the command that started it, nobody would end it.
            if (cycle / byte_time % 1000 == 0 && getppid() != parent) return 0;
            if (to_board.bytes.empty()) {
                // An idle line for a while: do not keep the processor busy.
                if (idle > 50000) {
                    struct pollfd waiting = {host, POLLIN, 0};
                    poll(&waiting, 1, 5);
                }
                ssize_t count = read(host, bytes, sizeof bytes);
                for (ssize_t k = 0; k < count; k++) to_board.push(bytes[k]);
            }
            sending = to_board.pop();
            int byte = to_host.pop();
            if (byte >= 0) {
                unsigned char out = byte;
                // Without a reader, the terminal's buffer fills: bytes are lost, as on a line.
                if (write(host, &out, 1) < 0) out = 0;
            }
            if (sending >= 0 || byte >= 0) idle = 0;
        }
        int bit = cycle % byte_time / divisor;
        top.rx = sending < 0 || bit == 9 ? 1 : bit == 0 ? 0 : sending >> (bit - 1) & 1;
        if (pressed) {
            pressed = 0, reset = 8;
            restarts = true;
        }
        // The registers of the pads may have a command that was given before the reset.
        if (reset == 1 && restarts) {
            restarts = false;
            memory.restart();
        }
        top.rst = reset > 0;
        if (reset) reset--;
        top.clk = 0;
        top.eval();
        memory.before_edge(top);
        top.clk = 1;
        top.eval();
        memory.after_edge(top);
        // The middle of each bit after the edge of a start bit.
        if (timer == 0) {
            if (!top.tx) timer = 1, receiving = 0;
        } else {
            timer++;
            int number = timer / divisor;
            if (timer % divisor == divisor / 2 && number >= 1 && number <= 8)
                receiving |= top.tx << (number - 1);
            if (timer == byte_time - divisor / 4) {
                to_host.push(receiving);
                timer = 0;
            }
        }
    }
}
