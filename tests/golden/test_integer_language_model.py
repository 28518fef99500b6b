"""The language model in integers against the one in float, and a step against its definition."""

import numpy as np
import pytest

from seedbed.flow.jobs.personalise_loss import LongWindows
from seedbed.flow.jobs.personalise_loss import losses as long_losses
from seedbed.golden import language_model
from seedbed.golden.integer_language_model import (
    MATRICES,
    IntegerLanguageModel,
    deviation,
    gain_of,
    seed_of,
)
from seedbed.golden.kept_matrix import KeptMatrices, KeptMatrix
from seedbed.golden.sparse_mac import SparseMac
from seedbed.spec import SEEDLM, SparseMacConfig

SPARSE = SparseMacConfig(columns=64)
#: Plain weights have so many fraction bits; values as many and one for each bit of the shift.
WEIGHTS, SHIFT = 12, 0


def random_model(*, classes=7, width=5, first=4, second=3):
    """Parameters that plain weights of 16 bits hold exactly."""
    rng = np.random.default_rng(1)
    whole = width + first + second
    shapes = {
        "embedding.weight": (classes, width),
        "lstm1.input.weight": (4 * first, width),
        "lstm1.recurrent.weight": (4 * first, first),
        "lstm1.bias": (4 * first,),
        "lstm2.input.weight": (4 * second, first),
        "lstm2.recurrent.weight": (4 * second, second),
        "lstm2.bias": (4 * second,),
        "attention.weight": (1, whole),
        "output.weight": (classes, whole),
        "output.bias": (classes,),
    }
    return {
        name: np.rint(rng.normal(0, 0.7, shape).clip(-4, 4) * 2**WEIGHTS) / 2**WEIGHTS
        for name, shape in shapes.items()
    }


def integers(parameters, kept):
    """Return the model in integers, its matrices with entries of value 0 at random places."""
    rng = np.random.default_rng(2)
    matrices = {}
    for name in MATRICES:
        weights = parameters[name].T if name == MATRICES[0] else parameters[name]
        rows, columns = weights.shape
        places = np.sort(rng.choice(rows * columns, kept, replace=False))
        entries = np.stack([places // columns, places % columns, np.zeros(kept, int)], axis=1)
        fields = np.rint(weights * 2**WEIGHTS).astype(np.int64)
        matrices[name] = KeptMatrix(
            fields=fields, columns=columns, plain=True, unit=2.0**-WEIGHTS, entries=entries,
            scale=2,
        )  # fmt: skip
    biases = {name: value for name, value in parameters.items() if name.endswith("bias")}
    model = IntegerLanguageModel(biases=biases, fraction=13)
    return model, KeptMatrices(SEEDLM[4], SPARSE, matrices)


def windows():
    return language_model.windows([[3, 4, 5, 6, 3, 3, 1], [6, 2]], 1)


def moved(parameters, engine, values):
    """Return the float parameters with other values of the entries."""
    found = dict(parameters)
    for name, of in engine.matrices.items():
        weights = parameters[name].T.copy() if name == MATRICES[0] else parameters[name].copy()
        rows, columns, _ = of.entries.T
        weights[rows, columns] += values[name] * of.step
        found[name] = weights.T if name == MATRICES[0] else weights
    return found


def test_losses_are_those_of_the_float_model_within_the_vectors_rounding():
    parameters = random_model()
    model, engine = integers(parameters, 3)
    want = language_model.losses(parameters, *windows())
    found = model.losses(engine, *windows())
    assert np.abs(found - want).max() < 1e-3
    assert not np.array_equal(found, want)
    assert model.perplexity(engine, *windows()) == float(np.exp(found.mean()))
    assert model.losses(engine, np.zeros((0, 40), int), np.zeros(0, int)).shape == (0,)


def test_losses_do_not_depend_on_the_other_windows():
    model, engine = integers(random_model(), 0)
    contexts, targets = windows()
    alone = [model.losses(engine, contexts[k : k + 1], targets[k : k + 1])[0] for k in range(9)]
    assert model.losses(engine, contexts, targets).tolist() == alone


def test_a_long_context_gives_the_losses_of_its_last_lengths():
    """Each is that of the float network, which sees the last 40 characters and knows all states."""
    parameters = random_model()
    model, engine = integers(parameters, 3)
    rng = np.random.default_rng(3)
    spread = 2
    characters = rng.integers(1, 7, (4, language_model.CONTEXT + spread))
    targets = rng.integers(0, 7, (4, 2 * spread + 1))
    targets[1, 2:] = -1
    want = long_losses([parameters], LongWindows(characters, targets))
    found = model.losses(engine, characters, targets)
    assert len(found) == 4 * 5 - 3
    assert abs(found.mean() - want[0]) < 1e-3
    middle = model.losses(engine, characters[:, :-spread], targets[:, spread])
    assert found[[2, 9, 14]].tolist() == middle.tolist()


@pytest.mark.parametrize("k", [-1, 1])
def test_perturbed_losses_are_those_of_moved_weights(k):
    parameters = random_model()
    model, engine = integers(parameters, 3)
    values = {
        name: k * 4 * SparseMac(SPARSE).numbers(seed_of(9, name), 3) for name in engine.matrices
    }
    want = language_model.losses(moved(parameters, engine, values), *windows())
    found = model.losses(engine, *windows(), k=k, step=9)
    assert np.abs(found - want).max() < 2e-3
    assert np.abs(found - model.losses(engine, *windows())).max() > 0.05


def test_a_step_goes_down_the_slope_along_the_numbers():
    """v -= rate slope z / eps: in weights, with the numbers of unit deviation, eps is theirs."""
    model, engine = integers(random_model(), 3)
    plus, minus = (model.losses(engine, *windows(), k=k, step=4).mean() for k in (1, -1))
    rate = 0.5
    mean, slope = model.step(engine, *windows(), step=4, rate=rate)
    assert (mean, slope) == ((plus + minus) / 2, (plus - minus) / 2)
    spread, step = deviation(SPARSE), 2.0**-WEIGHTS
    eps = 4 * spread * step
    for name, values in engine.values.items():
        z = SparseMac(SPARSE).numbers(seed_of(4, name), 3)
        want = -rate * slope / eps * (z / spread) / step
        assert np.abs(values - want).max() < 0.6
        assert np.abs(values).max() > 3


def test_a_clipped_step_is_shorter():
    moves = []
    for clip in (float("inf"), 1e-3):
        model, engine = integers(random_model(), 3)
        model.step(engine, *windows(), step=4, rate=0.5, clip=clip)
        moves.append(np.concatenate(list(engine.values.values())))
    assert np.abs(moves[1]).max() < 0.1 * np.abs(moves[0]).max()
    assert np.array_equal(np.sign(moves[1]), np.sign(moves[0]) * (moves[1] != 0))


def test_deviation_is_that_of_the_numbers():
    numbers = SparseMac(SPARSE).numbers(1, 4000)
    assert abs(numbers.std() / deviation(SPARSE) - 1) < 0.02
    words = np.arange(-255, 256, 2)
    assert deviation(SPARSE) == pytest.approx(words.std())


def test_a_gain_has_as_many_bits_as_fit():
    assert gain_of(SPARSE, 0.25) == (1 << 14, 0)
    assert gain_of(SPARSE, -0.5) == (-(1 << 14), 1)
    assert gain_of(SPARSE, 3.0) == (3 << 13, 3)
    assert gain_of(SPARSE, 1e9) == ((1 << 15) - 1, 15)
    assert gain_of(SPARSE, -1e9) == (-(1 << 15) + 1, 15)
    assert gain_of(SPARSE, 1e-9) == (0, 0)


def test_seeds_of_matrices_and_steps_differ():
    seeds = {seed_of(step, name) for step in range(100) for name in MATRICES}
    assert len(seeds) == 700
    assert seed_of(1 << 29, MATRICES[0]) == 0


def test_vectors_saturate():
    model, _ = integers(random_model(), 0)
    assert model.quantize(np.array([9.0, -9.0, 1.0])).tolist() == [32767, -32768, 1 << 13]
