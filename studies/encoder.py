"""A BERT-like encoder of sentences in NumPy: what is compared in float32.

With x the sum of the embeddings of a token, its position and its segment, normalized, and for each
of the layers::

    x = norm(x + W_o attention(W_q x, W_k x, W_v x)),    x = norm(x + W_2 gelu(W_1 x))

All products have a bias. The vector of a sentence is the mean of x over its tokens, of length 1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.importer import transformer_files, transformers

__all__ = ["MATRICES", "Encoder", "read", "share_below"]

#: Matrices of the layers, which are compressed.
MATRICES = "encoder.*.weight"
#: The matrix of a layer whose outputs are mixed by attention.
VALUES = "attention.self.value"
#: Takes a matrix's name and inputs, (n, columns): those of the tokens, or mixtures of them.
Observe = Callable[[str, np.ndarray], None]


def _ignore(name: str, inputs: np.ndarray) -> None:
    """Observe nothing."""


@dataclass(frozen=True)
class Encoder:
    """A model: parameters by the names of its file, its numbers, and its tokenizer."""

    parameters: Mapping[str, np.ndarray]
    layers: int
    heads: int
    epsilon: float
    positions: int
    tokenizer: Any

    def vectors(
        self, parameters: Mapping[str, np.ndarray], lines: Sequence[str], observe: Observe = _ignore
    ) -> np.ndarray:
        """Return the vector of each line, float32 (lines, width).

        ``parameters`` are those of this model, perhaps with other weights.
        """
        found = []
        for line in lines:
            tokens = np.array(self.tokenizer.encode(line).ids[: self.positions])
            mean = self.hidden(parameters, tokens, self.layers, observe).mean(axis=0)
            found.append(mean / np.linalg.norm(mean))
        return np.array(found)

    def second_moments(self, lines: Sequence[str]) -> dict[str, np.ndarray]:
        """Return the sum of x x' over the inputs x of each matrix, float32.

        Those of values are mixtures, as in :meth:`.decoder.Decoder.second_moments`.
        """
        moments: dict[str, np.ndarray] = {}

        def observe(name: str, inputs: np.ndarray) -> None:
            moments[name] = moments.get(name, 0) + inputs.T @ inputs

        self.vectors(self.parameters, lines, observe)
        return moments

    def hidden(
        self, parameters: Mapping[str, np.ndarray], tokens: np.ndarray, layers: int,
        observe: Observe = _ignore,
    ) -> np.ndarray:  # fmt: skip
        """Return the output of the first ``layers`` layers, float32 (tokens, width)."""

        def norm(x: np.ndarray, name: str) -> np.ndarray:
            x = x - x.mean(axis=1, keepdims=True)
            size = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(self.epsilon))
            return x / size * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]

        def product(name: str, inputs: np.ndarray) -> np.ndarray:
            if not name.endswith(VALUES):
                observe(f"{name}.weight", inputs)
            return inputs @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]

        def split(inputs: np.ndarray) -> np.ndarray:
            return inputs.reshape(len(tokens), self.heads, -1).swapaxes(0, 1)

        x = parameters["embeddings.word_embeddings.weight"][tokens]
        x = x + parameters["embeddings.position_embeddings.weight"][: len(tokens)]
        x = x + parameters["embeddings.token_type_embeddings.weight"][0]
        x = norm(x, "embeddings.LayerNorm")
        for layer in range(layers):
            at = f"encoder.layer.{layer}"
            queries, keys, values = (
                split(product(f"{at}.attention.self.{name}", x))
                for name in ("query", "key", "value")
            )
            scores = queries @ keys.swapaxes(1, 2) / np.float32(sqrt(keys.shape[2]))
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            shares = scores / scores.sum(axis=2, keepdims=True)
            if observe is not _ignore:
                observe(f"{at}.{VALUES}.weight", (shares @ x).reshape(-1, x.shape[1]))
            mixed = shares @ values
            mixed = mixed.swapaxes(0, 1).reshape(len(tokens), -1)
            x = norm(
                x + product(f"{at}.attention.output.dense", mixed),
                f"{at}.attention.output.LayerNorm",
            )
            middle = product(f"{at}.intermediate.dense", x)
            middle = middle * share_below(middle)
            x = norm(x + product(f"{at}.output.dense", middle), f"{at}.output.LayerNorm")
        return x


def share_below(x: np.ndarray) -> np.ndarray:
    """Return the share of Gaussian numbers below x: x times it is gelu(x).

    The error function is that of Abramowitz and Stegun, 7.1.26, whose error is below 1.5e-7.
    """
    z = np.abs(x) * np.float32(sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * z)
    sums = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        sums = (sums + np.float32(factor)) * t
    upper = sums * np.exp(-z * z) / 2
    return np.where(x < 0, upper, 1 - upper)


def read(folder: Path) -> Encoder:
    """Return the model of a folder with ``config.json`` of type ``bert`` and ``tokenizer.json``.

    Raises ``ValueError`` for another model.
    """
    found = transformer_files.read(folder)
    model = found.model
    if not isinstance(model, transformers.Encoder):
        raise ValueError(f"{folder} has no BERT")
    layers = sum(name.endswith(".attention.self.query.weight") for name in found.tensors)
    return Encoder(
        dict(found.tensors), layers, model.heads, model.epsilon, found.positions, found.tokenizer
    )
