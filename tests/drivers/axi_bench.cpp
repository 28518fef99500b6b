// The driver of the AXI cores on emitted Verilog: registers, DMA with random pauses, and a memory.
//
// bench SCRIPT SEED: runs the lines of a script, and prints what each gives.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "Vtop.h"
#include "streams.h"

#include "seedbed_cores.h"

// An AXI4-Stream, and the packet of its DMA.
struct Axis {
    const char* name;
    bool input;
    std::size_t bytes;
    CData &valid, &ready, &last;
    std::function<Words()> get, get_user;
    std::function<void(const uint32_t*)> set, set_user;
    Random random = {1};
    bool active = false, fire = false;
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
    uint32_t* to_users = nullptr;
    std::size_t size = 0, at = 0;
    std::vector<uint32_t> users = {};
    std::optional<Words> waiting = {};
};

static Vtop top;
static std::vector<Axis> axes;
static std::vector<uint8_t> ram(1 << 20);
static Random pauses = {1};
static uint64_t cycles = 0;

#include "ports.h"

static void require(bool holds, const std::string& what) {
    if (!holds) throw Failure{1, what};
}

static bool chance() { return pauses.below(2); }

// The AXI4 memory: reads and writes in order.
struct Ram {
    struct Burst {
        uint32_t address, left;
    };
    std::deque<Burst> reads, writes;
    unsigned answers = 0;
#ifdef HAS_MEMORY
    static constexpr std::size_t bytes = BEAT_BYTES;

    void before() {
        if (!top.m_axi_rvalid && !reads.empty() && chance()) {
            Words beat(bytes / 4);
            std::memcpy(beat.data(), &ram.at(reads.front().address), bytes);
            ::set(top.m_axi_rdata, beat.data());
            top.m_axi_rlast = reads.front().left == 1;
            top.m_axi_rvalid = 1;
        }
        if (!top.m_axi_bvalid && answers && chance()) top.m_axi_bvalid = 1;
        top.m_axi_arready = chance(), top.m_axi_awready = chance();
        top.m_axi_wready = !writes.empty() && chance();
    }
    void after() {
        if (read) {
            top.m_axi_rvalid = 0;
            reads.front().address += bytes;
            if (!--reads.front().left) reads.pop_front();
        }
        if (answered) top.m_axi_bvalid = 0, answers--;
        if (written) {
            std::memcpy(&ram.at(writes.front().address), beat.data(), bytes);
            writes.front().address += bytes;
            if (!--writes.front().left) writes.pop_front(), answers++;
        }
        if (asked.left) reads.push_back(asked);
        if (begun.left) writes.push_back(begun);
    }
    void sample() {
        read = top.m_axi_rvalid && top.m_axi_rready;
        answered = top.m_axi_bvalid && top.m_axi_bready;
        written = top.m_axi_wvalid && top.m_axi_wready;
        beat = ::get(top.m_axi_wdata);
        const bool ar = top.m_axi_arvalid && top.m_axi_arready;
        const bool aw = top.m_axi_awvalid && top.m_axi_awready;
        asked = {top.m_axi_araddr, ar ? top.m_axi_arlen + 1u : 0};
        begun = {top.m_axi_awaddr, aw ? top.m_axi_awlen + 1u : 0};
    }
    bool read = false, answered = false, written = false;
    Words beat;
    Burst asked = {}, begun = {};
#else
    void before() {}
    void sample() {}
    void after() {}
#endif
};
static Ram memory;

// What of the AXI4-Lite port was transferred in the last cycle.
static struct { bool write, response, address, value; uint32_t code, word; } lite;

static void present(Axis& axis) {
    if (!axis.input) {
        axis.ready = axis.active && axis.random.below(2);
        return;
    }
    if (axis.valid || !axis.active || axis.random.below(2)) return;
    Words beat((axis.bytes + 7) / 4, 0);
    const std::size_t count = std::min(axis.bytes, axis.size - axis.at);
    std::memcpy(beat.data(), axis.from + axis.at, count);
    axis.set(beat.data());
    if (!axis.users.empty()) {
        const std::size_t number = axis.at / axis.bytes;
        axis.set_user(&axis.users[std::min(number, axis.users.size() - 1)]);
    }
    axis.last = axis.at + count == axis.size;
    axis.valid = 1;
}

// Before the clock's edge: the stream rules of an output, and its beat.
static void take(Axis& axis) {
    axis.fire = axis.valid && axis.ready;
    if (axis.input) return;
    require(!axis.waiting || (axis.valid && axis.get() == *axis.waiting),
            std::string(axis.name) + ": changed before its transfer");
    axis.waiting.reset();
    if (axis.valid && !axis.ready) axis.waiting = axis.get();
    if (!axis.fire) return;
    require(axis.at + axis.bytes <= axis.size, std::string(axis.name) + ": a packet is too long");
    const Words beat = axis.get();
    std::memcpy(axis.to + axis.at, beat.data(), axis.bytes);
    if (axis.to_users) *axis.to_users++ = axis.get_user()[0];
    axis.at += axis.bytes;
    if (axis.last) axis.active = false;
}

// After the clock's edge.
static void give(Axis& axis) {
    if (!axis.input || !axis.fire) return;
    axis.valid = 0;
    axis.at += axis.bytes;
    if (axis.at >= axis.size) axis.active = false;
}

static void tick() {
    for (Axis& axis : axes) present(axis);
    memory.before();
    top.eval();
    for (Axis& axis : axes) take(axis);
    memory.sample();
#ifdef HAS_REGISTERS
    lite.write = top.s_axi_control_awvalid && top.s_axi_control_awready;
    lite.response = top.s_axi_control_bvalid && top.s_axi_control_bready;
    lite.address = top.s_axi_control_arvalid && top.s_axi_control_arready;
    lite.value = top.s_axi_control_rvalid && top.s_axi_control_rready;
    if (lite.response) lite.code = top.s_axi_control_bresp;
    if (lite.value) lite.code = top.s_axi_control_rresp, lite.word = top.s_axi_control_rdata;
#endif
    top.aclk = 1, top.eval();
    top.aclk = 0;
    for (Axis& axis : axes) give(axis);
    memory.after();
    require(++cycles < 2000000, "the job does not end");
}

static bool write_register(void*, uint32_t offset, uint32_t value) {
#ifdef HAS_REGISTERS
    top.s_axi_control_awaddr = offset, top.s_axi_control_wdata = value;
    top.s_axi_control_wstrb = 15;
    top.s_axi_control_awvalid = top.s_axi_control_wvalid = top.s_axi_control_bready = 1;
    do tick();
    while (!lite.write);
    top.s_axi_control_awvalid = top.s_axi_control_wvalid = 0;
    while (!lite.response) tick();
    return lite.code == 0;
#else
    return (void)offset, (void)value, false;
#endif
}

static bool read_register(void*, uint32_t offset, uint32_t* value) {
#ifdef HAS_REGISTERS
    top.s_axi_control_araddr = offset;
    top.s_axi_control_arvalid = top.s_axi_control_rready = 1;
    do tick();
    while (!lite.address);
    top.s_axi_control_arvalid = 0;
    while (!lite.value) tick();
    *value = lite.word;
    return lite.code == 0;
#else
    return (void)offset, (void)value, false;
#endif
}

static bool send(void*, unsigned stream, const void* data, std::size_t bytes, const uint32_t* users,
                 std::size_t count) {
    Axis& axis = axes.at(stream);
    if (axis.active) return false;
    axis.active = true;
    axis.from = static_cast<const uint8_t*>(data), axis.size = bytes, axis.at = 0;
    axis.users.assign(users, users + count);
    return true;
}

static bool receive(void*, unsigned stream, void* data, std::size_t room, uint32_t* users) {
    Axis& axis = axes.at(stream);
    if (axis.active) return false;
    axis.active = true;
    axis.to = static_cast<uint8_t*>(data), axis.size = room, axis.at = 0, axis.to_users = users;
    return true;
}

static int done(void*, unsigned stream, std::size_t* bytes) {
    const Axis& axis = axes.at(stream);
    *bytes = axis.at;
    return !axis.active;
}

static void cancel(void*, unsigned stream) { axes.at(stream).active = false; }

static void reset() {
    top.aresetn = 0;
    for (int k = 0; k < 4; k++) tick();
    top.aresetn = 1;
    tick();
}

template <class T> std::vector<T> load(const std::string& path) {
    if (path == "-") return {};
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::vector<T> found(text.size() / sizeof(T));
    std::memcpy(found.data(), text.data(), text.size());
    return found;
}

// What a script gives to a stream; it stays in its place.
struct Given {
    std::vector<uint8_t> data;
    std::vector<uint32_t> users;
    std::vector<std::size_t> sizes;
};

static void show(enum seedbed_axi_error error) { std::cout << seedbed_axi_text(error) << "\n"; }

static void run(struct seedbed_axi& axi, std::map<unsigned, Given>& given, std::istream& words) {
    std::string name, path, users, sizes;
    std::vector<uint32_t> values;
    unsigned stream = 0;
    words >> name;
    if (name == "send") {
        struct seedbed_axi_input input = {};
        words >> stream >> path >> input.packets >> input.bytes >> users >>
            input.users_of_packet >> sizes >> input.beat;
        Given& of = given[stream];
        of = {load<uint8_t>(path), load<uint32_t>(users), {}};
        for (uint32_t size : load<uint32_t>(sizes)) of.sizes.push_back(size);
        input.data = of.data.data(), input.users = of.users.data();
        input.sizes = of.sizes.empty() ? nullptr : of.sizes.data();
        require(!seedbed_axi_send(&axi, stream, &input), "send");
    } else if (name == "receive") {
        struct seedbed_axi_output output = {};
        words >> stream >> output.room >> output.packets;
        Given& of = given[stream];
        of = {std::vector<uint8_t>(output.room), std::vector<uint32_t>(output.room), {}};
        output.data = of.data.data(), output.users = of.users.data();
        require(!seedbed_axi_receive(&axi, stream, &output), "receive");
    } else if (name == "poll" || name == "abort") {
        // abort N: after so many polls.
        enum seedbed_axi_error error;
        unsigned polls = 0, after = 0;
        words >> after;
        while ((error = seedbed_axi_poll(&axi)) == SEEDBED_AXI_BUSY) {
            if (name == "abort" && ++polls == after) require(!seedbed_axi_abort(&axi), "abort");
            for (int k = 0; k < 20; k++) tick();
        }
        show(error);
        if (error == SEEDBED_AXI_STATUS) std::cout << seedbed_axi_status_text(&axi) << "\n";
    } else if (name == "show") {
        words >> stream;
        const Given& of = given[stream];
        const std::size_t size = seedbed_axi_received(&axi, stream);
        for (std::size_t k = 0; k < size; k++) std::printf("%02x", of.data[k]);
        std::printf("\n");
        for (std::size_t k = 0; k < size / axes[stream].bytes; k++)
            std::printf("%s%x", k ? " " : "", of.users[k]);
        std::printf("\n");
    } else if (name == "reset") {
        reset();
        show(seedbed_axi_open(&axi, axi.core, &axi.port));
    } else if (name == "memory") {
        uint32_t address;
        words >> path >> address;
        const auto data = load<uint8_t>(path);
        std::copy(data.begin(), data.end(), ram.begin() + address);
    } else {
        for (uint32_t value; words >> value;) values.push_back(value);
        if (name == "read") {
            uint32_t value = 0;
            require(read_register(nullptr, values.at(0), &value), "read");
            std::cout << value << "\n";
        } else {
            show(command(&axi, name, values));
        }
    }
    std::fflush(stdout);
    std::cout.flush();
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const uint64_t seed = std::stoull(argv[2]);
    connect();
    for (unsigned k = 0; k < axes.size(); k++) axes[k].random = generator(seed, k + 1);
    pauses = generator(seed, 99);
    std::ifstream script(argv[1]);
    const struct seedbed_axi_port port = {nullptr, write_register, read_register, send,
                                          receive, done,           cancel};
    static struct seedbed_axi axi;
    std::map<unsigned, Given> given;
    std::string line;
    try {
        reset();
        require(!seedbed_axi_open(&axi, &CORE, &port), "open");
        while (std::getline(script, line)) {
            std::istringstream words(line);
            run(axi, given, words);
        }
    } catch (const Failure& failure) {
        std::cerr << line << ", cycle " << cycles << ": " << failure.what << std::endl;
        return failure.code;
    }
    return 0;
}
