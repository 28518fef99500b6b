// Common parts of the testbenches in C++: ports as words, files of words, random pauses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
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

// A file of 32-bit words.
inline Words read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    Words found(bytes.size() / 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(found.data()));
    return found;
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

// Gives each port a generator (splitmix64), so that its pauses do not depend on other ports.
struct Generators {
    uint64_t drawn;
    Random next() {
        uint64_t z = drawn += 0x9E3779B97F4A7C15ULL;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return Random{(z ^ (z >> 31)) | 1};
    }
};
