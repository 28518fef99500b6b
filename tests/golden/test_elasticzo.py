"""ElasticZO-INT8 against plain integer loops, a floating-point loss, and its own algorithm."""

from dataclasses import replace

import numpy as np
import pytest

from seedbed.golden.elasticzo import ElasticZo, _gradient, init
from seedbed.golden.elasticzo_loss import loss_gradient
from seedbed.golden.elasticzo_sources import drawn
from seedbed.golden.network import gradients
from seedbed.golden.niti import pseudo_stochastic
from seedbed.spec.elasticzo import LIMIT, ElasticZoConfig, Phase, phases_of
from seedbed.spec.network import Layer, NetworkConfig

PHASE = Phase(epoch=0, magnitude=15, zeros=84, update_bits=5)
TINY = ElasticZoConfig(network="tiny", partition=4)
#: No convolution, and three of them.
MLP = NetworkConfig(
    (
        Layer(name="fc1", kind="dense", inputs=(1, 6, 6), outputs=12),
        Layer(name="fc2", kind="dense", inputs=(12, 1, 1), outputs=7),
        Layer(name="fc3", kind="dense", inputs=(7, 1, 1), outputs=5, relu=False),
    )
)
CONVOLUTIONS = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 6, 6), outputs=3, kernel=3, padding=1),
        Layer(name="b", kind="conv", inputs=(3, 6, 6), outputs=4, kernel=3, padding=1, pool=2),
        Layer(name="c", kind="conv", inputs=(4, 3, 3), outputs=4, kernel=2, relu=False),
        Layer(name="d", kind="dense", inputs=(4, 2, 2), outputs=5, relu=False),
    )
)
STRIDED = NetworkConfig(
    (
        Layer(
            name="a",
            kind="conv",
            inputs=(1, 6, 6),
            outputs=3,
            kernel=2,
            padding=1,
            stride=2,
            pool=2,
        ),
        Layer(name="b", kind="conv", inputs=(3, 2, 2), outputs=4, kernel=1, stride=3),
        Layer(name="c", kind="dense", inputs=(4, 1, 1), outputs=5, relu=False),
    )
)
FULL_BP = replace(TINY, partition=0, alignment="batch")


def batch(samples=3, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 128, (samples, 1, 6, 6)).astype(np.float32)
    return images, rng.integers(0, 5, samples)


def made(config, seed=0):
    return ElasticZo(config, init(config, np.random.default_rng(seed)), drawn(seed))


def scalar_round(value, shift, rounding):
    if rounding == "pseudo-stochastic":
        return int(pseudo_stochastic(np.array(value), np.int64(shift)))
    magnitude = (2 * abs(value) + (1 << shift)) >> (shift + 1)
    return min(magnitude, LIMIT) * (1 if value >= 0 else -1)


def literal(config, network, image):
    """Return one image's logits and exponent: loops over Python's integers."""
    x, exponent = image.astype(int).tolist(), -7
    for layer in config.layers:
        weights = network.weights[layer.name].astype(int)
        channels, height, width = layer.convolved
        y = np.zeros((channels, height, width), int)
        if layer.kind == "dense":
            y[:, 0, 0] = weights @ np.array(x).reshape(-1)
        else:
            pad, side = layer.padding, layer.kernel
            grown = np.pad(np.array(x), ((0, 0), (pad, pad), (pad, pad)))
            for row in range(height):
                for column in range(width):
                    top, left = layer.stride * row, layer.stride * column
                    window = grown[:, top : top + side, left : left + side]
                    y[:, row, column] = weights @ window.reshape(-1)
        tiles = y.reshape(channels, height // layer.pool, layer.pool, width // layer.pool, -1)
        if config.pool_first:
            y = tiles.max(axis=(2, 4))
        shift = max(int(np.abs(y).max()).bit_length() - 7, 0)
        y = np.array([scalar_round(int(v), shift, config.rounding) for v in y.reshape(-1)])
        if not config.pool_first:
            y = y.reshape(tiles.shape).max(axis=(2, 4))
        x = (np.maximum(y, 0) if layer.relu else y).reshape(layer.shape).tolist()
        exponent += network.exponents[layer.name] + shift
    return np.array(x).reshape(-1).tolist(), exponent


@pytest.mark.parametrize("pool_first", [False, True])
@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
@pytest.mark.parametrize("partition", [0, 4])
def test_a_forward_pass_is_integer_arithmetic(rounding, pool_first, partition):
    config = replace(FULL_BP, rounding=rounding, pool_first=pool_first, partition=partition)
    trainer = made(config)
    images, _ = batch(4)
    found = trainer.forward(trainer.network.weights, images)
    for image, logits, exponent in zip(images, found.logits, found.exponents, strict=True):
        assert (logits.tolist(), exponent) == literal(config, trainer.network, image)


@pytest.mark.parametrize("network", [MLP, CONVOLUTIONS, STRIDED])
def test_other_networks_are_integer_arithmetic(network):
    config = ElasticZoConfig(network=network, partition=len(network.layers) - 1)
    trainer = made(config)
    images, _ = batch(4)
    found = trainer.forward(trainer.network.weights, images)
    for image, logits, exponent in zip(images, found.logits, found.exponents, strict=True):
        assert (logits.tolist(), exponent) == literal(config, trainer.network, image)


@pytest.mark.parametrize("network", [MLP, CONVOLUTIONS])
@pytest.mark.parametrize("tail", [0, 1, 2])
def test_other_networks_learn(network, tail):
    trainer = made(ElasticZoConfig(network=network, partition=len(network.layers) - tail))
    images, labels = batch(64)
    # Brighter at the label's row.
    images[np.arange(64), 0, labels] = 127
    before = trainer.evaluate(images, labels)
    for k in range(150):
        trainer.step(k, images, labels, PHASE)
    after = trainer.evaluate(images, labels)
    assert after[0] < (0.8 if tail else 0.95) * before[0]
    assert after[1] > before[1]


def test_the_gradient_of_the_loss_is_close_to_that_of_softmax():
    rng = np.random.default_rng(6)
    logits, exponents, labels = (
        rng.integers(-127, 128, (50, 10)),
        np.full(50, -5),
        np.arange(50) % 10,
    )
    z = np.exp(np.ldexp(logits.astype(float), -5))
    softmax = z / z.sum(axis=1, keepdims=True)
    softmax[np.arange(50), labels] -= 1
    found = loss_gradient(logits, exponents, labels) / 128
    # Exponents are whole: a term is wrong by up to a factor of two.
    assert np.corrcoef(found.reshape(-1), softmax.reshape(-1))[0, 1] > 0.97


@pytest.mark.parametrize("partition", [0, 2, 3, 4])
def test_each_layer_is_trained_by_its_own_way(partition):
    config = replace(FULL_BP, partition=partition)
    trainer = made(config)
    before = trainer.network.copy()
    for number in range(20):
        images, labels = batch(16, seed=number)
        old = trainer.network.copy()
        result = trainer.step(number, images, labels, PHASE)
        for layer in config.layers[:partition]:
            name = layer.name
            z = drawn(0)(number, layer, PHASE)
            moved = trainer.network.weights[name] - old.weights[name]
            assert np.abs(moved).max(initial=0) <= (result.sign != 0)
            # Against the perturbation, where the loss grows along it.
            assert (moved * z * result.sign <= 0).all()
    for layer in config.layers:
        assert (trainer.network.weights[layer.name] != before.weights[layer.name]).any()
        assert np.abs(trainer.network.weights[layer.name]).max() <= LIMIT


def test_in_place_perturbation_wears_saturated_weights():
    """Where theta + z clamps, theta + z - 2 z + z is not theta."""
    images, labels = batch(4)
    found = []
    for in_place in (False, True):
        trainer = made(replace(TINY, in_place=in_place))
        for weights in trainer.network.weights.values():
            weights[:] = LIMIT
        trainer.step(0, images, labels, PHASE)
        found.append(trainer.network.weights)
    plain, worn = found
    assert all((LIMIT - each).max() <= 1 for each in plain.values())
    assert max((LIMIT - each).max() for each in worn.values()) > 1


def test_in_place_and_on_the_way_agree_where_nothing_saturates():
    images, labels = batch(8)
    found = []
    for in_place in (False, True):
        trainer = made(replace(TINY, in_place=in_place))
        for name, weights in trainer.network.weights.items():
            trainer.network.weights[name] = np.clip(weights, -64, 64)
        results = [trainer.step(k, images, labels, PHASE) for k in range(4)]
        found.append((results, trainer.network.weights))
    (first, weights), (second, others) = found
    assert first == second
    assert all((weights[name] == others[name]).all() for name in weights)


def test_backpropagation_learns():
    config = FULL_BP
    trainer = made(config)
    images, labels = batch(64)
    losses = [trainer.step(k, images, labels, PHASE).loss for k in range(60)]
    assert losses[-1] < 0.75 * losses[0]


def test_updates_by_backpropagation_follow_the_gradient_in_floating_point():
    config = FULL_BP
    trainer = made(config)
    images, labels = batch(256)
    before = trainer.network.copy()
    parameters = {
        f"{name}.weight": np.ldexp(weights.astype(np.float64), before.exponents[name])
        for name, weights in before.weights.items()
    } | {f"{layer.name}.bias": np.zeros(layer.outputs) for layer in config.layers}
    wanted = gradients(config.network, parameters, images.astype(np.float64) / 128, labels)
    trainer.step(0, images, labels, PHASE)
    for layer in config.layers:
        update = before.weights[layer.name] - trainer.network.weights[layer.name]
        found = np.corrcoef(update.reshape(-1), wanted[f"{layer.name}.weight"].reshape(-1))[0, 1]
        assert found > 0.8, layer.name


def tail_gradients(config, network, last, labels):
    """The sums of NITI's gradients of the tail: loops over Python's integers."""
    errors = loss_gradient(last.logits, last.exponents, labels).tolist()
    units, found = [0] * len(labels), {}
    for k in range(len(config.tail) - 1, -1, -1):
        layer, weights = config.tail[k], network.weights[config.tail[k].name].astype(int).tolist()
        seen = last.seen[k].astype(int).reshape(layer.fan_in, -1).T.tolist()
        sums = [[0] * layer.fan_in for _ in range(layer.outputs)]
        reach = config.exponent_range
        for n, (error, x) in enumerate(zip(errors, seen, strict=True)):
            relative = int(last.scales[k][n] - last.scales[k][0])
            shift = units[n] + max(-reach, min(reach, relative)) + reach
            for row, e in zip(sums, error, strict=True):
                for column, v in enumerate(x):
                    row[column] += (e << shift) * v
        found[layer.name] = np.array(sums)
        if k:
            backwards = [
                [
                    sum(e * row[i] for e, row in zip(error, weights, strict=True))
                    for i in range(len(x))
                ]
                for error, x in zip(errors, seen, strict=True)
            ]
            peaks = [max(map(abs, each)) for each in backwards]
            if config.alignment == "batch":
                peaks = [max(peaks)] * len(peaks)
            shifts = [max(peak.bit_length() - 7, 0) for peak in peaks]
            if config.alignment == "fixed":
                shifts = [8] * len(peaks)
            if config.alignment == "sample":
                units = shifts
            errors = [
                [
                    scalar_round(v, s, config.rounding) * (a > 0)
                    for v, a in zip(each, x, strict=True)
                ]
                for each, s, x in zip(backwards, shifts, seen, strict=True)
            ]
    return found


@pytest.mark.parametrize("reach", [0, 1, 3])
@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
@pytest.mark.parametrize("alignment", ["batch", "sample", "fixed"])
@pytest.mark.parametrize("partition", [2, 3])
def test_gradients_of_the_tail_are_integer_arithmetic(partition, alignment, rounding, reach):
    config = replace(
        TINY, partition=partition, alignment=alignment, rounding=rounding, exponent_range=reach
    )
    trainer = made(config)
    images, labels = batch(6)
    # Of different brightness, so that exponents differ by more than 1.
    images = np.floor(images * np.ldexp(1.0, -np.arange(6))[:, None, None, None]).astype(np.float32)
    before = trainer.network.copy()
    last = trainer.forward(before.weights, images)
    assert any(np.ptp(each) > 1 for each in last.scales)
    trainer._backpropagate(last, labels, PHASE)
    for name, sums in tail_gradients(config, before, last, labels).items():
        assert np.abs(sums).max() < 1 << (config.accumulator_bits - 1)
        shift = max(int(np.abs(sums).max()).bit_length() - PHASE.update_bits, 0)
        update = pseudo_stochastic(sums, np.int64(shift), limit=(1 << PHASE.update_bits) - 1)
        wanted = np.clip(before.weights[name] - update, -LIMIT, LIMIT)
        assert (trainer.network.weights[name] == wanted).all()


@pytest.mark.parametrize(
    ("alignment", "reach", "size", "bits"),
    [("fixed", 0, 256, 23), ("fixed", 3, 256, 29), ("fixed", 3, 1, 21), ("sample", 3, 256, 40)],
)
def test_accumulators_hold_the_largest_gradient(alignment, reach, size, bits):
    config = ElasticZoConfig(partition=3, alignment=alignment, exponent_range=reach, batch=size)
    assert config.accumulator_bits == bits
    peak = size * LIMIT**2 << 2 * reach
    # Of 10 errors of 127 and weights of 127: 18 bits, 11 more than an error has.
    peak <<= 11 if alignment == "sample" else 0
    assert bits == peak.bit_length() + 1


def test_full_zeroth_order_has_no_accumulators():
    assert ElasticZoConfig(partition=5).accumulator_bits == 0


def test_a_larger_batch_than_configured_is_refused():
    trainer = made(replace(TINY, batch=4))
    images, labels = batch(5)
    with pytest.raises(ValueError, match="a batch must have at most 4 samples, not 5"):
        trainer.step(0, images, labels, PHASE)


def test_the_schedule_is_the_papers():
    phases = phases_of(100, 15)
    assert [phase.epoch for phase in phases] == [0, 20, 50]
    assert [round(phase.zeros / 256, 2) for phase in phases] == [0.33, 0.5, 0.9]
    assert [phase.update_bits for phase in phases] == [5, 4, 3]


def test_in_hardware_p_zero_is_a_multiple_of_a_sixteenth():
    assert [phase.zeros for phase in phases_of(100, 15, grain=16)] == [80, 128, 224]
    with pytest.raises(ValueError, match=r"grain must be in 1\.\.16, not 17"):
        phases_of(100, 15, grain=17)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("partition", 6, r"partition must be in 0\.\.5, not 6"),
        ("fraction", 9, r"fraction must be in 0\.\.8, not 9"),
        ("rounding", "up", "rounding must be one of nearest, pseudo-stochastic, not 'up'"),
        ("network", "vgg", "network must be one of"),
        ("alignment", "tensor", "alignment must be one of batch, sample, fixed, not 'tensor'"),
        ("partition", 2, "alignment must be batch where .* more than 2 layers, not 'fixed'"),
        ("exponent_range", 8, r"exponent_range must be in 0\.\.7, not 8"),
        ("batch", 0, r"batch must be in 1\.\.4096, not 0"),
    ],
)
def test_bad_configurations_are_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        ElasticZoConfig(**{name: value})


@pytest.mark.parametrize("rounding", ["nearest", "pseudo-stochastic"])
@pytest.mark.parametrize("side", [33, 46, 128])
def test_wide_layers_are_exact(side, rounding):
    """Sums of 1,089, 2,116 and 16,384 products of extreme numbers, which leave float32's 24 bits.

    Each output's sum is just below or above a rounding's half, in Python's integers.
    """
    fan_in = side * side
    layer = Layer(name="fc", kind="dense", inputs=(1, side, side), outputs=40, relu=False)
    config = ElasticZoConfig(
        network=NetworkConfig((layer,)), partition=1, alignment="batch", rounding=rounding
    )
    rng = np.random.default_rng(side)
    weights = rng.choice([-127, 127], (40, fan_in))
    weights[:20] = np.where(rng.random((20, fan_in)) < np.linspace(0, 1, 20)[:, None], -127, 127)
    weights[0, 0] = weights[1, 1] = 126
    image = np.full((1, 1, side, side), 127)
    image[0, 0, 0, 1::2] = 125
    model = made(config)
    model.network.weights["fc"] = weights.astype(np.float32)
    found = model.forward(model.network.weights, image.astype(np.float32))
    pixels = image.reshape(-1).tolist()
    sums = [sum(a * b for a, b in zip(row, pixels, strict=True)) for row in weights.tolist()]
    shift = max(map(abs, sums)).bit_length() - 7
    assert max(map(abs, sums)) > 1 << 24
    assert found.logits[0].tolist() == [scalar_round(v, shift, rounding) for v in sums]
    assert found.exponents[0] == -7 + model.network.exponents["fc"] + shift


def test_a_sum_that_float32_rounds_up_to_the_next_logit():
    """18,481,151 is 70.4999 units of 2^18, but float32's neighbour 18,481,152 is 70.5."""
    layer = Layer(name="fc", kind="dense", inputs=(2112, 1, 1), outputs=1, relu=False)
    config = ElasticZoConfig(network=NetworkConfig((layer,)), partition=1, alignment="batch")
    # 18,481,151 of products of int8 numbers.
    pixels, weights = np.full(2112, 127), np.zeros(2112, int)
    weights[:1145] = 127
    left = 18_481_151 - 1145 * 127 * 127
    weights[1145], weights[1146], pixels[1146] = left // 127, 1, left % 127
    assert int(weights @ pixels) == 18_481_151
    model = made(config)
    model.network.weights["fc"] = weights[None].astype(np.float32)
    image = pixels.reshape(1, 2112, 1, 1).astype(np.float32)
    assert model.forward(model.network.weights, image).logits.tolist() == [[70]]


def test_a_gradient_beyond_float64_is_exact_or_refused():
    """Of 4,096 samples whose exponents differ by up to 2 x 7 bits, and more by their shifts."""
    samples, fan_in = 4096, 784
    delta = np.full((samples, 1, 1), 127.0)
    seen = np.full((fan_in, 1, samples), 127.0, np.float32)
    seen[0, 0, 0] = 126
    for shift in (14, 24, 28):
        gradient = _gradient(delta, seen, np.full(samples, shift))
        assert gradient[0].tolist() == [
            (samples * 127 * 127 - 127 << shift), *[samples * 127 * 127 << shift] * (fan_in - 1)
        ]  # fmt: skip
    with pytest.raises(ValueError, match="must be less than 2"):
        _gradient(delta, seen, np.full(samples, 40))
