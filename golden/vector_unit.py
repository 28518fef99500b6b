"""Golden model of the vector unit: norms, rotations, softmax, products and activations."""

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import rounded, saturate, shifted
from seedbed.spec.checks import require_int
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


#: Powers of two.
_POWERS = 1 << np.arange(62)


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Return the bit lengths of numbers of 0 or more, below 2^62."""
    return np.searchsorted(_POWERS, numbers, side="right")


def _interpolated(entries: np.ndarray, positions: np.ndarray, low_bits: int) -> np.ndarray:
    """Return 2^low_bits times a table at ``positions``, whose low bits are between two entries."""
    index = positions >> low_bits
    low = positions & ((1 << low_bits) - 1)
    return (entries[index] << low_bits) + (entries[index + 1] - entries[index]) * low


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
        return rounded(_interpolated(self._reciprocals, mantissa, low), low), place

    def reciprocal_root(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return r and p of numbers n of 1 or more: 1 / sqrt(n) is about r / 2^(15 + p)."""
        config = self.config
        mantissa, place = self._mantissa(numbers)
        position = (place & 1) << self.NORMAL | mantissa
        low = self.NORMAL + 1 - config.index_bits
        return rounded(_interpolated(self._reciprocal_roots, position, low), low), place >> 1

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
            u = round(c r / 2^(p - 2)): c / sqrt(sum of c^2) with 17 fraction bits
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
            n 2^(2 f) times the real one, of x with f fraction bits: 2^4..2^48 - 1.
        biases
            (n,) integers of y's format.
        centred
            Whether the mean is subtracted, as in layer normalization.
        """
        config = self.config
        x = require_integers("elements", x, config.residual.low, config.residual.high)
        if centred:
            x = x - self.centre(x)
        u = self.normalised(x, epsilon=epsilon)
        return self.multiply(u, gains, shift=shift, wide=False, addends=biases)

    def centre(self, x: np.ndarray) -> np.ndarray:
        """Return the mean of each vector (..., n), rounded half up, of shape (..., 1)."""
        r, p = self.reciprocal(np.array(x.shape[-1]))
        return shifted(x.sum(axis=-1, keepdims=True) * r, self.config.table_fraction + p)

    def normalised(self, c: np.ndarray, *, epsilon: int) -> np.ndarray:
        """Return c / sqrt(sum of c^2 + epsilon) of vectors (..., n), with 17 fraction bits."""
        config = self.config
        most = (1 << config.constant_bits) - 1
        if not config.least_epsilon <= epsilon <= most:
            raise ValueError(f"epsilon must be in {config.least_epsilon}..{most}, not {epsilon}")
        r, p = self.reciprocal_root((c * c).sum(axis=-1, keepdims=True) + epsilon)
        return shifted(c * r, p + config.table_fraction - config.normal_fraction)

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
        cos, sin = self.circle(position[:, None, None], steps)
        return self.turned(x, cos, sin)

    def circle(self, position: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return cosine and sine of ``position`` times ``steps``, with 15 fraction bits."""
        config = self.config
        angles = self.angles(position, steps)
        quarter = 1 << config.sine_angle_bits - 2
        turn = (1 << config.sine_angle_bits) - 1
        return self.sine(angles + quarter & turn), self.sine(angles)

    def angles(self, position: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return ``position`` times ``steps`` mod 2^32, rounded half up to 22 bits."""
        config = self.config
        turns = position.astype(np.int64) * steps.astype(np.int64) & (1 << config.angle_bits) - 1
        used = config.sine_angle_bits
        return rounded(turns, config.angle_bits - used) & (1 << used) - 1

    def sine(self, angles: np.ndarray) -> np.ndarray:
        """Return sines of angles of 22 bits. The second half is the negative of the first."""
        config = self.config
        half = config.sine_angle_bits - 1
        low = half - config.sine_bits
        found = rounded(_interpolated(self._sines, angles & (1 << half) - 1, low), low)
        return np.where(angles >> half, -found, found)

    def turned(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        """Return x (..., 2 n) with its pairs rotated by angles (n,) with these sines."""
        config = self.config
        a, b = x[..., 0::2], x[..., 1::2]
        found = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)
        return saturate(rounded(found, config.table_fraction), config.vector)

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
            e_t = 2^-d_t with 15 fraction bits, rounded
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
        scores = self.scores(query @ keys.T, key_shifts, scale=scale)
        most = np.where(seen, scores, self.config.score.low).max(axis=-1, keepdims=True)
        shares = np.where(seen, self.shares(np.where(seen, most - scores, 0)), 0)
        mixed = shares @ (values << value_shifts[:, None])
        return self.mix(mixed, shares.sum(axis=-1, keepdims=True))

    def scores(
        self, sums: np.ndarray, key_shifts: np.ndarray, *, scale: tuple[int, int]
    ) -> np.ndarray:
        """Return the scores of sums of products of a query and keys."""
        multiplier, shift = scale
        scores = shifted((sums << key_shifts) * multiplier, shift)
        return saturate(scores, self.config.score)

    def shares(self, below: np.ndarray) -> np.ndarray:
        """Return 2^-d of distances of scores to the greatest, with 15 fraction bits."""
        config = self.config
        part = below & (1 << config.score_fraction) - 1
        low = config.score_fraction - config.index_bits
        powers = _interpolated(self._powers, part, low)
        # From a whole part of 17 on, the power is 0.
        whole = np.minimum(below >> config.score_fraction, config.table_fraction + 2)
        return rounded(powers, low + whole)

    def mix(self, mixed: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return sums of shares times values, divided by the ``total`` of the shares."""
        config = self.config
        r, p = self.reciprocal(total)
        return saturate(shifted(mixed * r, config.table_fraction + p), config.vector)

    def multiply(
        self,
        a: np.ndarray,
        b: np.ndarray,
        *,
        shift: int,
        wide: bool,
        addends: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return round(a b / 2^shift) + addends, of the residual's width or a vector's."""
        config = self.config
        y = shifted(a * b, shift) + (0 if addends is None else addends)
        return saturate(y, config.residual if wide else config.vector)

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
        require_int("fraction", fraction, *config.activated_fractions)
        low = fraction - config.activation_bits
        magnitude = np.abs(x)
        end = config.activation_end << fraction
        inside = magnitude < end
        correction = _interpolated(self._corrections[name], np.where(inside, magnitude, 0), low)
        correction = np.where(inside, correction, 0)
        y = np.maximum(x, 0) - rounded(correction, low + config.activation_fraction - fraction)
        return saturate(y, config.vector)

    def mean(self, x: np.ndarray, *, shift: int) -> np.ndarray:
        """Return the mean (n,) of vectors (tokens, n) / 2^shift, rounded half up, saturated."""
        r, p = self.reciprocal(np.array(len(x)))
        total = x.sum(axis=0) * r
        return saturate(shifted(total, self.config.table_fraction + p + shift), self.config.vector)
