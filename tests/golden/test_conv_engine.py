import numpy as np
import pytest

from seedbed.golden import network
from seedbed.golden.conv_engine import ConvEngine, flat
from seedbed.golden.fixed import to_fixed
from seedbed.spec import ConvEngineConfig
from seedbed.spec.fixed import Q8_16, Fixed
from seedbed.spec.network import LENET5, TINY, Layer, NetworkConfig


@pytest.mark.parametrize("table", [LENET5, TINY], ids=["lenet5", "tiny"])
def test_follows_the_network_in_floating_point(table):
    rng = np.random.default_rng(1)
    config = ConvEngineConfig(network=table, values=Q8_16, weights=Fixed(18, 16), lanes=16)
    parameters = network.init(table, rng)
    x = rng.uniform(0, 1, (5, *table.layers[0].inputs))
    whole = {name: to_fixed(value, config.weights) for name, value in parameters.items()}
    model = ConvEngine(config, whole)
    found = model.run(to_fixed(x, config.values)) / config.values.one
    assert np.abs(found - network.logits(table, parameters, x)).max() < 2e-3
    assert model.saturations.count == 0


def test_rounds_half_up_and_saturates():
    layer = Layer(name="a", kind="dense", inputs=(1, 1, 1), outputs=1, relu=False)
    config = ConvEngineConfig(
        network=NetworkConfig((layer,)), values=Fixed(6, 1), weights=Fixed(6, 2)
    )
    model = ConvEngine(config, {"a.weight": np.array([[2]]), "a.bias": np.array([1])})
    # (2 x + 1 2^1) / 4, of integers.
    x = np.array([-4, -3, -2, -1, 0, 1]).reshape(-1, 1, 1, 1)
    assert model.run(x).ravel().tolist() == [-1, -1, 0, 0, 1, 1]
    assert model.saturations.count == 0
    model = ConvEngine(config, {"a.weight": np.array([[31]]), "a.bias": np.array([0])})
    assert model.run(np.array([31, -32]).reshape(-1, 1, 1, 1)).ravel().tolist() == [31, -32]
    assert model.saturations.count == 2


def test_a_map_is_flat_by_rows_columns_channels():
    x = np.arange(12).reshape(1, 3, 2, 2)
    assert flat(x).tolist() == [[0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]]
