"""Products with kept entries against the models of the dense engine and the side path."""

from dataclasses import replace

import numpy as np
import pytest

from seedbed.golden import trellis
from seedbed.golden.gemv import Gemv
from seedbed.golden.kept_matrix import ExactMatrix, KeptMatrices, KeptMatrix
from seedbed.golden.sparse_mac import SparseMac
from seedbed.spec import GemvConfig, SparseMacConfig

DENSE = GemvConfig(columns=64)
SPARSE = SparseMacConfig(columns=64)


def matrix(rng, *, rows=20, columns=37, count=30, **params):
    fields = rng.integers(0, 1 << DENSE.block_bits, (rows, -(-columns // DENSE.block)), np.uint64)
    places = np.sort(rng.choice(rows * columns, count, replace=False))
    values = rng.integers(-(1 << 15), 1 << 15, count)
    entries = np.stack([places // columns, places % columns, values], axis=1)
    return KeptMatrix(fields=fields, columns=columns, entries=entries, **params)


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_sums_are_those_of_the_dense_engine_and_the_side_path(k):
    rng = np.random.default_rng(1)
    ours = matrix(rng, shift=9, scale=3)
    engine = KeptMatrices(DENSE, SPARSE, {"a": ours})
    x = rng.integers(-(1 << 15), 1 << 15, (5, ours.columns))
    x[0], x[1] = -(1 << 15), (1 << 15) - 1
    found = engine.product("a", x, k=k, seed=7)
    dense, sparse = Gemv(DENSE), SparseMac(SPARSE)
    for vector, sums in zip(x, found, strict=True):
        part = dense.packed_product(ours.fields, vector)
        want = sparse.product(ours.entries, vector, part, shift=9, seed=7, scale=3, k=k)
        assert np.array_equal(sums, want)


def test_sums_of_a_trellis_code_are_those_of_the_dense_engine():
    config = GemvConfig(columns=64, decode="trellis", bits=3)
    rng = np.random.default_rng(6)
    rows = rng.integers(0, 8, (9, 37)), rng.integers(0, 256, 9), rng.integers(-8, 8, 9)
    fields = trellis.pack(config.trellis, *rows)
    x = rng.integers(-(1 << 15), 1 << 15, (4, 37))
    matrices = {"a": KeptMatrix(fields=fields, columns=37)}
    found = KeptMatrices(config.packing, SPARSE, matrices).product("a", x)
    for vector, sums in zip(x, found, strict=True):
        assert np.array_equal(sums, Gemv(config).trellis_product(*rows, vector))


def test_plain_sums_are_those_of_the_dense_engine():
    rng = np.random.default_rng(2)
    weights = rng.integers(-(1 << 15), 1 << 15, (3, 40))
    x = rng.integers(-(1 << 15), 1 << 15, (4, 40))
    engine = KeptMatrices(DENSE, SPARSE, {"a": KeptMatrix(fields=weights, columns=40, plain=True)})
    found = engine.product("a", x)
    for vector, sums in zip(x, found, strict=True):
        assert np.array_equal(sums, Gemv(DENSE).plain_product(weights, vector))


def test_updates_are_those_of_the_side_path_and_change_the_next_product():
    rng = np.random.default_rng(3)
    ours = matrix(rng, shift=9)
    engine = KeptMatrices(DENSE, SPARSE, {"a": ours, "b": ours})
    x = rng.integers(-9, 9, (1, ours.columns))
    before = engine.product("a", x)
    engine.update("a", seed=5, gain=30000, shift=8)
    want = SparseMac(SPARSE).updated(ours.entries[:, 2], seed=5, gain=30000, shift=8)
    assert np.array_equal(engine.values["a"], want)
    # Some values saturate, at both ends.
    assert {want.min(), want.max()} == {-(1 << 15), (1 << 15) - 1}
    assert np.array_equal(engine.values["b"], ours.entries[:, 2])
    changed = replace(ours, entries=np.column_stack([ours.entries[:, :2], want]))
    again = KeptMatrices(DENSE, SPARSE, {"a": changed})
    assert np.array_equal(engine.product("a", x), again.product("a", x))
    assert not np.array_equal(engine.product("a", x), before)


@pytest.mark.parametrize("bits", [20, 36, 47])
def test_wide_weights_are_multiplied_in_parts(bits):
    rng = np.random.default_rng(bits)
    weights = rng.integers(-(1 << bits - 1), 1 << bits - 1, (6, 8)) * 4 + rng.integers(0, 2) * 2
    x = rng.integers(-(1 << 15), 1 << 15, (9, 8))
    x[0], x[1] = -(1 << 15), (1 << 15) - 1
    want = [[sum(map(int.__mul__, w, v)) for w in weights.tolist()] for v in x.tolist()]
    wrapped = [[(y + 2**63) % 2**64 - 2**63 for y in row] for row in want]
    assert ExactMatrix(weights).product(x).tolist() == wrapped


def test_weights_too_wide_for_a_float_are_refused():
    with pytest.raises(ValueError, match="magnitudes must have 51 bits at most"):
        ExactMatrix(np.array([[1 << 51, 1]]))


def test_entries_and_vectors_are_checked():
    rng = np.random.default_rng(4)
    ours = matrix(rng)
    twice = replace(ours, entries=ours.entries[[0, 0]])
    with pytest.raises(ValueError, match="entry 1 of 'a' is not after the one before: repeated"):
        KeptMatrices(DENSE, SPARSE, {"a": twice})
    with pytest.raises(ValueError, match=r"must be a whole number in -32768\.\.32767, not 32768"):
        KeptMatrices(DENSE, SPARSE, {"a": ours}).product("a", np.full((1, 37), 1 << 15))
