"""The language model on the virtual board, bit for bit the golden model."""

import re
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import small_lm
from rich.console import Console

from seedbed.boards import apps, virtual
from seedbed.boards.apps.lm import MEMORY, VARIANTS
from seedbed.boards.device import Device
from seedbed.boards.lm_engine import BoardMatrices, inputs, require_fit
from seedbed.boards.registers import addresses
from seedbed.boards.top import identifier
from seedbed.flow.jobs import lm_core
from seedbed.golden import trellis
from seedbed.golden.kept_matrix import KeptMatrices, KeptMatrix
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs.checked_matrices import CheckedMatrices

DESIGN = apps.find("lm", "one")
CONFIG = DESIGN.config
JOB = {"steps": 1, "batch": 1, "characters": 1, "fraction": 0.05}


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "lm-one", build=Path(kept))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_lm.write(tmp_path_factory.mktemp("model"))


@contextmanager
def connected(program, timeout=0.2, design=DESIGN, **line):
    found = addresses(design.REGISTERS)
    with (
        virtual.start(program, **line) as board,
        Device(board.port, found, identifier=identifier(design), timeout=timeout) as opened,
    ):
        yield opened


@pytest.fixture
def device(program):
    with connected(program) as opened:
        yield opened


def matrix(rows, columns, entries=(), *, seed=1, **fields):
    rng = np.random.default_rng(seed)
    if fields.get("plain"):
        drawn = rng.integers(-(2**15), 2**15, (rows, columns))
    else:
        drawn = rng.integers(0, 2**32, (rows, -(-columns // CONFIG.block)), np.uint64) | 1
    found = np.array(entries, np.int64).reshape(-1, 3)
    return KeptMatrix(fields=drawn, columns=columns, entries=found, **fields)


def test_one_line_of_text_from_the_command_line(program, model, called, tmp_path):
    """Perplexities and the loss are those of the demonstration with the same settings."""
    options = [part for name, value in JOB.items() for part in (f"--{name}", str(value))]
    options += ["--model", str(model)]
    with virtual.start(program) as board:
        words = ["board", "run", "lm", "--port", board.port, *options]
        code, printed, _ = called(words, tmp_path)
    assert code == 0
    job = lm_core.Job(**JOB, rate=0.003)
    want = lm_core.run_core(model, tmp_path / "demo", job, rtl=False, build=tmp_path)
    before, after = (want["perplexity"][when] for when in ("before", "after"))
    floats = [want["perplexity"][name] for name in ("float32", "compressed")]
    assert f"characters: {floats[0]:.4f} in float32, {floats[1]:.4f} at 4 bits" in printed
    assert f"perplexity on the board, before: {before:.4f}\n" in printed
    assert f"step 1: loss {want['losses'][0]:.4f}, slope {want['slopes'][0]:+.4f}\n" in printed
    assert f"kept weights were tuned; perplexity after: {after:.4f}\n" in printed
    assert before != after
    assert "windows show that the board computes as the model does" in printed
    assert "all sums and new values are those of the model, bit for bit" in printed


def test_products_and_updates_of_several_matrices(device):
    """Rows of several beats, plain weights, several vectors, and entries of each matrix."""
    matrices = {
        "packed": matrix(5, 40, [(0, 3, 70), (2, 39, -9), (4, 0, 1)], shift=3, scale=2),
        "plain": matrix(3, 7, [(1, 6, -32768)], plain=True, shift=1),
        "bare": matrix(600, 16),
    }
    engine = BoardMatrices(device, CONFIG, MEMORY, matrices, "")
    model = KeptMatrices(CONFIG, CONFIG.sparse, matrices)
    rng = np.random.default_rng(2)
    for step in range(2):
        for name, of in matrices.items():
            x = rng.integers(-(2**15), 2**15, (1 if name == "bare" else 3, of.columns))
            for k in (0, 1, -1):
                sums = engine.product(name, x, k=k, seed=step + 7)
                assert (sums == model.product(name, x, k=k, seed=step + 7)).all()
            if len(of.entries):
                for each in (engine, model):
                    each.update(name, seed=step + 7, gain=-3000, shift=5)
        assert all((engine.values[name] == model.values[name]).all() for name in matrices)
    assert device.read("jobs") == 1
    assert device.read("product_cycles") > 2 * 3 * 600 * 4


def test_products_and_updates_of_a_trellis_code(kept):
    """Rows with a scale each, of one beat and of several, and four vectors."""
    design = apps.find("lm", "trellis-four")
    config, rng = design.config, np.random.default_rng(3)
    matrices = {}
    for name, (rows, columns) in {"a": (5, 40), "b": (70, 8)}.items():
        symbols = rng.integers(0, 16, (rows, columns))
        scales = rng.integers(0, 256, rows), rng.integers(-8, 8, rows)
        matrices[name] = KeptMatrix(
            fields=trellis.pack(config.trellis, symbols, *scales), columns=columns, shift=3,
            entries=np.array([(0, 3, 70), (2, 7, -9), (4, 0, 1)]),
        )  # fmt: skip
    model = KeptMatrices(config.packing, config.sparse, matrices)
    with connected(virtual.executable(design, "lm-trellis", build=Path(kept)), design=design) as at:
        engine = BoardMatrices(at, config, MEMORY, matrices, "")
        for name, of in matrices.items():
            x = rng.integers(-(2**15), 2**15, (6, of.columns))
            for k in (0, 1, -1):
                sums = engine.product(name, x, k=k, seed=7)
                assert (sums == model.product(name, x, k=k, seed=7)).all()
            engine.update(name, seed=7, gain=-3000, shift=5)


def test_a_line_on_which_half_of_the_frames_are_bad(program):
    """One byte of fifty is lost, changed, doubled or late; an update is done once."""
    matrices = {
        "packed": matrix(3, 40, [(0, 3, 70), (2, 39, -9)], shift=3, scale=2),
        "plain": matrix(2, 7, [(1, 6, -300)], plain=True, shift=1),
    }
    with connected(program, 0.05, errors=50, seed=2) as device:
        engine = BoardMatrices(device, CONFIG, MEMORY, matrices, "")
        for name, of in matrices.items():
            x = np.arange(-20, of.columns - 20)[None] * 99
            engine.product(name, x, k=1, seed=5)
            engine.update(name, seed=5, gain=-3000, shift=5)
            engine.product(name, x)
        assert device.read("jobs") == 1
        assert device.repeated > 20


def test_a_wrong_result_is_found(device, model, monkeypatch, tmp_path):
    """The board and the model are given a weight that differs."""
    whole = CheckedMatrices.__init__

    def wrong(self, config, matrices, *rest):
        whole(self, config, matrices, *rest)
        self._model._dense["embedding.weight"] += 1

    monkeypatch.setattr(CheckedMatrices, "__init__", wrong)
    with pytest.raises(Mismatch, match=r"embedding.weight: row 0 of the product of vector 0 is "):
        run(device, model=model, folder=tmp_path, **JOB)


def test_a_sum_of_more_bits_than_the_words_have_is_an_error(device):
    of = matrix(1, 512)
    # The largest exponent.
    of.fields[:] = of.fields & ~np.uint64(15 << CONFIG.width) | np.uint64(7 << CONFIG.width)
    signs = np.sign(of.dense(CONFIG))
    engine = BoardMatrices(device, CONFIG, MEMORY, {"large": of}, "")
    engine.product("large", signs)
    with pytest.raises(RuntimeError, match="large: a sum has more than 56 bits"):
        engine.product("large", signs * 32767)


def test_a_stuck_address_line_is_found(program, model, tmp_path):
    found = addresses(DESIGN.REGISTERS)
    with (
        virtual.start(program, fault="a4=1") as board,
        Device(board.port, found, identifier=identifier(DESIGN)) as device,
        pytest.raises(RuntimeError, match="look at its pins a4"),
    ):
        run(device, model=model, folder=tmp_path, **JOB)


def run(device, **options):
    DESIGN.run(device, Console(file=StringIO()), CONFIG, **options)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ((1, 513), r"w has 1 rows and 513 columns; at most 65535 rows and 512 columns fit"),
        ((65536, 1), r"w has 65536 rows and 1 columns; at most 65535 rows and 512 columns fit"),
        ((65535, 2048), r"the matrices have 67107840 bytes; the memory has 33554432"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(shape, sentence):
    config = VARIANTS["four" if shape[1] == 2048 else "one"]
    of = KeptMatrix(fields=np.zeros((shape[0], -(-shape[1] // 8)), np.uint64), columns=shape[1])
    with pytest.raises(ValueError, match=sentence):
        require_fit(config, MEMORY, {"w": of})


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"steps": 0}, r"steps must be in 1\.\.65536, not 0"),
        ({"characters": 0}, r"characters must be in 1\.\.2147483648, not 0"),
        ({"fraction": 1.5}, r"the fraction must be above 0 and below 1, not 1\.5"),
        ({"resume": True}, "there is no job to continue: the board was reset"),
    ],
)
def test_a_job_that_is_out_of_range_is_refused(changed, sentence, device, model, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        run(device, model=model, folder=tmp_path, **JOB | changed)
    assert not device.read("jobs")


def test_the_page_has_the_bits_of_the_packets():
    page = (Path(__file__).parents[2] / "docs" / "boards" / "lm.md").read_text()
    row = r"^\| \d \| `(\w+)` \| (\d+)(?:; `one`: (\d+))?( for each vector)? \|"
    rows = re.findall(row, page, re.MULTILINE)
    for name, config in VARIANTS.items():
        fewer = {"command": config.trellis is not None}
        assert [(port.name, port.bits) for port in inputs(config, MEMORY)] == [
            (
                port,
                int((name.endswith("one") and one) or bits) * (config.vectors if each else 1)
                - fewer.get(port, 0),
            )
            for port, bits, one, each in rows
        ]
