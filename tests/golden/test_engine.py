from itertools import pairwise
from math import prod

import numpy as np
import pytest

from seedbed.golden.engine import adapter_rows, adapters, frozen_rows, words
from seedbed.spec.engine import EngineConfig
from seedbed.spec.fixed import Q4_12, Q6_12, Fixed
from seedbed.spec.lora import LoraConfig
from seedbed.spec.network import LENET5, Layer, NetworkConfig
from seedbed.spec.planner import plan

#: Padding behind the first layer, rows of windows side by side in a beat, a row of a whole beat
#: (8 lanes), a map for logits, and names that adapters have too.
MAPS = NetworkConfig(
    (
        Layer(name="h", kind="conv", inputs=(2, 8, 6), outputs=8, kernel=3, padding=1, pool=2),
        Layer(name="z", kind="conv", inputs=(8, 4, 3), outputs=5, kernel=1),
        Layer(name="dh", kind="conv", inputs=(5, 4, 3), outputs=7, kernel=3, padding=1, relu=False),
    )
)
#: Overlapping windows, of which the last column is in no square; windows with gaps between them.
STRIDED = NetworkConfig(
    (
        Layer(
            name="h", kind="conv", inputs=(3, 11, 10), outputs=5, kernel=3, padding=1, stride=2,
            pool=2,
        ),
        Layer(name="z", kind="conv", inputs=(5, 3, 2), outputs=7, kernel=2, padding=1, stride=3),
    )
)  # fmt: skip
NETWORKS = [LENET5, MAPS, STRIDED]
SHAPES = [(8, 1), (8, 8), (16, 2), (32, 4), (64, 16)]


def lora(network, **params):
    widths = tuple(prod(layer.inputs) for layer in network.layers)
    return LoraConfig(widths=widths, classes=prod(network.layers[-1].shape), **params)


def plans():
    for network in NETWORKS:
        for lanes, ways in SHAPES:
            for adapted in (None, lora(network, rank=16)):
                yield network, plan(lanes=lanes, ways=ways, layers=network.layers, lora=adapted)


def test_lenet5_in_cycles_and_rows():
    made = plan(lanes=32, ways=4, layers=LENET5.layers, lora=lora(LENET5))
    assert [step.cycles(4) for step in made.steps[:5]] == [1568, 2000, 390, 84, 9]
    assert (made.frozen_rows, made.trainable_rows) == (505, 101)
    schedule = made.schedule
    steps = schedule.a[0][1], schedule.a[4][1], schedule.output, schedule.back
    assert [step.cycles(4) for step in steps] == [33, 3, 6, 5]
    assert made.store_rows == 128
    alone = plan(lanes=32, ways=4, lora=lora(LENET5))
    assert alone.trainable_rows == 93
    assert (alone.frozen_rows, alone.base) == (0, (0, 0))


def test_regions_do_not_overlap():
    for _, made in plans():
        spans = []
        for region in made.regions.values():
            addresses = list(region.addresses())
            assert len(set(addresses)) == prod(region.shape)
            assert addresses == sorted(addresses)
            assert region.first <= addresses[0]
            assert addresses[-1] < region.first + region.rows * made.lanes
            spans.append((region.first, region.first + region.rows * made.lanes))
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))
        assert spans[-1][1] <= made.store_rows * made.lanes


def test_every_weight_and_bias_has_a_place_of_its_own():
    for network, made in plans():
        numbers, parameters = 0, {}
        for layer in network.layers:
            for part, shape in [
                ("weight", (layer.outputs, layer.fan_in)),
                ("bias", (layer.outputs,)),
            ]:
                count = prod(shape)
                parameters[f"{layer.name}.{part}"] = 1 + numbers + np.arange(count).reshape(shape)
                numbers += count
        rows = frozen_rows(made, network.layers, parameters)
        assert rows.shape == (made.frozen_rows, made.ways, made.lanes)
        assert sorted(rows[rows != 0]) == list(range(1, numbers + 1))
        assert words(rows).shape == (rows.size // 2, 2)


def test_windows_meet_their_weights():
    """What a step's beats read, times the rows of weights, is the layer's sum."""
    rng = np.random.default_rng(1)
    for network, made in plans():
        regions = list(made.regions.values())
        for layer, step, region in zip(network.layers, made.steps, regions, strict=False):
            x = rng.integers(1, 100, layer.inputs)
            store = np.zeros(2 * made.store_rows * made.lanes, int)
            if layer.kind == "conv":
                flat = x.transpose(1, 2, 0).ravel()
            else:
                height, width, channels = region.shape
                flat = x.reshape(channels, height, width).transpose(1, 2, 0).ravel()
            store[list(region.addresses())] = flat
            weights = rng.integers(1, 100, (layer.outputs, layer.fan_in))
            parameters = {
                f"{other.name}.{part}": np.zeros(shape, int)
                for other in network.layers
                for part, shape in [
                    ("weight", (other.outputs, other.fan_in)),
                    ("bias", (other.outputs,)),
                ]
            }
            parameters[f"{layer.name}.weight"] = weights
            rows = frozen_rows(made, network.layers, parameters)
            frame = rows[step.weights : step.weights + step.beats, 0].ravel()
            pad, side = layer.padding, layer.kernel
            padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
            for y, column in [(0, 0), (layer.convolved[1] - 1, layer.convolved[2] - 1)]:
                seen = []
                for read in range(step.reads):
                    for piece in range(step.pieces):
                        at = step.window + y * step.row_stride + column * step.column_stride
                        at += read * step.read_stride + piece * made.lanes
                        rows_on = np.array(step.skew) * made.lanes
                        seen += store[(at + np.arange(made.lanes) + rows_on) % len(store)].tolist()
                top, left = layer.stride * y, layer.stride * column
                window = padded[:, top : top + side, left : left + side].ravel()
                want = window if layer.kind == "conv" else x.ravel()
                assert np.dot(seen, frame) == np.dot(want, weights[0])


def test_adapters_come_back():
    rng = np.random.default_rng(2)
    for network, made in plans():
        if not made.adapters:
            continue
        config = lora(network, rank=16)
        a = [rng.integers(1, 99, (16, width)) for width in config.widths]
        b = [rng.integers(1, 99, (config.classes, 16)) for _ in config.widths]
        rows = adapter_rows(made, a, b, 4096)
        back = adapters(made, rows)
        for found, given in zip((*back[0], *back[1]), (*a, *b), strict=True):
            assert (found == given).all()
        # B is there twice, and each class has a weight of 1 for its logit.
        assert np.count_nonzero(rows) == config.parameter_count + sum(p.size for p in b) + (
            config.classes
        )


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 4}, ValueError, r"lanes must be in 8\.\.64, not 4"),
        ({"lanes": 24}, ValueError, r"lanes must be a power of two, not 24"),
        ({"lanes": 8.0}, TypeError, r"lanes must be an integer in 8\.\.64, not 8\.0"),
        ({"ways": 0}, ValueError, r"ways must be in 1\.\.16, not 0"),
        ({"ways": 3}, ValueError, r"ways must be a power of two, not 3"),
        ({"lanes": 8, "ways": 16}, ValueError, r"ways must be in 1\.\.8, not 16"),
        ({"ways": 8, "lora": LoraConfig()}, ValueError, r"ways must divide the rank, 4, not 8"),
    ],
)
def test_plan_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        plan(**{"lanes": 32, "ways": 4, "layers": LENET5.layers} | params)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"values": Fixed(12, 11)}, r"values must have room for 1, which Q1\.11 has not"),
        (
            {"adapters": LoraConfig(parameters=Fixed(9, 8))},
            r"parameters must have room for 1, which",
        ),
        ({"weights": Fixed(40, 12)}, r"weight_width must be in 2\.\.32, not 40"),
    ],
)
def test_engine_refuses(params, sentence):
    made = plan(lanes=32, ways=4, layers=LENET5.layers, lora=params.get("adapters"))
    with pytest.raises(ValueError, match=sentence):
        EngineConfig(plan=made, **{"values": Q6_12, "weights": Q4_12} | params)


def test_a_gradient_may_be_wider_than_a_value():
    made = plan(lanes=8, ways=1, lora=LoraConfig())
    config = EngineConfig(plan=made, values=Fixed(14, 9), weights=Q4_12, adapters=LoraConfig())
    assert config.number == 16


def test_without_adapters_there_is_no_schedule():
    made = plan(lanes=32, ways=4, layers=LENET5.layers)
    with pytest.raises(ValueError, match="the plan has no adapters, and so no schedule"):
        _ = made.schedule
    with pytest.raises(ValueError, match="the engine has no adapters"):
        _ = EngineConfig(plan=made, values=Q6_12, weights=Q4_12).lora
