"""Resources of a core by part: each submodule of the top module is mapped on its own."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seedbed.flow.fpga import synth, targets
from seedbed.flow.fpga.carries import Module
from seedbed.flow.run.cache import memo
from seedbed.flow.run.files import locked, write_atomic
from seedbed.sim import tools

__all__ = ["REST", "by_part"]

#: The logic of the top module outside its submodules.
REST = "top module"

_MODULE = re.compile(rb"^module \\?(\S+?) ?\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_SCRIPT = """\
read_verilog core.v
{keep}{synth} -top {top}
opt_clean
write_json mapped.part
"""


def _script(modules: dict[str, bytes], top: str, target: targets.Target) -> str:
    """Return the yosys script that maps ``top``, and leaves the modules of its instances apart."""
    used = {name.decode() for name in synth.INSTANCE.findall(modules[top])} & {*modules}
    keep = "".join(synth.KEEP.format(name=name) for name in sorted(used))
    return _SCRIPT.format(keep=keep, synth=target.synth_core, top=top)


def by_part(
    verilog: Path, top: str, *, target: str, build: Path, progress: synth.Progress = None
) -> dict[str, dict[str, int]]:
    """Return ``lut``, ``ff``, ``bram`` and ``dsp`` of each submodule of ``top``, by instance.

    ``verilog`` is a file of the emitter. A part is mapped with all that it contains, and nothing is
    moved or shared across its ports: the sum differs from
    :func:`~seedbed.flow.fpga.synth.synthesize`. Registers are not moved into ECP5's multipliers.
    :data:`REST` has what is in no part. Results are cached in ``build``. Raises as
    :func:`~seedbed.flow.fpga.synth.map_core`.
    """
    found = targets.find(target)
    text = verilog.read_bytes()
    modules = {module[1].decode(): module[0] for module in _MODULE.finditer(text)}
    script = _script(modules, top, found)
    key = {"verilog": synth.digest(text), "script": script, "yosys": tools.version("YOSYS")}

    def compute() -> dict[str, Any]:
        synth.notify(progress, f"synthesizing the parts of {top} for {target}")
        folder = build / f"{top}-{target}-parts-{synth.digest(text + script.encode())[:16]}"
        with locked(folder):
            write_atomic(folder / "core.v", text)
            synth.yosys(folder, "parts", script)
            synth.complete(folder / "mapped.part")
            design = json.loads((folder / "mapped.part").read_text())["modules"]
        # Without the library's cells, which are modules of the file, too.
        design = {name: module for name, module in design.items() if name in modules}
        cells = design[top]["cells"].items()
        instances = {name: cell["type"] for name, cell in cells if cell["type"] in design}
        parts = {name: dict(_whole(design, of, found)) for name, of in sorted(instances.items())}
        return parts | {REST: dict(_own(design, top, found))}

    return memo(build / "cache", "parts", key, compute)


def _own(design: Mapping[str, Module], name: str, target: targets.Target) -> Counter[str]:
    """Return the resources of a module without those of its submodules."""
    cells = Counter(cell["type"] for cell in design[name]["cells"].values())
    total = Counter(target.count({of: n for of, n in cells.items() if of not in design}))
    total["lut"] += target.route_throughs(design[name])
    return total


def _whole(design: Mapping[str, Module], name: str, target: targets.Target) -> Counter[str]:
    """Return the resources of a module with those of its submodules."""
    total = _own(design, name, target)
    for cell in design[name]["cells"].values():
        if cell["type"] in design:
            total.update(_whole(design, cell["type"], target))
    return total
