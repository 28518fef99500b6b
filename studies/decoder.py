"""A Llama-like language model in NumPy, read from a GGUF file: what is compared in float32.

With x the embedding of a token, and for each of the blocks::

    x = x + W_o attention(W_q n, W_k n, W_v n),    n = norm(x)
    x = x + W_down (silu(W_gate m) * (W_up m)),    m = norm(x)
    logits = E norm(x),                            norm(x) = gain x / sqrt(mean(x^2) + eps)

Some query heads share a head of keys and values. Rotary positions turn the pairs (2 i, 2 i + 1) of
a head, which is the order of rows in GGUF files, not that of other files of the same model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.importer import gguf_file, transformer_files, transformers

__all__ = ["CONTEXT", "MATRICES", "Decoder", "read"]

#: Tokens that the model sees at most: longer texts are cut.
CONTEXT = 512
#: Matrices of a block, which are compressed.
MATRICES = "blk.*.weight"
#: The matrix of a block whose outputs are mixed by attention.
VALUES = "attn_v.weight"
#: Takes a matrix's name and inputs, (n, columns): those of the tokens, or mixtures of them.
Observe = Callable[[str, np.ndarray], None]


def _ignore(name: str, inputs: np.ndarray) -> None:
    """Observe nothing."""


@dataclass(frozen=True)
class Decoder:
    """A model: parameters by the names of GGUF, its numbers, and its tokenizer."""

    parameters: Mapping[str, np.ndarray]
    blocks: int
    heads: int
    shared_heads: int
    epsilon: float
    base: float
    tokenizer: Any

    def tokens(self, lines: Sequence[str]) -> list[np.ndarray]:
        """Return the tokens of lines, in parts of :data:`CONTEXT`. No token begins a text."""
        found = np.array(self.tokenizer.encode("\n".join(lines)).ids)
        parts = [found[k : k + CONTEXT] for k in range(0, len(found), CONTEXT)]
        return [part for part in parts if len(part) > 1]

    def log_probabilities(
        self, parameters: Mapping[str, np.ndarray], tokens: np.ndarray, observe: Observe = _ignore
    ) -> np.ndarray:
        """Return the logarithms of the probabilities of what follows each token, float32.

        ``parameters`` are those of this model, perhaps with other weights.
        """
        hidden = self._hidden(parameters, tokens, observe)
        logits = hidden @ parameters.get("output.weight", parameters["token_embd.weight"]).T
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return logits

    def second_moments(self, lines: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the sum of x x' over the inputs x of each matrix, float32.

        Values are mixed before anything else sees them. What counts is the error of their mixtures,
        and so x is each mixture of inputs that a head makes for a token. Otherwise the first token,
        which all others attend to, would be one of many.
        """
        moments: dict[str, np.ndarray] = {}

        def observe(name: str, inputs: np.ndarray) -> None:
            moments[name] = moments.get(name, 0) + inputs.T @ inputs

        for tokens in self.tokens(lines):
            self._hidden(self.parameters, tokens, observe)
        return moments

    @cached_property
    def _turns(self) -> np.ndarray:
        """The rotations e^(i angle) of all positions, complex64 (positions, 1, pairs)."""
        width = self.parameters["blk.0.attn_q.weight"].shape[0] // self.heads
        steps = self.base ** (-np.arange(0, width, 2) / width)
        return np.exp(1j * np.outer(np.arange(CONTEXT), steps))[:, None].astype(np.complex64)

    def _hidden(
        self, parameters: Mapping[str, np.ndarray], tokens: np.ndarray, observe: Observe
    ) -> np.ndarray:
        count = len(tokens)
        future = np.triu(np.full((count, count), -np.inf, np.float32), 1)

        def norm(x: np.ndarray, name: str) -> np.ndarray:
            size = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(self.epsilon))
            return x / size * parameters[name]

        x = parameters["token_embd.weight"][tokens]
        for block in range(self.blocks):

            def product(name: str, inputs: np.ndarray, block: int = block) -> np.ndarray:
                name = f"blk.{block}.{name}.weight"
                if not name.endswith(VALUES):
                    observe(name, inputs)
                return inputs @ parameters[name].T

            def turned(name: str, inputs: np.ndarray, heads: int) -> np.ndarray:
                pairs = product(name, inputs).reshape(count, heads, -1).view(np.complex64)
                return (pairs * self._turns[:count]).view(np.float32).swapaxes(0, 1)

            inputs = norm(x, f"blk.{block}.attn_norm.weight")
            queries = turned("attn_q", inputs, self.heads)
            keys = turned("attn_k", inputs, self.shared_heads)
            values = product("attn_v", inputs).reshape(count, self.shared_heads, -1).swapaxes(0, 1)
            shared = self.heads // self.shared_heads
            keys, values = (np.repeat(each, shared, axis=0) for each in (keys, values))
            scores = queries @ keys.swapaxes(1, 2) / np.float32(np.sqrt(keys.shape[2])) + future
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            shares = scores / scores.sum(axis=2, keepdims=True)
            if observe is not _ignore:
                observe(f"blk.{block}.{VALUES}", (shares @ inputs).reshape(-1, inputs.shape[1]))
            mixed = shares @ values
            x = x + product("attn_output", mixed.swapaxes(0, 1).reshape(count, -1))
            inputs = norm(x, f"blk.{block}.ffn_norm.weight")
            gate = product("ffn_gate", inputs)
            # Beyond this, float32 has no exponential, and the factor is 0.
            gate = gate / (1 + np.exp(np.minimum(-gate, 80)))
            x = x + product("ffn_down", gate * product("ffn_up", inputs))
        return norm(x, "output_norm.weight")


def read(path: Path) -> Decoder:
    """Return the model of a GGUF file whose architecture is ``llama``.

    Raises ``ValueError`` for another file.
    """
    file = gguf_file.read(path)
    found = transformer_files.of_gguf(file)
    model = found.model
    assert isinstance(model, transformers.Decoder)
    blocks = sum(name.endswith(".attn_q.weight") for name in file.tensors)
    return Decoder(
        {name: file.values(name) for name in file.tensors}, blocks, model.heads, model.shared,
        model.epsilon, model.base, found.tokenizer,
    )  # fmt: skip
