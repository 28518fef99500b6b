// Streams one job of a matrix-vector product through the emitted core and counts its cycles.
//
// bench COMMANDS VECTOR WEIGHTS ROWS RESULTS ENTRIES: files of payloads, each of whole 32-bit words,
// low word first; no port pauses. Prints the cycles from the first beat of weights to the last of
// ROWS results, both included. ENTRIES are of a core that was built with SIDE_PATH.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "Vtop.h"
#include "streams.h"

// Offers a file's payloads one after the other, with no pause.
template <class T> struct Source {
    CData &valid, &ready;
    T& payload;
    Words words;
    std::size_t size, at = 0;

    void offer() {
        valid = at < words.size();
        if (valid) set(payload, &words[at]);
    }
    bool fire() const { return valid && ready; }
    void step(bool fired) { at += fired ? size : 0; }
};
template <class T> Source<T> source(CData& valid, CData& ready, T& payload, const char* path) {
    return {valid, ready, payload, read(path), words(payload)};
}

int main(int argc, char** argv) {
    if (argc != 7) return 2;
    Vtop top;
#define SOURCE(name, path)                                                                    \
    source(top.name##_valid, top.name##_ready, top.name##_payload, path)
    auto command = SOURCE(i, argv[1]);
    auto vector = SOURCE(i_vector, argv[2]);
    auto weights = SOURCE(i_weights, argv[3]);
#ifdef SIDE_PATH
    auto entries = SOURCE(i_entries, argv[6]);
    top.o_entries_ready = 1;
#endif
    const long rows = std::atol(argv[4]);
    Words result(words(top.o_payload));
    std::ofstream results(argv[5], std::ios::binary);
    top.o_ready = 1;
    long first = -1, came = 0, waited = 0;
    for (long cycle = 0; came < rows; cycle++) {
        if (waited++ > 100000) return 3;
        command.offer();
        vector.offer();
        weights.offer();
#ifdef SIDE_PATH
        entries.offer();
#endif
        top.eval();
#ifdef SIDE_PATH
        const bool entry = entries.fire();
        if (entry) waited = 0;
#endif
        const bool fired[] = {command.fire(), vector.fire(), weights.fire()};
        if (fired[2] && first < 0) first = cycle;
        if (fired[2]) waited = 0;
        if (top.o_valid) {
            get(top.o_payload, result.data());
            results.write(reinterpret_cast<char*>(result.data()), 4 * result.size());
            if (++came == rows) std::cout << cycle - first + 1 << std::endl;
        }
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
        command.step(fired[0]);
        vector.step(fired[1]);
        weights.step(fired[2]);
#ifdef SIDE_PATH
        entries.step(entry);
#endif
    }
    results.close();
    return results ? 0 : 4;
}
