import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from seedbed.flow.report import aims, paper, plots, ratio, report, tables
from seedbed.flow.report.kinds import KINDS
from seedbed.flow.report.row import Row, command
from seedbed.flow.report.sections import sections
from seedbed.flow.report.table import format_figure
from seedbed.flow.run import plot_style

TOOLS = {"yosys": "Yosys 0.1"}


def row(core, config, params, target, kind="synthesis", **figures):
    return Row(
        core=core,
        config=config,
        params=params,
        kind=kind,
        target=target,
        figures=figures,
        tools=TOOLS,
        command=command("synth", core, params, "--target", str(target)),
        paper=paper.reference(core, params, kind, target),
        aim=paper.aims(core, params, kind, target),
    )


ARRAY = {"lanes": 31, "width": 8, "leap": 1, "seeding": "serial", "repair": False}
TREE = {"instances": 1024, "lfsrs": "published"}


@pytest.fixture
def rows():
    return [
        row("urng_array", "31 x 8", ARRAY, "xcup", lut=40, ff=249, bram=0, dsp=0, cells=300),
        row("urng_array", "31 x 8", ARRAY, "ecp5", lut=45, ff=249, bram=0),
        row(
            "urng_array",
            "31 x 8",
            ARRAY,
            "ecp5",
            "place",
            fmax_mhz=310.0,
            fmax_min_mhz=300.0,
            fmax_max_mhz=320.5,
        ),
        row("tree_grng", "1024", TREE, "xcup", lut=102400, ff=69632),
        row(
            "urng_array",
            "31 x 8",
            ARRAY,
            None,
            "statistics",
            beats=7905,
            generator_autocorrelation=0.5,
            generator_by_lag=[0.5, 0.25],
            any_pair_by_lag=[0.5, 0.3],
        ),
    ]


def test_a_figure_without_a_unit_is_refused():
    with pytest.raises(ValueError, match="'luts' is not a figure of the report"):
        row("lfsr", "default", {}, "xcup", luts=1)


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_figure_without_a_value_is_refused(value):
    with pytest.raises(ValueError, match="lut of lfsr has no value"):
        row("lfsr", "default", {}, "xcup", lut=value)


def test_the_page_lists_every_kind():
    page = (Path(__file__).parents[2] / "docs/report.md").read_text()
    (listed,) = re.findall(r"^\| `kind` \| (.*) \|$", page, re.MULTILINE)
    assert {*KINDS} - {*re.split(", | or ", listed)} == {"place_ready", "place_free"}


def test_command_quotes_what_a_shell_would_break():
    params = {"taps": (0, 1)}
    assert command("sim", "lfsr", params) == "seedbed sim lfsr --set taps=0,1"
    assert command("sim", "a core", {}) == "seedbed sim 'a core'"


def test_paper_figures_are_the_printed_ones():
    found = paper.reference("urng_array", {**ARRAY, "width": 14}, "synthesis", "xcup")
    assert (found["table"], found["row"]) == ("Table 6", "Ours O-t-F (OPT)")
    assert (found["figures"]["lut"], found["figures"]["ff"]) == (32, 512)
    # 1,024 baseline generators of 130 LUT and 68 FF.
    mezo = paper.published("Table 6", "MeZO")["figures"]
    assert (mezo["lut"], mezo["ff"]) == (1024 * 130, 1024 * 68)


@pytest.mark.parametrize(
    ("params", "target"), [(ARRAY, "ecp5"), ({**ARRAY, "leap": 8}, "xcup"), ({}, "xcup")]
)
def test_other_designs_have_no_reference(params, target):
    assert paper.reference("urng_array", params, "synthesis", target) is None


def test_ratios_a_beat_and_a_fresh_number(rows):
    (found,) = ratio.ratios(rows)
    assert found.figures["lut_per_beat"] == 102400 / 40
    assert found.figures["lut_per_number"] == pytest.approx((102400 / 1024) / (40 / 31))


def test_a_single_baseline_generator_counts_1024_times(rows):
    single = row("tree_grng", "single", {"instances": 1}, "xcup", lut=100, ff=68)
    (found,) = ratio.ratios([rows[0], single])
    assert found.figures["lut_per_beat"] == 1024 * 100 / 40
    assert found.figures["ff_per_number"] == pytest.approx(68 / (249 / 31))


def test_ratios_need_one_target_and_the_same_tools(rows):
    other = Row(**{**vars(rows[3]), "tools": {"yosys": "Yosys 0.2"}})
    assert ratio.ratios([rows[0], other]) == []
    assert ratio.ratios([rows[1], rows[3]]) == []


def test_everything_is_drawn_from_the_json(rows, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    path = report.build(rows, first)
    second.mkdir()
    report.draw(json.loads(path.read_text()), second)
    names = {file.name for file in second.iterdir()}
    assert names == {
        "report.md",
        "report.html",
        "resources.png",
        "fmax.png",
        "autocorrelation.png",
    }
    assert {file.name for file in first.iterdir()} == names | {"report.json"}
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_page_needs_no_network_and_no_other_file(rows, tmp_path):
    report.build(rows, tmp_path)
    page = (tmp_path / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in sources)


def test_what_was_not_measured_is_absent(rows, tmp_path):
    report.build(rows[:1], tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        "report.json",
        "report.md",
        "report.html",
        "resources.png",
    }
    text = (tmp_path / "report.md").read_text()
    assert "Fmax MHz" not in text
    assert "## Correlation" not in text


def test_a_plot_that_lost_its_rows_goes_away(rows, tmp_path):
    report.build(rows, tmp_path)
    report.build(rows[:1], tmp_path)
    assert not (tmp_path / "fmax.png").exists()


def test_nothing_is_left_behind_in_a_folder_that_cannot_be(rows, tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(OSError, match="file"):
        report.build(rows, tmp_path / "file")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_lut_of_a_perturbation_beyond_its_array(rows):
    params = {"source": "urng", "lanes": 31, "width": 8, "leap": 1}
    array = row("urng_array", "31 x 8", {**ARRAY, "repair": False}, "xcup", lut=40)
    whole = row("perturbation", "31 x 8", params, "xcup", lut=133)
    (found,) = ratio.ratios([array, whole])
    assert found.figures == {"lut_per_lane_more": 3}
    assert found.aim == {"lut_per_lane_more": ["<=", 3]}
    other = row("perturbation", "31 x 14", {**params, "width": 14}, "xcup", lut=133)
    assert ratio.ratios([array, other]) == []


def test_the_demonstration_has_published_accuracies():
    demo = Row(
        core="demo zo",
        config="gaussian, k = 16",
        kind="demo",
        figures={"accuracy_mean": 81.5},
        command="seedbed demo zo",
        paper=paper.demo_reference("gaussian"),
    )
    (table,) = [t for t in sections([demo.to_json()]) if "fine-tuning" in t.title]
    assert table.lines == [["demo zo", "gaussian, k = 16", "81.5", "90.4", "93.1"]]


def test_aims_are_met_or_missed(rows):
    table = aims.aims_table([r.to_json() for r in rows], "", "")
    assert [(line[-4], line[-1]) for line in table.lines] == [
        ("LUT", "missed"),
        ("FF", "met"),
        ("Fmax MHz, median", "met"),
    ]
    assert "data" not in table.header
    assert "seeds" not in table.header


def test_the_first_screen_says_what_was_checked_and_what_is_missed(rows, tmp_path):
    rows.append(row("lfsr", "default", {}, None, kind="simulation", cycles=5))
    rows.append(row("lfsr", "default", {}, None, kind="proof", proved=1))
    said = aims.summary([r.to_json() for r in rows])
    assert said == (
        "Measured: 3 cores: 2 checks (1 simulation, 1 proof). Of 3 aims, 2 met, 1 missed: "
        "urng_array 31 x 8 on xcup, LUT: 40, not <= 36."
    )
    report.build(rows, tmp_path)
    for name in ("report.md", "report.html"):
        head, _, _ = (tmp_path / name).read_text().partition("Made from")
        assert "Of 3 aims, 2 met, 1 missed" in head
    assert aims.summary([r.to_json() for r in rows[1:2]]) == (
        "Measured: 1 core: 0 checks. No aim was measured."
    )


GEMV_ROW = {
    f"{name}_{side}": 5 for name in ("cycles", "plain_cycles", "speed_up")
    for side in (512, 1024, 2048)
}  # fmt: skip
DECOMPRESS = {"blocks": 16, "block": 8, "latent": 3, "width": 16}


@pytest.mark.parametrize(
    ("stem", "measured"),
    [
        ("decompressor", row("seedlm_decompress", "a", DECOMPRESS, "xcup", lut=8721, ff=9)),
        (
            "decompressor",
            row("seedlm_decompress", "a", DECOMPRESS, None, "statistics", relative_error=0.1),
        ),
        ("products", row("gemv", "c", paper.GEMV, None, "cycles", **GEMV_ROW)),
        ("products", row("gemv", "c", {}, None, "cycles", **GEMV_ROW)),
        (
            "finetuning",
            row("instantft", "d", {"lanes": 32, "data": "digits"}, None, "job", job_cycles=9,
                pass_cycles=3.5, accuracy_before=11.4, accuracy_after=91.6),
        ),
        ("finetuning", row("instantft", "d", {"lanes": 8}, None, "job", job_cycles=9)),
    ],
)  # fmt: skip
def test_every_system_has_a_plot(stem, measured, monkeypatch):
    """A missing figure has a label in its place."""
    words = []
    monkeypatch.setattr(plots, "label_missing", lambda *found, **_: words.append(found[2]))
    drawn = {name: plot([measured.to_json()]) for name, _, plot in plots.PLOTS}
    assert drawn[stem].startswith(b"\x89PNG")
    if "relative_error" in measured.figures:
        assert words == ["not measured"] * 2
    if measured.params.get("data") == "digits":
        assert words == ["not in the paper"]


def test_a_job_of_another_core_is_in_no_plot_of_fine_tuning():
    job = row("sparse_trainer", "d", {"data": "digits"}, None, "job", job_cycles=9)
    assert plots.finetuning([job.to_json()]) is None


def test_no_point_is_on_the_frame():
    _, (axes,) = plot_style.panels(1, 4, 4)
    axes.plot([1, 2, 3], [5, 6, 7], "o")
    assert axes.get_xlim()[0] < 1 < 3 < axes.get_xlim()[1]
    assert axes.get_ylim()[0] < 5 < 7 < axes.get_ylim()[1]


def test_every_figure_of_data_or_seeds_names_them():
    placed = row("lfsr", "a", {}, "ecp5", kind="place", fmax_mhz=50.0)
    names = ("cycles", "plain_cycles", "speed_up")
    sides = {f"{name}_{side}": 5 for name in names for side in (512, 1024, 2048)}
    rows = [
        row("lfsr", "a", {}, "ecp5", lut=9),
        replace(placed, seeds=[1, 2, 3], aim={"fmax_mhz": [">=", 40]}),
        row("demo zo", "b", {"data": "digits"}, None, kind="demo", accuracy_mean=80.0),
        row("gemv", "c", {}, None, kind="cycles", **sides),
    ]
    rows[2] = replace(rows[2], seeds=[0, 1, 4], aim={"accuracy_mean": [">=", 90]})
    rows[3] = replace(rows[3], seeds=[7])
    found = {table.title: table for table in sections([each.to_json() for each in rows])}

    def named(title):
        table = found[title]
        where = [table.header.index(name) for name in ("data", "seeds") if name in table.header]
        return [[line[k] for k in where] for line in table.lines]

    assert named("Resources") == [["1..3"]]
    assert named("Zeroth-order fine-tuning") == [["digits", "0, 1, 4"]]
    assert named("Matrix-vector products") == [["7"]] * 3
    assert named("Aims") == [["", "1..3"], ["digits", "0, 1, 4"]]


def test_sizes_join_a_job_with_what_it_ran_on():
    lanes = {"lanes": 8}
    rows = [
        row("instantft", "8", lanes, "ecp5", lut=9, ff=8, bram=7, dsp=6),
        row("instantft", "8", lanes, "ecp5", kind="place", fmax_mhz=50.0),
        row("instantft", "8", lanes, "xcup", lut=5, ff=8, bram=7, dsp=6),
        row("instantft", "16", {"lanes": 16}, "ecp5", lut=1),
        row("instantft", "8", lanes, None, kind="job", job_cycles=2_000_000, pass_cycles=99.5),
    ]
    table = tables.job_resources([r.to_json() for r in rows], "", "")
    assert table.header[-3:] == ["cycles per job", "cycles per cached sample", "job, ms"]
    assert [line[2:] for line in table.lines] == [
        ["ecp5", "9", "8", "7", "6", "50.0", "2,000,000", "99.5", "40.0"],
        ["xcup", "5", "8", "7", "6", "", "2,000,000", "99.5", ""],
    ]
    assert tables.job_resources([rows[0].to_json()], "", "") is None


def test_status_counts_what_was_done(rows):
    table = tables.status([r.to_json() for r in rows], "", "")
    assert dict(zip(table.header, table.lines[0], strict=True)) == {
        "core": "urng_array",
        "simulated": "-",
        "cocotb": "-",
        "proven": "-",
        "mutated": "-",
        "synthesized": "xcup, ecp5",
        "placed": "ecp5",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("none", "none"),
        (1234567, "1,234,567"),
        (0.011811, "0.0118"),
        (310.0, "310.0"),
        (320.54, "320.5"),
        (2.5, "2.50"),
    ],
)
def test_format_figure(value, text):
    assert format_figure(value) == text


def test_summary_says_what_is_checked_and_what_is_missed(rows):
    lines = report.summary([row.to_json() for row in rows])
    assert lines[0] == "Checked:"
    assert any("synthesized; " in line for line in lines)
    met = next(line for line in lines if line.startswith("Aims: "))
    missed = [line for line in lines if line.startswith("  missed: ")]
    part, whole = map(int, re.findall(r"\d+", met))
    assert whole - part == len(missed)
    assert "'make formal'" in next(line for line in lines if line.startswith("Not checked so far"))


def test_each_surviving_mutant_has_a_line():
    command = (
        "mutate -ctrl mutsel 7 18 -mode const1 -module top -cell $flatten\\\\core.$or$core.v:9$2 "
        "-port B -portbit 4 -wire core.x -src core.v:127.15-127.19 -src core.v:2609.9-2609.14"
    )
    row = {"core": "lfsr", "config": "14 bits", "kind": "mutation"}
    row["figures"] = {"mutants": 2, "killed": 1, "survivors": [command]}
    table = tables.surviving_mutants([row], "", "")
    (line,) = table.lines
    assert line[:3] == ["lfsr", "14 bits", "const1 at B[4]"]
    assert line[4] == "2609.9-2609.14"
    assert tables.surviving_mutants([{**row, "figures": {"survivors": []}}], "", "") is None
