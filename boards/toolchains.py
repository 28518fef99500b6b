"""Commands of synthesis, place and route, and packing, by FPGA family."""

from dataclasses import dataclass

from seedbed.boards.platforms import Board
from seedbed.flow.fpga import targets

__all__ = ["TOOLCHAINS", "Toolchain", "find"]


@dataclass(frozen=True, kw_only=True)
class Toolchain:
    """The open tools of a family. ``{name}`` is that of the application, ``{seed}`` of a placement.

    Parameters
    ----------
    amaranth
        As amaranth's platform calls it.
    constraints
        The end of the file of pins.
    synth
        yosys's command.
    place, pins, routed
        A name of :data:`seedbed.sim.tools.TOOLS`, and the arguments for the pins and for the routed
        design, after those of the device.
    pack, packed
        The same of the tool that writes the bitstream, and its arguments.
    end
        The end of the bitstream's name.
    cells
        Logic cells, flip-flops, block memories and multipliers in nextpnr's report. Without
        flip-flops there, they are counted in the netlist.
    tools
        All tools.
    """

    amaranth: str
    constraints: str
    synth: str
    place: str
    pins: tuple[str, ...]
    routed: tuple[str, ...]
    pack: str
    packed: tuple[str, ...]
    end: str
    cells: tuple[str, str, str, str]

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that a build calls."""
        return ("YOSYS", self.place, self.pack)


TOOLCHAINS = {
    "ecp5": Toolchain(
        amaranth="Trellis",
        constraints="lpf",
        synth="synth_ecp5",
        place="NEXTPNR_ECP5",
        pins=("--lpf", "{name}.lpf"),
        routed=("--textcfg", "{name}-{seed}.config"),
        pack="ECPPACK",
        packed=("--compress", "{name}-{seed}.config", "{name}.bit"),
        end="bit",
        cells=("TRELLIS_COMB", "TRELLIS_FF", "DP16KD", "MULT18X18D"),
    ),
    "ice40": Toolchain(
        amaranth="IceStorm",
        constraints="pcf",
        synth="synth_ice40 -device u -dsp",
        place="NEXTPNR_ICE40",
        pins=("--pcf", "{name}.pcf"),
        routed=("--asc", "{name}-{seed}.asc"),
        pack="ICEPACK",
        packed=("{name}-{seed}.asc", "{name}.bin"),
        end="bin",
        cells=("ICESTORM_LC", "FF", "ICESTORM_RAM", "ICESTORM_DSP"),
    ),
    "gowin": Toolchain(
        amaranth="Apicula",
        constraints="cst",
        synth="synth_gowin -family gw1n",
        place="NEXTPNR_GOWIN",
        pins=("--vopt", "cst={name}.cst"),
        routed=("--write", "{name}-{seed}.json"),
        pack="GOWIN_PACK",
        packed=(
            "-d", "GW1N-9C", "--sspi_as_gpio", "--mspi_as_gpio", "-o", "{name}.fs",
            "{name}-{seed}.json",
        ),
        end="fs",
        cells=("LUT4", "DFF", "BSRAM", "MULT9X9"),
    ),
}  # fmt: skip


def find(board: Board) -> Toolchain:
    """Return the tools of a board: those of the family in its target's name."""
    return TOOLCHAINS[targets.find(board.target).name.partition("-")[0]]
