"""Files for other tool flows: a core's Verilog with a testbench and a FuseSoC core file."""

import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from seedbed.flow.core import Core
from seedbed.flow.emit import verilog
from seedbed.flow.files import write_atomic
from seedbed.sim import verilog_bench

__all__ = ["bench", "fusesoc"]

#: FuseSoC core file (CAPI2). Verilator 5.0 and newer accept the lint options. The project's own
#: lint is stricter; its waivers name rules of newer versions.
_CORE = """\
CAPI=2:
name: seedbed::{name}:{version}
description: {title}

filesets:
  rtl:
    files: [{name}.v]
    file_type: verilogSource
  testbench:
    files:
      - {name}_tb.v: {{file_type: verilogSource}}
{vectors}

targets:
  default: &default
    filesets: [rtl]
    toplevel: {name}
  lint:
    <<: *default
    filesets: [rtl]
    description: Verilator's -Wall without rules of style, widths and defaults of case statements
    default_tool: verilator
    tools:
      verilator:
        mode: lint-only
        verilator_options: [-Wall, -Wno-style, -Wno-WIDTH, -Wno-CASEINCOMPLETE]
  sim:
    <<: *default
    filesets: [rtl, testbench]
    description: Testbench with test vectors of the golden model
    default_tool: icarus
    toplevel: {name}_tb
"""


def bench(
    core: Core,
    params: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "",
    seed: int = 1,
    sources: bool = False,
) -> list[Path]:
    """Write a core's Verilog, a testbench in plain Verilog and its vectors; return their paths.

    The vectors are the stimulus of the core's test case and the outputs of the golden model.
    """
    config = core.configure(params)
    path = verilog.write(core, params, folder, name=name, sources=sources)
    top = path.stem
    main = verilog_bench.write(folder, top, core.case(config, Random(seed)), core.signature(config))
    vectors = re.findall(r'\$readmemh\("(\S+)"', main.read_text())
    return [path, main, *(folder / file for file in sorted(vectors))]


def fusesoc(
    core: Core,
    params: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "",
    sources: bool = False,
) -> list[Path]:
    """Write the files of :func:`bench` and a FuseSoC file with the targets ``lint`` and ``sim``.

    Returns the paths of the Verilog file and of the FuseSoC file.
    """
    path, _, *vectors = bench(core, params, folder, name=name, sources=sources)
    lines = (f"      - {v.name}: {{file_type: user, copyto: {v.name}}}" for v in vectors)
    text = _CORE.format(
        name=path.stem, version=version("seedbed"), title=core.title, vectors="\n".join(lines)
    )
    return [path, write_atomic(folder / f"{path.stem}.core", text)]
