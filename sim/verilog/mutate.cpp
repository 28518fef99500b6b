// Runs one case on every mutant of a core, as the cocotb testbench does, in milliseconds each.
// Usage: bench CASE FIRST LAST SEED; prints a line for each mutant.
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>

#include "Vtop.h"
// INPUTS(P) and OUTPUTS(P) call P(name) for each stream.
#include "ports.h"
#include "streams.h"

struct Port : Stream {
    bool offered = false;
};

struct Phase {
    bool drain;
    std::map<std::string, std::vector<Words>> payloads;
    // By input and output: how many transfers of the output must precede each beat of the input.
    std::map<std::string, std::map<std::string, std::vector<std::size_t>>> after;
};

struct Case {
    bool quiet, retains;
    std::vector<Phase> phases;
};

// Ends a case early, for a reset.
struct Interrupted {};

class Bench {
  public:
    Bench(const Case& stimulus, int mutant, unsigned seed) : stimulus(stimulus), random(seed) {
        Vtop& top = this->top;
        top.mutsel = mutant;
        top.eval();
#define INPUT(name) ADD(name, true)
#define OUTPUT(name) ADD(name, false)
#define ADD(name, input) ports.push_back({STREAM(top, name, input)});
        INPUTS(INPUT)
        OUTPUTS(OUTPUT)
    }

    void reset() {
        for (Port& port : ports) {
            (port.input ? port.valid : port.ready) = 0;
            port.offered = false;
            port.pending.reset();
        }
        top.rst = 1;
        top.eval();
        clock();
        top.rst = 0;
    }

    // Runs the case; with `stalls`, each port pauses in half of the cycles.
    // Ends early after so many cycles or input beats; -1 is never.
    void run(bool stalls, long cycles = -1, long beats = -1) {
        this->stalls = stalls;
        cycles_left = cycles;
        beats_left = beats;
        for (const Phase& phase : stimulus.phases) run(phase);
        for (int k = 0; stimulus.quiet && k < 20; k++)
            for (Port* port : cycle({}, always, always))
                throw Failure{1, port->name + ": a beat after the last one"};
    }

    bool flip() { return random() & 1; }
    long below(long bound) { return long(random() % bound); }

  private:
    Vtop top;
    const Case& stimulus;
    std::mt19937 random;
    std::vector<Port> ports;
    bool stalls = false;
    long cycles_left = -1, beats_left = -1;

    static bool always(const Port&) { return true; }

    void clock() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
    }

    std::vector<Port*> cycle(const std::map<std::string, std::vector<Words>>& send,
                             const std::function<bool(const Port&)>& may_send,
                             const std::function<bool(const Port&)>& wanted) {
        if (cycles_left-- == 0 || beats_left == 0) throw Interrupted{};
        for (Port& port : ports) {
            auto queue = send.find(port.name);
            if (!port.input || port.offered || queue == send.end()) continue;
            if (queue->second.empty() || !may_send(port) || (stalls && flip())) continue;
            port.offered = port.valid = 1;
            port.set(queue->second.front().data());
        }
        top.eval();
        // In half of the stalled cycles ready waits for valid: a core whose valid waits for ready
        // times out.
        for (Port& port : ports)
            if (!port.input)
                port.ready = wanted(port) && !(stalls && (flip() || (!port.valid && flip())));
        top.eval();
        std::vector<Port*> fired;
        for (Port& port : ports) {
            if (!port.input) port.check();
            if (port.valid && port.ready) fired.push_back(&port);
        }
        payloads.clear();
        for (Port* port : fired) payloads[port->name] = port->get();
        clock();
        for (Port* port : fired)
            if (port->input) {
                port->valid = port->offered = 0;
                beats_left--;
            }
        return fired;
    }

    // Of the last cycle's transfers.
    std::map<std::string, Words> payloads;

    void run(const Phase& phase) {
        auto rest = phase.payloads;
        auto any = [&](bool input) {
            return std::any_of(ports.begin(), ports.end(), [&](const Port& port) {
                return port.input == input && !rest[port.name].empty();
            });
        };
        std::map<std::string, std::size_t> transfers;
        auto may_send = [&](const Port& port) {
            auto needed = phase.after.find(port.name);
            if (needed == phase.after.end()) return true;
            std::size_t beat = phase.payloads.at(port.name).size() - rest[port.name].size();
            for (auto& [output, counts] : needed->second)
                if (transfers[output] < counts[beat]) return false;
            return true;
        };
        for (int waited = 0; any(true) || any(false); waited++) {
            bool draining = phase.drain && any(true);
            auto fired = cycle(rest, may_send, [&](const Port& port) {
                return draining || !rest[port.name].empty();
            });
            for (Port* port : fired) {
                auto& left = rest[port->name];
                if (!port->input && draining) continue;
                waited = 0;
                transfers[port->name]++;
                if (!port->input && left.front() != payloads[port->name])
                    throw Failure{1, port->name + ": a wrong payload"};
                left.erase(left.begin());
            }
            if (waited > 5000) throw Failure{1, "timed out"};
        }
    }
};

// Lines of words: "case QUIET RETAINS"; "phase DRAIN"; "port NAME" and its payloads in hex;
// "after INPUT OUTPUT" and a count for each beat of the input.
Case read_case(const char* path) {
    Vtop top;
    std::map<std::string, std::size_t> counts;
#define COUNT(name) counts[#name] = words(top.name##_payload);
    INPUTS(COUNT)
    OUTPUTS(COUNT)
    Case result{};
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream in(line);
        std::string kind, name;
        in >> kind;
        if (kind == "case") {
            in >> result.quiet >> result.retains;
        } else if (kind == "phase") {
            result.phases.emplace_back();
            in >> result.phases.back().drain;
        } else if (kind == "after") {
            std::string output;
            in >> name >> output;
            for (std::size_t count; in >> count;)
                result.phases.back().after[name][output].push_back(count);
        } else {
            in >> name;
            for (std::string hex; in >> hex;)
                result.phases.back().payloads[name].push_back(parse(hex, counts[name]));
        }
    }
    return result;
}

// Cycles after a reset in which its effect is checked.
const long FIRST = 20;

long inputs(const Phase& phase) {
    long beats = 0;
#define BEATS(name)                                                                      \
    if (auto found = phase.payloads.find(#name); found != phase.payloads.end())                \
        beats += found->second.size();
    INPUTS(BEATS)
    return beats;
}

std::string verdict(const Case& stimulus, int mutant, unsigned seed) {
    try {
        for (bool stalls : {false, true}) Bench(stimulus, mutant, seed).run(stalls);
        // Then resets at random cycles, half of them just after an input beat, and the case again.
        long cycles = 1, beats = 0;
        for (const Phase& phase : stimulus.phases) {
            std::size_t most = 0;
            for (auto& [name, payloads] : phase.payloads) most = std::max(most, payloads.size());
            cycles += most;
            beats += inputs(phase);
            if (stimulus.retains) break;
        }
        Bench bench(stimulus, mutant, seed + 1);
        for (int k = 0; k < 8; k++) {
            bench.reset();
            try {
                bool by_beat = beats && k % 2;
                bench.run(true, by_beat ? -1 : 1 + bench.below(cycles),
                           by_beat ? 1 + bench.below(beats) : -1);
            } catch (Interrupted&) {
            }
            bench.reset();
            try {
                bench.run(true, FIRST);
            } catch (Interrupted&) {
            }
        }
        bench.reset();
        bench.run(true);
    } catch (Failure& failure) {
        return "killed " + failure.what;
    }
    return "survives";
}

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    const Case stimulus = read_case(argv[1]);
    for (int mutant = std::stoi(argv[2]); mutant <= std::stoi(argv[3]); mutant++)
        std::cout << mutant << " " << verdict(stimulus, mutant, std::stoul(argv[4])) << std::endl;
}
