"""Results that are computed once: a second run does only what changed."""

import ast
import importlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

from seedbed.flow.files import write_atomic

__all__ = ["code", "memo"]


def memo(
    folder: Path,
    kind: str,
    key: Mapping[str, Any],
    compute: Callable[[], dict[str, Any]],
    *,
    holds: Callable[[dict[str, Any]], bool] = lambda result: True,
) -> dict[str, Any]:
    """Return ``compute()``, or what it returned when it was last called with this ``key``.

    Parameters
    ----------
    folder
        Where the results are kept, one JSON file each.
    kind
        What sort of result it is; first part of the file's name.
    key
        Everything that the result depends on, as JSON values: the Verilog's hash, options, seeds,
        the tools' versions.
    compute
        Gives the result, a dictionary of JSON values. If it raises, nothing is kept.
    holds
        Tells whether a kept result still holds: that files which are part of it are there.

    An entry that is damaged, or belongs to another key, is computed again. A fresh result is
    returned as it is read back, so that first and second call return the same.
    """
    wanted = json.loads(json.dumps(key))
    digest = sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    path = folder / f"{kind}-{digest[:24]}.json"
    try:
        entry = json.loads(path.read_bytes())
        found = entry["result"] if entry["key"] == wanted else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        found = None
    if isinstance(found, dict) and holds(found):
        return found
    text = json.dumps({"key": wanted, "result": compute()}, indent=1, sort_keys=True)
    write_atomic(path, text + "\n")
    return json.loads(text)["result"]


def _home(module: str, name: str) -> str:
    """Return the module that ``from module import name`` gets its source text from.

    A package hands on what its modules hold: of one configuration nothing depends on the others.
    """
    found = importlib.import_module(module)
    if not hasattr(found, "__path__"):
        return module
    if find_spec(f"{module}.{name}"):
        return f"{module}.{name}"
    value = getattr(found, name)
    return value.__module__ if isinstance(value, (type, FunctionType)) else module


@cache
def _read(name: str) -> tuple[str, frozenset[str]]:
    """Return a module's source text, and the modules of this project that it imports from."""
    file = getattr(importlib.import_module(name), "__file__", None)
    if file is None:
        return "", frozenset()
    text = Path(file).read_text()
    imports = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seedbed":
            imports |= {_home(node.module or "", alias.name) for alias in node.names}
    return text, frozenset(imports)


def code(name: str, seen: set[str] | None = None) -> str:
    """Return the source text of a module of this project and of those that it imports.

    As part of a key it makes a result depend on the code that gave it, and on no other.
    """
    seen = set() if seen is None else seen
    if name in seen:
        return ""
    seen.add(name)
    text, imports = _read(name)
    return text + "".join(code(module, seen) for module in sorted(imports))
