"""Drivers: the files of ``drivers/``, of which some are made of the register maps."""

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seedbed.boards import apps
from seedbed.boards.registers import COMMON, PROTOCOL, addresses
from seedbed.boards.stream_job import JOB_REGISTERS
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS
from seedbed.spec.axi_registers import AXI_REGISTERS, STATUS_BIT
from seedbed.spec.gemv import GEMV_STATUS
from seedbed.spec.host_link import RESPONSE, LinkError, Operation
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS
from seedbed.spec.registers import Register
from seedbed.spec.registers import addresses as addresses_of
from seedbed.spec.sparse_trainer import SPARSE_TRAINER_KINDS, SPARSE_TRAINER_STATUS
from seedbed.spec.stream_engine import STREAM_ENGINE_KINDS, STREAM_ENGINE_STATUS
from seedbed.spec.stream_trainer import STREAM_TRAINER_KINDS, STREAM_TRAINER_STATUS
from seedbed.spec.zo_trainer import ZO_TRAINER_KINDS, ZO_TRAINER_STATUS

__all__ = ["CORES", "FOLDER", "GENERATED", "STATUS", "board_registers", "files", "streams"]

#: Where the files are, in the project and where it is installed.
FOLDER = Path(__file__).parents[1] / "drivers"
#: The files of the drivers in C, and of those for PYNQ.
_FILES = ("c/*.[ch]", "pynq/*.py", "pynq/*.json", "pynq/*.ipynb")
#: The first line of a file that is made of the maps.
_HEAD = "// SPDX-License-Identifier: Apache-2.0\n// Written by 'seedbed drivers': {}\n"
#: Greatest length of a line.
_WIDTH = 100


@dataclass(frozen=True, kw_only=True)
class _Core:
    """What the driver knows of a core with AXI ports.

    Parameters
    ----------
    status
        What each status code means, by its name, in the order of the codes.
    kinds
        Names of the commands, in the order of their codes.
    samples
        The input whose short packet ends a command.
    results
        The output that every command ends with.
    abort
        Bits of ``control`` that abort a command.
    may_miss, without_steps
        The outputs that may miss after an error, and those that miss if no step was taken.
    """

    status: Mapping[str, str]
    kinds: Sequence[str] = ()
    samples: str = ""
    results: str
    abort: int = 0
    may_miss: Sequence[str] = ()
    without_steps: Sequence[str] = ()


_COMMAND = "the command has no such kind, or samples, epochs or batch are out of range"
_SAMPLE = "a sample has fewer or more beats than it should"
_MEMORY = "the memory answered an error, a burst of another length, too late, or unasked"
_ABORTED = "the command was aborted"
_PROGRAM = {
    "ok": "no error",
    "memory": _MEMORY,
    "damaged": "the program is damaged, or is for another core",
    "size": "the program needs more than the core has",
    "missing": "no program is loaded",
    "tokens": "the block or its context is too long, or a token is not in the table",
}

#: The cores, by their names.
CORES = {
    "gemv": _Core(
        status={
            "ok": "no error",
            "shape": "columns or rows are 0, or there are more columns than the core has",
            "vector": "the vector has fewer or more beats than its columns",
            "row": "a row has fewer or more beats than its columns",
            "cleared": "the job was aborted",
        },
        results="m_axis_result",
        abort=2,
    ),
    "forward_cache": _Core(
        status={
            "done": "no error",
            "miss": "the entry was not stored since the last clear or reset",
            "range": "there is no such index or kind",
            "memory": _MEMORY,
            "frame": "an entry has fewer or more beats than it should",
        },
        kinds=FORWARD_CACHE_KINDS,
        results="m_axis_answer",
        may_miss=["m_axis_codes"],
    ),
    "instantft": _Core(
        status={
            "ok": "no error",
            "command": _COMMAND,
            "sample": _SAMPLE,
            "index": "the cache has no entry of this index",
            "memory": _MEMORY,
            "parameters": "a packet of parameters has fewer or more words than its rows",
        },
        kinds=INSTANTFT_KINDS,
        samples="s_axis_samples",
        results="m_axis_results",
        may_miss=["m_axis_adapters"],
    ),
    "zo_trainer": _Core(
        status={
            "ok": "no error",
            "command": _COMMAND,
            "sample": _SAMPLE,
            "parameters": "no whole packet of parameters has come, or a reset ended an update",
            "schedule": "no schedule has come, or it is not allowed",
        },
        kinds=ZO_TRAINER_KINDS,
        samples="s_axis_samples",
        results="m_axis_results",
        may_miss=["m_axis_parameters"],
    ),
    "sparse_trainer": _Core(
        status={
            "ok": "no error",
            "command": _COMMAND,
            "layers": "no table of layers has come, or it is not allowed",
            "sample": _SAMPLE,
            "memory": _MEMORY,
            "order": "an entry is before the entry before it",
            "repeated": "an entry is at the place of the entry before it",
            "range": "an entry is outside its layer",
            "entries": "no entries are loaded",
            "aborted": _ABORTED,
        },
        kinds=SPARSE_TRAINER_KINDS,
        results="m_axis_results",
        abort=2,
        may_miss=["m_axis_entries"],
        without_steps=["m_axis_log"],
    ),
    "stream_engine": _Core(
        status=_PROGRAM,
        kinds=STREAM_ENGINE_KINDS,
        results="m_axis_results",
    ),
    "stream_trainer": _Core(
        status=_PROGRAM
        | {
            "damaged": f"{_PROGRAM['damaged']}, or the range of kept weights is not in it",
            "command": "the training has no samples, or numbers that are out of range",
            "aborted": _ABORTED,
        },
        kinds=STREAM_TRAINER_KINDS,
        results="m_axis_results",
        abort=2,
    ),
}
#: The status codes of each core, in order.
STATUS = {
    "gemv": GEMV_STATUS[: len(CORES["gemv"].status)],
    "forward_cache": FORWARD_CACHE_STATUS,
    "instantft": INSTANTFT_STATUS,
    "zo_trainer": ZO_TRAINER_STATUS,
    "sparse_trainer": SPARSE_TRAINER_STATUS,
    "stream_engine": STREAM_ENGINE_STATUS,
    "stream_trainer": STREAM_TRAINER_STATUS,
}


def files() -> dict[str, str]:
    """Return the text of each file by its path, such as ``c/seedbed_axi.h``."""
    found = [path for pattern in _FILES for path in sorted(FOLDER.glob(pattern))]
    fixed = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in found}
    return fixed | {name: make() for name, make in GENERATED.items()}


def board_registers(name: str, registers: Sequence[Register]) -> str:
    """Return the registers of an application of a board as C, for one of your own, too."""
    prefix, found = f"board_{name}", addresses(registers)
    lines = _enumeration(
        (f"{prefix}_{r.name}", found[r.name], f"{r.access}: {r.meaning}") for r in registers
    )
    if set(JOB_REGISTERS) <= set(registers):
        fields = ("hold", "origin_in", "origin_out", "digest", "jobs")
        values = ", ".join(str(found[field]) for field in fields)
        lines += [
            "// Of struct seedbed_job_registers.",
            f"#define {_macro(prefix, 'job')} {{{values}}}",
        ]
    return f"// Application {name}.\n" + "\n".join(lines) + "\n"


def _board_header() -> str:
    operations = [
        ("protocol_version", PROTOCOL, ""),
        ("response", RESPONSE, ""),
        *((each.name, each.value, "") for each in Operation),
        *((f"wrong_{each.name}", each.value, "") for each in LinkError),
    ]
    common = addresses(())
    parts = [
        "// The protocol of the host link.\n" + "\n".join(_enumeration(operations)) + "\n",
        "// The first registers of every application.\n"
        + "\n".join(
            _enumeration(
                (f"board_{r.name}", common[r.name], f"{r.access}: {r.meaning}") for r in COMMON
            )
        )
        + "\n",
    ]
    parts += [board_registers(name, apps.find(name).REGISTERS) for name in apps.APPS]
    return _guarded("seedbed_board_registers.h", "registers of the boards' applications", parts)


def _axi_header() -> str:
    shared = {r.name: 4 * k for k, r in enumerate(AXI_REGISTERS["gemv"][:2])}
    shared["steps"] = addresses_of(AXI_REGISTERS["sparse_trainer"], 4)["steps"]
    common = [
        *((f"axi_{name}_register", offset, "") for name, offset in shared.items()),
        ("axi_status_busy", 1, ""),
        ("axi_status_done", 2, ""),
        ("axi_status_code", STATUS_BIT, "the lowest bit of the code"),
    ]
    parts = ["// What all maps have.\n" + "\n".join(_enumeration(common)) + "\n"]
    parts += [_core_header(name, core) for name, core in CORES.items()]
    return _guarded("seedbed_axi_registers.h", "registers and streams of the cores with AXI", parts)


def _core_header(name: str, core: _Core) -> str:
    registers = AXI_REGISTERS.get(name, ())
    offsets = addresses_of(registers, 4)
    parts = [f"// {name}_axi."]
    if registers:
        parts += ["// Offsets of its registers at s_axi_control."]
        parts += _enumeration(
            (f"{name}_{r.name}", offsets[r.name], f"{r.access}: {_short(r)}") for r in registers
        )
    if core.kinds:
        parts += ["// Its commands."]
        parts += _enumeration((f"{name}_{kind}", code, "") for code, kind in enumerate(core.kinds))
    parts += ["// How a command ended."]
    parts += _enumeration(
        (f"{name}_status_{status}", code, "") for code, status in enumerate(core.status)
    )
    parts += ["// Its streams."]
    parts += _enumeration((f"{name}_{port}", k, "") for k, port in enumerate(streams(name)))
    fields = [r.name for r in registers if r.access == "write" and r.name != "base"]
    if core.kinds and fields:
        parts += ["// A command's registers.", f"struct seedbed_{name}_command {{"]
        parts += textwrap.wrap(
            f"uint32_t {', '.join(fields)};", _WIDTH, initial_indent=" " * 4,
            subsequent_indent=" " * len("    uint32_t "),
        )  # fmt: skip
        parts += ["};"]
    parts += [f"extern const struct seedbed_axi_core seedbed_{name}_axi;"]
    return "\n".join(parts) + "\n"


def _short(register: Register) -> str:
    """Return what a register means; the codes of a status are in an enumeration."""
    return register.meaning.partition(", ")[0] if register.name == "status" else register.meaning


def _axi_source() -> str:
    parts = ['#include "seedbed_axi.h"\n']
    for name, core in CORES.items():
        found = streams(name)
        place = found.index
        texts = [f'    "{text}",' for text in core.status.values()]
        fields = {
            "name": f'"{name}_axi"',
            "inputs": sum(port.startswith("s_") for port in found),
            "streams": len(found),
            "registers": "true" if name in AXI_REGISTERS else "false",
            "abort": core.abort,
            "samples": place(core.samples) if core.samples else len(found),
            "results": place(core.results),
            "may_miss": sum(1 << place(port) for port in core.may_miss),
            "miss_without_steps": sum(1 << place(port) for port in core.without_steps),
            "texts": f"{name}_texts",
            "statuses": len(core.status),
        }
        parts.append(
            "\n".join(
                [
                    f"static const char *const {name}_texts[] = {{",
                    *texts,
                    "};\n",
                    f"const struct seedbed_axi_core seedbed_{name}_axi = {{",
                    *(f"    .{field} = {value}," for field, value in fields.items()),
                    "};\n",
                ]
            )
        )
    return _HEAD.format("what the driver knows of each core.") + "\n".join(parts)


def _axi_json() -> str:
    """Return what the driver for PYNQ knows of each core."""
    found = {}
    for name, core in CORES.items():
        ports, members = streams(name), _members(name)
        registers = AXI_REGISTERS.get(name, ())
        found[name] = {
            "registers": addresses_of(registers, 4),
            "command": [r.name for r in registers if r.access == "write" and r.name != "base"],
            "optional": [r.name for r in registers if r.option],
            "kinds": list(core.kinds),
            "status": dict(core.status),
            "inputs": [port for port in ports if port.startswith("s_")],
            "outputs": [port for port in ports if port.startswith("m_")],
            "users": [port for port in ports if f"{port}_tuser" in members],
            "samples": core.samples,
            "results": core.results,
            "abort": core.abort,
            "may_miss": list(core.may_miss),
            "without_steps": list(core.without_steps),
        }
    bits = {"busy": 1, "done": 2, "code": STATUS_BIT}
    written = "Written by 'seedbed drivers': registers and streams of the cores with AXI."
    text = {"about": written, "status_register": bits, "cores": found}
    return json.dumps(text, indent=1) + "\n"


def streams(name: str) -> list[str]:
    """Return the AXI4-Streams of a core, the inputs first."""
    members = _members(name)
    found = [match[1] for each in members if (match := re.fullmatch(r"(._axis_\w+)_tdata", each))]
    return sorted(found, key=lambda port: not port.startswith("s_"))


def _members(name: str) -> Mapping[str, object]:
    """Return the ports of a core, small."""
    core = WRAPPERS[f"{name}_axi"]
    return core.signature(core.configure(core.small)).members


def _macro(*parts: str) -> str:
    return "_".join(("seedbed", *parts)).upper()


def _enumeration(values: Iterable[tuple[str, int, str]]) -> list[str]:
    """Return constants by their names, each with its meaning."""
    lines = ["enum {"]
    for name, value, meaning in values:
        line = f"    {_macro(name)} = {value},"
        if meaning and len(line) + 4 + len(meaning) > _WIDTH:
            lines += _comment(meaning)
        elif meaning:
            line += f" // {meaning}"
        lines.append(line)
    return [*lines, "};"]


def _comment(text: str) -> list[str]:
    """Return a text as comments of at most :data:`_WIDTH` columns."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 8 > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}"
    return [f"    //{line}" for line in lines]


def _guarded(name: str, what: str, parts: Iterable[str]) -> str:
    guard = name.replace(".", "_").upper()
    body = "\n".join(
        [
            f"#ifndef {guard}\n#define {guard}\n",
            "#include <stdint.h>\n",
            *(
                ['#ifdef __cplusplus\nextern "C" {\n#endif\n', "struct seedbed_axi_core;\n"]
                if "axi" in name
                else []
            ),
            *parts,
            *(["#ifdef __cplusplus\n}\n#endif\n"] if "axi" in name else []),
            "#endif\n",
        ]
    )
    return _HEAD.format(f"{what}.") + body


#: Files that are made of the maps, and what makes them.
GENERATED = {
    "c/seedbed_board_registers.h": _board_header,
    "c/seedbed_axi_registers.h": _axi_header,
    "c/seedbed_axi_cores.c": _axi_source,
    "pynq/seedbed_axi_cores.json": _axi_json,
}
