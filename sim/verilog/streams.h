// Common parts of the testbenches in C++: streams as words, their rules, random pauses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
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
