"""A program on a disk: a JSON file, the memory image of its weights, and the tokenizer.

The JSON file has vectors, operations, and the place of each parameter in the image. Weights are
rows in one of :data:`~seedbed.flow.importer.packed_rows.FORMATS`, biases and gains are int32. Each
parameter begins at a multiple of 64 bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.importer.packed_rows import FORMATS, KEEPING, KEPT, PackedRows, bytes_of_a_row
from seedbed.golden.stream_engine import Integers
from seedbed.spec import stream_engine
from seedbed.spec.stream_engine import Operation, Program, Vector
from seedbed.spec.vector_unit import VectorUnitConfig

__all__ = ["ALIGNMENT", "FILES", "Loaded", "Place", "document", "places", "read", "require_tokens"]

#: Names of the files of a folder.
PROGRAM, IMAGE, TOKENIZER = FILES = ("program.json", "image.bin", "tokenizer.json")
#: Bytes of which the place of a parameter is a multiple: a beat of 512 bits.
ALIGNMENT = 64
VERSION = 1
#: The most weights of a matrix that are kept: those that a core has room for.
MOST_KEPT = 1 << 14
OPERATIONS = {
    name: kind
    for name, kind in vars(stream_engine).items()
    if isinstance(kind, type) and issubclass(kind, Operation) and kind is not Operation
}


@dataclass(frozen=True, kw_only=True)
class Place:
    """A parameter of the image.

    ``format`` of weights is that of their rows, which begin at ``offset``, in units of 2^exponent;
    that of gains is ``gains``. Numbers of 4 bytes at ``biases``, -1 for none, are added.
    ``kept_weights`` entries of :data:`~seedbed.flow.importer.packed_rows.KEPT` are at ``kept``.
    """

    format: str
    rows: int
    columns: int
    offset: int
    exponent: int = 0
    biases: int = -1
    kept: int = 0
    kept_weights: int = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of the kept weights."""
        return self.kept_weights * KEPT.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        if self.format == "gains":
            return 4 * self.columns
        return self.rows * bytes_of_a_row(self.format, self.columns)


@dataclass(frozen=True)
class Loaded:
    """A program with its parameters, and what its tokens need."""

    program: Program
    parameters: Mapping[str, Integers]
    places: Mapping[str, Place]
    ends: frozenset[int]
    positions: int
    tokenizer: Any = field(repr=False)

    def tokens(self, text: str) -> np.ndarray:
        """Return the numbers of a text's tokens, at most :attr:`positions`."""
        return np.array(self.tokenizer.encode(text).ids[: self.positions], np.int64)


def places(
    shapes: Mapping[str, tuple[int, int]],
    formats: Mapping[str, str],
    biased: Mapping[str, int],
    keep: float = 0,
) -> tuple[dict[str, Place], int]:
    """Return the place of every parameter, and the bytes of the image.

    ``biased`` has the number of biases of those that have any. ``keep`` is the share of the weights
    that are kept, of a format that keeps some: at most :data:`MOST_KEPT` of a matrix. Raises
    ``ValueError`` for a parameter with more columns than the entry of a kept weight can say.
    """
    found: dict[str, Place] = {}
    end = 0

    def take(size: int) -> int:
        nonlocal end
        start = end
        end += -(-size // ALIGNMENT) * ALIGNMENT
        return start

    for name, (rows, columns) in shapes.items():
        share = round(keep * rows * columns) if formats[name] == KEEPING else 0
        count = min(share, MOST_KEPT)
        if count and columns > 1 << 16:
            raise ValueError(
                f"{name} must have at most 65536 columns to keep weights, not {columns}"
            )
        place = Place(
            format=formats[name], rows=rows, columns=columns, offset=0, kept_weights=count
        )
        offset = take(place.nbytes)
        biases = take(4 * biased[name]) if name in biased else -1
        kept = take(place.kept_bytes) if count else 0
        found[name] = replace(place, offset=offset, biases=biases, kept=kept)
    return found, end


def document(
    program: Program, places: Mapping[str, Place], ends: frozenset[int], positions: int
) -> str:
    """Return the content of the JSON file."""
    whole = {
        "seedbed program": VERSION,
        "unit": asdict(program.unit),
        "result": program.result,
        "positions": positions,
        "ends": sorted(ends),
        "vectors": {name: asdict(vector) for name, vector in program.vectors.items()},
        "operations": [{"operation": type(op).__name__, **asdict(op)} for op in program.operations],
        "parameters": {name: asdict(place) for name, place in places.items()},
    }
    # A line for each entry of a table.
    lines = []
    for key, value in whole.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        elif isinstance(value, list) and key == "operations":
            inner = ",\n".join(f"  {json.dumps(each)}" for each in value)
            lines.append(f"{json.dumps(key)}: [\n{inner}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(folder: Path) -> Loaded:
    """Return the program of a folder that an import wrote.

    Raises ``ValueError`` with the name of the file for one that is damaged, and ``OSError``.
    """
    from tokenizers import Tokenizer

    path = folder / PROGRAM
    if not path.is_file():
        raise ValueError(f"{path} is missing: 'seedbed import MODEL -o DIR' writes it")
    try:
        whole = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{path} is not JSON") from problem
    try:
        program, places, ends, positions = _program(whole)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        text = f"it has no {problem}" if isinstance(problem, KeyError) else problem
        raise ValueError(f"{path}: {text}") from problem
    image = np.fromfile(folder / IMAGE, np.uint8)
    parameters = {}
    for name, place in places.items():
        try:
            parameters[name] = _integers(image, place)
        except ValueError as problem:
            raise ValueError(f"{folder / IMAGE}: {name}: {problem}") from problem
    _require_shapes(path, program, places)
    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    except Exception as problem:
        # The library raises Exception itself.
        raise ValueError(f"{folder / TOKENIZER} is no tokenizer: {problem}") from problem
    require_tokens(folder, program, {name: each.rows for name, each in places.items()}, tokenizer)
    return Loaded(program, parameters, places, ends, positions, tokenizer)


def require_tokens(path: Path, program: Program, rows: Mapping[str, int], tokenizer: Any) -> None:
    """Raise ``ValueError`` for a tokenizer that has more tokens than a program's table has rows."""
    count = tokenizer.get_vocab_size()
    for op in program.operations:
        if isinstance(op, stream_engine.Embed) and count > rows[op.table]:
            raise ValueError(
                f"{path}: the tokenizer has {count} tokens, for {rows[op.table]} rows of {op.table}"
            )


def _program(whole: Any) -> tuple[Program, dict[str, Place], frozenset[int], int]:
    version = whole.get("seedbed program")
    if version != VERSION:
        raise ValueError(f"its version must be {VERSION}, not {version!r}")
    operations = []
    for k, each in enumerate(whole["operations"]):
        name = each.get("operation")
        if name not in OPERATIONS:
            raise ValueError(f"operation {k} must be one of {', '.join(OPERATIONS)}, not {name!r}")
        values = {key: value for key, value in each.items() if key != "operation"}
        operations.append(_made(OPERATIONS[name], values, f"operation {k}, {name},"))
    program = Program(
        vectors={n: _made(Vector, v, f"vector {n}") for n, v in whole["vectors"].items()},
        operations=tuple(operations), result=whole["result"],
        unit=_made(VectorUnitConfig, whole["unit"], "unit"),
    )  # fmt: skip
    places = {n: _made(Place, v, f"parameter {n}") for n, v in whole["parameters"].items()}
    for name, place in places.items():
        if place.format not in (*FORMATS, "gains"):
            raise ValueError(f"parameter {name} has the format {place.format!r}, unknown")
        if min(place.rows, place.columns) < 1 or place.rows * place.columns >= 1 << 40:
            raise ValueError(f"parameter {name} has {place.rows} x {place.columns} weights")
        if not 0 <= place.kept_weights <= (place.rows * place.columns * (place.format == KEEPING)):
            raise ValueError(f"parameter {name} has {place.kept_weights} kept weights")
        if not -300 <= place.exponent <= 300:
            raise ValueError(f"parameter {name} has the exponent {place.exponent}")
    ends, positions = whole["ends"], whole["positions"]
    if type(positions) is not int or positions < 1:
        raise ValueError(f"positions must be a number of 1 or more, not {positions!r}")
    if not all(type(each) is int for each in ends):
        raise ValueError("ends must be numbers")
    return program, places, frozenset(ends), positions


def _made(kind: type, values: Mapping[str, Any], where: str) -> Any:
    """Return an instance with these fields, which have the types of their annotations."""
    types: dict[Any, tuple[type, ...]] = {int: (int,), str: (str,), bool: (bool,), float: (float,)}
    for each in fields(kind):
        if each.name in values and type(values[each.name]) not in types[each.type]:
            raise ValueError(f"{where} has the {each.name} {values[each.name]!r}")
    return kind(**values)


def _integers(image: np.ndarray, place: Place) -> Integers:
    raw = _part(image, place.offset, place.nbytes)
    biases = None
    if place.biases != -1:
        biases = _numbers(image, place.biases, place.columns if _gains(place) else place.rows)
    if _gains(place):
        return Integers(
            weights=_numbers(image, place.offset, place.columns),
            multipliers=np.ones(1, np.int64), fraction=-place.exponent, biases=biases,
        )  # fmt: skip
    kept = np.ascontiguousarray(_part(image, place.kept, place.kept_bytes)).view(KEPT)
    raw = raw.reshape(place.rows, -1)
    rows = PackedRows(place.format, raw, place.columns, place.exponent, kept)
    return replace(rows.integers(), biases=biases)


def _gains(place: Place) -> bool:
    return place.format == "gains"


def _part(image: np.ndarray, offset: int, size: int) -> np.ndarray:
    if offset < 0 or offset + size > len(image):
        raise ValueError(f"{size} bytes at {offset} are not in its {len(image)} bytes")
    return image[offset : offset + size]


def _numbers(image: np.ndarray, offset: int, count: int) -> np.ndarray:
    return np.ascontiguousarray(_part(image, offset, 4 * count)).view("<i4").astype(np.int64)


def _require_shapes(path: Path, program: Program, places: Mapping[str, Place]) -> None:
    """Raise ``ValueError`` for a parameter whose shape is not that of its operation's vectors."""
    for k, op in enumerate(program.operations):
        size = program.vectors[op.target].length
        for name in op.parameters:
            if name not in places:
                raise ValueError(f"{path}: operation {k} has no parameter {name}")
            shape = places[name].rows, places[name].columns
            if isinstance(op, stream_engine.Matrix):
                fits = shape == (size, program.vectors[op.source].length)
            else:
                fits = shape[1] == size
            if _gains(places[name]) != isinstance(op, stream_engine.Norm) or not fits:
                raise ValueError(
                    f"{path}: operation {k} of {size} elements does not take the parameter {name} "
                    f"of {shape[0]} x {shape[1]}"
                )
