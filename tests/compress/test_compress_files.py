"""Checkpoints read in pieces, and the packed form in them: what is whole, and what is refused."""

import json
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress.checkpoint import (
    FLOATS,
    Checkpoint,
    CheckpointError,
    Entry,
)
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.packed import KEY, Packed, Weights, pack_rows, unpack_rows
from seedbed.flow.compress.pieces import cut, decode, to_bytes
from seedbed.flow.compress.shards import require_target
from seedbed.golden import seedlm
from seedbed.spec import SeedlmConfig

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)

configs = st.builds(
    SeedlmConfig,
    block=st.integers(1, 32),
    latent=st.integers(1, 8),
    width=st.integers(3, 20),
)


def whole(path):
    with Checkpoint(path) as file:
        return {name: file.read(e.offset, e.nbytes) for name, e in file.tensors.items()}


def test_reads_what_the_library_wrote(tmp_path):
    rng = np.random.default_rng(1)
    tensors = {
        "é": rng.normal(size=(3, 5)).astype(np.float32),
        "b": rng.normal(size=(2, 3, 4)).astype(ml_dtypes.bfloat16),
        "flag": np.array([True, False, True]),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 4), np.int8),
    }
    save_file(tensors, tmp_path / "a", metadata={"format": "pt"})
    with Checkpoint(tmp_path / "a") as file:
        assert file.metadata == {"format": "pt"}
        assert {name: entry.shape for name, entry in file.tensors.items()} == {
            name: tensor.shape for name, tensor in tensors.items()
        }
    assert whole(tmp_path / "a") == {name: tensor.tobytes() for name, tensor in tensors.items()}


def test_the_library_reads_what_is_created(tmp_path):
    entries = {"a": Entry("BF16", (2, 3)), "b": Entry("U8", (7,)), "c": Entry("F4", (3, 4))}
    with Checkpoint.create(tmp_path / "a", entries, {"k": "v"}) as file:
        assert {n: Entry(e.dtype, e.shape) for n, e in file.tensors.items()} == entries
        file.write(file.tensors["b"].offset + 2, b"\x05\x06")
        file.write(file.tensors["a"].offset, np.full(6, 1.5, ml_dtypes.bfloat16).tobytes())
    with Checkpoint(tmp_path / "a") as again:
        assert again.metadata == {"k": "v"}
        assert again.read(again.tensors["c"].offset, 6) == bytes(6)
    del entries["c"]
    with Checkpoint.create(tmp_path / "b", entries, {}) as file:
        file.write(file.tensors["b"].offset + 2, b"\x05\x06")
    found = load_file(tmp_path / "b")
    assert found["b"].tolist() == [0, 0, 5, 6, 0, 0, 0]
    assert found["a"].dtype == ml_dtypes.bfloat16
    assert not found["a"].any()


def test_creation_is_the_same_each_time(tmp_path):
    entries = {name: Entry("F32", (2, 2)) for name in "zyxab"}
    for name in "pq":
        Checkpoint.create(tmp_path / name, entries, {"k": "v"}).close()
    assert (tmp_path / "p").read_bytes() == (tmp_path / "q").read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda raw: b"", "a is not a complete safetensors file: "),
        (lambda raw: raw[:5], "a is not a complete safetensors file: "),
        (lambda raw: raw[:-1], "a is not a complete safetensors file: "),
        (lambda raw: raw + b"\0", "a is not a complete safetensors file: "),
        (lambda raw: raw.replace(b'"F32"', b'"X32"'), "a is not a complete safetensors file: "),
    ],
)
def test_broken_files_are_refused(change, sentence, tmp_path):
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a")
    (tmp_path / "a").write_bytes(change((tmp_path / "a").read_bytes()))
    with pytest.raises(CheckpointError, match=sentence):
        Checkpoint(tmp_path / "a")


def test_file_that_shrinks_is_refused(tmp_path):
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a")
    with Checkpoint(tmp_path / "a") as file:
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(CheckpointError, match="was truncated while it was read"):
            file.read(file.tensors["a"].offset, 16)


def test_targets_that_cannot_be(tmp_path):
    source = tmp_path / "a"
    source.write_bytes(b"")
    (tmp_path / "link").symlink_to(source)
    with pytest.raises(ValueError, match="link is the input itself; the output must be another"):
        require_target(source, tmp_path / "link")
    with pytest.raises(IsADirectoryError):
        require_target(source, tmp_path)
    with pytest.raises(FileNotFoundError):
        require_target(source, tmp_path / "none" / "b")


@settings(max_examples=60, deadline=None)
@given(configs, st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**32))
def test_rows_of_blocks_are_one_string_of_bits(config, rows, blocks, seed):
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 1 << config.block_bits, (rows, blocks), np.uint64)
    raw = pack_rows(config, packed)
    assert raw.shape == Weights((rows, blocks * config.block), "F32").entry(config).shape
    for line, values in zip(raw, packed, strict=True):
        number = sum(int(value) << config.block_bits * k for k, value in enumerate(values))
        assert int.from_bytes(line.tobytes(), "little") == number
    assert np.array_equal(unpack_rows(config, raw, blocks), packed)


@settings(max_examples=100, deadline=None)
@given(
    configs,
    st.lists(st.integers(1, 9), min_size=1, max_size=2),
    st.integers(1, 400),
    st.integers(1, 500),
    st.sampled_from(sorted(FLOATS)),
)
def test_pieces_cover_a_tensor_once(config, leading, columns, size, dtype):
    weights = Weights((*leading, columns), dtype)
    plain = packed = rows = blocks = 0
    for piece in cut(config, "a", weights, size):
        assert (piece.plain, piece.packed) == (plain, packed)
        assert piece.first == divmod(plain // FLOATS[dtype].itemsize, weights.columns)
        assert piece.rows == 1 or piece.columns == weights.columns
        # Blocks are what takes time, however few weights are in the last one of a row.
        most = max(size // config.block, weights.blocks(config), 8)
        assert piece.rows * piece.blocks(config) <= most
        assert piece.columns <= max(size, 8 * config.block)
        plain += piece.nbytes(weights)
        packed += piece.rows * piece.row_bytes(config)
        blocks += piece.rows * piece.blocks(config)
        rows += piece.rows
    entry = weights.entry(config)
    assert (plain, packed) == (Entry(dtype, weights.shape).nbytes, entry.nbytes)
    assert blocks == weights.rows * weights.blocks(config)


def blocks_file(path: Path, **changes):
    """Write a packed file of random blocks, with some of its metadata changed; return both."""
    rng = np.random.default_rng(3)
    shape = (2, 3, 10)
    seeds = rng.integers(1, 32, (6, 3), np.uint32)
    seeds[4, 2] = changes.pop("seed", 7)
    fields = rng.integers(-8, 8, (6, 3, 3)).astype(np.int8)
    raw = pack_rows(SMALL, seedlm.pack(SMALL, seeds, fields[..., 0], fields[..., 1:]))
    weights = Weights(shape, "BF16", -3, (6, 10))
    packed = Packed(SMALL, "fit", {"w": weights}, {"format": "pt", "by": "me"})
    document = json.loads(packed.to_metadata()[KEY])
    document["tensors"]["w"] |= changes.pop("w", {})
    document |= changes
    if document["version"] in (1, 2):
        # As it was: nothing is kept; in version 1, a row of blocks is the last dimension.
        del document["kept"], document["tensors"]["w"]["kept"]
    if document["version"] == 1:
        del document["tensors"]["w"]["matrix"]
    save_file({"w.seedlm": raw, "kept": np.arange(3)}, path, metadata={KEY: json.dumps(document)})
    return seedlm.decode(SMALL, seeds, fields[..., 0], fields[..., 1:]).reshape(6, 12)[:, :10]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 20, 1000])
def test_decompressed_file_has_the_originals_names(size, version, tmp_path):
    decoded = blocks_file(tmp_path / "a", version=version)
    decompress(tmp_path / "a", tmp_path / "b", console=QUIET, size=size)
    found = load_file(tmp_path / "b")
    assert found.keys() == {"w", "kept"}
    assert found["kept"].tolist() == [0, 1, 2]
    wanted = (decoded * 2**-3).astype(ml_dtypes.bfloat16).reshape(2, 3, 10)
    assert found["w"].dtype == wanted.dtype
    assert found["w"].tobytes() == wanted.tobytes()
    with Checkpoint(tmp_path / "b") as file:
        assert file.metadata == {"format": "pt", "by": "me"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"version": 5}, "a has version 5 of the packed format, but 1 to 4 can be read"),
        ({"version": 0}, "a has version 0 of the packed format, but 1 to 4 can be read"),
        ({"version": True}, "a has version True of the packed format, but 1 to 4 can be read"),
        ({"version": None}, "a has version None of the packed format"),
        ({"version": [[[[]]]]}, "a: its metadata must be an object, nested at most 4 levels deep"),
        ({"block": 0}, "a: block must be in 1..32, not 0"),
        ({"width": "many"}, "a: width must be an integer in 3..20, not 'many'"),
        ({"rule": "luck"}, "a: rule must be one of fit, paper, not 'luck'"),
        ({"tensors": []}, "a: its metadata's 'tensors' is not an object"),
        ({"w": {"shape": [2, 3, 13], "matrix": [6, 13]}},
         "a: tensor 'w' is packed in the shape [6, 7], but [6, 13] in blocks of 4 weights and "
         "17 bits takes [6, 9]"),
        ({"version": 1, "w": {"shape": [5, 10]}},
         "a: tensor 'w' is packed in the shape [6, 7], but [5, 10] in blocks of 4 weights"),
        ({"w": {"matrix": [6, 11]}},
         "a: tensor 'w' is packed as the matrix [6, 11], not as rows and columns of its 60 "
         "weights"),
        ({"w": {"matrix": [-6, -10]}}, "a: tensor 'w' is packed as the matrix [-6, -10], not as"),
        ({"w": {"matrix": [60]}}, "a: tensor 'w' is packed as the matrix [60], not as rows"),
        ({"w": {"matrix": None}}, "a: tensor 'w' is packed as the matrix None, not as rows"),
        ({"w": {"shape": [60]}}, "a: tensor 'w' has the shape [60], not two or more positive"),
        ({"w": {"shape": "6"}}, "a: tensor 'w' has the shape '6', not two or more positive"),
        ({"w": {"dtype": "I8"}}, "a: tensor 'w' was of 'I8'; allowed are F32, F16, BF16"),
        ({"w": {"dtype": []}}, "a: tensor 'w' was of []; allowed are F32, F16, BF16"),
        ({"w": {"dtype": {}}}, "a: tensor 'w' was of {}; allowed are F32, F16, BF16"),
        ({"w": {"dtype": "\ud800"}}, "a: tensor 'w' was of '\\ud800'; allowed are F32"),
        ({"rule": []}, "a: rule must be one of fit, paper, not []"),
        ({"taps": 5}, "a: taps must be a list, not 5"),
        ({"taps": [[]]}, "a: every one of taps must be an integer in 0..4, not []"),
        ({"metadata": {"by": "\ud800"}},
         "a: the original's metadata must be Unicode text, not '\\ud800'"),
        ({"metadata": {"\udfff": "me"}}, "a: the original's metadata must be Unicode text, not"),
        ({"metadata": {"by": 1}}, "a: the original's metadata must be Unicode text, not 1"),
        ({"w": {"scale": 0.5}}, "a: tensor 'w': its scale must be an integer in -300..300"),
        ({"seed": 0}, "a: tensor 'w', row 4, block 2: its seed is 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 1000])
def test_files_that_do_not_decode_are_refused(changes, sentence, size, tmp_path):
    blocks_file(tmp_path / "a", **changes)
    with pytest.raises(CheckpointError) as refused:
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET, size=size)
    assert str(refused.value).startswith(f"{tmp_path}/{sentence}")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_tensor_of_the_formats_own_name_is_refused(tmp_path):
    name = "__metadata__"
    packed = Packed(SMALL, "fit", {name: Weights((2, 4), "F32")}).to_metadata()
    save_file({f"{name}.seedlm": np.ones((2, 3), np.uint8)}, tmp_path / "a", metadata=packed)
    with pytest.raises(CheckpointError, match="a: tensor '__metadata__' has a reserved name"):
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_metadata_nested_beyond_reason_is_refused(tmp_path):
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, "[" * 500 + "]" * 500):
        save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a", metadata={KEY: text})
        with pytest.raises(
            CheckpointError, match=r"a: its metadata (must be an object|is not JSON)"
        ):
            decompress(tmp_path / "a", tmp_path / "b", console=QUIET)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), (8, 1)])
def test_halves_of_bytes_that_cannot_be_written_are_refused(shape, tmp_path):
    size = prod(shape) // 2
    header = json.dumps({"a": {"dtype": "F4", "shape": shape, "data_offsets": [0, size]}}).encode()
    raw = len(header).to_bytes(8, "little") + header + bytes(size)
    (tmp_path / "a").write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"a: tensor 'a' is of F4 .* dimension must be even"):
        Checkpoint(tmp_path / "a")


def test_other_files_are_refused(tmp_path):
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a")
    with pytest.raises(CheckpointError, match="a was not written by 'seedbed compress'"):
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    save_file({"a": np.zeros((2, 2), np.float32)}, tmp_path / "a", metadata={KEY: "{"})
    with pytest.raises(CheckpointError, match="a: its metadata is not JSON"):
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    packed = Packed(SMALL, "fit", {"a": Weights((2, 4), "F32")}).to_metadata()
    save_file({"a.seedlm": np.zeros((2, 3), np.int8)}, tmp_path / "a", metadata=packed)
    with pytest.raises(CheckpointError, match="'a' is packed in I8, but blocks are stored in U8"):
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    both = {"a.seedlm": np.zeros((2, 3), np.uint8), "a": np.zeros((2, 4), np.float32)}
    save_file(both, tmp_path / "a", metadata=packed)
    with pytest.raises(CheckpointError, match="'a' is in the file both packed and unpacked"):
        decompress(tmp_path / "a", tmp_path / "b", console=QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_weights_beyond_the_dtype_become_its_greatest():
    weights = Weights((1, 4), "F16", 12)
    piece = next(cut(SMALL, "w", weights))
    blocks = seedlm.pack(SMALL, [[1]], [[7]], [[[-8, 7]]])
    raw = to_bytes(decode(SMALL, piece, weights, pack_rows(SMALL, blocks).tobytes()), "F16")
    found = np.frombuffer(raw, "f2")
    exact = seedlm.decode(SMALL, [1], [7], [[-8, 7]])[0] * 2.0**12
    assert np.abs(exact).max() > 65504
    assert found.tolist() == np.clip(exact, -65504, 65504).astype(np.float16).tolist()
