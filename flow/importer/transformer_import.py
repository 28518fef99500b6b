"""Imports of transformers: a program, its formats by calibration, and the image of its weights."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

import numpy as np
from rich.console import Console

from seedbed.flow.importer import transformers
from seedbed.flow.importer.packed_rows import COMPRESSED, FED_BACK, PackedRows, bytes_of_a_row, pack
from seedbed.flow.importer.program_file import (
    IMAGE,
    PROGRAM,
    TOKENIZER,
    Place,
    document,
    places,
    require_tokens,
)
from seedbed.flow.importer.program_formats import calibrated, integers
from seedbed.flow.importer.transformer_files import Transformer
from seedbed.flow.run.files import atomic_path, os_error_path, write_atomic
from seedbed.flow.run.progress import throughput_bar
from seedbed.golden.stream_engine import FloatEngine, Integers, Reals
from seedbed.spec.stream_engine import Attend, Embed, Matrix, Norm, Operation, Program

__all__ = ["CALIBRATION", "FORMATS", "Plan", "plan", "text_of", "write"]

#: Formats of matrices: of compression, int8, or those of a GGUF file.
FORMATS = (*COMPRESSED, "plain", "file")
#: The formats of every vector are chosen on these, if there is no other text.
CALIBRATION = (
    "The committee will publish its report on water quality next month.",
    "She plays the violin in a small orchestra.",
    "Rain is expected in the north, with strong winds on the coast.",
    "How do I reset the password of my account?",
    "The battery lasts about ten hours when the screen is dimmed.",
    "Two dogs run across a field of snow.",
    "Prices of wheat and corn rose for the third week in a row.",
    "The museum is closed on Mondays.",
)
#: The matrix of logits of a decoder, as transformers calls it.
HEAD = "lm_head"
#: A folder of finished matrices, in that of the output.
PARTS = ".seedbed-parts"


def text_of(path: Path) -> str:
    """Return a text. Raises ``ValueError`` with the name of a file that is none, or is empty."""
    try:
        found = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path} is no text in UTF-8") from problem
    if not found.strip():
        raise ValueError(f"{path} has no text")
    return found


@dataclass(frozen=True)
class Plan:
    """What an import will write: the program without formats, and the place of each parameter."""

    model: Transformer
    program: Program
    parameters: dict[str, Reals]
    places: dict[str, Place]
    image: int

    @property
    def positions(self) -> int:
        """Tokens that the program sees at most."""
        tables = [
            len(self.parameters[op.positions].weights)
            for op in self.program.operations
            if isinstance(op, Embed) and op.positions
        ]
        return min([self.model.positions, *tables])


def plan(model: Transformer, form: str, keep: float = 0, *, pack_head: bool = False) -> Plan:
    """Return what an import of a model will write, with matrices in one of :data:`FORMATS`.

    ``keep`` is the share of a matrix's weights that are kept. Tables of embeddings and, without
    ``pack_head``, the matrix of a decoder's logits are ``plain``, or those of the file. Raises
    ``ValueError`` with the name of a tensor that the program or the format does not take.
    """
    try:
        if isinstance(model.model, transformers.Encoder):
            program, parameters = transformers.encoder(model.tensors, model.model)
        else:
            program, parameters = transformers.decoder(model.tensors, model.model)
        if pack_head:
            program = _with_head(program, parameters)
        formats = _formats(model, program, parameters, form, pack_head=pack_head)
    except ValueError as problem:
        # The file has perhaps other names.
        text = re.sub(
            r"[\w.]+\.weight", lambda found: model.names.get(found[0], found[0]), str(problem)
        )
        raise ValueError(f"{model.path}: {text}") from problem
    shapes, biased = {}, {}
    for name, of in parameters.items():
        rows, columns = of.weights.shape if of.weights.ndim == 2 else (1, len(of.weights))
        shapes[name] = rows, columns
        if of.biases is not None:
            biased[name] = len(of.biases)
    rows_of = {name: rows for name, (rows, _) in shapes.items()}
    require_tokens(model.path, program, rows_of, model.tokenizer)
    found, image = places(shapes, formats, biased, keep)
    return Plan(model, program, parameters, found, image)


def _with_head(program: Program, parameters: dict[str, Reals]) -> Program:
    """Return a program whose matrix of logits is no table: a copy, if it was that of tokens."""
    *before, last = program.operations
    assert isinstance(last, Matrix)
    if not any(last.weights in op.parameters for op in before):
        return program
    parameters[HEAD] = parameters[last.weights]
    return replace(program, operations=(*before, replace(last, weights=HEAD)))


def _formats(
    model: Transformer, program: Program, parameters: dict[str, Reals], form: str, *,
    pack_head: bool,
) -> dict[str, str]:  # fmt: skip
    """Return the format of each parameter."""
    found = {}
    for op in program.operations:
        for name in op.parameters:
            if isinstance(op, Norm):
                found[name] = "gains"
            elif form == "file":
                if f"{name}.weight" not in model.blocks:
                    raise ValueError(
                        f"the tensor {name}.weight is not of Q8_0, Q4_0 or Q4_1, which the format "
                        "file takes unchanged; give another --format"
                    )
                found[name], _ = model.blocks[f"{name}.weight"]
            elif isinstance(op, Embed) or (op.target == program.result and not pack_head):
                found[name] = "plain"
            else:
                found.setdefault(name, form)
    for name, each in found.items():
        if each != "gains":
            try:
                bytes_of_a_row(each, parameters[name].weights.shape[1])
            except ValueError as problem:
                raise ValueError(f"the tensor {name}.weight: {problem}") from problem
    return found


class _Observed(FloatEngine):
    """Sums x x' over the inputs x of the matrices in some formats, by the vector's name.

    Of a matrix whose results are values of attention, x is each mixture of inputs that a head makes
    for a token: what is seen of the values is their mixtures, and some tokens have most of these.
    """

    def __init__(self, plan: Plan, formats: Sequence[str]):
        #: The vector of each matrix, and the first matrix of each vector.
        self.sources = {
            op.weights: op.source
            for op in plan.program.operations
            if isinstance(op, Matrix) and plan.places[op.weights].format in formats
        }
        self._first = {source: name for name, source in reversed(self.sources.items())}
        #: By the vector's name, and those of the mixtures by the matrix.
        self.moments: dict[str, np.ndarray] = {}
        self.mixtures: dict[str, np.ndarray] = {}
        super().__init__(plan.program, plan.parameters)

    def start(self) -> None:
        super().start()
        #: The matrix that made a vector, and its inputs for all tokens so far, by operation.
        self._made: dict[str, tuple[str, int]] = {}
        self._inputs: dict[int, np.ndarray] = {}

    def written(self, operation: Operation) -> None:
        super().written(operation)
        name = getattr(operation, "weights", "")
        source = self.sources.get(name, "")
        if not source:
            return
        x = self.vectors[source].astype(np.float32)
        if self._first.get(source) == name:
            self.moments[source] = self.moments.get(source, np.float32(0)) + x.T @ x
        self._made[operation.target] = name, self._place
        before = self._inputs.get(self._place, x[:0])
        self._inputs[self._place] = np.concatenate([before, x])

    def mixing(self, operation: Attend, shares: np.ndarray) -> None:
        name, place = self._made.get(operation.value, ("", 0))
        if name:
            x = shares.astype(np.float32) @ self._inputs[place]
            self.mixtures[name] = self.mixtures.get(name, np.float32(0)) + x.T @ x

    def of(self, name: str) -> np.ndarray | None:
        """Return the moments of a matrix, or ``None``."""
        return self.mixtures.get(name, self.moments.get(self.sources.get(name, "")))


def write(
    plan: Plan, out: Path, texts: Sequence[str], console: Console | None, *, feedback: bool = False
) -> None:
    """Write the files of an import to a folder.

    Matrices that an interrupted run with the same input has finished are not packed again.

    Parameters
    ----------
    plan
        What is written.
    out
        Created if needed.
    texts
        The formats of vectors are chosen on these.
    console
        Output of the progress; ``None`` for none.
    feedback
        The errors of columns change later ones, by the inputs of each matrix on the texts.
    """
    model, weights = plan.model, {}
    parts = out / PARTS
    _start(plan, parts, texts if feedback else ())
    engine = _Observed(plan, FED_BACK if feedback else ())
    program = _calibrated(plan, texts, engine, console)
    matrices = {n: of.weights for n, of in plan.parameters.items() if of.weights.ndim == 2}
    with throughput_bar(console, "weights") as bar:
        task = bar.add_task("packing", total=sum(each.size for each in matrices.values()))
        for k, (name, each) in enumerate(matrices.items()):
            weights[name] = _rows(plan, name, each, engine.of(name), parts / f"{k}.npz")
            bar.advance(task, each.size)
    found = {name: each.integers() for name, each in weights.items()}
    parameters = integers(program, plan.parameters, found)
    exponents = {name: each.exponent for name, each in weights.items()}
    final = {
        name: replace(place, exponent=exponents.get(name, -parameters[name].fraction))
        for name, place in plan.places.items()
    }
    with atomic_path(out / IMAGE) as part, os_error_path(part), part.open("wb") as file:
        file.truncate(plan.image)
        for name, place in final.items():
            of = parameters[name]
            _put(file, place.offset, weights[name].raw if name in weights else _numbers(of))
            if of.biases is not None:
                _put(file, place.biases, of.biases.astype("<i4"))
            if place.kept_weights:
                _put(file, place.kept, weights[name].kept)
    write_atomic(out / TOKENIZER, model.tokenizer.to_str())
    # It is the last: a folder with it is complete.
    write_atomic(out / PROGRAM, document(program, final, model.ends, plan.positions))
    rmtree(parts)


def _numbers(of: Integers) -> np.ndarray:
    return of.weights.astype("<i4")


def _put(file, offset: int, values: np.ndarray) -> None:
    file.seek(offset)
    file.write(np.ascontiguousarray(values).tobytes())


def _calibrated(
    plan: Plan, texts: Sequence[str], engine: FloatEngine, console: Console | None
) -> Program:
    with throughput_bar(console, "texts") as bar:
        task = bar.add_task("calibrating", total=len(texts))
        for text in texts:
            tokens = plan.model.tokens(text)[: plan.positions]
            if len(tokens):
                engine.start()
                engine.run(tokens)
            bar.advance(task)
    if not engine.peaks:
        raise ValueError("the text of the calibration must have a token")
    return calibrated(plan.program, engine.peaks)


def _start(plan: Plan, parts: Path, texts: Sequence[str]) -> None:
    """Keep the finished matrices of an earlier run if its input was the same."""
    path = plan.model.path
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stamps = [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files if f.is_file()]
    digest = sha256(repr((stamps, plan.places, texts)).encode()).hexdigest()
    input_ = parts / "input"
    if not input_.is_file() or input_.read_text() != digest:
        rmtree(parts, ignore_errors=True)
        write_atomic(input_, digest)


def _rows(
    plan: Plan, name: str, weights: np.ndarray, moments: np.ndarray | None, path: Path
) -> PackedRows:
    """Return the packed rows of a matrix, from a file if it is there."""
    place = plan.places[name]
    form = place.format
    blocks = plan.model.blocks
    if form not in ("plain", *COMPRESSED):
        return PackedRows(form, blocks[f"{name}.weight"][1], weights.shape[1])
    if path.is_file():
        with np.load(path) as file:
            exponent = int(file["exponent"])
            return PackedRows(form, file["raw"], weights.shape[1], exponent, file["kept"])
    found = pack(form, weights, moments, place.kept_weights)
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez(file, raw=found.raw, exponent=found.exponent, kept=found.kept)
    return found
