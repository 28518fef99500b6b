"""Golden model of the trellis code: states, values, packing, decoding and the exact search."""

from functools import lru_cache

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.spec.trellis import EXPONENTS, TrellisConfig

__all__ = ["decode", "pack", "search", "states", "symbols", "table", "unpack", "values"]


@lru_cache(maxsize=4)
def table(config: TrellisConfig) -> np.ndarray:
    """Return the value of each state, int64 of shape (2^L,)."""
    found = values(config, np.arange(1 << config.state_bits))
    found.flags.writeable = False
    return found


def values(config: TrellisConfig, found: np.ndarray) -> np.ndarray:
    """Return the value of each state in ``found``, int64 of its shape."""
    found = require_integers("states", found, 0, (1 << config.state_bits) - 1)
    total = np.zeros(found.shape, np.int64)
    for masks in config.masks:
        field = np.zeros(found.shape, np.int64)
        for place, mask in enumerate(masks):
            ones = np.bitwise_count(found & mask).astype(np.int64)
            field += (ones & 1) << place
        total += 2 * field - ((1 << config.field_bits) - 1)
    return total


def states(config: TrellisConfig, codes: np.ndarray, starts: np.ndarray | int = 0) -> np.ndarray:
    """Return the states after each symbol, int64 of the shape of ``codes``, (..., columns).

    ``starts`` are the states before the first symbols.
    """
    codes = require_integers("symbols", codes, 0, (1 << config.bits) - 1)
    found = np.zeros(codes.shape, np.int64)
    shifts = range(0, config.state_bits, config.bits)
    # A state is a window of symbols: the last one in its lowest bits.
    for age, shift in zip(range(codes.shape[-1]), shifts, strict=False):
        found[..., age:] |= codes[..., : codes.shape[-1] - age] << shift
        found[..., age] |= np.asarray(starts) << shift + config.bits
    return found & ((1 << config.state_bits) - 1)


def symbols(config: TrellisConfig, stream: np.ndarray, columns: int) -> np.ndarray:
    """Return the symbols of streams, uint8 (rows, bytes), as uint8 of shape (rows, columns)."""
    bits = np.unpackbits(stream, axis=-1, count=columns * config.bits, bitorder="little")
    grouped = bits.reshape(len(stream), columns, config.bits)
    return np.packbits(grouped, axis=-1, bitorder="little")[..., 0]


def pack(
    config: TrellisConfig, codes: np.ndarray, mantissas: np.ndarray, exponents: np.ndarray
) -> np.ndarray:
    """Return packed rows, uint8 (rows, bytes), of symbols (rows, columns) and a scale for each."""
    codes = require_integers("symbols", codes, 0, (1 << config.bits) - 1).astype(np.uint8)
    mantissas = require_integers("mantissas", mantissas, 0, 255).astype(np.uint8)
    exponents = require_integers("exponents", exponents, *EXPONENTS).astype(np.int8)
    bits = np.unpackbits(codes[..., None], axis=-1, count=config.bits, bitorder="little")
    stream = np.packbits(bits.reshape(len(codes), -1), axis=-1, bitorder="little")
    head = np.stack([mantissas, exponents.view(np.uint8)], axis=-1)
    return np.concatenate([head, stream], axis=-1)


def unpack(
    config: TrellisConfig, raw: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return symbols (rows, columns), mantissas and exponents (rows,) of packed rows."""
    exponents = np.ascontiguousarray(raw[:, 1]).view(np.int8)
    return symbols(config, raw[:, config.header :], columns), raw[:, 0], exponents


def decode(config: TrellisConfig, raw: np.ndarray, columns: int) -> np.ndarray:
    """Return the weights of packed rows as float64 (rows, columns)."""
    codes, mantissas, exponents = unpack(config, raw, columns)
    scales = np.ldexp(mantissas.astype(np.float64), exponents.astype(np.int64))
    return table(config)[states(config, codes)] * scales[:, None]


def search(
    config: TrellisConfig,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    starts: np.ndarray | None = None,
) -> np.ndarray:
    """Return the symbols of the least error, uint8 of shape (rows, columns): Viterbi's algorithm.

    Minimises the sum over t of ``weights_t (target_t - value_t)^2`` of each row. Of paths with
    equal errors it returns any.

    Parameters
    ----------
    config
        The code. Time and memory are those of rows x columns x 2^L and rows x columns x 2^(L - k)
        numbers.
    targets
        (rows, columns) numbers, divided by the row's scale.
    weights
        Numbers of 0 or more, (rows, columns) or (columns,), or ``None``.
    starts
        (rows,) states before the first symbol; ``None`` is 0.

    Source: Viterbi, Error Bounds for Convolutional Codes (1967), as QTIP (arXiv:2406.11235),
    section 3, uses it.
    """
    rows, columns = targets.shape
    low = 1 << config.history
    weights = np.broadcast_to(1.0 if weights is None else weights, targets.shape)
    levels = table(config).astype(np.float64)
    costs = np.full((rows, 1 << config.state_bits), np.inf)
    costs[np.arange(rows), 0 if starts is None else starts] = 0
    back = np.empty((columns, rows, low), np.uint8)
    for t in range(columns):
        # State s follows the states whose low L - k bits are the high bits of s.
        before = costs.reshape(rows, -1, low)
        back[t] = before.argmin(axis=1)
        least = np.repeat(before.min(axis=1), 1 << config.bits, axis=1)
        errors = (targets[:, t, None] - levels) ** 2
        costs = least + weights[:, t, None] * errors
    state = costs.argmin(axis=1)
    found = np.empty((rows, columns), np.uint8)
    for t in reversed(range(columns)):
        found[:, t] = state & ((1 << config.bits) - 1)
        high = state >> config.bits
        state = back[t, np.arange(rows), high].astype(np.int64) << config.history | high
    return found
