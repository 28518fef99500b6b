"""LiteDRAM and the controller ``sdram`` side by side: one chip, one pattern, one simulator."""

from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from litedram import init, modules
from litedram.core import LiteDRAMCore
from litedram.phy import GENSDRPHY
from litex.gen import LiteXModule
from litex.gen.fhdl.verilog import convert
from litex.soc.interconnect import csr_bus
from migen import ClockDomain, Module, Record
from migen.fhdl.specials import Tristate

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import synth
from seedbed.flow.fpga.synth import Progress, notify
from seedbed.flow.report.row import Row
from seedbed.flow.run.files import write_atomic
from seedbed.sim import child, tools
from seedbed.sim.sdram_chip import figures
from seedbed.sim.verilog import cpp_bench
from seedbed.spec import SdramConfig

__all__ = ["PATTERNS", "compare", "measure", "patterns", "programs"]

#: The chip is one that LiteDRAM knows.
CONFIG = SdramConfig(chip="MT48LC16M16A2-75")
TARGET = "ecp5"
SEED = 1
#: Patterns: bursts, their beats of 64 bits, and whether they are in sequence or at random.
PATTERNS = {"stream": (64, 256, False), "bursts": (512, 16, True), "beats": (2048, 1, True)}
#: Bits of LiteDRAM's port: a beat as that of ``sdram``, and a word of the chip.
WIDTHS = (64, 16)
#: Bits of DFII's command register, as LiteX's software has them.
_COMMAND = {"CS": 1, "WE": 2, "CAS": 4, "RAS": 8}
_CONTROL = {"SEL": 1, "CKE": 2, "ODT": 4, "RESET_N": 8}


class _Top(LiteXModule):
    """LiteDRAM with a port of ``width`` bits, and registers by which a host starts the chip."""

    def __init__(self, width: int):
        clock = CONFIG.clock_mhz * 1e6
        chip = modules.MT48LC16M16(clock, "1:1")
        self.cd_sys = ClockDomain()
        wires = [("cke", 1), ("ras_n", 1), ("cas_n", 1), ("we_n", 1)]
        wires += [("a", 13), ("ba", 2), ("dq", 16), ("dq_o", 16), ("dq_oe", 16), ("dq_i", 16)]
        self.pads = Record(wires, name="pads")
        self.phy = GENSDRPHY(self.pads, clock)
        self.sdram = LiteDRAMCore(self.phy, chip.geom_settings, chip.timing_settings, clock)
        self.port = self.sdram.crossbar.get_port(data_width=width)
        self.bus = csr_bus.Interface(data_width=32)
        self.banks = csr_bus.CSRBankArray(self, lambda name, memory: 0, data_width=32)
        self.interconnect = csr_bus.Interconnect(self.bus, self.banks.get_buses())
        self.start, _ = init.get_sdr_phy_init_sequence(self.phy.settings, chip.timing_settings)

    def data_pin(self) -> type:
        """Return what replaces a bidirectional pin: three ports, as those of ``sdram``."""
        pads = self.pads

        class Pin:
            @staticmethod
            def lower(pin: Any) -> Module:
                bit = pin.target.start
                found = Module()
                found.comb += [
                    pads.dq_o[bit].eq(pin.o),
                    pads.dq_oe[bit].eq(pin.oe),
                    pin.i.eq(pads.dq_i[bit]),
                ]
                return found

        return Pin

    def ports(self) -> set[Any]:
        """Return the signals that are ports of the Verilog."""
        found = {self.cd_sys.clk, self.cd_sys.rst, *self.pads.flatten(), *self.bus.flatten()}
        found.remove(self.pads.dq)
        for stream in (self.port.cmd, self.port.wdata, self.port.rdata):
            fields = [getattr(stream.payload, name) for name, *_ in stream.payload.layout]
            found |= {stream.valid, stream.ready, *fields}
        return found

    def accesses(self) -> list[tuple[int, int, int]]:
        """Return the writes that start chip and controller: address, value, and cycles after."""
        ((_, registers, _, _),) = self.banks.banks
        names = [register.name for register in registers]

        def write(name: str, value: int, wait: int = 0) -> tuple[int, int, int]:
            return names.index(f"dfii_{name}"), value, wait

        found = []
        for text, address, bank, command, wait in self.start:
            # A mode with A8 set is reserved in an SDR SDRAM, which has no DLL.
            if "Reset DLL" in text:
                continue
            bits = command.split("|")
            if bits[0].startswith("DFII_CONTROL"):
                value = sum(_CONTROL[bit.removeprefix("DFII_CONTROL_")] for bit in bits)
                found.append(write("control", value, wait))
                continue
            value = sum(_COMMAND[bit.removeprefix("DFII_COMMAND_")] for bit in bits)
            found += [write("pi0_address", address), write("pi0_baddress", bank)]
            found += [write("pi0_command", value), write("pi0_command_issue", 1, max(wait, 4))]
        return [*found, write("control", _CONTROL["SEL"] | _CONTROL["CKE"])]


def _write(width: int, folder: Path) -> tuple[Path, list[tuple[int, int, int]]]:
    """Write LiteDRAM with a port of ``width`` bits as ``litedram.v``.

    Returns the file, and the register writes that start it: address, value, and cycles after.
    """
    top = _Top(width)
    pins = {Tristate: top.data_pin()}
    text = str(convert(top, top.ports(), name="litedram", special_overrides=pins))
    # The head has the date.
    _, _, body = text.partition("`timescale")
    path = write_atomic(folder / f"litedram-{width}" / "litedram.v", f"`timescale{body}")
    return path, top.accesses()


def patterns() -> dict[str, str]:
    """Return the bursts of each pattern, a line each: the address of a beat, and beats."""
    random = Random(SEED)
    found = {}
    for name, (bursts, beats, at_random) in PATTERNS.items():
        most = (1 << CONFIG.address_bits) // beats
        places = random.sample(range(most), bursts) if at_random else range(bursts)
        found[name] = "".join(f"{beats * place} {beats}\n" for place in places)
    return found


def _program(path: Path, top: str, build: Path, header: str, pads: int) -> Path:
    main = Path(__file__).with_name("memory_bench.cpp")
    files = figures(CONFIG) | {"bench.h": f"#define PADS {pads}\n{header}"}
    flags = cpp_bench.OPTIMISED
    return cpp_bench.executable(main, path, top, build=build, flags=flags, files=files)


def measure(program: Path, pattern: Path) -> tuple[float, float]:
    """Return the bytes a cycle of a controller that writes and reads the bursts of a file."""
    done = child.run([program, pattern])
    if done.returncode:
        raise RuntimeError(done.stdout.strip())
    moved = sum(8 * int(line.split()[1]) for line in pattern.read_text().splitlines())
    written, read = (moved / int(cycles) for cycles in done.stdout.split())
    return written, read


def programs(build: Path) -> dict[tuple[str, str], tuple[Path, str, Path]]:
    """Build the simulations: Verilog, top module and program by controller and configuration."""
    core = registry.find("sdram")
    folder = build / "memories"
    path = verilog.write(core, {"chip": CONFIG.chip}, folder / "sdram", plain=True)
    made = _program(path, "sdram", folder, "", CONFIG.pad_cycles)
    found = {("sdram", "64 bits"): (path, "sdram", made)}
    for width in WIDTHS:
        path, accesses = _write(width, folder)
        lines = ", ".join(f"{{{', '.join(map(str, access))}}}" for access in accesses)
        header = (
            f"#define LITEDRAM\n#define WIDTH {width}\n"
            "static const struct { int address, value, wait; } "
            f"INITIALISATION[] = {{{lines}}};\n"
        )
        # Its pads have registers already.
        made = _program(path, "litedram", folder, header, 0)
        found["LiteDRAM", f"port of {width} bits"] = (path, "litedram", made)
    return found


def compare(build: Path, progress: Progress = None) -> list[Row]:
    """Return a row for each controller: bytes a cycle by pattern, and resources on ECP5.

    Raises ``RuntimeError`` for a beat that differs, or a broken rule of the chip.
    """
    notify(progress, "building the simulations")
    rows = []
    for (name, config), (path, top, program) in programs(build).items():
        notify(progress, f"running {name}, {config}")
        values: dict[str, Any] = {}
        for pattern, text in patterns().items():
            bursts = write_atomic(build / "memories" / f"{pattern}.txt", text)
            written, read = measure(program, bursts)
            values |= {f"{pattern}_write": written, f"{pattern}_read": read}
        notify(progress, f"synthesizing {name}, {config}")
        used = synth.synthesize(path, top, target=TARGET, build=build / "synth")
        values |= {figure: used[figure] for figure in ("lut", "ff")}
        rows.append(
            Row(
                core=name,
                config=config,
                kind="memory",
                target=TARGET,
                figures=values,
                seeds=[SEED],
                tools={"verilator": tools.version("VERILATOR"), **used["tools"]}
                | {package: version(package) for package in ("litedram", "litex")},
                command="seedbed board memories",
            )
        )
    return rows
