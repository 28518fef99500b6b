// Model of an SDR SDRAM chip that checks its rules; the twin of sdram_chip.py.
//
// A broken rule is printed with its cycle, and ends the program with status 3.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// The figures of seedbed.spec.SdramChip, in their order, and the clock.
struct SdramFigures {
    double rcd, rp, ras, rc, rrd, wr, rfc, mrd, ras_max, refresh, power_up;
    int latency_2_mhz, latency_3_mhz, row_bits, column_bits, bank_bits;
    double clock_mhz;
};

struct SdramPins {
    int ras, cas, we, ba, a, dq_o, dq_oe;
};

// A defect: an address or data pin that is stuck, or cells that keep their contents for a while only.
// A stuck address pin is that of rows and columns only, so that the chip is initialised.
struct SdramFault {
    int address = -1, data = -1, level = 0;
    double decay = 0;

    // "a3=0", "dq5=1", "decay=1000000" (nanoseconds), or nothing. Returns whether it is one of these.
    bool parse(const char* text) {
        int end = 0;
        if (*text && sscanf(text, "a%d=%d%n", &address, &level, &end) < 2 &&
            sscanf(text, "dq%d=%d%n", &data, &level, &end) < 2)
            sscanf(text, "decay=%lf%n", &decay, &end);
        return !text[end] && address < 13 && data < 16 && level >> 1 == 0 && decay >= 0;
    }
};

class SdramChip {
    static constexpr long NEVER = -1000000000L;
    static constexpr int LATE = 9, DRIVEN = 16;
    struct Bank {
        int row = -1;
        long activated = NEVER, precharged = NEVER, written = NEVER;
    };
    const SdramFigures figures;
    std::vector<Bank> banks;
    long cycle = -1, power_up, activated, refreshed, mode_set, configured, refreshes;
    bool precharged;
    int burst = 0, latency = 0;
    std::vector<uint16_t> cells;
    std::vector<long> ages;
    // What is driven in which cycle.
    long driven_cycle[DRIVEN];
    uint16_t driven_word[DRIVEN];
    int write_bank, write_left = 0;
    uint32_t write_address = 0;

    double ns(long cycles) const { return cycles * 1000.0 / figures.clock_mhz; }
    void require(const char* rule, bool fine, const char* detail) {
        if (fine) return;
        fprintf(stderr, "the memory's chip: %s in cycle %ld: %s\n", rule, cycle, detail);
        exit(3);
    }
    void after(const char* rule, long since, double time) {
        char detail[80];
        snprintf(detail, sizeof detail, "%.1f ns, not %g", ns(cycle - since), time);
        require(rule, ns(cycle - since) >= time - 1e-6, detail);
    }
    bool drives(long when) const {
        return when >= 0 && driven_cycle[when % DRIVEN] == when;
    }
    int stuck(int word) const {
        return fault.data < 0 ? word : (word & ~(1 << fault.data)) | fault.level << fault.data;
    }
    // The next address of a burst, which wraps at a multiple of its length.
    uint32_t next(uint32_t address) const {
        uint32_t low = burst - 1;
        return (address & ~low) | ((address + 1) & low);
    }
    void idle() {
        for (auto& bank : banks) {
            require("row", bank.row < 0, "a row is open");
            after("tRP", bank.precharged, figures.rp);
        }
    }
    void precharge(int number) {
        Bank& bank = banks[number];
        if (bank.row >= 0) {
            after("tRAS", bank.activated, figures.ras);
            require("tWR", !(write_left && write_bank == number), "words are still written");
            after("tWR", bank.written, figures.wr);
            bank.precharged = cycle;
        }
        bank.row = -1;
    }
    void activate(Bank& bank, int a) {
        require("row", bank.row < 0, "a row is open");
        after("tRP", bank.precharged, figures.rp);
        after("tRC", bank.activated, figures.rc);
        after("tRRD", activated, figures.rrd);
        bank.row = a & ((1 << figures.row_bits) - 1);
        bank.activated = activated = cycle;
    }
    // The cycles that last at least so many nanoseconds.
    long cycles(double time) const { return long(std::ceil(time * figures.clock_mhz / 1000 - 1e-6)); }
    // Closes a row after an access, as early as its times allow.
    void precharge_later(Bank& bank, bool write) {
        long ends = cycle + burst + (write ? cycles(figures.wr) - 1 : 0);
        bank.precharged = std::max(ends, bank.activated + cycles(figures.ras));
        bank.row = -1;
    }
    void access(bool write, int ba, int a) {
        Bank& bank = banks[ba];
        require("row", bank.row >= 0, "no row is open");
        after("tRCD", bank.activated, figures.rcd);
        uint32_t column = a & ((1 << figures.column_bits) - 1);
        require("row", column % burst == 0 || fault.address >= 0, "a burst that wraps");
        uint32_t address = (uint32_t(bank.row) << figures.bank_bits | ba) << figures.column_bits | column;
        long first = cycle + latency - 1, ends = write ? cycle : first;
        // A new access ends the one before.
        for (auto& when : driven_cycle)
            if (when >= ends) when = NEVER;
        write_left = 0;
        if (a >> 10 & 1) precharge_later(bank, write);
        if (write) {
            write_bank = ba, write_address = address, write_left = burst;
            return;
        }
        for (int k = 0; k < burst; k++, address = next(address)) {
            uint16_t word = cells[address];
            if (fault.decay && ns(cycle - ages[address]) > fault.decay) word &= 0xFF00;
            driven_cycle[(first + k) % DRIVEN] = first + k;
            driven_word[(first + k) % DRIVEN] = word;
        }
    }
    void command(int code, int ba, int a) {
        after("power-up", power_up, figures.power_up);
        after("tRFC", refreshed, figures.rfc);
        after("tMRD", mode_set, figures.mrd);
        if (code == 5) {
            for (int k = 0; k < 1 << figures.bank_bits; k++)
                if (k == ba || a >> 10 & 1) precharge(k);
            precharged |= a >> 10 & 1;
        } else if (code == 3) {
            idle();
            require("initialisation", precharged, "no precharge of all banks yet");
            refreshed = cycle;
            refreshes++;
        } else if (code == 7) {
            idle();
            require("initialisation", refreshes >= 2 && precharged, "a mode before two refreshes");
            latency = a >> 4 & 7;
            require("mode", (a & 7) <= 3 && (latency == 2 || latency == 3) && !(a & 0x388), "unknown");
            require("mode", figures.clock_mhz <= (latency == 2 ? figures.latency_2_mhz : figures.latency_3_mhz),
                    "the latency is too short");
            burst = 1 << (a & 7);
            mode_set = configured = cycle;
            refreshes = 0;
        } else {
            require("initialisation", configured >= 0, "no mode yet");
            if (code == 1)
                activate(banks[ba], a);
            else
                access(code == 6, ba, a);
        }
    }

public:
    SdramFault fault;

    explicit SdramChip(const SdramFigures& figures)
        : figures(figures), banks(1 << figures.bank_bits),
          cells(size_t(1) << (figures.row_bits + figures.column_bits + figures.bank_bits)),
          ages(cells.size()) {
        for (size_t k = 0; k < cells.size(); k++) cells[k] = k * 0x9E37;
        for (auto& when : driven_cycle) when = NEVER;
        restart();
    }
    // Power is switched on; the contents stay.
    void restart() {
        for (auto& bank : banks) bank = Bank();
        power_up = cycle < 0 ? 0 : cycle;
        activated = refreshed = mode_set = configured = NEVER;
        refreshes = write_left = 0;
        precharged = false;
    }
    // Takes the pins at a clock edge; returns what the chip drives until the next one, or -1.
    int step(const SdramPins& pins) {
        cycle++;
        int a = pins.a, code = pins.ras | pins.cas << 1 | pins.we << 2;
        if (fault.address >= 0 && (code == 1 || code == 2 || code == 6))
            a = (a & ~(1 << fault.address)) | fault.level << fault.address;
        if (configured >= 0)
            require("refresh", ns(cycle - configured) / figures.refresh - refreshes <= LATE, "overdue");
        for (auto& bank : banks)
            if (bank.row >= 0)
                require("tRAS max", ns(cycle - bank.activated) <= figures.ras_max, "a row is open too long");
        if (code) command(code, pins.ba, a);
        int dq = stuck(pins.dq_o);
        if (pins.dq_oe)
            require("turnaround", !drives(cycle - 1) && !drives(cycle - 2),
                    "the chip still drives the data pins");
        if (write_left) {
            require("row", pins.dq_oe, "a written word is missing");
            cells[write_address] = dq;
            ages[write_address] = cycle;
            write_address = next(write_address);
            banks[write_bank].written = cycle;
            write_left--;
        }
        return drives(cycle) ? stuck(driven_word[cycle % DRIVEN]) : -1;
    }
};
