"""A model or a host is written from the pages alone: their listings agree with the models."""

import ast
import re
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from seedbed.flow.cores.registry import CORES
from seedbed.golden import engine, trellis
from seedbed.golden.bp_tail import pairs
from seedbed.golden.conv_engine import ConvEngine
from seedbed.golden.elasticzo import ElasticZo, Network
from seedbed.golden.elasticzo_loss import loss_gradient
from seedbed.golden.engine_image import engine_image
from seedbed.golden.forward_cache import ForwardCache
from seedbed.golden.gemv import Gemv
from seedbed.golden.lfsr import Lfsr
from seedbed.golden.lutopt import Lutopt
from seedbed.golden.mac_array import MacArray
from seedbed.golden.nf4 import Nf4
from seedbed.golden.perturbation import Perturbation
from seedbed.golden.requantize import Requantize
from seedbed.golden.scale_lut import ScaleLut
from seedbed.golden.seedlm_decompress import decompress
from seedbed.golden.softmax_loss import SoftmaxLoss
from seedbed.golden.sparse_mac import SparseMac
from seedbed.golden.sparse_trainer import Parameters, SparseTrainer
from seedbed.golden.stream_trainer import Sample, sample_bytes
from seedbed.golden.training_log import TrainingLog, digest
from seedbed.golden.tree_grng import TreeGrng
from seedbed.golden.trellis_decompress import decompress as trellis_decompress
from seedbed.golden.urng_array import UrngArray, seed_beats
from seedbed.golden.vector_unit import VectorUnit
from seedbed.golden.weight_perturb import WeightPerturb
from seedbed.golden.zo_trainer import LogEntry as ZoEntry
from seedbed.golden.zo_trainer import ZoTrainer, pixels
from seedbed.hw.vectors.vector_layouts import command_layout
from seedbed.hw.weights.lut_dequantize import codes_layout, table_layout
from seedbed.hw.weights.trellis_decompress import symbols_layout
from seedbed.sim.cases.stream_programs import WORDS, drawn_program
from seedbed.spec import (
    VECTOR_OPERATIONS,
    BpTailConfig,
    ConvEngineConfig,
    DenseLayer,
    ForwardCacheConfig,
    GemvConfig,
    InstantFtConfig,
    LfsrConfig,
    LoraConfig,
    LutDequantizeConfig,
    LutoptConfig,
    MacArrayConfig,
    Nf4Config,
    PerturbationConfig,
    PoolConfig,
    RequantizeConfig,
    ScaleConfig,
    SeedlmDecompressConfig,
    SoftmaxLossConfig,
    SparseMacConfig,
    SparseTrainerConfig,
    StreamEngineConfig,
    StreamTrainerConfig,
    TreeGrngConfig,
    TrellisDecompressConfig,
    UrngConfig,
    VectorUnitConfig,
    WeightPerturbConfig,
    ZoTrainerConfig,
)
from seedbed.spec.engine_records import HEADER, KINDS, RECORD, RECORD_BITS, unpacked
from seedbed.spec.fixed import Fixed
from seedbed.spec.lfsr import TAPS
from seedbed.spec.lutopt import DRAWS, SEED_LEAST, expansion
from seedbed.spec.network import Layer, NetworkConfig

PAGES = Path(__file__).parents[2] / "docs" / "cores"
#: Cores whose numbers and order of words are in tables alone. The numbers of perturbation are those
#: of its sources.
TABLES_ALONE = {"host_link", "loss_sign", "perturbation", "sdram", "skid_buffer"}


def examples(page):
    """Return the Python examples of a page."""
    text = (PAGES / f"{page}.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def listings(page):
    """Return those that define functions: what a model or a host needs."""
    return [source for source in examples(page) if re.search("^def ", source, re.MULTILINE)]


@cache
def listing(page):
    """Return the names that the listings of a page define."""
    names = {}
    for source in listings(page):
        exec(compile(source, page, "exec"), names)
    return names


@pytest.mark.parametrize("page", [path.stem for path in sorted(PAGES.glob("*.md"))])
def test_a_listing_is_written_from_its_page_alone(page):
    """It imports tables of constants, and no model and no core."""
    for source in listings(page):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("seedbed"):
                assert node.module.startswith("seedbed.spec"), (page, node.module)
                assert all(each.name.isupper() for each in node.names), (page, node.module)


def test_every_core_whose_payloads_are_computed_has_a_listing():
    assert {name for name in CORES if not listings(name)} <= TABLES_ALONE


def test_the_page_of_lutopt_has_every_size():
    sizes = (PAGES / "lutopt.md").read_text().partition("Sizes are lanes x width: ")[2]
    found = re.findall(r"(\d+) x (\d+)", sizes.partition(".")[0])
    assert {(int(lanes), int(width)) for lanes, width in found} == {size[:2] for size in DRAWS}


@pytest.mark.parametrize("size", DRAWS, ids=str)
def test_lutopt(size):
    lanes, width, _ = size
    config = LutoptConfig(lanes=lanes, width=width)
    page = listing("lutopt")
    taps = page["taps"](lanes, width)
    assert list(map(tuple, taps)) == list(config.rows)
    if config.bits >= SEED_LEAST:
        model = Lutopt(config)
        for seed in (0, 1, 2**32 - 1):
            model.seed(seed)
            assert page["words"](lanes, width, seed, 3) == model.beats(3).tolist()


def test_the_taps_that_expand_a_seed_word_are_on_the_page():
    rows = re.findall(r"\| (\d+), \d+, \d+ \| ([\d,; ]+)", (PAGES / "lutopt.md").read_text())
    found = {int(first): taps.split(";") for first, taps in rows}
    taps = [tuple(map(int, one.split(","))) for first in sorted(found) for one in found[first]]
    assert tuple(taps) == expansion()


@pytest.mark.parametrize(
    "config",
    [
        WeightPerturbConfig(lanes=8, ways=2, rows=4),
        WeightPerturbConfig(lanes=32, ways=1, rows=4),
        WeightPerturbConfig(lanes=16, ways=1, bits=3, rows=4),
        WeightPerturbConfig(lanes=32, ways=4, bits=6, rows=4),
    ],
    ids=str,
)
def test_weight_perturb(config):
    """From the seed on: the words are those of the page of lutopt."""
    page, model = listing("weight_perturb"), WeightPerturb(config)
    words = listing("lutopt")["words"](config.count, config.bits + 1, 7, 2)
    for magnitude in range(1, config.bits + 1):
        for zeros in (0, 5, 15):
            limits = {"magnitude": 2**magnitude - 1, "zeros": zeros}
            z = [page["perturbation"](row, config.bits, magnitude, zeros) for row in words]
            found = model.perturbation(7, 2, **limits)
            assert found.reshape(2, -1).tolist() == z
            u = [[page["rounded"](each, magnitude) for each in row] for row in z]
            up = model.updated(np.zeros_like(found, int), found, -1, limits["magnitude"])
            assert up.reshape(2, -1).tolist() == u


def test_the_worked_example_of_weight_perturb_starts_from_its_seed():
    assert listing("lutopt")["words"](16, 5, 7, 1) == [listing("weight_perturb")["words"]]


def test_the_table_of_rounded_perturbations():
    """Of each range: the magnitudes that an update does not round to 0."""
    rounded, found = listing("weight_perturb")["rounded"], {}
    text = (PAGES / "weight_perturb.md").read_text().partition("for which u is not 0")[2]
    for c, row in re.findall(r"^\| (\d) \| ([\d., ]+) \|$", text, re.M)[:6]:
        ends = [each.partition("..") for each in row.split(", ")]
        found[int(c)] = [k for a, _, b in ends for k in range(int(a), int(b or a) + 1)]
    assert found == {c: [m for m in range(2**c) if rounded(m, c)] for c in range(1, 7)}


@pytest.mark.parametrize(("number_width", "value_width"), [(2, 3), (8, 16), (16, 24)])
def test_the_numbers_of_sparse_mac(number_width, value_width):
    config = SparseMacConfig(number_width=number_width, value_width=value_width, columns=64)
    page, model = listing("sparse_mac"), SparseMac(config)
    half = 1 << value_width - 1
    values = np.random.default_rng(1).integers(-half, half, 50)
    for seed in (0, 1, 2**32 - 1):
        z = page["numbers"](listing("lutopt")["words"](16, 4, seed, 50), number_width)
        assert model.numbers(seed, 50).tolist() == z
        for k, scale in ((1, 0), (-1, 7), (0, 3)):
            each = zip(values.tolist(), z, strict=True)
            expected = [page["perturbed"](v, n, scale, k, value_width) for v, n in each]
            assert model.perturbed(values, seed=seed, scale=scale, k=k).tolist() == expected
        for gain, shift in ((300, 0), (-32768, 3)):
            each = zip(values.tolist(), z, strict=True)
            expected = [page["updated"](v, n, gain, shift, value_width) for v, n in each]
            assert model.updated(values, seed=seed, gain=gain, shift=shift).tolist() == expected


@pytest.mark.parametrize("seed", [1, 2])
def test_the_table_of_the_numbers_of_sparse_mac(seed):
    words = listing("lutopt")["words"](16, 4, seed, 4)
    cells = ", ".join(" ".join(map(str, beat[:4])) for beat in words)
    z = ", ".join(map(str, listing("sparse_mac")["numbers"](words, 8)))
    assert f"| {seed} | {cells} | {z} |" in (PAGES / "sparse_mac.md").read_text()


@pytest.mark.parametrize("source", ["urng", "pool"])
@pytest.mark.parametrize("seed", [1, 300])
def test_the_table_of_the_sources_of_sparse_mac(source, seed):
    z = ", ".join(map(str, SparseMac(SparseMacConfig(source=source)).numbers(seed, 4).tolist()))
    assert f"| {source} | {seed} | {z} |" in (PAGES / "sparse_mac.md").read_text()


def arguments(layers, shapes, parameters):
    """Return layers as the page of conv_engine takes them."""
    found = []
    for layer, shape in zip(layers, shapes, strict=True):
        weights = parameters[f"{layer.name}.weight"].reshape(layer.outputs, -1).tolist()
        biases = parameters[f"{layer.name}.bias"].tolist() if layer.bias else None
        found.append((layer.kind, shape, layer.kernel, weights, biases))
    return found


def drawn(layers, seed):
    """Return parameters of layers, none of them 0, and the shape of what each layer takes."""
    rng = np.random.default_rng(seed)
    parameters = {}
    for layer in layers:
        parameters[f"{layer.name}.weight"] = rng.integers(1, 127, (layer.outputs, layer.fan_in))
        parameters[f"{layer.name}.bias"] = rng.integers(1, 127, layer.outputs)
    return parameters, [layers[0].inputs, *(layer.shape for layer in layers[:-1])]


def one_layer(**fields):
    """Return a network of a layer and a dense one."""
    first = Layer(name="first", **fields)
    count = int(np.prod(first.shape))
    last = Layer(name="last", kind="dense", inputs=(count, 1, 1), outputs=3, relu=False)
    return NetworkConfig((first, last))


#: Windows whose rows fit in a beat, together or not, with a lane left for a bias, and without one.
SHAPES = [
    ("lenet5", 32, 4),
    ("lenet5", 8, 2),
    ("lenet5_padded", 32, 4),
    ("lenet_digits", 16, 8),
    ("tiny", 8, 2),
    ("tiny", 64, 1),
    (one_layer(kind="conv", inputs=(2, 5, 4), outputs=3, kernel=2), 8, 2),
    (one_layer(kind="conv", inputs=(1, 6, 6), outputs=3, kernel=4, pool=3), 8, 1),
    (one_layer(kind="conv", inputs=(8, 3, 3), outputs=5, kernel=1), 8, 4),
    (one_layer(kind="conv", inputs=(3, 4, 6), outputs=5, kernel=3, padding=2), 16, 4),
    (one_layer(kind="dense", inputs=(1, 4, 4), outputs=5), 16, 4),
    (one_layer(kind="dense", inputs=(3, 2, 5), outputs=9), 8, 8),
]


@pytest.mark.parametrize(("network", "lanes", "ways"), SHAPES, ids=str)
def test_rows_of_parameters(network, lanes, ways):
    config = ConvEngineConfig(network=network, lanes=lanes, ways=ways)
    parameters, shapes = drawn(config.layers, 1)
    words = listing("conv_engine")["packet"](
        arguments(config.layers, shapes, parameters), lanes, ways
    )
    assert np.array_equal(words, ConvEngine(config, parameters).words())
    assert len(words) == config.parameter_beats


def rows_of_a_table(page):
    """Return the numbers of each layer in a page's table of the rows of LeNet-5."""
    text = (PAGES / f"{page}.md").read_text().partition("| first row | rows | words |")[2]
    rows = re.findall(r"^\| (\w+) ((?:\| [\d,]* ?)+)\|$", text.partition("\n\n")[0], re.M)
    return {
        name: [int(n.replace(",", "")) for n in cells.split("|") if n.strip()]
        for name, cells in rows
    }


@pytest.mark.parametrize(
    ("page", "config"), [("conv_engine", ConvEngineConfig()), ("zo_trainer", ZoTrainerConfig())]
)
def test_the_table_of_rows_of_lenet5(page, config):
    found = rows_of_a_table(page)
    words = config.ways * config.lanes // 2
    for step in config.engine.plan.steps:
        groups = step.groups(config.ways)
        rows = step.beats * groups
        assert found.pop(step.name) == [step.beats, groups, step.weights, rows, rows * words]
    assert found == {"sum": [config.engine.plan.frozen_rows, config.parameter_beats]}


#: A row of zo_trainer has more than 8 weights, whose generator a seed word fills.
TRAINED = [shape for shape in SHAPES if shape[1] * shape[2] > 8]


@pytest.mark.parametrize(("network", "lanes", "ways"), TRAINED, ids=str)
def test_packets_of_zo_trainer(network, lanes, ways):
    """Its rows are those of conv_engine without biases; an image's beats are the page's."""
    config = ZoTrainerConfig(network=network, lanes=lanes, ways=ways)
    parameters, shapes = drawn(config.layers, 2)
    weights = {layer.name: parameters[f"{layer.name}.weight"] for layer in config.layers}
    model = ZoTrainer(config, weights, dict.fromkeys(weights, -9))
    words = listing("conv_engine")["packet"](
        arguments(config.layers, shapes, parameters), lanes, ways
    )
    assert np.array_equal(words, model.words())
    assert len(words) == config.parameter_beats
    channels, height, width = config.layers[0].inputs
    assert config.image_beats == height * -(-width * channels // ways)


def test_the_worked_example_of_zo_trainer_is_its_table():
    names = {}
    exec(next(source for source in examples("zo_trainer") if "words" in source), names)
    text = (PAGES / "zo_trainer.md").read_text()
    rows = re.findall(r"^\| (\d+)\.\.(\d+) \| (\d) \| ([\d ]+) \| ([\d ]+) \|$", text, re.M)
    for n, (first, last, row, *ways) in enumerate(rows):
        assert (int(first), int(last), int(row)) == (8 * n, 8 * n + 7, n)
        found = names["words"][8 * n : 8 * n + 8].ravel().tolist()
        assert " ".join(map(str, found)) == " ".join(ways)
    assert 8 * len(rows) == len(names["words"])


def small(rng, shapes):
    """Return matrices of numbers that are not 0."""
    return [rng.integers(1, 99, shape) for shape in shapes]


@pytest.mark.parametrize(
    "config",
    [
        LoraConfig(),
        LoraConfig(widths=(9, 6), classes=5, lanes=8, ways=2),
        LoraConfig(widths=(16, 1, 33), classes=17, rank=6, lanes=16, ways=1),
        LoraConfig(widths=(64,), classes=9, rank=8, lanes=8, ways=8),
    ],
    ids=str,
)
def test_rows_of_adapters(config):
    rng = np.random.default_rng(3)
    a = small(rng, [(config.rank, width) for width in config.widths])
    b = small(rng, [(config.classes, config.rank) for _ in config.widths])
    one = config.parameters.one
    words = listing("lora")["packet"](
        [part.tolist() for part in a], [part.tolist() for part in b], one, config.lanes, config.ways
    )
    assert np.array_equal(words, engine.words(engine.adapter_rows(config.engine.plan, a, b, one)))
    assert len(words) == config.parameter_beats


@pytest.mark.parametrize(
    "config",
    [
        InstantFtConfig(),
        InstantFtConfig(lanes=8, ways=2),
        InstantFtConfig(network="tiny", rank=2, lanes=8, ways=2),
        InstantFtConfig(network="lenet_digits", lanes=16, ways=4),
        InstantFtConfig(network="lenet5_padded", lanes=32, ways=4),
    ],
    ids=str,
)
def test_packets_of_instantft(config):
    """Network and adapters: an image has the places of the page, and other maps have no gaps."""
    lora, layers, plan = config.lora, config.network.layers, config.engine.plan
    lanes, ways, rng = config.lanes, config.ways, np.random.default_rng(4)
    a = small(rng, [(lora.rank, width) for width in lora.widths])
    b = small(rng, [(lora.classes, lora.rank) for _ in lora.widths])
    parameters, shapes = drawn(layers, 5)
    page, sheets = listing("instantft"), []
    for layer, (channels, height, width), matrix in zip(layers, shapes, a, strict=True):
        rows = matrix.tolist()
        if layer is layers[0] and layer.kind == "conv":
            to = page["places"](layer.kernel, layer.padding, channels, height, width, lanes)
            rows = [page["stored"](row, to) for row in rows]
        sheets.append(rows)
    one = lora.parameters.one
    words = listing("lora")["packet"](sheets, [part.tolist() for part in b], one, lanes, ways)
    assert np.array_equal(words, engine.words(engine.adapter_rows(plan, a, b, one)))
    words = listing("conv_engine")["packet"](arguments(layers, shapes, parameters), lanes, ways)
    assert np.array_equal(words, engine.words(engine.frozen_rows(plan, layers, parameters)))


def test_the_table_of_rows_of_the_adapters_of_lenet5():
    text = (PAGES / "instantft.md").read_text().partition("| first row | rows | words |")[2]
    cells = re.findall(r"^\| ([\w ]+) ((?:\| [\d,]* ?)+)\|$", text.partition("\n\n")[0], re.M)
    found = [[int(n.replace(",", "")) for n in row.split("|") if n.strip()] for _, row in cells]
    plan = InstantFtConfig().engine.plan
    expected = [
        [step.beats, step.groups(4), step.weights, rows, rows * 64]
        for step in plan.steps
        if step.trainable
        for rows in [step.beats * step.groups(4)]
    ]
    sums = [[rows, rows * 64] for rows in (plan.trainable_rows, plan.frozen_rows)]
    assert found == expected + sums


@pytest.mark.parametrize("decode", ["seedlm", "plain", "lut4", "trellis"])
@pytest.mark.parametrize("beat_bits", [64, 72, 512])
def test_beats_of_gemv(decode, beat_bits):
    if decode == "lut4" and beat_bits == 72:
        beat_bits = 24  # one level a beat
    config = GemvConfig(decode=decode, beat_bits=beat_bits, columns=64)
    model, page, rng = Gemv(config), listing("gemv"), np.random.default_rng(6)
    rows, columns = 3, 45
    if decode == "lut4":
        codes, levels = rng.integers(0, 16, (rows, columns)), rng.integers(-8192, 8192, (rows, 16))
        exponents = rng.integers(-8, 8, rows)
        found = model.lut4_beats(codes, levels, exponents)
        parts = (codes.tolist(), levels.tolist(), exponents.tolist())
        expected = page["lut4"](*parts, config.level_width, beat_bits)
    elif decode == "trellis":
        symbols = rng.integers(0, 16, (rows, columns))
        found = model.trellis_beats(symbols)
        lanes = beat_bits // 4
        expected = [beat for row in symbols.tolist() for beat in page["beats"](row, 4, lanes)]
    else:
        plain = rng.integers(-(2**15), 2**15, (rows, columns))
        cases = [(plain, 16, model.plain_beats(plain))]
        if decode == "seedlm":
            packed = rng.integers(0, 2**32, (rows, -(-columns // 8)), np.uint64)
            cases.append((packed, 32, model.packed_beats(packed)))
        matrix, width, found = cases[-1]
        expected = [
            beat
            for row in matrix.tolist()
            for beat in page["beats"](row, width, beat_bits // width)
        ]
    raw = found.reshape(-1, beat_bits // 8)
    assert [int.from_bytes(beat.tobytes(), "little") for beat in raw] == expected


@pytest.mark.parametrize(
    "config",
    [
        SeedlmDecompressConfig(blocks=1),
        SeedlmDecompressConfig(blocks=1, block=12, latent=4),
        SeedlmDecompressConfig(blocks=1, block=3, latent=2, width=9, word_bits=5),
    ],
    ids=str,
)
def test_blocks_of_seedlm(config):
    packed = np.random.default_rng(7).integers(0, 1 << config.block_bits, 50, np.uint64)
    weights, exponents = decompress(config, packed[:, None])
    fields = config.block, config.latent, config.width, config.word_bits, config.taps
    found = [listing("seedlm_decompress")["decode"](block, *fields) for block in packed.tolist()]
    assert weights.tolist() == [sums for sums, _ in found]
    assert exponents[:, 0].tolist() == [exponent for _, exponent in found]


@pytest.mark.parametrize("plain", [True, False])
def test_memory_and_seeds_of_sparse_trainer(plain):
    config = SparseTrainerConfig(beat_bits=64, plain_width=16)
    page, rng = listing("sparse_trainer"), np.random.default_rng(8)
    rows, columns = 5, 21
    layer = DenseLayer(columns=columns, rows=rows, address=7, plain=plain, entries=2)
    base = rng.integers(-(2**15), 2**15, (rows, columns))
    if not plain:
        base = rng.integers(0, 2**32, (rows, -(-columns // 8)), np.uint64)
    biases, entries = rng.integers(-(2**31), 2**31, rows), np.array([[0, 3, 50], [2, 7, -20]])
    model = SparseTrainer(config, [layer], [Parameters(base, biases, entries)])
    width = 16 if plain else 32
    image = page["image"](7, biases.tolist(), base.tolist(), width, 64)
    assert image == model.beats()
    assert len(image) == config.layer_beats(layer)


def test_memory_of_a_trellis_code_of_sparse_trainer():
    config = SparseTrainerConfig(beat_bits=64, decode="trellis", bits=3)
    rng, rows, columns = np.random.default_rng(8), 5, 25
    layer = DenseLayer(columns=columns, rows=rows, address=7)
    symbols = rng.integers(0, 8, (rows, columns))
    scales = rng.integers(0, 256, rows), rng.integers(-8, 8, rows)
    base, biases = trellis.pack(config.gemv.trellis, symbols, *scales), rng.integers(-9, 9, rows)
    model = SparseTrainer(config, [layer], [Parameters(base, biases, np.zeros((0, 3), int))])
    image = listing("sparse_trainer")["image"]
    pairs = np.column_stack(scales).tolist()
    assert image(7, biases.tolist(), symbols.tolist(), 3, 64, pairs) == model.beats()


def test_the_table_of_seeds_of_sparse_trainer():
    text = (PAGES / "sparse_trainer.md").read_text()
    rows = re.findall(r"^\| (\d) \| (\d) \| (\d+) \| (-?\d+), (-?\d+) \|$", text, re.M)
    assert len(rows) == 4
    for step, layer, seed, *z in rows:
        assert int(seed) == 1 + 2 * int(step) + int(layer)
        words = listing("lutopt")["words"](16, 4, int(seed), 2)
        assert listing("sparse_mac")["numbers"](words, 8) == list(map(int, z))


@pytest.mark.parametrize(
    "config",
    [Nf4Config(), Nf4Config(block=7, values=Fixed(12, 4), peak_width=8, level_fraction=9)],
    ids=str,
)
def test_nf4(config):
    page, model = listing("nf4"), Nf4(config)
    assert Nf4Config().levels == tuple(page["LEVELS"])
    low, high = config.values.low, config.values.high
    rng = np.random.default_rng(9)
    for block in [*rng.integers(low, high + 1, (50, 7)), np.full(7, low), np.zeros(7, int)]:
        fields = config.values.width, config.peak_width, config.levels, config.level_fraction
        codes, peak = page["quantise"](block.tolist(), *fields)
        found, peaks = model.quantise(block)
        assert (found.tolist(), peaks.tolist()) == (codes, [peak])
        assert model.dequantise(found, peaks).tolist() == page["dequantise"](codes, peak, *fields)


@pytest.mark.parametrize(("bits", "state_bits"), [(4, 12), (3, 8), (2, 10)])
def test_weights_and_payloads_of_trellis_decompress(bits, state_bits):
    config = TrellisDecompressConfig(bits=bits, state_bits=state_bits, lanes=7)
    symbols = np.random.default_rng(11).integers(0, 1 << bits, (4, 7))
    page, row = listing("trellis_decompress"), symbols.reshape(-1).tolist()
    found = page["weights"](row, bits, state_bits, config.masks)
    assert found == trellis_decompress(config, symbols).reshape(-1).tolist()
    layout = symbols_layout(config)["symbols"].shape
    beats = [list(layout.from_bits(beat)) for beat in page["payloads"](row, 7, bits)]
    assert beats == symbols.tolist()


def test_vector_unit():
    """The functions of the page are the model, and its commands are those of the core."""
    names = listing("vector_unit")
    config = VectorUnitConfig()
    unit, rng = VectorUnit(config), np.random.default_rng(2)
    for number in [1, 2, 3, *rng.integers(1, 1 << 50, 50).tolist()]:
        assert names["reciprocal"](number) == tuple(unit.reciprocal(np.array(number)))
        assert names["reciprocal_root"](number) == tuple(unit.reciprocal_root(np.array(number)))
    x = rng.integers(-(1 << 15), 1 << 15, 50)
    assert names["normalised"](x.tolist(), 99) == unit.normalised(x, epsilon=99).tolist()
    assert names["powers"](x.tolist()) == unit.shares(x.max() - x).tolist()
    for fraction in (5, 9, 12, 17):
        wanted = unit.activate(x, name="silu", fraction=fraction)
        assert names["silu"](x.tolist(), fraction) == wanted.tolist()
    assert tuple(names["CODES"]) == VECTOR_OPERATIONS
    fields = {"constant": 5, "shift": 63, "activation": 2, "centred": 1, "add": 0, "wide": 1}
    given = {"operation": 7, "length": 99, **fields}
    bits = command_layout(config).const(given).as_bits()
    assert names["command"]("power", 99, **fields) == bits


@pytest.mark.parametrize("beat_bits", [128, 512])
def test_programs_of_stream_engine(beat_bits):
    """Header, records and a matrix of the page are those of a memory image."""
    names, config = (
        listing("stream_engine"),
        StreamEngineConfig(lanes=2, products=2, beat_bits=beat_bits, trellis=4),
    )
    engine = drawn_program("decoder", np.random.default_rng(1), size=24, layers=1, trellis=4)
    image = engine_image(config, engine.program, engine.parameters, block=4, context=9)
    size = RECORD_BITS // 8
    raw = b"".join(beat.to_bytes(beat_bits // 8, "little") for beat in image.beats)
    words = [
        int.from_bytes(raw[size * k : size * (k + 1)], "little")
        for k in range(len(image.names) + 1)
    ]
    header, *records = [unpacked(words[0], HEADER), *(unpacked(w, RECORD) for w in words[1:])]
    found = names["program"](header, records, beat_bits)
    assert tuple(found) == image.beats[: len(found)]
    # The first matrix: its first two rows.
    at = next(each["address"] for each in records if each["kind"] == KINDS.index("trellis"))
    rows = engine.parameters["w2"].trellis.symbols[:2].tolist()
    found = names["together"](rows, 4, beat_bits)
    assert tuple(found) == image.beats[at + 1 : at + 1 + len(found)]
    of = engine.parameters["words"]
    parts = of.multipliers.tolist(), [0] * WORDS, of.weights.tolist()
    found = names["matrix"](*parts, beat_bits)
    at = records[0]["address"]
    assert tuple(found) == image.beats[at : at + len(found)]


@pytest.mark.parametrize("inputs", [False, True])
def test_samples_of_stream_trainer(inputs):
    config, rng = (
        StreamTrainerConfig(lanes=4, beat_bits=256, inputs=inputs),
        np.random.default_rng(9),
    )
    tokens, labels = rng.integers(0, 1 << 23, 9), rng.integers(0, 256, 9)
    x = rng.integers(-1 << 15, 1 << 15, (9, 7)) if inputs else None
    raw = sample_bytes(config, Sample(tokens, labels, x), 3)
    words = [int.from_bytes(raw[k : k + 32], "little") for k in range(0, len(raw), 32)]
    given = tokens.tolist(), labels.tolist(), x.tolist() if inputs else []
    assert listing("stream_trainer")["sample"](*given, 3, 4, 256) == words


def test_every_bit_of_trellis_decompress():
    """The rows of the example are of the default code, which the page lists."""
    config, text = TrellisDecompressConfig(), (PAGES / "trellis_decompress.md").read_text()
    assert listing("trellis_decompress")["CODE"] == config.masks
    rows = re.findall(r"^\| \d \| ([01]{4}) \| (.*?) \| (.*) \| 2 .* = (-?\d+) \|$", text, re.M)
    assert len(rows) == 8
    symbols = np.array([int(symbol, 2) for symbol, *_ in rows])
    states = trellis.states(config, symbols)
    for (_, state, shown, weight), expected in zip(rows, states.tolist(), strict=True):
        assert state.replace(" ", "") == f"{expected:012b}"
        bits = [
            "".join(str((expected & mask).bit_count() % 2) for mask in reversed(masks))
            for masks in config.masks
        ]
        assert shown.split(" | ") == bits
        assert int(weight) == trellis.values(config, np.array([expected]))[0]


@pytest.mark.parametrize(("lanes", "width", "load"), [(4, 14, 1), (16, 9, 2), (7, 32, 4)])
def test_payloads_of_lut_dequantize(lanes, width, load):
    config = LutDequantizeConfig(lanes=lanes, width=width, load=load)
    half, rng = 1 << width - 1, np.random.default_rng(10)
    levels, codes = rng.integers(-half, half, 16).tolist(), rng.integers(0, 16, 3 * lanes).tolist()
    table, row = listing("lut_dequantize")["payloads"](codes, levels, lanes, width, load)
    tables, rows = table_layout(config)["levels"].shape, codes_layout(config)["codes"].shape
    found = [number for beat in table for number in tables.from_bits(beat)]
    assert found == levels
    assert [code for beat in row for code in rows.from_bits(beat)] == codes


@pytest.mark.parametrize(
    "config",
    [
        ForwardCacheConfig(),
        ForwardCacheConfig(lengths=(33, 1, 100), block=32, peak_width=8, beat_bits=64,
                           store_lanes=8),
        ForwardCacheConfig(lengths=(2,), block=256, peak_width=4, beat_bits=1024),
    ],
    ids=str,
)  # fmt: skip
def test_entries_of_forward_cache(config):
    model, rng = ForwardCache(config), np.random.default_rng(11)
    vectors = [rng.integers(0, 16, length) for length in config.lengths]
    peaks = [rng.integers(0, 1 << config.peak_width, count) for count in config.vector_blocks]
    octets = model.pack(np.concatenate(vectors), np.concatenate(peaks))
    beats = listing("forward_cache")["entry"](
        [v.tolist() for v in vectors],
        [p.tolist() for p in peaks],
        config.block,
        config.peak_width,
        config.beat_bits,
    )
    assert beats == model.words(octets)
    assert len(beats) == config.beats


@pytest.mark.parametrize(
    "config",
    [
        BpTailConfig(),
        BpTailConfig(inputs=(11, 9), classes=9, lanes=8, ways=1, row_lanes=8),
        BpTailConfig(inputs=(64,), classes=5, ways=16, row_lanes=16),
    ],
    ids=str,
)
def test_words_of_bp_tail(config):
    rng = np.random.default_rng(12)
    shapes = zip(config.outputs, config.inputs, strict=True)
    matrices = [rng.integers(1, 127, shape) for shape in shapes]
    words = listing("bp_tail")["words"]
    found = [words(each.tolist(), config.ways, config.row_lanes) for each in matrices]
    assert np.array_equal(np.concatenate(found), pairs(config, matrices))


def test_the_table_of_taps_of_lfsr():
    text = (PAGES / "lfsr.md").read_text().partition("| width | taps |")[2].partition("\n\n")[0]
    rows = re.findall(r"(\d+) \| (\d+(?:, \d+)+)", text)
    assert {int(k): tuple(map(int, taps.split(","))) for k, taps in rows} == TAPS


@pytest.mark.parametrize(("width", "leap"), [(2, 1), (8, 1), (16, 7), (24, 24)])
def test_lfsr(width, leap):
    config = LfsrConfig(width=width, leap=leap)
    state, words = config.seed, Lfsr(config).words()
    for _ in range(5):
        state = listing("lfsr")["beat"](state, width, TAPS[width], leap)
        assert state == next(words)


#: Lanes that divide the number of states, and that do not.
ARRAYS = [(3, 4, 1), (15, 8, 1), (31, 8, 3), (63, 6, 1), (31, 9, 9)]


@pytest.mark.parametrize(("lanes", "width", "leap"), ARRAYS)
def test_urng_array(lanes, width, leap):
    config = UrngConfig(lanes=lanes, width=width, leap=leap, seeding="grown")
    page, model = listing("urng_array"), UrngArray(config)
    assert page["spacing"](lanes, width, leap) == config.spacing
    model.grow(5)
    found = page["beats"](lanes, width, TAPS[width], leap, 5, lanes + 1)
    assert found == model.beats(lanes + 1).tolist()
    serial = UrngConfig(lanes=lanes, width=width, leap=leap)
    seeds = list(range(1, lanes + 1))
    assert page["seed_beats"](seeds, width) == seed_beats(serial, seeds)


@pytest.mark.parametrize("rounding", ["ratio", "value"])
@pytest.mark.parametrize(("lanes", "width", "leap"), ARRAYS)
def test_scale_lut_and_perturbation(lanes, width, leap, rounding):
    """The beats of a perturbation, from the pages of its three cores."""
    fields = {"lanes": lanes, "width": width, "leap": leap, "rounding": rounding}
    array = listing("urng_array")
    states = array["cycle"](width, TAPS[width], 1)
    spacing = array["spacing"](lanes, width, leap)
    exponents = listing("scale_lut")["exponents"](lanes, width, states, spacing, rounding)
    model = ScaleLut(ScaleConfig(**fields))
    assert model.lookup(np.array(states)).tolist() == [exponents[state] for state in states]
    config = PerturbationConfig(source="urng", **fields)
    found = Perturbation(config).beats(seed=5, d=4 * lanes, eps=-3)
    words = array["beats"](lanes, width, TAPS[width], leap, 5, 4)
    assert (found.lanes + (1 << width - 1)).tolist() == words
    least = min(exponents.values())
    first = [row[-t % lanes] for t, row in enumerate(words)]
    assert found.exponents.tolist() == [-3 + exponents[state] - least for state in first]
    assert config.fraction_bits == width - 1 - least


@pytest.mark.parametrize(("size", "width"), [(4095, 12), (100, 8), (3, 4)])
def test_contents_of_prng_pool(size, width):
    config = PoolConfig(size=size, width=width, lanes=3)
    assert tuple(listing("prng_pool")["contents"](size, width)) == config.contents


@pytest.mark.parametrize(
    "config",
    [
        SoftmaxLossConfig(classes=4),
        SoftmaxLossConfig(classes=4, probability_bits=12, exp_bits=8, exp_fraction=3, index_bits=6,
                          logits=Fixed(12, 5), gradients=Fixed(10, 7)),
    ],
    ids=str,
)  # fmt: skip
def test_softmax_loss(config):
    rng = np.random.default_rng(13)
    logits = rng.integers(config.logits.low, config.logits.high + 1, (60, 4))
    logits[::2] >>= 4
    labels = rng.integers(0, 4, 60)
    found = SoftmaxLoss(config).run(logits, labels)
    form = config.logits
    fields = (config.probability_bits, form.fraction, config.exp_bits, config.exp_fraction,
              config.index_bits, config.gradients.fraction, form.width)  # fmt: skip
    for k in range(60):
        best, gradients, loss = listing("softmax_loss")["sample"](
            logits[k].tolist(), int(labels[k]), *fields
        )
        assert (best, loss) == (found.classes[k], found.losses[k])
        assert gradients == found.gradients[k].tolist()


@pytest.mark.parametrize("lfsrs", ["published", "repaired"])
@pytest.mark.parametrize(("tree", "ahead"), [("published", 8 * [0]), ("compact", None)])
def test_tree_grng(lfsrs, tree, ahead):
    config = TreeGrngConfig(lfsrs=lfsrs, tree=tree)
    page, step = listing("tree_grng"), listing("lfsr")["beat"]
    registers, bits = [level.lfsr for level in config.levels], [n.bits for n in config.levels]
    for k, level in enumerate(config.levels[1:], start=1):
        assert tuple(page["thresholds"](k, level.bits)) == level.thresholds
    states = list(config.seeds[0])
    if lfsrs == "published":
        cycles = [listing("urng_array")["cycle"](each.width, each.taps, 1) for each in registers]
        assert states == [cycle[k * len(cycle) // 11] for k, cycle in enumerate(cycles)]
    if ahead is None:
        text = " ".join((PAGES / "tree_grng.md").read_text().split())
        found = re.search(r"registers of levels 0 to 7 are ([\d, ]+) and (\d) beats further", text)
        ahead = list(map(int, f"{found[1]}, {found[2]}".split(", ")))

    def later(states, beats):
        for k, (lfsr, count) in enumerate(zip(registers, beats, strict=True)):
            for _ in range(count):
                states[k] = step(states[k], lfsr.width, lfsr.taps, lfsr.leap)

    later(states, ahead)
    for found in TreeGrng(config).numbers(20)[:, 0].tolist():
        each = zip(states, registers, bits, strict=True)
        assert page["number"]([s >> lfsr.width - n for s, lfsr, n in each], bits) == found
        later(states, 8 * [1])


@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
@pytest.mark.parametrize("peak", [5, 127, 128, 3000, 2**23])
def test_requantize(rounding, peak):
    rng = np.random.default_rng(peak)
    model = Requantize(RequantizeConfig(ways=3, rounding=rounding))
    sums = rng.integers(-peak, peak + 1, (60, 3))
    last = rng.random(60) < 0.4
    last[-1] = True
    ends = np.flatnonzero(last) + 1
    squares = [part.tolist() for part in np.split(sums, ends[:-1])]
    for relu in (False, True):
        found = model.run(sums, np.full(60, 3), last, np.full(60, relu))
        values, shift = listing("requantize")["layer"](squares, relu, rounding)
        assert (found.values.tolist(), found.shift) == (values, shift)


@pytest.mark.parametrize(("lanes", "blocks", "width"), [(8, 1, 0), (8, 4, 4), (6, 2, 1)])
def test_frames_of_mac_array(lanes, blocks, width):
    rng = np.random.default_rng(14)
    config = MacArrayConfig(
        lanes=lanes, blocks=blocks, weight_width=8, activation_width=8, exponent_width=width
    )
    weights, activations = rng.integers(-128, 128, (2, 5, lanes))
    half = 1 << width >> 1
    exponents = rng.integers(-half, max(half, 1), (5, blocks))
    on = rng.random((5, blocks)) < 0.7
    masks = (on << np.arange(blocks)).sum(axis=1)
    found = MacArray(config).sums(weights, activations, exponents, on)
    beats = [part.tolist() for part in (weights, activations, exponents, masks)]
    assert listing("mac_array")["frame"](list(zip(*beats, strict=True)), lanes, width) == found


def test_errors_of_bp_tail():
    error, rng = listing("bp_tail")["error"], np.random.default_rng(15)
    for exponent in range(-128, 128):
        logits = rng.integers(-128, 128, 5) // rng.choice([1, 16, 256])
        for label in range(5):
            found = loss_gradient(logits[None], np.array([exponent]), np.array([label]))[0]
            assert error(logits.tolist(), exponent, label) == found.tolist()


def test_the_file_of_a_log_of_zo_trainer():
    page, rng = listing("zo_trainer"), np.random.default_rng(16)
    config = ZoTrainerConfig(network="tiny", lanes=8, ways=2, batch=8)
    weights = {n.name: rng.integers(-127, 128, (n.outputs, n.fan_in)) for n in config.layers}
    exponents = {name: -k for k, name in enumerate(weights)}
    entries = (ZoEntry(2**32 - 1, 4, 5, -1), ZoEntry(0, 1, 0, 1), ZoEntry(1, 2, 15, 0))
    log = TrainingLog(config=config, exponents=exponents, first=digest(weights), entries=entries)
    given = {f.name: getattr(config, f.name) for f in fields(config) if f.init}
    given["network"] = [asdict(layer) for layer in config.network.layers]
    rows = {name: each.tolist() for name, each in weights.items()}
    # The level is only in logs of steps with levels.
    steps = [list(vars(entry).values())[:-1] for entry in entries]
    assert page["log"](given, exponents, rows, steps) == log.text()
    # What a host writes with fewer fields is read, too.
    small = TrainingLog.parse(page["text"])
    assert small.replay({"fc": np.array(page["weights"]["fc"])}, {"fc": -9})


def test_the_exponent_of_the_logits_of_zo_trainer():
    """Of a dense layer: its sums, shifted as the page of requantize says."""
    rng = np.random.default_rng(17)
    layer = Layer(name="fc", kind="dense", inputs=(1, 4, 4), outputs=5, relu=False)
    config = ZoTrainerConfig(network=NetworkConfig((layer,)), lanes=8, ways=2)
    weights = {"fc": rng.integers(-127, 128, (5, 16)).astype(np.float32)}
    network = Network(weights, {"fc": -9})
    images = rng.integers(0, 256, (6, 1, 4, 4))
    model = ElasticZo(config.model, network, lambda *_: np.zeros(0, np.int8))
    found = model.forward(weights, pixels(images))
    for k, image in enumerate(images):
        sums = weights["fc"].astype(int) @ (image.ravel() >> 1)
        values, shift = listing("requantize")["layer"]([[sums.tolist()]], False, "nearest")
        assert found.logits[k].tolist() == values[0]
        assert found.exponents[k] == -7 - 9 + shift
