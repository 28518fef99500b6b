# amaranth: UnusedElaboratable=no
from random import Random

import numpy as np
import pytest

from seedbed.flow.cores.registry import find
from seedbed.flow.emit.verilog import write
from seedbed.golden.bp_tail import BpTail as Model
from seedbed.hw.tail.bp_tail import BpTail, weights_layout
from seedbed.hw.tail.logit_error import LogitError
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.bp_tail import case, command, packet, response, sample, weight_packet
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.verilog.verilate import lint
from seedbed.spec import BpTailConfig

SMALL = BpTailConfig(inputs=(9, 6), classes=5, ways=2, row_lanes=8)
LAST = BpTailConfig(inputs=(6,), classes=5, ways=2, row_lanes=8)
CONFIGS = [
    SMALL,
    LAST,
    # Words and beats of the same size, without padding.
    BpTailConfig(inputs=(8, 8), classes=4, row_lanes=8),
    # A beat of several words, and a word of several beats.
    BpTailConfig(inputs=(7, 11), classes=3, lanes=2, ways=8, row_lanes=8),
    BpTailConfig(inputs=(11, 9), classes=9, lanes=8, ways=1, row_lanes=8),
    BpTailConfig(inputs=(1, 1), classes=2, lanes=2, row_lanes=8),
    BpTailConfig(inputs=(1,), classes=2, lanes=8, batch=2, row_lanes=8),
    BpTailConfig(inputs=(5, 4), classes=4, batch=1, exponent_range=0, row_lanes=8),
    BpTailConfig(inputs=(5, 4), classes=6, batch=4096, exponent_range=5, row_lanes=8),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(BpTail(config), case(config, Random(5), samples=2, plain=2), stalls=stalls, seed=5)


def one(config, exponent, *, label=0, seed=1):
    """Return a sample's beats, and the arguments for the model."""
    rng = np.random.default_rng(seed)
    vectors = [rng.integers(0, 128, length) for length in config.inputs]
    logits = rng.integers(-127, 128, config.classes)
    exponents = [-3] * len(vectors)
    lists = [each.tolist() for each in (*vectors, logits)]
    beats = sample(config, lists, [*exponents, exponent], Random(1), label)
    return beats, (vectors, exponents, logits, exponent, label)


@pytest.mark.parametrize(
    ("config", "exponent"),
    [(SMALL, 0), (SMALL, -9), (SMALL, -24), (LAST, 9), (CONFIGS[2], -1), (CONFIGS[4], -1)],
    ids=str,
)
def test_latency_and_throughput(config, exponent):
    """A beat of a sample a cycle, and the next sample after ``latency`` cycles at most."""
    dut = BpTail(config)
    beats, arguments = one(config, exponent)
    model = Model(config)
    for _ in range(3):
        model.sample(*arguments)
    updates = response(config, model.update(5))
    phases = [
        Phase(inputs={"i": beats * 3}),
        Phase(inputs={"i_update": command(5)}, outputs={"o": updates}),
    ]
    transfers = simulate(dut, Case(phases=phases, quiet=True)).transfers
    size = len(beats)
    shorter = LogitError.latency_of(config) - LogitError.latency_of(config, exponent)
    assert (shorter == 0) == (exponent == -24)
    for k in range(2):
        cycles = transfers["i"][k * size : (k + 1) * size + 1]
        assert cycles[:-1] == list(range(cycles[0], cycles[0] + size))
        assert cycles[-1] == cycles[-2] + dut.latency - shorter
    begin = transfers["i_update"][0]
    assert transfers["o"][0] == begin + dut.update_latency
    assert transfers["o"][-1] == begin + dut.update_cycles


def run_batch(config, beats, update, bits=5, **errors):
    """Run a batch, and compare its updates and errors."""
    phases = [
        Phase(inputs={"i": beats}),
        Phase(
            inputs={"i_update": command(bits)}, outputs={"o": response(config, update, **errors)}
        ),
    ]
    return simulate(BpTail(config), Case(phases=phases, quiet=True))


@pytest.mark.parametrize("count", [-1, 1, 5])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_sample_with_a_packet_of_another_length_is_ignored(which, count):
    """Also as the first of a batch, whose exponents are then those of the next one."""
    beats, arguments = one(SMALL, -1)
    vectors = [[1] * length for length in (*SMALL.inputs, SMALL.classes)]
    vectors[which] = [1] * (len(vectors[which]) + count * SMALL.ways)
    wrong = sample(SMALL, vectors, [7, 7, 7], Random(1), 0)
    model = Model(SMALL)
    model.sample(*arguments)
    run_batch(SMALL, wrong + beats, model.update(5), length_error=1)


def test_a_label_that_is_no_class_is_ignored():
    beats, arguments = one(SMALL, -1)
    wrong, _ = one(SMALL, -1, label=5)
    model = Model(SMALL)
    model.sample(*arguments)
    run_batch(SMALL, wrong + beats + wrong, model.update(5), label_error=1)


def test_a_batch_has_no_more_samples_than_configured():
    config = CONFIGS[-2]
    beats, arguments = one(config, -1)
    model = Model(config)
    model.sample(*arguments)
    run_batch(config, beats * 2, model.update(5), batch_error=1)


def test_a_command_drops_what_there_is_of_a_sample():
    """Errors are given once: the next batch has none."""
    beats, arguments = one(SMALL, -1)
    model = Model(SMALL)
    nothing, _ = model.update(1), model.sample(*arguments)
    phases = [
        Phase(inputs={"i": packet(SMALL, [1] * 9, 0, Random(1)) + beats[:1]}),
        Phase(
            inputs={"i_update": command(3)},
            outputs={"o": response(SMALL, nothing, length_error=1)},
        ),
        Phase(inputs={"i": beats}),
        Phase(inputs={"i_update": command(3)}, outputs={"o": response(SMALL, model.update(3))}),
    ]
    simulate(BpTail(SMALL), Case(phases=phases, quiet=True))


@pytest.mark.parametrize("beats", [1, -1, 60])
def test_a_packet_of_weights_of_another_length_is_reported(beats):
    """What comes after the last weight is dropped, and the next packet begins at the first one."""
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (5, 6))
    right, layout = weight_packet(SMALL, weights), weights_layout(SMALL)
    last = layout.const({"values": [1, 1], "last": 1}).as_bits()
    plain = layout.const({"values": [1, 1], "last": 0}).as_bits()
    wrong = [plain] * (len(right) + beats - 1) + [last]
    sent, arguments = one(SMALL, -1)
    model = Model(SMALL)
    model.load(weights)
    model.sample(*arguments)
    phases = [
        Phase(inputs={"i_weights": wrong + right}),
        Phase(inputs={"i": sent}),
        Phase(
            inputs={"i_update": command(3)},
            outputs={"o": response(SMALL, model.update(3), length_error=1)},
        ),
    ]
    simulate(BpTail(SMALL), Case(phases=phases, quiet=True))


def test_the_inner_error_waits_for_the_end_of_the_weights():
    """Weights may come while a sample is in work."""
    weights = np.random.default_rng(3).integers(-127, 128, (5, 6))
    sent, arguments = one(SMALL, -1)
    model = Model(SMALL)
    model.load(weights)
    model.sample(*arguments)
    words = weight_packet(SMALL, weights)
    phases = [
        Phase(inputs={"i_weights": words[:5], "i": sent}),
        Phase(inputs={"i_weights": words[5:]}),
        Phase(inputs={"i_update": command(3)}, outputs={"o": response(SMALL, model.update(3))}),
    ]
    simulate(BpTail(SMALL), Case(phases=phases, quiet=True))


def test_verilog_without_exponents_and_with_one_pair_a_word_has_no_empty_vectors(tmp_path):
    params = {"inputs": (5, 4), "classes": 4, "lanes": 2, "row_lanes": 8, "exponent_range": 0}
    assert lint(write(find("bp_tail"), params, tmp_path), "bp_tail") == []


def test_one_layer_needs_no_weights():
    assert list(BpTail(SMALL).signature.members) == ["i", "i_weights", "i_update", "o"]
    assert list(BpTail(LAST).signature.members) == ["i", "i_update", "o"]


def test_a_sample_of_the_default_takes_less_than_a_forward_pass():
    assert BpTail(BpTailConfig()).latency < 6331


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"inputs": ()}, ValueError, r"inputs must be 1\.\.2 integers in 1\.\.4096, not 0 of them"),
        ({"inputs": (1, 2, 3)}, ValueError, r"inputs must be 1\.\.2 integers .* not 3 of them"),
        ({"inputs": (0,)}, ValueError, r"every one of inputs must be in 1\.\.4096, not 0"),
        ({"inputs": 84}, TypeError, r"inputs must be 1\.\.2 integers .* in a tuple, not 84"),
        ({"classes": 1}, ValueError, r"classes must be in 2\.\.256, not 1"),
        ({"batch": 0}, ValueError, r"batch must be in 1\.\.4096, not 0"),
        ({"batch": 4097}, ValueError, r"batch must be in 1\.\.4096, not 4097"),
        ({"lanes": 1}, ValueError, r"lanes must be in 2\.\.8, not 1"),
        ({"lanes": 6}, ValueError, r"lanes must be one of 2, 4, 8, not 6"),
        ({"lanes": 4, "classes": 3}, ValueError, r"lanes must be at most classes, 3, where"),
        ({"ways": 3}, ValueError, r"ways must be one of 1, 2, 4, 8, 16, not 3"),
        ({"row_lanes": 128}, ValueError, r"row_lanes must be in 8\.\.64, not 128"),
        ({"row_lanes": 33}, ValueError, r"row_lanes must be one of 8, 16, 32, 64, not 33"),
        ({"exponent_range": 6}, ValueError, r"exponent_range must be in 0\.\.5, not 6"),
        ({"exponent_range": 3.0}, TypeError, r"exponent_range must be an integer in 0\.\.5"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        BpTailConfig(**params)
