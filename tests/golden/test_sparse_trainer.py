from dataclasses import replace
from math import floor

import numpy as np
import pytest

from seedbed.golden import seedlm, trellis
from seedbed.golden.sparse_mac import SparseMac
from seedbed.golden.sparse_trainer import LogEntry, Parameters, SparseTrainer
from seedbed.spec import DenseLayer, SparseTrainerConfig

CONFIG = SparseTrainerConfig(layers=2, columns=24, classes=4, entries=16)
TRELLIS = replace(CONFIG, decode="trellis", bits=3, state_bits=10)


def network(rng, *, scale=0, update_shift=10):
    """Return a packed layer of 20 x 12 and a plain one of 12 x 4, with five entries each."""
    layers = [
        DenseLayer(
            columns=20, rows=12, relu=True, bias_shift=9, shift=30, entries=5, sparse_shift=12,
            update_shift=update_shift, scale=scale,
        ),
        DenseLayer(
            columns=12, rows=4, address=500, plain=True, shift=9, entries=5,
            update_shift=update_shift, scale=scale,
        ),
    ]  # fmt: skip
    bases = [
        rng.integers(0, 1 << 32, (12, 3), np.uint64),
        rng.integers(-128, 128, (4, 12)),
    ]
    parameters = []
    for layer, base in zip(layers, bases, strict=True):
        places = np.sort(rng.choice(layer.rows * layer.columns, 5, replace=False))
        values = rng.integers(-3000, 3000, 5)
        entries = np.column_stack([places // layer.columns, places % layer.columns, values])
        biases = rng.integers(-(1 << 20), 1 << 20, layer.rows)
        parameters.append(Parameters(base, biases, entries))
    return layers, parameters


def trellis_network(rng):
    """Return the network with rows of a trellis code as the base of both layers."""
    layers, parameters = network(rng, scale=3)
    layers = [replace(layer, plain=False, shift=22) for layer in layers]
    layers[0] = replace(layers[0], bias_shift=4)
    for n, layer in enumerate(layers):
        symbols = rng.integers(0, 8, (layer.rows, layer.columns))
        mantissas, exponents = rng.integers(0, 256, layer.rows), rng.integers(-8, 8, layer.rows)
        base = trellis.pack(TRELLIS.gemv.trellis, symbols, mantissas, exponents)
        parameters[n] = replace(parameters[n], base=base)
    return layers, parameters


def rows_by_hand(layer, base):
    """Return the weights of rows of a trellis code, bit by bit in Python's integers."""
    code, rows = TRELLIS.gemv.trellis, []
    for octets in base.tolist():
        stream = int.from_bytes(bytes(octets[2:]), "little")
        factor = octets[0] << ((octets[1] + 8) % 256)
        state, found = 0, []
        for t in range(layer.columns):
            state = (state << 3 | stream >> 3 * t & 7) % (1 << code.state_bits)
            fields = [
                sum(((state & mask).bit_count() & 1) << b for b, mask in enumerate(masks))
                for masks in code.masks
            ]
            found.append(factor * sum(2 * field - 31 for field in fields))
        rows.append(found)
    return rows


def samples(rng, count):
    return rng.integers(0, 4000, (count, 20)), rng.integers(0, 4, count)


def by_hand(layers, parameters, x, *, k, seed):
    """Return the outputs of one vector, number by number in Python's integers."""
    numbers = SparseMac(CONFIG.sparse)
    for n, (layer, given) in enumerate(zip(layers, parameters, strict=True)):
        z = numbers.numbers(seed + n, len(given.entries)).tolist()
        if given.base.dtype == np.uint8:
            weights = rows_by_hand(layer, given.base)
        elif layer.plain:
            weights = given.base.tolist()
        else:
            seeds, exponents, coefficients = seedlm.unpack(CONFIG, given.base)
            words = seedlm.sums(CONFIG, seeds, coefficients)
            weights = [
                [int(w) << int(e) + 8 for b, e in zip(row, es, strict=True) for w in b]
                for row, es in zip(words, exponents, strict=True)
            ]
        outputs = []
        for r in range(layer.rows):
            total = sum(w * int(v) for w, v in zip(weights[r], x, strict=False))
            for (row, column, value), number in zip(given.entries.tolist(), z, strict=True):
                if row == r:
                    moved = max(-32768, min(32767, value + k * number * 2**layer.scale))
                    total += moved * int(x[column]) * 2**layer.sparse_shift
            total += int(given.biases[r]) * 2**layer.bias_shift
            width = 18 if n == 1 else 16
            y = floor(total / 2**layer.shift + 0.5) if layer.shift < 10 else (
                total + (1 << layer.shift - 1) >> layer.shift
            )  # fmt: skip
            y = max(-(1 << width - 1), min((1 << width - 1) - 1, y))
            outputs.append(max(y, 0) if layer.relu else y)
        x = outputs
    return x


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_a_pass_is_the_definition(k):
    rng = np.random.default_rng(1)
    layers, parameters = network(rng, scale=3)
    model = SparseTrainer(CONFIG, layers, parameters)
    x, _ = samples(rng, 6)
    found = model.forward(x, k=k, seed=77)
    assert found.tolist() == [by_hand(layers, parameters, v, k=k, seed=77) for v in x]
    # The outputs are neither all 0 nor all saturated.
    assert len(np.unique(found)) > 12


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_a_pass_of_a_trellis_code_is_the_definition(k):
    rng = np.random.default_rng(11)
    layers, parameters = trellis_network(rng)
    x, _ = samples(rng, 6)
    found = SparseTrainer(TRELLIS, layers, parameters).forward(x, k=k, seed=77)
    assert found.tolist() == [by_hand(layers, parameters, v, k=k, seed=77) for v in x]
    assert len(np.unique(found)) > 12


def test_a_gain_is_the_rounded_difference_of_the_losses_and_saturates():
    rng = np.random.default_rng(2)
    layers, parameters = network(rng, scale=4)
    model = SparseTrainer(CONFIG, layers, parameters)
    x, labels = samples(rng, 8)
    plus = model.losses(x, labels, k=1, seed=5)[1].sum()
    minus = model.losses(x, labels, k=-1, seed=5)[1].sum()
    assert plus != minus
    values = [part.copy() for part in model.values]
    _, losses, entry = model.step(x, labels, seed=5, rate=300, shift=7)
    assert losses.sum() == minus
    assert entry == LogEntry(5, int((int(plus - minus) * 300 + 64) >> 7))
    numbers = SparseMac(CONFIG.sparse)
    for n, layer in enumerate(layers):
        z = numbers.numbers(5 + n, 5)
        step = entry.gain * z * 2**layer.update_shift + (1 << 15) >> 16
        assert (model.values[n] == np.clip(values[n] - step, -32768, 32767)).all()
    _, _, entry = model.step(x, labels, seed=6, rate=65535, shift=0)
    assert entry.gain in (-32768, 32767)


def test_the_layers_of_a_step_and_the_steps_have_different_perturbations():
    rng = np.random.default_rng(3)
    layers, parameters = network(rng)
    model = SparseTrainer(CONFIG, layers, parameters)
    x, labels = samples(rng, 6)
    batches = [[(x[:4], labels[:4]), (x[4:], labels[4:])]] * 2
    top = (1 << 32) - 3
    log = [entry for *_, entry in model.train(batches, seed=top, rate=100, shift=4, decay=60)]
    assert [entry.seed for entry in log] == [top, (top + 2) % (1 << 32), 1, 3]


def test_a_log_makes_the_same_values():
    rng = np.random.default_rng(4)
    layers, parameters = network(rng)
    model, other = (SparseTrainer(CONFIG, layers, parameters) for _ in range(2))
    x, labels = samples(rng, 6)
    for *_, entry in model.train([[(x, labels)]] * 3, seed=9, rate=2000, shift=4):
        other.replay(entry)
    for n in range(2):
        assert (model.entries(n) == other.entries(n)).all()
        assert (model.entries(n) != parameters[n].entries).any()


def test_the_rate_decays_to_zero_and_not_below():
    rng = np.random.default_rng(5)
    layers, parameters = network(rng, scale=4)
    model = SparseTrainer(CONFIG, layers, parameters)
    x, labels = samples(rng, 6)
    log = [e for *_, e in model.train([[(x, labels)]] * 4, seed=9, rate=2000, shift=4, decay=1500)]
    assert all(entry.gain for entry in log[:2])
    assert not any(entry.gain for entry in log[2:])


def test_training_lowers_the_loss():
    rng = np.random.default_rng(6)
    layers, parameters = network(rng, update_shift=9)
    model = SparseTrainer(CONFIG, layers, parameters)
    x, labels = samples(rng, 32)
    before = model.losses(x, labels)[1].sum()
    for _ in model.train([[(x, labels)]] * 150, seed=1, rate=64, shift=11):
        pass
    assert model.losses(x, labels)[1].sum() < 0.9 * before


def test_a_label_that_is_no_class_has_no_part_in_the_gain():
    config = replace(CONFIG, classes=5)
    rng = np.random.default_rng(7)
    layers, parameters = network(rng, scale=4)
    x, labels = samples(rng, 4)
    gains = []
    for names in (np.append(labels, 7), labels):
        model = SparseTrainer(config, layers, parameters)
        _, losses, entry = model.step(x_of(x, names), names, seed=5, rate=300, shift=7)
        gains.append(entry.gain)
    assert gains[0] == gains[1]
    model = SparseTrainer(config, layers, parameters)
    assert model.losses(x[:1], np.array([7]))[1] == config.logits.high
    assert len(losses) == 4


def x_of(x, names):
    return np.concatenate([x, x[:1]])[: len(names)]


def test_the_memory_holds_biases_and_then_rows():
    rng = np.random.default_rng(8)
    layers, parameters = network(rng)
    cells = SparseTrainer(CONFIG, layers, parameters).beats()
    assert sorted(cells) == [*range(6 + 12 * 2), *range(500, 500 + 2 + 4 * 2)]
    low, high = (int(b) & 0xFFFFFFFF for b in parameters[0].biases[:2])
    assert cells[0] == low | high << 32
    first, second = (int(block) for block in parameters[0].base[0, :2])
    assert cells[6] == first | second << 32
    assert cells[7] == int(parameters[0].base[0, 2])
    assert cells[502].to_bytes(8, "little") == parameters[1].base[0, :8].astype(np.int8).tobytes()


def test_the_memory_holds_scales_between_biases_and_rows_of_a_trellis_code():
    layers, parameters = trellis_network(np.random.default_rng(8))
    cells = SparseTrainer(TRELLIS, layers, parameters).beats()
    # 12 biases, 12 scales, and rows of 20 symbols, of which a beat has 21; then 4, 4 and 12.
    assert sorted(cells) == [*range(6 + 3 + 12), *range(500, 500 + 2 + 1 + 4)]
    base = parameters[0].base
    assert cells[6].to_bytes(8, "little") == base[:4, :2].tobytes()
    assert cells[9].to_bytes(8, "little") == base[0, 2:].tobytes()
    assert cells[20].to_bytes(8, "little") == base[11, 2:].tobytes()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda base: base[:, 1:], "a row of 20 columns must have 10 bytes, not uint8 .*9"),
        (lambda base: base.astype(np.int64), "a row of 20 columns must have 10 bytes, not int64"),
        (
            lambda base: base * 0 + np.uint8(8),
            r"exponents must be a whole number in -8\.\.7, not 8",
        ),
    ],
)
def test_refuses_rows_that_are_no_trellis_code(damage, sentence):
    layers, parameters = trellis_network(np.random.default_rng(8))
    parameters[0] = replace(parameters[0], base=damage(parameters[0].base))
    with pytest.raises(ValueError, match=sentence):
        SparseTrainer(TRELLIS, layers, parameters)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda ls, ps: (ls[:1] * 3, ps), r"a network must have 1\.\.2 layers, not 3"),
        (
            lambda ls, ps: ([ls[0], replace(ls[1], columns=11)], ps),
            "layer 1 must have as many columns as the layer before has rows: 12, not 11",
        ),
        (
            lambda ls, ps: ([replace(ls[0], columns=25), ls[1]], ps),
            r"columns of layer 0 must be in 1\.\.24, not 25",
        ),
        (lambda ls, ps: (ls[:1], ps[:1]), "the last layer must have 4 rows at most, not 12"),
        (
            lambda ls, ps: ([ls[0], replace(ls[1], entries=12)], ps),
            "the layers must have 16 entries at most, not 17 of them",
        ),
        (
            lambda ls, ps: ([replace(ls[0], sparse_shift=16), ls[1]], ps),
            r"sparse_shift of layer 0 must be in 0\.\.15, not 16",
        ),
        (
            lambda ls, ps: ([replace(ls[0], address=(1 << 24) - 1), ls[1]], ps),
            "the address of layer 0 must be in",
        ),
        (
            lambda ls, ps: ([ls[0], replace(ls[1], entries=4)], ps),
            "layer 1 must have 4 entries, not 5",
        ),
        (
            lambda ls, ps: (ls, [replace(ps[0], entries=ps[0].entries[::-1]), ps[1]]),
            "entry 1 of layer 0 must be after the one before and in the layer: order",
        ),
        (
            lambda ls, ps: (ls, [replace(ps[0], biases=ps[0].biases[1:]), ps[1]]),
            "layer 0 must have 12 biases",
        ),
        (
            lambda ls, ps: (ls, [ps[0], replace(ps[1], base=ps[1].base[1:])]),
            "a layer of 4 x 12 must have as many weights, not 3 x 12",
        ),
    ],
)
def test_refuses_what_does_not_fit(change, sentence):
    layers, parameters = change(*network(np.random.default_rng(9)))
    with pytest.raises(ValueError, match=sentence):
        SparseTrainer(CONFIG, layers, parameters)
