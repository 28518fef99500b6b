# amaranth: UnusedElaboratable=no
from random import Random

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from seedbed.hw.products import gemv_layouts, sparse_layouts
from seedbed.hw.products.gemv import Gemv
from seedbed.hw.products.sparse_mac import SparseMac
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases import gemv as gemv_case
from seedbed.sim.cases.sparse_mac import Bench, Matrix, case
from seedbed.sim.harness import simulate, with_stalls
from seedbed.spec import GemvConfig, SparseMacConfig

SMALL = {"columns": 20, "group": 4, "row_width": 6, "entries": 40}
CONFIGS = [
    SparseMacConfig(**SMALL),
    SparseMacConfig(**SMALL | {"entries": 0}),
    # No group, narrow numbers, and a number of columns and of shifts that is no power of two.
    SparseMacConfig(
        entries=9, columns=5, group=1, row_width=5, value_width=5, activation_width=4,
        most_shift=5, sum_width=24, number_width=4,
    ),
    SparseMacConfig(
        entries=0, columns=64, group=16, row_width=20, value_width=24, activation_width=24,
        most_shift=0, sum_width=56, number_width=16,
    ),
    SparseMacConfig(**SMALL | {"vectors": 2}),
    SparseMacConfig(**SMALL | {"entries": 0, "vectors": 4}),
    SparseMacConfig(**SMALL | {"source": "urng"}),
    SparseMacConfig(**SMALL | {"source": "urng", "number_width": 10, "entries": 0}),
    SparseMacConfig(**SMALL | {"source": "urng", "number_width": 4, "vectors": 2}),
    SparseMacConfig(**SMALL | {"source": "pool"}),
    SparseMacConfig(**SMALL | {"source": "pool", "number_width": 3, "entries": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(SparseMac(config), case(config, Random(5)), stalls=stalls, seed=5)


def bench(config, seed=3):
    return Bench(config=config, rng=np.random.default_rng(seed))


def full(config, rows, columns):
    """Return a matrix with an entry at every place."""
    rng = np.random.default_rng(4)
    return Matrix.random(config, rng, rows=rows, columns=columns, count=rows * columns)


def test_an_entry_or_a_sum_every_cycle():
    """A product that waits for no dense sum takes a cycle for an entry, and one for a row's sum."""
    config = SparseMacConfig(**SMALL | {"entries": 0, "columns": 16})
    one = bench(config)
    matrix = full(config, 30, 16)
    product, update = one.product(matrix, k=1), one.update(matrix)
    phases = [Phase(inputs={"i": p.inputs.pop("i")}) for p in (product, update)]
    both = Case(phases=[phases[0], product, phases[1], update], quiet=True)
    transfers = simulate(SparseMac(config), both).transfers
    taken = np.diff(transfers["i_entries"])
    product, update = taken[:479], taken[480:]
    assert set(product.tolist()) == {1, 2}
    assert (product == 2).sum() == 29
    assert (update == 1).all()
    assert (np.diff(transfers["o_entries"]) == 1).all()


@pytest.mark.parametrize("count", [0, 3])
def test_a_dense_sum_has_its_result_in_the_next_cycle(count):
    config = SparseMacConfig(**SMALL)
    one = bench(config)
    matrix = Matrix.random(config, one.rng, rows=40, columns=20, count=count)
    load, product = one.load(matrix), one.product(matrix)
    sums = {"i_sums": product.inputs.pop("i_sums")}
    product_only = Phase(inputs=product.inputs)
    # Sums that come when the sparse parts are known.
    pause = Phase(inputs={"i_entries": []})
    phases = [load, product_only, pause, Phase(inputs=sums, outputs=product.outputs)]
    dut = SparseMac(config)
    transfers = simulate(dut, Case(phases=phases)).transfers
    results = transfers["o"][1:]
    assert results[20:] == [cycle + dut.latency for cycle in transfers["i_sums"]][20:]
    # A row's entries take a cycle each.
    entries = np.bincount(matrix.entries[:, 0], minlength=40)
    assert np.diff(results[20:]).tolist() == (1 + entries[21:]).tolist()


def test_trained_values_are_read_and_written_once_each_pass():
    """An update gives each value once, and the next product has the new ones."""
    config = SparseMacConfig(**SMALL)
    one = bench(config)
    matrix = full(config, 2, 20)
    phases = [one.load(matrix)]
    for _ in range(3):
        phases += [one.product(matrix, k=1), one.product(matrix, k=-1), one.update(matrix)]
    transfers = simulate(SparseMac(config), Case(phases=phases, quiet=True)).transfers
    assert len(transfers["o_entries"]) == 3 * 40


class Engine(wiring.Component):
    """A dense engine and the sparse part, one after the other, with the same vector."""

    def __init__(self, dense: GemvConfig, sparse: SparseMacConfig):
        self._configs = dense, sparse
        gemv, part = Gemv(dense).signature, SparseMac(sparse).signature
        super().__init__(
            {
                "i": gemv.members["i"],
                "i_vector": gemv.members["i_vector"],
                "i_weights": gemv.members["i_weights"],
                "i_pass": part.members["i"],
                "i_entries": part.members["i_entries"],
                "o": part.members["o"],
            }
        )

    def elaborate(self, platform):
        m = Module()
        dense, sparse = self._configs
        m.submodules.gemv = gemv = Gemv(dense)
        m.submodules.sparse = part = SparseMac(sparse)
        for outer, inner in (
            (self.i, gemv.i), (self.i_weights, gemv.i_weights), (self.i_pass, part.i),
            (self.i_entries, part.i_entries), (self.o, part.o),
        ):  # fmt: skip
            wiring.connect(m, wiring.flipped(outer), inner)
        wiring.connect(m, gemv.o, part.i_sums)
        both = gemv.i_vector.ready & part.i_vector.ready
        m.d.comb += [
            self.i_vector.ready.eq(both),
            part.o_entries.ready.eq(1),
            gemv.i_vector.payload.eq(self.i_vector.payload),
            part.i_vector.payload.eq(self.i_vector.payload),
            gemv.i_vector.valid.eq(self.i_vector.valid & part.i_vector.ready),
            part.i_vector.valid.eq(self.i_vector.valid & gemv.i_vector.ready),
        ]
        return m


@pytest.mark.parametrize("kept", [0.01, 0.3])
def test_behind_the_dense_engine(kept):
    """Its layouts are those of the engine; few entries cost a cycle, many one each and a row."""
    dense = GemvConfig(
        block=4, latent=2, width=8, beat_bits=64, columns=64, row_width=8, activation_width=8
    )
    sparse = SparseMacConfig(
        entries=0, columns=64, group=dense.group, row_width=8, activation_width=8,
        sum_width=dense.mac.accumulator_width, most_shift=2,
    )  # fmt: skip
    assert sparse_layouts.result_layout(sparse) == gemv_layouts.result_layout(dense)
    assert sparse_layouts.vector_layout(sparse) == gemv_layouts.vector_layout(dense)
    rng = np.random.default_rng(6)
    job = gemv_case.Job.random(dense, rng, rows=64, columns=64, plain=False)
    one = bench(sparse)
    matrix = Matrix.random(sparse, rng, rows=64, columns=64, count=int(kept * 4096))
    sums = one.model.product(matrix.entries, job.x, job.sums, shift=1, seed=9, scale=3, k=-1)
    whole = gemv_case.phase(dense, job)
    inputs = whole.inputs | {
        "i_pass": one.command("product", matrix, shift=1, seed=9, scale=3, perturb=1, negative=1),
        "i_entries": one.entries(matrix.entries),
    }
    phase = Phase(inputs=inputs, outputs={"o": one.results(sums, "ok")})
    engine = Engine(dense, sparse)
    transfers = simulate(engine, Case(phases=[phase], quiet=True)).transfers
    cycles = transfers["o"][-1] - transfers["i_weights"][0]
    alone = len(whole.inputs["i_weights"]) - 1 + Gemv(dense).latency
    if kept < 0.1:
        assert cycles == alone + SparseMac.latency
    else:
        least = len(matrix.entries) + matrix.rows
        assert alone < least < cycles < least + 40


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"entries": -1}, ValueError, r"entries must be in 0\.\.65536, not -1"),
        ({"value_width": 2}, ValueError, r"value_width must be in 3\.\.24, not 2"),
        ({"activation_width": 25}, ValueError, r"activation_width must be in 2\.\.24, not 25"),
        ({"columns": 0}, ValueError, r"columns must be in 1\.\.65536, not 0"),
        ({"group": 65}, ValueError, r"group must be in 1\.\.64, not 65"),
        ({"group": 12}, ValueError, r"group must be a power of two, not 12"),
        ({"row_width": 33}, ValueError, r"row_width must be in 1\.\.32, not 33"),
        ({"most_shift": 32}, ValueError, r"most_shift must be in 0\.\.31, not 32"),
        ({"sum_width": 65}, ValueError, r"sum_width must be in 8\.\.64, not 65"),
        ({"sum_width": 58}, ValueError, r"sum_width must be at least 60 bits, those of .*, not 58"),
        ({"vectors": 3}, ValueError, "vectors must be 1, 2 or 4, not 3"),
        ({"number_width": 1}, ValueError, r"number_width must be in 2\.\.16, not 1"),
        (
            {"number_width": 3, "source": "urng"},
            ValueError,
            r"number_width must be in 4\.\.16, not 3",
        ),
        ({"source": "lfsr"}, ValueError, "source must be one of lutopt, urng, pool, not 'lfsr'"),
        (
            {"value_width": 8},
            ValueError,
            r"number_width must be less than the value_width of 8 bits, not 8",
        ),
        ({"entries": True}, TypeError, r"entries must be an integer in 0\.\.65536, not True"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SparseMacConfig(**params)
