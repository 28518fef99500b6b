import json
from dataclasses import replace

import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.flow.report import figures, jobs, kinds
from seedbed.flow.report.docs import fill
from seedbed.flow.report.kinds import Job
from seedbed.flow.report.report import document
from seedbed.flow.report.row import UNITS, Row
from seedbed.flow.report.table import HEADINGS

CONFIG = "14 bits"


def row(netlist, kind="synthesis", target="xcup", config=CONFIG, core="lfsr", **values):
    return Row(
        core=core, config=config, kind=kind, target=target, figures=values or {"lut": 3},
        command="seedbed synth lfsr", netlist=netlist,
    )  # fmt: skip


@pytest.fixture
def today(tmp_path):
    """The hash of today's netlist, which is then known in the folder."""
    params = CORES["lfsr"].variants[CONFIG].params
    return kinds.elaborated(
        Job(kind="synthesis", core="lfsr", config=CONFIG, build=tmp_path, params=params)
    )


def test_rows_are_kept_in_a_file_a_core(tmp_path):
    rows = [row("a"), row("b", target="ecp5"), row("", "demo", None, "x", "demo zo")]
    files = figures.save(tmp_path, rows)
    assert [path.name for path in files] == ["demo_zo.json", "lfsr.json"]
    assert figures.load(tmp_path) == rows


def test_a_new_row_takes_the_place_of_the_earlier_one(tmp_path):
    old = [row("a"), row("a", target="ecp5"), row("a", config="no longer there")]
    new = row("b", lut=4)
    assert figures.merged(old, [new]) == [new, old[1]]


def test_a_row_of_an_earlier_netlist_is_stale(tmp_path, today):
    assert not figures.is_stale(row(today), tmp_path)
    assert figures.is_stale(row("0" * 16), tmp_path)
    assert figures.is_stale(row(""), tmp_path)
    # Numbers of a model have no netlist.
    assert not figures.is_stale(row("", "statistics", None), tmp_path)


def test_what_changed_or_is_missing_is_measured_again(tmp_path, today):
    params = CORES["lfsr"].variants[CONFIG].params
    listed = [
        Job(kind=kind, core="lfsr", config=CONFIG, build=tmp_path, params=params, target=target)
        for kind, target in [("synthesis", "xcup"), ("synthesis", "ecp5"), ("place", "ecp5")]
    ]
    rows = [row(today), row("0" * 16, target="ecp5")]
    assert figures.outdated(listed, rows) == listed[1:]
    assert figures.outdated(listed[:1], rows) == []


def test_of_a_check_the_bench_counts_as_well(tmp_path, today, monkeypatch):
    params = CORES["lfsr"].variants[CONFIG].params
    job = Job(kind="cocotb", core="lfsr", config=CONFIG, build=tmp_path, params=params)
    found = replace(row(today, "cocotb", None), evidence=jobs.evidence(job))
    assert figures.outdated([job], [found]) == []
    assert figures.outdated([job], [replace(found, evidence="")]) == [job]
    monkeypatch.setattr(jobs, "code", lambda module: f"{module}, changed")
    assert figures.outdated([job], [found]) == [job]
    assert not figures.is_stale(found, tmp_path)


def test_checks_in_yosys_are_of_the_emitted_text_as_well(tmp_path, monkeypatch):
    (job,) = jobs.plan(tmp_path, kinds={"netlist"}, cores={"lfsr"})
    values = {"kind": job.kind, "target": job.target, "config": job.config, "cycles": 9}
    found = replace(row(kinds.elaborated(job), **values), evidence=jobs.evidence(job))
    assert figures.outdated([job], [found]) == []
    assert not figures.is_stale(found, tmp_path)
    assert figures.is_stale(replace(found, netlist="0" * 16), tmp_path)
    emitter = "seedbed.flow.emit.postprocess"
    code = jobs.code
    monkeypatch.setattr(jobs, "code", lambda module: code(module) + "." * (module == emitter))
    assert figures.outdated([job], [found]) == [job]
    # A target that is no longer listed.
    other = replace(found, target="gowin")
    assert figures.merged([found, other], []) == [found]


def test_what_has_not_changed_is_not_elaborated_again(tmp_path, monkeypatch):
    def listed(build):
        return jobs.plan(tmp_path / build, kinds={"synthesis"}, cores={"lfsr"})

    for job in listed("a"):
        kinds.elaborated(job)
    path = figures.remember(tmp_path, listed("a"))
    first, *others = listed("b")
    known = json.loads(path.read_text())
    name = f"lfsr, {first.config}"
    path.write_text(json.dumps(known | {name: "0" * 16 + known[name][16:]}))
    monkeypatch.setattr(kinds.netlist, "netlist", lambda core, params: "elaborated")
    figures.recall(tmp_path, listed("b"))
    found = [kinds.elaborated(job) for job in others if job.config != first.config]
    assert found
    assert "elaborated" not in found
    assert kinds.elaborated(first) == "elaborated"
    # What has not been elaborated stays as it is written.
    assert figures.remember(tmp_path, listed("d")).read_text() == path.read_text()
    # Without a file, all are elaborated.
    figures.recall(tmp_path / "nothing", listed("c"))
    assert {kinds.elaborated(job) for job in listed("c")} == {"elaborated"}


def test_a_stale_row_is_marked_wherever_it_is_shown(tmp_path, today):
    page = "<!-- generated: resources -->\n<!-- end -->\n"
    for netlist, marked in ((today, False), ("0" * 16, True)):
        report = document([row(netlist)], lambda each: figures.is_stale(each, tmp_path))
        shown = fill(page, json.loads(json.dumps(report))["rows"], "lfsr")
        assert (f"{CONFIG} \N{DAGGER}" in shown) is marked
        assert ("earlier netlist" in shown) is marked


def test_a_figure_of_a_table_has_a_unit_unless_the_table_derives_it():
    assert set(HEADINGS) - set(UNITS) == {"epoch_s", "job_ms"}


def test_what_a_report_has_is_not_measured_again(tmp_path, called):
    """Neither the checks of today's source, nor others than the kinds and cores that are named."""
    (tmp_path / "README.md").write_text("")
    (tmp_path / "docs").mkdir()
    what = ["--kind", "simulation", "--core", "lfsr"]
    listed = len(jobs.plan(tmp_path, kinds={"simulation"}, cores={"lfsr"}))
    code, printed, _ = called(["measure", "--stale", *what], tmp_path)
    assert code == 0
    assert f"0 of {listed} measurements are in docs/figures." in printed
    code, _, _ = called(["report", *what, "--docs", "."], tmp_path)
    assert code == 0
    rows = figures.load(tmp_path)
    assert {(row.core, row.kind) for row in rows} == {("lfsr", "simulation")}
    assert all(len(row.evidence) == 16 for row in rows)
    code, printed, _ = called(["measure", "--stale", *what, "--build", "other"], tmp_path)
    assert code == 0
    assert f"{listed} of {listed} measurements are in docs/figures." in printed
    assert not (tmp_path / "other" / "emitted").exists()
