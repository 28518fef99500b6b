"""The top of an application with the pads, the clock and the reset of a board."""

from math import ceil
from types import ModuleType

from amaranth.hdl import ClockDomain, ClockSignal, Const, Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from seedbed.boards.memory import DOMAIN, has_own_clock, memory_of
from seedbed.boards.platforms import Board, clock_of
from seedbed.boards.top import Top

__all__ = ["BAUD", "BoardTop", "pll"]

#: Bits a second of the serial port.
BAUD = 3_000_000
#: The oscillator of an ECP5's PLL in MHz, and the range of the VCO.
OSCILLATOR_MHZ = 25
VCO_MHZ = (400, 800)
#: The part of a cycle by which the clock of a memory is later at its chip than at its pads, without
#: and with a clock of its own. Inputs of the chip are stable then. What it drives is stable from
#: 6 ns after its edge to 2.5 ns after the next one: at the next edge of 60 MHz with a delay of
#: 5 ns, and at the second next one of 100 MHz with 7.5 ns. Of a slower clock of its own, the chip's
#: is so much later that these 2.5 ns are enough.
CHIP_DELAY = {False: 0.3, True: 0.75}
HOLD_NS = 2.5


def pll(mhz: int, memory_mhz: int | None = None) -> dict[str, int | str]:
    """Return the parameters of an ECP5's PLL for a clock: 25 MHz / 5 * n, from a VCO of it.

    With ``memory_mhz``, ``CLKOS`` is the clock of a memory's chip, delayed by :data:`CHIP_DELAY`,
    and ``CLKOS2`` that of its pads and its controller, if it is not ``mhz``. The VCO is ten times
    ``mhz``, or another multiple, if both clocks then divide it.

    Raises ``ValueError`` if there are no such clocks.
    """
    step, divider = OSCILLATOR_MHZ // 5, 10
    least, most = (vco // divider for vco in VCO_MHZ)
    if mhz % step or not least <= mhz <= most:
        raise ValueError(
            f"the clock of an application must be a multiple of {step} MHz in {least}..{most}, "
            f"not {mhz}"
        )
    if memory_mhz:
        low, high = VCO_MHZ
        dividers = [divider, *range(-(-low // mhz), high // mhz + 1)]
        fitting = [each for each in dividers if mhz * each % memory_mhz == 0]
        if not fitting:
            raise ValueError(
                f"the clocks of an application and of its memory must divide a clock of "
                f"{low}..{high} MHz, not {mhz} and {memory_mhz} MHz"
            )
        divider = fitting[0]
    vco, phase = mhz * divider, 4
    found: dict[str, int | str] = {
        "CLKI_DIV": 5,
        "CLKFB_DIV": mhz // step,
        "CLKOP_DIV": divider,
        "CLKOP_CPHASE": phase,
    }
    if memory_mhz is None:
        return found
    cycles, own = vco // memory_mhz, memory_mhz != mhz
    # In eighths of a cycle of the VCO.
    late = round(8 * CHIP_DELAY[own] * cycles)
    if own:
        late = max(late, ceil(8 * (cycles - HOLD_NS * vco / 1000)))
    for name, delay in {"CLKOS": late, **({"CLKOS2": 0} if own else {})}.items():
        found |= {
            f"{name}_ENABLE": "ENABLED",
            f"{name}_DIV": cycles,
            f"{name}_CPHASE": phase + delay // 8,
            f"{name}_FPHASE": delay % 8,
        }
    return found


class BoardTop(Elaboratable):
    """The top of an application with the pads, the clock and the reset of a board."""

    def __init__(self, app: ModuleType, board: Board):
        self.app, self.board, self.mhz = app, board, clock_of(app, board)
        self.memory = memory_of(app)
        # That of the memory's controller and its pads.
        self.domain = DOMAIN if self.memory and has_own_clock(app) else "sync"

    def elaborate(self, platform):
        m = Module()
        m.submodules.top = top = Top(self.app, round(self.mhz * 1_000_000 / BAUD))
        m.domains.sync = ClockDomain()
        locked = self._clock(m, platform)
        button = platform.request(self.board.reset, 0, dir="-")
        m.submodules.button = button = io.Buffer("i", button)
        for domain in dict.fromkeys(("sync", self.domain)):
            m.submodules[f"reset_{domain}"] = ResetSynchronizer(~locked | button.i, domain=domain)
        names = [part.name for part in platform.lookup("uart", 0).ios]
        serial = platform.request("uart", dir=dict.fromkeys(names, "-"))
        m.submodules.rx = rx = io.Buffer("i", serial.rx)
        self._drive(m, "tx", serial.tx, top.tx)
        m.d.comb += top.rx.eq(rx.i)
        for k in range(self.board.leds):
            self._drive(m, f"led_{k}", platform.request("led", k, dir="-"), top.leds[k])
        if self.memory:
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
            m.submodules[f"sdram_{name}"] = pad = io.FFBuffer(
                "o", getattr(pads, name), o_domain=self.domain
            )
            m.d.comb += pad.o.eq(signal)
        m.submodules.sdram_dq = dq = io.FFBuffer(
            "io", pads.dq, i_domain=self.domain, o_domain=self.domain
        )
        m.submodules.sdram_clk = clk = io.DDRBuffer("o", pads.clk, o_domain="chip")
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
        locked, memory = Signal(), self.memory
        parameters = pll(self.mhz, memory.clock_mhz if memory else None)
        outputs = {"CLKOP": ("sync", clock)}
        if memory:
            outputs["CLKOS"] = "chip", Signal(name="chip_clock")
            m.domains.chip = ClockDomain(reset_less=True)
            if self.domain != "sync":
                outputs["CLKOS2"] = self.domain, Signal(name="memory_clock")
                m.domains += ClockDomain(self.domain)
            for domain, signal in list(outputs.values())[1:]:
                m.d.comb += ClockSignal(domain).eq(signal)
                platform.add_clock_constraint(signal, memory.clock_mhz * 1e6)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_FREQUENCY_PIN_CLKI=str(OSCILLATOR_MHZ), a_FREQUENCY_PIN_CLKOP=str(self.mhz),
            p_PLLRST_ENA="DISABLED", p_INTFB_WAKE="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_CLKOP_ENABLE="ENABLED", p_CLKOP_FPHASE=0,
            p_FEEDBK_PATH="CLKOP", **{f"p_{name}": value for name, value in parameters.items()},
            i_CLKI=oscillator.i, i_CLKFB=clock, o_LOCK=locked,
            i_RST=0, i_STDBY=0, i_PHASESEL0=0, i_PHASESEL1=0, i_PHASEDIR=0, i_PHASESTEP=0,
            i_PHASELOADREG=0, i_PLLWAKESYNC=0, i_ENCLKOP=0,
            **{f"o_{name}": signal for name, (_, signal) in outputs.items()},
        )  # fmt: skip
        return locked
