// Runs a job on an emitted trainer, with a model of its memory if it has one; counts cycles, beats of
// memory, and what PROBES enable.
//
// bench JOB RESULTS: files of 32-bit words, laid out as sim/jobs/training_job.py says. Prints the cycles
// so far, from time to time. Exit 3: no transfer for long; 4: an output that is not expected.
#include <chrono>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
// INPUTS(P) and OUTPUTS(P) call P(name) for each stream but those of the memory, PROBES(P) calls
// P(enable, row) for what is counted; rows are fewer than ROWS. With a memory, BEAT_BITS are those of
// a beat, ADDRESS_BITS those of an address, and a burst ends at multiples of PAGE beats.
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

#ifdef BEAT_BITS
// A memory that answers in the order of its commands, each after a random latency.
struct Memory {
    Words contents;
    uint32_t least, most, gaps;
    Random random;
    struct Burst {
        uint32_t address, left;
        uint64_t due;
    };
    std::deque<Burst> bursts = {};

    void command(const Words& from, uint64_t cycle) {
        const uint64_t bits = from[0] | (from.size() > 1 ? uint64_t(from[1]) << 32 : 0);
        const uint32_t address = bits & ((uint64_t(1) << ADDRESS_BITS) - 1);
        const uint32_t length = (bits >> (ADDRESS_BITS + 1) & 0xff) + 1;
        if (bits >> ADDRESS_BITS & 1) throw Failure{4, "a burst is written"};
        if (address / PAGE != (address + length - 1) / PAGE)
            throw Failure{4, "a burst crosses a boundary"};
        if ((address + length) * (BEAT_BITS / 32) > contents.size())
            throw Failure{4, "a burst is outside of the memory"};
        bursts.push_back({address, length, cycle + least + random.below(most - least + 1)});
    }
    bool ready(uint64_t cycle) {
        return !bursts.empty() && bursts.front().due <= cycle &&
               (!gaps || random.below(16) >= gaps);
    }
    void fetch(Words& to) const {
        const Burst& burst = bursts.front();
        std::copy_n(&contents[burst.address * (BEAT_BITS / 32)], BEAT_BITS / 32, to.begin());
        to[BEAT_BITS / 32] = (burst.left == 1) << 1;
    }
    void advance() {
        Burst& burst = bursts.front();
        burst.address++;
        if (!--burst.left) bursts.pop_front();
    }
};
#endif

int main(int argc, char** argv) try {
    if (argc != 3) return 2;
    const Words job = read(argv[1]);
    std::size_t at = 0;
    auto next = [&] { return job.at(at++); };
    const uint32_t seed = next(), pauses = next();
#ifdef BEAT_BITS
    const uint32_t least = next(), most = next(), gaps = next();
    const uint32_t size = next();
    if (size > job.size() - at) throw Failure{2, "the job is too short"};
    const Words contents(job.begin() + at, job.begin() + at + size);
    at += size;
#endif
    const uint32_t phases = next();

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
#ifdef BEAT_BITS
    Memory memory{contents, least, most, gaps, generators.next()};
    Words beat(BEAT_BITS / 32 + 1);
#endif

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

    uint64_t cycle = 0, beats = 0;
    auto when = std::chrono::steady_clock::now();
    top.rst = 1;
    top.eval();
    for (int k = 0; k < 2; k++) clock();
    top.rst = 0;
    for (uint32_t phase = 0; phase < phases; phase++) {
        const uint64_t begun = cycle, beats_before = beats;
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
#ifdef BEAT_BITS
            if (!top.i_read_valid && memory.ready(cycle))
                memory.fetch(beat), set(top.i_read_payload, beat.data()), top.i_read_valid = 1;
            top.o_command_ready = 1;
#endif
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
#ifdef BEAT_BITS
            const bool commanded = top.o_command_valid, fetched = top.i_read_valid && top.i_read_ready;
            if (commanded) memory.command(get(top.o_command_payload), cycle);
#endif
            clock();
#ifdef BEAT_BITS
            if (fetched) top.i_read_valid = 0, memory.advance(), beats++, last_transfer = cycle;
#endif
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
        put({uint32_t(cycle - begun), uint32_t(beats - beats_before)});
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
