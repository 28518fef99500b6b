"""Parameters as text: parsing of ``--set`` options and of ``--config`` files, and the inverse."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args, get_origin

from seedbed.flow.cores import networks
from seedbed.flow.cores.core import Core
from seedbed.spec.fixed import Fixed

__all__ = ["DEFAULT", "defaults", "read", "text", "toml"]

#: Text of a default value, and of a parameter that is derived from others.
DEFAULT = "default"


def text(value: Any) -> str:
    """Return a parameter's value in the syntax of ``--set``."""
    if value is None:
        return DEFAULT
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def defaults(core: Core) -> dict[str, str]:
    """Return the core's parameters and defaults, in the syntax of ``--set``."""
    return {f.name: text(f.default) for f in fields(core.config) if f.init}


def toml(core: Core, params: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the core's parameters as a TOML file, which ``--config`` takes.

    Parameters that ``params`` lacks have their defaults. A parameter that is derived from others is
    a comment.
    """
    lines = []
    for f in fields(core.config):
        value = params.get(f.name, f.default)
        if f.init and value is None:
            lines.append(f"# {f.name} is derived from other parameters")
        elif f.init:
            plain = isinstance(value, bool | int | tuple)
            lines.append(f"{f.name} = {json.dumps(value if plain else str(value))}")
    return "\n".join([f"# Parameters of {core.name}.", *lines]) + "\n"


def read(core: Core, words: Iterable[str], file: Path | None = None) -> dict[str, Any]:
    """Parse ``name=value`` words as parameters of the core, and take the others from a TOML file.

    A value is parsed by the type of its parameter. A value that cannot be parsed stays text, and
    the configuration rejects it. A network may be a file, whose name ends in ``.toml``; in a
    parameter file, its path is relative to that file. Raises ``ValueError`` for a word without an
    equals sign, a duplicate or unknown name, an invalid number format, and a file that is not
    valid.
    """
    known = {f.name: f for f in fields(core.config) if f.init}
    kept: dict[str, Any] = {}
    if file:
        kept = networks.read_toml(file)
        if not kept:
            raise ValueError(f"{file} has no parameters")
        try:
            core.require(kept)
            kept = {name: _plain(known[name], value, file) for name, value in kept.items()}
        except ValueError as problem:
            raise ValueError(f"{file}: {problem}") from problem
    given: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise ValueError(f"--set takes NAME=VALUE, not {word!r}")
        if name in given:
            raise ValueError(f"--set must give {name} once, not {given[name]!r} and {value!r}")
        given[name] = value
    core.require(given)
    return kept | {name: _value(known[name], value) for name, value in given.items()}


def _plain(field: Field, value: Any, file: Path) -> Any:
    """Return a parameter of its value in a TOML file."""
    if isinstance(value, str):
        is_file = field.name == "network" and value.endswith(".toml")
        return _value(field, str(file.parent / value) if is_file else value)
    return tuple(value) if isinstance(value, list) else value


def _value(field: Field, word: str) -> Any:
    if word == DEFAULT:
        return field.default
    kinds = {field.type, *get_args(field.type)}
    if field.name == "network" and word.endswith(".toml"):
        return networks.read(Path(word))
    if bool in kinds:
        return {"true": True, "false": False}.get(word.lower(), word)
    if Fixed in kinds and (form := re.fullmatch(r"[Qq](\d+)\.(\d+)", word)):
        whole, fraction = map(int, form.groups())
        try:
            return Fixed(whole + fraction, fraction)
        except ValueError as problem:
            raise ValueError(f"{field.name}={word} is no number format: {problem}") from problem
    if any(get_origin(kind) is tuple for kind in kinds):
        return tuple(_number(part) for part in word.removesuffix(",").split(",")) if word else ()
    return _number(word) if int in kinds else word


def _number(word: str) -> int | str:
    try:
        return int(word, 0)
    except ValueError:
        return word
