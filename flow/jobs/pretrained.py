"""Pre-trained networks of the demonstrations, cached."""

import base64
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from seedbed.flow.run.cache import code, memo
from seedbed.golden import network

__all__ = ["pretrained"]


def pretrained(
    folder: Path,
    images: np.ndarray,
    labels: np.ndarray,
    settings: Mapping[str, Any],
    train: Callable[[], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Return the float32 parameters of ``train()``, from the cache in ``folder`` if valid.

    They are valid for the same images, labels, ``settings`` (JSON values), NumPy version and code
    of :mod:`seedbed.golden.network`.
    """
    key = {
        "images": sha256(images.tobytes() + labels.tobytes()).hexdigest(),
        **settings,
        "numpy": np.__version__,
        "code": sha256(code(network.__name__).encode()).hexdigest(),
    }

    def compute() -> dict[str, Any]:
        return {
            name: [value.shape, base64.b64encode(value.astype("<f4").tobytes()).decode()]
            for name, value in train().items()
        }

    found = memo(folder, "base", key, compute)
    return {
        name: np.frombuffer(base64.b64decode(text), "<f4").reshape(shape)
        for name, (shape, text) in found.items()
    }
