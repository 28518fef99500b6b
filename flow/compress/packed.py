"""The packed format of a checkpoint: metadata, and bit packing of blocks in rows."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError, Entry
from seedbed.flow.compress.mask import INDICES
from seedbed.spec import RULES, SeedlmConfig, TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

__all__ = [
    "FORMATS",
    "KEPT",
    "KEY",
    "SUFFIX",
    "VERSION",
    "Config",
    "Packed",
    "Weights",
    "format_name",
    "pack_rows",
    "unpack_rows",
]

Config: TypeAlias = SeedlmConfig | TrellisConfig | GroupsConfig | Lut4Config
#: Formats of packed rows by name, and the fields of their configurations.
FORMATS: dict[str, tuple[type, tuple[str, ...]]] = {
    "seedlm": (SeedlmConfig, ("block", "latent", "width", "word_bits", "taps")),
    "trellis": (TrellisConfig, ("bits", "state_bits", "code")),
    "lut4": (Lut4Config, ()),
    "groups": (GroupsConfig, ("group",)),
}
#: Version of the packed format. Earlier versions can be read: in version 1, a row of blocks is the
#: tensor's last dimension; since version 2, the metadata of each tensor gives its matrix shape;
#: since version 3, some weights may be kept as differences to the blocks, and there are formats
#: other than SeedLM's; since version 4, there are trellis codes.
VERSION = 4
#: Suffix of the packed tensor's name in SeedLM's blocks; of others, it is the name of the format.
SUFFIX = ".seedlm"
#: The only key of the metadata, of all formats: the library writes several keys in arbitrary order.
KEY = "seedlm"
#: Formats of kept differences, by the names of the command line: the file's dtypes.
KEPT = {"float16": "F16", "bfloat16": "BF16", "int16": "I16"}
#: Reserved name of the metadata among the tensors.
RESERVED = "__metadata__"
#: Exponents of scales, enough for all numbers of the three dtypes.
SCALES = range(-300, 301)
#: Maximum nesting depth of lists and objects in the metadata.
LEVELS = 4


@dataclass(frozen=True)
class Weights:
    """A packed tensor: original shape and dtype, scale, matrix shape, number of kept weights.

    ``scale`` is the exponent of the power of two by which decoded weights are multiplied.
    ``matrix`` is the shape of the packed matrix, in storage order: by default the first dimension
    by the product of all others, so that a kernel's small dimensions fill whole blocks.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: int = 0
    matrix: tuple[int, int] = (0, 0)
    kept: int = 0

    def __post_init__(self) -> None:
        if self.matrix == (0, 0):
            object.__setattr__(self, "matrix", (self.shape[0], prod(self.shape[1:])))

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return self.matrix[0]

    @property
    def columns(self) -> int:
        """Weights per row."""
        return self.matrix[1]

    def blocks(self, config: Config) -> int:
        """Blocks per row; the last block is padded with zeros."""
        return -(-self.columns // config.block)

    def entry(self, config: Config) -> Entry:
        """Return the tensor that holds the blocks: uint8, rows of whole bytes."""
        size = config.header + -(-self.blocks(config) * config.block_bits // 8)
        return Entry("U8", (self.rows, size))

    def entries(self, name: str, config: Config, kept: str) -> dict[str, Entry]:
        """Return all tensors of the file for this one: the blocks, and what is kept.

        Kept weights are int32 indices in storage order, 16-bit differences of the format ``kept``,
        and the exponent of the power of two by which these are multiplied.
        """
        found = {f"{name}.{format_name(config)}": self.entry(config)}
        if self.kept:
            found[f"{name}.kept.index"] = Entry("I32", (self.kept,))
            found[f"{name}.kept.value"] = Entry(KEPT[kept], (self.kept,))
            found[f"{name}.kept.scale"] = Entry("I32", (1,))
        return found


@dataclass(frozen=True)
class Packed:
    """Metadata of a packed checkpoint.

    Parameters
    ----------
    config, rule
        Configuration of the blocks, which is the format, and exponent rule of SeedLM's search.
    tensors
        The packed tensors by their original names.
    metadata
        Metadata of the original file.
    kept
        Format of kept differences, of ``KEPT``.
    version
        Format version of the file.
    """

    config: Config
    rule: str
    tensors: Mapping[str, Weights]
    metadata: Mapping[str, str] = field(default_factory=dict)
    kept: str = "float16"
    version: int = VERSION

    @property
    def format(self) -> str:
        """Name of the format, of ``FORMATS``."""
        return format_name(self.config)

    @property
    def seedlm(self) -> SeedlmConfig:
        """The configuration of SeedLM's blocks. Raises ``ValueError`` for another format."""
        if not isinstance(self.config, SeedlmConfig):
            raise ValueError(f"the format must be seedlm, not {self.format}")
        return self.config

    @property
    def blocks(self) -> int:
        """Number of blocks of all tensors."""
        return sum(each.rows * each.blocks(self.config) for each in self.tensors.values())

    def nbytes(self, name: str, weights: Weights) -> int:
        """Bytes of all tensors of the file for a tensor."""
        return sum(e.nbytes for e in weights.entries(name, self.config, self.kept).values())

    @property
    def entries(self) -> dict[str, Entry]:
        """All tensors of the file that hold packed ones."""
        found: dict[str, Entry] = {}
        for name, weights in self.tensors.items():
            found |= weights.entries(name, self.config, self.kept)
        return found

    def to_metadata(self) -> dict[str, str]:
        """Return the metadata as strings for the file."""
        document = {
            "version": VERSION,
            "format": self.format,
            **{name: getattr(self.config, name) for name in FORMATS[self.format][1]},
            "rule": self.rule,
            "kept": self.kept,
            "tensors": {name: asdict(weights) for name, weights in self.tensors.items()},
            "metadata": dict(self.metadata),
        }
        return {KEY: json.dumps(document, sort_keys=True)}

    @classmethod
    def of(cls, file: Checkpoint) -> "Packed":
        """Return the metadata of ``file``, checked against its tensors.

        Raises :class:`CheckpointError` with the file and, if applicable, the tensor.
        """
        document = cls._document(file)
        config = _config(file, document)
        if document["rule"] not in RULES:
            raise CheckpointError(
                f"{file.path}: rule must be one of {', '.join(RULES)}, not {document['rule']!r}"
            )
        kept = "float16" if document["version"] < 3 else document.get("kept")
        if not isinstance(kept, str) or kept not in KEPT:
            raise CheckpointError(
                f"{file.path}: kept must be one of {', '.join(KEPT)}, not {kept!r}"
            )
        tensors = {}
        for name, entry in document["tensors"].items():
            where = f"{file.path}: tensor {name!r}"
            tensors[name] = _weights(entry, where, document["version"])
            if name == RESERVED:
                raise CheckpointError(f"{where} has a reserved name")
            if name in file.tensors:
                raise CheckpointError(f"{where} is in the file both packed and unpacked")
            for part, needed in tensors[name].entries(name, config, kept).items():
                found = file.tensors.get(part)
                if found is None:
                    raise CheckpointError(f"{where} has no packed tensor {part!r}")
                if needed.dtype == "U8":
                    _require_shape(found, tensors[name], config, where)
                elif (found.dtype, found.shape) != (needed.dtype, needed.shape):
                    raise CheckpointError(
                        f"{where}: {part!r} is of {found.dtype} in the shape {list(found.shape)}, "
                        f"not of {needed.dtype} in {list(needed.shape)}"
                    )
        metadata = document["metadata"]
        for text in (*metadata, *metadata.values()):
            if not _writable(text):
                raise CheckpointError(
                    f"{file.path}: the original's metadata must be Unicode text, not {text!r}"
                )
        return cls(config, document["rule"], tensors, metadata, kept, document["version"])

    @staticmethod
    def _document(file: Checkpoint) -> dict[str, Any]:
        if KEY not in file.metadata:
            raise CheckpointError(f"{file.path} was not written by 'seedbed compress'")
        try:
            document = json.loads(file.metadata[KEY])
        except ValueError as problem:
            raise CheckpointError(f"{file.path}: its metadata is not JSON: {problem}") from problem
        except RecursionError:
            document = None
        if document is None or _nested_deeper(document, LEVELS):
            raise CheckpointError(
                f"{file.path}: its metadata must be an object, nested at most {LEVELS} levels deep"
            )
        version = document.get("version") if isinstance(document, dict) else None
        if type(version) is not int or not 1 <= version <= VERSION:
            raise CheckpointError(
                f"{file.path} has version {version!r} of the packed format, but "
                f"1 to {VERSION} can be read"
            )
        if version < 3:
            document["format"] = "seedlm"
        found = document.get("format")
        if not isinstance(found, str) or found not in FORMATS:
            raise CheckpointError(
                f"{file.path}: format must be one of {', '.join(FORMATS)}, not {found!r}"
            )
        for name in (*FORMATS[found][1], "rule", "tensors", "metadata"):
            if name not in document:
                raise CheckpointError(f"{file.path}: its metadata lacks {name!r}")
        for name in ("tensors", "metadata"):
            if not isinstance(document[name], dict):
                raise CheckpointError(f"{file.path}: its metadata's {name!r} is not an object")
        return document


def format_name(config: Config) -> str:
    """Return the name of a configuration's format, of ``FORMATS``."""
    return next(name for name, (of, _) in FORMATS.items() if isinstance(config, of))


def _config(file: Checkpoint, document: dict[str, Any]) -> Config:
    """Return the configuration of the blocks, or raise :class:`CheckpointError`."""
    of, names = FORMATS[document["format"]]
    values = {name: document[name] for name in names}
    for name in values.keys() & {"taps", "code"}:
        if not isinstance(values[name], list):
            raise CheckpointError(f"{file.path}: {name} must be a list, not {values[name]!r}")
        values[name] = tuple(values[name])
    try:
        return of(**values)
    except (TypeError, ValueError) as problem:
        raise CheckpointError(f"{file.path}: {problem}") from problem


def _nested_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects in ``value`` are nested deeper than ``levels``."""
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_nested_deeper(each, levels - 1) for each in inner)


def _writable(text: Any) -> bool:
    """Return whether ``text`` is a string without lone surrogates, which UTF-8 cannot encode."""
    return isinstance(text, str) and text == text.encode(errors="ignore").decode()


def _is_shape(value: Any) -> bool:
    """Return whether ``value`` is a list of positive integers."""
    return isinstance(value, list) and all(type(size) is int and size > 0 for size in value)


def _weights(entry: Any, where: str, version: int) -> Weights:
    """Return a tensor's metadata, or raise :class:`CheckpointError`."""
    entry = entry if isinstance(entry, dict) else {}
    shape, dtype, scale = entry.get("shape"), entry.get("dtype"), entry.get("scale")
    if not _is_shape(shape) or len(shape) < 2:
        raise CheckpointError(f"{where} has the shape {shape!r}, not two or more positive integers")
    if not isinstance(dtype, str) or dtype not in FLOATS:
        raise CheckpointError(f"{where} was of {dtype!r}; allowed are {', '.join(FLOATS)}")
    if type(scale) is not int or scale not in SCALES:
        raise CheckpointError(
            f"{where}: its scale must be an integer in {SCALES[0]}..{SCALES[-1]}, not {scale!r}"
        )
    matrix = [prod(shape[:-1]), shape[-1]] if version == 1 else entry.get("matrix")
    if not _is_shape(matrix) or len(matrix) != 2 or prod(matrix) != prod(shape):
        raise CheckpointError(
            f"{where} is packed as the matrix {matrix!r}, not as rows and columns of its "
            f"{prod(shape)} weights"
        )
    rows, columns = matrix
    kept = 0 if version < 3 else entry.get("kept")
    if type(kept) is not int or not 0 <= kept <= min(prod(shape), INDICES):
        raise CheckpointError(f"{where}: its number of kept weights must not be {kept!r}")
    return Weights(tuple(shape), dtype, scale, (rows, columns), kept)


def _require_shape(found: Entry, weights: Weights, config: Config, where: str) -> None:
    needed = weights.entry(config)
    if found.dtype != needed.dtype:
        raise CheckpointError(f"{where} is packed in {found.dtype}, but blocks are stored in U8")
    if found.shape != needed.shape:
        raise CheckpointError(
            f"{where} is packed in the shape {list(found.shape)}, but {list(weights.matrix)} in "
            f"blocks of {config.block} weights and {config.block_bits} bits takes "
            f"{list(needed.shape)}"
        )


def pack_rows(config: SeedlmConfig, packed: np.ndarray) -> np.ndarray:
    """Return the bytes, uint8 (rows, n), of packed blocks, uint64 (rows, blocks).

    A row is one bit string: blocks in order, least significant bit first, padded with zeros to a
    whole byte.
    """
    rows, blocks = packed.shape
    raw = np.ascontiguousarray(packed, "<u8").view(np.uint8).reshape(rows, blocks, 8)
    bits = np.unpackbits(raw, axis=-1, count=config.block_bits, bitorder="little")
    return np.packbits(bits.reshape(rows, -1), axis=-1, bitorder="little")


def unpack_rows(config: SeedlmConfig, raw: np.ndarray, blocks: int) -> np.ndarray:
    """Return the packed blocks, uint64 (rows, blocks), of bytes as :func:`pack_rows` gives."""
    bits = np.unpackbits(raw, axis=-1, count=blocks * config.block_bits, bitorder="little")
    bits = bits.reshape(len(raw), blocks, config.block_bits)
    filled = np.zeros((len(raw), blocks, 8), np.uint8)
    found = np.packbits(bits, axis=-1, bitorder="little")
    filled[..., : found.shape[-1]] = found
    return filled.view("<u8")[..., 0].astype(np.uint64)
