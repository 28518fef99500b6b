"""Files for other tool flows: a core's Verilog with a testbench and a FuseSoC core file."""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from seedbed.flow.cores.core import Core
from seedbed.flow.emit import verilog
from seedbed.flow.run.files import require_outputs, write_generated
from seedbed.sim.verilog import verilog_bench

__all__ = ["bench", "bench_texts", "core_file", "fusesoc", "targets"]

#: FuseSoC core file (CAPI2), which is YAML. Every text in it is a JSON string, which YAML has, too:
#: a colon in a title, or a module called ``on``, is text. Verilator 5.0 and newer accept the lint
#: options. The project's own lint is stricter; its waivers name rules of newer versions.
_CORE = """\
CAPI=2:
name: {vlnv}
description: {title}

filesets:
{filesets}

targets:
{targets}
"""
_RTL = """\
  rtl:
    files: [{rtl}]
    file_type: verilogSource
"""
_BENCH = """\
  testbench:
    files:
      - {bench}: {{file_type: verilogSource}}
{vectors}
"""
#: The targets of a core file. ``{rtl}`` and ``{bench}`` are where the files of each are from.
_TARGETS = """\
  default: &default
    {rtl}
    toplevel: {top}
  lint:
    <<: *default
    description: Verilator's -Wall without rules of style, widths and defaults of case statements
    default_tool: verilator
    tools:
      verilator:
        mode: lint-only
        verilator_options: [-Wall, -Wno-style, -Wno-WIDTH, -Wno-CASEINCOMPLETE]
  synth:
    <<: *default
    description: Synthesis for UltraScale+ by yosys, to a netlist in JSON
    default_tool: yosys
    tools:
      yosys:
        arch: xilinx
        output_format: json
        yosys_synth_options: [-family xcup, -flatten, -noiopad, -noclkbuf]
"""
_SIM = """\
  sim:
    <<: *default
    {bench}
    description: Testbench with test vectors of the golden model
    default_tool: icarus
    toplevel: {bench_top}
"""


def bench(
    core: Core,
    params: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "",
    seed: int = 1,
    sources: bool = False,
    force: bool = False,
) -> list[Path]:
    """Write a core's Verilog, a testbench in plain Verilog and its vectors; return their paths.

    The vectors are the stimulus of the core's test case and the outputs of the golden model. A
    file that seedbed did not write is overwritten only with ``force``.
    """
    texts = bench_texts(core, params, folder, name=name, seed=seed, sources=sources, force=force)
    return write_generated(folder, texts, force=force)


def bench_texts(
    core: Core, params: Mapping[str, Any], folder: Path, *, name: str, seed: int, sources: bool,
    force: bool,
) -> dict[str, str]:  # fmt: skip
    """Return the files of :func:`bench` by name: the Verilog, the testbench, sorted vectors."""
    top = name or core.name
    # Before the core is elaborated, which takes longer.
    known = (folder / f"{top}{end}" for end in (".v", "_tb.v"))
    require_outputs(*known, force=force, generated=True)
    config = core.configure(params)
    text = verilog.emit(core, params, name=name, sources=sources)
    found = verilog_bench.files(top, core.case(config, Random(seed)), core.signature(config))
    main = f"{top}_tb.v"
    vectors = {file: found[file] for file in sorted(found) if file != main}
    return {f"{top}.v": text, main: found[main], **vectors}


def fusesoc(
    core: Core,
    params: Mapping[str, Any],
    folder: Path,
    *,
    name: str = "",
    sources: bool = False,
    force: bool = False,
) -> list[Path]:
    """Write the files of :func:`bench`, and a FuseSoC file: targets lint, sim and synth.

    Returns the paths of the Verilog file and of the FuseSoC file.
    """
    top = name or core.name
    require_outputs(folder / f"{top}.core", force=force, generated=True)
    texts = bench_texts(core, params, folder, name=name, seed=1, sources=sources, force=force)
    _, _, *vectors = texts
    texts[f"{top}.core"] = core_file(top, core.title, vectors)
    first, *_, last = write_generated(folder, texts, force=force)
    return [first, last]


def core_file(
    top: str, title: str, vectors: Sequence[str], *, vlnv: str = "", testbench: bool = True
) -> str:
    """Return the FuseSoC file of the module ``top``, with its testbench and vectors.

    ``vlnv`` is its name in FuseSoC, by default of the vendor ``seedbed`` without a library. It is
    given by a generator for another core, whose targets then have the testbench, too.
    """
    everything = "filesets: [rtl, testbench]" if testbench else ""
    names = map(_quoted, vectors)
    lines = (f"      - {name}: {{file_type: user, copyto: {name}}}" for name in names)
    filesets = _RTL.format(rtl=_quoted(f"{top}.v"))
    if testbench:
        filesets += _BENCH.format(bench=_quoted(f"{top}_tb.v"), vectors="\n".join(lines))
    return _CORE.format(
        vlnv=_quoted(vlnv or f"seedbed::{top}:{version('seedbed')}"),
        title=_quoted(title),
        filesets=filesets.rstrip(),
        targets=targets(
            top,
            rtl=(everything if vlnv else "") or "filesets: [rtl]",
            bench=everything,
        ),
    )


def targets(top: str, *, rtl: str, bench: str) -> str:
    """Return the targets of a FuseSoC file, without a simulation if ``bench`` is ""."""
    text = _TARGETS.format(rtl=rtl, top=_quoted(top))
    if bench:
        text += _SIM.format(bench=bench, bench_top=_quoted(f"{top}_tb"))
    return text.rstrip()


def _quoted(text: str) -> str:
    # YAML does not join the two escapes of a character beyond 16 bits, which JSON has otherwise.
    return json.dumps(text, ensure_ascii=False)
