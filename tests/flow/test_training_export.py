"""A network of the user's, exported for ``stream_trainer``, is trained by the emitted Verilog."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from seedbed.flow.cores import registry
from seedbed.flow.emit import verilog
from seedbed.golden.engine_parameters import image_beats
from seedbed.golden.engine_passes import PassEngine
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.stream.stream_layouts import input_layout, result_layout, token_layout
from seedbed.sim.cases.stream_engine import input_payloads, token_payloads
from seedbed.sim.cases.stream_trainer import job, status
from seedbed.sim.job import Act, Memory, check
from seedbed.sim.jobs import trainer_job
from seedbed.sim.payloads import pack, words
from seedbed.sim.verilog.cosim import Cosim

CORE = registry.find("stream_trainer")
SMALL = ["--core", "stream_trainer", "--set", "lanes=2", "--set", "beat_bits=128"]


@pytest.fixture(scope="module")
def files(tmp_path_factory, succeeds):
    """A network packed in a trellis code, with kept weights and without, and in SeedLM's blocks."""
    folder, rng = tmp_path_factory.mktemp("packed"), np.random.default_rng(2)
    network = {
        f"fc{k}.weight": (rng.normal(size=shape) / 4).astype("f4")
        for k, shape in ((1, (14, 18)), (2, (5, 14)))
    }
    save_file(network, folder / "gradients.safetensors")
    bias = rng.normal(size=14).astype("f4")
    save_file({**network, "fc1.bias": bias}, folder / "mlp.safetensors")
    compress, keep = ["compress", "mlp.safetensors"], ["--keep", "mask.safetensors"]
    code = ["--format", "trellis", "--jobs", "1"]
    for run in (
        ["sensitive", "mlp.safetensors", "gradients.safetensors", "--fraction", "0.1", "-o",
         "mask.safetensors"],
        [*compress, "kept.safetensors", *code, "--bits", "4", *keep],
        [*compress, "bare.safetensors", *code, "--bits", "4"],
        [*compress, "other.safetensors", *code, "--bits", "4", "--state-bits", "8", *keep],
        [*compress, "blocks.safetensors", "--bits", "4", "--jobs", "1", *keep],
    ):  # fmt: skip
        succeeds(run, folder)
    return folder


class Exported:
    """The files of an export."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.constants = json.loads((folder / "stream_trainer.json").read_text())["constants"]
        params = tomllib.loads((folder / "stream_trainer.toml").read_text())
        self.params, self.config = params, CORE.configure(params)

    def raw(self, name: str) -> bytes:
        return (self.folder / f"stream_trainer_{name}.bin").read_bytes()

    def payloads(self, name: str) -> list[int]:
        text = (self.folder / f"stream_trainer_{name}.hex").read_text().splitlines()
        return [int(line, 16) for line in text[1:]]


@pytest.fixture
def exported(files, tmp_path, called):
    def run(name: str, *more: str) -> Exported:
        line = ["export", str(files / name), *SMALL, *more, "-o", "out"]
        code, _, err = called(line, tmp_path)
        assert code == 0, err
        return Exported(tmp_path / "out")

    return run


def judged(of: Exported, raw: bytes, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return losses and classes of vectors by a memory's contents."""
    config = of.config.engine
    passes = PassEngine(config, tuple(image_beats(config, raw)))
    assert passes.load(first=of.constants["FIRST"], end=of.constants["END"]) == "ok"
    given = {"inputs": x, "labels": labels}
    return np.array(passes.run(np.zeros(len(x), np.int64), start=True, **given)[1])


def test_the_emitted_verilog_trains_an_exported_network(exported, tmp_path):
    """From the files alone; then it classifies with the weights that the files say it has."""
    of = exported("kept.safetensors", "--count", "20", "--set", "batch=3", "--seed", "5")
    c, config, size = of.constants, of.config, of.config.beat_bits // 8
    assert (c["SAMPLES"], c["STEPS"], c["BATCH"], config.batch) == (5, 2, 3, 3)
    raw, trained = of.raw("memory"), of.raw("trained")
    assert len(raw) == c["MEMORY_BEATS"] * size
    after = raw[: c["FIRST"] * size] + trained + raw[c["END"] * size :]
    assert len(after) == len(raw)
    assert after != raw
    x = np.load(of.folder / "stream_trainer_x.npy")[:4]
    labels = np.array([0, 1, 2, 3])
    found = judged(of, after, x, labels)
    assert not np.array_equal(found, judged(of, raw, x, labels))
    path = verilog.write(CORE, of.params, tmp_path / "emitted")
    bench = trainer_job.bench(config)
    executable = bench.executable(path, CORE.name, build=tmp_path)
    commands, log = of.payloads("commands"), of.payloads("log")
    results = np.array(of.payloads("results"))
    ones = np.ones(4)
    rows = pack(result_layout(config), 4, values=found[:, :2], last=ones)
    acts = [
        Act(
            name="load", inputs={"i": words(commands[:1], job_layout(config))},
            outputs={"o_status": words([status("load")], status_layout())},
        ),
        Act(
            name="train", inputs={"i": words(commands[1:], job_layout(config))},
            outputs={
                "o": words([int(r) | 1 << 48 for r in results], result_layout(config)),
                "o_log": words(log, log_layout(config)),
                "o_status": words([status("train", steps=2)], status_layout()),
            },
        ),
        Act(
            name="run",
            inputs={
                "i": words([job(config, "run", start=1)], job_layout(config)),
                "i_tokens": words(token_payloads(config, [0] * 4, labels), token_layout(config)),
                "i_vectors": words(input_payloads(config, x), input_layout(config)),
            },
            outputs={"o": rows, "o_status": words([status("run")], status_layout())},
        ),
    ]  # fmt: skip
    memory = Memory()
    with Cosim(executable, bench, seed=3, pauses=6) as cosim:
        cosim.fill(memory, c["MEMORY_BEATS"], np.frombuffer(raw, "<u4"))
        for act in acts:
            check([act], {act.name: cosim.run(act, settle=16)})


def test_vectors_of_the_user_choose_formats(exported, tmp_path):
    """A floating-point vector is scaled by a power of two; formats follow from the ranges."""
    x = np.random.default_rng(1).random((8, 18)) * 3
    np.save(tmp_path / "x.npy", x)
    of = exported("kept.safetensors", "--vector", str(tmp_path / "x.npy"))
    unit = 2.0 ** of.constants["SAMPLE_SCALE"]
    assert np.abs(np.load(of.folder / "stream_trainer_x.npy") * unit - x).max() <= unit / 2
    assert of.constants["IMAGES"] == 8
    assert of.config.products == of.config.lanes


@pytest.mark.parametrize(
    ("name", "more", "problem"),
    [
        ("bare.safetensors", [], "no weights are kept, so that there is nothing to train"),
        ("other.safetensors", [], "'fc1.weight' must have rows of the core's trellis code"),
        ("blocks.safetensors", [], "'fc1.weight' must have rows of the core's trellis code"),
        ("kept.safetensors", ["--count", "7"], "the vectors, 7, must be whole blocks of 4"),
        ("kept.safetensors", ["--set", "tune=12"], "kept weights must differ by less than 8 units"),
        ("kept.safetensors", ["--set", "sample=2"], "a sample must have 2 beats at most, not 10"),
        ("kept.safetensors", ["--set", "external=1"], "external"),
        ("kept.safetensors", ["--prompt", "On"], "the export of stream_trainer takes no --prompt"),
    ],
)
def test_what_cannot_be_trained_is_refused(name, more, problem, files, tmp_path, called):
    code, _, err = called(["export", str(files / name), *SMALL, *more, "-o", "out"], tmp_path)
    assert code == 2
    assert problem in err
    assert not (tmp_path / "out").exists()
