"""Formats of a program of the streamed engine, by calibration, and its parameters as integers."""

from collections.abc import Mapping
from dataclasses import replace
from math import floor, log2, sqrt

import numpy as np

from seedbed.golden.stream_engine import FloatEngine, Integers, Reals
from seedbed.spec.stream_engine import Attend, Embed, Matrix, Multiply, Norm, Program

__all__ = ["calibrated", "in_float", "integers"]


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


def in_float(program: Program, parameters: Mapping[str, Integers]) -> FloatEngine:
    """Return a program in float64, with the weights that the integers are."""
    found = {}
    for op in program.operations:
        for name in op.parameters:
            of = parameters[name]
            weights = np.ldexp(of.weights * of.multipliers[:, None].astype(float), -of.fraction)
            biases = None
            if of.biases is not None:
                biases = np.ldexp(of.biases.astype(float), -program.vectors[op.target].fraction)
            if isinstance(op, Norm):
                # An integer has the root of the number of gains.
                weights = weights[0] / np.sqrt(len(weights[0]))
            if name not in found or biases is not None:
                found[name] = Reals(weights=weights, biases=biases)
    return FloatEngine(program, found)
