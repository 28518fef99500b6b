// A Verilated core as a process that runs acts: payloads for its inputs, and what its outputs give.
// It models the core's memory, if it has one, and counts what PROBES enable.
//
// bench SEED PAUSES: of 16 cycles, in PAUSES every port pauses, at random. Requests on standard input
// and answers on standard output are words, as sim/verilog/cosim.py says. Exit 2: a bad request; 3: no
// transfer for long; 4: an output that is not expected, or a broken rule.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
// INPUTS(P), OUTPUTS(P) and MEMORY(P), for the memory's streams, call P(name, number of its generator,
// place of `last` or -1). VALUES(P) calls P(name) for other outputs, PROBES(P) calls P(enable, row) for
// what is counted; rows are fewer than ROWS. Beats of memory have BEAT_BITS of data and ADDRESS_BITS of
// address, bursts end at multiples of PAGE beats, and LATENCIES is the number of a generator.
#include "ports.h"
#include "streams.h"

constexpr uint64_t LONG = 1000000;
enum Request { STORE, FILL, RUN };
enum Answer { PROGRESS, DONE };

// A stream with its part of an act.
struct Port : Stream {
    Random random;
    int last;
    // Of an input: the payloads, and the next of them, from the first again after the last one.
    const Words* payloads = nullptr;
    std::size_t at = 0;
    // Of an output: what came, each payload after its cycle.
    Words own = {};
    uint32_t left = 0;
    // The cycle of the first transfer.
    std::optional<uint32_t> first = {};
    // Whether a transfer had no `last`.
    bool inside = false;

    bool unpaused(uint32_t pauses) { return !pauses || random.below(16) >= pauses; }
};

class Bench {
  public:
    Bench(uint64_t seed, uint32_t pauses) : seed(seed), pauses(pauses) {
        Vtop& top = this->top;
#define ADD(to, name, number, last)                                                           \
    to.push_back({STREAM(top, name, #name[0] == 'i'), generator(seed, number), last});
#define INPUT(...) ADD(inputs, __VA_ARGS__)
#define OUTPUT(...) ADD(outputs, __VA_ARGS__)
#define SHARED(...) ADD(shared, __VA_ARGS__)
        INPUTS(INPUT)
        OUTPUTS(OUTPUT)
        MEMORY(SHARED)
        top.rst = 1;
        for (int k = 0; k < 2; k++) top.eval(), edge();
        top.rst = 0;
    }

    // Answers requests until there are no more.
    void serve() {
        for (Words size; load(size, 1);) {
            if (!load(request, size[0])) throw Failure{2, "a request is too short"};
            at = 0;
            const uint32_t kind = next();
            if (kind == STORE) stored.push_back(some(request.size() - at));
            if (kind == FILL) fill();
            if (kind == RUN) run();
        }
    }

  private:
    Vtop top;
    uint64_t seed;
    uint32_t pauses;
    // Streams of the acts, and of the memory.
    std::vector<Port> inputs, outputs, shared;
    Memory memory{BEAT_BITS / 32, ADDRESS_BITS, PAGE, generator(seed, LATENCIES), 0, 0, 0};
    uint32_t gaps = 0, beats = 0;
    std::vector<Words> stored{1};
    Words request;
    std::size_t at = 0;
    uint64_t cycle = 0, begun = 0, last_transfer = 0;
    // Of the first output, since the reset.
    uint32_t results = 0;
    // The output whose `last` ends the act, if any.
    Port* ends = nullptr;
    bool ended = false;
    std::vector<Words> counts;
    std::chrono::steady_clock::time_point reported = std::chrono::steady_clock::now();

    static bool load(Words& to, std::size_t count) {
        to.resize(count);
        return bool(std::cin.read(reinterpret_cast<char*>(to.data()), 4 * count));
    }
    static void put(const Words& from) {
        std::cout.write(reinterpret_cast<const char*>(from.data()), 4 * from.size());
    }
    uint32_t next() { return some(1)[0]; }
    Words some(std::size_t count) {
        if (count > request.size() - at) throw Failure{2, "a request is too short"};
        at += count;
        return Words(request.begin() + (at - count), request.begin() + at);
    }

    void edge() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
    }

    void fill() {
        memory.least = next(), memory.most = next(), gaps = next();
        const int32_t fault = next();
        if (fault >= 0) memory.faults = {{fault, "burst", 0}};
        memory.size = next();
        const Words contents = some(request.size() - at);
        for (uint32_t cell = 0; cell < memory.size; cell++) {
            const std::size_t from = std::min(contents.size(), cell * memory.data);
            const std::size_t stop = std::min(contents.size(), from + memory.data);
            memory.cells[cell] = Words(contents.begin() + from, contents.begin() + stop);
        }
    }

    void run() {
        const uint32_t settle = next(), ending = next();
        ends = ending ? &outputs.at(ending - 1) : nullptr;
        ended = false;
        for (Port& port : inputs) {
            const uint32_t place = next(), count = next();
            if (place >= stored.size()) throw Failure{2, "no such payloads"};
            port.at = 0, port.left = count, port.first.reset(), port.inside = false;
            port.payloads = place ? &stored[place] : &port.own;
            if (!place) port.own = some(count * port.words);
            if (count && port.payloads->size() < port.words) throw Failure{2, "no payloads"};
        }
        for (Port& port : outputs) port.left = next(), port.own.clear();
        counts.clear();
#define COUNT(enable, row) counts.push_back(Words(ROWS));
        PROBES(COUNT)
        begun = last_transfer = cycle;
        const uint32_t before = beats;
        while (busy()) {
            step(false);
            if (cycle - last_transfer > LONG) throw Failure{3, waiting()};
            if (!(cycle & 0x1fff)) progress();
        }
        put({DONE, uint32_t(cycle - begun), uint32_t((cycle - begun) >> 32), beats - before});
        for (const Port& port : inputs) put({port.first.value_or(0)});
        for (const Port& port : outputs) {
            put({uint32_t(port.own.size() / (1 + port.words))});
            put(port.own);
        }
#define VALUE(name) put(get(top.name));
        VALUES(VALUE)
        for (const Words& rows : counts) put(rows);
        std::cout.flush();
        for (uint32_t k = 0; k < settle; k++) step(true);
    }

    // An input whose packet was begun is finished, whatever the outputs gave.
    bool wants(const Port& port) const { return port.left && (!ended || port.inside); }

    bool busy() const {
        for (const Port& port : inputs)
            if (port.valid || wants(port)) return true;
        if (ends) return !ended;
        for (const Port& port : outputs)
            if (port.left) return true;
        return false;
    }

    // Runs a cycle; `idle`: no output is ready.
    void step(bool idle) {
        for (Port& port : inputs)
            if (!port.valid && wants(port) && port.unpaused(pauses))
                port.set(&(*port.payloads)[port.at]), port.valid = 1;
        for (Port& port : outputs) port.ready = !idle && port.unpaused(pauses);
        for (Port& port : shared) drive(port);
        top.eval();
        std::size_t probe = 0;
#define PROBE(enable, row)            \
    if (enable) counts[probe][row]++; \
    probe++;
        PROBES(PROBE)
        (void)probe;
        for (Port& port : outputs) take(port);
        std::vector<Port*> fired;
        for (auto* side : {&inputs, &outputs, &shared})
            for (Port& port : *side)
                if (port.fire()) fired.push_back(&port);
        for (Port& port : shared) pass(port);
        if (!fired.empty()) last_transfer = cycle;
        edge();
        for (Port* port : fired)
            if (port->input) port->valid = 0;
        for (Port* port : fired)
            if (port->payloads) advance(*port);
        cycle++;
    }

    // Drives a stream of the memory before an edge.
    void drive(Port& port) {
        if (!port.input) {
            port.ready = port.unpaused(port.name == "o_command" ? pauses : gaps);
            return;
        }
        const bool read = port.name == "i_read";
        const bool due = read ? memory.read_due(cycle) : memory.response_due(cycle);
        if (port.valid || !due || !port.unpaused(gaps)) return;
        port.set((read ? memory.read() : memory.respond()).data());
        port.valid = 1;
    }

    // Passes what a stream of the memory transfers at an edge.
    void pass(Port& port) {
        if (!port.input) port.check();
        if (!port.fire()) return;
        if (port.name == "o_command") memory.command(port.get(), cycle);
        if (port.name == "o_write") memory.write(port.get(), cycle);
        beats += port.name == "i_read";
    }

    void take(Port& port) {
        port.check();
        if (!port.fire()) return;
        if (!ends && !port.left) throw Failure{4, port.name + ": a beat too many"};
        port.left--;
        const Words payload = port.get();
        port.own.push_back(uint32_t(cycle - begun));
        port.own.insert(port.own.end(), payload.begin(), payload.end());
        ended |= &port == ends && bit(payload.data(), port.last);
        results += &port == &outputs[0];
    }

    // Goes on to the next payload of an input.
    void advance(Port& port) {
        port.inside = port.last >= 0 && !bit(&(*port.payloads)[port.at], port.last);
        port.left--, port.at += port.words;
        if (port.at + port.words > port.payloads->size()) port.at = 0;
        if (!port.first) port.first = cycle - begun;
    }

    std::string waiting() const {
        std::string found = "no transfer for 1,000,000 cycles";
        for (auto* side : {&inputs, &outputs})
            for (const Port& port : *side)
                if (port.left) found += ", " + port.name + " has " + std::to_string(port.left) + " left";
        return found;
    }

    // Reports how far the act is, a few times a second.
    void progress() {
        const auto now = std::chrono::steady_clock::now();
        if (now - reported < std::chrono::milliseconds(200)) return;
        reported = now;
        put({PROGRESS, results});
        std::cout.flush();
    }
};

int main(int argc, char** argv) try {
    if (argc != 3) return 2;
    std::ios::sync_with_stdio(false);
    Bench(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2])).serve();
    return 0;
} catch (const Failure& failure) {
    std::cerr << failure.what << std::endl;
    return failure.code;
}
