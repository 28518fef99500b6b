// The pads of a virtual board's memory, and its chip.
#pragma once
#include <deque>

#include "sdram_chip.h"
#include "sdram_figures.h"

// The pads have a register in each direction, and the chip's clock is delayed by a part of a cycle:
// it takes what the output registers have, and the input registers take what it drove PADS cycles
// before.
class Memory {
    SdramChip chip{FIGURES};
    SdramPins pins;
    int input = 0xFFFF;
    std::deque<int> driven = std::deque<int>(PADS, -1);

    template <class Top>
    void take(const Top& top) {
        pins = {top.sdram_ras, top.sdram_cas, top.sdram_we, top.sdram_ba, top.sdram_a,
                top.sdram_dq_o, top.sdram_dq_oe};
        // Pins that nobody drives.
        input = driven.front() < 0 ? 0xFFFF : driven.front();
    }
    template <class Top>
    void give(Top& top) {
        top.sdram_dq_i = input;
        driven.pop_front();
        // A reset breaks off what the controller writes: the chip is started again after it.
        driven.push_back(top.rst ? -1 : chip.step(pins));
    }

public:
    bool parse(const char* fault) { return chip.fault.parse(fault); }
    void restart() { chip.restart(); }

    // Called before and after each edge of the application's clock.
#ifndef OWN_MHZ
    template <class Top>
    void before_edge(const Top& top) { take(top); }
    template <class Top>
    void after_edge(Top& top) { give(top); }
#else
    // Time that has passed since an edge of the memory's own clock. It is a bit too slow, so that its
    // edges drift over all phases of the other clock.
    long passed = 0;

    template <class Top>
    void before_edge(Top& top) { top.memory_rst = top.rst; }
    template <class Top>
    void after_edge(Top& top) {
        for (passed += 1000L * OWN_MHZ; passed > 0; passed -= 1000L * APPLICATION_MHZ + 1) {
            top.memory_clk = 0;
            top.eval();
            take(top);
            top.memory_clk = 1;
            top.eval();
            give(top);
        }
    }
#endif
};
