"""The float networks: shapes and counts of LeNet-5, and gradients against differences."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strided import strided

from seedbed.golden import elasticzo, network
from seedbed.spec import ConvEngineConfig, InstantFtConfig, ZoTrainerConfig
from seedbed.spec.elasticzo import ElasticZoConfig
from seedbed.spec.network import LENET5, NETWORKS, Layer, NetworkConfig, named

#: Every construct there is, small: padding, pooling with and without ReLU, flat and not.
SMALL = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(2, 6, 6), outputs=3, kernel=3, padding=1, pool=2),
        Layer(name="b", kind="conv", inputs=(3, 3, 3), outputs=4, kernel=2, relu=False),
        Layer(name="c", kind="dense", inputs=(16, 1, 1), outputs=5),
        Layer(name="d", kind="dense", inputs=(5, 1, 1), outputs=3, relu=False),
    )
)
STRIDED = strided(2, 3, 4, 3)


def test_lenet5_has_the_published_shapes():
    shapes = [layer.shape for layer in LENET5.layers]
    assert shapes == [(6, 14, 14), (16, 5, 5), (120, 1, 1), (84, 1, 1), (10, 1, 1)]
    assert LENET5.parameters == 61706
    assert [layer.macs for layer in LENET5.layers] == [117600, 240000, 48000, 10080, 840]
    assert LENET5.macs == 416520


def test_a_convolution_is_the_sum_over_its_window():
    layer = SMALL.layers[0]
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (1, 2, 6, 6)).astype(float)
    parameters = {name: value.astype(float) for name, value in network.init(SMALL, rng).items()}
    (_, _, y), *_ = network.forward(SMALL, parameters, x)
    kernels = parameters["a.weight"].reshape(3, 2, 3, 3)
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    for channel, row, column in np.ndindex(layer.convolved):
        window = padded[:, row : row + 3, column : column + 3]
        expected = max((kernels[channel] * window).sum() + parameters["a.bias"][channel], 0)
        assert y[0, channel, row, column] == pytest.approx(expected, abs=1e-12)


@st.composite
def convolutions(draw):
    """Any convolution of small maps."""
    inputs = draw(st.tuples(*[st.integers(1, n) for n in (3, 9, 9)]))
    padding = draw(st.integers(0, 3))
    kernel = draw(st.integers(padding + 1, max(padding + 1, min(inputs[1:]) + 2 * padding)))
    inputs = (inputs[0], *(max(side, kernel - 2 * padding) for side in inputs[1:]))
    return Layer(
        name="a", kind="conv", inputs=inputs, outputs=draw(st.integers(1, 3)), kernel=kernel,
        padding=padding, stride=draw(st.integers(1, 12)), bias=False, relu=False,
    )  # fmt: skip


@given(layer=convolutions(), area=st.integers(1, 8), seed=st.integers(0, 99))
def test_any_convolution_is_the_sum_over_its_windows(layer, area, seed):
    """Shape and numbers, of both models, against windows that move until they do not fit."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 10, layer.inputs)
    weights = rng.integers(-9, 10, (layer.outputs, layer.fan_in))
    pad, side = layer.padding, layer.kernel
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    tops, lefts = (range(0, n - side + 1, layer.stride) for n in padded.shape[1:])
    expected = np.array(
        [
            [[row @ padded[:, y : y + side, c : c + side].ravel() for c in lefts] for y in tops]
            for row in weights
        ]
    )
    assert layer.convolved == expected.shape
    _, found = network.linear(layer, {"a.weight": weights}, x[None])
    assert (found[0] == expected).all()
    columns = elasticzo._patches(layer, x[None])
    assert (weights @ columns[..., 0] == expected.reshape(layer.outputs, -1)).all()
    # Pooling: squares from the first one on, as many as fit.
    area = min(area, *expected.shape[1:])
    pooled = replace(layer, pool=area)
    _, height, width = pooled.shape
    squares = [
        [expected[:, area * y : area * (y + 1), area * c : area * (c + 1)] for c in range(width)]
        for y in range(height)
    ]
    maxima = np.array([[square.max(axis=(1, 2)) for square in row] for row in squares])
    assert (height, width) == tuple(side // area for side in expected.shape[1:])
    (_, _, y), *_ = network.forward(NetworkConfig((pooled,)), {"a.weight": weights}, x[None])
    assert (network.tiled(pooled, y)[0].max(axis=-1) == maxima.transpose(2, 0, 1)).all()
    columns = elasticzo._patches(pooled, x[None])
    computed = expected[:, : area * height, : area * width]
    assert (weights @ columns[..., 0] == computed.reshape(layer.outputs, -1)).all()


@pytest.mark.parametrize("config", [SMALL, STRIDED])
def test_gradients_are_the_slopes_of_the_loss(config):
    rng = np.random.default_rng(2)
    parameters = {n: v.astype(np.float64) for n, v in network.init(config, rng).items()}
    x, labels = rng.normal(size=(4, *config.layers[0].inputs)), np.array([0, 1, 2, 1])
    found = network.gradients(config, parameters, x, labels)
    for name, value in parameters.items():
        for place in np.ndindex(value.shape):
            losses = []
            for step in (1e-6, -1e-6):
                moved = {**parameters, name: value.copy()}
                moved[name][place] += step
                losses.append(network.loss(network.logits(config, moved, x), labels))
            assert found[name][place] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-7)


def test_adam_learns_what_can_be_learned():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 2, 6, 6)).astype(np.float32)
    labels = x.mean(axis=(2, 3)).argmax(axis=1)
    start = network.init(SMALL, rng)
    *_, last = network.adam(SMALL, start, ((x, labels) for _ in range(300)), rate=1e-2)
    assert (
        network.accuracy(SMALL, last, x, labels) > 0.95 > network.accuracy(SMALL, start, x, labels)
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "pool"}, "kind must be one of conv, dense"),
        ({"kernel": 9}, "kernel must be in 1..8"),
        ({"pool": 7}, "pool must be in 1..6, not 7"),
        ({"stride": 2, "pool": 4}, "pool must be in 1..3, not 4"),
        ({"kind": "dense", "pool": 2}, "pool must be in 1..1, not 2"),
        ({"stride": 0}, "stride must be in 1..65535, not 0"),
        ({"kind": "dense", "stride": 2}, "stride of a dense layer must be 1, not 2"),
        ({"inputs": (0, 6, 6)}, "every one of inputs must be in 1..65535, not 0"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(change, says):
    good = {"name": "a", "kind": "conv", "inputs": (2, 6, 6), "outputs": 3}
    with pytest.raises(ValueError, match=says):
        Layer(**{**good, "kernel": 3, "padding": 1, **change})


def test_a_table_whose_shapes_do_not_follow_is_refused():
    first, second, *_ = LENET5.layers
    with pytest.raises(ValueError, match=r"conv1 takes \(1, 28, 28\), but conv2 gives"):
        NetworkConfig((second, first))
    with pytest.raises(ValueError, match="at least one layer"):
        NetworkConfig(())


def test_names():
    assert {str(one): one for one in NETWORKS.values()} == NETWORKS
    assert named("tiny") is NETWORKS["tiny"]
    assert named(LENET5) is LENET5
    assert str(NetworkConfig(LENET5.layers[-1:])).startswith("NetworkConfig(")


NAMES = "network must be one of lenet5, lenet5_padded, lenet_digits, tiny"


def test_names_are_refused():
    with pytest.raises(ValueError, match=f"{NAMES}, not 'lenet'"):
        named("lenet")
    with pytest.raises(TypeError, match=f"{NAMES}, not 5"):
        named(5)


def test_a_layer_may_have_no_bias():
    layer = Layer(name="a", kind="dense", inputs=(4, 1, 1), outputs=3, bias=False)
    assert layer.parameters == 12
    config = NetworkConfig((layer,))
    parameters = network.init(config, np.random.default_rng(1))
    assert list(parameters) == ["a.weight"]
    x = np.ones((2, 4, 1, 1), np.float32)
    assert list(network.gradients(config, parameters, x, np.array([0, 1]))) == ["a.weight"]
    with pytest.raises(TypeError, match="bias must be"):
        Layer(name="a", kind="dense", inputs=(4, 1, 1), outputs=3, bias=1)


@pytest.mark.parametrize(
    "kind", [ConvEngineConfig, ElasticZoConfig, InstantFtConfig, ZoTrainerConfig]
)
def test_a_configuration_has_the_network_of_a_name(kind):
    config = kind(network="lenet5")
    assert config.network is LENET5
    assert config == kind(network=LENET5)
    assert replace(config).network is LENET5
    assert kind().network is named(kind.network)
    with pytest.raises(FrozenInstanceError):
        config.network = "tiny"
    with pytest.raises(ValueError, match=f"{NAMES}, not 'lenet'"):
        kind(network="lenet")
