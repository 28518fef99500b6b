"""Models that judge compressed matrices: by their outputs on texts, compared with float32.

Of each text, the first lines are judged. Later lines of the first text, in parts, give the second
moments of the inputs of each matrix. A folder has the model, and texts ``*.txt``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from seedbed.flow.jobs.lm_task import TENSORS, load, second_moments
from seedbed.studies import decoder, encoder
from seedbed.studies.lm import DAMPINGS, PARTS, judge, parts_of

__all__ = ["MEASURES", "Model", "opened"]

#: What texts are judged by, and whether it is a cost. The first one that a model has is its own.
MEASURES = ("divergence", "cosine", "perplexity")
#: Lines of a part that gives second moments, for each judged line, and damping, of the models of
#: the modules :mod:`seedbed.studies.decoder` and :mod:`seedbed.studies.encoder`.
LINES_OF_A_PART = 4
DAMPING = 0.03
#: A vocabulary of words, one a line: no text.
WORDS = "vocab.txt"
Parameters = Mapping[str, np.ndarray]


class Model(ABC):
    """A model with texts. ``parts`` are lines of the first text, which give second moments."""

    parameters: Parameters
    #: What is added to the diagonal of second moments, as a share of its mean.
    dampings: Sequence[float] = (DAMPING,)
    parts: Sequence[list]
    #: A glob pattern for the names of the matrices that are compressed.
    pattern: str

    @property
    def matrices(self) -> dict[str, np.ndarray]:
        """The matrices that are compressed, by name."""
        found = {n: v for n, v in self.parameters.items() if fnmatchcase(n, self.pattern)}
        return {n: v for n, v in found.items() if v.ndim == 2}

    @abstractmethod
    def digest(self) -> str:
        """Return a digest of the model and its texts."""

    @abstractmethod
    def moments(self, part: int) -> dict[str, np.ndarray]:
        """Return the second moments of the inputs of each matrix, by one of the parts."""

    @abstractmethod
    def compared(self, parameters: Parameters) -> dict[str, dict[str, float]]:
        """Return what each text is judged by, as ``{measure: {text: value}}``."""


@lru_cache(maxsize=1)
def opened(folder: Path, lines: int) -> Model | None:
    """Return the model and the texts of a folder, with so many judged lines; or ``None``."""
    if (folder / "vocab.json").exists():
        return _Characters(folder, lines)
    if folder.is_dir() and (files := sorted(folder.glob("*.gguf"))):
        return _Decoder(folder, lines, decoder.read(files[0]))
    if (folder / "tokenizer.json").exists() and (folder / "config.json").exists():
        return _Encoder(folder, lines, encoder.read(folder)) if any(_texts(folder)) else None
    return None


def _texts(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.txt")) if path.name != WORDS)


class _Characters(Model):
    """The language model of :mod:`seedbed.golden.language_model`."""

    dampings, pattern = DAMPINGS, TENSORS

    def __init__(self, folder: Path, lines: int) -> None:
        task = load(folder, lines * (1 + PARTS))
        self.parameters = task.parameters
        found = sha256(f"{lines}".encode())
        for name, value in sorted(task.parameters.items()):
            found.update(name.encode() + value.tobytes())
        for name, (contexts, targets) in task.texts.items():
            found.update(name.encode() + contexts.tobytes() + targets.tobytes())
        self._digest = found.hexdigest()
        self.parts = parts_of(task.lines[task.statistics], lines, PARTS)
        self._judged = {n: judge(task.parameters, each[:lines]) for n, each in task.lines.items()}

    def digest(self) -> str:
        return self._digest

    def moments(self, part: int) -> dict[str, np.ndarray]:
        return second_moments(dict(self.parameters), self.parts[part], lambda: None)

    def compared(self, parameters: Parameters) -> dict[str, dict[str, float]]:
        found = {n: text.compared(dict(parameters)) for n, text in self._judged.items()}
        return {
            what: {name: each[k] for name, each in found.items()}
            for k, what in enumerate(("perplexity", "divergence"))
        }


class _Transformer(Model):
    """What the models of the two modules have in common: the lines of their texts."""

    def __init__(self, folder: Path, lines: int, model: decoder.Decoder | encoder.Encoder) -> None:
        self.parameters = model.parameters
        self._lines, self._moments = lines, model.second_moments
        found = {p.stem: [n for n in p.read_text().splitlines() if n] for p in _texts(folder)}
        found = {name: each for name, each in found.items() if each}
        if not found:
            raise ValueError(f"{folder} has no text: a file *.txt with lines")
        first = next(iter(found.values()))[: lines * (1 + PARTS * LINES_OF_A_PART)]
        self.parts = parts_of(first, lines, PARTS)
        self.texts = {name: each[:lines] for name, each in found.items()}

    def digest(self) -> str:
        found = sha256(repr([self._lines, self.texts, self.parts]).encode())
        for name, value in sorted(self.parameters.items()):
            found.update(name.encode() + value.tobytes())
        return found.hexdigest()

    def moments(self, part: int) -> dict[str, np.ndarray]:
        return self._moments(self.parts[part])


class _Decoder(_Transformer):
    """A language model of :mod:`seedbed.studies.decoder`."""

    pattern = decoder.MATRICES

    def __init__(self, folder: Path, lines: int, model: decoder.Decoder) -> None:
        super().__init__(folder, lines, model)
        self._model = model

    @cached_property
    def _logs(self) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
        """The tokens of each text, and the float model's logarithms."""
        return {
            name: [
                (tokens, self._model.log_probabilities(self.parameters, tokens))
                for tokens in self._model.tokens(lines)
            ]
            for name, lines in self.texts.items()
        }

    def compared(self, parameters: Parameters) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {"divergence": {}, "perplexity": {}}
        for name, parts in self._logs.items():
            divergences, losses = [], []
            for tokens, wanted in parts:
                logs = self._model.log_probabilities(parameters, tokens)
                divergences.append((np.exp(wanted) * (wanted - logs)).sum(axis=1))
                losses.append(-np.take_along_axis(logs[:-1], tokens[1:, None], 1))
            found["divergence"][name] = float(np.concatenate(divergences).mean(dtype=np.float64))
            loss = np.concatenate(losses).mean(dtype=np.float64)
            found["perplexity"][name] = float(np.exp(loss))
        return found


class _Encoder(_Transformer):
    """An encoder of sentences of :mod:`seedbed.studies.encoder`: each line is one."""

    pattern = encoder.MATRICES

    def __init__(self, folder: Path, lines: int, model: encoder.Encoder) -> None:
        super().__init__(folder, lines, model)
        self._model = model

    @cached_property
    def _vectors(self) -> dict[str, np.ndarray]:
        vectors = self._model.vectors
        return {name: vectors(self.parameters, lines) for name, lines in self.texts.items()}

    def compared(self, parameters: Parameters) -> dict[str, dict[str, float]]:
        found = {}
        for name, wanted in self._vectors.items():
            vectors = self._model.vectors(parameters, self.texts[name])
            found[name] = float((wanted * vectors).sum(axis=1).mean(dtype=np.float64))
        return {"cosine": found}
