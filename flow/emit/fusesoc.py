"""A library for FuseSoC: a generator, and a core file for the default of each core."""

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from seedbed.flow.cores import registry, settings
from seedbed.flow.emit import handoff, verilog
from seedbed.flow.emit.names import require_name
from seedbed.flow.run.files import write_generated

__all__ = ["GENERATOR", "OWN", "generate", "library"]

#: What the generator takes in addition to the parameters of the core.
OWN = ("core", "name", "testbench")
#: The script that FuseSoC runs.
GENERATOR = "seedbed_generator.py"
_SCRIPT = """\
# FuseSoC generator of seedbed {version}: {file} INPUT.yml
\"\"\"Writes the files of a core to the current folder, as FuseSoC asks for them.\"\"\"

import sys

try:
    import yaml

    from seedbed.flow.emit.fusesoc import generate
    from seedbed.sim.tools import setup_environment
except ModuleNotFoundError as problem:
    sys.exit(f"error: {{problem.name}} is not installed: pip install 'seedbed[projects]' brings it")

try:
    setup_environment()
    with open(sys.argv[1]) as file:
        generate(yaml.safe_load(file))
except (OSError, RuntimeError, TypeError, ValueError) as problem:
    sys.exit(f"error: {{problem}}")
"""
_GENERATOR = """\
CAPI=2:
name: {vlnv}
description: "Generator of the cores of seedbed"

generators:
  seedbed:
    interpreter: python3
    command: {script}
    description: Writes the Verilog of a core of seedbed in a configuration
    usage: |
      core: a name that 'seedbed list' shows
      name: the top module, by default the core's name
      testbench: true for a testbench in Verilog and its vectors, too
      All other parameters are those of the core, as 'seedbed list CORE' shows them.
"""
_DEFAULT = """\
CAPI=2:
name: {vlnv}
description: {title}

filesets:
  generator:
    depend: [{generator}]

generate:
{generate}

targets:
{targets}
"""


def _vlnv(name: str) -> str:
    return f"seedbed:cores:{name}:{version('seedbed')}"


def library() -> dict[str, str]:
    """Return the files of the library by name: the generator, and a core file for each core."""
    texts = {
        GENERATOR: _SCRIPT.format(version=version("seedbed"), file=GENERATOR),
        "generator.core": _GENERATOR.format(vlnv=json.dumps(_vlnv("generator")), script=GENERATOR),
    }
    for core in (registry.CORES | registry.WRAPPERS).values():
        parts: dict[str, dict[str, Any]] = {"rtl": {"core": core.name}}
        if core.name in registry.CORES:
            parts["bench"] = {"core": core.name, "testbench": True}
        lines = [
            f"  {part}: {{generator: seedbed, parameters: {json.dumps(parameters)}}}"
            for part, parameters in parts.items()
        ]
        targets = handoff.targets(
            core.name,
            rtl="filesets: [generator]\n    generate: [rtl]",
            bench="generate: [bench]" if "bench" in parts else "",
        )
        texts[f"{core.name}.core"] = _DEFAULT.format(
            vlnv=json.dumps(_vlnv(core.name)),
            title=json.dumps(core.title),
            generator=json.dumps(_vlnv("generator")),
            generate="\n".join(lines),
            targets=targets,
        )
    return texts


def generate(request: Mapping[str, Any]) -> None:
    """Write the files of a core and their FuseSoC file to the current folder.

    ``request`` is what FuseSoC gives a generator: ``vlnv``, the name of the core file, and
    ``parameters``, those of the core and :data:`OWN`. Raises ``ValueError`` for a wrong one.
    """
    given = dict(request.get("parameters") or {})
    if "core" not in given:
        raise ValueError("the generator needs the parameter core: a name that 'seedbed list' shows")
    testbench = given.pop("testbench", False)
    if not isinstance(testbench, bool):
        raise ValueError(f"testbench must be true or false, not {testbench!r}")
    word = str(given.pop("core"))
    core = registry.find(word) if testbench else registry.find_verilog(word)
    name = given.pop("name", "")
    top = require_name(str(name)) if name else core.name
    if str(given.get("network", "")).endswith(".toml"):
        given["network"] = Path(request.get("files_root", "")) / given["network"]
    words = [f"{key}={settings.text(value)}" for key, value in given.items()]
    params = settings.read(core, words)
    folder = Path()
    if testbench:
        texts = handoff.bench_texts(
            core, params, folder, name=top, seed=1, sources=False, force=True
        )
    else:
        texts = {f"{top}.v": verilog.emit(core, params, name=top)}
    vectors = [*texts][2:]
    texts[f"{top}.core"] = handoff.core_file(
        top, core.title, vectors, vlnv=request["vlnv"], testbench=testbench
    )
    write_generated(folder, texts, force=True)
