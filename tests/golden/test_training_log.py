import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seedbed.golden.training_log import LogError, TrainingJob, TrainingLog, digest
from seedbed.golden.zo_trainer import LogEntry, ZoTrainer
from seedbed.spec.zo_trainer import ZoTrainerConfig

CONFIG = ZoTrainerConfig(network="tiny", lanes=8, ways=2, batch=8)


@pytest.fixture(scope="module")
def trained():
    """First weights, their exponents, the final weights, and the log."""
    rng = np.random.default_rng(1)
    weights = {n.name: rng.integers(-127, 128, (n.outputs, n.fan_in)) for n in CONFIG.layers}
    exponents = {layer.name: -9 for layer in CONFIG.layers}
    model = ZoTrainer(CONFIG, weights, exponents)
    images = rng.integers(0, 256, (8, *CONFIG.layers[0].inputs))
    labels = rng.integers(0, CONFIG.classes, 8)
    entries = tuple(
        model.step(images, labels, seed=seed, magnitude=3, zeros=seed)[1] for seed in range(8)
    )
    assert {entry.sign for entry in entries} != {0}
    log = TrainingLog(config=CONFIG, exponents=exponents, first=digest(weights), entries=entries)
    return weights, exponents, model.weights, log


def test_a_log_gives_the_final_weights(trained):
    weights, exponents, final, log = trained
    found = TrainingLog.parse(log.text())
    assert found == log
    replayed = found.replay(weights, exponents)
    assert replayed.keys() == final.keys()
    assert all((replayed[name] == values).all() for name, values in final.items())
    assert any((replayed[name] != values).any() for name, values in weights.items())


def test_any_byte_that_is_changed_or_missing_is_refused(trained):
    text = trained[3].text()
    rng = np.random.default_rng(2)
    for at in rng.choice(len(text), 200, replace=False):
        changed = chr(ord(text[at]) ^ 1)
        with pytest.raises(LogError, match=r"not a training log|truncated|damaged"):
            TrainingLog.parse(text[:at] + changed + text[at + 1 :])
        with pytest.raises(LogError, match=r"not a training log|truncated|damaged"):
            TrainingLog.parse(text[:at])


def test_what_is_damaged_is_named(trained):
    header, *steps, end = trained[3].text().splitlines(keepends=True)
    for text, sentence in [
        ("", "it is not a training log"),
        ("{}\n", "it is not a training log"),
        (header, "it is truncated: it does not end with a checksum"),
        ("".join([header, *steps]), "it is truncated: it does not end with a checksum"),
        ("".join([header, *steps[1:], end]), "it is damaged: its checksum does not fit its lines"),
        ("".join([header, *steps, end, end]), "it is damaged: its checksum does not fit its lines"),
    ]:
        with pytest.raises(LogError, match=sentence):
            TrainingLog.parse(text)


def test_a_truncated_log_is_replayed_on_request_up_to_its_last_whole_step(trained):
    weights, exponents, final, log = trained
    text = log.text()
    lines = text.splitlines(keepends=True)
    model = ZoTrainer(CONFIG, weights, exponents)
    for count in range(len(log.entries) + 1):
        start = sum(map(len, lines[: 1 + count]))
        stop = start + len(lines[1 + count])
        # A line counts with its end.
        for at in (start, start + 1, (start + stop) // 2, stop - 1):
            with pytest.raises(LogError, match=r"it is truncated: .* as a partial log"):
                TrainingLog.parse(text[:at])
            found = TrainingLog.parse(text[:at], partial=True)
            assert found == replace(log, entries=log.entries[:count])
        replayed = found.replay(weights, exponents)
        assert all((replayed[name] == values).all() for name, values in model.weights.items())
        if count < len(log.entries):
            model.replay(log.entries[count])
    assert all((model.weights[name] == values).all() for name, values in final.items())
    assert TrainingLog.parse(text, partial=True) == log


def test_a_damaged_log_is_refused_as_a_partial_one_too(trained):
    header, *steps, end = trained[3].text().splitlines(keepends=True)
    for lines, sentence in [
        ([header[:-9]], "it is not a training log"),
        ([header, *steps[1:], end], "it is damaged: its checksum does not fit its lines"),
        ([header, steps[0][:-2], *steps[1:]], "it is damaged: its header or a step lacks a field"),
        ([header, "\0" * 8, *steps], "it is damaged: its header or a step lacks a field"),
        ([header, "[1, 9, 0, 1, 1]\n"], r"a step's magnitude must be in 1\.\.4, not 9"),
    ]:
        with pytest.raises(LogError, match=sentence):
            TrainingLog.parse("".join(lines), partial=True)


def made(job, skipped=0):
    """Return seed, phase and samples of each step of a job."""
    found = []
    for epoch in range(job.epochs):
        _, *phase = [entry for entry in job.schedule if entry[0] <= epoch][-1]
        for at in range(0, job.samples, job.batch):
            seed = (job.seed + len(found)) & 0xFFFFFFFF
            stop = min(at + job.batch, job.samples)
            found.append((seed, *phase, skipped + at, skipped + stop))
    return found


@given(
    samples=st.integers(1, 9),
    epochs=st.integers(1, 4),
    batch=st.integers(1, 4),
    seed=st.sampled_from([0, 7, (1 << 32) - 3]),
    later=st.sets(st.integers(1, 5)),
    data=st.data(),
)
def test_what_remains_of_a_job_has_its_seeds_its_samples_and_its_schedule(
    samples, epochs, batch, seed, later, data
):
    schedule = tuple((epoch, 1 + epoch % 3, epoch, 5) for epoch in (0, *sorted(later)))
    job = TrainingJob(samples=samples, epochs=epochs, batch=batch, seed=seed, schedule=schedule)
    steps = data.draw(st.integers(0, job.steps))
    rest = job.remaining(steps)
    assert len(rest) <= 2
    # Entries of a schedule ascend from epoch 0.
    assert all(
        [entry[0] for entry in each.schedule] == sorted({0, *(e[0] for e in each.schedule)})
        for each in rest
    )
    found = [step for each in rest for step in made(each, samples - each.samples)]
    assert found == made(job)[steps:]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seed": 1 << 32}, r"a step's seed must be in 0\.\.4294967295, not 4294967296"),
        ({"magnitude": 5}, r"a step's magnitude must be in 1\.\.4, not 5"),
        ({"zeros": 16}, r"a step's zeros must be in 0\.\.15, not 16"),
        ({"update_bits": 0}, r"a step's update_bits must be in 1\.\.7, not 0"),
        ({"sign": 2}, r"a step's sign must be in -1\.\.1, not 2"),
        ({"sign": None}, r"a step's sign must be in -1\.\.1, not None"),
    ],
)
def test_steps_out_of_range_are_refused(trained, change, sentence):
    entry = replace(trained[3].entries[0], **change)
    with pytest.raises(LogError, match=sentence):
        TrainingLog.parse(replace(trained[3], entries=(entry,)).text())


def test_another_version_is_refused(trained, monkeypatch):
    monkeypatch.setattr("seedbed.golden.training_log._VERSION", 2)
    text = trained[3].text()
    monkeypatch.undo()
    with pytest.raises(LogError, match="it is of version 2, not 1"):
        TrainingLog.parse(text)
    monkeypatch.setattr("seedbed.golden.training_log._FIELDS", ["seed", "level"])
    text = trained[3].text()
    monkeypatch.undo()
    with pytest.raises(LogError, match=r"its steps have \['seed'\], not \['seed', 'magnitude'"):
        TrainingLog.parse(text)


def test_other_first_weights_are_refused(trained):
    weights, exponents, _, log = trained
    name = CONFIG.layers[0].name
    other = weights | {name: weights[name] * [[-1]]}
    with pytest.raises(LogError, match="the weights are not those that the training began with"):
        log.replay(other, exponents)
    with pytest.raises(LogError, match="exponents are not those that the training began with"):
        log.replay(weights, exponents | {name: 3})


def test_a_header_that_lacks_a_field_is_refused(trained):
    from seedbed.golden.training_log import _end

    header, *steps, _ = trained[3].text().splitlines(keepends=True)
    for gone in ("config", "exponents", "weights"):
        less = json.dumps({k: v for k, v in json.loads(header).items() if k != gone}) + "\n"
        lines = "".join([less, *steps])
        with pytest.raises(LogError, match="lacks a field"):
            TrainingLog.parse(lines + _end(lines))


def test_layers_trained_by_backpropagation_are_refused():
    config = replace(CONFIG, tail=1)
    entry = LogEntry(seed=0, magnitude=1, zeros=0, sign=1)
    with pytest.raises(LogError, match=r"does not determine \w+, trained by backpropagation"):
        TrainingLog(config=config, exponents={}, first="", entries=(entry,))
