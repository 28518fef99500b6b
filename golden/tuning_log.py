"""Tuning of kept weights by zeroth order as a text: first weights and this log give the final ones.

The first line is a JSON object: format, version, what entries and signs depend on, the size of a
perturbation, and the digest of the first entries. A line for each step follows: its seed and its
change, as a JSON array. The last line has the digest of the final entries.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from seedbed.golden.kept_weights import tuned
from seedbed.spec.stream_engine import StreamEngineConfig

__all__ = ["Step", "deltas", "replayed", "tuning_log"]

_FORMAT, _VERSION = "seedbed tuning log", 1


@dataclass(frozen=True)
class Step:
    """A step: with it, the first entries can be tuned again elsewhere."""

    seed: int
    change: int


def deltas(eps: int, change: int) -> tuple[int, int, int]:
    """Return what a step adds, times its signs: before each pass, and after both.

    Values have +eps z in the first pass and -eps z in the second one; the last one takes that back
    and subtracts change z.
    """
    return eps, -2 * eps, eps - change


def _digest(words: np.ndarray) -> str:
    return sha256(words.astype("<u4").tobytes()).hexdigest()


def _header(config: StreamEngineConfig, eps: int, words: np.ndarray) -> dict:
    return {
        "format": _FORMAT, "version": _VERSION, "tune": config.tune, "beat_bits": config.beat_bits,
        "eps": eps, "first": _digest(words),
    }  # fmt: skip


def tuning_log(
    config: StreamEngineConfig, eps: int, first: np.ndarray, steps: Sequence[Step],
    final: np.ndarray,
) -> str:  # fmt: skip
    """Return the log of steps from the entries ``first`` to ``final``, uint32."""
    lines = [_header(config, eps, first), *([step.seed, step.change] for step in steps)]
    lines.append({"final": _digest(final)})
    return "".join(json.dumps(line) + "\n" for line in lines)


def replayed(config: StreamEngineConfig, first: np.ndarray, text: str) -> np.ndarray:
    """Return the final entries of a log.

    Raises ``ValueError`` for another text, for entries that are not those that the log begins with,
    and for one whose steps do not give its final entries.
    """
    try:
        header, *steps, last = map(json.loads, text.splitlines())
        eps, wanted = int(header["eps"]), last["final"]
        pairs = [(int(seed), int(change)) for seed, change in steps]
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError("it is no tuning log, or it is damaged") from problem
    if header != _header(config, eps, first):
        raise ValueError("the log is of another core or begins with other kept weights")
    words = first
    for seed, change in pairs:
        for delta in deltas(eps, change):
            words = tuned(config, words, seed=seed, delta=delta)
    if _digest(words) != wanted:
        raise ValueError("the steps of the log do not give its final weights")
    return words
