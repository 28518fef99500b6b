"""Parameters as text: parsing of ``--set`` options, and the inverse."""

import re
from collections.abc import Iterable
from dataclasses import Field, fields
from typing import Any, get_args, get_origin

from seedbed.flow.cores.core import Core
from seedbed.spec.fixed import Fixed

__all__ = ["DEFAULT", "defaults", "read", "text"]

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


def read(core: Core, words: Iterable[str]) -> dict[str, Any]:
    """Parse ``name=value`` words as parameters of the core.

    A value is parsed by the type of its parameter. A value that cannot be parsed stays text, and
    the configuration rejects it. Raises ``ValueError`` for a word without an equals sign, a
    duplicate or unknown name, and an invalid number format.
    """
    known = {f.name: f for f in fields(core.config) if f.init}
    given: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise ValueError(f"--set takes NAME=VALUE, not {word!r}")
        if name in given:
            raise ValueError(f"--set must give {name} once, not {given[name]!r} and {value!r}")
        given[name] = value
    core.require(given)
    return {name: _value(known[name], value) for name, value in given.items()}


def _value(field: Field, word: str) -> Any:
    if word == DEFAULT:
        return field.default
    kinds = {field.type, *get_args(field.type)}
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
