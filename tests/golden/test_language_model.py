"""The language model against a plain recurrence, and its gradients against finite differences."""

import numpy as np
import pytest

from seedbed.golden import language_model as lm


def random_model(rng, *, classes=7, width=5, first=4, second=3, dtype=np.float64):
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
    return {name: rng.normal(0, 0.7, shape).astype(dtype) for name, shape in shapes.items()}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def plain(p, context):
    """The log probabilities of the next character, one step and one sum at a time."""
    h = {1: np.zeros(4), 2: np.zeros(3)}
    c = {1: np.zeros(4), 2: np.zeros(3)}
    vectors = []
    for character in context:
        x = inputs = p["embedding.weight"][character]
        for k in (1, 2):
            z = p[f"lstm{k}.input.weight"] @ inputs + p[f"lstm{k}.recurrent.weight"] @ h[k]
            i, f, g, o = np.split(z + p[f"lstm{k}.bias"], 4)
            c[k] = sigmoid(f) * c[k] + sigmoid(i) * np.tanh(g)
            inputs = h[k] = sigmoid(o) * np.tanh(c[k])
        vectors.append(np.concatenate([x, h[1], h[2]]))
    scores = np.exp([p["attention.weight"][0] @ q for q in vectors])
    y = sum(a * q for a, q in zip(scores / scores.sum(), vectors, strict=True))
    logits = p["output.weight"] @ y + p["output.bias"]
    return logits - np.log(np.exp(logits).sum())


def test_windows_are_padded_in_front():
    contexts, targets = lm.windows([[5, 6], [4]], 2)
    assert targets.tolist() == [5, 6, 4]
    assert contexts.shape == (3, lm.CONTEXT)
    assert [row[-3:].tolist() for row in contexts] == [[0, 0, 2], [0, 2, 5], [0, 0, 2]]
    assert not contexts[:, :-3].any()
    long = lm.windows([list(range(1, 60))], 0)[0]
    assert long[-1].tolist() == list(range(19, 59))
    assert lm.windows([], 1)[0].shape == (0, lm.CONTEXT)


@pytest.mark.parametrize("chunk", [3, 512])
def test_losses_are_those_of_a_plain_recurrence(chunk, monkeypatch):
    monkeypatch.setattr(lm, "CHUNK", chunk)
    rng = np.random.default_rng(1)
    p = random_model(rng)
    lm.require(p)
    contexts, targets = lm.windows([rng.integers(0, 7, 5).tolist() for _ in range(2)], 1)
    wanted = [-plain(p, c)[t] for c, t in zip(contexts, targets, strict=True)]
    np.testing.assert_allclose(lm.losses(p, contexts, targets), wanted, rtol=1e-12)
    perplexity = lm.perplexity(p, contexts, targets)
    assert perplexity == pytest.approx(np.exp(np.mean(wanted)))


def test_gradients_are_those_of_finite_differences(monkeypatch):
    monkeypatch.setattr(lm, "CHUNK", 4)
    rng = np.random.default_rng(2)
    p = random_model(rng)
    contexts, targets = lm.windows([rng.integers(0, 7, 6).tolist()], 1)
    found = lm.gradients(p, contexts, targets)
    assert found.keys() == p.keys()
    for name, value in p.items():
        for index in map(tuple, rng.integers(0, value.shape, (6, value.ndim))):
            ends = []
            for step in (1e-5, -1e-5):
                moved = value.copy()
                moved[index] += step
                ends.append(lm.losses(p | {name: moved}, contexts, targets).mean())
            slope = (ends[0] - ends[1]) / 2e-5
            assert found[name][index] == pytest.approx(slope, rel=1e-5, abs=1e-8), (name, index)


def test_activations_are_mean_squares_of_inputs(monkeypatch):
    rng = np.random.default_rng(3)
    p = random_model(rng)
    contexts, _ = lm.windows([rng.integers(0, 7, 6).tolist()], 1)
    whole = lm.activations(p, contexts)
    inputs = p["embedding.weight"][contexts]
    np.testing.assert_allclose(whole["lstm1.input.weight"], (inputs**2).mean(axis=(0, 1)))
    assert {name: len(values) for name, values in whole.items()} == {
        "lstm1.input.weight": 5, "lstm1.recurrent.weight": 4, "lstm2.input.weight": 4,
        "lstm2.recurrent.weight": 3, "output.weight": 12,
    }  # fmt: skip
    monkeypatch.setattr(lm, "CHUNK", 4)
    for name, values in lm.activations(p, contexts).items():
        np.testing.assert_allclose(values, whole[name])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"embedding.weight": None}, "the model has no matrix 'embedding.weight'"),
        ({"output.bias": None}, "tensor 'output.bias' must have the shape (7,), not None"),
        ({"lstm2.input.weight": np.ones((12, 5))},
         "tensor 'lstm2.input.weight' must have the shape (12, 4), not (12, 5)"),
    ],
)  # fmt: skip
def test_other_models_are_refused(changes, sentence):
    p = random_model(np.random.default_rng(4)) | changes
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        lm.require({name: value for name, value in p.items() if value is not None})
    assert sentence in str(refused.value)


def test_divergence_of_two_models_is_its_definition():
    reference = np.log(np.array([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]))
    other = np.log(np.array([[0.25, 0.5, 0.25], [0.125, 0.125, 0.75]]))
    expected = (0.5 * np.log(2) - 0.25 * np.log(2)) / 2
    assert lm.divergence(reference, other) == pytest.approx(expected)
    assert lm.divergence(other, other) == 0
