"""Feedback of errors to later columns: against its definition, and in whole files."""

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import pieces, run
from seedbed.flow.compress.checkpoint import CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.importance import feedback
from seedbed.flow.compress.mask import write_mask
from seedbed.flow.compress.packed import Packed, Weights
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.workers import processes
from seedbed.golden import language_model, seedlm
from seedbed.spec import SeedlmConfig
from seedbed.spec.packing import Lut4Config

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)
ROWS, COLUMNS = 60, 18


def moments_of(columns, rng):
    """Second moments of correlated inputs."""
    inputs = rng.normal(size=(200, columns)) @ rng.normal(size=(columns, columns))
    found = (inputs.T @ inputs).astype(np.float32)
    return found + found.T


def write(folder, seed=1):
    """Write weights, importance and a mask; return the first two."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    moments = moments_of(COLUMNS, rng)
    save_file({"a": weights}, folder / "in")
    save_file({"a": moments}, folder / "stats")
    chosen = np.sort(rng.permutation(weights.size)[:50]).astype(np.int32)
    write_mask(folder / "mask", {"a": weights.shape}, {"a": chosen}, {})
    return weights.astype(np.float64), moments.astype(np.float64), chosen


def compress(folder, target="out", *, jobs=1, **options):
    options = {"config": SMALL, "importance": folder / "stats"} | options
    with processes(jobs) as pool:
        run.compress(folder / "in", folder / target, Options(**options), pool=pool, console=QUIET)
    decompress(folder / target, folder / "back", console=QUIET)
    return load_file(folder / "back")["a"]


def cost(wrong, moments):
    return float(np.einsum("rc,cd,rd->", wrong, moments, wrong))


def literal(weights, moments, chosen=()):
    """The definition: before each block, the later columns are those of the least cost.

    They solve a linear system for what the finished columns have lost. Returns the decoded blocks,
    and all weights: those of the blocks, and the kept ones as they are wanted in their turn.
    """
    scale = np.ldexp(1.0, int(np.frexp(np.abs(weights).max())[1]))
    kept = np.zeros(weights.shape, bool)
    kept.reshape(-1)[list(chosen)] = True
    decoded = np.zeros(weights.shape)
    final = np.zeros(weights.shape)
    for first in range(0, COLUMNS, SMALL.block):
        stop = min(first + SMALL.block, COLUMNS)
        left = moments[first:, first:]
        lost = weights[:, :first] - final[:, :first]
        targets = weights[:, first:] + lost @ moments[:first, first:] @ np.linalg.inv(left)
        width = stop - first
        metric = np.linalg.inv(np.linalg.inv(left)[:width, :width])
        blocks, h = np.zeros((ROWS, SMALL.block)), np.zeros(SMALL.block)
        blocks[:, :width], h[:width] = targets[:, :width] / scale, metric.diagonal()
        found = seedlm.decode(SMALL, *seedlm.search(SMALL, blocks, weights=h)) * scale
        decoded[:, first:stop] = found[:, :width]
        part = np.s_[:, first:stop]
        final[part] = np.where(kept[part], targets[:, :width], decoded[part])
    return decoded, final


def test_blocks_are_those_of_the_definition(tmp_path):
    weights, moments, _ = write(tmp_path)
    np.testing.assert_array_equal(
        compress(tmp_path), literal(weights, moments)[0].astype(np.float32)
    )


def test_kept_weights_are_those_of_the_definition(tmp_path):
    weights, moments, chosen = write(tmp_path)
    found = compress(tmp_path, keep=tmp_path / "mask").astype(np.float64)
    decoded, final = literal(weights, moments, chosen)
    expected = decoded.astype(np.float32)
    dense = np.ones(weights.size, bool)
    dense[chosen] = False
    np.testing.assert_array_equal(found.reshape(-1)[dense], expected.reshape(-1)[dense])
    # The differences are stored in float16: the largest is below 2, with 11 bits.
    np.testing.assert_allclose(
        found.reshape(-1)[chosen], final.reshape(-1)[chosen], rtol=0, atol=2e-3
    )
    # Kept weights lower the cost; as they were before, they lower it less.
    none = cost(literal(weights, moments)[0] - weights, moments)
    as_before = decoded.copy()
    as_before.reshape(-1)[chosen] = weights.reshape(-1)[chosen]
    assert cost(found - weights, moments) < cost(as_before - weights, moments)
    assert cost(found - weights, moments) < none


def test_the_cost_is_less_than_with_the_diagonal_alone(tmp_path):
    weights, moments, _ = write(tmp_path)
    together = cost(compress(tmp_path) - weights, moments)
    save_file({"a": moments.diagonal().astype(np.float32)}, tmp_path / "stats")
    alone = cost(compress(tmp_path, "alone") - weights, moments)
    assert together < 0.7 * alone


def test_a_diagonal_matrix_is_a_vector(tmp_path):
    write(tmp_path)
    h = np.arange(1, COLUMNS + 1, dtype=np.float32) ** 2
    save_file({"a": np.diag(h)}, tmp_path / "stats")
    compress(tmp_path)
    save_file({"a": h}, tmp_path / "stats")
    compress(tmp_path, "vector")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "vector").read_bytes()


def test_the_bytes_depend_on_neither_pieces_nor_processes(tmp_path, monkeypatch):
    write(tmp_path)
    compress(tmp_path, keep=tmp_path / "mask")
    monkeypatch.setattr(pieces, "STRIP", 1)
    cut = [piece.rows for piece in _pieces(tmp_path)]
    assert len(cut) > 2
    compress(tmp_path, "two", jobs=2, keep=tmp_path / "mask")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "two").read_bytes()


def _pieces(folder):
    weights, moments, _ = write(folder)
    packed = Packed(SMALL, "fit", {"a": Weights(weights.shape, "F32")})
    return pieces.pieces(packed, 100, {"a": feedback(moments, SMALL.block)})


def test_tables_of_levels_use_the_diagonal(tmp_path):
    _, moments, _ = write(tmp_path)
    compress(tmp_path, config=Lut4Config())
    save_file({"a": moments.diagonal().astype(np.float32)}, tmp_path / "stats")
    compress(tmp_path, "diagonal", config=Lut4Config())
    assert (tmp_path / "out").read_bytes() == (tmp_path / "diagonal").read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m[:, :-1], r"in the shape \[18, 17\], but the .* in \[18\] or \[18, 18\]$"),
        (lambda m: m + np.eye(18, k=1) * 9, "columns 0 and 1 is not that of 1 and 0: the matrix"),
        (lambda m: m * np.inf, "columns 0 and 0 is inf, but it must be finite"),
        (lambda m: -m, "must be positive definite: add a hundredth of the mean of its diagonal"),
    ],
)
@pytest.mark.parametrize("config", [SMALL, Lut4Config()], ids=["seedlm", "lut4"])
def test_matrices_that_are_none_of_importance_are_refused(change, sentence, config, tmp_path):
    _, moments, _ = write(tmp_path)
    save_file({"a": np.ascontiguousarray(change(moments).astype(np.float32))}, tmp_path / "stats")
    with pytest.raises(CheckpointError, match=sentence):
        compress(tmp_path, config=config)
    assert not (tmp_path / "out").exists()


def test_second_moments_are_those_of_the_gradients(monkeypatch):
    """With one step of the LSTM, a window's gradient is that of one product."""
    monkeypatch.setattr(language_model, "CONTEXT", 1)
    rng = np.random.default_rng(5)
    shapes = {
        "embedding.weight": (6, 5), "attention.weight": (1, 12),
        "lstm1.input.weight": (16, 5), "lstm1.recurrent.weight": (16, 4), "lstm1.bias": (16,),
        "lstm2.input.weight": (12, 4), "lstm2.recurrent.weight": (12, 3), "lstm2.bias": (12,),
        "output.weight": (6, 12), "output.bias": (6,),
    }  # fmt: skip
    parameters = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    language_model.require(parameters)
    contexts, targets = rng.integers(0, 6, (7, 1)), rng.integers(0, 6, 7)
    found = language_model.second_moments(parameters, contexts, targets)
    assert set(found) == {n for n in shapes if n.endswith("weight") and n[0] != "a"}
    each = [
        language_model.gradients(parameters, contexts[k : k + 1], targets[k : k + 1])
        for k in range(7)
    ]
    for name, value in found.items():
        expected = sum(one[name].T @ one[name] for one in each) / 7
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
