"""The FPGA families: how yosys maps to them, what their cells occupy, and what places them."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from seedbed.flow.fpga.carries import Module, beside_carry4, none
from seedbed.flow.fpga.ecp5.floorplan import Columns
from seedbed.flow.fpga.ecp5.ring_placement import Area

__all__ = ["TARGETS", "Target", "UnknownTarget", "find"]


class UnknownTarget(ValueError):
    """There is no target of that name; the message lists those that are."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One FPGA family.

    Parameters
    ----------
    synth
        yosys's command, without pads: a core's ports are nets of a larger design.
    memories
        The step of ``synth`` that maps memories, and the one behind it, where the first takes
        seconds for a core that has none.
    lut
        Look-up tables that one cell takes away from others, by cell type: the logic ones,
        inverters, and those that hold bits. Wide multiplexers inside a slice take none.
    ff, bram, dsp
        Cell types that count as one each, as regular expressions. A block memory counts one
        whatever its size.
    free
        Cell types that occupy nothing of the above.
    carries
        Counts the look-up tables that a module's carry cells take and no cell stands for.
    models
        yosys's models of the cells, where its multipliers' registers are left to us
        (:mod:`seedbed.flow.fpga.ecp5.multiplier_registers`).
    place, device
        The tool that places and routes (a name of :data:`seedbed.sim.tools.TOOLS`) and its
        arguments; ``None`` where no open one gives a clock frequency to be trusted.
    large, pins, columns
        For designs of tens of thousands of cells: further arguments, where the clock pin is, and
        where multipliers and memories may be arranged (:mod:`seedbed.flow.fpga.ecp5.floorplan`).
    ring
        For designs below that: where lanes that hand on their states may be arranged
        (:mod:`seedbed.flow.fpga.ecp5.ring_placement`).
    """

    name: str
    title: str
    synth: str
    lut: Mapping[str, int]
    ff: str
    bram: str
    dsp: str
    free: str
    carries: Callable[[Module], int] = none
    models: str = ""
    memories: tuple[str, ...] = ()
    place: str | None = None
    device: tuple[str, ...] = ()
    large: tuple[str, ...] = ()
    pins: str = ""
    columns: Columns | None = None
    ring: Area | None = None

    def count(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Return ``lut``, ``ff``, ``bram`` and ``dsp`` for cells by type.

        Raises ``RuntimeError`` for a cell type that is in no table: nothing goes uncounted.
        """
        total = Counter(lut=0, ff=0, bram=0, dsp=0)
        for cell, number in cells.items():
            if cell in self.lut:
                total["lut"] += self.lut[cell] * number
                continue
            kinds = [k for k in ("ff", "bram", "dsp") if re.fullmatch(getattr(self, k), cell)]
            if not kinds and not re.fullmatch(self.free, cell):
                raise RuntimeError(f"{number} cells {cell} of {self.title} are in no table")
            total.update({kind: number for kind in kinds})
        return dict(total)


#: UltraScale+: LUT6. What a carry cell takes beside LUT cells depends on what drives it.
_XCUP = {
    **{f"LUT{n}": 1 for n in range(1, 7)}, "LUT6_2": 1, "INV": 1, "CFGLUT5": 1,
    "SRL16": 1, "SRL16E": 1, "SRLC16": 1, "SRLC16E": 1, "SRLC32E": 1,
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4, "RAM512X1S": 8,
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8,
    "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X16DR8": 8, "RAM64X8SW": 8,
}  # fmt: skip
#: ECP5: LUT4. A CCU2C is a slice in carry mode, both LUT4 of it; a 16 x 4 memory takes the four
#: that hold its bits and the two of the slice that writes them.
_ECP5 = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}
#: Gowin: LUT4. An ALU is a LUT4 in carry mode.
_GOWIN = {
    **{f"LUT{n}": 1 for n in range(1, 5)}, "INV": 1, "ALU": 1,
    "RAM16S1": 1, "RAM16S2": 2, "RAM16S4": 4, "RAM16SDP1": 1, "RAM16SDP2": 2, "RAM16SDP4": 4,
}  # fmt: skip

_LFE5U_85F = Target(
    name="ecp5",
    title="ECP5, speed grade 6",
    synth="synth_ecp5",
    lut=_ECP5,
    ff="TRELLIS_FF",
    bram="DP16KD|PDPW16KD",
    dsp="MULT(18X18|9X9)D",
    free=r"PFUMX|L6MUX21|ALU54B|GND|VCC|\$scopeinfo",
    models="+/lattice/cells_sim_ecp5.v +/lattice/cells_bb_ecp5.v",
    place="NEXTPNR_ECP5",
    device=("--85k", "--package", "CABGA381", "--speed", "6"),
    # The default ones, HeAP and router 1, place and route small designs. With a core of 50,000
    # cells HeAP's lines were a fifth longer, and router 1 took apart again nearly every line that
    # it routed. Router 2 may find no way to the clock network from a pin that is not its own.
    # Alone it leaves a line of six tiles with a way of 7 ns around others, see `place.MORE`.
    large=("--placer", "static", "--router", "router2"),
    pins='LOCATE COMP "clk" SITE "G2";\n',
    columns=Columns(
        blocks=(4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114),
        multipliers=((0, "MULT18_0"), (1, "MULT18_1"), (4, "MULT18_4"), (5, "MULT18_5")),
        memories=((0, "EBR0"), (2, "EBR1"), (4, "EBR2"), (6, "EBR3")),
        rows=((10, 22), (34, 46), (58, 70)),
    ),
    # Between two rows of memories.
    ring=Area(x=80, y=11, columns=32, rows=11),
)

TARGETS: dict[str, Target] = {
    target.name: target
    for target in [
        Target(
            name="xcup",
            title="UltraScale+",
            synth="synth_xilinx -family xcup -flatten -noiopad -noclkbuf",
            memories=("map_memory", "map_ffram"),
            lut=_XCUP,
            ff="FD[RSCP]E(_1)?",
            bram="RAMB(18|36)E2|URAM288",
            dsp="DSP48E2",
            free=r"MUXF[789]|CARRY[48]|GND|VCC|\$scopeinfo",
            carries=beside_carry4,
        ),
        _LFE5U_85F,
        replace(
            _LFE5U_85F,
            name="ecp5-8",
            title="ECP5, speed grade 8",
            device=(*_LFE5U_85F.device[:-1], "8"),
        ),
        replace(
            _LFE5U_85F,
            name="ecp5-45",
            title="ECP5 of half the size (45F), speed grade 6",
            device=("--45k", *_LFE5U_85F.device[1:]),
            columns=None,
            ring=None,
        ),
        Target(
            name="ice40",
            title="iCE40",
            synth="synth_ice40",
            lut={"SB_LUT4": 1},
            ff="SB_DFF.*",
            bram="SB_RAM40_4K.*|SB_SPRAM256KA",
            dsp="SB_MAC16",
            free=r"SB_CARRY|\$scopeinfo",
            place="NEXTPNR_ICE40",
            device=("--hx8k", "--package", "ct256"),
        ),
        Target(
            name="gowin",
            title="Gowin GW2A",
            synth="synth_gowin -family gw2a -noiopads",
            lut=_GOWIN,
            ff="DFF.*",
            bram="(SP|SDP|DP)(B|X9|X9B)?|pROM(X9)?",
            dsp="MULT.*|ALU54D",
            free=r"MUX2_LUT[5678]|GND|VCC|GSR|\$scopeinfo",
            # No place: nextpnr-himbaechel 0.11 times neither clock enable nor data of a DFFRE or
            # DFFSE, so that a core's paths do not show in the frequency that it gives.
        ),
    ]
}


def find(name: str) -> Target:
    """Return the target called ``name``, or raise :class:`UnknownTarget`."""
    if name not in TARGETS:
        close = get_close_matches(name, TARGETS, n=1)
        meant = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownTarget(f"no target is called {name!r}{meant}; there are {', '.join(TARGETS)}")
    return TARGETS[name]
