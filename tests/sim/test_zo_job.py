from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.hw.zeroth_order.zo_steps import class_layout, log_layout
from seedbed.sim.cases.zo_trainer import drawn
from seedbed.sim.harness import Mismatch
from seedbed.sim.jobs import zo_job
from seedbed.sim.verilog.cosim import Cosim

BATCH, STEPS = 32, 20


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The executable of a small core, and a job of 20 steps of 32 samples."""
    core, folder = CORES["zo_trainer"], tmp_path_factory.mktemp("zo_job")
    params = core.small | {"batch": BATCH}
    config = core.configure(params)
    bench = zo_job.executable(write(core, params, folder), core.name, config, build=folder)
    rng = np.random.default_rng(1)
    model = drawn(config, rng)
    job = zo_job.Job(
        config=config,
        weights=model.weights,
        exponents=model.exponents,
        images=rng.integers(0, 256, (BATCH * STEPS // 2, *config.layers[0].inputs)),
        labels=rng.integers(0, config.classes, BATCH * STEPS // 2),
        order=np.array([rng.permutation(BATCH * STEPS // 2) for _ in range(2)]),
        batch=BATCH,
        seed=0xFFFFFFF8,
        schedule=[(0, 4, 5, 1), (1, 3, 14, 1)],
        classified=np.arange(8),
    )
    return SimpleNamespace(bench=bench, job=job)


def test_twenty_steps_on_the_emitted_verilog(small):
    shares = []
    done = zo_job.run(small.bench, small.job, seed=1, progress=shares.append)
    config, log = small.job.config, done.log
    assert [entry.seed for entry in log[7:10]] == [0xFFFFFFFF, 0, 1]
    assert [(entry.magnitude, entry.zeros) for entry in log[9:11]] == [(4, 5), (3, 14)]
    assert {entry.sign for entry in log} >= {-1, 1}
    replayed = small.job.model()
    for entry in log:
        replayed.replay(entry)
    assert (replayed.rows == done.model.rows).all()
    # One read and one write of each parameter in each update, and no other writes.
    updates = sum(entry.sign != 0 for entry in log)
    assert (done.writes == updates).all()
    assert done.writes.shape == (config.ways * config.lanes // 2, config.engine.plan.frozen_rows)
    assert (done.reads["update"] == updates).all()
    # Two passes of each sample, which read dense rows once and those of convolutions again.
    passes = 2 * small.job.order.size
    assert done.reads["pass"].min() == passes
    assert done.reads["pass"].max() == passes * 36
    assert all(0 <= share <= 1 for share in shares)
    one = cycles(config.engine, *config.engine.plan.base)
    assert one < np.median(np.diff(done.when["infer"])) < one + 60


def test_ports_that_pause(small):
    few = replace(small.job, order=small.job.order[:, :40])
    done = zo_job.run(small.bench, few, seed=5, pauses=8)
    assert [len(batch) for batch, _ in few.batches()] == [32, 8] * 2
    assert len(done.log) == 4


def test_whatever_differs_from_the_model_is_reported(small, monkeypatch):
    """Nothing of what the core gave may change: each is seen."""
    few = replace(small.job, order=small.job.order[:1, :64], classified=np.arange(3))
    kept = {}
    run = Cosim.run

    def changed(core, act, **options):
        result = run(core, act, **options)
        payloads = {port: each.copy() for port, each in result.payloads.items()}
        kept.get(act.name, lambda outputs: None)(payloads)
        return replace(result, payloads=payloads)

    monkeypatch.setattr(Cosim, "run", changed)

    def flip(port, at, bit):
        def change(outputs):
            outputs[port][at, bit // 32] ^= 1 << bit % 32

        return change

    width = class_layout(few.config)["best"].width
    sign = log_layout(few.config)["sign"].offset
    for name, change, sentence in [
        ("train", flip("o", 33, 0), r"step 1: sample 1 is of class \d, and in the model of class"),
        ("train", flip("o", 20, width), "sample 20 does not count"),
        ("train", flip("o_log", 1, sign), r"step 1: seed and sign are .*, and in the model"),
        ("train", flip("o_log", 0, 3), r"step 0: seed and sign are"),
        ("train", flip("o_status", 0, 2), "train ended with the status 'command', not 'ok'"),
        ("read", flip("o_parameters", 7, 9), "1 of 272 weights are not the model's"),
        ("infer", flip("o", 2, 0), "image 2, after the training, is not of the model's class"),
    ]:
        kept.clear()
        kept[name] = change
        with pytest.raises(Mismatch, match=sentence):
            zo_job.run(small.bench, few, seed=1)


@pytest.mark.parametrize(
    ("phase", "stream", "count", "sentence"),
    [
        ("read", "o_status", 2, "no transfer for 1,000,000 cycles, o_status has 1 left"),
        ("train", "o_log", 0, "ended with 4: o_log: a beat too many"),
    ],
    ids=["a core that stops", "an output that is not expected"],
)
def test_another_number_of_outputs_is_reported(small, monkeypatch, phase, stream, count, sentence):
    few = replace(small.job, order=small.job.order[:1, :1], classified=np.arange(1))
    run = Cosim.run

    def expecting(core, act, **options):
        more = {stream: count} if act.name == phase else {}
        return run(core, replace(act, counts=more), **options)

    monkeypatch.setattr(Cosim, "run", expecting)
    with pytest.raises(Mismatch, match=sentence):
        zo_job.run(small.bench, few, seed=1)


def test_an_interruption_ends_the_simulation(small):
    def interrupt(share):
        raise KeyboardInterrupt

    long = replace(small.job, order=np.repeat(small.job.order, 20, axis=0))
    before = set(small.bench.parent.iterdir())
    with pytest.raises(KeyboardInterrupt):
        zo_job.run(small.bench, long, seed=1, progress=interrupt)
    assert set(small.bench.parent.iterdir()) == before


def test_verilog_that_does_not_build_is_an_error(small, tmp_path):
    verilog = tmp_path / "zo_trainer.v"
    verilog.write_text("module zo_trainer(); endmodule\n")
    with pytest.raises(RuntimeError):
        zo_job.executable(verilog, "zo_trainer", small.job.config, build=tmp_path)
