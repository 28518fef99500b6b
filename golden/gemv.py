"""Golden model of the matrix-vector product with packed or plain weights."""

import numpy as np

from seedbed.golden import seedlm
from seedbed.golden.checks import require_integers
from seedbed.golden.mac_array import wrap
from seedbed.spec import GemvConfig

__all__ = ["Gemv"]

#: Blocks or plain weights per chunk: bounds the memory.
CHUNK = 1 << 16


class Gemv:
    """y = W x in integers, and the beats of W.

    Sums are exact modulo 2^accumulator_width, in int64. At the paper's 4 bits no sum overflows. At
    its 3 bits the only overflow is a sum of 2^63, of blocks with seed 0, which no file contains.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.
    """

    def __init__(self, config: GemvConfig):
        self.config = config

    def packed_product(self, packed: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return y, int64 of shape (rows,), of ``packed`` blocks and ``x`` of shape (columns,).

        ``packed`` is of shape (rows, ceil(columns / C)); the weights of a row's last block
        after the last column count as 0. Raises ``ValueError`` for mismatched shapes.
        """
        config = self.config
        blocks = self._check_shapes(packed, x, config.block)
        x = self._activations(x)
        padded = np.zeros(blocks * config.block, np.int64)
        padded[: len(x)] = x
        lanes = padded.reshape(blocks, config.block)
        found = [np.zeros(0, np.int64)]
        for part in self._parts(packed):
            seeds, exponents, coefficients = seedlm.unpack(config, part)
            sums = (seedlm.sums(config, seeds, coefficients) * lanes).sum(axis=-1)
            found.append((sums << (exponents.astype(np.int64) + 8)).sum(axis=-1))
        return wrap(np.concatenate(found), config.mac.accumulator_width)

    def plain_product(self, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return y, int64 of shape (rows,), of ``weights`` (rows, columns) and ``x`` (columns,).

        Raises ``ValueError`` for mismatched shapes.
        """
        self._check_shapes(weights, x, 1)
        sums = self._weights(weights) @ self._activations(x)
        return wrap(sums, self.config.mac.accumulator_width)

    def packed_beats(self, packed: np.ndarray) -> np.ndarray:
        """Return W as beats: uint8 of shape (rows, beats per row, bytes per beat), low bytes first.

        ``packed`` is of shape (rows, blocks); a row's last beat is padded with zeros.
        """
        packed = require_integers("packed", packed, 0, (1 << self.config.block_bits) - 1)
        return self._beats(packed, self.config.block_bits, self.config.decompress.blocks)

    def plain_beats(self, weights: np.ndarray) -> np.ndarray:
        """Return W as beats of plain weights, like :meth:`packed_beats`."""
        return self._beats(self._weights(weights), self.config.plain_width, self.config.plain_lanes)

    def _activations(self, x: np.ndarray) -> np.ndarray:
        half = 1 << (self.config.activation_width - 1)
        return require_integers("x", x, -half, half - 1)

    def _weights(self, weights: np.ndarray) -> np.ndarray:
        half = 1 << (self.config.plain_width - 1)
        return require_integers("weights", weights, -half, half - 1)

    def _check_shapes(self, matrix: np.ndarray, x: np.ndarray, block: int) -> int:
        """Return how many fields a row has; raise ``ValueError`` for another matrix shape."""
        fields = -(-len(x) // block)
        if not 1 <= len(x) <= self.config.columns:
            raise ValueError(f"columns must be in 1..{self.config.columns}, not {len(x)}")
        if matrix.ndim != 2 or matrix.shape[1] != fields:
            raise ValueError(
                f"a matrix of {len(x)} columns has {fields} fields per row, in two dimensions: "
                f"its shape must not be {matrix.shape}"
            )
        return fields

    def _parts(self, matrix: np.ndarray) -> list[np.ndarray]:
        """Return ``matrix`` in pieces of whole rows."""
        step = max(1, CHUNK // matrix.shape[1])
        return [matrix[start : start + step] for start in range(0, len(matrix), step)]

    def _beats(self, matrix: np.ndarray, width: int, fields: int) -> np.ndarray:
        """Return beats of ``fields`` numbers of ``width`` bits, the first one lowest."""
        beats = -(-matrix.shape[1] // fields)
        found = [np.zeros((0, beats, self.config.beat_bits // 8), np.uint8)]
        for part in self._parts(matrix):
            whole = np.zeros((len(part), beats * fields), "<u8")
            whole[:, : part.shape[1]] = part.view(np.uint64)
            octets = whole.view(np.uint8).reshape(len(part), beats, fields, 8)
            bits = np.unpackbits(octets, axis=-1, count=width, bitorder="little")
            beat = np.zeros((len(part), beats, self.config.beat_bits), np.uint8)
            beat[..., : fields * width] = bits.reshape(len(part), beats, fields * width)
            found.append(np.packbits(beat, axis=-1, bitorder="little"))
        return np.concatenate(found)
