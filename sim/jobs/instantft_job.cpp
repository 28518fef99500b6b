// Runs a whole job on the emitted fine-tuning core, with a modelled memory, and counts cycles.
//
// bench JOB RESULTS: files of 32-bit words, laid out as sim/jobs/instantft_job.py says. Prints how many
// results came, from time to time. Exit 3: the core has timed out; 4: it breaks its memory's rules.
#include <chrono>
#include <deque>
#include <fstream>
#include <iostream>
#include <vector>

#include "Vtop.h"
#include "streams.h"

struct Broken {
    int code;
    const char* what;
};

// Pauses of a port: in `pauses` of 16 cycles it would not move on.
struct Pace {
    Random random;
    uint32_t pauses;
    bool goes() { return !pauses || random.below(16) >= pauses; }
};

// Offers payloads one after the other; one that is offered stays until it is taken.
template <class T> struct Source {
    CData &valid, &ready;
    T& payload;
    Pace pace;
    bool moves() const { return valid && ready; }
    // `next` is called for a payload's words.
    template <class Next> void offer(bool any, Next next) {
        if (valid) return;
        if (any && pace.goes()) set(payload, next()), valid = 1;
    }
};
template <class T> Source(CData&, CData&, T&, Pace) -> Source<T>;

struct Burst {
    bool write;
    uint32_t at, left;
    uint64_t due;
    bool error;
};

// A memory that answers in the order of its commands, each after a random latency.
struct Memory {
    uint32_t beat_words, address_bits, least, most;
    int64_t fault;
    Random random;
    Words bits;
    std::deque<Burst> reads, writes, responses;
    std::deque<Words> data;
    int64_t bursts = 0;

    void command(const uint32_t* from, uint64_t now) {
        const uint32_t at = from[0] & ((1ULL << address_bits) - 1);
        const bool write = bit(from, address_bits);
        uint32_t length = 1;
        for (unsigned k = 0; k < 8; k++) length += bit(from, address_bits + 1 + k) << k;
        if ((at + length) * uint64_t(beat_words) > bits.size()) throw Broken{4, "address"};
        const uint64_t due = now + least + random.below(most - least + 1);
        (write ? writes : reads).push_back({write, at, length, due, bursts++ == fault});
    }
    // Put beats that came into the burst they belong to, which may come after them.
    void store(uint64_t now) {
        while (!writes.empty() && !data.empty()) {
            Burst& burst = writes.front();
            const Words& beat = data.front();
            if (!burst.error)
                std::copy(&beat[0], &beat[beat_words], &bits[burst.at * beat_words]);
            if (bit(beat.data(), 32 * beat_words) != (burst.left == 1)) throw Broken{4, "last"};
            data.pop_front();
            burst.at++;
            if (--burst.left) continue;
            burst.due = std::max(burst.due, now + least);
            responses.push_back(burst);
            writes.pop_front();
        }
    }
    void fetch(uint32_t* to) {
        Burst& burst = reads.front();
        std::copy_n(&bits[burst.at++ * beat_words], beat_words, to);
        burst.left--;
        to[beat_words] = uint32_t(burst.error) | uint32_t(!burst.left) << 1;
        if (!burst.left) reads.pop_front();
    }
};

int main(int argc, char** argv) try {
    if (argc != 3) return 2;
    const Words job = read(argv[1]);
    std::size_t at = 0;
    auto next = [&] { return job.at(at++); };
    auto some = [&](std::size_t count) {
        if (count > job.size() - at) throw Broken{2, "the job ends early"};
        Words found(job.data() + at, job.data() + at + count);
        at += count;
        return found;
    };
    const uint32_t seed = next(), pauses = next(), gaps = next(), least = next(), most = next();
    const int64_t fault = int32_t(next());
    const uint32_t beat_words = next(), address_bits = next(), memory_beats = next();
    const uint32_t count = next(), beats = next();
    const unsigned result_last = next();

    VerilatedContext context;
    Vtop top{&context};
    Generators generators{seed};
#define SOURCE(name, pauses)                                                                  \
    Source {                                                                                  \
        top.name##_valid, top.name##_ready, top.name##_payload,                \
            Pace{generators.next(), pauses}                                                         \
    }
    auto command = SOURCE(i, pauses);
    auto parameters = SOURCE(i_parameters, pauses);
    auto samples = SOURCE(i_samples, pauses);
    auto response = SOURCE(i_response, gaps);
    auto reading = SOURCE(i_read, gaps);
    Pace results{generators.next(), pauses}, adapters{generators.next(), pauses};
    Pace commands{generators.next(), pauses}, writing{generators.next(), gaps};
    Memory memory{beat_words, address_bits, least, most, fault, generators.next(),
                  Words(std::size_t(memory_beats) * beat_words)};

    const std::size_t command_words = words(top.i_payload);
    const std::size_t parameter_words = words(top.i_parameters_payload);
    const std::size_t sample_words = words(top.i_samples_payload);
    const Words images = some(std::size_t(count) * beats * sample_words);

    std::ofstream out(argv[2], std::ios::binary);
    auto put = [&](const Words& from) {
        out.write(reinterpret_cast<const char*>(from.data()), 4 * from.size());
    };
    Words result(words(top.o_payload)), parameter(words(top.o_parameters_payload));
    Words burst(words(top.o_command_payload)), written(words(top.o_write_payload));
    Words fetched(beat_words + 1);

    uint64_t cycle = 0, last_transfer = 0, reported = 0;
    auto when = std::chrono::steady_clock::now();
    auto edge = [&] {
        top.clk = 1;
        top.eval();
        top.clk = 0;
    };
    top.rst = 1;
    for (int k = 0; k < 2; k++) top.eval(), edge();
    top.rst = 0;

    for (uint32_t steps = next(); steps; steps--) {
        const Words loads = some(next() * parameter_words);
        const bool commanded = next();
        const Words given = some(commanded ? command_words : 0);
        const Words which = some(next());
        Words came, gave;
        const uint64_t begun = cycle;
        std::size_t load = 0, image = 0, beat = 0;
        bool asked = !commanded, answered = !commanded;
        // An image that was begun is finished, whatever the answer.
        while (load < loads.size() || !asked || !answered || beat || samples.valid) {
            parameters.offer(load < loads.size(), [&] { return &loads[load]; });
            const bool loaded = load == loads.size();
            command.offer(loaded && !asked, [&] { return given.data(); });
            samples.offer(loaded && image < which.size() && (!answered || beat), [&] {
                return &images[(std::size_t(which[image]) * beats + beat) * sample_words];
            });
            reading.offer(!memory.reads.empty() && memory.reads.front().due <= cycle, [&] {
                memory.fetch(fetched.data());
                return fetched.data();
            });
            const auto& due = memory.responses;
            response.offer(!due.empty() && due.front().due <= cycle, [&] {
                fetched[0] = due.front().error;
                memory.responses.pop_front();
                return fetched.data();
            });
            top.o_ready = results.goes();
            top.o_parameters_ready = adapters.goes();
            top.o_command_ready = commands.goes();
            top.o_write_ready = writing.goes();
            top.eval();
            const bool moved[] = {command.moves(), parameters.moves(), samples.moves(),
                                  response.moves(), reading.moves()};
            for (bool one : moved)
                if (one) last_transfer = cycle;
            if (top.o_valid && top.o_ready) {
                get(top.o_payload, result.data());
                came.push_back(uint32_t(cycle - begun));
                came.insert(came.end(), result.begin(), result.end());
                answered |= bit(result.data(), result_last);
                reported++;
                last_transfer = cycle;
            }
            if (top.o_parameters_valid && top.o_parameters_ready) {
                get(top.o_parameters_payload, parameter.data());
                gave.insert(gave.end(), parameter.begin(), parameter.end());
                last_transfer = cycle;
            }
            if (top.o_command_valid && top.o_command_ready) {
                get(top.o_command_payload, burst.data());
                memory.command(burst.data(), cycle);
            }
            if (top.o_write_valid && top.o_write_ready) {
                get(top.o_write_payload, written.data());
                memory.data.push_back(written);
            }
            if (!memory.data.empty()) memory.store(cycle);
            edge();
            if (moved[0]) command.valid = 0, asked = true;
            if (moved[1]) parameters.valid = 0, load += parameter_words;
            if (moved[2]) {
                samples.valid = 0;
                if (++beat == beats) beat = 0, image++;
            }
            if (moved[3]) response.valid = 0;
            if (moved[4]) reading.valid = 0;
            if (cycle - last_transfer > 1000000) throw Broken{3, "no transfer for 1,000,000 cycles"};
            if (!(++cycle & 0x1fff)) {
                const auto now = std::chrono::steady_clock::now();
                if (now - when > std::chrono::milliseconds(200))
                    when = now, std::cout << reported << std::endl;
            }
        }
        put({uint32_t(cycle - begun), uint32_t(came.size() / (1 + result.size()))});
        put(came);
        put({uint32_t(gave.size() / parameter.size())});
        put(gave);
        Words counters(words(top.counters));
        get(top.counters, counters.data());
        put(counters);
    }
    out.close();
    return out ? 0 : 2;
} catch (const Broken& broken) {
    std::cerr << broken.what << std::endl;
    return broken.code;
}
