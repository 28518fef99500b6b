// Runs a job on the emitted zeroth-order trainer; counts cycles, and reads and writes of rows.
//
// bench JOB RESULTS: files of 32-bit words, laid out as sim/zo_job.py says. Prints the cycles so
// far, from time to time. Exit 3: no transfer for long; 4: an output that is not expected.
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
// INPUTS(P) and OUTPUTS(P) call P(name) for each stream, PROBES(P) calls P(enable, row) for each
// port of the parameter memory, whose rows are fewer than ROWS.
#include "ports.h"
#include "streams.h"

// Cycles between phases: no phase begins before the last one's writes are done.
constexpr int SETTLE = 16;

struct Failure {
    int code;
    std::string what;
};

struct Stream {
    const char* name;
    CData &valid, &ready;
    std::function<Words()> get;
    std::function<void(const uint32_t*)> set;
    std::size_t words;
    Random random;
    // Of an input: payloads of the phase, and the next of them. Of an output: what came, each
    // payload after its cycle.
    Words payloads = {};
    std::size_t at = 0;
    uint32_t left = 0;
};

int main(int argc, char** argv) try {
    if (argc != 3) return 2;
    const Words job = read(argv[1]);
    std::size_t at = 0;
    auto next = [&] { return job.at(at++); };
    const uint32_t seed = next(), pauses = next(), phases = next();

    VerilatedContext context;
    Vtop top{&context};
    Generators generators{seed};
    std::vector<Stream> inputs, outputs;
#define STREAM(name)                                                                             \
    Stream {                                                                                     \
        #name, top.name##_valid, top.name##_ready, [&top] { return ::get(top.name##_payload); }, \
            [&top](const uint32_t* from) { ::set(top.name##_payload, from); },                   \
            ::words(top.name##_payload), generators.next()                                       \
    }
#define INPUT(name) inputs.push_back(STREAM(name));
#define OUTPUT(name) outputs.push_back(STREAM(name));
    INPUTS(INPUT)
    OUTPUTS(OUTPUT)

    std::ofstream out(argv[2], std::ios::binary);
    auto put = [&](const Words& from) {
        out.write(reinterpret_cast<const char*>(from.data()), 4 * from.size());
    };
    auto clock = [&] {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
    };
    auto goes = [&](Stream& stream) { return !pauses || stream.random.below(16) >= pauses; };

    uint64_t cycle = 0;
    auto when = std::chrono::steady_clock::now();
    top.rst = 1;
    top.eval();
    for (int k = 0; k < 2; k++) clock();
    top.rst = 0;
    for (uint32_t phase = 0; phase < phases; phase++) {
        const uint64_t begun = cycle;
        uint64_t last_transfer = cycle;
        std::vector<Words> counts;
#define COUNT(enable, row) counts.push_back(Words(ROWS));
        PROBES(COUNT)
        for (Stream& stream : inputs) {
            stream.left = next(), stream.at = 0;
            if (stream.left * stream.words > job.size() - at) throw Failure{2, "the job is too short"};
            stream.payloads.assign(&job[0] + at, &job[0] + at + stream.left * stream.words);
            at += stream.payloads.size();
        }
        for (Stream& stream : outputs) stream.left = next(), stream.payloads.clear();
        auto busy = [&] {
            for (const Stream& stream : inputs)
                if (stream.left) return true;
            for (const Stream& stream : outputs)
                if (stream.left) return true;
            return false;
        };
        while (busy()) {
            for (Stream& stream : inputs)
                if (!stream.valid && stream.left && goes(stream))
                    stream.set(&stream.payloads[stream.at]), stream.valid = 1;
            for (Stream& stream : outputs) stream.ready = goes(stream);
            top.eval();
            std::size_t probe = 0;
#define PROBE(enable, row)                            \
    if (enable) counts[probe][row]++; \
    probe++;
            PROBES(PROBE)
            for (Stream& stream : outputs) {
                if (!stream.valid || !stream.ready) continue;
                if (!stream.left) throw Failure{4, std::string(stream.name) + ": a beat too many"};
                stream.left--;
                stream.payloads.push_back(uint32_t(cycle - begun));
                const Words payload = stream.get();
                stream.payloads.insert(stream.payloads.end(), payload.begin(), payload.end());
                last_transfer = cycle;
            }
            std::vector<Stream*> taken;
            for (Stream& stream : inputs)
                if (stream.valid && stream.ready) taken.push_back(&stream);
            clock();
            for (Stream* stream : taken) {
                stream->valid = 0, stream->left--, stream->at += stream->words;
                last_transfer = cycle;
            }
            if (cycle - last_transfer > 1000000) {
                std::string waits;
                for (auto* side : {&inputs, &outputs})
                    for (const Stream& stream : *side)
                        if (stream.left) waits += std::string(", ") + stream.name + " has " +
                                                  std::to_string(stream.left) + " left";
                throw Failure{3, "no transfer for 1,000,000 cycles" + waits};
            }
            if (!(++cycle & 0x1fff)) {
                const auto now = std::chrono::steady_clock::now();
                if (now - when > std::chrono::milliseconds(200))
                    when = now, std::cout << cycle << std::endl;
            }
        }
        put({uint32_t(cycle - begun)});
        for (const Stream& stream : outputs) {
            put({uint32_t(stream.payloads.size() / (1 + stream.words))});
            put(stream.payloads);
        }
        for (const Words& rows : counts) put(rows);
        // What is still in registers is written before the next phase counts.
        for (Stream& stream : outputs) stream.ready = 0;
        for (int k = 0; k < SETTLE; k++) clock();
    }
    out.close();
    return out ? 0 : 2;
} catch (const Failure& failure) {
    std::cerr << failure.what << std::endl;
    return failure.code;
}
