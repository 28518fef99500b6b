"""The memory of the virtual board: self-test, throughput, and the application gemv."""

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path
from random import Random
from time import monotonic, sleep
from types import SimpleNamespace

import memory_app
import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file

from seedbed.boards import apps, memory, virtual
from seedbed.boards.apps import gemv
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses
from seedbed.boards.top import identifier
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.packed import Packed, Weights, pack_rows
from seedbed.golden.gemv import Gemv

#: Blocks of SeedLM, and a trellis code of 2 bits.
DESIGN, TRELLIS = apps.find("gemv"), apps.find("gemv", "trellis2")
#: Seconds; the virtual board answers within milliseconds.
TIMEOUT = 0.04


#: The exerciser with a memory of another clock, faster or slower.
FAST, SLOW = (
    SimpleNamespace(
        **vars(memory_app) | {"MEMORY": replace(memory_app.MEMORY, clock_mhz=mhz, pad_cycles=2)}
    )
    for mhz in (100, 45)
)


#: Long bursts, entries of a forward cache of 992 bytes, and single beats of other rows.
PATTERNS = {
    "long": ({"address": 0, "length": 255, "stride": 256, "bursts": 64}, 0.98),
    "entries": ({"address": 20_000, "length": 123, "stride": 124, "bursts": 64}, 0.98),
    "sequence": ({"address": 40_000, "length": 0, "stride": 1, "bursts": 2000}, 0.98),
    "one bank": ({"address": 50_000, "length": 0, "stride": 512, "bursts": 100}, 0.45),
    "end": ({"address": 2**22 - 100, "length": 99, "stride": 100, "bursts": 1}, 0.85),
}


@pytest.fixture(scope="module")
def exerciser(kept):
    return virtual.executable(memory_app, "memory", build=Path(kept))


@pytest.fixture(scope="module", params=[FAST, SLOW], ids=["100 MHz", "45 MHz"])
def own_clock(request, kept):
    mhz = request.param.MEMORY.clock_mhz
    return virtual.executable(request.param, f"memory-{mhz}", build=Path(kept)), request.param


@pytest.fixture(scope="module")
def program(kept):
    return virtual.executable(DESIGN, "gemv-seedlm", build=Path(kept))


@pytest.fixture(scope="module")
def trellis_board(kept):
    with virtual.start(virtual.executable(TRELLIS, "gemv-trellis2", build=Path(kept))) as started:
        yield started


@pytest.fixture(scope="module")
def board(program):
    """One board for the tests that do not damage it: its memory's self-test takes a second."""
    with virtual.start(program) as started:
        yield started


def connect(port, app=DESIGN, timeout=TIMEOUT):
    return Device(port, addresses(app.REGISTERS), identifier=identifier(app), timeout=timeout)


def ready(device):
    return memory.require_memory(device, memory_app.MEMORY)


def job(device, kind, **parameters):
    """Write or read bursts; return the share of the memory's peak."""
    for name, value in parameters.items():
        device.write(name, value)
    device.write(kind, 1)
    while device.read("busy"):
        pass
    assert device.read("errors") == 0
    words = memory_app.MEMORY.words * (parameters["length"] + 1) * parameters["bursts"]
    return words / device.read("cycles")


def test_throughput_with_a_clock_of_its_own(own_clock):
    """Edges of both clocks drift over all phases."""
    program, app = own_clock
    ratio = app.MEMORY.clock_mhz / memory.application_mhz(app)
    with virtual.start(program) as board:
        with connect(board.port, app) as device:
            assert ready(device) == "the memory, 32 MiB, passed its self-test"
            for kind in ("write", "read"):
                for name, (parameters, least) in PATTERNS.items():
                    share = job(device, kind, **parameters) / ratio
                    # A row takes more cycles of a faster clock; one burst waits for both crossings.
                    least -= {"one bank": 0.12, "end": 0.15}.get(name, 0.01)
                    assert least < share <= 1, (name, share)
        board.reset()
        with connect(board.port, app) as device:
            assert ready(device)
            # The self-test has written to the memory.
            for kind in ("write", "read"):
                assert job(device, kind, address=0, length=255, stride=256, bursts=4)


def test_throughput(exerciser):
    """Long bursts, entries of a forward cache of 992 bytes, and single beats of other rows."""
    with virtual.start(exerciser) as board, connect(board.port, memory_app) as device:
        assert ready(device) == "the memory, 32 MiB, passed its self-test"
        for kind in ("write", "read"):
            for name, (parameters, least) in PATTERNS.items():
                assert least < job(device, kind, **parameters) <= 1, name


def test_reset_may_be_pressed_in_any_cycle(exerciser):
    """Also where a command is on its way to the chip, or words of a write are."""
    random = Random(1)
    with virtual.start(exerciser) as board:
        began = monotonic()
        with connect(board.port, memory_app) as device:
            assert ready(device)
        # Power-up and self-test, whatever the simulator's speed is.
        most = monotonic() - began
        for _ in range(100):
            board.reset()
            sleep(random.uniform(0, most))
        with connect(board.port, memory_app) as device:
            assert ready(device)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("a3=0", "at the address bits 1, 12: look at its pins a3"),
        ("a12=1", "at the address bits 21: look at its pins a12"),
        ("dq5=1", "look at its data pins dq5"),
        ("decay=1000", "look at its data pins"),
    ],
)
def test_a_faulty_memory_is_found(fault, sentence, exerciser):
    with virtual.start(exerciser, fault=fault) as board, connect(board.port, memory_app) as device:
        with pytest.raises(RuntimeError, match=f"the memory failed its self-test.* {sentence}"):
            ready(device)
        # Every answer has an error.
        for name, value in {"length": 3, "stride": 4, "bursts": 2}.items():
            device.write(name, value)
        device.write("write", 1)
        while device.read("busy"):
            pass
        assert device.read("errors") == 2


def test_a_fault_that_does_not_exist_is_refused(exerciser):
    with (
        pytest.raises(ValueError, match=r"fault of a board's memory must be .* not 'a13=0'"),
        virtual.start(exerciser, fault="a13=0"),
    ):
        pass


def test_reset_tests_the_memory_again(exerciser):
    with virtual.start(exerciser) as board:
        with connect(board.port, memory_app) as device:
            ready(device)
        board.reset()
        with connect(board.port, memory_app) as device:
            assert ready(device)
            assert job(device, "write", address=0, length=9, stride=10, bursts=3)


def test_an_application_has_the_memory_of_the_boards():
    for mhz, pads, other in ((60, 1, 2), (100, 2, 1)):
        found = replace(gemv.MEMORY, clock_mhz=mhz, pad_cycles=pads)
        app = SimpleNamespace(MEMORY=found, REGISTERS=gemv.REGISTERS)
        assert memory.memory_of(app) == found
        app.MEMORY = replace(found, pad_cycles=other)
        with pytest.raises(ValueError, match=f"clock_mhz={mhz} has pad_cycles={pads}, not {other}"):
            memory.memory_of(app)
    app = SimpleNamespace(MEMORY=gemv.MEMORY, REGISTERS=())
    with pytest.raises(ValueError, match="MEMORY_REGISTERS"):
        memory.memory_of(app)
    assert memory.memory_of(SimpleNamespace()) is None


def printed(device, app=DESIGN, **parameters):
    """Run the application; return what it prints. A difference to the model raises."""
    text = StringIO()
    apps.run(app, device, Console(file=text, width=200), **parameters)
    return text.getvalue()


def test_products_are_those_of_the_model(board):
    with connect(board.port) as device:
        text = printed(device, rows=30, columns=300, vectors=2)
        assert "30 x 300 weights in 4,560 bytes are in the memory" in text
        assert text.count("product as in the model, bit for bit") == 2
        assert text.count("it waited for the engine in 0 cycles") == 2
        cycles = device.read("cycles")
        # The memory's peak, a refresh or two, and the latency.
        assert 4560 / gemv.PEAK < cycles < 4560 / gemv.PEAK + 90
        # One row, and a column whose vector has one number.
        assert printed(device, rows=1, columns=1, vectors=1)
        assert printed(device, rows=3, columns=2048, vectors=1, seed=7)


def test_a_compressed_matrix_is_multiplied(board, tmp_path, called):
    from safetensors.numpy import save_file

    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file({"w": np.random.default_rng(1).normal(size=(6, 40)).astype("f4")}, source)
    assert called(["compress", str(source), str(target), "--bits", "4"], tmp_path)[0] == 0
    with connect(board.port) as device:
        text = printed(device, matrix=target, tensor="w", vectors=1)
        assert "6 x 40 weights" in text
        with pytest.raises(ValueError, match="has no matrix 'v'; there are w"):
            printed(device, matrix=target, tensor="v")


def test_products_of_a_trellis_code_are_those_of_the_model(trellis_board):
    with connect(trellis_board.port, TRELLIS) as device:
        text = printed(device, TRELLIS, rows=30, columns=300, vectors=2)
        # A row has a beat of its scale, and 19 of 16 symbols.
        assert "30 x 300 weights in 2,400 bytes are in the memory" in text
        assert text.count("product as in the model, bit for bit") == 2
        assert text.count("it waited for the engine in 0 cycles") == 2
        cycles = device.read("cycles")
        assert 2400 / gemv.PEAK < cycles < 2400 / gemv.PEAK + 90
        assert printed(device, TRELLIS, rows=5, columns=1, vectors=1)
        assert printed(device, TRELLIS, rows=1, columns=2048, vectors=1, seed=7)
        # A job aborted while its vector is loaded leaves no scale in the FIFO.
        device.write("product", 1)
        device.send([1, 2, 3])
        text = printed(device, TRELLIS, rows=5, columns=40, vectors=1)
        assert "an earlier job was ended" in text
        assert "product as in the model" in text


def test_a_matrix_of_a_trellis_code_is_multiplied(trellis_board, tmp_path, called):
    """The sums are the products of the decompressed weights, bit for bit."""
    from safetensors.numpy import save_file

    weights = np.random.default_rng(1).standard_t(4, (6, 40)) * np.logspace(-3, 0, 6)[:, None]
    save_file({"w": weights.astype("f4")}, tmp_path / "in.safetensors")
    files = {
        "2": ["--format", "trellis", "--bits", "2"],
        "4": ["--format", "trellis", "--bits", "4"],
        "seedlm": ["--bits", "4"],
    }
    for name, options in files.items():
        assert called(["compress", "in.safetensors", name, *options], tmp_path)[0] == 0
    assert called(["decompress", "2", "plain.safetensors"], tmp_path)[0] == 0
    weights = load_file(tmp_path / "plain.safetensors")["w"].astype(np.float64)
    x = np.random.default_rng(3).integers(-(2**15), 2**15, (2, 40))
    np.save(tmp_path / "x.npy", x.astype(np.int16))
    run = ["board", "run", "gemv", "--port", trellis_board.port, "--timeout", "2", "--matrix"]
    status, out, err = called([*run, "2", "--vector", "x.npy", "-o", "y.npy"], tmp_path)
    assert (status, err) == (0, "")
    assert out.count("product as in the model, bit for bit") == 2
    unit = 2.0 ** int(re.search(r"a sum of 1 is 2\^(-?\d+)\n", out)[1])
    assert np.array_equal(np.load(tmp_path / "y.npy") * unit, x @ weights.T)
    for name, problem in {
        "4": "has a code of bits=4, not 2",
        "seedlm": "is not in a trellis code, but in seedlm",
    }.items():
        status, _, err = called([*run, name], tmp_path)
        assert (status, err) == (2, f"error: {name}: tensor 'w' {problem}\n")


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A file of two matrices in blocks of 4 bits, which need no search."""
    path = tmp_path_factory.mktemp("packed") / "packed.safetensors"
    blocks = np.random.default_rng(2).integers(1, 2**32, (2, 6, 5), np.uint64, endpoint=False) | 1
    tensors = {
        name: Weights((6, 40), "F32", scale=scale)
        for name, scale in (("w", -3), ("v", 0))
    }  # fmt: skip
    meta = Packed(gemv.CONFIG.decompress, "fit", tensors)
    with Checkpoint.create(path, meta.entries, meta.to_metadata()) as file:
        for name, rows in zip(tensors, blocks, strict=True):
            file.write(
                file.tensors[f"{name}.seedlm"].offset, pack_rows(meta.config, rows).tobytes()
            )
    return path


def test_my_products_are_computed_by_the_board(packed, board, tmp_path, called):
    """Of integers, and of floating-point numbers; the weights are those of 'decompress'."""
    assert called(["decompress", str(packed), "plain.safetensors"], tmp_path)[0] == 0
    weights = load_file(tmp_path / "plain.safetensors")["w"].astype(np.float64)
    x = np.random.default_rng(3).integers(-(2**15), 2**15, (2, 40))
    np.save(tmp_path / "x.npy", x.astype(np.int16))
    words = ["board", "run", "gemv", "--port", board.port, "--timeout", "2"]
    words += ["--matrix", str(packed), "--tensor", "w", "--vector", "x.npy", "-o", "y.npy"]
    status, out, err = called(words, tmp_path)
    assert (status, err) == (0, "")
    assert out.count("product as in the model, bit for bit") == 2
    assert "a sum of 1 is 2^-11 / 32767\nthe sums are in y.npy\n" in out
    sums = np.load(tmp_path / "y.npy")
    assert (sums.dtype, sums.shape) == (np.int64, (2, 6))
    wanted = x @ weights.T
    assert np.allclose(sums * 2.0**-11 / 32767, wanted, rtol=2**-20, atol=2**-20)
    # One vector; the file is there.
    np.save(tmp_path / "x.npy", x[0] / 1000)
    status, _, err = called(words, tmp_path)
    assert (status, err) == (2, "error: y.npy exists already; --force overwrites it\n")
    status, out, _ = called([*words, "--force"], tmp_path)
    assert status == 0
    assert "the products are in y.npy" in out
    products = np.load(tmp_path / "y.npy")
    assert products.shape == (6,)
    error = np.abs(products - weights @ x[0] / 1000)
    # A number is rounded to 2^-10.
    assert error.max() <= 2.0**-11 * np.abs(weights).sum(axis=1).max()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--vector", "long.npy"], "long.npy must be an array of N x 40, not of 41"),
        (["--vector", "none.npy"], "none.npy must be an array of N x 40, not of 0 x 40"),
        (["--vector", "wide.npy"], "wide.npy must have numbers of 16 bits, -32768..32767, not"),
        (["--vector", "text.npy"], "text.npy is not a complete .npy file"),
        (["-o", "y.npy"], "--output needs vectors: give --vector, too"),
        (["--tensor", "u", "--vector", "x.npy"], "packed.safetensors has no matrix 'u'; there are"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused(words, sentence, packed, board, tmp_path, called):
    (tmp_path / packed.name).symlink_to(packed)
    np.save(tmp_path / "x.npy", np.ones(40))
    np.save(tmp_path / "long.npy", np.ones(41))
    np.save(tmp_path / "none.npy", np.ones((0, 40)))
    np.save(tmp_path / "wide.npy", np.full(40, 40_000))
    (tmp_path / "text.npy").write_text("1 2 3")
    run = ["board", "run", "gemv", "--port", board.port, "--timeout", "2"]
    status, _, err = called([*run, "--matrix", packed.name, *words], tmp_path)
    assert status == 2
    assert err.startswith(f"error: {sentence}")
    assert err.count("\n") == 1
    assert not (tmp_path / "y.npy").exists()
    status, _, err = called([*run, "--vector", "x.npy"], tmp_path)
    assert (status, err) == (2, "error: --vector needs a matrix: give --matrix, too\n")


def test_what_differs_from_the_model_is_found(board, monkeypatch):
    product = Gemv.packed_product
    monkeypatch.setattr(Gemv, "packed_product", lambda *parts: product(*parts) + np.eye(9)[4])
    with (
        connect(board.port) as device,
        pytest.raises(AssertionError, match="row 4 differs from the model"),
    ):
        printed(device, rows=9, columns=40, vectors=1)


def test_a_stuck_address_line_is_found_by_the_application(program):
    with (
        virtual.start(program, fault="a4=1") as board,
        connect(board.port) as device,
        pytest.raises(RuntimeError, match="look at its pins a4"),
    ):
        printed(device)


@pytest.mark.parametrize("kind", ["load", "product"])
def test_a_new_job_ends_one_that_waits_for_words(kind, board):
    with connect(board.port) as device:
        printed(device, rows=5, columns=40, vectors=1)
        device.write(kind, 1)
        device.send([1, 2, 3])
        assert device.read("busy")
        text = printed(device, rows=5, columns=40, vectors=1)
        assert "an earlier job was ended" in text
        assert "product as in the model" in text


def test_a_matrix_without_beats_is_stored_at_once(board):
    with connect(board.port) as device:
        device.write("beats", 0)
        device.write("load", 1)
        assert not device.read("busy")
        assert "product as in the model" in printed(device, rows=5, columns=40, vectors=1)


def test_a_bad_line_changes_nothing(program):
    """One byte of a thousand is lost, changed, doubled or late."""
    with virtual.start(program, errors=1000, seed=2) as board, connect(board.port) as device:
        text = printed(device, rows=16, columns=200, vectors=2)
        assert text.count("product as in the model, bit for bit") == 2
        assert device.repeated


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"columns": 2049}, r"columns must be in 1\.\.2048, not 2049"),
        ({"rows": 0}, r"rows must be in 1\.\.16777215, not 0"),
        ({"vectors": 0}, r"vectors must be in 1\.\.1000000, not 0"),
        ({"seed": -1}, r"seed must be in 0\.\.4294967295, not -1"),
        (
            {"rows": 40_000, "columns": 2048},
            r"and 40960000 bytes; at most 2048 columns and 33554432",
        ),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(parameters, sentence, board):
    with (
        connect(board.port) as device,
        pytest.raises(ValueError, match=sentence),
    ):
        printed(device, **parameters)
