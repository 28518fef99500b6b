"""Steps of a training of a program, of which only the losses matter."""

import numpy as np
import pytest

from seedbed.golden.lfsr import Lfsr
from seedbed.golden.stream_trainer import Sample, Work, sample_bytes, train, training
from seedbed.spec import LfsrConfig, StreamTrainerConfig

CONFIG = StreamTrainerConfig()
WORK = Work(batch=2, epochs=3, seed=5, eps=10, rate=100, decay=60, shift=4, most=40)


class Program:
    """Two values, perturbed by signs of the lowest bits of a seed; a loss depends on the token."""

    def __init__(self):
        self.values, self.asked, self.ran = [0, 50], [], []

    def start(self):
        self.ran.append([])

    def tune(self, *, seed, delta):
        self.asked.append((seed, delta))
        signs = [1 if seed >> k & 1 else -1 for k in range(2)]
        self.values = [v + delta * z for v, z in zip(self.values, signs, strict=True)]

    def run(self, tokens, *, inputs, labels):
        self.ran[-1] += tokens.tolist()
        return [[abs(self.values[t] - 20 * int(t)), t] for t in tokens]


def samples():
    return [Sample(np.array(each), np.zeros(len(each), np.int64)) for each in ([0, 1], [1], [0])]


def test_steps():
    """By the definition: signs cancel, and values have moved by the changes of the log."""
    program, results = Program(), []
    log = list(train(CONFIG, program, samples(), WORK, done=results.append))
    # Two batches an epoch, the second one of one sample, each of which runs twice.
    assert [len(each) for each in program.ran] == [2, 1, 2, 1, 1, 1] * 3
    assert [len(each) for each in results] == [2, 1, 1] * 3
    assert len(log) == 6
    generator = Lfsr(LfsrConfig(width=23, leap=23))
    generator.load(5)
    seeds = [next(generator.words()) for _ in range(6)]
    assert [step.seed for step, *_ in log] == seeds
    for k, (step, plus, minus) in enumerate(log):
        rate = max(0, 100 - k // 2 * 60)
        assert step.change == np.clip(np.floor((plus - minus) * rate / 16 + 0.5), -40, 40)
        assert program.asked[3 * k : 3 * k + 3] == [
            (step.seed, 10), (step.seed, -20), (step.seed, 10 - step.change)
        ]  # fmt: skip
    assert {step.change for step, *_ in log[4:]} == {0}
    assert any(step.change for step, *_ in log)
    first = Program()
    for step, *_ in log:
        first.tune(seed=step.seed, delta=-step.change)
    assert first.values == program.values


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("batch", 0, r"batch must be in 1\.\.4096, not 0"),
        ("epochs", 0, r"epochs must be in 1\.\.65535, not 0"),
        ("seed", 1 << 23, r"seed must be in 1\.\.8388607, not 8388608"),
        ("eps", 0, r"eps must be in 1\.\.16384, not 0"),
        ("most", 32758, r"most must be in 0\.\.32757, not 32758"),
        ("rate", 65536, r"rate must be in 0\.\.65535, not 65536"),
        ("decay", -1, r"decay must be in 0\.\.65535, not -1"),
        ("shift", 32, r"shift must be in 0\.\.31, not 32"),
    ],
)
def test_refuses(field, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        Work(**{**vars(WORK), field: value})


def test_refuses_samples():
    config = StreamTrainerConfig(inputs=True, sample=3)
    tokens, x = np.zeros(5, np.int64), np.zeros((5, 9), np.int64)
    with pytest.raises(ValueError, match=r"must have 1\.\.0 tokens in 0 beats, not 5"):
        sample_bytes(config, Sample(tokens, tokens, x), 0)
    with pytest.raises(ValueError, match="a sample must have 3 beats at most, not 4"):
        sample_bytes(config, Sample(tokens, tokens, x), 1)
    two = [Sample(tokens[:k], tokens[:k], x[:k]) for k in (2, 3)]
    with pytest.raises(ValueError, match=r"must have as many beats of vectors, not \[4, 6\]"):
        training(config, two, WORK, address=0, tuned=(0, 1))
