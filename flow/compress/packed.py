"""The packed form of a checkpoint: which tensors are what, and the blocks' bits in their rows."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np

from seedbed.flow.compress.checkpoint import FLOATS, Checkpoint, CheckpointError, Entry
from seedbed.spec import RULES, SeedlmConfig

__all__ = ["KEY", "SUFFIX", "VERSION", "Packed", "Weights", "pack_rows", "unpack_rows"]

#: Of the packed form; a reader refuses any other.
VERSION = 1
#: The packed tensor's name is the original's and this.
SUFFIX = ".seedlm"
#: The metadata's only key: the library writes several in no fixed order.
KEY = "seedlm"
FIELDS = ("block", "latent", "width", "word_bits", "taps")
#: Powers of two that take any number of the three dtypes to any other.
SCALES = range(-300, 301)


@dataclass(frozen=True)
class Weights:
    """A tensor that is packed, as it was: shape and dtype, and what its rows of blocks take.

    ``scale`` is the exponent of the power of two by which decoded weights are multiplied.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: int = 0

    @property
    def columns(self) -> int:
        """Weights a row, which is the last dimension."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """Rows, over all other dimensions."""
        return prod(self.shape[:-1])

    def blocks(self, config: SeedlmConfig) -> int:
        """Blocks a row; the last one's weights beyond the row are zeros that are dropped again."""
        return -(-self.columns // config.block)

    def entry(self, config: SeedlmConfig) -> Entry:
        """Return the tensor that holds the blocks: uint8, rows of whole bytes."""
        return Entry("U8", (self.rows, -(-self.blocks(config) * config.block_bits // 8)))


@dataclass(frozen=True)
class Packed:
    """What a packed checkpoint says of itself, in its metadata.

    Parameters
    ----------
    config, rule
        The blocks' configuration, and the rule by which the search found exponents.
    tensors
        The packed tensors by their original names.
    metadata
        The original's.
    """

    config: SeedlmConfig
    rule: str
    tensors: Mapping[str, Weights]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Blocks of all tensors."""
        return sum(each.rows * each.blocks(self.config) for each in self.tensors.values())

    def to_metadata(self) -> dict[str, str]:
        """Return the strings that stand in the file."""
        document = {
            "version": VERSION,
            **{name: getattr(self.config, name) for name in FIELDS},
            "rule": self.rule,
            "tensors": {name: asdict(weights) for name, weights in self.tensors.items()},
            "metadata": dict(self.metadata),
        }
        return {KEY: json.dumps(document, sort_keys=True)}

    @classmethod
    def of(cls, file: Checkpoint) -> "Packed":
        """Return what ``file`` says of itself, checked against the tensors that it holds.

        Raises :class:`CheckpointError`, which names the file and where it applies the tensor.
        """
        document = cls._document(file)
        try:
            taps = document["taps"]
            config = SeedlmConfig(
                **{name: document[name] for name in FIELDS[:-1]},
                taps=tuple(taps) if isinstance(taps, list) else taps,
            )
        except (TypeError, ValueError) as problem:
            raise CheckpointError(f"{file.path}: {problem}") from problem
        if document["rule"] not in RULES:
            raise CheckpointError(
                f"{file.path}: rule must be one of {', '.join(RULES)}, not {document['rule']!r}"
            )
        tensors = {}
        for name, told in document["tensors"].items():
            where = f"{file.path}: tensor {name!r}"
            tensors[name] = _weights(told, where)
            if name in file.tensors:
                raise CheckpointError(f"{where} is there packed and as it was")
            found = file.tensors.get(name + SUFFIX)
            if found is None:
                raise CheckpointError(f"{where} has no packed tensor {name + SUFFIX!r}")
            _fits(found, tensors[name], config, where)
        metadata = {str(key): str(text) for key, text in document["metadata"].items()}
        return cls(config, document["rule"], tensors, metadata)

    @staticmethod
    def _document(file: Checkpoint) -> dict[str, Any]:
        if KEY not in file.metadata:
            raise CheckpointError(f"{file.path} was not written by 'seedbed compress'")
        try:
            document = json.loads(file.metadata[KEY])
        except ValueError as problem:
            raise CheckpointError(f"{file.path}: its metadata is not JSON: {problem}") from problem
        version = document.get("version") if isinstance(document, dict) else None
        if version != VERSION:
            raise CheckpointError(
                f"{file.path} is of the packed form's version {version!r}, but {VERSION} is the "
                f"one that can be read"
            )
        for name in (*FIELDS, "rule", "tensors", "metadata"):
            if name not in document:
                raise CheckpointError(f"{file.path}: its metadata lacks {name!r}")
        for name in ("tensors", "metadata"):
            if not isinstance(document[name], dict):
                raise CheckpointError(f"{file.path}: its metadata's {name!r} is not an object")
        return document


def _weights(told: Any, where: str) -> Weights:
    """Return a tensor's metadata, or say what is wrong with it."""
    told = told if isinstance(told, dict) else {}
    shape, dtype, scale = told.get("shape"), told.get("dtype"), told.get("scale")
    counts = shape if isinstance(shape, list) else []
    if len(counts) < 2 or not all(type(size) is int and size > 0 for size in counts):
        raise CheckpointError(f"{where} has the shape {shape!r}, not two or more positive integers")
    if dtype not in FLOATS:
        raise CheckpointError(f"{where} was of {dtype!r}; allowed are {', '.join(FLOATS)}")
    if type(scale) is not int or scale not in SCALES:
        raise CheckpointError(
            f"{where}: its scale must be an integer in {SCALES[0]}..{SCALES[-1]}, not {scale!r}"
        )
    return Weights(tuple(counts), dtype, scale)


def _fits(found: Entry, weights: Weights, config: SeedlmConfig, where: str) -> None:
    needed = weights.entry(config)
    if found.dtype != needed.dtype:
        raise CheckpointError(f"{where} is packed in {found.dtype}, but blocks are stored in U8")
    if found.shape != needed.shape:
        raise CheckpointError(
            f"{where} is packed in the shape {list(found.shape)}, but {list(weights.shape)} in "
            f"blocks of {config.block} weights and {config.block_bits} bits takes "
            f"{list(needed.shape)}"
        )


def pack_rows(config: SeedlmConfig, packed: np.ndarray) -> np.ndarray:
    """Return the bytes, uint8 (rows, n), of packed blocks, uint64 (rows, blocks).

    A row is one string of bits, the first block and its lowest bit first, the lowest bit of a byte
    first, and filled up with zeros to a whole byte.
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
