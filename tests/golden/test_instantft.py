"""The whole core in integers: against the float network and float training, and its cache."""

import numpy as np
import pytest

from seedbed.golden import network
from seedbed.golden.instantft import InstantFt, batches, quantised
from seedbed.spec.fixed import Q8_16, Fixed
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import LENET5, Layer, NetworkConfig
from seedbed.studies import finetune
from seedbed.studies.finetune_methods import METHODS

SMALL = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 8, 8), outputs=4, kernel=3, padding=1, pool=2),
        Layer(name="b", kind="dense", inputs=(64, 1, 1), outputs=12),
        Layer(name="c", kind="dense", inputs=(12, 1, 1), outputs=4, relu=False),
    )
)
#: By default, 18 bits each: what a multiplier of small FPGAs takes. And the paper's.
FORMATS = {"Q6.12": {}, "Q8.16": {"values": Q8_16, "accumulators": Q8_16}}
#: Inputs of LeNet-5's layers as they come: channels, rows, columns.
SHAPES = ((1, 28, 28), (6, 14, 14), (16, 5, 5), (120, 1, 1), (84, 1, 1))


def problem(rng, samples=160):
    """Bright quarters of noisy images: the class is the brightest one."""
    labels = rng.integers(4, size=samples)
    images = rng.integers(0, 100, (samples, 8, 8))
    for image, label in zip(images, labels, strict=True):
        image[label // 2 * 4 :, label % 2 * 4 :][:4, :4] += 150
    return images.astype(np.uint8), labels


def core(config, *, network_seed=1, seed=2):
    rng = np.random.default_rng(network_seed)
    parameters = network.init(config.network, rng)
    for layer in config.network.layers:
        parameters[f"{layer.name}.bias"] = rng.normal(0, 0.1, layer.outputs)
    weights = quantised(config, parameters)
    return InstantFt(config, weights, np.random.default_rng(seed), 0.1), weights


@pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)
def test_the_frozen_network_is_close_to_the_float_one(formats):
    """With the same weights: apart by the rounding of activations, and pixels of v / 255.004.

    The float network's are flat channel by channel, ours have the channels last.
    """
    config = InstantFtConfig(**formats)
    model, weights = core(config)
    images = np.random.default_rng(3).integers(0, 256, (5, 28, 28), np.uint8)
    seen = model.base(images)
    real = {name: value / config.weights.one for name, value in weights.items()}
    inputs, logits = finetune.frozen(LENET5, real, images[:, None] / 255)
    assert [part.shape[1] for part in seen.inputs] == [784, 1176, 400, 120, 84]
    inputs = [
        part.reshape(-1, *shape).transpose(0, 2, 3, 1).reshape(part.shape)
        for part, shape in zip(inputs, SHAPES, strict=True)
    ]
    bound = 40 / config.values.one
    for ours, theirs in zip([*seen.inputs, seen.logits], [*inputs, logits], strict=True):
        assert np.abs(ours / config.values.one - theirs).max() < bound
    assert np.abs(logits).max() > 1
    assert model.saturations.count == 0


def test_bytes_of_an_image():
    assert [InstantFtConfig().pixel(byte) for byte in (0, 1, 255)] == [0, 16, 4095]
    paper = InstantFtConfig(**FORMATS["Q8.16"])
    assert [paper.pixel(byte) for byte in (0, 1, 255)] == [0, 257, 65535]
    assert InstantFtConfig(values=Fixed(26, 18)).pixel(1) == 4 * 257


@pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)
def test_the_cache_is_as_small_as_the_published_one(formats):
    """1.02 MB for 1,024 images, 7.33 MB in 32 bits: InstantFT, section 5.5."""
    config = InstantFtConfig(**formats)
    assert sum(config.cached) == 1790
    assert 1024 * 4 * 1790 == 7331840
    assert config.entry_bits == 4 * 1790 + 16 * (19 + 7 + 2 + 2 + 1)
    assert config.entry_bits * 1024 // 8 == 979968 < 1.02e6
    exact = InstantFtConfig(cache="exact", **formats)
    assert exact.entry_bits == (24 if formats else 18) * 1790


@pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)
def test_the_cache_keeps_images_and_is_close_to_the_rest(formats):
    config = InstantFtConfig(network=SMALL, block=16, **formats)
    model, _ = core(config)
    seen = model.base(problem(np.random.default_rng(4))[0])
    back = model.cached(seen)
    assert back.inputs[0] is seen.inputs[0]
    for ours, exact in zip(
        [*back.inputs[1:], back.logits], [*seen.inputs[1:], seen.logits], strict=True
    ):
        assert 0 < np.abs(ours - exact).max() < 0.16 * np.abs(exact).max()
    exact = InstantFtConfig(network=SMALL, cache="exact", **formats)
    assert core(exact)[0].cached(seen) is seen


@pytest.mark.parametrize("cache", ["exact", "nf4"])
@pytest.mark.parametrize("formats", FORMATS.values(), ids=FORMATS)
def test_training_is_close_to_that_in_float(cache, formats):
    """The same batches from the same adapters: losses and adapters within a few roundings."""
    rng = np.random.default_rng(5)
    config = InstantFtConfig(network=SMALL, cache=cache, **formats)
    model, weights = core(config)
    (images, labels), (others, names) = problem(rng), problem(rng)
    seen = model.cached(model.base(images))
    order = list(batches(160, 20, 20, rng))
    theta = {name: value / config.weights.one for name, value in weights.items()}
    for layer, a, b in zip(SMALL.layers, model.lora.a, model.lora.b, strict=True):
        theta |= {f"{layer.name}.a": a / config.adapters.one, f"{layer.name}.b": b * 0.0}
    losses = model.train(seen, labels, order, 0.1)
    kept = iter([*seen.inputs[1:], seen.logits])
    real = finetune.train(
        SMALL,
        METHODS["InstantFT"],
        theta,
        images[:, None] / 255,
        labels,
        order,
        rate=0.1 / 20,
        cache=lambda part: next(kept) / config.values.one,
    )
    for layer, a, b in zip(SMALL.layers, model.lora.a, model.lora.b, strict=True):
        for ours, name in ((a, "a"), (b, "b")):
            apart = ours / config.adapters.one - real[f"{layer.name}.{name}"]
            assert np.abs(apart).max() < 0.01
    first, last = (part.mean() / 20 / config.values.one for part in (losses[:8], losses[-8:]))
    assert last < 0.5 * first
    assert (model.predict(model.base(others)) == names).mean() > 0.9
    assert model.saturations.count == 0


def test_saturation_is_counted_and_stays_in_range():
    config = InstantFtConfig(
        network=SMALL, values=Fixed(16, 12), accumulators=Fixed(16, 12), peak_width=14
    )
    rng = np.random.default_rng(6)
    model = InstantFt(
        config,
        {
            name: np.clip(numbers * 40, config.weights.low, config.weights.high)
            for name, numbers in core(config)[1].items()
        },
        rng,
        2.0,
    )
    images, labels = problem(rng)
    seen = model.base(images)
    counted = model.saturations.count
    assert counted > 0
    model.train(model.cached(seen), labels, batches(160, 20, 1, rng), 0.6)
    assert model.saturations.count > counted
    for part in (*model.lora.a, *model.lora.b):
        assert config.adapters.low <= part.min() <= part.max() <= config.adapters.high
    for part in (*seen.inputs, seen.logits):
        assert config.values.low <= part.min() <= part.max() <= config.values.high


def test_a_short_last_batch_weighs_its_samples_like_the_others():
    config = InstantFtConfig(network=SMALL, batch=20)
    images, labels = problem(np.random.default_rng(7), 5)
    whole, _ = core(config)
    seen = whole.cached(whole.base(images))
    whole.train(seen, labels, [np.arange(5)], 0.2)
    five, _ = core(InstantFtConfig(network=SMALL, batch=5))
    five.train(seen, labels, [np.arange(5)], 0.05)
    for one, two in zip(whole.lora.b, five.lora.b, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.any()


def test_an_epoch_has_each_sample_once_in_a_new_order():
    rng = np.random.default_rng(8)
    order = list(batches(50, 20, 2, rng))
    assert [len(part) for part in order] == [20, 20, 10, 20, 20, 10]
    first, second = np.concatenate(order[:3]), np.concatenate(order[3:])
    assert sorted(first) == sorted(second) == list(range(50))
    assert first.tolist() != second.tolist()


def test_a_rate_beyond_its_bits_trains_nothing():
    model, _ = core(InstantFtConfig(network=SMALL))
    images, labels = problem(np.random.default_rng(9), 20)
    seen = model.base(images)
    with pytest.raises(ValueError, match=r"by the batch must be in .*, not 0\.05"):
        model.train(seen, labels, [np.arange(20)], 1.0)
    assert not any(part.any() for part in model.lora.b)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((3, 9, 8), np.uint8),
        np.zeros((3, 2, 8, 8), np.uint8),
        np.zeros((3, 8, 8), np.float32),
        np.zeros((0, 8, 8), np.uint8),
    ],
)
def test_images_of_another_sort_are_refused(images):
    model, _ = core(InstantFtConfig(network=SMALL))
    with pytest.raises(ValueError, match=r"must be uint8 of shape \(samples, 1, 8, 8\), at least"):
        model.base(images)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cache": "int4"}, "cache must be one of nf4, exact, not 'int4'"),
        ({"batch": 0}, r"batch must be in 1\.\.256, not 0"),
        ({"rank": 0}, r"rank must be in 1\.\.32, not 0"),
        ({"network": NetworkConfig(SMALL.layers[:2])}, "b gives the logits: it must have neither"),
        (
            {"weights": Fixed(32, 16)},
            r"a layer's sum of weights by values must be in 2\.\.53, not 57",
        ),
        (
            {"weights": Fixed(32, 16), **FORMATS["Q8.16"]},
            r"a layer's sum of weights by values must be in 2\.\.53, not 63",
        ),
    ],
)
def test_bad_configurations(change, says):
    with pytest.raises(ValueError, match=says):
        InstantFtConfig(**change)
