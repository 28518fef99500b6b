"""The personalisation demonstration, on the small model."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from seedbed.flow.jobs import personalise_loss
from seedbed.flow.jobs.lm_task import embedded, join
from seedbed.golden import language_model
from seedbed.studies import personalise, personalise_job
from seedbed.studies.zeroth_order import make_source

FRACTION = 0.01


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    task = embedded(Console(quiet=True))
    out = tmp_path_factory.mktemp("base")
    return task, personalise_job.make_base(task, "seedlm", (FRACTION,), 4, out)


def test_masks_are_of_the_largest(made):
    task, base = made
    whole = np.concatenate([task.parameters[n].reshape(-1) for n in base.names])
    count = round(FRACTION * len(whole))
    for mask in ("sensitive", "task", "magnitude", "random"):
        assert len(set(base.places[mask, FRACTION].tolist())) == count
    largest = base.places["magnitude", FRACTION]
    others = np.delete(np.abs(whole), largest)
    assert np.abs(whole[largest]).min() >= others.max()
    # Definition 3: no mask of this size has more of the squared gradient.
    gradients = [language_model.gradients(task.parameters, *line)
                 for line in task.lines[task.statistics]]  # fmt: skip
    counts = [len(targets) for _, targets in task.lines[task.statistics]]
    squares = sum(
        (np.concatenate([g[n].reshape(-1) for n in base.names]).astype(float) * c) ** 2
        for g, c in zip(gradients, counts, strict=True)
    )
    share = {m: squares[base.places[m, FRACTION]].sum() for m in ("sensitive", "task", "random")}
    assert share["sensitive"] == max(share.values())
    assert share["sensitive"] == pytest.approx(np.sort(squares)[-count:].sum())


def test_kept_weights_are_those_of_the_model_in_16_bits(made):
    task, base = made
    kept = ("sensitive", FRACTION)
    model = base.model(kept, base.values[kept])
    places, start = base.places[kept], 0
    for name in base.names:
        size = task.parameters[name].size
        inside = places[(places >= start) & (places < start + size)] - start
        found, want = model[name].reshape(-1), task.parameters[name].reshape(-1)
        dense = base.dense[name].reshape(-1)
        half = np.float16(want[inside] - dense[inside])
        assert np.array_equal(found[inside], dense[inside] + half.astype(np.float32))
        others = np.delete(np.arange(size), inside)
        assert np.array_equal(found[others], dense[others])
        start += size


def test_feedback_lowers_the_error_that_the_first_text_sees(made, tmp_path):
    """The base differs in its blocks alone: masks are the same, and the weighted error is less."""
    task, plain = made
    base = personalise_job.make_base(task, "feedback", (FRACTION,), 4, tmp_path)
    assert all(np.array_equal(base.places[key], plain.places[key]) for key in plain.places)
    moments = load_file(tmp_path / "moments.safetensors")
    costs = np.zeros((2, len(base.names)))
    for column, name in enumerate(base.names):
        for row, found in enumerate((base, plain)):
            error = (found.dense[name] - task.parameters[name]).astype(np.float64)
            costs[row, column] = np.einsum("ri,ij,rj", error, moments[name], error)
    assert (costs[0] < costs[1]).all()


def training(**changed):
    known = {"mask": "task", "fraction": FRACTION, "source": "lutopt", "rate": 0.03, "seed": 3}
    return personalise_job.Training(**{**known, "steps": 20, **changed})


def train(base, training, windows, points=2, **changed):
    return personalise_job.train(
        base, personalise_job.Schedule(**changed), training, windows, points
    )


def test_a_training_is_zeroth_order_sgd_on_the_kept_weights(made):
    _, base = made
    before = base.before(("task", FRACTION), base.held)
    after = train(base, training(), base.held)
    assert len(after) == 2
    assert train(base, training(), base.held) == after
    assert train(base, training(seed=4), base.held) != after
    assert train(base, training(rate=0.0), base.held) == [before] * 2
    exact = {"spread": 0}
    text = tuned(made, 0)
    held = (text.tuned.characters, text.tuned.targets[:, 0])
    assert train(text, training(), held, **exact)[-1] < base.before(("task", FRACTION), held)


def test_a_step_is_the_mean_of_its_queries_with_clipped_slopes(made):
    """The first step, in double precision, by the windows and the numbers of its generators."""
    _, base = made
    kept = ("task", FRACTION)
    source, rng = make_source("lutopt"), np.random.default_rng(3)
    theta = base.values[kept].astype(float)
    seeds = source.seeds(rng, len(theta))
    batch = base.tuned.select(rng.integers(len(base.tuned), size=8))
    z = [source.numbers(next(seeds), len(theta)) for _ in range(3)]
    found = []
    for numbers in z:
        models = [base.model(kept, theta + sign * 0.01 * numbers) for sign in (1, -1)]
        plus, minus = personalise_loss.losses(models, batch)
        found.append((plus - minus) / 0.02)
    clip = float(np.median(np.abs(found)))
    wanted = theta - 0.03 * np.mean(
        [np.clip(g, -clip, clip) * n for g, n in zip(found, z, strict=True)], axis=0
    )
    wanted = personalise_loss.perplexity(base.model(kept, wanted), *base.held)
    after = train(base, training(steps=1), base.held, 1, batch=8, queries=3, clip=clip)
    assert after == pytest.approx([wanted], rel=1e-6)


def tuned(made, spread):
    """The base with the exact windows of the text that it knows."""
    task, base = made
    lines = task.lines[task.statistics]
    return replace(base, tuned=personalise_loss.long_windows(lines, spread))


def test_a_training_that_diverges_has_no_perplexity(made):
    _, base = made
    assert train(base, training(rate=1e30), base.held, clip=1e6)[-1] is None


def test_losses_of_windows_are_those_of_the_model(made):
    """With a spread of 0; several models at once."""
    task, base = made
    lines = task.lines[task.statistics]
    windows = personalise_loss.long_windows(lines, 0)
    contexts, targets = join(lines)
    assert np.array_equal(windows.characters, contexts)
    assert np.array_equal(windows.targets[:, 0], targets)
    models = [task.parameters, base.dense]
    found = personalise_loss.losses(models, windows)
    wanted = [language_model.losses(model, contexts, targets).mean() for model in models]
    assert found == pytest.approx(wanted, rel=1e-5)
    found = personalise_loss.perplexity(base.dense, contexts, targets)
    assert found == pytest.approx(np.exp(wanted[1]), rel=1e-5)


def test_a_longer_window_has_the_losses_after_each_of_its_last_characters(made):
    """The prediction after fewer characters, and, from the last 40 outputs, after more."""
    task, _ = made
    p, line = task.parameters, task.lines[task.statistics][0]
    windows = personalise_loss.long_windows([line], 3)
    text = [*line[0][0], *line[1]]
    for k in (0, 5, len(line[1]) - 1):
        found = windows.targets[k]
        wanted = [line[1][j] if 0 <= j < len(line[1]) else -1 for j in range(k - 3, k + 4)]
        assert found.tolist() == wanted
        padded = [*text, 0, 0, 0]
        assert windows.characters[k].tolist() == padded[k : k + 43]
    k = 5
    one = windows.select(np.array([k]))
    wanted = []
    for steps in range(37, 44):
        # The network's own recurrence over more or fewer steps.
        part = forward(p, one.characters[0, :steps])
        wanted.append(-part[one.targets[0, steps - 37]])
    assert personalise_loss.losses([p], one)[0] == pytest.approx(np.mean(wanted), rel=1e-5)


def forward(p, characters):
    """The log-probabilities after some characters, one step at a time, in double precision."""
    p = {name: value.astype(float) for name, value in p.items()}
    outputs = []
    h = [
        np.zeros(len(p["lstm1.recurrent.weight"]) // 4),
        np.zeros(len(p["lstm2.recurrent.weight"]) // 4),
    ]
    c = [np.zeros_like(part) for part in h]
    for character in characters:
        x = p["embedding.weight"][character]
        parts = [x]
        for k in range(2):
            z = p[f"lstm{k + 1}.input.weight"] @ x + p[f"lstm{k + 1}.recurrent.weight"] @ h[k]
            i, f, g, o = np.split(z + p[f"lstm{k + 1}.bias"], 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c[k] = f * c[k] + i * np.tanh(g)
            h[k] = x = o * np.tanh(c[k])
            parts.append(x)
        outputs.append(np.concatenate(parts))
    q = np.array(outputs[-40:])
    shares = np.exp(q @ p["attention.weight"][0])
    y = shares @ q / shares.sum()
    logits = p["output.weight"] @ y + p["output.bias"]
    return logits - np.log(np.exp(logits).sum())


def run(out, **changed):
    settings = {"fractions": (FRACTION,), "seeds": 2, "masks": ("sensitive", "random", "all")}
    schedule = {"steps": 50, "batch": 8, "clip": 1e6}
    names = [f.name for f in fields(personalise_job.Schedule)]
    schedule |= {name: changed.pop(name) for name in list(changed) if name in names}
    schedule = personalise_job.Schedule(**schedule)
    return personalise.personalise(None, out, schedule=schedule, **(settings | changed))


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(personalise, "RATES", (0.01, 1e30))


def test_an_interrupted_comparison_is_resumed(few, tmp_path, monkeypatch):
    whole = run(tmp_path / "a")
    assert {row["mask"] for row in whole["rows"]} == {"sensitive", "random", "all"}
    # The rate that diverges is not chosen.
    assert {row["rate"] for row in whole["rows"]} == {0.01}
    assert (tmp_path / "a" / "personalise.png").stat().st_size > 10_000
    done = []

    def interrupted(base, schedule, training, *rest):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(training)
        return personalise_job.train(base, schedule, training, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(personalise, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "b")
    kept = json.loads((tmp_path / "b" / "personalise.json").read_text())["trainings"]
    assert len(kept) == 7
    trained = []

    def counted(base, schedule, training, *rest):
        trained.append(training)
        return personalise_job.train(base, schedule, training, *rest)

    monkeypatch.setattr(personalise, "train", counted)
    again = run(tmp_path / "b", resume=True)
    assert len(trained) == len(whole["trainings"]) - 7
    assert again["rows"] == whole["rows"]
    # Other settings are another run.
    trained.clear()
    run(tmp_path / "b", resume=True, seeds=1, source="gaussian")
    assert len(trained) == 3 * 2 + 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"base": "float"}, "the base must be one of seedlm, feedback, groups, not 'float'"),
        (
            {"masks": ("best",)},
            "a mask must be one of sensitive, task, magnitude, random, all",
        ),
        ({"batch": 0}, "batch must be above 0 and finite, not 0"),
        ({"clip": 0.0}, "clip must be above 0 and finite, not 0.0"),
        ({"spread": 40}, "spread must be in 0..39, not 40"),
        ({"source": "dice"}, "a perturbation source is one of"),
        ({"fractions": (1.5,)}, "above 0 and below 1"),
        ({"fractions": ()}, "above 0 and below 1"),
        ({"steps": 24}, "25 steps or more"),
        ({"seeds": 0}, "there must be a seed"),
    ],
)
def test_bad_settings_are_refused(changed, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, **changed)


def test_a_text_without_lines_to_hold_out_is_refused(made, tmp_path):
    task, _ = made
    name = list(task.lines)[-1]
    short = replace(task, lines={**task.lines, name: task.lines[name][:3]})
    with pytest.raises(ValueError, match=f"the text '{name}' must have 4 lines or more"):
        personalise_job.make_base(short, "seedlm", (FRACTION,), 4, tmp_path)
