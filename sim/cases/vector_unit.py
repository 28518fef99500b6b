"""Case of the vector unit: every operation, with random and extreme elements, in any order."""

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from seedbed.golden.fixed import saturate
from seedbed.golden.vector_unit import VectorUnit
from seedbed.hw.vectors.vector_layouts import (
    ACTIVATION_CODES,
    OPERATION_CODES,
    addends_layout,
    command_layout,
    factors_layout,
    numbers_layout,
    results_layout,
)
from seedbed.sim.case import Case, Phase
from seedbed.spec import VectorUnitConfig
from seedbed.spec.fixed import Fixed

__all__ = ["Passes", "case"]


class Passes:
    """Collects the beats of commands, and of the results that the model computes.

    Elements beyond the length of a vector are random: they have no effect.
    """

    def __init__(self, config: VectorUnitConfig, rng: np.random.Generator):
        self.config, self.rng = config, rng
        self.unit = VectorUnit(config)
        self.inputs: dict[str, list[int]] = {
            name: [] for name in ("i_commands", "i", "i_factors", "i_addends")
        }
        self.results: list[int] = []
        # What the statistics of the commands so far are of.
        self.mean = 0
        self.epsilon = config.least_epsilon
        self.greatest = 0
        self.total = 1

    def phase(self) -> Phase:
        """Return the phase of all commands."""
        return Phase(inputs=self.inputs, outputs={"o": self.results})

    def scale(self, x: np.ndarray, constant: int, shift: int, *, wide=False, addends=None) -> None:
        """Add elements times a constant."""
        y = self.unit.multiply(x, np.array(constant), shift=shift, wide=wide, addends=addends)
        self._command("scale", x, y, addends=addends, constant=constant, shift=shift, wide=wide)

    def multiply(
        self, x: np.ndarray, factors: np.ndarray, shift: int, *, wide=False, addends=None
    ) -> None:
        """Add elements times factors."""
        y = self.unit.multiply(x, factors, shift=shift, wide=wide, addends=addends)
        self._command("multiply", x, y, factors=factors, addends=addends, shift=shift, wide=wide)

    def activate(self, x: np.ndarray, name: str, fraction: int) -> None:
        """Add an activation."""
        y = self.unit.activate(x, name=name, fraction=fraction)
        code = ACTIVATION_CODES[name]
        self._command("activate", x, y, activation=code, shift=fraction)

    def norm(self, x: np.ndarray, epsilon: int, *, centred: bool) -> None:
        """Add the passes of a norm: the mean if it is centred, the squares, the division."""
        c = x
        if centred:
            r, p = self.unit.reciprocal(np.array(len(x)))
            self._command("sum", x, constant=r, shift=self.config.table_fraction + p)
            c = x - self.unit.centre(x)
        self._command("square", x, constant=epsilon, centred=centred)
        y = self.unit.normalised(c, epsilon=epsilon)
        self._command("normalise", x, y, centred=centred)

    def softmax(
        self, sums: np.ndarray, shifts: np.ndarray, scale: tuple[int, int], mixed: np.ndarray
    ) -> None:
        """Add the passes of an attention: scores, shares, and the division of the mixed values."""
        multiplier, shift = scale
        scores = self.unit.scores(sums, shifts, scale=scale)
        self._command("score", sums, scores, factors=shifts, constant=multiplier, shift=shift)
        shares = self.unit.shares(scores.max() - scores)
        self._command("power", scores, shares)
        self._command("mix", mixed, self.unit.mix(mixed, shares.sum()))

    def rotate(self, heads: np.ndarray, position: int, steps: np.ndarray) -> None:
        """Add the passes of a rotation: angles and sines once, then each head (heads, 2 n)."""
        unit, config = self.unit, self.config
        given = np.repeat(steps, 2)
        angles = unit.angles(np.array(position), given)
        angles[0::2] += 1 << config.sine_angle_bits - 2
        angles &= (1 << config.sine_angle_bits) - 1
        self._command("angle", given, angles, constant=position)
        sines = unit.sine(angles)
        self._command("sine", angles, sines)
        for head in heads:
            y = unit.turned(head, sines[0::2], sines[1::2])
            self._command("rotate", head, y, factors=sines)

    def pool(self, x: np.ndarray, shift: int) -> None:
        """Add the passes of a mean over tokens (tokens, elements): additions, and a division."""
        r, p = self.unit.reciprocal(np.array(len(x)))
        total = np.zeros(x.shape[1], np.int64)
        for token in x:
            self.scale(token, 1, 0, wide=True, addends=total)
            total = total + token
        y = self.unit.mean(x, shift=shift)
        shift = int(self.config.table_fraction + p + shift)
        self._command("scale", total, y, constant=r, shift=shift)

    def _command(
        self, operation: str, x, y=None, *, factors=None, addends=None, **fields: Any
    ) -> None:
        """Add one command, its beats, and its results if there are any."""
        fields |= {"operation": OPERATION_CODES[operation], "length": len(x)}
        if operation in ("scale", "multiply"):
            fields["add"] = addends is not None
        fields = {k: int(v) for k, v in fields.items()}
        self.inputs["i_commands"].append(command_layout(self.config).const(fields).as_bits())
        layouts = {"i": numbers_layout, "i_factors": factors_layout, "i_addends": addends_layout}
        for name, of in (("i", x), ("i_factors", factors), ("i_addends", addends)):
            if of is not None:
                layout = layouts[name](self.config)
                form = Fixed(layout.elem_shape.width, 0)
                for beat in self._beats(of, form):
                    self.inputs[name].append(layout.const(beat).as_bits())
        if y is not None:
            beats = self._beats(y, None)
            for k, beat in enumerate(beats):
                result = {"values": beat, "last": k == len(beats) - 1}
                self.results.append(results_layout(self.config).const(result).as_bits())

    def _beats(self, numbers: np.ndarray, form: Fixed | None) -> list[list[int]]:
        """Return numbers in beats, with random ones of a format after the last, or 0."""
        lanes = self.config.lanes
        more = -len(numbers) % lanes
        rest = np.zeros(more, np.int64)
        if form:
            rest = self.rng.integers(form.low, form.high, more, endpoint=True)
        return np.concatenate([numbers, rest]).reshape(-1, lanes).tolist()


def _one(rng: np.random.Generator, *values: int | np.integer) -> int:
    """Return one of the values."""
    return int(values[rng.integers(len(values))])


def _numbers(rng: np.random.Generator, width: int, length: int) -> np.ndarray:
    """Return numbers of every magnitude, some of them with one bit, and both limits."""
    form = Fixed(width, 0)
    found = rng.integers(form.low, form.high, length, endpoint=True)
    found >>= rng.integers(0, width, length)
    kind = rng.random(length)
    # A number with one bit overflows by this bit alone.
    found = np.where(kind < 0.3, 1 << rng.integers(0, width - 1, length), found)
    return np.where(kind < 0.1, rng.choice([form.low, form.high, 0, -1, 1], length), found)


def _near(rng: np.random.Generator, products: np.ndarray, width: int, most: int) -> int:
    """Return a shift, 0..most, that leaves the largest product about as many bits as ``width``."""
    bits = int(abs(products).max()).bit_length()
    return int(np.clip(bits - width + rng.integers(-3, 4), 0, most))


def _scale(passes: Passes, rng: np.random.Generator, length: int) -> None:
    x = _numbers(rng, _one(rng, passes.config.width, 24, 40), length)
    wide = rng.random() < 0.5
    addends = _numbers(rng, 24, length) if rng.random() < 0.5 else None
    constant = _one(rng, 1, 1 << rng.integers(17), rng.integers(1 << 17))
    near = _near(rng, x * constant, 24 if wide else passes.config.width, 62)
    shift = _one(rng, 0, rng.integers(63), near, near)
    passes.scale(x, constant, shift, wide=wide, addends=addends)


def _multiply(passes: Passes, rng: np.random.Generator, length: int) -> None:
    x = _numbers(rng, _one(rng, passes.config.width, 24), length)
    wide = rng.random() < 0.5
    addends = _numbers(rng, 24, length) if rng.random() < 0.5 else None
    factors = _numbers(rng, 16, length)
    near = _near(rng, x * factors, 24 if wide else passes.config.width, 39)
    shift = _one(rng, rng.integers(40), near)
    passes.multiply(x, factors, shift, wide=wide, addends=addends)


def _activate(passes: Passes, rng: np.random.Generator, length: int) -> None:
    fraction = int(rng.integers(5, 18))
    x = _numbers(rng, passes.config.width, length)
    # Both sides of the end of the table, too.
    near = rng.random(length) < 0.2
    end = rng.choice([-1, 1], length) * (16 << fraction) + rng.integers(-2, 3, length)
    x = saturate(np.where(near, end, x), passes.config.vector)
    passes.activate(x, str(rng.choice([*ACTIVATION_CODES])), fraction)


def _norm(passes: Passes, rng: np.random.Generator, length: int) -> None:
    # Often numbers of which all bits of a reciprocal root matter.
    x = _numbers(rng, 24, length) >> _one(rng, 0, rng.integers(24))
    if rng.random() < 0.2:
        x = np.full(length, rng.choice([0, -1, 1, -(1 << 23), (1 << 23) - 1]))
    most = (1 << passes.config.constant_bits) - 1
    epsilon = _one(rng, 16, 17, rng.integers(16, 1 << 20), 1 << rng.integers(4, 48), most)
    passes.norm(x, epsilon, centred=rng.random() < 0.5)


def _softmax(passes: Passes, rng: np.random.Generator, length: int) -> None:
    sums = _numbers(rng, 32, length)
    shifts = rng.integers(0, 9, length)
    shift = _one(rng, 8, rng.integers(8, 40))
    scale = int(rng.integers(1 << 15, 1 << 16)), shift
    # A share is at most 2^15: sums of values of 16 bits, and greater ones, which saturate.
    mixed = _numbers(rng, _one(rng, 31, 33, 40), int(rng.integers(1, 3 * passes.config.lanes)))
    passes.softmax(sums, shifts, scale, mixed)


def _rotate(passes: Passes, rng: np.random.Generator, length: int) -> None:
    width = passes.config.width
    heads = np.stack([_numbers(rng, width, 2 * length) for _ in range(rng.integers(1, 4))])
    position = _one(rng, 0, 1, rng.integers(1 << 17), (1 << 17) - 1)
    passes.rotate(heads, position, rng.integers(0, 1 << 32, length))


def _pool(passes: Passes, rng: np.random.Generator, length: int) -> None:
    tokens = _one(rng, 1, 2, 3, rng.integers(1, 20))
    x = np.stack([_numbers(rng, passes.config.width, length) for _ in range(tokens)])
    passes.pool(x, int(rng.integers(0, 12)))


KINDS: list[Callable[[Passes, np.random.Generator, int], None]] = [
    _scale, _multiply, _activate, _norm, _softmax, _rotate, _pool,
]  # fmt: skip


def _sweep(passes: Passes, rng: np.random.Generator) -> None:
    """Add every bit that alone overflows, by every fine shift, and norms of every magnitude."""
    bits = np.arange(15, 39)
    for shift in range(16, 32):
        for wide in (False, True):
            passes.scale(rng.choice([-1, 1], len(bits)) << bits, 1 << 16, shift, wide=wide)
    for width in range(1, 24):
        x = rng.integers(0, 1 << width, 2) | 1 << width - 1
        passes.norm(x, 16 + width, centred=False)


def case(config: VectorUnitConfig, random: Random, *, commands: int = 100) -> Case:
    """Return every operation with vectors of one element to several beats, in random order.

    After them come overflows and norms of every magnitude.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    passes = Passes(config, rng)
    kinds = [KINDS[k % len(KINDS)] for k in range(commands)]
    random.shuffle(kinds)
    for kind in kinds:
        drawn = int(rng.integers(1, 6 * config.lanes))
        length = _one(rng, 1, config.lanes, config.lanes + 1, drawn)
        kind(passes, rng, length)
    _sweep(passes, rng)
    return Case(phases=[passes.phase()], quiet=True)
