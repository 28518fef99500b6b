"""The page on the packed file alone is enough to decode a row of a trellis code."""

import json
from pathlib import Path

import numpy as np
from rich.console import Console
from safetensors.numpy import load_file, save_file

from seedbed.flow.compress import run
from seedbed.flow.compress.checkpoint import Checkpoint
from seedbed.flow.compress.packed import KEY
from seedbed.flow.compress.plan import Options
from seedbed.flow.compress.trellis import encode
from seedbed.flow.compress.workers import SERIAL
from seedbed.golden import trellis
from seedbed.spec import TrellisConfig

PAGE = (Path(__file__).parents[2] / "docs" / "compress.md").read_text()
SECTION = PAGE.partition("### A row, bit by bit\n")[2].partition("\n### ")[0]
CODE = SECTION.partition("```python\n")[2].partition("```")[0]


def table(first):
    """Return the cells of the page's table whose header begins with ``first``."""
    lines = SECTION.partition(f"| {first} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def decode(*arguments):
    names = {}
    exec(CODE, names)
    return names["decode"](*arguments)


def test_the_example_is_that_of_the_model():
    config = TrellisConfig()
    taps = [
        [", ".join(str(b) for b in range(12) if mask >> b & 1) for mask in field]
        for field in config.masks
    ]
    assert table("field") == [[str(f), *field] for f, field in enumerate(taps)]
    weights = SECTION.partition("the eight weights ")[2].partition(", in a tensor")[0]
    rows = np.array([[float(word) for word in weights.replace(" and", ",").split(",")]])
    packed = encode(config, rows)
    assert f"`{packed.tobytes().hex(' ').upper()}`" in SECTION
    codes, mantissas, exponents = trellis.unpack(config, packed, 8)
    assert f"m = {mantissas[0]}, e = {exponents[0]}," in SECTION
    states = trellis.states(config, codes)[0]
    values = trellis.values(config, states)
    found = []
    for t, (code, state, value, weight) in enumerate(
        zip(codes[0], states, values, trellis.decode(config, packed, 8)[0], strict=True)
    ):
        fields = [
            sum(((int(state) & mask).bit_count() & 1) << b for b, mask in enumerate(field))
            for field in config.masks
        ]
        assert 2 * sum(fields) - 93 == value
        numbers = " ".join(f"{field:05b}" for field in fields)
        total = " + ".join(map(str, fields))
        found.append(
            [str(t), f"{code:04b}", f"{state:012b}", numbers, total, str(value), f"{weight:.6g}"]
        )
    assert table("t") == found


def test_the_decoder_of_the_page_decodes_the_example():
    row = bytes.fromhex(SECTION.partition("six bytes, `")[2].partition("`")[0])
    masks = [
        [sum(1 << int(tap) for tap in cell.split(",")) for cell in line[1:]]
        for line in table("field")
    ]
    weights = [f"{weight:.6g}" for weight in decode(row, 8, 4, 12, masks)]
    assert weights == [line[-1] for line in table("t")]


def test_the_decoder_of_the_page_decodes_a_file(tmp_path):
    rng = np.random.default_rng(1)
    save_file({"w": rng.normal(0, 1e-3, (5, 37)).astype(np.float32)}, tmp_path / "in")
    options = Options(config=TrellisConfig(bits=3, state_bits=8))
    quiet = Console(quiet=True)
    run.compress(tmp_path / "in", tmp_path / "out", options, pool=SERIAL, console=quiet)
    with Checkpoint(tmp_path / "out") as file:
        document = json.loads(file.metadata[KEY])
    assert document["version"] == 4
    scale = document["tensors"]["w"]["scale"]
    sizes = document["bits"], document["state_bits"], document["code"]
    rows = load_file(tmp_path / "out")["w.trellis"]
    found = [decode(row.tobytes(), 37, *sizes, scale) for row in rows]
    expected = np.ldexp(trellis.decode(TrellisConfig(bits=3, state_bits=8), rows, 37), scale)
    assert found == expected.tolist()
