"""Damaged packed files: whatever is in them, decompression is right or refused by one sentence."""

import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from seedbed.flow.compress.checkpoint import Checkpoint, CheckpointError
from seedbed.flow.compress.decompress import decompress
from seedbed.flow.compress.packed import KEY, Packed, Weights, format_name
from seedbed.spec import SeedlmConfig, TrellisConfig
from seedbed.spec.packing import GroupsConfig, Lut4Config

#: How many are tried; CI asks for more.
MUTANTS = int(os.environ.get("SEEDBED_MUTANTS", "200"))
CONFIGS = [
    SeedlmConfig(block=4, latent=2, width=5),
    TrellisConfig(state_bits=8),
    Lut4Config(),
    GroupsConfig(),
]
WEIGHTS = {"w": Weights((2, 3, 10), "BF16", -3, kept=3), "k": Weights((4, 2, 3, 3), "F32")}
#: What is kept of ``w``: indices, differences, and their scale.
INDICES = (np.array([0, 29, 59], "<i4"), np.array([1.5, -2, 1], "<f2"), np.array([-4], "<i4"))
#: What stands beside them, two numbers of half a byte among it.
KEPT = {"kept": ("F32", [2, 3], 24), "none": ("I8", [0, 4], 0), "pair": ("F4", [2], 1)}

#: Values that JSON allows and nobody writes.
odd = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, 7, 2**31, 2**63, 2**64, 10**30, 0.5, 1e999, float("nan"), "",
     "w", "k", "int16", "lut4", "F32", "F4", "BF16", "__metadata__", "w.seedlm", "\ud800",
     "\0", "é", "[" * 100_000, [], {}, [[]], [0], [1, 60], [6, 10], [0, 3], [2, 3, 5, 2], [1] * 70,
     {"": []}, {"\udfff": "a"}]
)  # fmt: skip


def parts(value, at=()):
    """Yield the path of every value within ``value``, itself included."""
    yield at
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, each in inner:
        yield from parts(each, (*at, key))


@st.composite
def changed(draw, value):
    """Return ``value`` with one of its parts replaced, left out, or given a new neighbour."""
    path = draw(st.sampled_from(list(parts(value))))
    new = draw(odd)
    if not path:
        return new
    copy = json.loads(json.dumps(value))
    where = copy
    for key in path[:-1]:
        where = where[key]
    way = draw(st.sampled_from(["replace", "remove", "add"]))
    if way == "replace":
        where[path[-1]] = new
    elif way == "remove":
        del where[path[-1]]
    elif isinstance(where, dict):
        where[
            draw(
                st.sampled_from(
                    ["__metadata__", "\ud800", "v", "", "kept", "w.seedlm", "w.kept.index"]
                )
            )
        ] = new
    else:
        where.append(new)
    return copy


def file(header, payload):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + payload


@pytest.fixture(scope="module", params=CONFIGS, ids=format_name)
def original(request):
    """The header, the document in its metadata, and the tensors' bytes of a good file."""
    rng = np.random.default_rng(4)
    most = 60 if isinstance(request.param, GroupsConfig) else 128
    document = json.loads(Packed(request.param, "fit", WEIGHTS, {"by": "me"}).to_metadata()[KEY])
    header, payload = {}, b""
    entries = {
        name: (entry.dtype, entry.shape, entry.nbytes)
        for name, entry in Packed(request.param, "fit", WEIGHTS).entries.items()
    }
    chosen = dict(zip([n for n in entries if ".kept." in n], INDICES, strict=True))
    for name, (dtype, shape, size) in (entries | KEPT).items():
        offsets = [len(payload), len(payload) + size]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        # Odd bytes, of a scale below those of an infinity: no seed is zero, and scales are finite.
        random = bytes(rng.integers(0, most, size, np.uint8) * 2 + 1)
        payload += chosen[name].tobytes() if name in chosen else random
    return header, document, payload


@st.composite
def mutants(draw, original):
    header, document, payload = original
    kinds = st.sampled_from(["document", "document", "text", "header", "bytes"])
    for kind in draw(st.lists(kinds, min_size=1, max_size=2)):
        if kind == "document":
            document = draw(changed(document))
        elif kind == "header":
            header = draw(changed(header))
    text = json.dumps(document)
    if kind == "text":
        spoilt = ["[" * 100_000, text[:-1], text + "}", "", '"\\ud800"', "1" * 5000]
        text = draw(st.sampled_from(spoilt))
    if isinstance(header, dict):
        header = header | {"__metadata__": {KEY: text}}
    raw = bytearray(file(header, payload))
    if kind == "bytes":
        for _ in range(draw(st.integers(1, 4))):
            at = draw(st.integers(0, len(raw) - 1))
            raw[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(raw)


def test_a_good_file_decompresses(original, tmp_path):
    header, document, payload = original
    metadata = {"__metadata__": {KEY: json.dumps(document)}}
    (tmp_path / "a").write_bytes(file(header | metadata, payload))
    decompress(tmp_path / "a", tmp_path / "b", console=Console(quiet=True))
    with Checkpoint(tmp_path / "b") as found:
        shapes = {name: entry.shape for name, entry in found.tensors.items()}
    assert shapes == {
        "w": (2, 3, 10), "k": (4, 2, 3, 3), "kept": (2, 3), "none": (0, 4), "pair": (2,),
    }  # fmt: skip


@settings(
    max_examples=MUTANTS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_whatever_is_wrong_is_one_sentence_that_names_the_file(data, original, tmp_path):
    source, target = tmp_path / "packed", tmp_path / "plain"
    # A new file: a file system may write to the disk before it truncates an old one.
    source.unlink(missing_ok=True)
    source.write_bytes(data.draw(mutants(original)))
    try:
        decompress(source, target, console=Console(quiet=True))
        printed = None
    except CheckpointError as refused:
        printed = str(refused)
    if printed is None:
        Checkpoint(target).close()
        target.unlink()
    else:
        assert printed.startswith(str(source))
        assert "\n" not in printed
        assert "' object " not in printed
        # It can be printed, whatever was in the file.
        assert printed.encode()
    assert [path.name for path in tmp_path.iterdir()] == ["packed"]
