"""RTLIL to Verilog, by Yosys."""

from pathlib import Path
from tempfile import TemporaryDirectory

from seedbed.sim import tools

__all__ = ["convert"]

_ATTRIBUTES = ("generator", "top", "src", "amaranth.hierarchy", "amaranth.decoding")
_REMOVED = " ".join(f"-remove {name}" for name in _ATTRIBUTES)
# The steps of amaranth.back.verilog, whose Yosys would run on after an interruption.
_SCRIPT = f"""\
read_rtlil core.il
proc -nomux -norom
memory_collect
attrmap {_REMOVED}
attrmap -modattr {_REMOVED}
write_verilog -norename core.v
"""


def convert(rtlil: str) -> str:
    """Return the Verilog of modules in RTLIL, without attributes of Amaranth.

    Raises :class:`~seedbed.sim.tools.ToolMissing` without a Yosys.
    """
    with TemporaryDirectory(prefix="seedbed-") as name:
        folder = Path(name)
        (folder / "core.il").write_text(rtlil)
        (folder / "convert.ys").write_text(_SCRIPT)
        tools.run("YOSYS", "-q", "-s", "convert.ys", cwd=folder)
        return (folder / "core.v").read_text()
