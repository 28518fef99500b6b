"""An encoder of sentences in float, in integers, and with weights of 4 bits.

The model is a program of the streamed engine. In integers, every vector has a format that is chosen
on other sentences, and the matrices have 8 bits with a scale a row, or a trellis code of 4 bits.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from seedbed.flow.importer.program_formats import (
    calibrated,
    integers,
    rows_as_integers,
    rows_of_a_trellis,
)
from seedbed.flow.importer.transformers import Encoder
from seedbed.flow.importer.transformers import encoder as program_of
from seedbed.flow.run.progress import Bar
from seedbed.golden.stream_engine import FloatEngine, Integers, StreamEngine
from seedbed.spec.trellis import TrellisConfig
from seedbed.studies import encoder

__all__ = ["run_sentences"]

#: The formats of every vector are chosen on these.
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
CODE = TrellisConfig(bits=4, state_bits=12)


def run_sentences(folder: Path, console: Console) -> list[np.ndarray]:
    """Print the nearest sentence of each, by every sort of arithmetic; return the vectors.

    Raises ``ValueError`` for a folder without an encoder.
    """
    model = encoder.read(folder)
    program, parameters = program_of(
        model.parameters, Encoder(heads=model.heads, epsilon=model.epsilon)
    )
    floating = FloatEngine(program, parameters)
    matrices = {name: of.weights for name, of in parameters.items() if of.weights.ndim == 2}
    work = len(CALIBRATION) + 3 * len(SENTENCES) + 2 * len(matrices)
    with Bar(console=console) as bar:
        task = bar.add_task("calibrating", total=work)

        def vectors(engine: FloatEngine | StreamEngine, lines: tuple[str, ...]) -> np.ndarray:
            found = []
            for line in lines:
                engine.start()
                tokens = model.tokenizer.encode(line).ids[: model.positions]
                (mean,) = engine.run(np.array(tokens))
                found.append(mean / np.linalg.norm(mean))
                bar.advance(task)
            return np.array(found)

        def weights(bits: int) -> Iterator[tuple[str, Integers]]:
            for name, rows in matrices.items():
                coded = bits == CODE.bits and name not in ("words", "positions")
                yield name, rows_of_a_trellis(CODE, rows) if coded else rows_as_integers(rows, 8)
                bar.advance(task)

        vectors(floating, CALIBRATION)
        program = calibrated(program, floating.peaks)
        found = [vectors(floating, SENTENCES)]
        for bits in (8, 4):
            bar.update(task, description=f"{bits} bits")
            engine = StreamEngine(program, integers(program, parameters, dict(weights(bits))))
            found.append(vectors(engine, SENTENCES))
    console.print(_table(found))
    for name, each in zip(("8 bits", "4 bits"), found[1:], strict=True):
        cosines = (each * found[0]).sum(axis=1)
        console.print(
            f"{name}, in integers: a cosine of {cosines.mean():.5f} to float, "
            f"{cosines.min():.5f} at least."
        )
    return found


def _table(found: list[np.ndarray]) -> Table:
    """Return the sentences, and the number and the cosine of the nearest of each."""
    table = Table("", "sentence", "float", "integers, 8 bits", "integers, 4 bits")
    nearest = []
    for vectors in found:
        cosines = vectors @ vectors.T
        np.fill_diagonal(cosines, -1)
        nearest.append([f"{c.argmax() + 1}: {c.max():.3f}" for c in cosines])
    for k, line in enumerate(SENTENCES):
        table.add_row(str(k + 1), line, *(each[k] for each in nearest))
    return table
