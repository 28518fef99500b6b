from gc import collect
from random import Random

import pytest
from amaranth.hdl import Fragment, unsigned
from amaranth.lib import data

from seedbed.hw.parts.skid_buffer import SkidBuffer
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
    transfers = simulate(SkidBuffer(config), case(config, Random(3), beats=30)).transfers
    first = transfers["i"][0]
    assert transfers["i"][:30] == list(range(first, first + 30))
    assert transfers["o"][:30] == [cycle + SkidBuffer.latency for cycle in transfers["i"][:30]]


def test_carries_any_shape():
    layout = data.StructLayout({"value": 5, "last": 1})
    core = SkidBuffer(SkidBufferConfig(width=6), layout)
    assert core.o.payload.shape() == layout
    assert Fragment.get(core, None)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_refuses_a_shape_of_another_width():
    with pytest.raises(ValueError, match="the shape must have 7 bits"):
        SkidBuffer(SkidBufferConfig(width=7), unsigned(6))
    collect()


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
