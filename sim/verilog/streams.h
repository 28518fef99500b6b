// Common parts of the testbenches in C++: streams as words, their rules, random pauses, a memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "verilated.h"

using Words = std::vector<uint32_t>;

template <class T> constexpr std::size_t words(const T&) { return (sizeof(T) + 3) / 4; }
template <std::size_t N> constexpr std::size_t words(const VlWide<N>&) { return N; }
template <class T> void set(T& port, const uint32_t* from) {
    port = T(from[0] | (words(port) > 1 ? uint64_t(from[1]) << 32 : 0));
}
template <std::size_t N> void set(VlWide<N>& port, const uint32_t* from) {
    std::copy(from, from + N, port.data());
}
template <class T> void get(const T& port, uint32_t* to) {
    for (std::size_t k = 0; k < words(port); k++) to[k] = uint32_t(uint64_t(port) >> (32 * k));
}
template <std::size_t N> void get(const VlWide<N>& port, uint32_t* to) {
    std::copy(port.data(), port.data() + N, to);
}
template <class T> Words get(const T& port) {
    Words found(words(port));
    get(port, found.data());
    return found;
}
inline bool bit(const uint32_t* from, unsigned at) { return from[at / 32] >> (at % 32) & 1; }

// A hexadecimal number as so many words, low word first.
inline Words parse(const std::string& hex, std::size_t count) {
    Words found(count);
    for (std::size_t k = 0; k < hex.size(); k++) {
        const std::size_t digit = hex.size() - 1 - k;
        found[k / 8] |= uint32_t(std::stoul(hex.substr(digit, 1), nullptr, 16)) << (4 * (k % 8));
    }
    return found;
}

// Why a testbench ends: its exit status, and its message.
struct Failure {
    int code;
    std::string what;
};

// A stream of the core.
struct Stream {
    std::string name;
    bool input;
    CData &valid, &ready;
    std::function<Words()> get;
    std::function<void(const uint32_t*)> set;
    std::size_t words;
    // A beat that is valid and waits.
    std::optional<Words> pending = {};

    bool fire() const { return valid && ready; }
    // Checks the stream rules of an output, once a cycle.
    void check() {
        if (pending && !valid) throw Failure{4, name + ": valid fell before its transfer"};
        if (pending && get() != *pending)
            throw Failure{4, name + ": the payload changed before its transfer"};
        pending.reset();
        if (valid && !ready) pending = get();
    }
};
#define STREAM(top, name, input)                                                              \
    Stream {                                                                                  \
        #name, input, top.name##_valid, top.name##_ready,                                     \
            [&top] { return ::get(top.name##_payload); },                                     \
            [&top](const uint32_t* from) { ::set(top.name##_payload, from); },                \
            ::words(top.name##_payload)                                                       \
    }

// Marsaglia's xorshift64*.
struct Random {
    uint64_t state;
    uint64_t next() {
        state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
        return state * 0x2545F4914F6CDD1DULL;
    }
    uint32_t below(uint32_t limit) { return (next() >> 32) * limit >> 32; }
};

// The generator of a number from 1 (splitmix64): each port has one, so that its pauses do not depend
// on other ports.
inline Random generator(uint64_t seed, unsigned number) {
    uint64_t z = seed + number * 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return Random{(z ^ (z >> 31)) | 1};
}

// An error of a burst, after so many others of its direction. Kinds of a read: error (in beat COUNT,
// which then has random data), short or long (by COUNT beats); of a write: response. Of either: burst (in
// all of its beats, or in the response), after so many of both directions.
struct Fault {
    int64_t after;
    std::string kind;
    uint32_t count;
};

// A memory that answers in the order of its commands, each after a random latency. Cells are beats.
struct Memory {
    struct Burst {
        uint32_t address, left;
        uint64_t due;
        std::optional<Fault> fault = {};
        uint32_t given = 0;
        bool has(const char* kind) const { return fault && fault->kind == kind; }
    };
    // Words of a beat's data, and bits of an address; bursts end at multiples of `page` cells, if any.
    std::size_t data;
    unsigned address_bits;
    uint32_t page;
    Random random;
    uint32_t least, most;
    uint64_t size;
    std::map<uint32_t, Words> cells = {};
    std::deque<Burst> reads = {}, writes = {};
    std::deque<Words> written = {};
    // The cycle in which each is due, and whether it has an error.
    std::deque<std::pair<uint64_t, bool>> responses = {};
    std::deque<Fault> faults = {};

    void command(const Words& from, uint64_t now) {
        const uint64_t bits = from[0] | (from.size() > 1 ? uint64_t(from[1]) << 32 : 0);
        const uint32_t address = bits & ((uint64_t(1) << address_bits) - 1);
        const uint32_t length = (bits >> (address_bits + 1) & 0xff) + 1;
        const bool write = bits >> address_bits & 1;
        if (page && address / page != (address + length - 1) / page)
            throw Failure{4, "a burst crosses a boundary"};
        if (uint64_t(address) + length > size) throw Failure{4, "a burst is outside of the memory"};
        Burst burst{address, length, now + least + random.below(most - least + 1)};
        if (!faults.empty() && concerns(faults.front(), write) && !faults.front().after--) {
            burst.fault = faults.front();
            faults.pop_front();
            if (burst.has("short")) burst.left -= std::min(burst.left - 1, burst.fault->count);
            if (burst.has("long")) burst.left += burst.fault->count;
        }
        (write ? writes : reads).push_back(burst);
        store(now);
    }
    void write(const Words& beat, uint64_t now) {
        written.push_back(beat);
        store(now);
    }
    bool read_due(uint64_t now) const { return !reads.empty() && reads.front().due <= now; }
    bool response_due(uint64_t now) const {
        return !responses.empty() && responses.front().first <= now;
    }
    Words read() {
        Burst& burst = reads.front();
        const bool error = burst.has("burst") || (burst.has("error") && burst.given == burst.fault->count);
        const bool extra = burst.has("long") && burst.left <= burst.fault->count;
        const auto cell = cells.find(burst.address);
        Words found = error || extra || cell == cells.end() ? noise() : cell->second;
        burst.address++, burst.given++, burst.left--;
        found.resize(data + 1);
        found[data] = uint32_t(error) | uint32_t(!burst.left) << 1;
        if (!burst.left) reads.pop_front();
        return found;
    }
    Words respond() {
        const Words found{responses.front().second};
        responses.pop_front();
        return found;
    }
    Words noise() {
        Words found(data);
        for (uint32_t& word : found) word = uint32_t(random.next() >> 32);
        return found;
    }

  private:
    static bool concerns(const Fault& fault, bool write) {
        return fault.kind == "burst" || write == (fault.kind == "response");
    }
    // Stores beats into the burst that they belong to, which may come after them.
    void store(uint64_t now) {
        while (!writes.empty() && !written.empty()) {
            Burst& burst = writes.front();
            const Words beat = written.front();
            written.pop_front();
            cells[burst.address++] = beat;
            const bool final = --burst.left == 0;
            if (bit(beat.data(), 32 * data) != final)
                throw Failure{4, "o_write: last is not with a burst's end"};
            if (!final) continue;
            responses.push_back({std::max(burst.due, now + least), burst.fault.has_value()});
            writes.pop_front();
        }
    }
};
