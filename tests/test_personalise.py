"""The personalisation demonstration, on the small model."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.demos import personalise, personalise_job
from seedbed.flow.demos.lm_task import embedded
from seedbed.golden import language_model
from seedbed.spec import SEEDLM

FRACTION = 0.01


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    task = embedded(Console(quiet=True))
    out = tmp_path_factory.mktemp("base")
    return task, personalise_job.make_base(task, SEEDLM[4], (FRACTION,), out)


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


def training(**changed):
    known = {"mask": "task", "fraction": FRACTION, "source": "lutopt", "rate": 0.03, "seed": 3}
    return personalise_job.Training(**{**known, "steps": 20, **changed})


def test_a_training_is_zeroth_order_sgd_on_the_kept_weights(made):
    _, base = made
    kept = ("task", FRACTION)
    before, *after = personalise_job.train(base, training(), base.tuned, 2)
    values = base.values[kept]
    assert before == language_model.perplexity(base.model(kept, values), *base.tuned)
    assert len(after) == 2
    assert after[-1] < before
    assert personalise_job.train(base, training(), base.tuned, 2) == [before, *after]
    assert personalise_job.train(base, training(seed=4), base.tuned, 2) != [before, *after]
    still = personalise_job.train(base, training(rate=0.0), base.tuned, 2)
    assert still == [before] * 3


def test_a_training_that_diverges_has_no_perplexity(made):
    _, base = made
    found = personalise_job.train(base, training(rate=1e30), base.held, 2)
    assert found[0] is not None
    assert found[-1] is None


def run(out, **changed):
    settings = {"fractions": (FRACTION,), "steps": 50, "seeds": 2, **changed}
    return personalise.personalise(None, out, **settings)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(personalise, "RATES", (0.01, 1e30))
    monkeypatch.setattr(personalise, "MASKS", ("sensitive", "random", "all"))


def test_an_interrupted_comparison_is_resumed(few, tmp_path, monkeypatch):
    whole = run(tmp_path / "a")
    assert {row["mask"] for row in whole["rows"]} == {"sensitive", "random", "all"}
    # The rate that diverges is not chosen.
    assert {row["rate"] for row in whole["rows"]} == {0.01}
    assert (tmp_path / "a" / "personalise.png").stat().st_size > 10_000
    done = []

    def interrupted(base, training, *rest):
        if len(done) == 7:
            raise KeyboardInterrupt
        done.append(training)
        return personalise_job.train(base, training, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(personalise, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "b")
    kept = json.loads((tmp_path / "b" / "personalise.json").read_text())["trainings"]
    assert len(kept) == 7
    trained = []

    def counted(base, training, *rest):
        trained.append(training)
        return personalise_job.train(base, training, *rest)

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
        ({"base": "float"}, "the base must be one of seedlm, groups, not 'float'"),
        ({"source": "dice"}, "a perturbation source is one of"),
        ({"fractions": (1.5,)}, "above 0 and below 1"),
        ({"fractions": ()}, "above 0 and below 1"),
        ({"steps": 49}, "50 steps or more"),
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
        personalise_job.make_base(short, SEEDLM[4], (FRACTION,), tmp_path)
