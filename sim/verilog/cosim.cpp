// A Verilated core as a process: takes payloads for its inputs on standard input, answers with what
// its outputs give.
//
// bench SEED PAUSES: of 16 cycles, in PAUSES every port pauses, at random. A request is the number
// of its words, and the words, as sim/verilog/cosim.py says. Exit 2: a bad request; 3: no transfer for
// long; 4: an output that is not expected.
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "Vtop.h"
// INPUTS(P) and OUTPUTS(P) call P(name) for each stream.
#include "ports.h"
#include "streams.h"

constexpr uint64_t LONG = 100000;

struct Failure {
    int code;
    std::string what;
};

struct Stream {
    const char* name;
    CData &valid, &ready;
    std::function<void(uint32_t*)> get;
    std::function<void(const uint32_t*)> set;
    std::size_t words;
    Random random;
    // Of an input: the payloads, and the next of them, from the first again after the last one.
    const Words* payloads = nullptr;
    std::size_t at = 0;
    Words own = {};
    uint32_t left = 0;
    bool taken = false;
};

bool load(Words& to, std::size_t count) {
    to.resize(count);
    return bool(std::cin.read(reinterpret_cast<char*>(to.data()), 4 * count));
}
void put(const Words& from) {
    std::cout.write(reinterpret_cast<const char*>(from.data()), 4 * from.size());
}

int main(int argc, char** argv) try {
    if (argc != 3) return 2;
    std::ios::sync_with_stdio(false);
    Generators generators{uint64_t(std::atoll(argv[1]))};
    const uint32_t pauses = std::atoi(argv[2]);
    VerilatedContext context;
    Vtop top{&context};
    std::vector<Stream> inputs, outputs;
#define STREAM(name)                                                                   \
    Stream {                                                                           \
        #name, top.name##_valid, top.name##_ready,                                     \
            [&top](uint32_t* to) { ::get(top.name##_payload, to); },                   \
            [&top](const uint32_t* from) { ::set(top.name##_payload, from); },         \
            ::words(top.name##_payload), generators.next()                             \
    }
#define INPUT(name) inputs.push_back(STREAM(name));
#define OUTPUT(name) outputs.push_back(STREAM(name));
    INPUTS(INPUT)
    OUTPUTS(OUTPUT)
    auto goes = [&](Stream& stream) { return !pauses || stream.random.below(16) >= pauses; };
    auto edge = [&] {
        top.clk = 1;
        top.eval();
        top.clk = 0;
    };
    top.rst = 1;
    for (int k = 0; k < 2; k++) top.eval(), edge();
    top.rst = 0;

    std::vector<Words> stored(1);
    Words request, size;
    while (load(size, 1)) {
        if (!load(request, size[0])) throw Failure{2, "a request is too short"};
        std::size_t at = 0;
        auto next = [&] {
            if (at == request.size()) throw Failure{2, "a request is too short"};
            return request[at++];
        };
        if (!next()) {
            stored.emplace_back(request.begin() + at, request.end());
            continue;
        }
        for (Stream& stream : inputs) {
            const uint32_t place = next(), count = next();
            stream.at = 0, stream.left = count;
            if (place >= stored.size()) throw Failure{2, "no such payloads"};
            stream.payloads = &stored[place];
            if (!place) {
                if (count * stream.words > request.size() - at)
                    throw Failure{2, "a request is too short"};
                const auto from = request.begin() + at;
                stream.own.assign(from, from + count * stream.words);
                stream.payloads = &stream.own, at += stream.own.size();
            }
            if (count && stream.payloads->size() < stream.words)
                throw Failure{2, "no payloads"};
        }
        for (Stream& stream : outputs) stream.left = next(), stream.own.clear();
        auto busy = [&] {
            for (auto* side : {&inputs, &outputs})
                for (const Stream& stream : *side)
                    if (stream.left) return true;
            return false;
        };
        uint64_t cycle = 0, last_transfer = 0;
        for (; busy(); cycle++) {
            for (Stream& stream : inputs)
                if (!stream.valid && stream.left && goes(stream))
                    stream.set(&(*stream.payloads)[stream.at]), stream.valid = 1;
            for (Stream& stream : outputs) stream.ready = goes(stream);
            top.eval();
            for (Stream& stream : outputs) {
                if (!stream.valid || !stream.ready) continue;
                if (!stream.left) throw Failure{4, std::string(stream.name) + ": a beat too many"};
                stream.left--;
                const std::size_t end = stream.own.size();
                stream.own.resize(end + stream.words);
                stream.get(&stream.own[end]);
                last_transfer = cycle;
            }
            for (Stream& stream : inputs) stream.taken = stream.valid && stream.ready;
            edge();
            for (Stream& stream : inputs) {
                if (!stream.taken) continue;
                stream.valid = 0, stream.left--, stream.at += stream.words;
                if (stream.at + stream.words > stream.payloads->size()) stream.at = 0;
                last_transfer = cycle;
            }
            if (cycle - last_transfer > LONG) {
                std::string waits;
                for (auto* side : {&inputs, &outputs})
                    for (const Stream& stream : *side)
                        if (stream.left) waits += std::string(", ") + stream.name + " has " +
                                                  std::to_string(stream.left) + " left";
                throw Failure{3, "no transfer for " + std::to_string(LONG) + " cycles" + waits};
            }
        }
        put({uint32_t(cycle), uint32_t(cycle >> 32)});
        for (const Stream& stream : outputs) put(stream.own);
        std::cout.flush();
    }
    return 0;
} catch (const Failure& failure) {
    std::cerr << failure.what << std::endl;
    return failure.code;
}
