// Runs a script on a core's streams, with a memory with error injection.
//
// bench SCRIPT SEED; a step is a line of words, payloads in hexadecimal:
//   define NAME .. end      steps that `call NAME` runs
//   send PORT PAYLOAD ..    queues beats for an input
//   drop                    discards queued beats that are not offered yet
//   expect PORT PAYLOAD ..  beats that an output must give next
//   ignore 0|1              whether beats that are not expected are ignored, or an error
//   done                    runs until all queues are empty and all expected beats have come
//   until PORT BIT          runs until a beat of an output has that bit set
//   cycles COUNT            runs so many cycles
//   fault AFTER KIND COUNT  an error of a burst, AFTER others of its direction: of a read,
//                           error (in beat COUNT, which then has random data), short or long (by
//                           COUNT beats); of a write, response
//   store ADDRESS BEAT ..   puts beats into the memory
//   deaf                    from now on, the memory takes no command
//   heal                    cancels the errors that have not occurred yet, and deafness
//   stray COUNT             unrequested read beats, or with 0 a response
//   forget COUNT            in so many cycles, the memory drops outstanding reads and responses
//   reset 0|1               resets the core; with 1, the memory drops those too
// Exit 1: a wrong beat, a broken stream rule, or a time-out; standard error has the message.
#include <deque>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "Vtop.h"
// INPUTS(P), OUTPUTS(P) and MEMORY(P) call P for each stream, as in cosim.cpp.
#include "ports.h"
#include "streams.h"

// A stream with the steps' beats.
struct Port : Stream {
    Random random;
    // Of an input: beats to send. Of an output: beats that are expected.
    std::deque<Words> queue = {};
    Words last = {};
    bool fired = false;
};

class Bench {
  public:
    explicit Bench(uint64_t seed) : seed(seed) {
        Vtop& top = this->top;
#define ADD(name, number, last)                                                               \
    streams.emplace(#name, Port{STREAM(top, name, #name[0] == 'i'), generator(seed, number)});
        INPUTS(ADD)
        OUTPUTS(ADD)
        MEMORY(ADD)
        top.eval();
    }

    void run(const std::vector<std::string>& lines) {
        for (const std::string& line : lines) {
            std::istringstream in(line);
            std::string word, name;
            in >> word;
            where = line.substr(0, 60);
            uint64_t count = 0;
            if (word == "send" || word == "expect") {
                in >> name;
                Port& stream = streams.at(name);
                for (std::string hex; in >> hex;) stream.queue.push_back(parse(hex, stream.words));
            } else if (word == "call") {
                in >> name;
                run(defined.at(name));
            } else if (word == "drop") {
                for (auto& [_, stream] : streams) stream.queue.clear();
            } else if (word == "ignore") {
                in >> ignores;
            } else if (word == "done") {
                steps([&] {
                    for (auto& [_, stream] : streams)
                        if (!stream.queue.empty() || (stream.input && !memory(_) && stream.valid))
                            return false;
                    return true;
                });
            } else if (word == "until") {
                in >> name >> count;
                Port& stream = streams.at(name);
                stream.fired = false;
                steps([&] { return stream.fired && bit(stream.last.data(), count); });
            } else if (word == "cycles") {
                in >> count;
                for (; count; count--) cycle();
            } else if (word == "fault") {
                Fault fault;
                in >> fault.after >> fault.kind >> fault.count;
                cells.faults.push_back(fault);
            } else if (word == "store") {
                in >> count;
                for (std::string hex; in >> hex;)
                    cells.cells[count++] = parse(hex, BEAT_BITS / 32);
            } else if (word == "deaf") {
                deaf = true;
            } else if (word == "heal") {
                cells.faults.clear();
                forgets = 0;
                deaf = false;
            } else if (word == "stray") {
                in >> count;
                strays += count;
                if (!count) cells.responses.push_back({now, false});
            } else if (word == "reset") {
                in >> count;
                if (count) forget();
                reset();
            } else if (word == "forget") {
                in >> count;
                forgets = now + count;
            } else {
                throw Failure{1, "no such step"};
            }
        }
    }

    std::map<std::string, std::vector<std::string>> defined;
    std::string where;
    uint64_t now = 0;

  private:
    Vtop top;
    uint64_t seed;
    std::map<std::string, Port> streams;
    bool ignores = false, deaf = false;
    // The memory answers after 2 to 41 cycles.
    Memory cells{BEAT_BITS / 32, ADDRESS_BITS, 0, generator(seed, LATENCIES), 2, 41,
                 1ULL << ADDRESS_BITS};
    uint64_t strays = 0, forgets = 0;

    static bool memory(const std::string& name) { return name == "i_read" || name == "i_response"; }

    static std::string hex(const Words& from) {
        std::ostringstream out;
        for (auto word = from.rbegin(); word != from.rend(); word++)
            out << std::hex << std::setw(8) << std::setfill('0') << *word;
        return out.str();
    }

    void clock() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
        now++;
    }

    void forget() {
        cells.reads.clear();
        cells.responses.clear();
        strays = forgets = 0;
        for (auto& [name, stream] : streams)
            if (memory(name)) stream.valid = 0;
    }

    void reset() {
        top.rst = 1;
        for (auto& [name, stream] : streams) {
            stream.pending.reset();
            if (stream.input && !memory(name)) stream.valid = 0;
            stream.queue.clear();
        }
        // Write bursts end with a reset of the core, as the memory's ports define.
        cells.writes.clear();
        cells.written.clear();
        cells.faults.clear();
        top.eval();
        clock();
        top.rst = 0;
        top.eval();
    }

    template <class Until> void steps(Until until) {
        for (uint64_t waited = 0; !until(); waited++) {
            if (waited > 300000) throw Failure{1, "timed out"};
            if (cycle()) waited = 0;
        }
    }

    // One cycle; returns whether there was a transfer at a port other than the memory's.
    bool cycle() {
        if (forgets && now >= forgets) forget();
        for (auto& [name, stream] : streams) {
            const bool unpaused = stream.random.below(4) != 0;
            if (!stream.input) {
                stream.ready = unpaused && !(deaf && name == "o_command");
            } else if (!stream.valid && unpaused) {
                std::optional<Words> next;
                if (name == "i_read") {
                    next = read();
                } else if (name == "i_response") {
                    next = response();
                } else if (!stream.queue.empty()) {
                    next = stream.queue.front();
                    stream.queue.pop_front();
                }
                if (next) stream.set(next->data()), stream.valid = 1;
            }
        }
        top.eval();
        bool progress = false;
        for (auto& [name, stream] : streams) {
            stream.fired = stream.valid && stream.ready;
            if (stream.fired) stream.last = stream.get();
            if (stream.fired && !memory(name)) progress = true;
            if (!stream.input) check(name, stream);
        }
        clock();
        for (auto& [name, stream] : streams)
            if (stream.input && stream.fired) stream.valid = 0, top.eval();
        return progress;
    }

    void check(const std::string& name, Port& stream) {
        stream.check();
        if (!stream.fired) return;
        if (name == "o_command") {
            cells.command(stream.last, now);
        } else if (name == "o_write") {
            cells.write(stream.last, now);
        } else if (!stream.queue.empty()) {
            if (stream.queue.front() != stream.last)
                throw Failure{1, name + ": expected " + hex(stream.queue.front()) + ", got " +
                              hex(stream.last)};
            stream.queue.pop_front();
        } else if (!ignores) {
            throw Failure{1, name + ": a beat too many"};
        }
    }

    // The next beat of memory, if there is one.
    std::optional<Words> read() {
        if (strays) {
            strays--;
            Words found = cells.noise();
            found.push_back(cells.random.below(2) << 1);
            return found;
        }
        if (!cells.read_due(now)) return {};
        return cells.read();
    }

    std::optional<Words> response() {
        if (!cells.response_due(now)) return {};
        return cells.respond();
    }
};

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    Bench bench(std::stoull(argv[2]));
    std::ifstream file(argv[1]);
    uint64_t number = 0;
    std::vector<std::string>* defining = nullptr;
    try {
        for (std::string line; std::getline(file, line);) {
            number++;
            if (line.rfind("define ", 0) == 0) {
                defining = &bench.defined[line.substr(7)];
            } else if (line == "end") {
                defining = nullptr;
            } else if (defining) {
                defining->push_back(line);
            } else {
                bench.run({line});
            }
        }
    } catch (const Failure& failure) {
        std::cerr << "line " << number << ", cycle " << bench.now << ", at '" << bench.where
                  << "': " << failure.what << std::endl;
        return 1;
    }
    std::cout << bench.now << std::endl;
    return 0;
}
