"""The application ``sentence`` on the virtual board."""

import re
from pathlib import Path

import numpy as np
import pytest
from small_transformers import write_bert

from seedbed.boards import apps, virtual
from seedbed.boards.apps.sentence import MEMORY, _classes, _program, _trainable
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses
from seedbed.boards.sentence_job import Sentences, inputs
from seedbed.boards.streams import packet
from seedbed.boards.top import identifier
from seedbed.flow.importer import program_file, transformer_files, transformer_import
from seedbed.golden.stream_engine import StreamEngine
from seedbed.sim.cases.stream_programs import WORDS, drawn_program
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.stream_job import command

DESIGN = apps.find("sentence", "nano")
TRELLIS = apps.find("sentence", "trellis-nano")


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "sentence-nano", build=Path(kept))


def connect(board, design=DESIGN, timeout=0.2):
    found = addresses(design.REGISTERS)
    return Device(board.port, found, identifier=identifier(design), timeout=timeout)


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


def sentences(engine, *texts):
    found = Sentences(DESIGN.config, engine, MEMORY)
    for tokens in texts:
        found.run(tokens)
    return found


def test_a_job_ends_the_one_before_and_what_differs_is_found(program):
    first, second = (sentences(drawn(k), *blocks(3, 16)) for k in (1, 2))
    with virtual.start(program) as board, connect(board) as device:
        # The host goes away in the middle of the program, and then of the texts.
        job = first.job(stored=False)
        for part in (0.3, 0.99):
            job.start(device)
            device.send(job.words[: int(part * len(job.words))].tolist())
        again = second.job(stored=False)
        _, words = again.run(device)
        again.require_same(words)
        # Another program is in the memory.
        _, words = first.job(stored=True).run(device)
        with pytest.raises(Mismatch, match="what the board sent differs from the model"):
            first.job(stored=True).require_same(words)


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
        sentences(drawn(**options), *blocks(*counts))


TUNES = apps.find("sentence", "tune-nano")


@pytest.fixture(scope="module")
def tuning_program(kept):
    return virtual.executable(TUNES, "sentence-tune-nano", build=Path(kept))


def test_weights_are_tuned_on_the_board_from_the_command_line(tuning_program, called, tmp_path):
    (tmp_path / "classes.txt").write_text("0\ta bore\n1\ta joy\n1\tfine\n")
    with virtual.start(tuning_program) as board:
        words = ["board", "run", "sentence", "--port", board.port, "--text", "a joy"]
        # Each step is by the losses of all texts.
        options = ["--tune", "8", "--batch", "3", "--classes", "classes.txt", "-o", "tuned.npy"]
        code, printed, problem = called([*words, *options], tmp_path)
        assert (code, problem) == (0, "")
        found = re.search(r"the loss of 3 texts was ([\d.]+), and is ([\d.]+), as in", printed)
        assert float(found[2]) < float(found[1])
        # The program was changed: it is sent again, and gives what it gave before.
        code, printed, problem = called([*words, "-o", "before.npy"], tmp_path)
        assert (code, problem) == (0, "")
        assert "bytes, is in the memory" in printed
    assert (np.load(tmp_path / "tuned.npy") != np.load(tmp_path / "before.npy")).any()


def tuned(stop=None):
    """A job that tunes, and runs a text before and after each command."""
    engine = _trainable(_program(None, 4)[0], TUNES.config.tune)
    found = Sentences(TUNES.config, engine, MEMORY)
    (tokens,) = blocks(4)
    for seed, delta in ((3, 500), (4, -900), (5, 77)):
        found.run(tokens)
        found.tune(seed=seed, delta=delta)
    found.run(tokens)
    return found


def test_a_job_that_was_ended_while_weights_are_tuned_harms_no_other(tuning_program):
    """The engine is reset while commands to tune run, and others wait."""
    with virtual.start(tuning_program) as board, connect(board, TUNES) as device:
        job = tuned().job(stored=False)
        begun = Sentences(TUNES.config, tuned().engine, MEMORY)
        begun.run(*blocks(4))
        loaded = begun.job(stored=False)
        first, end = tuned().kept
        fields = {"first": first, "end": end, "seed": 1, "delta": 1}
        # Some of these wait in the board when it is reset.
        commands = np.repeat(command(TUNES.config, "tune", **fields)["i"], 12, axis=0)
        words = [*loaded.words, *packet(inputs(TUNES.config), "command", commands)]
        for _ in range(5):
            loaded.start(device)
            device.send([int(word) for word in words])
        _, found = job.run(device)
        job.require_same(found)


def test_only_what_tunes_can_tune_and_classes_are_checked(called, tmp_path, program):
    with virtual.start(program) as board:
        words = ["board", "run", "sentence", "--port", board.port, "--tune", "1"]
        code, _, problem = called(words, tmp_path)
        assert code == 2
        assert "this configuration tunes no weights" in problem


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0\ta\n2\tb\n", r"classes.txt, line 2: it must have 0 or 1, a tab, and a text"),
        ("0\ta\n1\t \n", r"line 2: it must have 0 or 1"),
        ("0\ta\n0\tb\n", r"must have texts of both classes"),
        ("", r"must have texts of both classes"),
    ],
)
def test_texts_of_classes_are_checked(text, sentence, tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        _classes(path)
