"""Golden model of the vector unit: norms, rotations, softmax, products and activations."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import rounded, saturate, shifted
from seedbed.spec.fixed import Fixed
from seedbed.spec.vector_unit import ACTIVATIONS, VectorUnitConfig

__all__ = ["VectorUnit", "token_shifts"]


def token_shifts(vectors: np.ndarray, width: int) -> np.ndarray:
    """Return the least shift to ``width`` bits of each vector (..., elements), int64 (...).

    It is the number of bits that the greatest magnitude has beyond width - 1, found by an OR of
    x XOR sign: no vector is read twice for it.
    """
    ones = np.bitwise_or.reduce(vectors ^ (vectors >> 63), axis=-1)
    return np.maximum(_bits(ones) - (width - 1), 0)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Return the bit lengths of numbers of 0 or more, below 2^62."""
    found = np.zeros(numbers.shape, np.int64)
    for bits in range(62):
        found += numbers >> bits > 0
    return found


def _interpolated(entries: np.ndarray, positions: np.ndarray, low_bits: int) -> np.ndarray:
    """Return a table at ``positions``, whose low bits are between two entries."""
    index = positions >> low_bits
    low = positions & ((1 << low_bits) - 1)
    return entries[index] + rounded((entries[index + 1] - entries[index]) * low, low_bits)


class VectorUnit:
    """Each operation on vectors of integers, int64. The last axis is that of a vector's elements.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.vector_unit.VectorUnitConfig`.
    """

    #: Bits of a number after its leading one that give a position in a table.
    NORMAL = 15

    def __init__(self, config: VectorUnitConfig):
        self.config = config
        self._reciprocals, self._reciprocal_roots, self._powers, self._sines = (
            np.array(table, np.int64)
            for table in (config.reciprocals, config.reciprocal_roots, config.powers, config.sines)
        )
        self._corrections = {
            name: np.array(config.corrections(name), np.int64) for name in ACTIVATIONS
        }

    def _mantissa(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the 15 bits after the leading one, and its place, of numbers of 1 or more."""
        place = _bits(numbers) - 1
        mantissa = np.where(
            place > self.NORMAL,
            numbers >> np.maximum(place - self.NORMAL, 0),
            numbers << np.maximum(self.NORMAL - place, 0),
        )
        return mantissa - (1 << self.NORMAL), place

    def reciprocal(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return r and p of numbers n of 1 or more: 1 / n is about r / 2^(15 + p)."""
        config = self.config
        mantissa, place = self._mantissa(numbers)
        low = self.NORMAL - config.index_bits
        return _interpolated(self._reciprocals, mantissa, low), place

    def reciprocal_root(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return r and p of numbers n of 1 or more: 1 / sqrt(n) is about r / 2^(15 + p)."""
        config = self.config
        mantissa, place = self._mantissa(numbers)
        position = (place & 1) << self.NORMAL | mantissa
        low = self.NORMAL + 1 - config.index_bits
        return _interpolated(self._reciprocal_roots, position, low), place >> 1

    def norm(
        self,
        x: np.ndarray,
        *,
        gains: np.ndarray,
        shift: int,
        epsilon: int,
        biases: np.ndarray | None = None,
        centred: bool = False,
    ) -> np.ndarray:
        """Return vectors (..., n) divided by the root of their mean square, times gains.

        ::

            c = x, or x less its mean, rounded half up
            (r, p) = reciprocal root of (sum of c^2 + epsilon)
            u = round(c r / 2^(p - 2)), saturated: c / sqrt(sum of c^2) with 17 fraction bits
            y = round(u gain / 2^shift) + bias, saturated

        Parameters
        ----------
        x
            Integers of the residual's width.
        gains
            (n,) integers of a vector's width: gain sqrt(n), as u has no sqrt(n).
        shift
            Fraction bits of u and of the gains less those of y.
        epsilon
            n 2^(2 f) times the real one, of x with f fraction bits; at least 1.
        biases
            (n,) integers of y's format.
        centred
            Whether the mean is subtracted, as in layer normalization.
        """
        config = self.config
        x = require_integers("elements", x, config.residual.low, config.residual.high)
        count = x.shape[-1]
        if centred:
            total = x.sum(axis=-1, keepdims=True)
            r, p = self.reciprocal(np.array(count))
            x = x - shifted(total * r, config.table_fraction + p)
        squares = (x * x).sum(axis=-1, keepdims=True) + epsilon
        r, p = self.reciprocal_root(squares)
        to = config.table_fraction - config.normal_fraction
        limit = Fixed(config.normal_fraction + 1, 0)
        u = saturate(shifted(x * r, p + to), limit)
        y = shifted(u * gains, shift) + (0 if biases is None else biases)
        return saturate(y, config.vector)

    def rotate(self, x: np.ndarray, *, position: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return vectors (tokens, heads, 2 n) with each pair of elements rotated by an angle.

        ::

            angle = position step mod 2^32, a fraction of a turn
            (a, b) becomes (a cos - b sin, a sin + b cos) / 2^15, rounded half up, saturated

        Parameters
        ----------
        x
            Pairs are neighbours: elements 2 i and 2 i + 1.
        position
            (tokens,) integers.
        steps
            (n,) angles of 32 bits for each position.
        """
        config = self.config
        turn = (1 << config.angle_bits) - 1
        angles = (position[:, None].astype(np.int64) * steps.astype(np.int64) & turn)[:, None]
        quarter = 1 << config.angle_bits - 2
        cos, sin = self._sine(angles + quarter & turn), self._sine(angles)
        a, b = x[..., 0::2], x[..., 1::2]
        turned = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
        return saturate(rounded(turned, config.table_fraction), config.vector)

    def _sine(self, angles: np.ndarray) -> np.ndarray:
        """Return sines of angles of 32 bits; 22 bits of them are used."""
        config = self.config
        used = 22
        position = angles >> config.angle_bits - used
        return _interpolated(self._sines, position, used - config.sine_bits)

    def cached(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return keys or values (..., n) as int8, and the shift of each vector (...)."""
        width = self.config.cache_width
        shifts = token_shifts(x, width)
        return saturate(shifted(x, shifts[..., None]), Fixed(width, 0)), shifts

    def attend(
        self,
        query: np.ndarray,
        keys: np.ndarray,
        key_shifts: np.ndarray,
        values: np.ndarray,
        value_shifts: np.ndarray,
        *,
        seen: np.ndarray,
        scale: tuple[int, int],
    ) -> np.ndarray:
        """Return a head's mixes of values (queries, n), of the values' format.

        ::

            z_t = round((sum of q k_t) 2^(key shift) multiplier / 2^shift), saturated
            d_t = max z - z_t
            e_t = powers at the fraction of d_t, / 2^(its whole part), truncated
            (r, p) = reciprocal of the sum of e_t
            y = round((sum of e_t v_t 2^(value shift)) r / 2^(15 + p)), saturated

        Parameters
        ----------
        query
            (queries, n).
        keys, values
            (tokens, n) of int8, and the shift of each token.
        seen
            (queries, tokens) flags: the tokens that a query attends to, at least one.
        scale
            Multiplier and shift, :meth:`~seedbed.spec.vector_unit.VectorUnitConfig.score_scale`.
        """
        config = self.config
        multiplier, shift = scale
        sums = (query @ keys.T) << key_shifts
        scores = saturate(shifted(sums * multiplier, shift), config.score)
        most = np.where(seen, scores, config.score.low).max(axis=-1, keepdims=True)
        below = np.where(seen, most - scores, 0)
        part = below & (1 << config.score_fraction) - 1
        powers = _interpolated(self._powers, part, config.score_fraction - config.index_bits)
        whole = np.minimum(below >> config.score_fraction, config.table_fraction + 1)
        shares = np.where(seen, powers >> whole, 0)
        r, p = self.reciprocal(shares.sum(axis=-1, keepdims=True))
        mixed = shares @ (values << value_shifts[:, None])
        return saturate(shifted(mixed * r, config.table_fraction + p), config.vector)

    def multiply(self, a: np.ndarray, b: np.ndarray, *, shift: int, wide: bool) -> np.ndarray:
        """Return round(a b / 2^shift), saturated to the residual's width or to a vector's."""
        config = self.config
        return saturate(shifted(a * b, shift), config.residual if wide else config.vector)

    def add(self, residual: np.ndarray, x: np.ndarray, *, shift: int) -> np.ndarray:
        """Return residual + round(x / 2^shift), saturated."""
        return saturate(residual + shifted(x, shift), self.config.residual)

    def activate(self, x: np.ndarray, *, name: str, fraction: int) -> np.ndarray:
        """Return an activation of numbers with ``fraction`` fraction bits, of the same format.

        ::

            y = max(x, 0) - round(correction at |x| / 2^(17 - fraction))

        ``fraction`` is 5..17. From a magnitude of 16 on, the correction is 0.
        """
        config = self.config
        low = fraction - config.activation_bits
        magnitude = np.abs(x)
        end = config.activation_end << fraction
        inside = magnitude < end
        correction = _interpolated(self._corrections[name], np.where(inside, magnitude, 0), low)
        correction = np.where(inside, correction, 0)
        y = np.maximum(x, 0) - rounded(correction, config.activation_fraction - fraction)
        return saturate(y, config.vector)

    def mean(self, x: np.ndarray, *, shift: int) -> np.ndarray:
        """Return the mean (n,) of vectors (tokens, n) / 2^shift, rounded half up, saturated."""
        r, p = self.reciprocal(np.array(len(x)))
        total = x.sum(axis=0) * r
        return saturate(shifted(total, self.config.table_fraction + p + shift), self.config.vector)
