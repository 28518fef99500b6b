"""What the demonstration of sentiment trains on: sentences, an encoder, masks, and a 4-bit base."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np

from seedbed.flow.importer.packed_rows import pack
from seedbed.flow.jobs.kept_tuning import fitted_head
from seedbed.flow.run.cache import code, kept
from seedbed.flow.run.files import atomic_path
from seedbed.flow.run.progress import Bar
from seedbed.studies import encoder, sentiment_data
from seedbed.studies.encoder import Encoder
from seedbed.studies.sentiment_job import Base, Task
from seedbed.studies.sentiment_layer import MATRICES, Layer, Sentences

__all__ = ["TOKENS", "TRELLIS", "Text", "prepare", "random_encoder", "sentences"]

#: Tokens of a sentence at most, its ends included.
TOKENS = 16
#: Sentences of a class that are held out, a third at most, and of the other text.
HELD, OTHER = 250, 150
#: The base whose matrices have a trellis code of 4 bits.
TRELLIS = "trellis"
#: Sizes of the random encoder, and its words.
WIDTH, MIDDLE, HEADS, LAYERS, WORDS = 32, 64, 4, 2, 509


class _Words:
    """A tokenizer of the random encoder: words, numbered by their hashes, between two ends."""

    def encode(self, text: str) -> SimpleNamespace:
        words = (2 + crc32(word.encode()) % (WORDS - 2) for word in text.lower().split())
        return SimpleNamespace(ids=[0, *words, 1])


def random_encoder() -> Encoder:
    """Return a small encoder with random weights."""
    rng = np.random.default_rng(1)
    parameters: dict[str, np.ndarray] = {}

    def draw(name: str, *shape: int) -> None:
        scale = 1.0 if len(shape) == 1 or name.startswith("emb") else shape[-1] ** -0.5
        parameters[f"{name}.weight"] = (scale * rng.normal(size=shape)).astype(np.float32)

    def norm(name: str) -> None:
        parameters[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        parameters[f"{name}.bias"] = np.zeros(WIDTH, np.float32)

    rows = {"word": WORDS, "position": TOKENS, "token_type": 2}
    for name, count in rows.items():
        draw(f"embeddings.{name}_embeddings", count, WIDTH)
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        shapes = dict.fromkeys(MATRICES, (WIDTH, WIDTH))
        shapes |= {"intermediate.dense": (MIDDLE, WIDTH), "output.dense": (WIDTH, MIDDLE)}
        for name, shape in shapes.items():
            draw(at + name, *shape)
            parameters[f"{at}{name}.bias"] = np.zeros(shape[0], np.float32)
        norm(f"{at}attention.output.LayerNorm")
        norm(f"{at}output.LayerNorm")
    return Encoder(parameters, LAYERS, HEADS, 1e-12, TOKENS, _Words())


@dataclass(frozen=True)
class Text:
    """Sentences of one set, and of all others: each by class, in a random order.

    The first ``held`` of a class are held out.
    """

    name: str
    own: list[list[str]]
    other: list[list[str]]
    held: int

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which sentences are drawn from, and which are held out: class 0 comes first."""
        first = len(self.own[0])
        places = [np.arange(first), first + np.arange(len(self.own[1]))]
        pool = np.concatenate([each[self.held :] for each in places])
        return pool, np.concatenate([each[: self.held] for each in places])


def sentences(model: Encoder, data: Path | None, k: int) -> Text:
    """Return the set of ``data`` with the most short sentences, or of the embedded ones.

    Raises ``ValueError`` for a set with fewer than ``k`` sentences of a class to draw from.
    """
    sets = sentiment_data.EMBEDDED if data is None else sentiment_data.read(data)
    short = {name: _short(model, lines) for name, lines in sets.items()}
    sizes = {name: min(map(len, classes)) for name, classes in short.items()}
    name = max(sizes, key=lambda each: sizes[each])
    count = sizes[name]
    held = min(HELD, count // 3)
    if not held or k > count - held:
        raise ValueError(
            f"{k} sentences of a class need {k * 3 // 2 or 3} or more of at most "
            f"{TOKENS} tokens, of which a third is held out; {name} has {count}"
        )
    rng = np.random.default_rng(0)
    own = [_drawn(rng, classes, len(classes)) for classes in short[name]]
    others = [classes for other, classes in short.items() if other != name]
    rest = [[line for classes in others for line in classes[label]] for label in (0, 1)]
    return Text(name, own, [_drawn(rng, classes, OTHER) for classes in rest], held)


def prepare(
    model: Path | None, data: Path | None, ks: tuple[int, ...], out: Path, bar: Bar, *,
    trellis: bool, batch: int,
) -> tuple[Task, dict[str, Any]]:  # fmt: skip
    """Return what is trained on, and what is known of it: names and numbers of sentences.

    Raises ``ValueError`` for a bad model, or for data with too few sentences.
    """
    found = random_encoder() if model is None else encoder.read(model)
    text = sentences(found, data, max(ks))
    own, other = text.own, text.other
    if not min(map(len, other)):
        raise ValueError("there must be two sets of sentences or more: one gives the mask")
    lines = [*own[0], *own[1], *other[0], *other[1]]
    labels = np.repeat([0, 1, 0, 1], [len(each) for each in (*own, *other)])
    count = sum(map(len, own))
    pool, held = text.numbers()
    mask = np.arange(count, len(lines))
    bases = {"float": _base(found, found.parameters, lines, labels, bar)}
    if trellis:
        packed = _packed(found, [lines[n] for n in mask], out, bar)
        bases[TRELLIS] = _base(found, packed, lines, labels, bar)
    task = Task(
        bases=bases, orders=_orders(bases["float"], mask, bar), batch=batch,
        pool=pool, held=held,
    )  # fmt: skip
    return task, {
        "set": text.name, "sentences": [len(each) for each in own], "held": len(task.held),
        "other": len(mask), "tokens": float(bases["float"].sentences.lengths[:count].mean()),
    }  # fmt: skip


def _short(model: Encoder, sentences: list[tuple[str, int]]) -> list[list[str]]:
    """Return the sentences of each class that are short enough."""
    found: list[list[str]] = [[], []]
    most = min(TOKENS, model.positions)
    for text, label in sentences:
        # A word has a token or more, so that long texts need no tokenizer.
        likely = text.strip() and len(text.split()) < most
        if likely and len(model.tokenizer.encode(text).ids) <= most:
            found[label].append(text)
    return found


def _drawn(rng: np.random.Generator, lines: list[str], count: int) -> list[str]:
    return [lines[n] for n in rng.permutation(len(lines))[:count]]


def _base(
    model: Encoder, parameters: Mapping[str, np.ndarray], lines: list[str], labels: np.ndarray,
    bar: Bar,
) -> Base:  # fmt: skip
    """Return the last layer, and its inputs: all layers below are computed once."""
    shown = bar.add_task("layers below", total=len(lines))
    inputs = []
    for line in lines:
        tokens = np.array(model.tokenizer.encode(line).ids)
        inputs.append(model.hidden(parameters, tokens, model.layers - 1))
        bar.advance(shown)
    prefix = f"encoder.layer.{model.layers - 1}."
    own = {n.removeprefix(prefix): v for n, v in parameters.items() if n.startswith(prefix)}
    lengths = np.array([len(each) for each in inputs])
    sentences = Sentences(np.concatenate(inputs), lengths, labels)
    return Base(Layer(own, model.heads, model.epsilon), sentences)


def _orders(base: Base, others: np.ndarray, bar: Bar) -> dict[str, np.ndarray]:
    """Return the places of the weights for each mask, the first to keep first.

    The squared gradients are sums over the sentences of the other text, with a head of that text.
    """
    matrices = base.layer.matrices
    text = base.sentences.select(others)
    head = fitted_head(base.layer.means(matrices, text), text.labels)
    squares = np.zeros(matrices.shape)
    shown = bar.add_task("mask", total=len(others))
    for number in others:
        _, slopes = base.layer.gradient(matrices, head, base.sentences.select(np.array([number])))
        squares += slopes.astype(np.float64) ** 2
        bar.advance(shown)
    keys = {
        "sensitive": squares.reshape(-1),
        "magnitude": np.abs(matrices.reshape(-1)),
        "random": np.random.default_rng(1).random(matrices.size),
    }
    return {n: np.argsort(-key, kind="stable").astype(np.int32) for n, key in keys.items()}


def _packed(model: Encoder, lines: list[str], out: Path, bar: Bar) -> dict[str, np.ndarray]:
    """Return the parameters with all matrices of layers in 4 bits, by the trellis code.

    Errors of columns change later columns, by the inputs on ``lines``. The result is kept in
    ``out``.
    """
    names = [n for n, v in model.parameters.items() if n.startswith("encoder.") and v.ndim == 2]
    path = out / "trellis.npz"

    def compute() -> None:
        moments = model.second_moments(lines)
        shown = bar.add_task("trellis code", total=len(names))
        found = {}
        for name in names:
            of = pack(TRELLIS, model.parameters[name], moments[name]).integers()
            values = of.weights.astype(np.float64) * of.multipliers[:, None]
            found[name] = np.ldexp(values, -of.fraction).astype(np.float32)
            bar.advance(shown)
        with atomic_path(path) as part, part.open("wb") as file:
            np.savez(file, **found)

    key = {
        "lines": lines, "code": code("seedbed.flow.importer.packed_rows"),
        "weights": [float(np.abs(model.parameters[n]).sum(dtype=np.float64)) for n in names],
    }  # fmt: skip
    kept(out / "cache", "trellis", key, compute, path)
    with np.load(path) as file:
        return {**model.parameters, **{name: file[name] for name in names}}
