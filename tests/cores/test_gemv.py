# amaranth: UnusedElaboratable=no
from random import Random

import numpy as np
import pytest
from amaranth.hdl import Fragment

from seedbed.flow.cores.registry import CORES
from seedbed.flow.emit.verilog import write
from seedbed.flow.jobs import gemv_cycles as flow
from seedbed.flow.report import paper
from seedbed.flow.report.aims import aims_table
from seedbed.flow.report.kinds import plain as plain_params
from seedbed.flow.report.row import Row
from seedbed.flow.report.sections import sections
from seedbed.hw.products.gemv import Gemv
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.gemv import Job, case, command, phase, results
from seedbed.sim.cases.gemv_side import SideBench
from seedbed.sim.harness import Mismatch, simulate, with_stalls
from seedbed.sim.jobs import gemv_cycles
from seedbed.spec import GemvConfig

SMALL = {"block": 4, "latent": 2, "width": 8, "beat_bits": 48, "columns": 64, "row_width": 8}
CONFIGS = [
    GemvConfig(**SMALL),
    # Plain lanes end within a block; groups of five; odd widths.
    GemvConfig(
        block=5, latent=1, width=5, beat_bits=40, plain_width=4, activation_width=5, columns=50,
        row_width=8,
    ),
    # One block a beat, as many plain weights; few columns, each power of two in range.
    GemvConfig(block=2, latent=1, width=4, beat_bits=32, columns=7, row_width=8),
    GemvConfig(
        block=3, latent=2, width=6, word_bits=3, beat_bits=64, plain_width=32, columns=33,
        row_width=9,
    ),
    # Side paths with stored and with streamed entries.
    GemvConfig(**SMALL, plain_width=12, entries=30),
    GemvConfig(
        block=4, latent=2, width=8, beat_bits=64, plain_width=32, columns=33, row_width=8,
        activation_width=5, entries=0, value_width=6, number_width=4, most_shift=3,
    ),
    # Tables of one beat, of two and of four, which take longer than some rows.
    GemvConfig(decode="lut4", beat_bits=64, level_width=3, columns=50, row_width=8),
    GemvConfig(
        decode="lut4", beat_bits=40, level_width=4, level_load=2, columns=50, row_width=8,
        activation_width=5, entries=20, value_width=6, number_width=4, most_shift=3,
    ),
    GemvConfig(
        decode="lut4", beat_bits=24, level_width=5, level_load=4, columns=20, row_width=8,
        vectors=2, activation_width=4,
    ),
    GemvConfig(
        decode="plain", beat_bits=32, plain_width=5, columns=40, row_width=8, activation_width=4
    ),
    GemvConfig(
        decode="plain", beat_bits=32, plain_width=8, columns=40, row_width=8, activation_width=6,
        vectors=2, entries=0, value_width=6, number_width=4, most_shift=3,
    ),
    GemvConfig(**SMALL, plain_width=12, vectors=4, entries=30),
    # Codes of a trellis: a history of more bits than a beat; bits of a beat that are not read.
    GemvConfig(decode="trellis", beat_bits=32, columns=40, row_width=8, activation_width=7),
    GemvConfig(
        decode="trellis", bits=2, beat_bits=16, state_bits=12, columns=40, row_width=8,
        activation_width=5, vectors=2, entries=20, value_width=6, number_width=4, most_shift=3,
    ),
    GemvConfig(
        decode="trellis", bits=3, state_bits=8, beat_bits=40, columns=40, row_width=8, vectors=4,
        activation_width=32,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(Gemv(config), case(config, Random(5)), stalls=stalls, seed=5)


def random_job(config, seed=1, **shape):
    return Job.random(config, np.random.default_rng(seed), **shape)


@pytest.mark.parametrize(("index", "plain"), [(0, False), (0, True), (9, False), (12, False)])
@pytest.mark.parametrize("beats", [1, 3])
def test_latency_and_throughput(index, plain, beats):
    config = CONFIGS[index]
    dut = Gemv(config)
    lanes = config.plain_lanes if plain else config.lanes
    job = random_job(config, rows=60, columns=lanes * beats, plain=plain)
    transfers = simulate(dut, Case(phases=[phase(config, job)], quiet=True)).transfers
    latency = dut.plain_latency if plain else dut.latency
    ends = transfers["i_weights"][beats - 1 :: beats]
    assert transfers["o"] == [cycle + latency for cycle in ends]
    first = transfers["i_weights"][0]
    assert transfers["i_weights"] == list(range(first, first + 60 * beats * dut.interval))
    first = transfers["i_vector"][0]
    assert transfers["i_vector"] == list(range(first, first + len(job.vector)))


@pytest.mark.parametrize("columns", [60, 200])
def test_throughput_of_tables(columns):
    """A row takes a cycle for each of its beats, or as many as its table takes to load."""
    config = GemvConfig(
        decode="lut4", beat_bits=64, level_width=3, level_load=2, columns=200, row_width=8
    )
    assert (config.table_beats, config.lanes) == (1, 16)
    job = random_job(config, rows=40, columns=columns, plain=False)
    dut = Gemv(config)
    transfers = simulate(dut, Case(phases=[phase(config, job)], quiet=True)).transfers
    assert transfers["o"][-1] - transfers["i_weights"][-1] == dut.latency
    cycles = max(1 + -(-columns // 16), 16 // 2)
    assert (np.diff(transfers["o"][10:-1]) == cycles).all()


def test_entries_cost_no_cycle_until_there_are_many():
    """A dense pass hides entries where they and its rows are no more than its beats."""
    config = GemvConfig(**SMALL, activation_width=8, entries=0, most_shift=4)
    rng = np.random.default_rng(6)
    side = SideBench(config=config, rng=rng)
    cycles = []
    for count in (0, 40, 900):
        job = random_job(config, rows=60, columns=60, plain=False)
        whole = side.product(phase(config, job), job, side.matrix(60, 60, count), k=-1)
        transfers = simulate(Gemv(config), Case(phases=[whole], quiet=True)).transfers
        cycles.append(transfers["o"][-1] - transfers["i_weights"][0])
    assert cycles[0] == cycles[1] == 60 * 8 - 1 + Gemv(config).latency
    assert 960 <= cycles[2] < 1010


def test_speed_of_the_papers_configuration():
    """The cycles of Table 5: the latency of the last row is added."""
    dut = Gemv(GemvConfig())
    Fragment.get(dut, None)
    packed, plain = 2048 + dut.latency, 8192 + dut.plain_latency
    assert packed <= 2100
    assert plain / packed >= 3.95


def test_weights_wait_for_their_job():
    """Beats before the command and the vector are not accepted, and not lost."""
    config = CONFIGS[0]
    job = random_job(config, rows=2, columns=9, plain=True)
    whole = phase(config, job)
    first = {name: whole.inputs[name] for name in ("i", "i_vector")}
    dut = Gemv(config)
    phases = [Phase(inputs=first), Phase(inputs={"i_weights": whole.inputs["i_weights"]})]
    phases[1].outputs["o"] = whole.outputs["o"]
    simulate(dut, Case(phases=phases, quiet=True))
    transfers = simulate(Gemv(config), Case(phases=[whole], quiet=True)).transfers
    assert transfers["i_weights"][0] > transfers["i_vector"][-1]


def test_a_job_waits_for_the_one_before():
    config = CONFIGS[0]
    job = random_job(config, rows=2, columns=9, plain=False)
    one = phase(config, job)
    twice = Phase(
        inputs={name: payloads * 2 for name, payloads in one.inputs.items()},
        outputs={"o": one.outputs["o"] * 2},
    )
    transfers = simulate(Gemv(config), Case(phases=[twice], quiet=True)).transfers
    assert transfers["i"][1] == transfers["o"][1] + 1


def test_clear_has_no_effect_on_an_idle_engine():
    config = CONFIGS[0]
    clears = Phase(inputs={"i": [command(config, clear=True)] * 3})
    job = random_job(config, rows=2, columns=9, plain=False)
    simulate(Gemv(config), Case(phases=[clears, phase(config, job), clears], quiet=True))


def test_abort_with_all_credit_used():
    """As many rows as possible are in flight at an abort: the abort's result has an entry too."""
    config = CONFIGS[0]
    dut = Gemv(config)
    rows = dut.latency + 2
    job = random_job(config, rows=rows + 1, columns=config.lanes + 1, plain=False)
    whole = phase(config, job)
    cut = {**whole.inputs, "i_weights": whole.inputs["i_weights"][: 2 * rows - 2]}
    late = {"i": [command(config, clear=True)]}
    ends = results(config, job.sums[: rows - 1], "cleared")
    phases = [Phase(inputs=cut), Phase(inputs=late, outputs={"o": ends})]
    simulate(dut, Case(phases=phases, quiet=True))


def test_cycles_of_the_emitted_verilog(tmp_path, monkeypatch, kept):
    config = GemvConfig(**SMALL)
    core = CORES["gemv"]
    verilog = write(core, SMALL, tmp_path, kept=kept)
    bench = gemv_cycles.executable(verilog, core.name, config, build=tmp_path)
    dut = Gemv(config)
    for plain, beats in ((False, 3), (True, 7)):
        job = random_job(config, rows=30, columns=20, plain=plain)
        stimulus = Case(phases=[phase(config, job)])
        transfers = simulate(dut if plain else Gemv(config), stimulus).transfers
        cycles = gemv_cycles.run(bench, config, job)
        assert cycles == transfers["o"][-1] - transfers["i_weights"][0] + 1
        assert cycles == 30 * beats + (dut.plain_latency if plain else dut.latency)
    job.sums[17] += 1
    with pytest.raises(Mismatch, match="row 17 of 30 x 20 is not the model's"):
        gemv_cycles.run(bench, config, job)
    monkeypatch.setattr(flow, "SIDES", (16,))
    packed, plain = 16 * 2 + dut.latency, 16 * 6 + dut.plain_latency
    assert flow.measure(verilog, core.name, config, seed=1, build=tmp_path) == {
        "cycles_16": packed, "plain_cycles_16": plain, "speed_up_16": plain / packed,
    }  # fmt: skip


def test_cycles_of_a_side_path(tmp_path, monkeypatch, kept):
    """Entries of the emitted Verilog cost no cycle: here there are a few per row of 8 beats."""
    params = SMALL | {"entries": 0, "activation_width": 8, "most_shift": 4}
    core, config = CORES["gemv"], GemvConfig(**params)
    verilog = write(core, params, tmp_path, kept=kept)
    monkeypatch.setattr(flow, "SIDES", (64,))
    cycles = 64 * 8 + Gemv(config).latency
    assert flow.measure(verilog, core.name, config, seed=1, build=tmp_path) == {
        "cycles_64": cycles, "tenth_percent_cycles_64": cycles, "one_percent_cycles_64": cycles,
    }  # fmt: skip


def test_cycles_are_compared_with_the_papers():
    params = plain_params(CORES["gemv"], {})
    printed = paper.reference("gemv", params, "cycles", None)["figures"]
    figures = {name: value + 1 for name, value in printed.items()}
    for side in flow.SIDES:
        ratio = printed[f"plain_cycles_{side}"] / printed[f"cycles_{side}"]
        assert round(ratio, 2) == printed[f"speed_up_{side}"]
    row = Row(
        core="gemv", config="4 bits", kind="cycles", params=params, figures=figures,
        command="seedbed measure", paper=paper.reference("gemv", params, "cycles", None),
        aim=paper.aims("gemv", params, "cycles", None),
    )  # fmt: skip
    (table,) = [t for t in sections([row.to_json()]) if t.title == "Matrix-vector products"]
    assert table.lines[0] == [
        "4 bits", "512 x 512", "2,342", "2,341", "8,594", "8,593", "4.67", "3.67",
    ]  # fmt: skip
    assert len(aims_table([row.to_json()], "", "").lines) == 6
    other = plain_params(CORES["gemv"], {"word_bits": 8})
    assert paper.reference("gemv", other, "cycles", None) is None


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"beat_bits": 8}, ValueError, r"beat_bits must be in 16\.\.4096, not 8"),
        ({"beat_bits": 100}, ValueError, r"beat_bits must be a multiple of 8, not 100"),
        (
            {"beat_bits": 24},
            ValueError,
            r"beat_bits must be enough.*: 24 hold 0 packed and 1 plain",
        ),
        ({"beat_bits": 16}, ValueError, r"beat_bits must be enough.*16 hold 0 packed"),
        (
            {"beat_bits": 2048},
            ValueError,
            r"beat_bits must hold 32 blocks of 32 bits at most, not the 64",
        ),
        ({"plain_width": 1}, ValueError, r"plain_width must be in 2\.\.32, not 1"),
        ({"plain_width": 2}, ValueError, r"512 hold 128 packed and 256 plain weights"),
        ({"activation_width": 33}, ValueError, r"activation_width must be in 2\.\.32, not 33"),
        ({"columns": 0}, ValueError, r"columns must be in 1\.\.65536, not 0"),
        ({"row_width": 33}, ValueError, r"row_width must be in 1\.\.32, not 33"),
        ({"block": 0}, ValueError, r"block must be in 1\.\.32, not 0"),
        (
            {"decode": "nf4"},
            ValueError,
            "decode must be one of seedlm, lut4, trellis, plain, not 'nf4'",
        ),
        ({"bits": 5}, ValueError, r"bits must be in 2\.\.4, not 5"),
        ({"state_bits": 17}, ValueError, r"state_bits must be in 8\.\.16, not 17"),
        ({"code": 5}, TypeError, "code must be 1..8 fields of the same number of masks"),
        ({"vectors": 3}, ValueError, "vectors must be 1, 2 or 4, not 3"),
        ({"vectors": 5}, ValueError, r"vectors must be in 1\.\.4, not 5"),
        ({"decode": "lut4", "level_width": 1}, ValueError, r"width must be in 2\.\.32, not 1"),
        ({"decode": "lut4", "level_load": 3}, ValueError, "load must be 1, 2 or 4, not 3"),
        (
            {"decode": "lut4", "level_load": 4, "beat_bits": 48},
            ValueError,
            "beat_bits must hold 4 levels of 14 bits and an exponent, not 48",
        ),
        (
            {"decode": "plain", "plain_width": 32, "beat_bits": 16},
            ValueError,
            "beat_bits must hold a plain weight of 32 bits, not 16",
        ),
        ({"entries": -1}, ValueError, r"entries must be in 0\.\.65536, not -1"),
        ({"entries": 0, "beat_bits": 416}, ValueError, "group must be a power of two, not 26"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        GemvConfig(**params)
