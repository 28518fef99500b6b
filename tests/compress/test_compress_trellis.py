"""The encoder of trellis codes: against the model, and in whole files."""

import numpy as np
import pytest
from compressing import interrupted
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import pieces, run
from seedbed.flow.compress import trellis as encoder
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.importance import TRELLIS_BLOCK
from seedbed.flow.compress.mask import write_mask
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.viterbi import viterbi
from seedbed.flow.compress.workers import processes
from seedbed.golden import trellis
from seedbed.spec import TrellisConfig
from seedbed.spec.trellis import draw

QUIET = Console(quiet=True)
SMALL = TrellisConfig(state_bits=8)


def codes(bits, state_bits, seed):
    code = draw(state_bits, seed, fields=2, taps=0)
    return TrellisConfig(bits=bits, state_bits=state_bits, code=code)


@settings(max_examples=60, deadline=None)
@given(
    bits=st.integers(2, 4), extra=st.integers(0, 3), columns=st.integers(1, 40),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_path_has_the_least_error(bits, extra, columns, seed):
    """The model's search is compared with every path in the tests of the model."""
    config = codes(bits, 2 * bits + extra, seed)
    rng = np.random.default_rng(seed)
    # Whole numbers: all costs are exact in float32.
    targets = rng.integers(-99, 100, (3, columns))
    weights = rng.integers(0, 4, (3, columns))
    starts = rng.integers(0, 1 << config.state_bits, 3)
    states = starts.copy()
    found, values = viterbi(config, targets.astype(np.float32), weights.astype(np.float32), states)
    best = trellis.search(config, targets, weights, starts)

    def costs(symbols):
        path = trellis.states(config, symbols, starts)
        return path[:, -1], (weights * (trellis.values(config, path) - targets) ** 2).sum(axis=1)

    last, errors = costs(found)
    assert errors.tolist() == costs(best)[1].tolist()
    assert states.tolist() == last.tolist()
    assert (values == trellis.values(config, trellis.states(config, found, starts))).all()


def test_some_weights_of_a_path_are_decided():
    rng = np.random.default_rng(1)
    targets = rng.normal(0, 30, (2, 300)).astype(np.float32)
    weights, states = np.ones_like(targets), np.zeros(2, np.int64)
    whole, _ = viterbi(SMALL, targets, weights, np.zeros(2, np.int64))
    first, values = viterbi(SMALL, targets[:, :200], weights[:, :200], states, 100)
    assert first.shape == values.shape == (2, 100)
    rest, _ = viterbi(SMALL, targets[:, 100:], weights[:, 100:], states)
    assert np.concatenate([first, rest], axis=1).tolist() == whole.tolist()


def test_long_rows_are_searched_in_parts(monkeypatch):
    rows = np.random.default_rng(2).normal(size=(2, 1000))
    whole = encoder.encode(SMALL, rows)
    monkeypatch.setattr(encoder, "SEGMENT", 100)
    assert encoder.encode(SMALL, rows).tolist() == whole.tolist()


def relative(config, rows, kept=None, importance=None):
    found = trellis.decode(config, encoder.encode(config, rows, importance, kept), rows.shape[1])
    wrong = found - rows
    if kept is not None:
        wrong.reshape(-1)[kept] = 0
    return np.sqrt((wrong**2).sum() / (rows**2).sum())


@pytest.mark.parametrize(
    ("bits", "state_bits", "most"),
    [(4, 8, 0.083), (4, 10, 0.077), (4, 12, 0.073), (3, 12, 0.141), (2, 12, 0.276)],
)
def test_error_of_gaussian_weights(bits, state_bits, most):
    config = TrellisConfig(bits=bits, state_bits=state_bits)
    rows = np.random.default_rng(3).normal(size=(30, 1000))
    assert 2.0**-bits < relative(config, rows) < most


@pytest.mark.parametrize("power", [-60, 0, 60])
def test_rows_of_any_scale(power):
    rows = np.random.default_rng(4).normal(size=(5, 200))
    same = encoder.encode(SMALL, rows)
    moved = encoder.encode(SMALL, np.ldexp(rows, power))
    assert (moved[:, 2:] == same[:, 2:]).all()
    assert (moved[:, 0] >= 128).all()
    exponents = moved[:, 1].view(np.int8).astype(int) - same[:, 1].view(np.int8)
    assert exponents.tolist() == [power] * 5


def test_a_scale_is_rounded_up_to_the_next_power():
    mantissas, exponents = encoder._rounded(np.array([0.0, 1.0, 1.999, 255.4, 2.0**-130]))
    assert mantissas.tolist() == [0, 128, 128, 255, 0]
    assert exponents.tolist() == [0, -7, -6, 0, 0]


def test_outliers_widen_the_scale():
    rows = np.random.default_rng(5).normal(size=(20, 400))
    rows[:, 7] = 15
    # At the scale of the deviation, values end at 3.7, and outliers alone cost 0.45.
    assert relative(TrellisConfig(), rows) < 0.22
    kept = np.arange(20) * 400 + 7
    without = np.delete(rows, 7, axis=1)
    error = relative(TrellisConfig(), rows, kept) * np.sqrt((rows**2).sum() / (without**2).sum())
    assert error < 0.075


def test_a_weight_of_forty_deviations_widens_the_scale():
    rows = np.random.default_rng(5).normal(size=(4, 1500))
    rows[:, 7] = 40
    # If no scale was wider than 2.6 times the usual one, it would be 0.49.
    assert relative(TrellisConfig(), rows) < 0.36


def test_zeros_have_a_scale_of_zero():
    rows = np.zeros((2, 9))
    rows[1, 3] = 1
    found = encoder.encode(SMALL, rows)
    assert not found[0].any()
    decoded = trellis.decode(SMALL, encoder.encode(SMALL, rows, kept=np.array([12])), 9)
    assert not decoded[0].any()


def write(folder, seed=1):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(600, 150)) @ rng.normal(size=(150, 150))
    moments = (inputs.T @ inputs / 600).astype(np.float32)
    moments += moments.T
    weights = rng.normal(size=(40, 150)).astype(np.float32)
    save_file({"a": weights}, folder / "in")
    save_file({"a": moments}, folder / "matrix")
    save_file({"a": moments.diagonal().copy()}, folder / "vector")
    chosen = np.sort(rng.permutation(weights.size)[:60]).astype(np.int32)
    write_mask(folder / "mask", {"a": weights.shape}, {"a": chosen}, {})
    return weights.astype(np.float64), moments.astype(np.float64), chosen


def compress(folder, target="out", *, jobs=1, size=1 << 15, **options):
    chosen = Options(**({"config": SMALL} | options))
    with processes(jobs) as pool:
        run.compress(folder / "in", folder / target, chosen, pool=pool, console=QUIET, size=size)
    decompress(folder / target, folder / "back", console=QUIET)
    return load_file(folder / "back")["a"].astype(np.float64)


def costs(folder, weights, moments):
    """Return the cost of errors without importance, with a vector, and with a matrix."""
    found = []
    for name in (None, "vector", "matrix"):
        wrong = compress(folder, importance=name and folder / name) - weights
        found.append(float(np.einsum("rc,cd,rd->", wrong, moments, wrong)))
    return found


def test_importance_lowers_its_cost(tmp_path):
    weights, moments, _ = write(tmp_path)
    diagonal = np.diag(moments.diagonal())
    plain, vector, _ = costs(tmp_path, weights, diagonal)
    assert vector < plain
    _, vector, matrix = costs(tmp_path, weights, moments)
    assert matrix < 0.8 * vector


def metric_of(left):
    """Return the weights of the errors of a block's columns, if those after it are still free."""
    block = slice(TRELLIS_BLOCK)
    return np.linalg.inv(np.linalg.inv(left)[block, block]).diagonal()


def literal(weights, moments, kept, packed):
    """The definition of feedback: later columns are those of the least cost, block by block.

    Returns the symbols, at the scales of ``packed``, of weights divided by the tensor's scale.
    """
    _, mantissas, exponents = trellis.unpack(SMALL, packed, weights.shape[1])
    scales = np.ldexp(mantissas.astype(float), exponents.astype(int))[:, None]
    final, found = np.zeros(weights.shape), []
    states = np.zeros(len(weights), np.int64)
    starts = range(0, weights.shape[1], TRELLIS_BLOCK)
    metric = np.concatenate([metric_of(moments[first:, first:]) for first in starts])
    for first in starts:
        left = moments[first:, first:]
        lost = weights[:, :first] - final[:, :first]
        targets = weights[:, first:] + lost @ moments[:first, first:] @ np.linalg.inv(left)
        block = slice(first, first + TRELLIS_BLOCK)
        width = len(moments[block])
        part = targets[:, :width]
        # The next columns are searched as well, but not decided.
        ahead = slice(first, first + TRELLIS_BLOCK + encoder.LOOKAHEAD)
        costs = np.where(kept[:, ahead], 0, metric[ahead])
        symbols = trellis.search(SMALL, (targets / scales)[:, : costs.shape[1]], costs, states)
        symbols = symbols[:, :width]
        path = trellis.states(SMALL, symbols, states)
        states = path[:, -1]
        final[:, block] = np.where(kept[:, block], part, trellis.values(SMALL, path) * scales)
        found.append(symbols)
    return np.concatenate(found, axis=1), final


@pytest.mark.parametrize("keep", [False, True])
def test_feedback_is_that_of_the_definition(keep, tmp_path):
    weights, moments, chosen = write(tmp_path)
    kept = np.zeros(weights.shape, bool)
    if keep:
        kept.reshape(-1)[chosen] = True
    mask = tmp_path / "mask" if keep else None
    back = compress(tmp_path, importance=tmp_path / "matrix", keep=mask)
    with Checkpoint(tmp_path / "out") as file:
        entry = file.tensors["a.trellis"]
        packed = np.frombuffer(file.read(entry.offset, entry.nbytes), np.uint8)
    scale = int(np.frexp(np.abs(weights).max())[1]) - 7
    packed = packed.reshape(len(weights), -1)
    symbols, final = literal(np.ldexp(weights, -scale), moments, kept, packed)
    # Where paths are equally good in float32, the one that is found may be the other.
    same = (trellis.unpack(SMALL, packed, weights.shape[1])[0] == symbols).all(axis=1)
    assert same.mean() > 0.9
    # Differences are stored in float16.
    np.testing.assert_allclose(back[same], np.ldexp(final[same], scale), rtol=0, atol=3e-3)


@pytest.mark.parametrize("importance", [None, "vector", "matrix"])
def test_the_bytes_depend_on_neither_pieces_nor_processes(importance, tmp_path, monkeypatch):
    write(tmp_path)
    options = {"importance": importance and tmp_path / importance, "keep": tmp_path / "mask"}
    compress(tmp_path, **options)
    monkeypatch.setattr(pieces, "STRIP", 1)
    compress(tmp_path, "two", jobs=2, size=300, **options)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "two").read_bytes()


def test_an_interrupted_run_is_resumed(tmp_path, monkeypatch):
    write(tmp_path)
    compress(tmp_path, size=600)
    whole = run.results
    monkeypatch.setattr(run, "results", interrupted(whole, 3))
    with pytest.raises(KeyboardInterrupt):
        compress(tmp_path, "again", size=600)
    assert (tmp_path / "again.journal").exists()
    monkeypatch.setattr(run, "results", whole)
    compress(tmp_path, "again", size=600)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()
