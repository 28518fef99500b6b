"""The notebook for a Zynq board and the page's example run in simulation, as the models do."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pynq_drivers
from c_drivers import gemv_packets
from safetensors.numpy import save_file

from seedbed.boards.drivers import FOLDER
from seedbed.flow.cores.registry import WRAPPERS
from seedbed.flow.importer.integers import integer_weights
from seedbed.golden.zo_trainer import ZoTrainer
from seedbed.sim.cases.gemv import Job

NOTEBOOK = FOLDER / "pynq" / "train_on_zynq.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]
ENGINES = {
    "dma_samples": ["s_axis_samples", "m_axis_results"],
    "dma_parameters": ["s_axis_parameters", "m_axis_parameters"],
    "dma_log": ["m_axis_log"],
}


def test_it_has_no_outputs_and_says_that_it_has_not_run_on_a_board():
    assert "**This notebook has never run on a board.**" in "".join(CELLS[0]["source"])
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in CELLS)


def test_it_trains_as_the_model(called, kept, tmp_path):
    core = WRAPPERS["zo_trainer_axi"]
    config = core.configure(core.small)
    rng = np.random.default_rng(8)
    images = rng.integers(0, 256, (3, *config.layers[0].inputs)).astype("u1")
    labels = rng.integers(0, config.classes, len(images))
    real = {each.name: rng.normal(size=(each.outputs, each.fan_in)) for each in config.layers}
    save_file({f"{n}.weight": w.astype("f4") for n, w in real.items()}, tmp_path / "m.safetensors")
    np.save(tmp_path / "images.npy", images)
    words = ["export", "m.safetensors", "--core", "zo_trainer", "--vector", "images.npy"]
    words += [word for name, value in core.small.items() for word in ("--set", f"{name}={value}")]
    status, _, problem = called([*words, "-o", "zo"], tmp_path)
    assert status == 0, problem
    np.save(tmp_path / "zo" / "labels.npy", labels)
    shutil.copyfile(NOTEBOOK, tmp_path / NOTEBOOK.name)
    variables = ["before", "after", "trained", "log", "EPOCHS", "BATCH", "SEED", "SCHEDULE"]
    found = pynq_drivers.simulate(
        "runs_notebook", core, dict(core.small), ENGINES,
        {"notebook": NOTEBOOK.name, "variables": variables}, folder=tmp_path, build=Path(kept),
    )  # fmt: skip

    rounded = {n: integer_weights(w.astype("f4"), 8) for n, w in real.items()}
    weights = {n: integers.clip(-127, 127) for n, (integers, _) in rounded.items()}
    model = ZoTrainer(config, weights, {n: exponent for n, (_, exponent) in rounded.items()})
    first = model.words()
    assert found["before"] == model.infer(images).tolist()
    [(_, magnitude, zeros, _)] = found["SCHEDULE"]
    signs = []
    for _ in range(found["EPOCHS"]):
        for k in range(0, len(images), found["BATCH"]):
            part = slice(k, k + found["BATCH"])
            seed = found["SEED"] + len(signs)
            _, entry = model.step(
                images[part], labels[part], seed=seed, magnitude=magnitude, zeros=zeros
            )
            signs.append(entry.sign)
    assert [sign for _, sign in found["log"]] == signs
    assert any(signs)
    trained = np.array(found["trained"], "u1").view("i1")
    assert trained.tolist() == model.words().tolist() != first.tolist()
    assert found["after"] == model.infer(images).tolist()


def test_the_example_of_the_page_multiplies(kept, tmp_path):
    core, page = WRAPPERS["gemv_axi"], (FOLDER.parent / "docs" / "drivers.md").read_text()
    params = {**core.small, "activation_width": 24}
    config = core.configure(params)
    job = Job.random(config, np.random.default_rng(4), rows=3, columns=23, plain=False)
    vector, rows = gemv_packets(config, job)
    beats = np.frombuffer(vector, "u1").reshape(-1, config.group * 3)
    np.savez(tmp_path / "job.npz", vector=beats, rows=[np.frombuffer(row, "u1") for row in rows])
    (example,) = re.findall(r"^```py\n(.*?)^```$", page, re.S | re.M)
    call = (
        f"job = np.load('job.npz')\n"
        f"rows = job['rows'].reshape({job.rows}, -1, {config.beat_bits // 8})\n"
        f"sums = multiply('seedbed.bit', job['vector'], rows, {job.columns})\n"
    )
    cells = [{"cell_type": "code", "source": [text]} for text in (example, call)]
    (tmp_path / "example.ipynb").write_text(json.dumps({"cells": cells}))
    engines = {
        "dma_vector": ["s_axis_vector", "m_axis_result"],
        "dma_weights": ["s_axis_weights"],
    }
    setup = {"notebook": "example.ipynb", "variables": ["sums"]}
    found = pynq_drivers.simulate(
        "runs_notebook", core, params, engines, setup, folder=tmp_path, build=Path(kept)
    )
    assert found["sums"] == job.sums.reshape(-1).tolist()
