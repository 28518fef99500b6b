"""The top of an application with the pads, the clock and the reset of a board."""

from types import ModuleType

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from seedbed.boards.memory import memory_of
from seedbed.boards.platforms import Board, clock_of
from seedbed.boards.top import Top

__all__ = ["BAUD", "BoardTop", "pll"]

#: Bits a second of the serial port.
BAUD = 3_000_000
#: The oscillator of an ECP5's PLL in MHz, and the range of the VCO.
OSCILLATOR_MHZ = 25
VCO_MHZ = (400, 800)
#: The clock of the memory's chip, three VCO cycles (0.3 of a cycle, 5 ns at 60 MHz) later: its
#: inputs are stable then, and what it drives (6 ns after its edge) is stable before the next edge
#: of the application's clock.
MEMORY_PLL = {"CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": 10, "CLKOS_CPHASE": 7, "CLKOS_FPHASE": 0}


def pll(mhz: int) -> dict[str, int]:
    """Return the parameters of an ECP5's PLL for a clock: 25 MHz / 5 * n, from a VCO ten times it.

    Raises ``ValueError`` if there is no such clock.
    """
    step, divider = OSCILLATOR_MHZ // 5, 10
    least, most = (vco // divider for vco in VCO_MHZ)
    if mhz % step or not least <= mhz <= most:
        raise ValueError(
            f"the clock of an application must be a multiple of {step} MHz in {least}..{most}, "
            f"not {mhz}"
        )
    return {
        "CLKI_DIV": 5,
        "CLKFB_DIV": mhz // step,
        "CLKOP_DIV": divider,
        "CLKOP_CPHASE": 4,
    }


class BoardTop(Elaboratable):
    """The top of an application with the pads, the clock and the reset of a board."""

    def __init__(self, app: ModuleType, board: Board):
        self.app, self.board, self.mhz = app, board, clock_of(app, board)

    def elaborate(self, platform):
        m = Module()
        m.submodules.top = top = Top(self.app, round(self.mhz * 1_000_000 / BAUD))
        m.domains.sync = ClockDomain()
        locked = self._clock(m, platform)
        button = platform.request(self.board.reset, 0, dir="-")
        m.submodules.button = button = io.Buffer("i", button)
        m.submodules.reset = ResetSynchronizer(~locked | button.i, domain="sync")
        names = [part.name for part in platform.lookup("uart", 0).ios]
        serial = platform.request("uart", dir=dict.fromkeys(names, "-"))
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        self._drive(m, "tx", serial.tx, top.tx)
        m.d.comb += top.rx.eq(rx.i)
        for k in range(self.board.leds):
            self._drive(m, f"led_{k}", platform.request("led", k, dir="-"), top.leds[k])
        if memory_of(self.app):
            self._memory(m, platform, top)
        return m

    def _drive(self, m, name, pad, value):
        """Connect an output pad of one pin."""
        if self.board.toolchain.pack == "GOWIN_PACK":
            # Amaranth's buffer is a TBUF: gowin_pack sets a bank of these alone to 1.2 V.
            m.submodules[name] = Instance("OBUF", i_I=value ^ pad.invert[0], o_O=pad.io)
            return
        m.submodules[name] = buffer = io.Buffer("o", pad)
        m.d.comb += buffer.o.eq(value)

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
        """Connect the clock of the domain; return whether it runs as it should."""
        m.submodules.oscillator = oscillator = io.Buffer(
            "i", platform.request(platform.default_clk, dir="-")
        )
        clock = Signal()
        m.d.comb += ClockSignal("sync").eq(clock)
        platform.add_clock_constraint(clock, self.mhz * 1e6)
        if not self.board.pll:
            m.d.comb += clock.eq(oscillator.i)
            return Const(1)
        return self._pll(m, platform, oscillator, clock)

    def _pll(self, m, platform, oscillator, clock):
        """Connect the PLL of an ECP5 between the oscillator and the clock."""
        locked, memory = Signal(), Signal()
        delayed = {f"p_{name}": value for name, value in MEMORY_PLL.items()}
        delayed["o_CLKOS"] = memory
        if memory_of(self.app):
            m.domains.memory = ClockDomain(reset_less=True)
            m.d.comb += ClockSignal("memory").eq(memory)
            platform.add_clock_constraint(memory, self.mhz * 1e6)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=str(OSCILLATOR_MHZ), a_FREQUENCY_PIN_CLKOP=str(self.mhz),
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_CLKOP_ENABLE="ENABLED", p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP", **{f"p_{name}": value for name, value in pll(self.mhz).items()},
            i_CLKI=oscillator.i, i_CLKFB=clock, o_CLKOP=clock, o_LOCK=locked,
            i_RST=0, i_STDBY=0, i_PHASESEL0=0, i_PHASESEL1=0, i_PHASEDIR=0, i_PHASESTEP=0,
            i_PHASELOADREG=0, i_PLLWAKESYNC=0, i_ENCLKOP=0,
            **(delayed if memory_of(self.app) else {}),
        )  # fmt: skip
        return locked
