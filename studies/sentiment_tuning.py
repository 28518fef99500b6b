"""Kept weights of an encoder that are tuned in the streamed engine, on the sentiment of sentences.

The matrices have a trellis code of 4 bits, and some weights beside it, with fraction bits. They are
tuned in the core's memory by steps of zeroth order with two passes (MeZO, arXiv:2305.17333): the
core perturbs them, computes a vector of each sentence, and updates them; the host computes the loss
from the vectors with a head that stays as it is.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console

from seedbed.flow.importer import transformers
from seedbed.flow.importer.packed_rows import pack
from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.jobs.program_rtl import emitted_program, show_blocks
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.progress import Bar
from seedbed.golden.kept_weights import trainable
from seedbed.golden.stream_engine import FloatEngine, Integers, StreamEngine
from seedbed.golden.tuning_log import Step, deltas, replayed, tuning_log
from seedbed.spec.checks import require_int
from seedbed.spec.stream_engine import SIGN_BITS, Embed
from seedbed.studies import encoder, sentiment_data
from seedbed.studies.sentiment_layer import fitted_head
from seedbed.studies.sentiment_task import TOKENS, random_encoder

__all__ = ["Settings", "Tuning", "made", "run_tuning", "settings", "train"]

#: Tokens that share a pass over weights in the core.
VECTORS = 4
#: Sentences by which vectors get their formats.
CALIBRATION = 24


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A tuning.

    Parameters
    ----------
    fraction
        Fraction bits of kept weights.
    share
        The share of a matrix's weights that are kept: those that are the largest in their rows.
    steps, batch
        Steps, and sentences of each.
    eps, rate
        The size of a perturbation in units of the trellis code; what a value changes in these units
        for a difference of the two losses of 1.
    most
        The most that a value changes in a step, in these units.
    seed
        Of batches and signs.
    """

    fraction: int = 6
    share: float = 0.01
    steps: int = 8
    batch: int = 16
    eps: float = 8.0
    rate: float = 3000.0
    most: float = 16.0
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("steps", self.steps, 1, 1_000_000)
        require_int("batch", self.batch, 1, 4_096)

    def units(self, value: float) -> int:
        """Return a number of units of the trellis code in those of kept weights."""
        return int(np.rint(np.ldexp(value, self.fraction)))

    def change(self, difference: float) -> int:
        """Return the change of a step whose losses differ so much."""
        return self.units(float(np.clip(self.rate * difference, -self.most, self.most)))


def settings(model: Path | None, **changed: int) -> Settings:
    """Return what a model is tuned with; one of a folder has many more weights than the small one.

    Each of these then changes less.
    """
    large: dict[str, Any] = {"share": 0.001, "eps": 4.0, "rate": 200.0, "most": 2.0}
    return Settings(**(large if model else {}), **changed)


class Tuned(Protocol):
    """A program that is run and whose kept weights are tuned: the core, or its model alone."""

    def start(self) -> None: ...
    def run(self, tokens: np.ndarray) -> np.ndarray: ...
    def tune(self, *, seed: int, delta: int) -> None: ...


@dataclass(frozen=True)
class Tuning:
    """The program, and the sentences that it is tuned on: their tokens, labels, and the head."""

    engine: StreamEngine
    sentences: Sequence[np.ndarray]
    labels: np.ndarray
    head: np.ndarray

    def loss(self, program: Tuned, numbers: np.ndarray) -> float:
        """Return the mean loss of some sentences: the cross-entropy of their classes."""
        vectors = _vectors(self.engine, program, [self.sentences[n] for n in numbers])
        logits = vectors @ self.head[:, :-1].T + self.head[:, -1]
        labels = self.labels[numbers]
        own = logits[np.arange(len(labels)), labels]
        return float(np.log(np.exp(logits - own[:, None]).sum(axis=1)).mean())


def _vectors(engine: StreamEngine, program: Any, sentences: Sequence[np.ndarray]) -> np.ndarray:
    """Return the vector of each sentence, in float64."""
    found = []
    for tokens in sentences:
        program.start()
        found.append(program.run(tokens)[0])
    fraction = engine.program.vectors[engine.program.result].fraction
    return np.ldexp(np.array(found, np.float64), -fraction)


def made(model: Path | None, data: Path | None, settings: Settings, bar: Bar) -> Tuning:
    """Return what is tuned: the encoder of a folder or a small random one, and all sentences.

    Raises ``ValueError`` for a bad model, or data without sentences.
    """
    found = random_encoder() if model is None else encoder.read(model)
    sets = sentiment_data.EMBEDDED if data is None else sentiment_data.read(data)
    tokens, labels = [], []
    for text, label in max(sets.values(), key=len):
        ids = found.tokenizer.encode(text).ids
        if 0 < len(ids) <= min(TOKENS, found.positions):
            tokens.append(np.array(ids))
            labels.append(label)
    if len({*labels}) < 2:
        raise ValueError(f"there must be sentences of both classes of at most {TOKENS} tokens")
    program, parameters = transformers.encoder(
        found.parameters, transformers.Encoder(heads=found.heads, epsilon=found.epsilon)
    )
    floating = FloatEngine(program, parameters)
    for each in tokens[:: max(1, len(tokens) // CALIBRATION)]:
        floating.start()
        floating.run(each)
    program = calibrated(program, floating.peaks)
    tables = {name for op in program.operations if isinstance(op, Embed) for name in op.parameters}
    packed: dict[str, Integers] = {}
    matrices = {n: of.weights for n, of in parameters.items() if of.weights.ndim == 2}
    shown = bar.add_task("trellis code", total=len(matrices))
    for name, weights in matrices.items():
        if name in tables:
            packed[name] = pack("plain", weights).integers()
        else:
            keep = max(1, round(settings.share * weights.size))
            packed[name] = pack("trellis", weights, keep=keep).integers()
        bar.advance(shown)
    whole = trainable(integers(program, parameters, packed), settings.fraction)
    engine = StreamEngine(program, whole)
    of = np.array(labels)
    return Tuning(engine, tokens, of, fitted_head(_vectors(engine, engine, tokens), of))


def train(
    tuning: Tuning, program: Tuned, settings: Settings, done: Callable[[], None] = lambda: None
) -> Iterator[tuple[Step, float, float]]:
    """Yield each step, and the losses of its two passes."""
    rng = np.random.default_rng(settings.seed)
    eps = settings.units(settings.eps)
    for _ in range(settings.steps):
        seed = int(rng.integers(1, 1 << SIGN_BITS))
        count = min(settings.batch, len(tuning.sentences))
        numbers = rng.choice(len(tuning.sentences), count, replace=False)
        losses = []
        for delta in deltas(eps, 0)[:2]:
            program.tune(seed=seed, delta=delta)
            losses.append(tuning.loss(program, numbers))
            done()
        change = settings.change(losses[0] - losses[1])
        program.tune(seed=seed, delta=deltas(eps, change)[2])
        yield Step(seed, change), losses[0], losses[1]


def run_tuning(
    model: Path | None, data: Path | None, out: Path, *, settings: Settings, build: Path,
    console: Console | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Tune kept weights in the emitted core; write ``out/sentiment_rtl.json`` and the log.

    Every vector equals the model's, bit for bit, before and after each change of the weights in
    memory. The log is replayed, and gives the final weights. Returns the content of the JSON file.
    Raises ``ValueError`` for a bad model, data or setting.
    """
    out.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True, quiet=console is None)
    with Bar(console=progress) as bar:
        tuning = made(model, data, settings, bar)
    every = np.arange(len(tuning.sentences))
    if len(every) > 4 * settings.batch:
        # Losses before and after are of some sentences, as each pass of the core takes its time.
        every = np.random.default_rng(settings.seed).permutation(every)[: 4 * settings.batch]
    block = max(map(len, tuning.sentences))
    with emitted_program(
        tuning.engine, block=block, context=block, vectors=VECTORS, build=build, console=progress
    ) as core:
        assert core.tuner
        first = core.tuner.words.copy()
        before = tuning.loss(core, every)
        with Bar(console=progress) as bar:
            shown = bar.add_task("passes", total=2 * settings.steps)
            steps = list(train(tuning, core, settings, lambda: bar.advance(shown)))
        after = tuning.loss(core, every)
        eps, config, final = settings.units(settings.eps), core.config, core.tuner.words
        text = tuning_log(config, eps, first, [step for step, *_ in steps], final)
    write_atomic(out / "sentiment_rtl.log", text)
    assert (replayed(config, first, text) == final).all()
    result = {
        "command": "seedbed demo sentiment --rtl" + (" --model DIR" if model else "")
        + (" --data DIR" if data else "") + f" --steps {settings.steps} --batch {settings.batch}",
        "tuned": sum(len(of.kept.rows) for of in tuning.engine.parameters.values() if of.kept),
        "fraction": settings.fraction, "sentences": len(every), "before": before, "after": after,
        "tune_cycles": core.tunings, "losses": [each[1:] for each in steps],
        "changes": [step.change for step, *_ in steps],
    }  # fmt: skip
    write_atomic(out / "sentiment_rtl.json", json.dumps(result, indent=1) + "\n")
    if console is not None:
        _show(result, core, console)
    return result


def _show(result: dict[str, Any], core: Any, console: Console) -> None:
    console.print(
        f"{result['tuned']:,} kept weights tuned in memory in {len(result['changes'])} steps; "
        f"each command took {max(result['tune_cycles']):,} cycles at most. The loss of "
        f"{result['sentences']} sentences was {result['before']:.4f}, and is "
        f"{result['after']:.4f}. The log is replayed to the same weights.",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    del core.blocks[:-1]
    show_blocks(core, console)
