"""A packed matrix as the application ``gemv`` stores it and multiplies with it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seedbed.flow.export.tensors import (
    BLOCK,
    CODE,
    read_tensor,
    seedlm_params,
    trellis_params,
)
from seedbed.golden import trellis
from seedbed.golden.gemv import Gemv, trellis_base
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import MANTISSA_BITS, SCALE_BITS

__all__ = ["PackedMatrix", "scaled_rows"]


def scaled_rows(base: np.ndarray, beats: np.ndarray) -> np.ndarray:
    """Return beats of rows of a trellis code, uint8 (rows, beats, bytes), after their scales.

    ``base`` are the rows as :func:`~seedbed.golden.gemv.base_weights` takes them.
    """
    scales = np.zeros_like(beats[:, :1])
    scales[:, 0, : SCALE_BITS // 8] = base[:, : SCALE_BITS // 8]
    return np.concatenate([scales, beats], axis=1)


@dataclass(frozen=True, kw_only=True)
class PackedMatrix:
    """Packed rows for a configuration of the core.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`, with the decode ``seedlm`` or ``trellis``.
    base
        Blocks, or rows of a trellis code, as :func:`~seedbed.golden.gemv.base_weights` takes them.
    columns
        Weights per row.
    scale
        A sum is worth 2^scale, with SeedLM's blocks less by their divisor.
    name
        What it is, for messages.
    """

    config: GemvConfig
    base: np.ndarray
    columns: int
    scale: int = 0
    name: str = "the matrix"

    @classmethod
    def read(cls, config: GemvConfig, path: Path, tensor: str | None) -> "PackedMatrix":
        """Return a packed tensor of a file.

        Raises ``ValueError`` for one in another format than the configuration's, and for kept
        weights.
        """
        found = read_tensor(path, tensor)
        if config.trellis:
            trellis_params(found, {name: getattr(config.trellis, name) for name in CODE})
            base, scale = trellis_base(config.trellis, found.raw, found.columns, found.meta.scale)
        else:
            seedlm_params(found, {name: getattr(config, name) for name in BLOCK})
            base, scale = found.blocks, found.meta.scale
        found.refuse_kept()
        return cls(
            config=config, base=base, columns=found.columns, scale=scale - 8, name=found.where
        )

    @classmethod
    def random(
        cls, config: GemvConfig, rng: np.random.Generator, rows: int, columns: int
    ) -> "PackedMatrix":
        """Return random rows; a seed of a block is never 0."""
        if code := config.trellis:
            symbols = rng.integers(0, 1 << code.bits, (rows, columns))
            scales = rng.integers(0, 1 << MANTISSA_BITS, rows), rng.integers(-8, 8, rows)
            base = trellis.pack(code, symbols, *scales)
        else:
            shape = rows, -(-columns // config.block)
            base = rng.integers(0, 2**config.block_bits, shape, np.uint64) | np.uint64(1)
        return cls(config=config, base=base, columns=columns)

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.base)

    @property
    def divisor(self) -> int:
        """A sum of 1 is 2^scale / divisor."""
        return 1 if self.config.trellis else self.config.half - 1

    def beats(self) -> np.ndarray:
        """Return the beats of the memory, uint8 (rows, beats, bytes).

        A row of a trellis code begins with a beat of its scale.
        """
        beats = Gemv(self.config).base_beats(self.base, self.columns)
        return scaled_rows(self.base, beats) if self.config.trellis else beats

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return the sums of all rows, int64, as the model computes them."""
        model = Gemv(self.config)
        if not self.config.trellis:
            return model.packed_product(self.base, x)
        rows = trellis.unpack(self.config.trellis, self.base, self.columns)
        return model.trellis_product(*rows, x)
