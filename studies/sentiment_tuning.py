"""Kept weights of an encoder that are tuned in the streamed engine, on the sentiment of sentences.

The matrices have a trellis code of 4 bits, and some weights beside it, with fraction bits. They are
tuned in the core's memory by steps of zeroth order with two passes (MeZO, arXiv:2305.17333): the
core perturbs them, computes a vector of each sentence, and updates them; the host computes the loss
from the vectors with a head that stays as it is.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from seedbed.flow.importer import transformers
from seedbed.flow.importer.packed_rows import pack
from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.jobs import kept_tuning
from seedbed.flow.jobs.kept_tuning import FRACTION, LARGE, train
from seedbed.flow.jobs.program_rtl import emitted_program, show_blocks
from seedbed.flow.run.files import write_atomic
from seedbed.flow.run.progress import Bar
from seedbed.golden.kept_weights import fraction_bits, trainable
from seedbed.golden.stream_engine import FloatEngine, Integers, StreamEngine
from seedbed.golden.tuning_log import replayed, tuning_log
from seedbed.spec.checks import require_int
from seedbed.spec.stream_engine import Embed
from seedbed.studies import encoder
from seedbed.studies.sentiment_job import drawn
from seedbed.studies.sentiment_task import random_encoder, sentences

__all__ = ["Settings", "Tuning", "made", "run_tuning", "settings"]

#: Tokens that share a pass over weights in the core.
VECTORS = 4
#: Sentences by which vectors get their formats.
CALIBRATION = 24
#: The share of a matrix's weights that are kept, those that are the largest in their rows: of the
#: small encoder, and of that of a folder.
SHARES = (0.01, 0.001)
#: Kept weights of a row at most, so that its sums have 32 bits whatever they are tuned to.
ROW_MOST = 8


@dataclass(frozen=True, kw_only=True)
class Settings(kept_tuning.Settings):
    """A tuning.

    Parameters
    ----------
    k
        Sentences of a class to train on.
    judged
        Whether held-out sentences are judged, too.

    The others are those of :class:`seedbed.flow.jobs.kept_tuning.Settings`; ``seed`` draws the
    sentences, too.
    """

    k: int = 16
    judged: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("k", self.k, 1, 100_000)


def settings(model: Path | None, **changed: Any) -> Settings:
    """Return what a model is tuned with; one of a folder has many more weights than the small one.

    Each of these then changes less.
    """
    return Settings(**(LARGE if model else {}), **changed)


@dataclass(frozen=True)
class Tuning(kept_tuning.Tuning):
    """The program, and all sentences of a set: their tokens and labels.

    ``pool`` and ``held`` are those to draw from, and those that are held out.
    """

    pool: np.ndarray
    held: np.ndarray

    def drawn(self, settings: Settings) -> np.ndarray:
        """Return the sentences that are trained on."""
        return drawn(self.pool, self.labels, settings.k, settings.seed)


def made(model: Path | None, data: Path | None, k: int, bar: Bar) -> Tuning:
    """Return what is tuned: the encoder of a folder or a small random one, and all sentences.

    Raises ``ValueError`` for a bad model, or data with fewer than ``k`` sentences of a class.
    """
    found = random_encoder() if model is None else encoder.read(model)
    text = sentences(found, data, k)
    tokens = [np.array(found.tokenizer.encode(line).ids) for own in text.own for line in own]
    labels = np.repeat([0, 1], [len(own) for own in text.own])
    pool, held = text.numbers()
    program, parameters = transformers.encoder(
        found.parameters, transformers.Encoder(heads=found.heads, epsilon=found.epsilon)
    )
    floating = FloatEngine(program, parameters)
    for number in pool[:: max(1, len(pool) // CALIBRATION)]:
        floating.start()
        floating.run(tokens[number])
    program = calibrated(program, floating.peaks)
    tables = {name for op in program.operations if isinstance(op, Embed) for name in op.parameters}
    packed: dict[str, Integers] = {}
    matrices = {n: of.weights for n, of in parameters.items() if of.weights.ndim == 2}
    shown = bar.add_task("trellis code", total=len(matrices))
    for name, weights in matrices.items():
        if name in tables:
            packed[name] = pack("plain", weights).integers()
        else:
            keep = max(1, round(SHARES[model is not None] * weights.size))
            packed[name] = pack("trellis", weights, keep=keep, row_most=ROW_MOST).integers()
        bar.advance(shown)
    whole = integers(program, parameters, packed)
    return Tuning(
        StreamEngine(program, trainable(whole, fraction_bits(whole, FRACTION))),
        tokens, labels, pool, held,
    )  # fmt: skip


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
        tuning = made(model, data, settings.k, bar)
    every = tuning.drawn(settings)
    head = tuning.head(every)
    if len(every) > 4 * settings.batch:
        # Losses before and after are of some sentences, as each pass of the core takes its time.
        every = np.random.default_rng(settings.seed).permutation(every)[: 4 * settings.batch]
    block = max(map(len, tuning.sentences))
    with emitted_program(
        tuning.engine, block=block, context=block, vectors=VECTORS, build=build, console=progress
    ) as core:
        assert core.tuner
        first = core.tuner.words.copy()
        before = float(tuning.losses(core, head, every)[0].mean())
        with Bar(console=progress) as bar:
            shown = bar.add_task("passes", total=2 * settings.steps)
            own = tuning.drawn(settings)
            steps = list(train(tuning, core, head, settings, own, lambda: bar.advance(shown)))
        after = float(tuning.losses(core, head, every)[0].mean())
        eps, config, final = tuning.units(settings.eps), core.config, core.tuner.words
        text = tuning_log(config, eps, first, [step for step, *_ in steps], final)
    write_atomic(out / "sentiment_rtl.log", text)
    assert (replayed(config, first, text) == final).all()
    result = {
        "command": "seedbed demo sentiment --rtl" + (" --model DIR" if model else "")
        + (" --data DIR" if data else "")
        + f" --k {settings.k} --steps {settings.steps} --batch {settings.batch}",
        "tuned": tuning.count, "fraction": tuning.fraction, "sentences": len(every),
        "before": before, "after": after,
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
