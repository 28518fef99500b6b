"""Bitstreams: synthesis, place and route of an application for a board, and loading them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from seedbed.boards.memory import CLOCK_MHZ, memory_of
from seedbed.boards.platforms import Board
from seedbed.boards.top import Top
from seedbed.flow.files import write_atomic
from seedbed.flow.fpga import targets
from seedbed.flow.fpga.synth import Progress, notify
from seedbed.sim import tools

__all__ = ["BAUD", "CLOCK_MHZ", "Bitstream", "TimingMissed", "build", "load"]

#: Bits a second of the serial port.
BAUD = 3_000_000
#: Of the PLL: 25 MHz / 5 * 12, from a VCO of 600 MHz.
PLL = {"CLKI_DIV": 5, "CLKFB_DIV": 12, "CLKOP_DIV": 10, "CLKOP_CPHASE": 4}
#: The clock of the memory's chip, three VCO cycles (5 ns) later: its inputs are stable then, and
#: what it drives (6 ns after its edge) is stable before the next edge of the application's clock.
MEMORY_PLL = {"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": 10, "CLKOS_CPHASE": 7, "CLKOS_FPHASE": 0}


class TimingMissed(RuntimeError):
    """The placed design is slower than its clock; the message names the worst path."""


@dataclass(frozen=True)
class Bitstream:
    """A bitstream: its file, Fmax in MHz by seed, and used and available cells by type."""

    path: Path
    fmax: dict[int, float]
    cells: dict[str, tuple[int, int]]


class BoardTop(Elaboratable):
    """The top of an application with the pads, the clock and the reset of a board."""

    def __init__(self, app: ModuleType):
        self.app = app

    def elaborate(self, platform):
        m = Module()
        m.submodules.top = top = Top(self.app, round(CLOCK_MHZ * 1_000_000 / BAUD))
        m.domains.sync = ClockDomain()
        locked = self._clock(m, platform)
        m.submodules.button = button = io.Buffer("i", platform.request("button_fire", 0, dir="-"))
        m.submodules.reset = ResetSynchronizer(~locked | button.i, domain="sync")
        serial = platform.request("uart", dir={"rx": "-", "tx": "-", "rts": "-", "dtr": "-"})
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        m.submodules.tx = tx = io.Buffer("o", serial.tx)
        m.d.comb += [top.rx.eq(rx.i), tx.o.eq(top.tx)]
        for k in range(8):
            m.submodules[f"led_{k}"] = led = io.Buffer("o", platform.request("led", k, dir="-"))
            m.d.comb += led.o.eq(top.leds[k])
        if memory_of(self.app):
            self._memory(m, platform, top)
        return m

    def _memory(self, m, platform, top):
        """Connect the pads of the memory: a register in each direction."""
        outputs = ("clk_en", "cs", "we", "ras", "cas", "ba", "a", "dqm")
        directions = {name: "-" for name in (*outputs, "clk", "dq")}
        pads = platform.request("sdram", dir=directions)
        for name in outputs:
            signal = getattr(top, {"clk_en": "sdram_cke"}.get(name, f"sdram_{name}"))
            m.submodules[f"sdram_{name}"] = pad = io.FFBuffer("o", getattr(pads, name))
            m.d.comb += pad.o.eq(signal)
        m.submodules.sdram_dq = dq = io.FFBuffer("io", pads.dq)
        m.submodules.sdram_clk = clk = io.DDRBuffer("o", pads.clk, o_domain="memory")
        m.d.comb += [
            dq.o.eq(top.sdram_dq_o),
            dq.oe.eq(top.sdram_dq_oe),
            top.sdram_dq_i.eq(dq.i),
            clk.o[0].eq(1),
            clk.o[1].eq(0),
        ]

    def _clock(self, m, platform):
        """Connect the PLL between the oscillator and the domain; return whether it has locked."""
        m.submodules.oscillator = oscillator = io.Buffer("i", platform.request("clk25", dir="-"))
        locked, clock, memory = Signal(), Signal(), Signal()
        delayed = {f"p_{name}": value for name, value in MEMORY_PLL.items()}
        delayed["o_CLKOS"] = memory
        if memory_of(self.app):
            m.domains.memory = ClockDomain(reset_less=True)
            m.d.comb += ClockSignal("memory").eq(memory)
            platform.add_clock_constraint(memory, CLOCK_MHZ * 1e6)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI="25", a_FREQUENCY_PIN_CLKOP=str(CLOCK_MHZ),
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_CLKOP_ENABLE="ENABLED", p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP", **{f"p_{name}": value for name, value in PLL.items()},
            i_CLKI=oscillator.i, i_CLKFB=clock, o_CLKOP=clock, o_LOCK=locked,
            i_RST=0, i_STDBY=0, i_PHASESEL0=0, i_PHASESEL1=0, i_PHASEDIR=0, i_PHASESTEP=0,
            i_PHASELOADREG=0, i_PLLWAKESYNC=0, i_ENCLKOP=0,
            **(delayed if memory_of(self.app) else {}),
        )  # fmt: skip
        m.d.comb += ClockSignal("sync").eq(clock)
        platform.add_clock_constraint(clock, CLOCK_MHZ * 1e6)
        return locked


def build(
    board: Board,
    app: ModuleType,
    name: str,
    *,
    folder: Path,
    seeds: Sequence[int] = (1,),
    progress: Progress = None,
) -> Bitstream:
    """Build the bitstream of an application for a board, in ``folder``.

    It is the fastest placement of the given seeds. Raises :class:`TimingMissed` if this
    one is too slow, and then leaves no bitstream.
    """
    for tool in ("YOSYS", "NEXTPNR_ECP5", "ECPPACK"):
        tools.find(tool)
    bitstream = folder / f"{name}.bit"
    bitstream.unlink(missing_ok=True)
    _synthesize(board, app, name, folder, progress)
    reports = {}
    for seed in seeds:
        notify(progress, f"placing {name} on {board.name}, seed {seed}")
        reports[seed] = _place(board, name, folder, seed)
    fmax = {seed: _fmax(report) for seed, report in reports.items()}
    fastest = max(fmax, key=lambda seed: fmax[seed])
    _require_timing(reports[fastest])
    tools.run("ECPPACK", "--compress", f"{name}-{fastest}.config", bitstream.name, cwd=folder)
    cells = {
        kind: (cell["used"], cell["available"])
        for kind, cell in reports[fastest]["utilization"].items()
    }
    return Bitstream(bitstream, fmax, cells)


def _synthesize(board: Board, app: ModuleType, name: str, folder: Path, progress: Progress) -> None:
    """Write the netlist and the pins of an application on a board."""
    import amaranth_boards.ulx3s

    platform = getattr(amaranth_boards.ulx3s, board.platform)(toolchain="Trellis")
    plan = platform.prepare(BoardTop(app), name)
    for end in ("il", "lpf"):
        text = plan.files[f"{name}.{end}"]
        write_atomic(folder / f"{name}.{end}", text if isinstance(text, str) else text.decode())
    notify(progress, f"synthesizing {name} for {board.name}")
    script = f"read_rtlil {name}.il; synth_ecp5 -top {name} -json {name}.json"
    tools.run("YOSYS", "-q", "-p", script, cwd=folder)


def _place(board: Board, name: str, folder: Path, seed: int) -> dict[str, Any]:
    """Place and route with a seed; return nextpnr's report."""
    tools.run(
        "NEXTPNR_ECP5", *targets.find(board.target).device, "-q", "--seed", str(seed),
        "--json", f"{name}.json", "--lpf", f"{name}.lpf", "--textcfg", f"{name}-{seed}.config",
        "--report", "report.json", "--timing-allow-fail", "--log", "place.log", cwd=folder,
    )  # fmt: skip
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def _fmax(report: dict[str, Any]) -> float:
    return float(min(found["achieved"] for found in report["fmax"].values()))


def _require_timing(report: dict[str, Any]) -> None:
    """Raise :class:`TimingMissed` with the worst path if a clock in nextpnr's report is not met."""
    for clock, found in report["fmax"].items():
        if found["achieved"] < found["constraint"]:
            path = next(
                p["path"]
                for p in report["critical_paths"]
                if p["from"].endswith(clock) and p["to"].endswith(clock)
            )
            raise TimingMissed(
                f"the clock reaches {found['achieved']:.1f} MHz, not {found['constraint']:.0f}: "
                f"the worst path is from {path[0]['from']['cell']} to {path[-1]['to']['cell']}"
            )


def load(path: Path) -> None:
    """Load a bitstream into a board's FPGA, by openFPGALoader.

    Raises ``ValueError`` for a missing file, ``ToolMissing``, and ``RuntimeError`` with its last
    line if no board is there.
    """
    if not path.is_file():
        raise ValueError(f"{path} does not exist: 'seedbed board build' writes it")
    tools.find("OPENFPGALOADER")
    try:
        tools.run("OPENFPGALOADER", "--board", "ulx3s", path)
    except RuntimeError as problem:
        lines = [line for line in str(problem).splitlines() if line.strip()]
        raise RuntimeError(
            f"no board was loaded: is its cable connected? openFPGALoader says {lines[-1]!r}"
        ) from None
