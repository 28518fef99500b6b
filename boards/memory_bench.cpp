// Bursts on a memory controller with a model of its chip, as fast as its port takes them.
//
// memory_bench FILE: the file has "address beats" of a burst a line, in beats of 64 bits. The program
// writes all of them, reads them again, and prints the cycles of each, from the first command to the
// last beat or response. A beat that differs ends it with status 1, a broken rule of the chip with 3.
#include <cinttypes>
#include <deque>

#include "Vtop.h"
#include "bench.h"
#include "sdram_figures.h"

static Vtop top;
static SdramChip chip(FIGURES);
static long cycle;

// A transfer at the port: where it starts, and how many words of the port it has.
struct Transfer {
    uint32_t address;
    int words;
};

static uint64_t beat(uint64_t address) { return (address + 1) * 0x9E3779B97F4A7C15; }

[[noreturn]] static void fail(const char* reason) {
    fprintf(stderr, "%s in cycle %ld\n", reason, cycle);
    exit(1);
}

// What the chip drives comes PADS cycles later, and is undefined where it drives nothing.
static void pads(const SdramPins& pins, uint16_t& input) {
    static std::deque<int> words(PADS, -1);
    words.push_back(chip.step(pins));
    input = words.front() < 0 ? 0xFFFF : words.front();
    words.pop_front();
}

#ifdef LITEDRAM
static void tick() {
    top.sys_clk = 1;
    top.eval();
    // The pads are registers, and the clock of the chip is delayed by a part of a cycle. The chip takes
    // no command without cke.
    SdramPins pins{top.pads_cke && !top.pads_ras_n, top.pads_cke && !top.pads_cas_n,
                   top.pads_cke && !top.pads_we_n, top.pads_ba, top.pads_a,
                   top.pads_dq_o, top.pads_dq_oe != 0};
    uint16_t input;
    pads(pins, input);
    top.pads_dq_i = input;
    top.sys_clk = 0;
    top.eval();
    cycle++;
}

// The host writes LiteDRAM's registers: chip and controller start.
static void initialise() {
    top.sys_rst = 1;
    tick();
    top.sys_rst = 0;
    for (const auto& access : INITIALISATION) {
        top.bus_adr = access.address, top.bus_dat_w = access.value, top.bus_we = 1;
        tick();
        top.bus_we = 0;
        for (int k = 0; k <= access.wait; k++) tick();
    }
}

// The port takes a word a command.
constexpr int WORDS = 64 / WIDTH;
static uint64_t word(uint64_t address) { return beat(address / WORDS) >> WIDTH * (address % WORDS); }
static uint64_t cut(uint64_t word) { return WIDTH == 64 ? word : word & ((uint64_t(1) << (WIDTH % 64)) - 1); }

static std::vector<Transfer> transfers(const std::vector<Transfer>& bursts) {
    std::vector<Transfer> found;
    for (auto& burst : bursts)
        for (int k = 0; k < burst.words * WORDS; k++)
            found.push_back({burst.address * WORDS + k, 1});
    return found;
}

static long run(const std::vector<Transfer>& all, bool write) {
    const long start = cycle;
    size_t commands = 0, words = 0;
    top.rdata_ready = 1, top.wdata_payload_we = 0xFF;
    while (words < all.size()) {
        top.cmd_valid = commands < all.size(), top.cmd_payload_we = write;
        if (top.cmd_valid) top.cmd_payload_addr = all[commands].address;
        top.wdata_valid = write, top.wdata_payload_data = cut(word(all[words].address));
        top.eval();
        commands += top.cmd_valid && top.cmd_ready;
        if (write ? top.wdata_ready : top.rdata_valid) {
            if (!write && top.rdata_payload_data != cut(word(all[words].address))) fail("a word differs");
            words++;
        }
        if (cycle - start > 64 * long(all.size()) + 10000) fail("no end");
        tick();
    }
    top.wdata_valid = 0;
    const long cycles = cycle - start;
    for (int k = 0; k < 100; k++) tick();
    return cycles;
}
#else
static void tick() {
    SdramPins pins{top.pins_ras, top.pins_cas, top.pins_we, top.pins_ba, top.pins_a, top.pins_dq_o,
                   top.pins_dq_oe};
    uint16_t input;
    top.clk = 1;
    top.eval();
    pads(pins, input);
    top.pins_dq_i = input;
    top.clk = 0;
    top.eval();
    cycle++;
}

static void initialise() {
    top.rst = 1;
    tick();
    top.rst = 0;
    while (!top.status_done) tick();
    if (top.status_failed) fail("the self-test failed");
}

static std::vector<Transfer> transfers(const std::vector<Transfer>& bursts) { return bursts; }

static long run(const std::vector<Transfer>& all, bool write) {
    const long start = cycle;
    size_t commands = 0, burst = 0, answers = 0;
    int place = 0;
    top.o_read_ready = top.o_response_ready = 1;
    while (answers < all.size()) {
        top.i_command_valid = commands < all.size(), top.i_command_write = write;
        if (top.i_command_valid) {
            top.i_command_address = all[commands].address;
            top.i_command_length = all[commands].words - 1;
        }
        const bool left = burst < all.size(), last = left && place == all[burst].words - 1;
        top.i_write_valid = write && left, top.i_write_last = last;
        if (left) top.i_write_data = beat(all[burst].address + place);
        top.eval();
        commands += top.i_command_valid && top.i_command_ready;
        if (!write && top.o_read_valid &&
            (top.o_read_data != beat(all[burst].address + place) || top.o_read_last != last))
            fail("a beat differs");
        answers += write ? top.o_response_valid : top.o_read_valid && last;
        if (write ? top.i_write_valid && top.i_write_ready : top.o_read_valid) {
            place = last ? 0 : place + 1;
            burst += last;
        }
        if (cycle - start > 10000000) fail("no end");
        tick();
    }
    top.i_write_valid = 0;
    const long cycles = cycle - start;
    for (int k = 0; k < 100; k++) tick();
    return cycles;
}
#endif

int main(int, char** argv) {
    std::vector<Transfer> bursts;
    Transfer burst;
    FILE* file = fopen(argv[1], "r");
    while (file && fscanf(file, "%" SCNu32 " %d", &burst.address, &burst.words) == 2) bursts.push_back(burst);
    const auto all = transfers(bursts);
    top.eval();
    initialise();
    const long written = run(all, true), read = run(all, false);
    printf("%ld %ld\n", written, read);
}
