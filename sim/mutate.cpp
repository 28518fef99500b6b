// Plays one case on every mutant of a core: as the cocotb bench does, but a mutant takes
// milliseconds. Usage: bench CASE FIRST LAST SEED; prints a line for each mutant.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"
// Lists the streams: INPUTS(P) and OUTPUTS(P) call P(name, bits) for each.
#include "ports.h"

using Words = std::vector<uint32_t>;

template <class T> Words get(const T& port, int count) {
    Words words(count);
    for (int k = 0; k < count; k++) words[k] = uint32_t(uint64_t(port) >> (32 * k));
    return words;
}
template <std::size_t N> Words get(const VlWide<N>& port, int) {
    return Words(port.data(), port.data() + N);
}
template <class T> void set(T& port, const Words& words) {
    port = T(words[0] | (words.size() > 1 ? uint64_t(words[1]) << 32 : 0));
}
template <std::size_t N> void set(VlWide<N>& port, const Words& words) {
    std::copy(words.begin(), words.end(), port.data());
}

struct Port {
    std::string name;
    bool input;
    CData &valid, &ready;
    std::function<Words()> payload;
    std::function<void(const Words&)> drive;
    bool offered = false;
    std::optional<Words> pending = {};
};

struct Phase {
    bool drain;
    std::map<std::string, std::vector<Words>> payloads;
    // By input and output: how many of the output's transfers each beat of the input comes after.
    std::map<std::string, std::map<std::string, std::vector<std::size_t>>> after;
};

struct Case {
    bool quiet, retains;
    std::vector<Phase> phases;
};

struct Mismatch {
    std::string what;
};

// A reset is due: the case is broken off here.
struct Interrupted {};

class Bench {
  public:
    Bench(const Case& played, int mutant, unsigned seed) : played(played), random(seed) {
        top.mutsel = mutant;
        top.eval();
#define INPUT(name, bits) ADD(name, bits, true)
#define OUTPUT(name, bits) ADD(name, bits, false)
#define ADD(stem, bits, input)                                                                \
    ports.push_back({#stem, input, top.stem##_valid, top.stem##_ready,              \
                     [this] { return get(top.stem##_payload, (bits + 31) / 32); },       \
                     [this](const Words& w) { set(top.stem##_payload, w); }});
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

    // Plays the case, with each port waiting in half of the cycles if `stalls`.
    // Breaks off after so many cycles or input beats; -1 is never.
    void play(bool stalls, long cycles = -1, long beats = -1) {
        this->stalls = stalls;
        cycles_left = cycles;
        beats_left = beats;
        for (const Phase& phase : played.phases) play(phase);
        for (int k = 0; played.quiet && k < 20; k++)
            for (Port* port : cycle({}, always, always))
                throw Mismatch{port->name + ": a beat after the last one"};
    }

    bool flip() { return random() & 1; }
    long below(long bound) { return long(random() % bound); }

  private:
    Vtop top;
    const Case& played;
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
            auto payloads = send.find(port.name);
            if (!port.input || port.offered || payloads == send.end()) continue;
            if (payloads->second.empty() || !may_send(port) || (stalls && flip())) continue;
            port.offered = port.valid = 1;
            port.drive(payloads->second.front());
        }
        top.eval();
        // Half of the stalled cycles wait for valid: a core whose valid waits for ready hangs.
        for (Port& port : ports)
            if (!port.input)
                port.ready = wanted(port) && !(stalls && (flip() || (!port.valid && flip())));
        top.eval();
        std::vector<Port*> moved;
        for (Port& port : ports) {
            if (!port.input) monitor(port);
            if (port.valid && port.ready) moved.push_back(&port);
        }
        taken.clear();
        for (Port* port : moved) taken[port->name] = port->payload();
        clock();
        for (Port* port : moved)
            if (port->input) {
                port->valid = port->offered = 0;
                beats_left--;
            }
        return moved;
    }

    std::map<std::string, Words> taken;

    void monitor(Port& port) {
        if (port.pending && !port.valid) throw Mismatch{port.name + ": valid fell"};
        if (port.pending && port.payload() != *port.pending)
            throw Mismatch{port.name + ": the payload changed while it waited"};
        port.pending.reset();
        if (port.valid && !port.ready) port.pending = port.payload();
    }

    void play(const Phase& phase) {
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
            auto moved = cycle(rest, may_send, [&](const Port& port) {
                return draining || !rest[port.name].empty();
            });
            for (Port* port : moved) {
                auto& payloads = rest[port->name];
                if (!port->input && draining) continue;
                waited = 0;
                transfers[port->name]++;
                if (!port->input && payloads.front() != taken[port->name])
                    throw Mismatch{port->name + ": a wrong payload"};
                payloads.erase(payloads.begin());
            }
            if (waited > 5000) throw Mismatch{"hangs"};
        }
    }
};

Words parse(const std::string& hex, int count) {
    Words words(count);
    for (std::size_t k = 0; k < hex.size(); k++) {
        std::size_t digit = hex.size() - 1 - k;
        words[k / 8] |= uint32_t(std::stoi(hex.substr(digit, 1), nullptr, 16)) << (4 * (k % 8));
    }
    return words;
}

// Lines of words: "case QUIET RETAINS", "phase DRAIN", "port NAME" and its payloads in hex,
// "after INPUT OUTPUT" and a count for each beat of the input.
Case read(const char* path) {
    std::map<std::string, int> counts;
#define COUNT(name, bits) counts[#name] = (bits + 31) / 32;
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

// Cycles after a reset that show whether it worked.
const long FIRST = 20;

long inputs(const Phase& phase) {
    long beats = 0;
#define BEATS(name, bits)                                                                      \
    if (auto found = phase.payloads.find(#name); found != phase.payloads.end())                \
        beats += found->second.size();
    INPUTS(BEATS)
    return beats;
}

std::string verdict(const Case& played, int mutant, unsigned seed) {
    try {
        for (bool stalls : {false, true}) Bench(played, mutant, seed).play(stalls);
        // Then resets anywhere, half of them just after an input beat: it plays like new.
        long cycles = 1, beats = 0;
        for (const Phase& phase : played.phases) {
            std::size_t most = 0;
            for (auto& [name, payloads] : phase.payloads) most = std::max(most, payloads.size());
            cycles += most;
            beats += inputs(phase);
            if (played.retains) break;
        }
        Bench bench(played, mutant, seed + 1);
        for (int k = 0; k < 8; k++) {
            bench.reset();
            try {
                bool by_beat = beats && k % 2;
                bench.play(true, by_beat ? -1 : 1 + bench.below(cycles),
                           by_beat ? 1 + bench.below(beats) : -1);
            } catch (Interrupted&) {
            }
            bench.reset();
            try {
                bench.play(true, FIRST);
            } catch (Interrupted&) {
            }
        }
        bench.reset();
        bench.play(true);
    } catch (Mismatch& mismatch) {
        return "killed " + mismatch.what;
    }
    return "survives";
}

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    Case played = read(argv[1]);
    for (int mutant = std::stoi(argv[2]); mutant <= std::stoi(argv[3]); mutant++)
        std::cout << mutant << " " << verdict(played, mutant, std::stoul(argv[4])) << std::endl;
}
