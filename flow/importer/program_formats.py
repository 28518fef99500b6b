"""Formats of a program of the streamed engine, by calibration, and its parameters as integers."""

from collections.abc import Mapping
from dataclasses import replace
from math import floor, log2, sqrt

import numpy as np

from seedbed.flow.compress.trellis import encode
from seedbed.golden.gemv import trellis_rows
from seedbed.golden.stream_engine import Integers, Reals
from seedbed.golden.trellis import states, table
from seedbed.spec.gemv import EXPONENT_BITS
from seedbed.spec.stream_engine import Attend, Embed, Matrix, Multiply, Norm, Program
from seedbed.spec.trellis import TrellisConfig

__all__ = ["calibrated", "integers", "rows_as_integers", "rows_of_a_trellis"]

#: Bits of the multiplier of a row of weights.
MULTIPLIER_BITS = 16


def calibrated(program: Program, peaks: Mapping[str, float], *, headroom: float = 2.0) -> Program:
    """Return the program with the fraction bits of every vector.

    Parameters
    ----------
    program
        With fractions that are not used.
    peaks
        The greatest magnitude of each vector in float64, over the calibration's tokens: those of
        :class:`~seedbed.golden.stream_engine.FloatEngine`.
    headroom
        A vector's format holds this times its peak.
    """
    unit = program.unit
    fractions = {}
    for name, vector in program.vectors.items():
        most = (unit.residual if vector.wide else unit.vector).high
        fractions[name] = min(floor(log2(most / max(peaks[name] * headroom, 2.0**-8))), 24)
    for operation in program.operations:
        if isinstance(operation, Matrix) and operation.activation:
            least, greatest = unit.activated_fractions
            fraction = fractions[operation.target]
            fractions[operation.target] = min(max(fraction, least), greatest)
        if isinstance(operation, Multiply):
            # A product is not shifted to the left.
            most = fractions[operation.left] + fractions[operation.right]
            fractions[operation.target] = min(fractions[operation.target], most)
        if isinstance(operation, Attend):
            # A mix of values is no greater than the greatest.
            fractions[operation.target] = fractions[operation.value]
    vectors = {
        name: replace(vector, fraction=fractions[name]) for name, vector in program.vectors.items()
    }
    return replace(program, vectors=vectors)


def rows_as_integers(weights: np.ndarray, bits: int) -> Integers:
    """Return rows as integers of ``bits`` bits, each with its greatest magnitude at the end."""
    most = (1 << bits - 1) - 1
    scales = np.abs(weights).max(axis=1) / most
    fraction = MULTIPLIER_BITS - 1 - floor(log2(max(scales.max(), 2.0**-40)))
    multipliers = np.ceil(np.ldexp(scales, fraction)).clip(1).astype(np.int64)
    found = np.rint(np.ldexp(weights, fraction) / multipliers[:, None]).astype(np.int64)
    return Integers(weights=found, multipliers=multipliers, fraction=fraction)


def rows_of_a_trellis(config: TrellisConfig, weights: np.ndarray) -> Integers:
    """Return rows in a trellis code, as integers with the scale of each."""
    raw = encode(config, weights)
    symbols, mantissas, exponents, scale = trellis_rows(config, raw, weights.shape[1])
    lowest = 1 << EXPONENT_BITS - 1
    return Integers(
        weights=table(config)[states(config, symbols)],
        multipliers=mantissas << exponents + lowest,
        fraction=lowest - scale,
    )


def integers(
    program: Program,
    parameters: Mapping[str, Reals],
    weights: Mapping[str, Integers],
) -> dict[str, Integers]:
    """Return all parameters as integers.

    Parameters
    ----------
    program
        Calibrated.
    parameters
        In float64.
    weights
        The matrices and the tables of embeddings as integers, without biases.
    """
    found: dict[str, Integers] = {}
    for operation in program.operations:
        if isinstance(operation, Embed):
            found |= {name: weights[name] for name in operation.parameters}
        for name in operation.parameters if isinstance(operation, Matrix | Norm) else ():
            biases = parameters[name].biases
            if biases is not None:
                biases = np.rint(np.ldexp(biases, program.vectors[operation.target].fraction))
                biases = biases.astype(np.int64)
            of = (
                weights[name]
                if isinstance(operation, Matrix)
                else _gains(program, parameters[name])
            )
            found[name] = replace(of, biases=biases)
    return found


def _gains(program: Program, of: Reals) -> Integers:
    """Return the gains of a norm times the root of their number."""
    gains = of.weights * sqrt(len(of.weights))
    fraction = floor(log2(program.unit.vector.high / np.abs(gains).max()))
    found = np.rint(np.ldexp(gains, fraction)).astype(np.int64)
    return Integers(weights=found, multipliers=np.ones(1, np.int64), fraction=fraction)
