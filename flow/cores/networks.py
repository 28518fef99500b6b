"""Networks as TOML files: what a parameter ``network`` of a core may name."""

import tomllib
from dataclasses import MISSING, fields
from math import prod
from pathlib import Path
from typing import Any

from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["network", "read", "read_toml", "toml"]

#: Keys of a layer in a file; ``inputs`` follow from the layer before.
_KEYS = tuple(f.name for f in fields(Layer) if f.name != "inputs")
_REQUIRED = [f for f in fields(Layer) if f.name in _KEYS and f.default is MISSING]


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises ``ValueError`` with the file's name if it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(f"{path} is not TOML: {problem}") from problem


def read(path: Path) -> NetworkConfig:
    """Return the network of a file.

    The file has ``input``, which is channels, height and width, and a table ``[[layer]]`` for each
    :class:`~seedbed.spec.network.Layer`, with its parameters by name. ``inputs`` of a layer are the
    output of the layer before. Raises ``ValueError`` with the file's name, and the layer's.
    """
    return network(read_toml(path), path)


def network(table: dict[str, Any], path: Path) -> NetworkConfig:
    """Return the network of the content of a file, as :func:`read`."""
    if unknown := [name for name in table if name not in ("input", "layer")]:
        raise ValueError(f"{path}: a network has 'input' and 'layer', not {unknown[0]!r}")
    given = table.get("layer")
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ValueError(f"{path}: a network needs a table [[layer]] for each layer")
    inputs: Any = table.get("input")
    layers: list[Layer] = []
    for number, one in enumerate(given, 1):
        name = one.get("name", f"layer {number}")
        if unknown := [key for key in one if key not in _KEYS]:
            raise ValueError(
                f"{path}: {name}: a layer has no {unknown[0]!r}; it has {', '.join(_KEYS)}"
            )
        if missing := [f.name for f in _REQUIRED if f.name not in one]:
            raise ValueError(f"{path}: {name}: a layer needs {missing[0]!r}")
        try:
            if one.get("kind") == "dense" and layers:
                inputs = (prod(inputs), 1, 1)
            layers.append(Layer(**one, inputs=tuple(inputs) if inputs else inputs))
        except (TypeError, ValueError) as problem:
            raise ValueError(f"{path}: {name}: {problem}") from problem
        inputs = layers[-1].shape
    try:
        return NetworkConfig(tuple(layers), source=str(path))
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem


def toml(network: NetworkConfig) -> str:
    """Return a network as the text of a file that :func:`read` reads."""
    lines = [f"input = [{', '.join(map(str, network.layers[0].inputs))}]"]
    for layer in network.layers:
        lines += ["", "[[layer]]"]
        for f in fields(Layer):
            value = getattr(layer, f.name)
            if f.name in _KEYS and value != f.default:
                text = f'"{value}"' if isinstance(value, str) else str(value).lower()
                lines.append(f"{f.name} = {text}")
    return "\n".join(lines) + "\n"
