from random import Random

import pytest

from seedbed.golden.weight_perturb import WeightPerturb as Model
from seedbed.hw.generators.perturbation_rows import Kind, command_layout
from seedbed.hw.generators.weight_perturb import Mode, WeightPerturb, row_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.weight_perturb import case
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.spec import WeightPerturbConfig

CONFIGS = [
    WeightPerturbConfig(lanes=8, ways=2, rows=16, used=(5, 8, 3)),
    WeightPerturbConfig(lanes=8, ways=2, bits=3, rows=9),
    WeightPerturbConfig(lanes=16, ways=4, bits=3, rows=40, used=(16,) * 20),
    WeightPerturbConfig(lanes=32, ways=1, rows=12, used=(25,)),
]
SMALL = CONFIGS[0]


@pytest.mark.parametrize(("config", "stalls"), with_stalls([*CONFIGS, *CONFIGS[1:]]))
def test_matches_model(config, stalls):
    simulate(WeightPerturb(config), case(config, Random(3), steps=4), stalls=stalls, seed=3)


def _command(config, kind, **fields):
    return command_layout(config).const({"kind": int(kind), **fields}).as_bits()


def _row(config, mode, row):
    fields = {"weights": [1] * config.count, "mode": mode, "row": row}
    return row_layout(config).const(fields).as_bits()


def test_latency_and_throughput():
    """Rows that are buffered, or in order, pass one a cycle; a rewind costs a weight's bits."""
    config = SMALL
    z = Model(config).perturbation(7, config.rows, magnitude=15, zeros=3).reshape(config.rows, -1)
    rows = [0, 1, 0, 2, 2, 3, 4, 5, 6]
    out = row_layout(config)["weights"].shape
    sent = [_row(config, Mode.PERTURB, row) for row in rows]
    came = [out.const((1 + z[row]).tolist()).as_bits() for row in rows]
    seed = _command(config, Kind.SEED, seed=7, magnitude=4, zeros=3)
    passed = Phase(inputs={"i": sent}, outputs={"o": came})
    rewind = Phase(inputs={"i_command": [_command(config, Kind.REWIND)]})
    moved = simulate(
        dut := WeightPerturb(config),
        Case(phases=[Phase(inputs={"i_command": [seed]}), passed, rewind, passed], quiet=True),
    ).transfers
    count = len(rows)
    for start in (0, count):
        inputs, outputs = (moved[name][start : start + count] for name in ("i", "o"))
        assert outputs == [cycle + dut.latency for cycle in inputs]
    first, second = moved["i"][:count], moved["i"][count:]
    assert first == list(range(first[0], first[0] + count))
    # A write of the last row of the buffer is complete before any row is accepted.
    assert first[0] == moved["i_command"][0] + dut.rewind + 1
    # Row 3 is the first one that needs the generator.
    assert second[5] == moved["i_command"][1] + dut.rewind
    assert second[5:] == list(range(second[5], second[5] + 4))


@pytest.mark.parametrize("used", [(5, 3, 8), (5,)])
@pytest.mark.parametrize("stalls", Stalls)
def test_last_buffered_row_follows_a_seed_at_once(used, stalls):
    """After each of two seeds, it has the numbers of that seed."""
    config = WeightPerturbConfig(lanes=8, ways=4, rows=9, used=used)
    row = len(used) - 1
    out = row_layout(config)["weights"].shape
    phases = []
    for seed in (77, 78):
        z = Model(config).perturbation(seed, 9, magnitude=15, zeros=0).reshape(9, -1)
        command = _command(config, Kind.SEED, seed=seed, magnitude=4)
        came = out.const((1 + z[row]).tolist()).as_bits()
        phases += [
            Phase(inputs={"i_command": [command]}),
            Phase(inputs={"i": [_row(config, Mode.PERTURB, row)]}, outputs={"o": [came]}),
        ]
    simulate(WeightPerturb(config), Case(phases=phases, quiet=True), stalls=stalls, seed=1)


def test_marks_are_kept_while_buffered_rows_pass():
    """A rewind while rows of the buffer come and wait: they are not disturbed."""
    config = SMALL
    z = Model(config).perturbation(7, config.rows, magnitude=15, zeros=0).reshape(config.rows, -1)
    out = row_layout(config)["weights"].shape
    rows = [0, 1, 2] * 8
    seed = _command(config, Kind.SEED, seed=7, magnitude=4)
    phases = [
        Phase(inputs={"i_command": [seed]}),
        Phase(
            inputs={
                "i": [_row(config, Mode.PERTURB, row) for row in rows],
                "i_command": [_command(config, Kind.REWIND)] * 3,
            },
            outputs={"o": [out.const((1 + z[row]).tolist()).as_bits() for row in rows]},
        ),
    ]
    for stalls, _ in zip([s for _, s in with_stalls(range(3))], range(3), strict=True):
        simulate(WeightPerturb(config), Case(phases=phases, quiet=True), stalls=stalls, seed=1)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"bits": 7}, ValueError, r"bits must be in 1\.\.6, not 7"),
        ({"lanes": 128}, ValueError, r"lanes must be in 8\.\.64, not 128"),
        ({"used": (33,)}, ValueError, r"every one of used must be in 0\.\.32, not 33"),
        ({"rows": 0}, ValueError, r"rows must be in 1\.\.65536, not 0"),
        ({"lanes": 8, "ways": 3}, ValueError, r"lanes x width must be a proven size"),
        ({"lanes": 8, "ways": 1, "bits": 3}, ValueError, r"64 bits of state or more, not 32"),
        ({"lanes": 8, "ways": 1, "bits": 4}, ValueError, r"64 bits of state or more, not 40"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        WeightPerturbConfig(**params)
