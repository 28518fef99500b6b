"""An encoder of sentences in float, in integers, and with weights of 4 bits.

The model is a program of the streamed engine. In integers, every vector has a format that is chosen
on other sentences, and the matrices have 8 bits with a scale a row, or a trellis code of 4 bits.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from seedbed.flow.importer import transformer_files, transformer_import
from seedbed.flow.importer.packed_rows import pack
from seedbed.flow.importer.program_formats import calibrated, in_float, integers
from seedbed.flow.importer.transformer_import import CALIBRATION
from seedbed.flow.importer.transformers import Encoder
from seedbed.flow.jobs.program_rtl import emitted_program, show_blocks
from seedbed.flow.run.progress import Bar
from seedbed.golden.stream_engine import FloatEngine, Integers, StreamEngine
from seedbed.studies import operation_shares

__all__ = ["run_sentences"]

#: Each of these is compared with the others.
SENTENCES = (
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "A man is riding a horse.",
    "A man is riding a white horse on an enclosed ground.",
    "The girl is carrying a baby.",
    "A woman holds an infant in her arms.",
    "A monkey is playing drums.",
    "Someone in a gorilla costume is playing a set of drums.",
    "A cheetah is running behind its prey.",
    "The cat chases a mouse through the garden.",
    "Shares fell sharply after the bank raised its interest rate.",
    "The stock market lost four percent on Tuesday.",
)
#: Tokens that share a pass over weights in the core.
VECTORS = 4
#: Formats of the matrices that are compared.
FORMATS = {"8 bits": "plain", "4 bits": "trellis"}


def run_sentences(
    folder: Path, console: Console, *, own: Sequence[str] = (), rtl: bool = False,
    build: Path = Path("build"),
) -> list[np.ndarray]:  # fmt: skip
    """Print the nearest sentence of each, by every sort of arithmetic; return the vectors.

    Those are the ``own`` ones, and then those of :data:`SENTENCES`.

    With ``rtl``, the first sentence runs in the emitted Verilog, too, with matrices of 8 bits and
    with those of 4 bits.
    Raises ``ValueError`` for a folder without an encoder.
    """
    sentences = (*own, *SENTENCES)
    model = transformer_files.read(folder)
    if not isinstance(model.model, Encoder):
        raise ValueError(f"{folder} has no BERT-like encoder")
    plan = transformer_import.plan(model, "trellis")
    floating = FloatEngine(plan.program, plan.parameters)
    matrices = {n: of.weights for n, of in plan.parameters.items() if of.weights.ndim == 2}
    work = len(CALIBRATION) + 5 * len(sentences) + 2 * len(matrices)
    with Bar(console=console) as bar:
        task = bar.add_task("calibrating", total=work)

        def vectors(engine: FloatEngine | StreamEngine, lines: tuple[str, ...]) -> np.ndarray:
            found = []
            for line in lines:
                engine.start()
                (mean,) = engine.run(model.tokens(line)[: plan.positions])
                found.append(mean / np.linalg.norm(mean))
                bar.advance(task)
            return np.array(found)

        def weights(form: str) -> Iterator[tuple[str, Integers]]:
            for name, rows in matrices.items():
                # Tables of embeddings have 8 bits.
                own = plan.places[name].format if form == "trellis" else form
                yield name, pack(own, rows).integers()
                bar.advance(task)

        vectors(floating, CALIBRATION)
        program = calibrated(plan.program, floating.peaks)
        found = [vectors(floating, sentences)]
        same = []
        engines = []
        for bits, form in FORMATS.items():
            bar.update(task, description=bits)
            parameters = integers(program, plan.parameters, dict(weights(form)))
            engines.append(StreamEngine(program, parameters))
            found.append(vectors(engines[-1], sentences))
            same.append(vectors(in_float(program, parameters), sentences))
    console.print(_table(sentences, found))
    for name, each, alike in zip(FORMATS, found[1:], same, strict=True):
        for what, other in (("float", found[0]), ("float with the same weights", alike)):
            cosines = (each * other).sum(axis=1)
            console.print(
                f"{name}, in integers: a cosine of {cosines.mean():.5f} to {what}, "
                f"{cosines.min():.5f} at least.",
                soft_wrap=True,
            )
    if rtl:
        tokens = model.tokens(sentences[0])[: plan.positions]
        for bits, engine in zip(FORMATS, engines, strict=True):
            with emitted_program(
                engine, block=len(tokens), context=len(tokens), vectors=VECTORS, build=build,
                console=Console(stderr=True),
            ) as core:  # fmt: skip
                core.start()
                core.run(tokens)
            console.print(f"{bits}:")
            show_blocks(core, console)
            name = f"{model.path.name}, {bits}"
            operation_shares.add(build / "demo/operations", name, core.blocks[-1], console)
    return found


def _table(sentences: Sequence[str], found: list[np.ndarray]) -> Table:
    """Return the sentences, and the number and the cosine of the nearest of each."""
    table = Table("", "sentence", "float", "integers, 8 bits", "integers, 4 bits")
    nearest = []
    for vectors in found:
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -1)
        nearest.append([f"{c.argmax() + 1}: {c.max():.3f}" for c in cosines])
    for k, line in enumerate(sentences):
        table.add_row(str(k + 1), line, *(each[k] for each in nearest))
    return table
