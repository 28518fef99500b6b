// The pads of a virtual board's memory, and its chip.
#pragma once
#include "sdram_chip.h"
#include "sdram_figures.h"

// The pads have a register in each direction, and the chip's clock is delayed by a part of a cycle:
// it takes what the output registers have, and the input registers take what it drove before.
class Memory {
    SdramChip chip{FIGURES};
    SdramPins pins;
    int input = 0xFFFF, driven = -1;

public:
    bool parse(const char* fault) { return chip.fault.parse(fault); }
    void restart() { chip.restart(); }
    template <class Top>
    void before_edge(const Top& top) {
        pins = {top.sdram_ras, top.sdram_cas, top.sdram_we, top.sdram_ba, top.sdram_a,
                top.sdram_dq_o, top.sdram_dq_oe};
        // Pins that nobody drives.
        input = driven < 0 ? 0xFFFF : driven;
    }
    template <class Top>
    void after_edge(Top& top) {
        top.sdram_dq_i = input;
        driven = chip.step(pins);
    }
};
