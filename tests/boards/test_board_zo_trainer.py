"""Training by forward passes on the virtual board, bit for bit the model."""

from dataclasses import replace
from inspect import signature
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from seedbed.boards import apps, virtual
from seedbed.boards.apps import zo_trainer
from seedbed.boards.device import Device
from seedbed.boards.registers import addresses
from seedbed.boards.stream_job import StreamJob
from seedbed.boards.top import identifier
from seedbed.flow.jobs.data import digits
from seedbed.flow.jobs.elasticzo_checkpoint import load
from seedbed.flow.jobs.zo_trainer_rtl import draw
from seedbed.golden.training_log import TrainingLog
from seedbed.sim.payloads import unpack

DESIGN = apps.find("zo_trainer", "digits")
#: Two steps.
JOB = {"images": 16, "batch": 8, "epochs": 1, "seed": 3}


@pytest.fixture(scope="module")
def board(kept):
    """One board for all tests: its memory's self-test takes a second."""
    program = virtual.executable(DESIGN, "zo_trainer-digits", build=Path(kept))
    with virtual.start(program) as started:
        yield started


def connect(board, timeout=0.2):
    found = addresses(DESIGN.REGISTERS)
    return Device(board.port, found, identifier=identifier(DESIGN), timeout=timeout)


def trained(device, **options):
    """Train; return what is printed. A difference to the model raises."""
    text = StringIO()
    zo_trainer.run(device, Console(file=text, width=200), DESIGN.config, **JOB | options)
    return text.getvalue()


def test_two_steps_from_the_command_line_and_their_log(board, called, tmp_path):
    words = ["board", "run", "zo_trainer", "--port", board.port, "-o", "mine"]
    words += [part for name, value in JOB.items() for part in (f"--{name}", str(value))]
    code, printed, problem = called(words, tmp_path)
    again, _, refused = called(words, tmp_path)
    assert (again, refused) == (2, "error: mine.log exists already; --force overwrites it\n")
    assert (code, problem) == (0, "")
    assert "the memory, 32 MiB, passed its self-test" in printed
    assert "2 steps and all weights are those of the model, bit for bit" in printed
    assert "epoch 1: " in printed
    assert "accuracy rises over thousands of steps, not in 2; the configuration 'tail'" in printed
    assert "64 other images: " in printed
    again = ["replay-log", "mine.log", "mine-first.npz", "-o", "again.npz"]
    assert called(again, tmp_path)[:2] == (0, "again.npz: the weights after 2 steps\n")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "mine-final.npz").read_bytes()


def test_rank_1_with_levels_and_its_log(kept, tmp_path):
    design = apps.find("zo_trainer", "tiny-rank1")
    program = virtual.executable(design, "zo_trainer-tiny-rank1", build=Path(kept))
    text, job = StringIO(), {"images": 24, "batch": 4, "epochs": 2, "held": 4}
    with virtual.start(program) as board:
        registers = addresses(design.REGISTERS)
        with Device(board.port, registers, identifier=identifier(design), timeout=0.2) as device:
            zo_trainer.run(
                device, Console(file=text, width=200), design.config, **job, output=tmp_path / "m"
            )
    assert "12 steps and all weights are those of the model, bit for bit" in text.getvalue()
    log = TrainingLog.parse((tmp_path / "m.log").read_text())
    assert len({entry.level for entry in log.entries}) > 2
    (weights, _), (final, _) = (load(tmp_path / f"m-{name}.npz") for name in ("first", "final"))
    layers = [layer.name for layer in design.config.layers]
    again = log.replay(
        {name: weights[name] for name in layers},
        {name: int(weights[f"{name}.exponent"]) for name in layers},
    )
    assert all((again[name] == final[name]).all() for name in layers)


def test_a_quick_simulation_learns():
    """The model of the variant with a tail, with the options of the command: see its page."""
    defaults = {name: p.default for name, p in signature(zo_trainer.run).parameters.items()}
    given = ("images", "held", "batch", "epochs", "magnitude", "seed")
    config = zo_trainer.VARIANTS["tail"]
    of = draw(config, digits(), **{name: defaults[name] for name in given})
    acts, _, _ = of.acts(("before", "train", "infer"), lambda places: places)
    layout, labels = zo_trainer.layouts(config)["o"], of.labels[of.classified]
    before, after = (
        (unpack(layout, act.outputs["o"], "best")[:, 0] == labels).mean() for act in acts[::2]
    )
    assert after >= before + 0.5


def test_a_training_goes_on_from_a_checkpoint(board, tmp_path):
    with connect(board) as device:
        jobs = device.read("jobs")
        trained(device, output=tmp_path / "first")
        start = tmp_path / "first-final.npz"
        printed = trained(device, start=start, epochs=2, output=tmp_path / "second")
        assert device.read("jobs") == jobs + 2
    assert "4 steps and all weights" in printed
    assert (tmp_path / "second-first.npz").read_bytes() == start.read_bytes()


def test_what_differs_from_the_model_is_found(board):
    of = draw(DESIGN.config, digits(), **JOB)
    job, *_ = zo_trainer.stream_job(of)
    with connect(board) as device:
        _, words = job.run(device)
    job.require_same(words)
    for place, bit in ((0, 0), (0, 28), (len(words) // 2, 0), (len(words) - 1, 0)):
        wrong = words.copy()
        wrong[place] ^= 1 << bit
        with pytest.raises(AssertionError, match="what the board sent differs from the model"):
            job.require_same(wrong)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": 2000}, r"images must be in 1\.\.1097, not 2000"),
        ({"held": 0}, r"held must be in 1\.\.700, not 0"),
        ({"batch": 0}, r"batch must be in 1\.\.256, not 0"),
        ({"magnitude": 14}, "magnitude must be one of 1, 3, 7, 15, not 14"),
        ({"start": Path(__file__)}, "is not a checkpoint"),
    ],
)
def test_a_job_that_is_out_of_range_is_refused(options, sentence, board):
    with connect(board) as device:
        jobs = device.read("jobs")
        with pytest.raises(ValueError, match=sentence):
            trained(device, **options)
        assert device.read("jobs") == jobs


def test_more_images_than_the_memory_has_room_for_are_refused():
    of = draw(zo_trainer.VARIANTS["lenet5"], digits(), images=2, held=1)
    more = replace(of, images=np.zeros((32769, 1, 28, 28), np.uint8))
    with pytest.raises(ValueError, match="has room for 32768 images, not for 32769, of which 1 "):
        zo_trainer.stream_job(more)


def test_a_checkpoint_that_ends_early_or_does_not_fit_is_refused(board, tmp_path):
    with connect(board) as device:
        jobs = device.read("jobs")
        trained(device, output=tmp_path / "whole")
        whole = (tmp_path / "whole-final.npz").read_bytes()
        (tmp_path / "part.npz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=r"part\.npz is not a checkpoint of this"):
            trained(device, start=tmp_path / "part.npz")
        other = zo_trainer.VARIANTS["lenet5"]
        with pytest.raises(ValueError, match=r"whole-final\.npz has no int8 weights of 120 x 784"):
            draw(other, digits(), start=tmp_path / "whole-final.npz")
        assert device.read("jobs") == jobs + 1


def test_another_job_is_not_continued(board):
    job, *_ = zo_trainer.stream_job(draw(DESIGN.config, digits(), **JOB))
    with connect(board) as device:
        job.start(device)
        jobs = device.read("jobs")
        with pytest.raises(ValueError, match="the board runs another job"):
            trained(device, resume=True, images=17)
        printed = trained(device, resume=True)
        assert device.read("jobs") == jobs
    assert "2 steps and all weights are those of the model" in printed


def test_a_packet_to_no_port_is_discarded(board):
    """It could only come of a program with a mistake; the next job is as any other."""
    with connect(board) as device:
        StreamJob(np.array([77 | 3 << 8, 0, 1, 2, 3], np.uint32)).run(device)
        assert "2 steps" in trained(device)
