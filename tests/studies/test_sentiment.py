"""The demonstration of sentiment, on the embedded sentences and a small random encoder."""

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from small_transformers import write_bert

from seedbed.flow.cores import registry
from seedbed.flow.importer import transformers
from seedbed.flow.jobs.kept_tuning import fitted_head, train
from seedbed.flow.jobs.program_core import fitted
from seedbed.flow.run.progress import Bar
from seedbed.golden.engine_image import engine_image
from seedbed.golden.kept_weights import KeptTuner, fraction_bits, trainable
from seedbed.golden.stream_engine import FloatEngine, Integers, TrellisRows
from seedbed.spec import StreamEngineConfig, TrellisConfig
from seedbed.studies import (
    sentiment,
    sentiment_data,
    sentiment_integers,
    sentiment_job,
    sentiment_task,
    sentiment_tuning,
)
from seedbed.studies.sentiment_job import BACKPROPAGATION, Training, adapter_rank


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    out = tmp_path_factory.mktemp("sentiment")
    with Bar(console=None) as bar:
        found, known = sentiment_task.prepare(None, None, (16,), out, bar, trellis=True, batch=8)
    assert known["set"] == "films"
    assert (known["sentences"], known["held"], known["other"]) == ([24, 24], 16, 12)
    return found


def job(**changed):
    return Training(**{"rate": 0.1, "seed": 0, "steps": 20, "k": 16, **changed})


def all_of(task, base="float"):
    base = task.bases[base]
    return base.layer, base.layer.matrices, base.sentences


def test_layer_is_that_of_the_imported_program(task):
    """Sentences of several lengths at a time, compared with the importer's float64."""
    model = sentiment_task.random_encoder()
    program, parameters = transformers.encoder(
        model.parameters, transformers.Encoder(heads=model.heads, epsilon=model.epsilon)
    )
    engine = FloatEngine(program, parameters)
    layer, matrices, sentences = all_of(task)
    assert len(set(sentences.lengths.tolist())) > 3
    texts = {text: label for each in sentiment_data.EMBEDDED.values() for text, label in each}
    wanted = []
    for text in texts:
        engine.start()
        wanted.append(engine.run(np.array(model.tokenizer.encode(text).ids))[0])
    found = layer.means(matrices, sentences)
    assert len(found) == len(wanted) == 60
    # The sentences are drawn in another order, with their labels.
    distances = np.abs(found[:, None] - np.array(wanted)).max(axis=2)
    nearest = distances.argmin(axis=1)
    assert sorted(nearest.tolist()) == list(range(60))
    assert distances.min(axis=1).max() < 1e-5
    assert np.array_equal(np.array(list(texts.values()))[nearest], sentences.labels)


def test_gradient_is_the_slope_of_the_loss(task):
    layer, matrices, sentences = all_of(task)
    own = sentences.select(task.drawn(16, 0))
    head = 3 * task.head(16, 0)
    loss, gradient = layer.gradient(matrices, head, own)
    assert loss == pytest.approx(layer.losses(matrices, head, own)[0].mean(), rel=1e-6)
    rng = np.random.default_rng(1)
    for place in range(len(matrices)):
        z = np.zeros_like(matrices)
        z[place] = rng.standard_normal(z[place].shape)
        plus, minus = (
            layer.losses(matrices + np.float32(k * 1e-3) * z, head, own)[0].mean() for k in (1, -1)
        )
        slope = (gradient * z).sum()
        assert abs(slope) > 1e-3
        assert (plus - minus) / 2e-3 == pytest.approx(slope, rel=1e-2)


def test_head_has_the_least_loss(task):
    layer, matrices, sentences = all_of(task)
    own = sentences.select(task.drawn(16, 0))
    means = layer.means(matrices, own)

    def cost(head):
        logits = np.append(means, np.ones((len(means), 1)), axis=1) @ (head[1] - head[0])
        losses = np.log1p(np.exp(np.where(own.labels == 1, -logits, logits)))
        return losses.mean() + 0.05 * ((head[1] - head[0])[:-1] ** 2).sum()

    head = fitted_head(means, own.labels)
    least, rng = cost(head), np.random.default_rng(2)
    for _ in range(10):
        change = 0.01 * rng.standard_normal(head.shape)
        assert cost(head + change) > least


def test_sentences_that_are_drawn_are_never_held_out(task):
    _, _, sentences = all_of(task)
    for seed in range(3):
        drawn = task.drawn(16, seed)
        assert len(set(drawn.tolist())) == 32
        assert not set(drawn.tolist()) & set(task.held.tolist())
        assert sentences.labels[drawn].sum() == 16
    assert sentences.labels[task.held].sum() == len(task.held) // 2


def test_masks_are_of_the_largest(task):
    layer, matrices, sentences = all_of(task)
    # The other text comes after all sentences of the set.
    text = sentences.select(np.arange(48, 60))
    head = fitted_head(layer.means(matrices, text), text.labels)
    one_by_one = [
        layer.gradient(matrices, head, sentences.select(np.array([n])))[1] for n in range(48, 60)
    ]
    keys = {"sensitive": sum(g.astype(float) ** 2 for g in one_by_one), "magnitude": abs(matrices)}
    for name, key in keys.items():
        chosen, flat = task.orders[name][:41], key.reshape(-1)
        assert flat[chosen].min() >= np.delete(flat, chosen).max()
    assert not np.array_equal(task.orders["random"][:41], task.orders["sensitive"][:41])


@pytest.mark.parametrize("base", ["float", "trellis"])
def test_kept_weights_are_those_of_the_model_in_16_bits(task, base):
    _, exact, _ = all_of(task)
    _, dense, _ = all_of(task, base)
    tuned = task._tuned(job(base=base, tuned="sensitive", fraction=0.01))
    places = np.sort(task.orders["sensitive"][:41])
    found, _ = tuned.model(tuned.theta)
    wanted = dense.reshape(-1).copy()
    differences = (exact - dense).reshape(-1)[places].astype(np.float16)
    wanted[places] += differences
    assert np.array_equal(found.reshape(-1), wanted)
    assert np.array_equal(dense, exact) == (base == "float")


def test_the_base_of_4_bits_is_near_the_model(task):
    _, exact, of_float = all_of(task)
    _, dense, of_trellis = all_of(task, "trellis")
    error = np.linalg.norm(dense - exact) / np.linalg.norm(exact)
    assert 0.01 < error < 0.12
    # The layers below have 4 bits, too.
    distance = np.linalg.norm(of_trellis.inputs - of_float.inputs)
    assert 0.001 < distance / np.linalg.norm(of_float.inputs) < 0.12


def test_adapters_begin_at_the_model(task):
    _, exact, _ = all_of(task)
    rng = np.random.default_rng(3)
    for fraction, rank in ((0.001, 1), (0.1, 3)):
        assert adapter_rank(32, fraction) == rank
        tuned = task._tuned(job(tuned="adapters", fraction=fraction))
        assert len(tuned.theta) == 4 * 32 * rank
        assert np.array_equal(tuned.model(tuned.theta)[0], exact)
        changed = tuned.model(rng.standard_normal(len(tuned.theta)))[0] - exact
        ranks = [np.linalg.matrix_rank(each, tol=1e-3) for each in changed]
        assert ranks == [rank, 0, rank, 0]


def test_backpropagation_lowers_the_training_loss(task):
    found = task.run(job(source=BACKPROPAGATION, rate=10.0, steps=60, judged=True))
    assert found["train"]["change"] < -0.04
    assert found["train"]["after"] == pytest.approx(
        found["train"]["before"] + found["train"]["change"]
    )
    assert len(found["curve"]) == sentiment_job.POINTS
    kept = task.run(job(source=BACKPROPAGATION, rate=3.0, tuned="sensitive", fraction=0.1))
    assert found["train"]["change"] < kept["train"]["change"] < 0
    assert kept["numbers"] == 410


def test_few_weights_are_tuned_by_forward_passes(task):
    """Full batches: the loss falls, and a number that is not finite ends a training."""
    whole = replace(task, batch=32)
    kind = {"tuned": "head", "k": 16, "steps": 200, "source": "lutopt"}
    assert whole.run(job(**kind, rate=0.03))["train"]["change"] < -0.005
    assert whole.run(job(rate=1e300))["train"]["after"] is None


def test_trainings_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(sentiment, "SOURCES", ("gaussian", "unscaled"))
    options = {"only": ("sources", "base"), "steps": 30, "seeds": 2}
    whole = sentiment.sentiment(None, None, tmp_path / "whole", **options)
    names = [(row["table"], row.get("name"), row["base"]) for row in whole["rows"]]
    assert names == [
        ("none", None, "float"), ("none", None, "trellis"), ("sources", "gaussian", "float"),
        ("sources", "unscaled", "float"), ("sources", BACKPROPAGATION, "float"),
        ("base", "sensitive 0.1 %", "trellis"), ("base", "sensitive 1 %", "trellis"),
    ]  # fmt: skip
    for row in whole["rows"]:
        assert len(row["runs"]) == 2
        # All trainings of a seed start from the same sentences and head.
        if row["base"] == "float":
            first = whole["rows"][0]["runs"]
            for run, plain in zip(row["runs"], first, strict=True):
                assert run["train"]["before"] == pytest.approx(plain["train"]["before"], abs=1e-6)
    run, done = sentiment_job.Task.run, []

    def interrupted(task, training):
        done.append(training)
        if len(done) == 9:
            raise KeyboardInterrupt
        return run(task, training)

    monkeypatch.setattr(sentiment_job.Task, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sentiment.sentiment(None, None, tmp_path / "parts", **options)
    first = done[:8]
    assert sentiment.sentiment(None, None, tmp_path / "parts", **options) == whole
    assert not set(first) & set(done[9:])
    assert json.loads((tmp_path / "parts/sentiment.json").read_text()) == whole
    assert (tmp_path / "parts/sentiment.png").is_file()


def test_the_command_takes_a_model_and_sets(called, tmp_path):
    write_bert(tmp_path / "model")
    folder = tmp_path / "sets"
    folder.mkdir()
    rows = [f"{'good' if k % 2 else 'bad'} {k},{k % 2},fine" for k in range(12)]
    (folder / "a.csv").write_text("\n".join(["text,label,source", *rows]))
    lines = [f"{k}\t{2.5 if k % 3 else -1}\tyes {k}" for k in range(6)] + ["7\t0.5\tperhaps"]
    (folder / "b.txt").write_text("\n".join(lines))
    found = sentiment_data.read(folder)
    assert found["fine"][:2] == [("bad 0", 0), ("good 1", 1)]
    assert found["b"] == [(f"yes {k}", int(k % 3 > 0)) for k in range(6)]
    words = ["--k", "4", "--only", "base", "--steps", "30", "--seeds", "1", "--build", "b"]
    code, printed, _ = called(
        ["demo", "sentiment", "--model", "model", "--data", "sets", *words], tmp_path
    )
    assert not code
    assert "fine: 12 sentences, 4 held out" in printed
    assert (tmp_path / "b/demo/sentiment-sets/sentiment.json").is_file()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--k", "17"], "17 sentences of a class need 25 or more of at most 16 tokens, of which a"
         " third is held out; films has 24"),
        (["--k", "0"], "k must be in 1..100000, not 0"),
        (["--only", "all"], "a table must be one of sources, tuned, base, not 'all'"),
        (["--steps", "29"], "steps must be in 30..1000000, not 29"),
    ],
)  # fmt: skip
def test_refused(called, tmp_path, words, sentence):
    code, _, error = called(["demo", "sentiment", *words], tmp_path)
    assert code == 2
    assert sentence in " ".join(error.split())


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.csv", "text,class\nx,1\n", "must have the columns text and label"),
        ("a.csv", "text,label\nx,2\n", "line 2: the label must be 0 or 1, not '2'"),
        ("a.txt", "1\tx\ty\n", "line 1: there must be a number, a rating and a text, with tabs"),
        ("a.txt", b"\xff", "is no text in UTF-8"),
        ("a.md", "", r"has no file \*.csv or \*.txt with sentences"),
    ],
)
def test_data_that_is_refused(tmp_path, name, text, sentence):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=sentence):
        sentiment_data.read(tmp_path)


def test_one_set_gives_no_mask(tmp_path):
    lines = [f"{n},{n % 2}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    with pytest.raises(ValueError, match="two sets of sentences or more: one gives the mask"):
        sentiment.sentiment(None, tmp_path, tmp_path / "out", ks=(4,), console=None)


def test_the_table_says_what_diverged():
    run = {name: {"before": 1.0, "after": None} for name in ("train", "held")}
    row = {"name": "unscaled", "numbers": 1, "bytes": 2, "rate": 1.0, "runs": [run]}
    console = Console(width=200, record=True, quiet=True)
    assert sentiment.changes(row["runs"]) == ["diverged", "", "", ""]
    sentiment._show_rows([row], 16, "sources", console)


@contextmanager
def model_alone(engine, *, block, context, **_):
    """Yield the model in place of the emitted core."""
    config = StreamEngineConfig(trellis=4, kept=64, tune=6, products=8)
    image = engine_image(config, engine.program, engine.parameters, block=block, context=context)
    tuner = KeptTuner(config, engine.parameters, image)
    yield SimpleNamespace(
        config=config, tuner=tuner, tunings=[300], start=engine.start, run=engine.run,
        tune=tuner.tune,
    )  # fmt: skip


def test_kept_weights_are_tuned(tmp_path, monkeypatch):
    """Two steps; the change of each is in the log, which is replayed."""
    monkeypatch.setattr(sentiment_tuning, "emitted_program", model_alone)
    settings = sentiment_tuning.settings(None, steps=2, batch=3)
    result = sentiment_tuning.run_tuning(
        None, None, tmp_path, settings=settings, build=tmp_path, console=None
    )
    assert json.loads((tmp_path / "sentiment_rtl.json").read_text()) == result | {
        "losses": [[*each] for each in result["losses"]]
    }
    lines = (tmp_path / "sentiment_rtl.log").read_text().splitlines()
    assert [json.loads(line)[1] for line in lines[1:-1]] == result["changes"]
    for (plus, minus), change in zip(result["losses"], result["changes"], strict=True):
        assert plus != minus
        step = result["changes"].index(change)
        assert change == round(64 * settings.change(step, plus - minus))
    assert result["before"] != result["after"]
    assert result["tuned"] > 100
    large = sentiment_tuning.settings(tmp_path, steps=4)
    assert large.change(0, 1.0) == 2.0
    assert large.change(3, 0.002) == pytest.approx(0.1)


def test_the_cores_integers_learn_the_same_as_its_model(tmp_path, monkeypatch):
    """A training without the core, from the same first weights; each seed begins with them."""
    settings = sentiment_tuning.settings(None, steps=3, batch=4, judged=True)
    with Bar(console=None) as bar:
        tuning = sentiment_tuning.made(None, None, 16, bar)
    assert tuning.fraction == 6
    core = fitted(registry.find("stream_engine"), tuning.engine, block=16, context=16, vectors=4)
    task = sentiment_integers.Task(tuning, core.config, core.image)
    found = task.run(settings)
    assert found["still"] == 0
    assert task.run(settings) == found
    own = tuning.drawn(settings)
    assert not {*own} & {*tuning.held}
    head = tuning.head(own)
    tuner = KeptTuner(core.config, tuning.engine.parameters, core.image)
    model = SimpleNamespace(start=tuning.engine.start, run=tuning.engine.run, tune=tuner.tune)
    before = tuning.losses(model, head, own)
    assert len([*train(tuning, model, head, settings, own)]) == 3
    assert found["train"] == sentiment_job.judged(before, tuning.losses(model, head, own))
    assert found["train"]["change"] != 0


def test_the_rate_of_the_cores_integers_is_the_best_one(tmp_path, monkeypatch):
    def run(self, job):
        change = abs(np.log(job.rate / 3e4)) - 10
        each = {"before": 1.0, "after": 1.0, "accuracy_before": 0.5}
        each |= {"change": change, "change_error": 0.0, "gained": 0.0, "gained_error": 0.0}
        return {"train": each, "held": each, "still": 0}

    monkeypatch.setattr(sentiment_integers.Task, "run", run)
    result = sentiment_integers.run_integers(
        None, None, tmp_path, k=16, steps=9, batch=4, seeds=2, jobs=1
    )
    assert result["rate"] == 3e4
    assert {*result["rates"]} == {1e3, 3e3, 1e4, 3e4, 1e5}
    assert len(result["runs"]) == 2


def test_large_kept_weights_have_fewer_fraction_bits():
    def matrix(difference):
        code = TrellisConfig()
        symbols = np.zeros((1, 8), np.int64)
        rows = TrellisRows(code=code, symbols=symbols)
        weights = rows.weights().astype(np.int64)
        weights[0, 3] += difference
        return {"w": Integers(weights=weights, multipliers=np.ones(1), fraction=0, trellis=rows)}

    assert fraction_bits(matrix(0), 6) == 6
    for difference, bits in ((511, 6), (512, 5), (1023, 5), (-1024, 4), (32767, 0)):
        assert fraction_bits(matrix(difference), 6) == bits
        trainable(matrix(difference), bits)
        with pytest.raises(ValueError, match="kept weights of w must differ by at most"):
            trainable(matrix(difference), bits + 1)
