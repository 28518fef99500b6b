"""All files of an export: memories in several formats, constants, numbers and a list of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from seedbed.flow.cores import networks
from seedbed.flow.cores.core import Core
from seedbed.flow.cores.settings import toml
from seedbed.flow.export.memory import Memory, head
from seedbed.flow.export.vectors import npy_bytes
from seedbed.flow.run.files import is_generated, write_generated
from seedbed.spec.network import NetworkConfig

__all__ = ["Export", "write"]

#: Bytes of the largest memory that is also written as text, in two to five characters a byte.
MOST_TEXT = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Export:
    """What is exported for a core.

    Parameters
    ----------
    core, params
        The core and its parameters.
    title
        What is exported, for the first line of each file.
    memories
        Contents of memories, and payloads of ports.
    constants
        Integers by name.
    numbers
        Integers of any shape by name: such as a vector, and the product that is expected.
    notes
        Sentences: what was padded, scaled and rounded.
    """

    core: Core
    params: Mapping[str, Any]
    title: str
    memories: list[Memory]
    constants: Mapping[str, int]
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def files(self, name: str) -> dict[str, str | bytes]:
        """Return the content of every file by its name, which begins with ``name``."""
        found: dict[str, str | bytes] = {}
        for memory in self.memories:
            stem = f"{name}_{memory.name}"
            if _in_text(memory):
                found[f"{stem}.hex"] = memory.hex()
                found[f"{stem}.mem"] = memory.hex(address=True)
                found[f"{stem}.coe"] = memory.coe()
            found[f"{stem}.bin"] = memory.raw.tobytes()
            found[f"{stem}.npy"] = npy_bytes(memory.raw)
        for each, numbers in self.numbers.items():
            found[f"{name}_{each}.npy"] = npy_bytes(numbers)
        found[f"{name}.h"] = self._header(name)
        found[f"{name}.vh"] = self._include(name)
        params = dict(self.params)
        network = params.get("network")
        if isinstance(network, NetworkConfig):
            # A path in a file of parameters is relative to that file.
            params["network"] = f"{name}_network.toml"
            text = networks.toml(network)
            found[f"{name}_network.toml"] = f"# {head('Network', self.title)}\n{text}"
        text = toml(self.core, params)
        found[f"{name}.toml"] = f"# {head('Configuration', self.title)}\n{text}"
        return {f"{name}.json": self._document(name, found), **found}

    def _header(self, name: str) -> str:
        """Return the header for C."""
        guard, prefix = f"SEEDBED_{name.upper()}_H", name.upper()
        lines = [f"// {head('Header', self.title)}", f"#ifndef {guard}", f"#define {guard}"]
        lines += ["", "#include <stdint.h>", ""]
        lines += [f"#define {prefix}_{each} {_c(value)}" for each, value in self.constants.items()]
        for memory in self.memories:
            check = crc32(memory.raw.tobytes())
            stem = f"{prefix}_{memory.name.upper()}"
            lines += [
                "", f"#define {stem}_WORDS {memory.words}", f"#define {stem}_BITS {memory.width}",
                f"#define {stem}_CRC32 0x{check:08x}u",
                memory.c_array(name) if _in_text(memory) else "",
            ]  # fmt: skip
        for each, numbers in self.numbers.items():
            values = ",\n  ".join(_c(int(value)) for value in numbers.reshape(-1))
            lines += [
                f"static const int64_t {name}_{each}[{numbers.size}] = {{\n  {values}\n}};", "",
            ]  # fmt: skip
        return "\n".join([*lines, "#endif"]) + "\n"

    def _include(self, name: str) -> str:
        """Return the constants as local parameters of a Verilog module."""
        lines = [f"// {head('Parameters', self.title)}"]
        constants = dict(self.constants)
        for memory in self.memories:
            constants[f"{memory.name.upper()}_WORDS"] = memory.words
            constants[f"{memory.name.upper()}_BITS"] = memory.width
        lines += [
            f"localparam {name.upper()}_{each} = {_verilog(value)};"
            for each, value in constants.items()
        ]
        return "\n".join(lines) + "\n"

    def _document(self, name: str, files: Mapping[str, str | bytes]) -> str:
        """Return what was exported as JSON, with the list of all files."""
        described = {"title": self.title, "core": self.core.name, "constants": self.constants}
        memories = {
            memory.name: {
                "word": memory.title, "words": memory.words, "bits": memory.width,
                "crc32": f"{crc32(memory.raw.tobytes()):08x}",
            }
            for memory in self.memories
        }  # fmt: skip
        numbers = {each: list(found.shape) for each, found in self.numbers.items()}
        document = {
            "generator": f"seedbed {version('seedbed')}", **described, "memories": memories,
            "numbers": numbers, "notes": self.notes, "files": list(files),
        }  # fmt: skip
        return json.dumps(document, indent=1) + "\n"


def _in_text(memory: Memory) -> bool:
    """Return whether a memory is also written as text: it is not too large for such files."""
    return memory.raw.nbytes <= MOST_TEXT


def _c(value: int) -> str:
    """Return an integer as a constant of C: the least one has no literal."""
    least = value == -(1 << 63)
    return f"({value + 1} - 1)" if least else f"({value})" if value < 0 else str(value)


def _verilog(value: int) -> str:
    """Return an integer as a constant of Verilog: without a width, it has 32 bits and a sign."""
    return str(value) if -(1 << 31) <= value < 1 << 31 else f"64'd{value}"


def write(export: Export, folder: Path, name: str, *, force: bool) -> list[Path]:
    """Write all files of an export to ``folder``; return their paths.

    Files of an earlier export of the same name are overwritten; others only with ``force``. All
    files are checked before one is written.
    """
    owned: list[str] = []
    document = folder / f"{name}.json"
    if is_generated(document):
        try:
            owned = json.loads(document.read_text())["files"]
        except (KeyError, TypeError, ValueError):
            # Changed by hand: files that do not say who wrote them are the user's.
            owned = []
    return write_generated(folder, export.files(name), force=force, owned=owned)
