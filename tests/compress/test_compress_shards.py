"""Sharded checkpoints: the same results as one file, and what is refused."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress.checkpoint import CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.run import compress
from seedbed.flow.compress.sensitive import sensitive
from seedbed.flow.compress.shards import open_checkpoint, require_target
from seedbed.flow.compress.workers import SERIAL
from seedbed.spec import SeedlmConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

QUIET = Console(quiet=True)
SMALL = SeedlmConfig(block=4, latent=2, width=5)
INDEX = "model.safetensors.index.json"


def tensors(seed):
    rng = np.random.default_rng(seed)
    return {
        "z": rng.normal(size=(9, 20)).astype(np.float32),
        "a": rng.normal(size=(3, 2, 31)).astype(np.float16),
        "m": rng.normal(size=(20, 41)).astype(ml_dtypes.bfloat16),
        "bias": rng.normal(size=5).astype(np.float32),
        "ids": np.arange(7),
    }


def write(folder, parts, listed=None, **how):
    """Write shards and an index to a folder; ``listed`` is the index's map, by default the true."""
    folder.mkdir(exist_ok=True)
    names = {}
    for k, part in enumerate(parts, start=1):
        file = f"model-{k:05}-of-{len(parts):05}.safetensors"
        save_file(part, folder / file, **how)
        names |= dict.fromkeys(part, file)
    document = {"metadata": {"total_size": 1}, "weight_map": names if listed is None else listed}
    (folder / INDEX).write_text(json.dumps(document))
    return folder


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    places=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    config=st.sampled_from([SMALL, GroupsConfig(), Lut4Config()]),
    fraction=st.sampled_from([None, 0.01, 0.2]),
    size=st.sampled_from([64, 1 << 15]),
)
def test_shards_make_no_difference(seed, places, config, fraction, size, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    whole = tensors(seed)
    gradients = {n: v for n, v in tensors(seed + 1).items() if v.ndim > 1}
    for name, values in (("in", whole), ("gradients", gradients)):
        save_file(values, folder / f"{name}.safetensors", metadata={"format": "pt"})
        parts = [
            {n: values[n] for n, at in zip(whole, places, strict=True) if at == k and n in values}
            for k in range(4)
        ]
        write(folder / name, [part for part in parts if part], metadata={"format": "pt"})
    found = {}
    for end in ("", ".safetensors"):
        source, mask = folder / f"in{end}", None
        if fraction is not None:
            mask = folder / f"mask{end}"
            sensitive(source, folder / f"gradients{end}", mask, fraction=fraction, console=QUIET)
        options = Options(config=config, keep=mask)
        packed = folder / f"out{end}"
        rows = compress(source, packed, options, pool=SERIAL, console=QUIET, size=size)
        found[end] = rows, packed.read_bytes(), mask and mask.read_bytes()
    assert found[""] == found[".safetensors"]


def test_index_and_folder_are_the_same_checkpoint(tmp_path):
    whole = tensors(1)
    folder = write(tmp_path / "in", [{"z": whole["z"]}, {"a": whole["a"], "ids": whole["ids"]}])
    for path in (folder, folder / INDEX):
        with open_checkpoint(path) as read:
            assert read.path == folder / INDEX
            for name, entry in read.tensors.items():
                assert read.read(entry.offset, entry.nbytes) == whole[name].tobytes()
            assert read.file_of("z").name == "model-00001-of-00002.safetensors"
    # Of a checkpoint that is not sharded, the folder will do, too.
    (folder / INDEX).unlink()
    (folder / "model-00002-of-00002.safetensors").unlink()
    with open_checkpoint(folder) as read:
        assert read.tensors.keys() == {"z"}


def test_metadata_on_which_shards_differ_is_left_out(tmp_path):
    folder = write(tmp_path / "in", [{"a": np.ones(2)}, {"b": np.ones(2)}], metadata={"by": "me"})
    save_file({"b": np.ones(2)}, folder / "model-00002-of-00002.safetensors",
              metadata={"by": "you", "format": "pt"})  # fmt: skip
    with open_checkpoint(folder) as read:
        assert read.metadata == {"format": "pt"}


def test_a_packed_file_in_shards_decompresses(tmp_path, called):
    whole = tensors(2)
    save_file(whole, tmp_path / "in")
    compress(tmp_path / "in", tmp_path / "out", Options(config=SMALL), pool=SERIAL, console=QUIET)
    with open_checkpoint(tmp_path / "out") as read:
        metadata = read.metadata
    parts = [{name: value} for name, value in load_file(tmp_path / "out").items()]
    write(tmp_path / "packed", parts, metadata=metadata)
    for source in ("out", "packed"):
        decompress(tmp_path / source, tmp_path / f"{source}-back", console=QUIET)
    assert (tmp_path / "packed-back").read_bytes() == (tmp_path / "out-back").read_bytes()
    printed = [called(["inspect", source, "--json"], tmp_path) for source in ("out", "packed")]
    assert printed[0] == printed[1]
    assert printed[0][0] == 0
    # An error names the shard: here, of a seed of zero.
    shard = next(
        (tmp_path / "packed").glob(
            f"model-0000{1 + list(load_file(tmp_path / 'out')).index('z.seedlm')}*"
        )
    )
    save_file({"z.seedlm": np.zeros_like(load_file(shard)["z.seedlm"])}, shard, metadata=metadata)
    with pytest.raises(CheckpointError) as refused:
        decompress(tmp_path / "packed", tmp_path / "none", console=QUIET)
    assert str(refused.value).startswith(f"{shard}: tensor 'z', row 0, block 0: its seed is 0")


def test_weights_that_are_not_finite_are_in_a_named_shard(tmp_path):
    whole = tensors(3)
    whole["a"][1, 0, 5] = np.inf
    folder = write(tmp_path / "in", [{"z": whole["z"]}, {"a": whole["a"]}])
    where = f"{folder}/model-00002-of-00002.safetensors: tensor 'a'"
    with pytest.raises(CheckpointError) as refused:
        compress(folder, tmp_path / "out", Options(config=SMALL), pool=SERIAL, console=QUIET)
    assert str(refused.value).startswith(f"{where}, row 1, block 1: the weight at 5 is inf")
    with pytest.raises(CheckpointError) as refused:
        sensitive(folder, None, tmp_path / "mask", by="magnitude", fraction=0.1, console=QUIET)
    assert str(refused.value) == f"{where}: the value at 67 is not finite"


ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda folder: (folder / TWO).unlink(), f"in/{TWO} is missing, but in/{INDEX} lists"),
        (lambda folder: (folder / TWO).write_bytes(b"{}"), f"in/{TWO} is not a complete safeten"),
        (lambda folder: save_file({"y": np.ones((2, 9))}, folder / TWO),
         f"in/{TWO} has no tensor 'b', but in/{INDEX} lists it"),
        (lambda folder: save_file({"a": np.ones((2, 9)), "b": np.ones((2, 9))}, folder / TWO),
         f"in/{TWO} has the tensor 'a', which is in in/{ONE}, too"),
        (lambda folder: (folder / INDEX).write_text("{"), f"in/{INDEX} is not JSON"),
        (lambda folder: (folder / INDEX).write_bytes(b"\xff\xfe"), f"in/{INDEX} is not JSON"),
        (lambda folder: (folder / INDEX).write_text("[" * 100_000), f"in/{INDEX} is not JSON"),
        (lambda folder: (folder / INDEX).write_text("[]"), f"in/{INDEX} has no weight_map, an ob"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": {}}'), "has no weight_map, an"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": 1}}'),
         f"in/{INDEX}: tensor 'a' is in 1, which is not the name of a file in the index's folder"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": "../in"}}'),
         "tensor 'a' is in '../in', which is not the name of a file"),
        (lambda folder: (folder / INDEX).write_text('{"weight_map": {"a": ".."}}'),
         "tensor 'a' is in '..', which is not the name of a file"),
        (lambda folder: (folder / INDEX).write_text(r'{"weight_map": {"a": "\ud800"}}'),
         r"tensor 'a' is in '\ud800', which is not the name of a file"),
        (lambda folder: (folder / f"b{INDEX}").write_text("{}"),
         "in has 2 files *.safetensors.index.json, of which one must be given: bmodel.safetensors"),
        (lambda folder: [path.unlink() for path in folder.iterdir()],
         "in has neither an index *.safetensors.index.json nor a file *.safetensors"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "command",
    [
        ["compress", "in", "out", "--bits", "4"],
        ["decompress", "in", "out"],
        ["inspect", "in"],
        ["sensitive", "in", "--by", "magnitude", "-o", "out"],
    ],
    ids=lambda words: words[0],
)
def test_what_is_wrong_with_shards_is_one_sentence(command, change, sentence, tmp_path, called):
    folder = write(tmp_path / "in", [{"a": np.ones((2, 9))}, {"b": np.ones((2, 9))}])
    change(folder)
    code, out, err = called(command, tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_an_output_is_no_file_of_the_input(tmp_path, called):
    folder = write(tmp_path / "in", [{"a": np.ones((2, 9), "f4")}, {"b": np.ones((2, 9), "f4")}])
    for name in (ONE, TWO, INDEX):
        with pytest.raises(ValueError, match=f"{name} is {name} of the input; the output must be"):
            require_target(folder, folder / name)
    with pytest.raises(ValueError, match=f"{INDEX} is the input itself; the output must be"):
        require_target(folder / INDEX, folder / INDEX)
    code, _, err = called(["compress", "in", f"in/{ONE}", "--bits", "4", "--force"], tmp_path)
    assert (code, f"in/{ONE} is {ONE} of the input" in err) == (2, True)


def test_a_shard_that_changes_meanwhile_is_noticed(tmp_path):
    folder = write(tmp_path / "in", [{"a": np.ones((2, 9), "f4")}, {"b": np.ones((2, 9), "f4")}])
    with open_checkpoint(folder) as read:
        before = read.stamp()
        with (folder / TWO).open("ab") as file:
            file.write(b" ")
        assert read.stamp() != before


def sparse(path, shapes):
    """Write a safetensors file of BF16 zeros that takes no space on the disk."""
    header, size = {}, 0
    for name, shape in shapes.items():
        stop = size + 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [size, stop]}
        size = stop
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + size)
    return dict.fromkeys(shapes, path.name)


MEMORY = """
import sys
from seedbed.flow.cli.app import app
app(sys.argv[1:], standalone_mode=False)
print(next(s for s in open("/proc/self/status") if s.startswith("VmHWM")).split()[1])
"""


def peak(*words, cwd):
    """Return what a command prints, and the kilobytes that it needs beyond its start."""
    lines = subprocess.check_output([sys.executable, "-c", MEMORY, *words], text=True, cwd=cwd)
    *printed, most = lines.splitlines()
    return "\n".join(printed), int(most)


def test_a_billion_weights(tmp_path):
    """The sizes are those of all shards, in the memory of a small file; one shard is compressed."""
    shapes = [{f"layer.{k}.{n}": [8192, 8192] for n in "qkv"} for k in range(5)]
    listed = {}
    for k, shard in enumerate(shapes, start=1):
        listed |= sparse(tmp_path / f"model-{k}.safetensors", shard)
    last = np.random.default_rng(5).normal(size=(1024, 2048)).astype(ml_dtypes.bfloat16)
    save_file({"head": last}, tmp_path / "model-6.safetensors")
    listed["head"] = "model-6.safetensors"
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": listed}))
    words = ["--format", "groups", "--group", "128", "--jobs", "1"]
    out, most = peak("compress", ".", "out", "--dry-run", "--json", *words, cwd=tmp_path)
    found = json.loads(out)
    weights = 15 << 26 | last.size
    assert weights > 1e9
    assert (found["source_bytes"], found["target_bytes"]) == (2 * weights, weights * 4.125 // 8)
    (error,) = [t["relative_error"] for t in found["tensors"] if t["tensor"] == "head"]
    out, least = peak("compress", "model-6.safetensors", "out", "--json", *words, cwd=tmp_path)
    assert error == pytest.approx(json.loads(out)[0]["relative_error"], rel=0.02)
    assert most - least < 12 * 1024
