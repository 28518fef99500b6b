from random import Random

import pytest

from seedbed.golden.host_link import Packet, encode
from seedbed.hw.host.host_link import HostLink
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.host_link import case
from seedbed.sim.harness import Stalls, simulate
from seedbed.spec import HostLinkConfig
from seedbed.spec.host_link import RESPONSE, Operation


@pytest.mark.parametrize(("depth", "stalls"), [(4, s) for s in Stalls] + [(64, Stalls.BOTH)])
def test_matches_model(depth, stalls):
    config = HostLinkConfig(depth=depth, receive_depth=2 * depth)
    simulate(HostLink(config), case(config, Random(3), requests=20), stalls=stalls, seed=3)


def test_latency_from_delimiter_to_command():
    request = encode(Packet(Operation.WRITE, 1, 7, 42).to_bytes())
    command = 1 | 7 << 1 | 42 << 17
    phase = Phase(inputs={"i": list(request)}, outputs={"o_commands": [command]})
    transfers = simulate(HostLink(HostLinkConfig()), Case(phases=[phase])).transfers
    assert transfers["o_commands"] == [transfers["i"][-1] + HostLink.latency]


def sent(position, words, sequence=0):
    return encode(Packet(Operation.SEND, sequence, 0, position, words).to_bytes())


def test_words_from_the_host_come_at_the_rate_of_their_bytes():
    """A byte a cycle: frames without a pause between them, while responses are sent."""
    words = list(range(1000, 1300))
    frames = b"".join(sent(k, words[k : k + 20], k // 20) for k in range(0, 300, 20))
    phase = Phase(inputs={"i": list(frames)}, outputs={"o_words": words})
    transfers = simulate(HostLink(HostLinkConfig()), Case(phases=[phase])).transfers
    assert transfers["i"] == list(range(len(frames)))
    # Those of the last frame come in every second cycle.
    assert len(frames) < transfers["o_words"][-1] < len(frames) + 2 * 20 + 10
    assert transfers["o_words"][-1] - transfers["o_words"][-20] == 2 * 19


def test_words_that_come_twice_or_too_early_are_discarded():
    parts = [(0, [1, 2, 3]), (4, [9]), (0, [1, 2, 3]), (1, [2, 3, 4]), (3, [4, 5]), (3, [4])]
    frames = b"".join(sent(position, words) for position, words in parts)
    phase = Phase(inputs={"i": list(frames)}, outputs={"o_words": [1, 2, 3, 4, 5]})
    simulate(HostLink(HostLinkConfig()), Case(phases=[phase], quiet=False))


def test_words_without_room_are_discarded_as_a_whole():
    def response(sequence, room, position):
        return list(encode(Packet(RESPONSE | Operation.SEND, sequence, room, position).to_bytes()))

    phases = [
        Phase(inputs={"i": list(sent(0, [1, 2, 3], 7))}, outputs={"o": response(7, 1, 3)}),
        Phase(inputs={"i": list(sent(3, [4, 5], 8))}, outputs={"o": response(8, 1, 3)}),
        Phase(inputs={"i": list(sent(3, [4], 9))}, outputs={"o": response(9, 0, 4)}),
        Phase(outputs={"o_words": [1, 2, 3]}),
        Phase(inputs={"i": list(sent(4, [5, 6], 10))}, outputs={"o": response(10, 1, 6)}),
        Phase(outputs={"o_words": [4, 5, 6]}),
    ]
    simulate(HostLink(HostLinkConfig(receive_depth=4)), Case(phases=phases, quiet=True))


@pytest.mark.parametrize(
    ("depth", "error", "sentence"),
    [
        (2, ValueError, r"depth must be a power of two in 4\.\.4096, not 2"),
        (100, ValueError, r"depth must be a power of two in 4\.\.4096, not 100"),
        (8.0, TypeError, r"depth must be a power of two in 4\.\.4096, not 8\.0"),
    ],
)
def test_refuses(depth, error, sentence):
    with pytest.raises(error, match=sentence):
        HostLinkConfig(depth=depth)
    with pytest.raises(error, match=f"receive_{sentence}"):
        HostLinkConfig(receive_depth=depth)
