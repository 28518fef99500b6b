"""Golden model of the trainer of programs: samples in memory, and the steps on them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from seedbed.golden.checks import require_integers
from seedbed.golden.fixed import rounded
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.tuning_log import Step, deltas
from seedbed.spec.checks import require_int
from seedbed.spec.engine_records import KEPT
from seedbed.spec.sparse_trainer import BATCH_BITS, RATE_BITS, RATE_SHIFT_BITS
from seedbed.spec.stream_trainer import SAMPLE_WORD, STEP_SEED_BITS, StreamTrainerConfig

__all__ = ["Sample", "Tuned", "Work", "head_beats", "sample_bytes", "train", "training"]


@dataclass(frozen=True)
class Sample:
    """A block of tokens with their classes and, where the engine takes some, their vectors.

    Tokens and labels are (tokens,), inputs (tokens, elements), all of them integers.
    """

    tokens: np.ndarray
    labels: np.ndarray
    inputs: np.ndarray | None = None

    def vectors(self, config: StreamTrainerConfig) -> int:
        """Return the beats of its vectors, as the engine takes them."""
        if self.inputs is None:
            return 0
        return len(self.inputs) * -(-self.inputs.shape[1] // config.lanes)


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a command to train asks for; see :class:`~seedbed.hw.kept.stream_trainer.StreamTrainer`.

    Raises ``ValueError`` for what such a command refuses.
    """

    batch: int
    seed: int
    eps: int
    rate: int
    shift: int
    most: int
    epochs: int = 1
    decay: int = 0

    def __post_init__(self) -> None:
        half = 1 << (KEPT["difference"] - 1)
        require_int("batch", self.batch, 1, 1 << (BATCH_BITS - 1))
        require_int("epochs", self.epochs, 1, (1 << 16) - 1)
        require_int("seed", self.seed, 1, (1 << STEP_SEED_BITS) - 1)
        require_int("eps", self.eps, 1, half // 2)
        require_int("most", self.most, 0, half - 1 - self.eps)
        require_int("rate", self.rate, 0, (1 << RATE_BITS) - 1)
        require_int("decay", self.decay, 0, (1 << RATE_BITS) - 1)
        require_int("shift", self.shift, 0, (1 << RATE_SHIFT_BITS) - 1)


class Tuned(Protocol):
    """A program that is run and whose kept weights are tuned: a core, or its model alone."""

    def start(self) -> None: ...
    def run(
        self, tokens: np.ndarray, *, inputs: np.ndarray | None, labels: np.ndarray
    ) -> np.ndarray: ...
    def tune(self, *, seed: int, delta: int) -> None: ...


def sample_bytes(config: StreamTrainerConfig, sample: Sample, head: int) -> bytes:
    """Return the beats of a sample in memory, of which ``head`` are for its tokens.

    Raises ``ValueError`` for a sample that does not fit.
    """
    at = {name: sum(list(SAMPLE_WORD.values())[:k]) for k, name in enumerate(SAMPLE_WORD)}
    tokens = require_integers("tokens", sample.tokens, 0, (1 << SAMPLE_WORD["token"]) - 1)
    labels = require_integers("labels", sample.labels, 0, (1 << SAMPLE_WORD["label"]) - 1)
    if not 1 <= len(tokens) <= head * config.words:
        raise ValueError(
            f"a sample must have 1..{head * config.words} tokens in {head} beats, not {len(tokens)}"
        )
    words = np.zeros(head * config.words, np.uint32)
    words[: len(tokens)] = tokens << at["token"] | labels << at["label"]
    words[len(tokens) - 1] |= 1 << at["last"]
    found = words.astype("<u4").tobytes()
    if sample.inputs is not None:
        x = require_integers("inputs", sample.inputs, -1 << 15, (1 << 15) - 1)
        x = np.pad(x, ((0, 0), (0, -x.shape[1] % config.lanes))).astype("<i2")
        found += x.tobytes()
    size = config.beat_bits // 8
    found += bytes(-len(found) % size)
    if len(found) > config.sample * size:
        raise ValueError(
            f"a sample must have {config.sample} beats at most, not {len(found) // size}"
        )
    return found


def head_beats(config: StreamTrainerConfig, samples: Sequence[Sample]) -> int:
    """Return the beats that the tokens of each of some samples need."""
    return -(-max(len(each.tokens) for each in samples) // config.words)


def training(
    config: StreamTrainerConfig, samples: Sequence[Sample], work: Work, *, address: int,
    tuned: tuple[int, int],
) -> dict[str, int]:  # fmt: skip
    """Return the fields of a command to train on samples that begin at a beat of the memory.

    ``tuned`` is the range of the kept weights. Raises ``ValueError`` unless all samples have as
    many vectors.
    """
    counts = {each.vectors(config) for each in samples}
    if len(counts) != 1:
        raise ValueError(f"all samples must have as many beats of vectors, not {sorted(counts)}")
    vectors = {"vectors": counts.pop()} if config.inputs else {}
    return {
        "address": address, "first": tuned[0], "end": tuned[1], "seed": work.seed,
        "delta": work.eps, "samples": len(samples), "epochs": work.epochs, "batch": work.batch,
        "head": head_beats(config, samples), **vectors, "rate": work.rate, "decay": work.decay,
        "shift": work.shift, "most": work.most,
    }  # fmt: skip


def train(
    config: StreamTrainerConfig, program: Tuned, samples: Sequence[Sample], work: Work,
    done: Callable[[np.ndarray], None] = lambda found: None,
) -> Iterator[tuple[Step, int, int]]:  # fmt: skip
    """Yield each step of a training, and the sums of the losses of its two passes.

    ``done`` is called with the results of each sample in the second pass, (tokens, 2).
    """
    seeds = Lfsr(config.seeds)
    seeds.load(work.seed)
    rate = work.rate
    for _ in range(work.epochs):
        for k in range(0, len(samples), work.batch):
            batch, seed = samples[k : k + work.batch], int(next(seeds.words()))
            sums = []
            for number, delta in enumerate(deltas(work.eps, 0)[:2]):
                program.tune(seed=seed, delta=delta)
                losses = 0
                for sample in batch:
                    program.start()
                    found = np.array(
                        program.run(sample.tokens, inputs=sample.inputs, labels=sample.labels)
                    )
                    losses += int(found[:, 0].sum())
                    if number:
                        done(found)
                sums.append(losses)
            change = int(rounded(np.array((sums[0] - sums[1]) * rate), work.shift))
            change = max(-work.most, min(work.most, change))
            program.tune(seed=seed, delta=deltas(work.eps, change)[2])
            yield Step(seed, change), sums[0], sums[1]
        rate = max(0, rate - work.decay)
