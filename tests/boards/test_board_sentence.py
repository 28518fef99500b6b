"""The application ``sentence`` on the virtual board."""

from pathlib import Path

import numpy as np
import pytest
from small_transformers import write_bert

from seedbed.boards import apps, virtual
from seedbed.boards.apps.sentence import MEMORY
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses
from seedbed.boards.sentence_job import Sentences
from seedbed.boards.top import identifier
from seedbed.flow.importer import program_file, transformer_files, transformer_import
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.cases.stream_programs import WORDS, drawn_program
from seedbed.sim.harness import Mismatch

DESIGN = apps.find("sentence", "nano")
TRELLIS = apps.find("sentence", "trellis-nano")


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "sentence-nano", build=Path(kept))


def connect(board, timeout=0.2):
    found = addresses(DESIGN.REGISTERS)
    return Device(board.port, found, identifier=identifier(DESIGN), timeout=timeout)


def drawn(seed=1, size=16, layers=1):
    return drawn_program("encoder", np.random.default_rng(seed), size=size, layers=layers)


def blocks(*counts):
    rng = np.random.default_rng(5)
    return [rng.integers(0, WORDS, count) for count in counts]


@pytest.fixture(scope="module")
def trellis_program(kept):
    return virtual.executable(TRELLIS, "sentence-trellis-nano", build=Path(kept))


@pytest.mark.parametrize(
    ("board", "form", "keep"), [("program", "plain", 0), ("trellis_program", "trellis", 0.01)]
)
def test_an_imported_encoder_from_the_command_line(board, form, keep, request, called, tmp_path):
    """The second run finds the program in the memory."""
    program = request.getfixturevalue(board)
    model = transformer_files.read(write_bert(tmp_path / "model"))
    plan = transformer_import.plan(model, form, keep)
    transformer_import.write(plan, tmp_path / "program", ["the cat has 12 eggs"], None)
    loaded = program_file.read(tmp_path / "program")
    engine = StreamEngine(loaded.program, loaded.parameters)
    coded = [of for of in engine.parameters.values() if of.trellis]
    assert bool(coded) == any((of.weights != of.trellis.weights()).any() for of in coded)
    assert bool(coded) == (form == "trellis")
    texts = ["the cat", "12 eggs"]
    wanted = []
    for text in texts:
        engine.start()
        wanted.append(engine.run(loaded.tokens(text)))
    fraction = loaded.program.vectors[loaded.program.result].fraction
    with virtual.start(program) as board:
        words = ["board", "run", "sentence", "--port", board.port, "--program", "program"]
        words += [part for text in texts for part in ("--text", text)]
        for k, where in enumerate(("is", "was")):
            code, printed, problem = called([*words, "-o", f"{k}.npy"], tmp_path)
            assert (code, problem) == (0, "")
            assert f"bytes, {where} in the memory" in printed
            assert "2 texts, vectors as in the model, bit for bit" in printed
            assert "nearest" in printed
            found = np.load(tmp_path / f"{k}.npy")
            assert (found == np.ldexp(np.concatenate(wanted).astype(float), -fraction)).all()


def test_a_job_ends_the_one_before_and_what_differs_is_found(program):
    first, second = (Sentences(DESIGN.config, drawn(k), blocks(3, 16), MEMORY) for k in (1, 2))
    with virtual.start(program) as board, connect(board) as device:
        # The host goes away in the middle of the program, and then of the texts.
        job = first.job(first.vectors(), stored=False)
        for part in (0.3, 0.99):
            job.start(device)
            device.send(job.words[: int(part * len(job.words))].tolist())
        again = second.job(second.vectors(), stored=False)
        _, words = again.run(device)
        again.require_same(words)
        # Another program is in the memory.
        _, words = first.job(first.vectors(), stored=True).run(device)
        with pytest.raises(Mismatch, match="what the board sent differs from the model"):
            first.job(first.vectors(), stored=True).require_same(words)


@pytest.mark.parametrize(
    ("counts", "options", "sentence"),
    [
        ((17,), {}, r"a text must have 1\.\.16 tokens on this board, not 17"),
        ((0,), {}, r"a text must have 1\.\.16 tokens on this board, not 0"),
        ((1,), {"size": 136}, r"must have at most 256 columns, not 272"),
    ],
)
def test_what_does_not_fit_is_refused(counts, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sentences(DESIGN.config, drawn(**options), blocks(*counts), MEMORY)
