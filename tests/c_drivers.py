"""Drivers in C for tests: compiled as for a device without an operating system."""

import subprocess
from hashlib import sha256
from pathlib import Path

import numpy as np
from amaranth.hdl import Shape

from seedbed.boards import drivers
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.emit.verilog import write
from seedbed.sim.verilog import cpp_bench
from seedbed.spec.axi_registers import AXI_REGISTERS

HERE = Path(__file__).parent / "drivers"
FOLDER = drivers.FOLDER / "c"
#: As a user's project may ask for.
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
FREESTANDING = [*FLAGS, "-ffreestanding"]


def gcc(*words):
    done = subprocess.run(["gcc", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def library(folder):
    """Return an archive of all drivers; its name is of its contents."""
    sources = sorted(FOLDER.glob("*.c"))
    texts = [path.read_text() for path in sorted(FOLDER.glob("*.[ch]"))]
    made = (
        folder
        / f"libseedbed-{sha256(''.join([*texts, *FREESTANDING]).encode()).hexdigest()[:16]}.a"
    )
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        objects = [folder / f"{path.stem}.o" for path in sources]
        for source, compiled in zip(sources, objects, strict=True):
            gcc(*FREESTANDING, "-c", source, "-o", compiled)
        subprocess.run(["ar", "rcs", made, *objects], check=True)
    return made


def host(folder):
    """Return a program for a host with POSIX, see host.c."""
    made = folder / "host"
    gcc(*FLAGS, f"-I{FOLDER}", HERE / "host.c", library(folder), "-o", made)
    return made


#: Commands of scripts for each core: the words after the name are ``values``.
COMMANDS = {
    "gemv": {
        "start": "seedbed_gemv_start(axi, v.at(0), v.at(1), seedbed_gemv_mode(v.at(2)))",
        "clear": "seedbed_gemv_clear(axi)",
    },
    "forward_cache": {"start": "seedbed_forward_cache_start(axi, v.at(0), uint16_t(v.at(1)))"},
    "instantft": {
        "start": "start_instantft(axi, v)",
        "base": "seedbed_instantft_base(axi, v.at(0))",
    },
    "zo_trainer": {"start": "start_zo_trainer(axi, v)", "schedule": "schedule(axi, v)"},
    "sparse_trainer": {
        "start": "start_sparse_trainer(axi, v)",
        "base": "seedbed_sparse_trainer_base(axi, v.at(0))",
    },
    "stream_engine": {
        "start": "start_stream_engine(axi, v)",
        "base": "seedbed_stream_engine_base(axi, v.at(0))",
    },
    "stream_trainer": {
        "start": "start_stream_trainer(axi, v)",
        "base": "seedbed_stream_trainer_base(axi, v.at(0))",
    },
}
_SCHEDULE = """
static enum seedbed_axi_error schedule(struct seedbed_axi* axi, const std::vector<uint32_t>& v) {
    std::vector<struct seedbed_zo_trainer_entry> entries;
    for (std::size_t k = 0; k + 3 < v.size(); k += 4)
        entries.push_back(
            {uint16_t(v[k]), uint8_t(v[k + 1]), uint8_t(v[k + 2]), uint8_t(v[k + 3])});
    return seedbed_zo_trainer_schedule(axi, entries.data(), entries.size());
}
"""


def ports_header(name, config):
    """Return what axi_bench.cpp includes: streams, memory and commands of a core."""
    members = WRAPPERS[f"{name}_axi"].signature(config).members
    streams = drivers.streams(name)
    lines = [f"#define CORE seedbed_{name}_axi"]
    if "s_axi_control_awaddr" in members:
        lines.append("#define HAS_REGISTERS")
    if "m_axi_wdata" in members:
        width = Shape.cast(members["m_axi_wdata"].shape).width
        lines += ["#define HAS_MEMORY", f"#define BEAT_BYTES {width // 8}"]
    lines.append("static void connect() {")
    for port in streams:
        bits = Shape.cast(members[f"{port}_tdata"].shape).width
        user = f"{port}_tuser" in members
        get_user = f"return ::get(top.{port}_tuser);" if user else "return Words{0};"
        given = port.startswith("s_")
        set_user = f"::set(top.{port}_tuser, from);" if user and given else "(void)from;"
        set_data = f"::set(top.{port}_tdata, from);" if given else "(void)from;"
        lines.append(
            f'    axes.push_back(Axis{{"{port}", {str(given).lower()}, {-(-bits // 8)}, '
            f"top.{port}_tvalid, top.{port}_tready, top.{port}_tlast, "
            f"[] {{ return ::get(top.{port}_tdata); }}, [] {{ {get_user} }}, "
            f"[](const uint32_t* from) {{ {set_data} }}, "
            f"[](const uint32_t* from) {{ {set_user} }}}});"
        )
    lines.append("}")
    fields = [r.name for r in AXI_REGISTERS.get(name, ()) if r.access == "write"]
    fields = [field for field in fields if field != "base"]
    if f"start_{name}" in COMMANDS[name]["start"]:
        values = ", ".join(f"v.at({k})" for k in range(len(fields)))
        lines += [
            f"static enum seedbed_axi_error start_{name}(struct seedbed_axi* axi, "
            "const std::vector<uint32_t>& v) {",
            f"    const struct seedbed_{name}_command command = {{{values}}};",
            f"    return seedbed_{name}_start(axi, &command);",
            "}",
        ]
    if name == "zo_trainer":
        lines.append(_SCHEDULE)
    lines += [
        "static enum seedbed_axi_error command(struct seedbed_axi* axi, const std::string& name, "
        "const std::vector<uint32_t>& v) {",
        *(f'    if (name == "{each}") return {call};' for each, call in COMMANDS[name].items()),
        "    (void)axi, (void)v;",
        '    throw Failure{2, "no command " + name};',
        "}",
    ]
    return "\n".join(lines) + "\n"


def gemv_packets(config, job):
    """Return the packet of a product's vector, and those of its rows."""
    octets = -(-config.activation_width // 8)
    lanes = job.vector.reshape(-1).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :octets]
    flat = job.weights.reshape(-1, config.beat_bits // 8)
    ends = np.cumsum(job.lengths)
    rows = [flat[end - beats : end].tobytes() for beats, end in zip(job.lengths, ends, strict=True)]
    return lanes.tobytes(), rows


def axi_bench(name, params, build):
    """Return a function that runs a script on a core's emitted Verilog, and the configuration.

    The function yields the lines that are printed, for each of some seeds of pauses.
    """
    core = WRAPPERS[f"{name}_axi"]
    config = core.configure({**core.small, **params})
    verilog = write(core, {**core.small, **params}, build / "drivers", kept=build)
    archive = library(build / "drivers")
    flags = ["-CFLAGS", f"-I{FOLDER}", "-LDFLAGS", str(archive.resolve())]
    files = {"ports.h": ports_header(name, config)}
    program = cpp_bench.executable(
        HERE / "axi_bench.cpp",
        verilog,
        core.name,
        build=build / "drivers",
        flags=flags,
        files=files,
    )

    def run(script):
        for seed in (1, 2):
            done = subprocess.run([program, script, str(seed)], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            yield done.stdout.split("\n")[:-1]

    return run, config
