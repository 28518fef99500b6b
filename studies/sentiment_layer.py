"""The last layer of a BERT-like encoder and a head of two classes, for many sentences at a time.

The inputs of the layer are computed once. Of a pass, only the layer, the mean over the tokens of a
sentence and the head are computed, in float32. The attention's four matrices are what is tuned.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np

from seedbed.flow.jobs.kept_tuning import class_losses, log_shares
from seedbed.studies.encoder import share_below

__all__ = ["MATRICES", "Layer", "Sentences"]

#: The matrices that are tuned, of equal shape.
MATRICES = (
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
)  # fmt: skip


@dataclass(frozen=True)
class Sentences:
    """Inputs of the layer, float32 (tokens, width), of sentences one after the other.

    ``lengths`` are their tokens, ``labels`` are 0 or 1.
    """

    inputs: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray

    def select(self, numbers: np.ndarray) -> "Sentences":
        """Return some of the sentences."""
        starts = np.cumsum(self.lengths) - self.lengths
        rows = [np.arange(starts[n], starts[n] + self.lengths[n]) for n in numbers]
        return Sentences(
            self.inputs[np.concatenate(rows)], self.lengths[numbers], self.labels[numbers]
        )

    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sentence of each token, and its place in it."""
        sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        starts = np.cumsum(self.lengths) - self.lengths
        return sentence, np.arange(len(sentence)) - starts[sentence]


@dataclass(frozen=True)
class Layer:
    """A layer: parameters by the names of its file, less those of the layer; and its numbers."""

    parameters: Mapping[str, np.ndarray]
    heads: int
    epsilon: float

    @property
    def matrices(self) -> np.ndarray:
        """The matrices that are tuned, float32 (4, width, width)."""
        return np.stack([self.parameters[f"{name}.weight"] for name in MATRICES])

    def means(self, matrices: np.ndarray, sentences: Sentences) -> np.ndarray:
        """Return the mean output of each sentence, float32 (sentences, width)."""
        return self._forward(matrices, sentences)["means"]

    def losses(
        self, matrices: np.ndarray, head: np.ndarray, sentences: Sentences
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of each sentence, in float64, and whether its class is right.

        ``head`` is (2, width + 1), with biases as the last column.
        """
        return class_losses(self.means(matrices, sentences), head, sentences.labels)

    def gradient(
        self, matrices: np.ndarray, head: np.ndarray, sentences: Sentences
    ) -> tuple[float, np.ndarray]:
        """Return the mean loss, and its gradient by the matrices, float32 (4, width, width)."""
        tape = self._forward(matrices, sentences)
        logs, shares = log_shares(tape["means"], head)
        each = np.arange(len(logs))
        loss = -logs[each, sentences.labels].mean()
        shares[each, sentences.labels] -= 1
        slopes = (shares / len(logs) @ head[:, :-1]).astype(np.float32)
        return float(loss), self._backward(matrices, sentences, tape, slopes)

    def _norm(self, x: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the norm, the centred x of unit deviation, and the deviation."""
        x = x - x.mean(axis=1, keepdims=True)
        size = np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(self.epsilon))
        x = x / size
        gains, biases = self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]
        return x * gains + biases, x, size

    def _forward(self, matrices: np.ndarray, sentences: Sentences) -> dict[str, Any]:
        x, own = sentences.inputs, self.parameters
        width = x.shape[1]
        sentence, place = sentences.places()
        batch, longest = len(sentences.lengths), int(sentences.lengths.max())
        biases = np.concatenate([own[f"{name}.bias"] for name in MATRICES[:3]])
        projected = x @ matrices[:3].reshape(3 * width, width).T + biases
        padded = np.zeros((batch, longest, 3 * width), np.float32)
        padded[sentence, place] = projected
        # (query, key or value; sentences; heads; tokens; elements)
        split = padded.reshape(batch, longest, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        queries, keys, values = split
        scores = queries @ keys.swapaxes(2, 3) / np.float32(sqrt(keys.shape[3]))
        absent = np.arange(longest) >= sentences.lengths[:, None]
        scores += np.where(absent, np.float32(-np.inf), np.float32(0))[:, None, None]
        scores = np.exp(scores - scores.max(axis=3, keepdims=True))
        shares = scores / scores.sum(axis=3, keepdims=True)
        mixed = (shares @ values).swapaxes(1, 2).reshape(batch, longest, width)[sentence, place]
        y = x + mixed @ matrices[3].T + own[f"{MATRICES[3]}.bias"]
        y, unit, size = self._norm(y, "attention.output.LayerNorm")
        middle = y @ own["intermediate.dense.weight"].T + own["intermediate.dense.bias"]
        below = share_below(middle)
        z = y + (middle * below) @ own["output.dense.weight"].T + own["output.dense.bias"]
        z, last_unit, last_size = self._norm(z, "output.LayerNorm")
        starts = np.cumsum(sentences.lengths) - sentences.lengths
        means = np.add.reduceat(z, starts, axis=0) / sentences.lengths[:, None].astype(np.float32)
        return {
            "split": split, "shares": shares, "mixed": mixed, "unit": unit, "size": size,
            "middle": middle, "below": below, "last_unit": last_unit, "last_size": last_size,
            "means": means,
        }  # fmt: skip

    def _backward(
        self, matrices: np.ndarray, sentences: Sentences, tape: dict[str, Any], slopes: np.ndarray
    ) -> np.ndarray:
        """Return the gradient by the matrices for one by the means."""
        own = self.parameters
        width = matrices.shape[2]
        sentence, place = sentences.places()
        dz = (slopes / sentences.lengths[:, None].astype(np.float32))[sentence]
        dz = _norm_slope(dz * own["output.LayerNorm.weight"], tape["last_unit"], tape["last_size"])
        middle, below = tape["middle"], tape["below"]
        density = np.exp(-middle * middle / 2) / np.float32(sqrt(2 * pi))
        inner = (dz @ own["output.dense.weight"]) * (below + middle * density)
        dy = dz + inner @ own["intermediate.dense.weight"]
        dy = _norm_slope(dy * own["attention.output.LayerNorm.weight"], tape["unit"], tape["size"])
        queries, keys, values = tape["split"]
        shares = tape["shares"]
        batch, _, longest, _ = queries.shape
        padded = np.zeros((batch, longest, width), np.float32)
        padded[sentence, place] = dy @ matrices[3]
        dmixed = padded.reshape(batch, longest, self.heads, -1).swapaxes(1, 2)
        dshares = dmixed @ values.swapaxes(2, 3)
        dscores = shares * (dshares - (dshares * shares).sum(axis=3, keepdims=True))
        dscores /= np.float32(sqrt(keys.shape[3]))
        parts = dscores @ keys, dscores.swapaxes(2, 3) @ queries, shares.swapaxes(2, 3) @ dmixed
        found = [
            part.swapaxes(1, 2).reshape(batch, longest, width)[sentence, place].T @ sentences.inputs
            for part in parts
        ]
        return np.stack([*found, dy.T @ tape["mixed"]])


def _norm_slope(slopes: np.ndarray, unit: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the slopes by the input of a norm, for those by its centred x of unit deviation."""
    along = (slopes * unit).mean(axis=1, keepdims=True)
    return (slopes - slopes.mean(axis=1, keepdims=True) - unit * along) / size
