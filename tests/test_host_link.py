from random import Random

import pytest

from seedbed.golden.host_link import Packet, encode
from seedbed.hw.host_link import HostLink
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.host_link import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import Operation


@pytest.mark.parametrize(("depth", "stalls"), [(4, s) for s in Stalls] + [(64, Stalls.BOTH)])
def test_matches_model(depth, stalls):
    config = HostLinkConfig(depth=depth)
    simulate(HostLink(config), case(config, Random(3), requests=20), stalls=stalls, seed=3)


def test_latency_from_delimiter_to_command():
    request = encode(Packet(Operation.WRITE, 1, 7, 42).to_bytes())
    command = 1 | 7 << 1 | 42 << 17
    phase = Phase(inputs={"i": list(request)}, outputs={"o_commands": [command]})
    transfers = simulate(HostLink(HostLinkConfig()), Case(phases=[phase])).transfers
    assert transfers["o_commands"] == [transfers["i"][-1] + HostLink.latency]


@pytest.mark.parametrize(
    ("depth", "error", "sentence"),
    [
        (2, ValueError, r"depth must be in 4\.\.4096, not 2"),
        (100, ValueError, r"depth must be a power of two in 4\.\.4096, not 100"),
        (8.0, TypeError, r"depth must be an integer in 4\.\.4096, not 8\.0"),
    ],
)
def test_refuses(depth, error, sentence):
    with pytest.raises(error, match=sentence):
        HostLinkConfig(depth=depth)
