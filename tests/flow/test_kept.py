"""What is kept is used only where it is whole, and a full disk leaves nothing that is not."""

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import numpy as np
import pytest

from seedbed.flow.cli import instantft_rtl as instantft_rtl_demo
from seedbed.flow.cli import zo_trainer_rtl as zo_trainer_rtl_demo
from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit import verilog
from seedbed.flow.fpga import harness, nextpnr, place, synth
from seedbed.flow.jobs.pretrained import pretrained
from seedbed.flow.report.row import Row, load_rows
from seedbed.flow.run.files import write_atomic
from seedbed.sim import tools
from seedbed.sim.jobs import instantft_job
from seedbed.sim.verilog import checksum, verilate
from seedbed.spec.instantft import InstantFtConfig
from seedbed.studies import seedlm, zo

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
#: What a crash, a full disk or a bad one makes of a file.
DAMAGE = {
    "empty": lambda raw: b"",
    "cut short": lambda raw: raw[: len(raw) // 2],
    "garbage": lambda raw: b"\xff" * len(raw),
    "one bit": lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
}
damage = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)


def full(*_, **__):
    raise FULL


def test_a_full_disk_leaves_the_old_file_and_is_told_by_name(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "kept.json", "old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device") as refused:
            write_atomic(path, "new")
    assert refused.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]
    assert path.read_text() == "old"
    assert write_atomic(path, "new").read_text() == "new"


@damage
def test_a_checksum_matches_what_was_recorded_alone(tmp_path, damage):
    path = tmp_path / "bench"
    path.write_bytes(b"an executable")
    assert not checksum.intact(path)
    checksum.record(path)
    assert checksum.intact(path)
    path.write_bytes(damage(path.read_bytes()))
    assert not checksum.intact(path)
    checksum.record(path)
    path.with_name("bench.sha256").write_bytes(damage(path.with_name("bench.sha256").read_bytes()))
    assert not checksum.intact(path)
    path.unlink()
    assert not checksum.intact(path)


LFSR = "module lfsr(input clk, output reg o); always @(posedge clk) o <= ~o; endmodule\n"


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """A mapped core; and another folder that holds what yosys wrote of it."""
    build = tmp_path_factory.mktemp("mapped")
    verilog = build / "lfsr.v"
    verilog.write_text(LFSR)
    folder = synth.map_core(verilog, "lfsr", target="ecp5", build=build)
    return verilog, shutil.copytree(folder, build / "copy")


@pytest.fixture
def core(tmp_path, mapped, monkeypatch):
    """A mapped core that is mapped again without yosys, and how often it was."""
    source, copy = mapped
    times = []

    def again(folder, scripts):
        times.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, (part, _) in synth.MAPPED.items():
            shutil.copyfile(copy / name, folder / part)

    monkeypatch.setattr(synth, "_map", again)
    monkeypatch.setattr(synth, "_pack", lambda *_: None)

    def map_core():
        return synth.map_core(source, "lfsr", target="ecp5", build=tmp_path)

    return map_core, times


@damage
@pytest.mark.parametrize("name", synth.MAPPED)
def test_a_damaged_file_of_a_mapped_core_is_mapped_again(core, mapped, name, damage):
    map_core, times = core
    folder = map_core()
    assert map_core() == folder
    assert len(times) == 1
    wanted = (folder / name).read_bytes()
    (folder / name).write_bytes(damage(wanted))
    assert map_core() == folder
    assert len(times) == 2
    assert (folder / name).read_bytes() == wanted


def test_two_that_ask_for_a_mapped_core_at_once_wait_for_one_synthesis(core, monkeypatch):
    map_core, times = core
    synthesis = synth._map

    def long(folder, scripts):
        synthesis(folder, scripts)
        sleep(0.3)

    monkeypatch.setattr(synth, "_map", long)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: map_core(), range(2))
    assert first == second
    assert len(times) == 1


@pytest.mark.parametrize("name", synth.MAPPED)
@pytest.mark.parametrize("part", [0, 1 / 2])
def test_a_disk_that_yosys_finds_full_without_a_word(core, monkeypatch, name, part):
    map_core, times = core
    whole = synth._map

    def short(folder, scripts):
        whole(folder, scripts)
        raw = (folder / synth.MAPPED[name][0]).read_bytes()
        (folder / synth.MAPPED[name][0]).write_bytes(raw[: int(part * len(raw))])

    with monkeypatch.context() as patch:
        patch.setattr(synth, "_map", short)
        message = rf"{synth.MAPPED[name][0]} is truncated: is the disk full\?"
        with pytest.raises(RuntimeError, match=message):
            map_core()
    assert json.loads((map_core() / "stat.json").read_text())["modules"]
    assert len(times) == 2


@damage
def test_a_damaged_placement_is_placed_again(tmp_path, monkeypatch, damage):
    calls = []

    def tool(name, *arguments, cwd):
        calls.append(arguments)
        (cwd / arguments[arguments.index("--write") + 1]).write_text('{\n  "modules": {\n  }\n}\n')

    monkeypatch.setattr(tools, "run", tool)
    job = nextpnr.Job(
        title="lfsr", tool="NEXTPNR_ECP5", words=(), folder=tmp_path, design=lambda: "design.json",
        cache=tmp_path, key={}, mhz=400, read=dict, place=("--write", "placed.json"),
        route=(),
    )  # fmt: skip

    def placed():
        job.placement()
        return job.placed

    wanted = placed().read_bytes()
    placed().write_bytes(damage(wanted))
    assert placed().read_bytes() == wanted
    assert len(calls) == 2


@damage
def test_a_damaged_design_is_wrapped_again(tmp_path, mapped, monkeypatch, damage):
    """And a report that was cut short is no result: the next run makes one."""
    source, _ = mapped
    scripts = []
    cells = {f"{harness.INSTANCE}.x": {"attributes": {}}}
    wrapped = json.dumps({"modules": {place.HARNESS: {"cells": cells}}}, indent=1)

    def yosys(folder, stem, script):
        scripts.append(stem)
        # The first time, the disk is full.
        (folder / "design.part").write_text(wrapped[: -1 if len(scripts) == 1 else None])

    step = {"from": {"cell": "a"}, "to": {"cell": "b"}, "delay": 1.0, "type": "routing"}
    paths = [{"from": "clk", "to": "clk", "path": [step]}]
    reports = ["", json.dumps({"fmax": {"clk": {"achieved": 100}}, "critical_paths": paths})]

    def tool(name, *arguments, cwd, timeout):
        assert timeout is None
        (cwd / arguments[arguments.index("--report") + 1]).write_text(reports.pop(0))

    monkeypatch.setattr(place, "yosys", yosys)
    monkeypatch.setattr(place.ring_placement, "arrange", lambda *_: {"x": "X1/Y1"})
    folder = synth.map_core(source, "lfsr", target="ecp5", build=source.parent)
    shutil.copytree(folder, tmp_path / folder.name)
    versions = {name: tools.version(name) for name in ("YOSYS", "NEXTPNR_ECP5")}
    monkeypatch.setattr(tools, "version", versions.__getitem__)
    monkeypatch.setattr(tools, "run", tool)

    def placed():
        return place.place(source, "lfsr", target="ecp5", seeds=1, build=tmp_path)

    with pytest.raises(RuntimeError, match=r"design\.part is truncated: is the disk"):
        placed()
    with pytest.raises(RuntimeError, match=r"report-1\.json is truncated: is the disk"):
        placed()
    (design,) = tmp_path.glob("*/place-*/design.json")
    wanted = design.read_bytes()
    assert b'{"BEL": "X1/Y1"}' in wanted
    design.write_bytes(damage(wanted))
    assert placed()["mhz"] == [100]
    assert design.read_bytes() == wanted
    assert scripts == ["wrap"] * 3


@damage
def test_damaged_verilog_is_emitted_again(tmp_path, monkeypatch, damage):
    calls = []
    monkeypatch.setattr(verilog, "emit", lambda core, params, **_: calls.append(core) or LFSR)

    def write():
        return verilog.write(CORES["lfsr"], {}, tmp_path / "out", kept=tmp_path / "kept")

    path = write()
    (entry,) = (tmp_path / "kept").iterdir()
    for spoilt in (path, entry):
        spoilt.write_bytes(damage(spoilt.read_bytes()))
        assert write().read_text() == LFSR
    assert len(calls) == 2


EXECUTABLES = {
    "core": lambda verilog, build: verilate.executable(verilog, "core", folder=build) / "core",
    "job": lambda verilog, build: instantft_job.executable(verilog, InstantFtConfig(), build=build),
}


@damage
@pytest.mark.parametrize("make", EXECUTABLES.values(), ids=EXECUTABLES)
def test_a_damaged_executable_is_built_again(tmp_path, monkeypatch, make, damage):
    verilog, calls = tmp_path / "core.v", []
    verilog.write_text(LFSR)

    def build(objects, *arguments, flags):
        calls.append(objects)
        (objects / arguments[arguments.index("-o") + 1]).write_bytes(b"an executable")

    with monkeypatch.context() as patch:
        patch.setattr(verilate, "build", full)
        with pytest.raises(OSError, match="No space left on device"):
            make(verilog, tmp_path)
    monkeypatch.setattr(verilate, "build", build)
    path = make(verilog, tmp_path)
    assert make(verilog, tmp_path) == path
    assert len(calls) == 1
    path.write_bytes(damage(path.read_bytes()))
    assert make(verilog, tmp_path).read_bytes() == b"an executable"
    assert len(calls) == 2
    assert not [objects for objects in calls if objects.exists()]


@damage
def test_a_damaged_network_is_trained_again(tmp_path, damage):
    images, labels, calls = np.zeros((2, 3)), np.arange(2), []
    trained = {"w": np.float32([[1, 2], [3, 4]]), "b": np.float32([5])}

    def take(images=images, labels=labels, **settings):
        train = lambda: calls.append(1) or trained  # noqa: E731
        return pretrained(tmp_path, images, labels, {"steps": 1} | settings, train)

    first = take()
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    for found in (first, take(), take()):
        assert found.keys() == trained.keys()
        assert all(np.array_equal(found[name], trained[name]) for name in trained)
        assert all(found[name].dtype == np.float32 for name in trained)
    assert len(calls) == 2
    take(images + 1)
    take(labels=labels + 1)
    take(steps=2)
    assert len(calls) == 5


def test_a_damaged_demonstration_is_left_out_of_the_report(tmp_path, capsys):
    row = Row(core="demo", config="a", kind="demo", figures={"accuracy_mean": 1.0}, command="make")
    for name, text in {
        "a": "",
        "b": '{"mean": 1.0',
        "c": "[]",
        "d": "{}",
        "e": "[" * 10**5,
    }.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "good.json").write_text('{"rows": [1]}')
    found = load_rows(tmp_path.glob("*.json"), lambda result: [row for _ in result["rows"]])
    assert found == [row]
    printed = capsys.readouterr().err.splitlines()
    assert [Path(line.split()[0]).name for line in printed] == [f"{name}.json" for name in "abcde"]
    assert printed[0].endswith(
        "a.json is damaged or of another version, and is skipped: run its command again"
    )


@damage
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (zo, "zo"),
        (seedlm, "seedlm"),
        (instantft_rtl_demo, "instantft_rtl"),
        (zo_trainer_rtl_demo, "elasticzo_rtl"),
    ],
)
def test_every_demonstration_is_read_so(tmp_path, capsys, module, name, damage):
    path = tmp_path / "mnist" / f"{name}.json"
    path.parent.mkdir()
    path.write_bytes(damage(b'{"rows": []}'))
    assert module.rows(tmp_path) == []
    assert f"{name}.json is damaged" in capsys.readouterr().err
