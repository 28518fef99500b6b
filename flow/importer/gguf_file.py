"""GGUF files of LLaMA-like decoders: settings, tensors in their own types, and the tokenizer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BLOCKS", "GgufFile", "read"]

#: Types of blocks that are imported without a loss, each of 32 weights of a row.
BLOCKS = ("Q8_0", "Q4_0", "Q4_1")
#: How texts are split before byte pairs are merged, by name: with single digits, and not.
SPLITS = {"smollm": True, "gpt-2": False, "default": False}
#: The type of a token that is never made of text.
CONTROL = 3


@dataclass(frozen=True)
class GgufFile:
    """An open file: its fields, its tensors by name, and its path."""

    path: Path
    fields: Mapping[str, Any]
    tensors: Mapping[str, Any]

    def field(self, name: str, kind: type, default: Any = None) -> Any:
        """Return a field of one type. Raises ``ValueError`` where it is missing or of another."""
        try:
            found = self.fields[name].contents() if name in self.fields else default
        except UnicodeDecodeError as problem:
            raise ValueError(f"{self.path}: {name} is no text") from problem
        if found is None:
            raise ValueError(f"{self.path} has no {name!r}")
        if not isinstance(found, kind) or isinstance(found, bool) != (kind is bool):
            raise ValueError(f"{self.path}: {name} must be of {kind.__name__}, not {found!r}")
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, rows first."""
        return tuple(int(size) for size in reversed(self.tensors[name].shape))

    def kind(self, name: str) -> str:
        """Return the name of a tensor's type."""
        return self.tensors[name].tensor_type.name

    def blocks(self, name: str) -> np.ndarray:
        """Return the rows of a tensor as they are stored, uint8 (rows, bytes)."""
        return np.array(self.tensors[name].data)

    def values(self, name: str) -> np.ndarray:
        """Return a tensor as float32. Raises ``ValueError`` for a type that is unknown."""
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        try:
            found = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        except NotImplementedError as problem:
            kind = tensor.tensor_type.name
            raise ValueError(f"{self.path}: tensor {name!r} is of {kind}, unknown") from problem
        return found.reshape(self.shape(name))

    def tokenizer(self) -> Any:
        """Return the tokenizer. Raises ``ValueError`` for one that is not of GPT-2's sort."""
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

        words = self.field("tokenizer.ggml.model", str)
        split = self.field("tokenizer.ggml.pre", str, "default")
        if words != "gpt2" or split not in SPLITS:
            raise ValueError(
                f"{self.path} has the tokenizer {words!r} with the split {split!r}; allowed is "
                f"'gpt2' with one of {', '.join(SPLITS)}"
            )
        tokens = self._texts("tokenizer.ggml.tokens")
        merges: list[Any] = [
            tuple(pair.split(" ")) for pair in self._texts("tokenizer.ggml.merges")
        ]
        numbers = {token: k for k, token in enumerate(tokens)}
        try:
            found = Tokenizer(models.BPE(numbers, merges))
        except Exception as problem:
            # The library raises Exception itself.
            raise ValueError(f"{self.path}: tokenizer.ggml.merges: {problem}") from problem
        splits: list[Any] = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
        if SPLITS[split]:
            splits.insert(0, pre_tokenizers.Digits(individual_digits=True))
        found.pre_tokenizer = pre_tokenizers.Sequence(splits)
        found.decoder = decoders.ByteLevel()
        kinds = self.field("tokenizer.ggml.token_type", list, [])
        control = [t for t, kind in zip(tokens, kinds, strict=False) if kind == CONTROL]
        found.add_special_tokens(control)
        if self.field("tokenizer.ggml.add_bos_token", bool, False):
            first = self.field("tokenizer.ggml.bos_token_id", int)
            if not 0 <= first < len(tokens):
                raise ValueError(f"{self.path}: tokenizer.ggml.bos_token_id is {first}, no token")
            found.post_processor = processors.TemplateProcessing(
                single=[tokens[first], "$A"],
                special_tokens=[(tokens[first], first)],
            )
        return found

    def _texts(self, name: str) -> list[str]:
        found = self.field(name, list)
        if not all(isinstance(text, str) for text in found):
            raise ValueError(f"{self.path}: {name} must be a list of texts")
        return found


def read(path: Path) -> GgufFile:
    """Return the file. Raises ``ValueError`` with its name for one that is incomplete."""
    from gguf import GGUFReader

    class Reader(GGUFReader):
        """Refuses to read beyond the end, where the library would find nothing, and go on."""

        def _get(self, offset, dtype, count=1, override_order=None):
            found = super()._get(offset, dtype, count, override_order)
            if len(found) != int(count):
                raise ValueError("it ends too early")
            return found

    if not path.is_file():
        raise ValueError(f"{path} is not a regular file")
    try:
        file = Reader(path)
        return GgufFile(path, file.fields, {tensor.name: tensor for tensor in file.tensors})
    except (ValueError, KeyError, IndexError, OverflowError, TypeError, RecursionError) as problem:
        raise ValueError(f"{path} is not a complete GGUF file: {problem}") from problem
