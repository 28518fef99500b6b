from random import Random

import pytest
from amaranth.lib import data

from seedbed.hw.skid_buffer import SkidBuffer
from seedbed.sim.cases.skid_buffer import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import SkidBufferConfig


@pytest.mark.parametrize("stalls", Stalls)
@pytest.mark.parametrize("width", [1, 8, 100])
def test_matches_model(width, stalls):
    config = SkidBufferConfig(width=width)
    simulate(SkidBuffer(config), case(config, Random(3)), stalls=stalls, seed=3)


def test_latency_and_throughput():
    config = SkidBufferConfig()
    moved = simulate(SkidBuffer(config), case(config, Random(3), beats=30)).transfers
    first = moved["i"][0]
    assert moved["i"][:30] == list(range(first, first + 30))
    assert moved["o"][:30] == [cycle + SkidBuffer.latency for cycle in moved["i"][:30]]


def test_carries_any_shape():
    layout = data.StructLayout({"value": 5, "last": 1})
    assert SkidBuffer(SkidBufferConfig(width=6), layout).o.payload.shape() == layout
    with pytest.raises(ValueError, match="the shape must have 7 bits"):
        SkidBuffer(SkidBufferConfig(width=7), layout)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"width": 0}, ValueError, r"width must be in 1\.\.4096, not 0"),
        ({"width": 4097}, ValueError, r"width must be in 1\.\.4096, not 4097"),
        ({"width": 8.0}, TypeError, r"width must be an integer in 1\.\.4096, not 8\.0"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SkidBufferConfig(**params)
