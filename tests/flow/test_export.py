"""Exported files: each format is read back bit by bit, and the cores take them."""

import json
import re
import subprocess
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from seedbed.flow.cores import networks, registry, settings
from seedbed.flow.emit.verilog import write
from seedbed.flow.export import exporters
from seedbed.golden.network import init
from seedbed.hw.adapters import instantft as instantft_hw
from seedbed.hw.generators import perturbation as perturbation_hw
from seedbed.hw.kept.layer_table import row_layout
from seedbed.sim import tools
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases import sparse_trainer as trainer_case
from seedbed.sim.cases import zo_trainer as zo_case
from seedbed.sim.harness import Stalls, simulate
from seedbed.sim.job import Act, Memory, check
from seedbed.sim.payloads import words as as_words
from seedbed.sim.verilog.cosim import Bench, Cosim
from seedbed.spec import DenseLayer
from seedbed.spec.instantft import INSTANTFT_KINDS
from seedbed.spec.network import TINY

SHAPE = 5, 26
NETWORK = ["--set", "network=tiny", "--set", "lanes=8", "--set", "ways=2", "--count", "3"]
TRAINER = ["layers=3", "columns=20", "classes=5", "entries=16", "batch=4", "beat_bits=32"]
TRAINER = [word for each in TRAINER for word in ("--set", each)] + ["--count", "3"]
#: Blocks of 17 bits: three of them in 64.
SMALL = ["--block", "4", "--latent", "2", "--width", "5"]
TRELLIS = ["--format", "trellis", "--state-bits", "8"]
GEMV = ["--core", "gemv", "--set", "beat_bits=64", "--set", "columns=64", "--set", "row_width=8"]


@pytest.fixture(scope="module")
def files(tmp_path_factory, succeeds):
    """A checkpoint, and the same one packed in every format."""
    folder = tmp_path_factory.mktemp("packed")
    tensor = np.random.default_rng(1).normal(size=SHAPE).astype("f4")
    save_file({"w": tensor, "bias": tensor[0]}, folder / "float.safetensors")
    save_file(init(TINY, np.random.default_rng(1)), folder / "net.safetensors")
    run = {
        name: ["compress", "float.safetensors", f"{name}.safetensors", *words, "--jobs", "1"]
        for name, words in {
            "seedlm": SMALL, "lut4": ["--format", "lut4"], "groups": ["--format", "groups"],
            "trellis": [*TRELLIS, "--bits", "3"],
        }.items()
    }  # fmt: skip
    rng = np.random.default_rng(2)
    mlp = {f"fc{k}.weight": rng.normal(size=shape) for k, shape in ((1, (14, 18)), (2, (5, 14)))}
    mlp = {name: (weights / 4).astype("f4") for name, weights in mlp.items()}
    save_file(mlp, folder / "gradients.safetensors")
    bias = rng.normal(size=14).astype("f4")
    save_file({**mlp, "fc1.bias": bias}, folder / "mlp.safetensors")
    run["mask"] = ["sensitive", "mlp.safetensors", "gradients.safetensors", "--fraction", "0.03"]
    run["mask"] += ["-o", "mask.safetensors"]
    run["kept"] = ["compress", "mlp.safetensors", "kept.safetensors", *SMALL, "--jobs", "1"]
    run["base"] = [*run["kept"][:2], "base.safetensors", *run["kept"][3:]]
    run["kept"] += ["--keep", "mask.safetensors"]
    run["trained"] = [*run["kept"][:2], "trained.safetensors", *TRELLIS, "--jobs", "1"]
    run["trained"] += ["--bits", "4", "--keep", "mask.safetensors"]
    for words in run.values():
        succeeds(words, folder)
    return folder


#: Every core, with the options of a small export; a file is one of ``files``.
EXPORTS = {
    "gemv seedlm": ["seedlm.safetensors", *GEMV],
    "gemv lut4": ["lut4.safetensors", *GEMV],
    "gemv trellis": ["trellis.safetensors", *GEMV],
    "gemv trellis, vectors": ["trellis.safetensors", *GEMV, "--set", "vectors=4"],
    "gemv plain": ["groups.safetensors", *GEMV, "--set", "plain_width=9"],
    "gemv float": ["float.safetensors", *GEMV, "--set", "decode=seedlm"],
    "gemv vectors": ["seedlm.safetensors", *GEMV, "--set", "vectors=2"],
    "seedlm_decompress": ["seedlm.safetensors", "--core", "seedlm_decompress"],
    "trellis_decompress": ["trellis.safetensors", "--core", "trellis_decompress"],
    "lut_dequantize": ["lut4.safetensors", "--core", "lut_dequantize", "--set", "lanes=5"],
    "zo_trainer": ["net.safetensors", "--core", "zo_trainer", *NETWORK],
    "instantft": ["net.safetensors", "--core", "instantft", *NETWORK, "--set", "entries=4"],
    "sparse_trainer": ["kept.safetensors", "--core", "sparse_trainer", *TRAINER],
    "sparse_trainer trellis": ["trained.safetensors", "--core", "sparse_trainer", *TRAINER],
    "prng_pool": ["--core", "prng_pool", "--set", "size=95", "--count", "20"],
    "lfsr": ["--core", "lfsr", "--set", "width=11", "--seed", "77"],
    "urng_array serial": ["--core", "urng_array", "--set", "lanes=7"],
    "urng_array grown": ["--core", "urng_array", "--set", "lanes=7", "--set", "seeding=grown"],
    "lutopt serial": ["--core", "lutopt", "--count", "9"],
    "lutopt word": ["--core", "lutopt", "--set", "seeding=word", "--seed", "4000000000"],
    "perturbation": ["--core", "perturbation", "--set", "lanes=7", "--seed", "9"],
    "perturbation pool": ["--core", "perturbation", "--set", "source=pool"],
}  # fmt: skip


@pytest.fixture
def exported(files, tmp_path, called):
    """Export to the folder of the test; return the list of files."""

    def run(words, name=""):
        words = [str(files / word) if word.endswith(".safetensors") else word for word in words]
        own = ["--name", name] if name else []
        status, out, err = called(["export", *words, *own, "-o", "out"], tmp_path)
        assert status == 0, err
        core = words[words.index("--core") + 1]
        return json.loads((tmp_path / "out" / f"{name or core}.json").read_text()), out

    return run


def hexadecimal(text):
    """Return the words of a file for ``$readmemh``, by the rules of Verilog."""
    return [int(word, 16) for word in re.sub(r"//.*", "", text).split() if word != "@0"]


def coe(text):
    """Return the words of a file of coefficients."""
    text = re.sub(r"^;.*$", "", text, flags=re.M)
    found = dict(re.findall(r"(\w+)\s*=\s*([^;]*);", text))
    radix = int(found["memory_initialization_radix"])
    return [int(word, radix) for word in found["memory_initialization_vector"].split(",")]


def words(folder, stem):
    """Return the words of a memory, after a comparison of all of its files."""
    listed = hexadecimal((folder / f"{stem}.hex").read_text())
    assert "@0\n" in (folder / f"{stem}.mem").read_text()
    assert hexadecimal((folder / f"{stem}.mem").read_text()) == listed
    assert coe((folder / f"{stem}.coe").read_text()) == listed
    array = np.load(folder / f"{stem}.npy")
    assert array.dtype == np.uint8
    assert (folder / f"{stem}.bin").read_bytes() == array.tobytes()
    assert [int.from_bytes(word.tobytes(), "little") for word in array] == listed
    return listed


PROGRAM = """\
#include "NAME.h"
#include "NAME.h"
#include <stdio.h>

int main(void) {
BODY
  return 0;
}
"""


@pytest.mark.parametrize("name", EXPORTS)
def test_every_format_has_the_same_bits(name, exported, tmp_path, reported):
    document, _ = exported(EXPORTS[name], "mine")
    folder = tmp_path / "out"
    assert {path.name for path in folder.iterdir()} == {"mine.json", *document["files"]}
    body = []
    parameters = (folder / "mine.vh").read_text()
    for memory, listed in document["memories"].items():
        found = words(folder, f"mine_{memory}")
        assert len(found) == listed["words"] > 0
        assert max(found).bit_length() <= listed["bits"]
        assert f"localparam MINE_{memory.upper()}_WORDS = {len(found)};" in parameters
        assert f"localparam MINE_{memory.upper()}_BITS = {listed['bits']};" in parameters
        raw = (folder / f"mine_{memory}.bin").read_bytes()
        assert listed["crc32"] == f"{crc32(raw):08x}"
        stem = f"MINE_{memory.upper()}"
        body += [
            f"  fwrite(mine_{memory}, 1, sizeof mine_{memory}, stdout);",
            f'  printf("%d %d %08x\\n", {stem}_WORDS, {stem}_BITS, {stem}_CRC32);',
        ]
    for number in document["numbers"]:
        body.append(f"  fwrite(mine_{number}, 1, sizeof mine_{number}, stdout);")
    for constant, value in document["constants"].items():
        body.append(f"  if (1 * MINE_{constant} != {value}LL) return 1;")
    text = PROGRAM.replace("NAME", "mine").replace("BODY", "\n".join(body))
    (folder / "main.c").write_text(text)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *flags, "-o", "main", "main.c"], cwd=folder, check=True)
    printed = subprocess.run([folder / "main"], capture_output=True, check=True).stdout
    wanted = b""
    for memory, listed in document["memories"].items():
        wanted += (folder / f"mine_{memory}.bin").read_bytes()
        wanted += f"{listed['words']} {listed['bits']} {listed['crc32']}\n".encode()
    for number in document["numbers"]:
        wanted += np.load(folder / f"mine_{number}.npy").astype("<i8").tobytes()
    assert printed == wanted
    command = "make test TESTS=tests/flow/test_export.py"
    count = sum((folder / file).stat().st_size for file in document["files"])
    reported("export", document["core"], command, bytes=count)


def configured(folder, name):
    """Return the core of an export in the configuration of its file."""
    core = registry.find(name)
    return core, core.configure(settings.read(core, [], folder / f"{name}.toml"))


def ends(lengths):
    return [t == length - 1 for length in lengths for t in range(length)]


def joined(fields):
    """Return payloads of fields, lists of words with their widths, the first one lowest."""
    found = [0] * len(fields[0][0])
    place = 0
    for numbers, width in fields:
        found = [a | b << place for a, b in zip(found, numbers, strict=True)]
        place += width
    return found


class Files:
    """The memories of an export."""

    def __init__(self, folder, name, document):
        self.folder, self.name, self.document = folder, name, document
        self.constants = document["constants"]

    def __getitem__(self, memory):
        """Return words and width."""
        width = self.document["memories"][memory]["bits"]
        return words(self.folder, f"{self.name}_{memory}"), width


def gemv(files):
    c = files.constants
    lengths = [c["ROW_BEATS"]] * c["ROWS"]
    lengths[0], lengths[-1] = c["FIRST_ROW_BEATS"], c["LAST_ROW_BEATS"]
    weights, vector, sums = (files[name] for name in ("weights", "vector", "sums"))
    shape = [([c["COLUMNS"]], c["COLUMNS_BITS"]), ([c["ROWS"]], c["ROWS_BITS"])]
    _, config = configured(files.folder, "gemv")
    if config.decode == "seedlm":
        shape.append(([c["PLAIN"]], 1))
    rows = len(sums[0])
    scales = {"i_scales": files["scales"][0]} if config.decode == "trellis" else {}
    return Phase(
        inputs=scales
        | {
            "i": joined([*shape, ([0], 1)]),
            "i_weights": joined([weights, (ends(lengths), 1)]),
            "i_vector": joined([vector, (ends([len(vector[0])]), 1)]),
        },
        outputs={"o": joined([sums, ([0] * rows, 3), (ends([rows]), 1)])},
    )


def seedlm_decompress(files):
    last = ends([files.constants["ROW_BEATS"]] * files.constants["ROWS"]), 1
    return Phase(
        inputs={"i": joined([files["blocks"], last])},
        outputs={"o": joined([files["weights"], files["exponents"], last])},
    )


def trellis_decompress(files):
    last = ends([files.constants["ROW_BEATS"]] * files.constants["ROWS"]), 1
    return Phase(
        inputs={"i": joined([files["symbols"], last])},
        outputs={"o": joined([files["weights"], last])},
    )


def lut_dequantize(files):
    c = files.constants
    last = ends([c["ROW_BEATS"]] * c["ROWS"]), 1
    exponents, width = files["exponents"]
    each = [e for e in exponents for _ in range(c["TABLE_BEATS"])], width
    rows = [e for e in exponents for _ in range(c["ROW_BEATS"])], width
    return Phase(
        inputs={"i": joined([files["codes"], last]), "i_levels": joined([files["levels"], each])},
        outputs={"o": joined([files["weights"], rows, last])},
    )


def prng_pool(files):
    numbers, lanes = files["numbers"], files["lanes"]
    beats = len(lanes[0])
    width = len(numbers[0]).bit_length()
    count = [files.constants["COUNT"]] * beats, files.constants["COUNT"].bit_length()
    last = ends([beats]), 1
    request = joined([([1] + [0] * (beats - 1), 1), ([0] * beats, width), count, last])
    return [
        Phase(inputs={"i_pool": joined([numbers, (ends([len(numbers[0])]), 1)])}),
        Phase(inputs={"i": request}, outputs={"o": joined([lanes, count, last])}),
    ]


def packet(fields):
    return joined([*fields, (ends([len(fields[0][0])]), 1)])


def samples(files, labels, *more):
    """Return packets of images, their labels, and more fields of zeros."""
    c = files.constants
    numbers, width = labels
    each = [label for label in numbers for _ in range(c["SAMPLE_BEATS"])], width
    zeros = [([0] * len(each[0]), width) for width in more]
    last = ends([c["SAMPLE_BEATS"]] * c["SAMPLES"]), 1
    return joined([files["samples"], each, *zeros, last])


def zo_trainer(files):
    """Load, classify, and read out what was loaded."""
    _, config = configured(files.folder, "zo_trainer")
    c, loaded = files.constants, packet([files["parameters"]])
    command = zo_case.job(config, "infer", samples=c["SAMPLES"], epochs=1, exponent=c["EXPONENT"])
    classes, width = files["classes"]
    return [
        Phase(inputs={"i_parameters": loaded}),
        Phase(
            inputs={"i": [command], "i_samples": samples(files, ([0] * c["SAMPLES"], width))},
            outputs={
                "o": joined([(classes, width), ([0] * len(classes), 1)]),
                "o_status": [zo_case.status("infer")],
            },
        ),
        Phase(
            inputs={"i": [zo_case.job(config, "read")]},
            outputs={"o_parameters": loaded, "o_status": [zo_case.status("read")]},
        ),
    ]


def instantft(files):
    """Load both packets, classify, and read out the adapters."""
    _, config = configured(files.folder, "instantft")
    command, result = instantft_hw.command_layout(config), instantft_hw.result_layout(config)
    kinds = {name: INSTANTFT_KINDS.index(name) for name in ("infer", "read")}
    infer = {"kind": kinds["infer"], "samples": files.constants["SAMPLES"], "epochs": 1}
    pairs = zip(files["classes"][0], files["losses"][0], strict=True)
    given = [{"best": best, "loss": loss} for best, loss in pairs]
    ended = result.const({"last": 1}).as_bits()
    words, width = files["adapters"]
    adapters = joined([(words, width), (ends([len(words)]), 1), ([1] * len(words), 1)])
    network = files["network"]
    frozen = joined([network, (ends([len(network[0])]), 1), ([0] * len(network[0]), 1)])
    return [
        Phase(inputs={"i_parameters": [*frozen, *adapters]}),
        Phase(
            inputs={
                "i": [command.const(infer).as_bits()],
                "i_samples": samples(files, files["labels"], 16),
            },
            outputs={"o": [*(result.const(each).as_bits() for each in given), ended]},
        ),
        Phase(
            inputs={"i": [command.const({"kind": kinds["read"]}).as_bits()]},
            outputs={"o_parameters": packet([(words, width)]), "o": [ended]},
        ),
    ]


def sparse_trainer(files):
    """Load the table and the entries, and classify with the memory."""
    _, config = configured(files.folder, "sparse_trainer")
    c, layout = files.constants, row_layout(config)
    rows = [layout.from_bits(row) for row in files["layers"][0]]
    names = [name for name, _ in layout if name != "last"]
    flags = {"plain", "relu"}
    layers = [
        DenseLayer(**{n: bool(row[n]) if n in flags else int(row[n]) for n in names})
        for row in rows
    ]
    assert [row["last"] for row in rows] == [0] * (c["LAYERS"] - 1) + [1]
    cells = dict(enumerate(files["memory"][0]))
    model = SimpleNamespace(config=config, layers=layers, beats=lambda: cells)
    commands, beats, after = trainer_case.reads(model, c["SAMPLES"])
    classes, losses = files["classes"], files["losses"]
    load, infer = (
        trainer_case.job(config, kind, **more)
        for kind, more in (("load", {}), ("infer", {"samples": c["SAMPLES"], "epochs": 1}))
    )
    return [
        Phase(inputs={"i_layers": files["layers"][0]}),
        Phase(
            inputs={"i": [load], "i_entries": files["entries"][0]},
            outputs={"o_status": [trainer_case.status("load")]},
        ),
        Phase(
            inputs={"i": [infer], "i_samples": samples(files, files["labels"]), "i_read": beats},
            outputs={
                "o": joined([classes, losses, ([0] * c["SAMPLES"], 1)]),
                "o_status": [trainer_case.status("infer")],
                "o_command": commands,
            },
            after={"i_read": {"o_command": after}},
        ),
    ]


def lfsr(files):
    return Phase(inputs={"i_seed": files["seed"][0]}, outputs={"o": files["words"][0]}, drain=True)


def lanes_of_seeds(port, masks):
    def phase(files):
        if masks in files.document["memories"]:
            beats = files[masks]
            sent = joined([beats, (ends([len(beats[0])]), 1)])
        else:
            sent = files["seed"][0]
        name = port if masks in files.document["memories"] else port.replace("state", "seed")
        return Phase(inputs={name: sent}, outputs={"o": files["words"][0]}, drain=True)

    return phase


def perturbation(files):
    _, config = configured(files.folder, "perturbation")
    lanes, exponents = files["lanes"], files["exponents"]
    beats = len(lanes[0])
    sent = {"seed": files.constants["SEED"], "numbers": files.constants["NUMBERS"]}
    count = [config.lanes] * beats, config.lanes.bit_length()
    return Phase(
        inputs={"i": [perturbation_hw.command_layout(config).const(sent).as_bits()]},
        outputs={"o": joined([lanes, count, exponents, ([0] * beats, 1), (ends([beats]), 1)])},
    )


PHASES = {
    "gemv": gemv, "seedlm_decompress": seedlm_decompress, "lut_dequantize": lut_dequantize,
    "trellis_decompress": trellis_decompress,
    "zo_trainer": zo_trainer, "instantft": instantft, "sparse_trainer": sparse_trainer,
    "prng_pool": prng_pool, "lfsr": lfsr, "urng_array": lanes_of_seeds("i_seeds", "seeds"),
    "lutopt": lanes_of_seeds("i_state", "state"), "perturbation": perturbation,
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_the_core_gives_what_is_exported(name, exported, tmp_path):
    """The files drive the core, in the configuration of the exported file of parameters."""
    document, _ = exported(EXPORTS[name])
    core, config = configured(tmp_path / "out", document["core"])
    found = PHASES[core.name](Files(tmp_path / "out", core.name, document))
    phases = found if isinstance(found, list) else [found]
    # Generators never end.
    case = Case(phases=phases, quiet=core.name not in ("lfsr", "urng_array", "lutopt"))
    simulate(core.component(config), case, stalls=Stalls.NONE, seed=1)


@pytest.mark.parametrize("name", ["gemv trellis", "trellis_decompress", "sparse_trainer trellis"])
def test_the_emitted_verilog_gives_what_is_exported(name, exported, tmp_path, kept):
    """The files drive the core's Verilog, under Verilator."""
    document, _ = exported(EXPORTS[name])
    core, config = configured(tmp_path / "out", document["core"])
    params = settings.read(core, [], tmp_path / "out" / f"{core.name}.toml")
    files = Files(tmp_path / "out", core.name, document)
    found = PHASES[core.name](files)
    has_memory = "memory" in document["memories"]
    bench = Bench(core.signature(config), page=config.page if has_memory else 0)

    def payloads(ports):
        return {
            port: as_words(beats, bench.layouts[port])
            for port, beats in ports.items()
            if port not in ("i_read", "o_command")
        }

    acts = [
        Act(name=f"{k}", inputs=payloads(phase.inputs), outputs=payloads(phase.outputs))
        for k, phase in enumerate(found if isinstance(found, list) else [found])
    ]
    verilog = write(core, params, tmp_path, kept=kept)
    with Cosim(bench.executable(verilog, core.name, build=kept), bench) as process:
        if has_memory:
            cells, width = files["memory"]
            process.fill(Memory(), len(cells), as_words(cells, width))
        check(acts, process.run_all(acts, settle=16)[0])


def test_every_core_with_an_export_is_tested():
    # In test_program_export.py, and test_training_export.py.
    own = {"stream_engine", "stream_trainer"}
    assert {name.split()[0] for name in EXPORTS} == set(exporters.EXPORTERS) - own == set(PHASES)


def test_the_beats_are_the_rows_of_the_packed_file(exported, files, tmp_path):
    """Three blocks of 17 bits in a beat of 64."""
    document, out = exported(EXPORTS["gemv seedlm"])
    assert "5 rows of 26 weights (seedlm), each 3 beats of 12 weights." in out
    assert "The last beat of each row has 2 weights and is padded with 0." in out
    assert "The last beat of the vector has 2 numbers of 4 and is padded with 0." in out
    beats, _ = Files(tmp_path / "out", "gemv", document)["weights"]
    rows = load_file(files / "seedlm.safetensors")["w.seedlm"]
    for k, row in enumerate(rows):
        bits = int.from_bytes(row.tobytes(), "little")
        own = beats[3 * k : 3 * k + 3]
        assert [beat >> 51 for beat in own] == [0] * 3
        assert own[0] | own[1] << 51 | own[2] << 102 == bits
    # 7 blocks of 4 weights.
    assert bits.bit_length() <= 7 * 17


@pytest.mark.parametrize(
    "name", ["gemv seedlm", "gemv lut4", "gemv trellis", "gemv plain", "gemv float"]
)
def test_a_sum_is_worth_what_the_files_say(name, exported, files, tmp_path, called):
    document, _ = exported(EXPORTS[name])
    c, folder = document["constants"], tmp_path / "out"
    source = files / EXPORTS[name][0]
    if source.name != "float.safetensors":
        called(["decompress", str(source), "plain.safetensors"], tmp_path)
        source = tmp_path / "plain.safetensors"
    x, y = np.load(folder / "gemv_x.npy"), np.load(folder / "gemv_y.npy")
    product = y * 2.0 ** c["SCALE"] / c["DIVISOR"]
    wanted = load_file(source)["w"].astype(np.float64) @ x
    if name == "gemv trellis":
        assert np.array_equal(product, wanted)
        return
    rounded = 2.0**-7 if name == "gemv plain" else 2.0**-15 if name == "gemv float" else 2.0**-20
    assert np.abs(product - wanted).max() < rounded * np.abs(x).sum()


def test_my_vector(exported, tmp_path):
    x = np.arange(-13, 13)
    np.save(tmp_path / "x.npy", x.astype(np.int8))
    document, _ = exported([*EXPORTS["gemv seedlm"], "--vector", str(tmp_path / "x.npy")])
    assert (np.load(tmp_path / "out/gemv_x.npy") == x).all()
    first = np.load(tmp_path / "out/gemv_y.npy")
    np.save(tmp_path / "x.npy", x / 8)
    document, out = exported([*EXPORTS["gemv seedlm"], "--vector", str(tmp_path / "x.npy")])
    assert "The vector is integers of 16 bits, in units of 2^-14." in out
    assert document["constants"]["VECTOR_SCALE"] == -14
    # -13 / 8 fills 16 bits: x is 2048 times as large.
    assert (np.load(tmp_path / "out/gemv_x.npy") == 2048 * x).all()
    assert (np.load(tmp_path / "out/gemv_y.npy") == 2048 * first).all()


def test_my_pool(exported, tmp_path):
    numbers = np.random.default_rng(2).integers(-2048, 2048, 95)
    np.save(tmp_path / "pool.npy", numbers)
    document, _ = exported([*EXPORTS["prng_pool"], "--vector", str(tmp_path / "pool.npy")])
    found, _ = Files(tmp_path / "out", "prng_pool", document)["numbers"]
    assert found == (numbers % 4096).tolist()
    # It is the content after a reset, too.
    _, config = configured(tmp_path / "out", "prng_pool")
    assert config.numbers == tuple(numbers.tolist())


@pytest.mark.parametrize("width", [2, 9, 16])
def test_integers_fill_their_bits(width):
    from seedbed.flow.importer.integers import integer_weights

    half = 1 << (width - 1)
    for peak in (1.0, 1 - 1e-9, 0.75, -1.0, 3e-30, 0.0):
        found, exponent = integer_weights(np.array([peak, peak / 3]), width)
        assert -half <= found.min() <= found.max() < half
        # The next smaller unit does not hold the largest number.
        assert not peak or abs(round(peak * 2.0 ** (1 - exponent))) >= half
        assert (np.abs(found * 2.0**exponent - [peak, peak / 3]) <= 2.0 ** (exponent - 1)).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no.safetensors", *GEMV], "no.safetensors: No such file or directory"),
        (["x.npy", *GEMV], "x.npy is not a complete safetensors file: "),
        (["seedlm.safetensors", *GEMV, "--tensor", "v"],
         "seedlm.safetensors has no matrix 'v'; there are w"),
        (["none.safetensors", *GEMV],
         "none.safetensors has no packed tensor and no floating-point matrix"),
        (["seedlm.safetensors", "--core", "gemv", "--set", "columns=8"],
         "seedlm.safetensors: tensor 'w' has 5 rows of 26 columns; columns=8 and "
         "row_width=32 allow at most 8 columns"),
        (["seedlm.safetensors", "--core", "gemv", "--set", "block=8"],
         "seedlm.safetensors: tensor 'w' has blocks of block=4, not 8"),
        (["seedlm.safetensors", "--core", "gemv", "--set", "decode=lut4"],
         "seedlm.safetensors: tensor 'w' is not in the format lut4, but in seedlm"),
        (["lut4.safetensors", "--core", "gemv", "--set", "level_width=6"],
         "lut4.safetensors: tensor 'w' has levels of 14 bits, not 6"),
        (["lut4.safetensors", "--core", "seedlm_decompress"],
         "lut4.safetensors: tensor 'w' is not in SeedLM's blocks, but in lut4"),
        (["lut4.safetensors", "--core", "trellis_decompress"],
         "lut4.safetensors: tensor 'w' is not in a trellis code, but in lut4"),
        (["seedlm.safetensors", "--core", "gemv", "--set", "decode=trellis"],
         "seedlm.safetensors: tensor 'w' is not in a trellis code, but in seedlm"),
        (["trellis.safetensors", "--core", "gemv", "--set", "bits=4"],
         "trellis.safetensors: tensor 'w' has a code of bits=3, not 4"),
        (["trained.safetensors", "--core", "sparse_trainer", "--set", "decode=seedlm"],
         "trained.safetensors: tensor 'fc1.weight' is in trellis: decode must not be seedlm"),
        (["seedlm.safetensors", *GEMV, "--set", "entries=8"],
         "entries must be default, without a side path, not 8"),
        (["seedlm.safetensors", *GEMV, "--vector", "x.npy"],
         "x.npy must be an array of 26, not of 3"),
        (["seedlm.safetensors", *GEMV, "--vector", "wide.npy"],
         "wide.npy must have numbers of 16 bits, -32768..32767, not 32768"),
        (["seedlm.safetensors", *GEMV, "--vector", "nan.npy"],
         "nan.npy has numbers that are not finite"),
        (["seedlm.safetensors", *GEMV, "--vector", "text.npy"],
         "text.npy is not a complete .npy file"),
        (["seedlm.safetensors", *GEMV, "--vector", "no.npy"], "no.npy: No such file or directory"),
        (["seedlm.safetensors", *GEMV, "--vector", "names.npy"],
         "names.npy must have integers or floating-point numbers, not <U1"),
        (["--core", "gemv"], "the export of gemv needs a safetensors file"),
        (["seedlm.safetensors", "--core", "lfsr"], "the export of lfsr takes no file"),
        (["--core", "lfsr", "--tensor", "w"], "the export of lfsr takes no --tensor"),
        (["--core", "lfsr", "--vector", "x.npy"], "the export of lfsr takes no --vector"),
        (["--core", "lfsr", "--seed", "0"], "seed must be in 1..255, not 0"),
        (["--core", "perturbation", "--seed", "70000"], "seed must be a whole number in 1..16383"),
        (["--core", "lutopt", "--set", "seeding=word", "--seed", "4294967296"],
         "seed must be a whole number in 0..4294967295"),
        (["--core", "prng_pool", "--vector", "x.npy"],
         "x.npy: contents must be 4095 integers in -2048..2047, not 3 of them"),
        (["net.safetensors", "--core", "zo_trainer"],
         "net.safetensors: tensor 'conv1.weight' must be a matrix of 6 x 25, not 3 x 9"),
        (["seedlm.safetensors", "--core", "instantft", *NETWORK],
         "seedlm.safetensors has no matrix 'conv1.weight'; there are w"),
        (["bare.safetensors", "--core", "instantft", *NETWORK],
         "bare.safetensors must have 'conv1.bias', 3 floating-point numbers"),
        (["net.safetensors", "--core", "zo_trainer", *NETWORK, "--vector", "x.npy"],
         "x.npy must be an array of N x 1 x 6 x 6 bytes, uint8, not of 3 int64"),
        (["net.safetensors", "--core", "zo_trainer", "--tensor", "w"],
         "the export of zo_trainer takes no --tensor"),
        (["mlp.safetensors", "--core", "sparse_trainer"],
         "mlp.safetensors was not written by 'seedbed compress'"),
        (["mlp.safetensors", "--core", "sparse_trainer", "--tensor", "fc1.weight"],
         "mlp.safetensors: tensor 'fc1.weight' is not in SeedLM's blocks, but in float"),
        (["kept.safetensors", "--core", "sparse_trainer", "--tensor", "fc2.weight,fc1.weight"],
         "kept.safetensors: tensor 'fc1.weight' has 18 columns, but the layer before it, 'fc2.w"),
        (["kept.safetensors", "--core", "sparse_trainer", "--set", "entries=2"],
         "kept.safetensors: the layers must have 2 entries at most, not 10 of them"),
        (["--core", "mac_array"], "mac_array has no export; there are gemv, "),
        (["--core", "gemm"], "no core is called 'gemm' (did you mean 'gemv'?); there are"),
        (["--core", "lfsr", "--name", "module"], "name must "),
    ],
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_is_written(words, said, files, tmp_path, called):
    for path in files.glob("*.safetensors"):
        (tmp_path / path.name).symlink_to(path)
    save_file({"bias": np.ones(3, "f4")}, tmp_path / "none.safetensors")
    weights = load_file(files / "net.safetensors")
    save_file(
        {k: w for k, w in weights.items() if k != "conv1.bias"}, tmp_path / "bare.safetensors"
    )
    np.save(tmp_path / "x.npy", [1, 2, 3])
    np.save(tmp_path / "wide.npy", np.full(26, 1 << 15, np.uint16))
    np.save(tmp_path / "nan.npy", np.full(26, np.nan))
    np.save(tmp_path / "names.npy", ["a"] * 26)
    (tmp_path / "text.npy").write_text("1 2 3")
    status, out, err = called(["export", *words, "-o", "out"], tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {said}") or ("--name" in words and said in err), err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_kept_weights_are_refused_where_they_would_be_lost(files, tmp_path, called):
    (tmp_path / "kept.safetensors").symlink_to(files / "kept.safetensors")
    status, _, err = called(["export", "kept.safetensors", *GEMV, "-o", "out"], tmp_path)
    said = "kept.safetensors: tensor 'fc1.weight' has kept weights, which are not multiplied"
    assert (status, err) == (2, f"error: {said}\n")
    assert not (tmp_path / "out").exists()
    # Plain integers have them.
    plain = [*GEMV, "--set", "decode=plain", "-o", "out"]
    assert called(["export", "kept.safetensors", *plain], tmp_path)[0] == 0


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("sparse_trainer", ("base", "kept")),
        ("sparse_trainer trellis", ("trained", "trained")),
    ],
)
def test_the_logits_of_a_trainer_are_those_of_its_network(
    name, packed, exported, files, tmp_path, called
):
    """The integers are rounded; the network is that of 'decompress', kept weights included."""
    document, _ = exported(EXPORTS[name])
    c = document["constants"]
    weights = []
    for name in packed:
        path = str(files / f"{name}.safetensors")
        assert called(["decompress", path, f"{name}.safetensors", "--force"], tmp_path)[0] == 0
        weights.append(load_file(tmp_path / f"{name}.safetensors"))
    base, kept = weights
    # A sum of blocks is scaled by 2^(B - 1), not by 2^(B - 1) - 1: B is 5. A trellis code has no
    # divisor.
    share = 0 if packed[0] == packed[1] else 1 / 16
    network = {name: kept[name] - share * base[name].astype(np.float64) for name in base}
    x = np.load(tmp_path / "out/sparse_trainer_x.npy") * 2.0 ** c["SAMPLE_SCALE"]
    hidden = np.maximum(x @ network["fc1.weight"].T + kept["fc1.bias"], 0)
    wanted = hidden @ network["fc2.weight"].T
    logits = np.load(tmp_path / "out/sparse_trainer_y.npy") * 2.0 ** c["LOGIT_SCALE"]
    assert np.abs(logits).max() > 0.1
    assert np.abs(logits - wanted).max() < 2.0**-10


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("x/y", "x/y: Not a directory"),
        ("-", "this output cannot be -, standard output; give a name"),
    ],
)
def test_a_folder_that_cannot_be_is_refused(folder, said, tmp_path, called):
    (tmp_path / "x").touch()
    status, _, err = called(["export", "--core", "lfsr", "-o", folder], tmp_path)
    assert (status, err) == (2, f"error: {said}\n")


def test_my_network_is_in_the_folder(exported, files, tmp_path):
    """The file of parameters names the network in the same folder, wherever the export began."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets/mine.toml").write_text(networks.toml(TINY))
    words = [word.replace("=tiny", "=nets/mine.toml") for word in EXPORTS["zo_trainer"]]
    exported(words)
    folder = tmp_path / "moved"
    (tmp_path / "out").rename(folder)
    (tmp_path / "nets/mine.toml").unlink()
    _, config = configured(folder, "zo_trainer")
    assert config.network == TINY
    assert str(config.network) == str(folder / "zo_trainer_network.toml")


def test_files_of_others_are_overwritten_only_with_force(tmp_path, called):
    run = ["export", "--core", "lfsr", "-o", "out"]
    assert called(run, tmp_path)[0] == 0
    assert called([*run, "--seed", "3"], tmp_path)[0] == 0
    assert (tmp_path / "out/lfsr_seed.bin").read_bytes() == b"\3"
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    for name in ("lfsr_words.bin", "lfsr_seed.coe", "lfsr.h", "lfsr.json"):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / name).write_bytes(b"mine")
        words = [*run[:-1], "mine"]
        status, _, err = called(words, tmp_path)
        assert (status, err) == (2, f"error: mine/{name} exists already; --force overwrites it\n")
        assert [path.name for path in (tmp_path / "mine").iterdir()] == [name]
        assert called([*words, "--seed", "3", "--force"], tmp_path)[0] == 0
        found = {path.name: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
        assert found == before
        (tmp_path / "mine").rename(tmp_path / name)


def test_a_list_of_files_that_was_changed_owns_nothing(tmp_path, called):
    run = ["export", "--core", "lfsr", "-o", "out"]
    assert called(run, tmp_path)[0] == 0
    document = tmp_path / "out/lfsr.json"
    document.write_text(document.read_text().replace('"files": [', '"files": ]'))
    status, _, err = called(run, tmp_path)
    assert status == 2
    assert re.fullmatch(r"error: out/lfsr_\w+\.(bin|npy) exists already; --force .*\n", err)


@pytest.mark.skipif(not tools.there("IVERILOG"), reason="Icarus Verilog is not installed")
def test_a_simulator_reads_the_files(exported, tmp_path):
    """All of them, also words of hundreds of bits."""
    document, _ = exported(EXPORTS["urng_array serial"])
    folder = tmp_path / "out"
    lines = ["module reads;", '`include "urng_array.vh"', "integer k;"]
    for memory in document["memories"]:
        stem = f"URNG_ARRAY_{memory.upper()}"
        for kind in ("hex", "mem"):
            lines += [
                f"reg [{stem}_BITS-1:0] {memory}_{kind} [0:{stem}_WORDS-1];",
                f'initial begin $readmemh("urng_array_{memory}.{kind}", {memory}_{kind});',
                f"for (k = 0; k < {stem}_WORDS; k = k + 1)",
                f'$display("{memory} {kind} %h", {memory}_{kind}[k]); end',
            ]
    (folder / "reads.v").write_text("\n".join([*lines, "endmodule\n"]))
    tools.run("IVERILOG", "-g2005", "-o", "reads", "reads.v", cwd=folder)
    printed = tools.run("VVP", "reads", cwd=folder).splitlines()
    for memory in document["memories"]:
        wanted = words(folder, f"urng_array_{memory}")
        for kind in ("hex", "mem"):
            start = f"{memory} {kind} "
            read = [int(line.removeprefix(start), 16) for line in printed if line.startswith(start)]
            assert read == wanted


def test_states_of_the_lanes_are_those_of_one_sequence(exported, tmp_path):
    """The seeds of the lanes grow from the first one, and are shifted in bit by bit."""
    document, _ = exported([*EXPORTS["urng_array serial"], "--seed", "100"])
    files = Files(tmp_path / "out", "urng_array", document)
    lanes, _ = files["lanes"]
    assert lanes[0] == 100
    assert len(set(lanes)) == len(lanes)
    masks, _ = files["seeds"]
    bits = len(masks)
    rebuilt = [
        sum((masks[t] >> (k + bits - 1 - t) % 7 & 1) << t for t in range(bits)) for k in range(7)
    ]
    assert rebuilt == lanes
