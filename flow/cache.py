"""Cache of results: a second run computes only what changed."""

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
    is_valid: Callable[[dict[str, Any]], bool] = lambda result: True,
) -> dict[str, Any]:
    """Return ``compute()``, or its cached result for this ``key``.

    Parameters
    ----------
    folder
        Folder of the cache, one JSON file per result.
    kind
        Kind of the result; prefix of the file name.
    key
        Everything that the result depends on, as JSON values: hash of the Verilog, options, seeds,
        tool versions.
    compute
        Computes the result, a dictionary of JSON values. Nothing is cached if it raises.
    is_valid
        Whether a cached result is valid: for example, that files which belong to it exist.

    An entry that is damaged, or belongs to another key, is computed again. A new result is
    returned as read back from JSON, so that the first and the second call return the same.
    """
    wanted = json.loads(json.dumps(key))
    digest = sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    path = folder / f"{kind}-{digest[:24]}.json"
    try:
        entry = json.loads(path.read_bytes())
        found = entry["result"] if entry["key"] == wanted else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        found = None
    if isinstance(found, dict) and is_valid(found):
        return found
    text = json.dumps({"key": wanted, "result": compute()}, indent=1, sort_keys=True)
    write_atomic(path, text + "\n")
    return json.loads(text)["result"]


def _defining_module(module: str, name: str) -> str:
    """Return the module that defines what ``from module import name`` imports.

    A package re-exports names of its modules. The result depends on the defining module alone.
    """
    found = importlib.import_module(module)
    if not hasattr(found, "__path__"):
        return module
    if find_spec(f"{module}.{name}"):
        return f"{module}.{name}"
    value = getattr(found, name)
    return value.__module__ if isinstance(value, (type, FunctionType)) else module


@cache
def _source(name: str) -> tuple[str, frozenset[str]]:
    """Return a module's source text, and the modules of this project that it imports."""
    file = getattr(importlib.import_module(name), "__file__", None)
    if file is None:
        return "", frozenset()
    text = Path(file).read_text()
    imports = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seedbed":
            imports |= {_defining_module(node.module or "", alias.name) for alias in node.names}
    return text, frozenset(imports)


def code(name: str, seen: set[str] | None = None) -> str:
    """Return the source text of a module and of the modules of this project that it imports.

    In a key, it makes the result depend on the code that computed it.
    """
    seen = set() if seen is None else seen
    if name in seen:
        return ""
    seen.add(name)
    text, imports = _source(name)
    return text + "".join(code(module, seen) for module in sorted(imports))
