"""What is asked of an export."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.cores.core import Core

__all__ = ["Request"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """An export for a core.

    Parameters
    ----------
    core, params
        The core, and the parameters that were given.
    source, tensor
        A safetensors file, and the name of a tensor in it; or the folder of an imported
        transformer.
    vector
        A file with the vector of the product, or with numbers that are loaded.
    adapters
        A file of adapters by 'seedbed tune'.
    prompt
        A text, whose tokens are run; without it, tokens are random.
    seed
        Seed of what is random, or of the core.
    count
        How many beats a generator gives, or how many random images or tokens there are.
    """

    core: Core
    params: Mapping[str, Any] = field(default_factory=dict)
    source: Path | None = None
    tensor: str | None = None
    vector: Path | None = None
    adapters: Path | None = None
    prompt: str | None = None
    seed: int = 1
    count: int = 64

    @property
    def rng(self) -> np.random.Generator:
        """A generator of random numbers, seeded."""
        return np.random.default_rng(self.seed)
