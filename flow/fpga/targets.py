"""FPGA families: synthesis commands, resource tables, place and route tools."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from seedbed.flow.fpga.carries import Module, carry4_route_throughs, no_route_throughs
from seedbed.flow.fpga.ecp5.floorplan import Columns
from seedbed.flow.fpga.ecp5.ring_placement import Area

__all__ = ["TARGETS", "Target", "Toolchain", "UnknownTarget", "find"]

#: Number of cells from which a target's arguments for large designs apply.
LARGE = 25_000


class UnknownTarget(ValueError):
    """There is no target of that name; the message lists the known targets."""


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """What a board's bitstream needs. ``{name}`` is the application, ``{seed}`` the placement.

    Parameters
    ----------
    amaranth
        As amaranth's platform calls it.
    constraints
        The end of the file of pins.
    pins, routed
        Arguments of the place and route tool for the pins and for the routed design.
    pack, packed
        A name of :data:`seedbed.sim.tools.TOOLS`, and the arguments of this tool, which writes the
        bitstream.
    end
        The end of the bitstream's name.
    cells
        Logic cells, flip-flops, block memories and multipliers in nextpnr's report. Without
        flip-flops there, they are counted in the netlist.
    """

    amaranth: str
    constraints: str
    pins: tuple[str, ...]
    routed: tuple[str, str]
    pack: str
    packed: tuple[str, ...]
    end: str
    cells: tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A device of an FPGA family, with package and speed grade, and the tools for it.

    Parameters
    ----------
    synth, no_pads
        yosys's command, and its options for a core, whose ports are nets of a larger design.
    memories
        The step of ``synth`` that maps memories, and the following step, for a target on which the
        first takes seconds even for a core without memories.
    lut
        LUTs occupied by one cell, by cell type: logic, inverters and LUTs used as memory. Wide
        multiplexers inside a slice occupy none.
    ff, bram, dsp
        Cell types that count as one each, as regular expressions. A block memory counts as one,
        whatever its size.
    uncounted
        Cell types that occupy none of these resources, as a regular expression.
    route_throughs
        Returns the number of route-through LUTs of a module's carry chains, which are not cells.
    models
        yosys's cell models, for a target whose multiplier registers yosys leaves unused
        (:mod:`seedbed.flow.fpga.ecp5.multiplier_registers`).
    place, device
        The place and route tool (a name of :data:`seedbed.sim.tools.TOOLS`), "" without an open
        one, and its arguments.
    timed
        Whether the timing analysis of ``place`` is complete.
    placer, pins, columns
        For designs of :data:`LARGE` cells and more: the placer, the location of a core's clock pin,
        and the sites of multipliers and memories (:mod:`seedbed.flow.fpga.ecp5.floorplan`).
    ring
        For smaller designs: the area for the lanes of a generator array
        (:mod:`seedbed.flow.fpga.ecp5.ring_placement`), or for the bits of a linear generator
        (:mod:`seedbed.flow.fpga.ecp5.linear_placement`).
    toolchain
        What the bitstream of a board needs, if there is a board.
    """

    name: str
    title: str
    synth: str
    no_pads: str = ""
    lut: Mapping[str, int]
    ff: str
    bram: str
    dsp: str
    uncounted: str
    route_throughs: Callable[[Module], int] = no_route_throughs
    models: str = ""
    memories: tuple[str, ...] = ()
    place: str = ""
    device: tuple[str, ...] = ()
    timed: bool = True
    placer: str = ""
    pins: str = ""
    columns: Columns | None = None
    ring: Area | None = None
    toolchain: Toolchain | None = None

    @property
    def synth_core(self) -> str:
        """yosys's command for a core."""
        return f"{self.synth} {self.no_pads}".rstrip()

    @property
    def has_fmax(self) -> bool:
        """Whether the Fmax of a core can be measured."""
        return bool(self.place) and self.timed

    def is_large(self, module: Module) -> bool:
        """Return whether a module of a netlist is placed and routed as a large design."""
        return bool(self.placer) and len(module["cells"]) >= LARGE

    def large(self, placer: str | None = None) -> tuple[str, ...]:
        """Return further arguments of ``place`` for a large design."""
        return "--placer", placer or self.placer, "--router", "router2"

    def count(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Return ``lut``, ``ff``, ``bram`` and ``dsp`` for cells by type.

        Raises ``RuntimeError`` for a cell type that is in no table.
        """
        total = Counter(lut=0, ff=0, bram=0, dsp=0)
        for cell, number in cells.items():
            if cell in self.lut:
                total["lut"] += self.lut[cell] * number
                continue
            kinds = [k for k in ("ff", "bram", "dsp") if re.fullmatch(getattr(self, k), cell)]
            if not kinds and not re.fullmatch(self.uncounted, cell):
                raise RuntimeError(f"{number} cells {cell} of {self.title} are in no table")
            total.update({kind: number for kind in kinds})
        return dict(total)


#: UltraScale+: LUT6. Route-through LUTs of carry cells depend on their drivers.
_XCUP = {
    **{f"LUT{n}": 1 for n in range(1, 7)}, "LUT6_2": 1, "INV": 1, "CFGLUT5": 1,
    "SRL16": 1, "SRL16E": 1, "SRLC16": 1, "SRLC16E": 1, "SRLC32E": 1,
    "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2, "RAM256X1S": 4, "RAM512X1S": 8,
    "RAM32X1D": 2, "RAM64X1D": 2, "RAM128X1D": 4, "RAM256X1D": 8,
    "RAM32M": 4, "RAM64M": 4, "RAM32M16": 8, "RAM64M8": 8, "RAM32X16DR8": 8, "RAM64X8SW": 8,
}  # fmt: skip
#: ECP5: LUT4. A CCU2C is a slice in carry mode with both of its LUT4. A 16 x 4 memory takes four
#: LUT4 for the bits and the two LUT4 of the slice with the write port.
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
    uncounted=r"PFUMX|L6MUX21|ALU54B|GND|VCC|\$scopeinfo",
    models="+/lattice/cells_sim_ecp5.v +/lattice/cells_bb_ecp5.v",
    place="NEXTPNR_ECP5",
    device=("--85k", "--package", "CABGA381", "--speed", "6"),
    # The defaults, HeAP and router 1, place and route small designs. For a core of 50,000 cells,
    # HeAP's wire length was a fifth larger, and router 1 ripped up nearly every net that it routed.
    # Router 2 may find no route to the clock network from a pin without dedicated clock routing. On
    # its own, it leaves a net of six tiles with a detour of 7 ns, see `place.REROUTE_FACTOR`.
    placer="static",
    pins='LOCATE COMP "clk" SITE "G2";\n',
    columns=Columns(
        blocks=(4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114),
        multipliers=((0, "MULT18_0"), (1, "MULT18_1"), (4, "MULT18_4"), (5, "MULT18_5")),
        memories=((0, "EBR0"), (2, "EBR1"), (4, "EBR2"), (6, "EBR3")),
        rows=((10, 22), (34, 46), (58, 70)),
    ),
    # Between two rows of block memories.
    ring=Area(x=80, y=11, columns=32, rows=11),
    toolchain=Toolchain(
        amaranth="Trellis",
        constraints="lpf",
        pins=("--lpf", "{name}.lpf"),
        routed=("--textcfg", "{name}-{seed}.config"),
        pack="ECPPACK",
        packed=("--compress", "{name}-{seed}.config", "{name}.bit"),
        end="bit",
        cells=("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D"),
    ),
)

_ICE40 = Target(
    name="ice40",
    title="iCE40",
    synth="synth_ice40",
    lut={"SB_LUT4": 1},
    ff="SB_DFF.*",
    bram="SB_RAM40_4K.*|SB_SPRAM256KA",
    dsp="SB_MAC16",
    uncounted=r"SB_CARRY|\$scopeinfo",
    place="NEXTPNR_ICE40",
    device=("--hx8k", "--package", "ct256"),
    toolchain=Toolchain(
        amaranth="IceStorm",
        constraints="pcf",
        pins=("--pcf", "{name}.pcf"),
        routed=("--asc", "{name}-{seed}.asc"),
        pack="ICEPACK",
        packed=("{name}-{seed}.asc", "{name}.bin"),
        end="bin",
        cells=("ICESTORM_LC", "FF", "ICESTORM_RAM", "ICESTORM_DSP"),
    ),
)
_GW2A = Target(
    name="gowin",
    title="Gowin GW2A",
    synth="synth_gowin -family gw2a",
    no_pads="-noiopads",
    lut=_GOWIN,
    ff="DFF.*",
    bram="(SP|SDP|DP)(B|X9|X9B)?|pROM(X9)?",
    dsp="MULT.*|ALU54D",
    uncounted=r"MUX2_LUT[5678]|GND|VCC|GSR|\$scopeinfo",
    # nextpnr-himbaechel 0.11 has no timing arcs for clock enable and data of DFFRE and DFFSE, so
    # that its Fmax does not cover a core's paths.
    timed=False,
)
TARGETS: dict[str, Target] = {
    target.name: target
    for target in [
        Target(
            name="xcup",
            title="UltraScale+",
            synth="synth_xilinx -family xcup -flatten",
            no_pads="-noiopad -noclkbuf",
            memories=("map_memory", "map_ffram"),
            lut=_XCUP,
            ff="FD[RSCP]E(_1)?",
            bram="RAMB(18|36)E2|URAM288",
            dsp="DSP48E2",
            uncounted=r"MUXF[789]|CARRY[48]|GND|VCC|\$scopeinfo",
            route_throughs=carry4_route_throughs,
        ),
        _LFE5U_85F,
        replace(
            _LFE5U_85F,
            name="ecp5-8",
            title="ECP5, speed grade 8",
            device=(*_LFE5U_85F.device[:-1], "8"),
        ),
        *(
            replace(
                _LFE5U_85F,
                name=f"ecp5-{size}",
                title=f"ECP5 {size}F, speed grade 6",
                device=(f"--{size}k", *_LFE5U_85F.device[1:]),
                # Without a floorplan, HeAP places the top of a fine-tuning core better: 54 MHz
                # before routing instead of 48.
                placer="heap",
                columns=None,
                ring=None,
            )
            for size in (45, 12)
        ),
        _ICE40,
        replace(
            _ICE40,
            name="ice40-up5k",
            title="iCE40 UP5K",
            synth="synth_ice40 -device u -dsp",
            device=("--up5k", "--package", "sg48"),
        ),
        _GW2A,
        replace(
            _GW2A,
            name="gowin-9c",
            title="Gowin GW1N-9C",
            synth="synth_gowin -family gw1n",
            place="NEXTPNR_GOWIN",
            device=("--device", "GW1NR-LV9QN88PC6/I5", "--vopt", "family=GW1N-9C"),
            toolchain=Toolchain(
                amaranth="Apicula",
                constraints="cst",
                pins=("--vopt", "cst={name}.cst"),
                routed=("--write", "{name}-{seed}.json"),
                pack="GOWIN_PACK",
                packed=(
                    "-d",
                    "GW1N-9C",
                    "--sspi_as_gpio",
                    "--mspi_as_gpio",
                    "-o",
                    "{name}.fs",
                    "{name}-{seed}.json",
                ),
                end="fs",
                cells=("LUT4", "DFF", "BSRAM", "MULT9X9"),
            ),
        ),
    ]
}


def find(name: str) -> Target:
    """Return the target called ``name``, or raise :class:`UnknownTarget`."""
    if name not in TARGETS:
        close = get_close_matches(name, TARGETS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownTarget(f"no target is called {name!r}{hint}; there are {', '.join(TARGETS)}")
    return TARGETS[name]
