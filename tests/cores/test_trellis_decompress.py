from random import Random

import numpy as np
import pytest

from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.sim.case import Case
from seedbed.sim.cases.trellis_decompress import case, phase
from seedbed.sim.harness import Mismatch, simulate, with_stalls
from seedbed.spec import TrellisDecompressConfig
from seedbed.spec.trellis import CODES, draw

CONFIGS = [
    *(TrellisDecompressConfig(bits=k, state_bits=size, lanes=3) for k, size in CODES),
    TrellisDecompressConfig(),
    # A beat of fewer bits than the history has, and of as many.
    TrellisDecompressConfig(bits=2, state_bits=12, lanes=1),
    TrellisDecompressConfig(bits=3, state_bits=8, lanes=1),
    TrellisDecompressConfig(state_bits=12, lanes=2),
    # The longest and the shortest state.
    TrellisDecompressConfig(bits=2, state_bits=16, lanes=5, code=draw(16, 1)),
    TrellisDecompressConfig(bits=2, state_bits=4, lanes=2, code=draw(4, 1, field_bits=1)),
    # All numbers of fields, with the fewest and the most bits; dense masks.
    TrellisDecompressConfig(state_bits=9, lanes=2, code=draw(9, 2, fields=2, field_bits=1)),
    *(TrellisDecompressConfig(lanes=1, code=draw(12, f, fields=f)) for f in range(1, 9)),
    TrellisDecompressConfig(state_bits=11, lanes=2, code=draw(11, 3, fields=8, field_bits=8)),
    TrellisDecompressConfig(state_bits=12, lanes=2, code=draw(12, 4, taps=0)),
]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(TrellisDecompress(config), case(config, Random(3)), stalls=stalls, seed=3)


def test_every_state():
    """A row visits each state: the high bits of one are the low bits of the state before."""
    config = TrellisDecompressConfig(lanes=3, bits=2, state_bits=8)
    states = np.arange(1 << config.state_bits)
    shifts = range(config.state_bits - config.bits, -1, -config.bits)
    row = np.stack([states >> shift & 3 for shift in shifts], axis=-1).reshape(-1)
    row = np.resize(row, (-(-row.size // config.lanes), config.lanes))
    simulate(TrellisDecompress(config), Case(phases=[phase(config, [row])], quiet=True))


@pytest.mark.parametrize(("fields", "latency"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_latency_and_throughput(fields, latency):
    config = TrellisDecompressConfig(lanes=2, code=draw(12, 5, fields=fields))
    dut = TrellisDecompress(config)
    transfers = simulate(dut, case(config, Random(5))).transfers
    assert dut.latency == latency
    assert transfers["o"] == [cycle + latency for cycle in transfers["i"]]
    first = transfers["i"][0]
    assert transfers["i"] == list(range(first, first + len(transfers["i"]) * dut.interval))


@pytest.mark.parametrize("flipped", [0, 1, 2])
def test_case_detects_another_code(flipped):
    """A decompressor with another tap, in any field, does not pass."""
    right = TrellisDecompressConfig(lanes=2)
    code = [list(field) for field in right.masks]
    code[flipped][flipped] ^= 1 << 11
    wrong = TrellisDecompressConfig(lanes=2, code=code)
    with pytest.raises(Mismatch, match="weights"):
        simulate(TrellisDecompress(wrong), case(right, Random(6)))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 0}, ValueError, r"lanes must be in 1\.\.1024, not 0"),
        ({"lanes": 2.0}, TypeError, r"lanes must be an integer in 1\.\.1024, not 2\.0"),
        ({"bits": 5}, ValueError, r"bits must be in 2\.\.4, not 5"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        TrellisDecompressConfig(**params)
