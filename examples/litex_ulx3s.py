"""A LiteX SoC for the ULX3S with a core of seedbed, and a job for its simulation.

``python litex_ulx3s.py`` writes the Verilog of the SoC to ``litex/``, with a bus port instead of
the serial port, and the bus accesses of a matrix-vector product for ``litex_tb.v``. The commands
are in examples/README.md. ``python litex_ulx3s.py board`` writes the SoC for the board:
litex_server is the master of its bus, by the serial port.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
from litex.build.generic_platform import IOStandard, Pins, Subsignal
from litex.build.lattice import LatticePlatform
from litex.gen import LiteXModule
from litex.soc.integration.builder import Builder
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import wishbone
from migen import ClockDomain, ClockSignal, Signal

from seedbed.boards.litex import AxiCore
from seedbed.golden import seedlm
from seedbed.golden.gemv import Gemv
from seedbed.sim.tools import setup_environment
from seedbed.spec import GemvConfig

ROWS, COLUMNS = 4, 64
#: The same as --set options of `seedbed verilog gemv_axi`.
PARAMETERS = {"beat_bits": 64, "columns": 256, "row_width": 16}
REGISTERS, RAM, RAM_SIZE = 0x3000_0000, 0x4000_0000, 0x8000

IO = [
    ("clk25", 0, Pins("G2"), IOStandard("LVCMOS33")),
    (
        "serial", 0, Subsignal("tx", Pins("L4")), Subsignal("rx", Pins("M1")),
        IOStandard("LVCMOS33"),
    ),
]  # fmt: skip
#: The bus of the bench.
BENCH = [
    (
        "bus", 0, Subsignal("adr", Pins(30)), Subsignal("dat_w", Pins(32)),
        Subsignal("dat_r", Pins(32)), Subsignal("sel", Pins(4)), Subsignal("cyc", Pins(1)),
        Subsignal("stb", Pins(1)), Subsignal("ack", Pins(1)), Subsignal("we", Pins(1)),
        Subsignal("cti", Pins(3)), Subsignal("bte", Pins(2)), Subsignal("err", Pins(1)),
    ),
]  # fmt: skip


class Platform(LatticePlatform):
    """The ULX3S with an LFE5U-85F."""

    default_clk_name = "clk25"
    default_clk_period = 40.0

    def __init__(self, *, bench: bool):
        io = [*IO, *(BENCH if bench else [])]
        super().__init__("LFE5U-85F-6BG381C", io, toolchain="trellis")


class Clock(LiteXModule):
    """The clock of the board, and a reset of 16 cycles."""

    def __init__(self, platform: Platform):
        self.cd_sys = ClockDomain()
        self.cd_por = ClockDomain(reset_less=True)
        count = Signal(4, reset=15)
        clock = platform.request("clk25")
        self.comb += [
            ClockSignal("sys").eq(clock),
            ClockSignal("por").eq(clock),
            self.cd_sys.rst.eq(count != 0),
        ]
        self.sync.por += count.eq(count - (count != 0))


class Soc(SoCMini):
    """Memory, and a core of seedbed; the master of the bus is a host, or a bench."""

    def __init__(self, folder: Path, core: str, params: dict, *, bench: bool):
        platform = Platform(bench=bench)
        super().__init__(platform, clk_freq=25_000_000, ident="seedbed in LiteX")
        self.crg = Clock(platform)
        self.add_ram("memory", origin=RAM, size=RAM_SIZE)
        self.core = AxiCore(self, "core", core, params, folder=folder, origin=REGISTERS)
        if bench:
            bus = wishbone.Interface()
            self.comb += bus.connect_to_pads(platform.request("bus"), mode="slave")
            self.bus.add_master("bench", bus)
        else:
            self.add_uartbone(baudrate=115200)


def build(folder: Path, core: str, params: dict, *, bench: bool) -> dict:
    """Write the Verilog of the SoC, and return LiteX's description of its registers."""
    soc = Soc(folder, core, params, bench=bench)
    builder = Builder(
        soc, output_dir=str(folder), compile_software=False, compile_gateware=False,
        csr_json=str(folder / "soc.json"),
    )  # fmt: skip
    builder.build(build_name="soc", run=False)
    return json.loads((folder / "soc.json").read_text())


def blocking(text: str) -> str:
    """Return Verilog whose combinational blocks have blocking assignments.

    LiteX writes non-blocking ones, first the default and then the value: in Icarus, the block then
    starts itself again, without end.
    """
    return re.sub(
        r"^always @\(\*\) begin\n.*?^end\n",
        lambda block: re.sub(r"^(\s+[^\s(]+) <= ", r"\1 = ", block[0], flags=re.MULTILINE),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def job(found: dict) -> list[str]:
    """Return the bus accesses of a product: ``w`` address data, ``r`` and ``p`` address expected.

    ``p`` reads until the word is the expected one.
    """
    config = GemvConfig(**PARAMETERS)
    model = Gemv(config)
    random = np.random.default_rng(1)
    matrix = random.normal(size=(ROWS, COLUMNS))
    blocks = seedlm.pack(config, *seedlm.search(config, matrix.reshape(-1, config.block)))
    blocks = blocks.reshape(ROWS, -1)
    vector = random.integers(-(1 << 15), 1 << 15, COLUMNS)
    streams = {
        "vector": vector.astype("<i2").view("<u4"),
        "weights": np.frombuffer(model.packed_beats(blocks).tobytes(), "<u4"),
        "result": model.packed_product(blocks, vector).astype("<i8").view("<u4"),
    }
    registers = found["memories"]["core"]["base"]
    lines, base = [], RAM
    for name, words in streams.items():
        if name != "result":
            lines += [f"w {base + 4 * k:x} {word:x}" for k, word in enumerate(words)]
        settings = {"base": base, "length": 4 * len(words), "enable": 1}
        for setting, value in settings.items():
            csr = found["csr_registers"][f"core_{name}_{setting}"]
            # The most significant word comes first.
            lines += [
                f"w {csr['addr'] + 4 * k:x} {value >> 32 * (csr['size'] - 1 - k) & 0xFFFFFFFF:x}"
                for k in range(csr["size"])
            ]
        base += 4 * len(words)
    # The weights of a row are a frame.
    frame = len(streams["weights"]) // ROWS * 32 // config.beat_bits
    lines.append(f"w {found['csr_registers']['core_weights_frame']['addr']:x} {frame:x}")
    # columns, rows, mode: as in the register map of gemv.
    values = {0x08: COLUMNS, 0x0C: ROWS, 0x10: 0, 0x00: 1}
    lines += [f"w {registers + address:x} {value:x}" for address, value in values.items()]
    lines.append(f"p {found['csr_registers']['core_result_done']['addr']:x} 1")
    results = streams["result"]
    base -= 4 * len(results)
    lines += [f"r {base + 4 * k:x} {word:x}" for k, word in enumerate(results)]
    lines.append(f"r {found['csr_registers']['core_result_user']['addr']:x} 0")
    return lines


def main() -> None:
    """Write the SoC for the bench with its job, or for the board."""
    setup_environment()  # finds the yosys that came with seedbed
    bench = sys.argv[1:] != ["board"]
    folder = Path("litex")
    found = build(folder, "gemv_axi", PARAMETERS, bench=bench)
    if bench:
        top = folder / "gateware" / "soc.v"
        top.write_text(blocking(top.read_text()))
        (folder / "gateware" / "job.txt").write_text("\n".join(job(found)) + "\n")


if __name__ == "__main__":
    main()
