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

from seedbed.flow.run.files import write_atomic

__all__ = ["code", "definitions", "kept", "memo"]


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


def kept(
    folder: Path,
    kind: str,
    key: Mapping[str, Any],
    compute: Callable[[], Any],
    file: Path | None = None,
) -> Any:
    """Return ``compute()``, which writes ``file``, or its cached result, as :func:`memo`.

    It is computed again if the file was changed or deleted.
    """
    if file is None:
        return memo(folder, kind, key, compute)

    def digest() -> str:
        return sha256(file.read_bytes()).hexdigest()

    made = memo(
        folder, kind, {**key, "file": file.name},
        lambda: {"result": compute(), "file": digest()},
        is_valid=lambda found: file.is_file() and digest() == found["file"],
    )  # fmt: skip
    return made["result"]


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
    if isinstance(value, (type, FunctionType)):
        return value.__module__
    # A constant does not say where it is from, but the package's imports do.
    for node in ast.parse(Path(str(found.__file__)).read_text()).body:
        if isinstance(node, ast.ImportFrom) and any(
            name == (alias.asname or alias.name) for alias in node.names
        ):
            return node.module or module
    return module


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


@cache
def _parts(name: str) -> tuple[dict[str, tuple[str, frozenset[str]]], dict[str, tuple[str, str]]]:
    """Return what a module defines, and what it imports from this project, both by name.

    A definition is its text without comments and docstrings, and the names in it. An import is a
    module, and the name in it, "" for the module itself. Statements without a name are left out.
    """
    defined: dict[str, tuple[str, frozenset[str]]] = {}
    imported: dict[str, tuple[str, str]] = {}
    file = getattr(importlib.import_module(name), "__file__", None)
    for node in ast.parse(Path(file).read_text()).body if file else ():
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] == "seedbed":
                for alias in node.names:
                    module = _defining_module(node.module or "", alias.name)
                    is_module = module == f"{node.module}.{alias.name}"
                    original = "" if is_module else alias.name
                    imported[alias.asname or alias.name] = module, original
            continue
        for part in ast.walk(node):
            if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(part):
                part.body[:1] = [ast.Pass()]
        inside = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        names = {each.id for each in inside if isinstance(each.ctx, ast.Store)}
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names = {node.name}
        used = frozenset(each.id for each in inside)
        for each in names:
            text, before = defined.get(each, ("", frozenset()))
            defined[each] = text + ast.unparse(node) + "\n", before | used
    return defined, imported


def definitions(name: str, *wanted: str) -> str:
    """Return the text of definitions of a module, and of all definitions that they use.

    They are found by their names, in this module and in those of this project that it imports. It
    does not depend on what else is in the modules. Names that a module does not define are left
    out.
    """
    found: dict[tuple[str, str], str] = {}
    open_ = [(name, each) for each in wanted]
    while open_:
        module, each = key = open_.pop()
        if key in found:
            continue
        defined, imported = _parts(module)
        found[key] = ""
        if each in defined:
            found[key], used = defined[each]
            open_ += [(module, other) for other in used]
        elif each in imported:
            other, original = imported[each]
            if original:
                open_.append((other, original))
            else:
                found[key] = code(other)
    return "".join(found[key] for key in sorted(found))
