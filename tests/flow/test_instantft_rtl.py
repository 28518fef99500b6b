import json
from dataclasses import dataclass, replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from seedbed.flow.cli import instantft_rtl as instantft_rtl_demo
from seedbed.flow.cores import registry
from seedbed.flow.jobs import instantft_rtl
from seedbed.flow.jobs.instantft_task import Settings, Task
from seedbed.flow.report import jobs, kinds, paper
from seedbed.flow.report.sections import sections
from seedbed.golden import network
from seedbed.hw.adapters.instantft import COUNTERS, result_layout
from seedbed.sim.harness import Mismatch
from seedbed.sim.job import Memory, check
from seedbed.sim.jobs import instantft_job
from seedbed.sim.verilog.cosim import Cosim
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import TINY, NetworkConfig

LANES, IMAGES, EPOCHS = 8, 24, 2


@dataclass(frozen=True, kw_only=True)
class Tiny(InstantFtConfig):
    """Of the paper's network and lanes, CI runs a short job: see ``.ci/run``."""

    network: NetworkConfig = TINY
    rank: int = 2
    ways: int = 2


def task(*_):
    """Return a network that has learned nothing, and images of noise."""
    rng = np.random.default_rng(1)
    return Task(
        settings=Settings(phases=(), rate=0.02), parameters=network.init(TINY, rng),
        images=rng.random((200, 6, 6)), labels=rng.integers(5, size=200), upright=0.2,
    )  # fmt: skip


@pytest.fixture
def kept(monkeypatch):
    """A small network; and what goes to the simulation and comes back, call by call."""
    find = registry.find
    monkeypatch.setattr(registry, "find", lambda name: replace(find(name), config=Tiny))
    monkeypatch.setattr(instantft_rtl, "prepare", task)
    calls = []
    run, run_all = instantft_job.run, Cosim.run_all

    def captured(core, acts, **options):
        printed, seconds = run_all(core, acts, **options)
        calls[-1].printed = printed
        return printed, seconds

    def called(bench, job, **options):
        calls.append(SimpleNamespace(bench=bench, job=job))
        return run(bench, job, **options)

    monkeypatch.setattr(Cosim, "run_all", captured)
    monkeypatch.setattr(instantft_job, "run", called)
    return SimpleNamespace(calls=calls)


def test_short_job_bit_by_bit(tmp_path, kept, monkeypatch):
    shown = StringIO()
    options = {"lanes": LANES, "images": IMAGES, "epochs": EPOCHS, "seed": 3, "stalls": True}
    result = instantft_rtl_demo.run_rtl(
        None, tmp_path / "out", build=tmp_path, console=Console(file=shown, width=120), **options
    )
    text = (tmp_path / "out" / "instantft_rtl.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(result))
    assert (result["tuned"], result["held"], result["clocks"]) == (IMAGES, IMAGES, {})
    counted = {"samples": 48, "hits": 24, "misses": 24, "batches": 4}
    assert {name: result["counters"][name] for name in counted} == counted
    phases = ("load", "fill", "cached", "read")
    assert result["job_cycles"] == sum(result["cycles"][phase] for phase in phases)
    assert f"{result['job_cycles']:,}" in shown.getvalue()
    for part in ("--rtl", "--lanes 8", "--images 24", "--epochs 2", "--seed 3", "--stalls"):
        assert part in result["command"]
    emitted = tmp_path / "emitted" / "instantft-8-lanes" / "instantft.v"
    monkeypatch.setattr(instantft_rtl_demo.verilog, "write", lambda *rest: emitted)
    again = instantft_rtl_demo.run_rtl(None, tmp_path / "out", build=tmp_path, **options)
    assert again == json.loads(json.dumps(result))
    (call,) = kept.calls
    job = call.job
    differences_are_told(job, call.printed)
    # Without the images that it is held against.
    small = replace(job, images=job.images[:IMAGES], labels=job.labels[:IMAGES])
    a_memory_that_fails_ends_the_training(call.bench, small)
    a_core_that_stands_still_is_told(call.bench, small)
    an_interruption_ends_the_simulation(call.bench, small)


def differences_are_told(job, printed):
    """Nothing that came may be changed: each is seen, and the first batch that differs is named."""
    acts, counted = job.acts(lambda places: places)
    counters = dict(zip(COUNTERS, printed["train"].values["counters"].tolist(), strict=True))
    check(acts, printed)
    instantft_job.require_counted(counted, counters)
    layout = result_layout(job.config)

    def changed(act, at, bit, port="o"):
        payloads = {name: part.copy() for name, part in printed[act].payloads.items()}
        payloads[port][at, bit // 32] ^= 1 << bit % 32
        return printed | {act: replace(printed[act], payloads=payloads)}

    best, loss, hit, status = (layout[name].offset for name in ("best", "loss", "hit", "status"))
    for broken, says in [
        (changed("train", 22, loss), "batch 1 of 4, in epoch 0, is the first that differs"),
        (changed("train", 38, loss), "batch 2 of 4, in epoch 1, is the first that differs"),
        (changed("train", 5, hit), "hits: 1 of sample 5, and of the model 0"),
        (changed("train", 6, best), r"sample 6 is of class \d, and in the model of class"),
        (changed("before", 7, best), "image 7, before training, is of class"),
        (changed("after", 40, best), "image 40, after training, is of class"),
        (changed("after", 41, loss), "image 41, after training, has loss and hit"),
        (
            changed("read", 50, 0, "o_parameters"),
            "adapters after batch 4 are not the model's: 1 of",
        ),
        (changed("train", 48, status), "status of the training: command, and of the model ok"),
    ]:
        with pytest.raises(Mismatch, match=says):
            check(acts, broken)
    for name, value in (("saturations", 10**6), ("batches", 3)):
        with pytest.raises(Mismatch, match=f"counted {name}: {value}, and of the model"):
            instantft_job.require_counted(counted, counters | {name: value})


def a_memory_that_fails_ends_the_training(bench, job):
    """A fault in a burst that is written or read: status, no hang, and no trace in the adapters."""
    found = []
    # The first burst is written; by the last of them, in the second epoch, all are read.
    for fault in (0, 70, 80):
        done = instantft_job.run(bench, job, seed=5, memory=Memory(latency=(1, 9), fault=fault))
        assert done.status == "memory"
        assert done.counters["samples"] < 48
        found.append((done.counters["batches"], done.counters["hits"]))
    assert found[0] == (0, 0)
    assert found[1] == (1, 0)
    assert found[2][0] == 2
    assert found[2][1] > 0


def a_core_that_stands_still_is_told(bench, job):
    """Its images do not come."""
    *_, after = job.acts(lambda places: np.zeros((0, 1)))[0]
    with (
        Cosim(bench, instantft_job._bench(job.config), seed=1) as core,
        pytest.raises(Mismatch, match="ended with 3: no transfer for 1,000,000 cycles"),
    ):
        core.run(after)


def an_interruption_ends_the_simulation(bench, job):
    def interrupt(share):
        raise KeyboardInterrupt

    before = set(bench.parent.iterdir())
    with pytest.raises(KeyboardInterrupt):
        instantft_job.run(bench, replace(job, order=job.order * 200), seed=1, progress=interrupt)
    assert set(bench.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"images": 0}, r"images must be in 1\.\.1024, not 0"),
        ({"images": 1025}, r"images must be in 1\.\.1024, not 1025"),
        ({"epochs": 0}, r"epochs must be in 1\.\.65535, not 0"),
        ({"epochs": 65536}, r"epochs must be in 1\.\.65535, not 65536"),
        ({"seed": -1}, r"seed must be in 0\.\.4294967295, not -1"),
        ({"angle": 14}, r"angle must be in 15\.\.90 degrees, not 14"),
    ],
)
def test_bad_numbers(tmp_path, options, says):
    with pytest.raises(ValueError, match=says):
        instantft_rtl.measure(
            tmp_path / "no.v", InstantFtConfig(), None, build=tmp_path, folder=tmp_path, **options
        )
    assert list(tmp_path.iterdir()) == []


RESULT = {
    "lanes": 32, "data": "mnist", "seed": 0, "tuned": 1024, "held": 900, "epochs": 10,
    "stalls": False,
    "cycles": {"load": 1, "fill": 2, "cached": 3, "read": 4, "infer": 5}, "job_cycles": 10,
    "pass_cycles": 0.5, "cycles_per_second": 1e5, "before_held": 11.5, "after_held": 91.0,
    "tools": {"verilator": "Verilator 0"}, "command": "seedbed demo instantft --rtl",
}  # fmt: skip


@pytest.mark.parametrize("change", [{"epochs": 2}, {"tuned": 64}, {"stalls": True}])
def test_the_papers_job_alone_is_in_the_report(tmp_path, change):
    path = tmp_path / "mnist" / "instantft_rtl.json"
    path.parent.mkdir()
    path.write_text(json.dumps(RESULT | change))
    assert instantft_rtl_demo.rows(tmp_path) == []
    path.write_text(json.dumps(RESULT))
    (row,) = instantft_rtl_demo.rows(tmp_path)
    assert row.aim == {"job_cycles": ["<=", 12e6], "pass_cycles": ["<=", 400]}
    assert row.paper == paper.published("InstantFT, section 5", "0.36 s at 200 MHz")
    (table,) = [t for t in sections([row.to_json()]) if t.title == "Fine-tuning in the RTL"]
    printed = dict(zip(table.header, table.lines[0], strict=True))
    wanted = {
        "data": "mnist", "training images": "1,024", "held-out images": "900", "seeds": "0",
        "paper, cycles per job": "72,000,000", "paper, cycles per sample": "7,030",
        "paper, RotMNIST %": "91.8",
    }  # fmt: skip
    assert {name: printed[name] for name in wanted} == wanted


def test_an_accuracy_of_other_images_has_none_of_the_paper_beside_it(monkeypatch, tmp_path):
    found = RESULT | {"data": "digits", "held": 273}
    monkeypatch.setattr(instantft_rtl, "measure", lambda *_, **__: found)
    monkeypatch.setattr(jobs, "memo", lambda folder, kind, key, compute: compute())
    monkeypatch.setattr(kinds, "emitted", lambda job, plain: tmp_path / "instantft.v")
    (job,) = (
        job
        for job in jobs.plan(tmp_path, kinds={"job"}, cores={"instantft"})
        if job.config == "LeNet-5, 32 lanes"
    )
    (row,) = jobs._rows(job)
    assert row.paper["figures"] == {"job_cycles": 72_000_000, "pass_cycles": 7030}
    (table,) = [t for t in sections([row.to_json()]) if t.title == "Fine-tuning in the RTL"]
    printed = dict(zip(table.header, table.lines[0], strict=True))
    assert (printed["data"], printed["held-out images"], printed["seeds"]) == ("digits", "273", "0")
    assert printed["paper, cycles per job"] == "72,000,000"
    assert not any("RotMNIST" in heading for heading in printed)


def test_other_lanes_have_no_aims():
    assert paper.aims("instantft", {"lanes": 8}, "job", None) == {}
