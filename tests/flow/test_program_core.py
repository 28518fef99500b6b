import numpy as np
import pytest

from seedbed.flow.cores import registry
from seedbed.flow.jobs.program_core import fitted
from seedbed.sim.cases.stream_programs import drawn_program


@pytest.mark.parametrize(
    ("kind", "context", "given", "keys"),
    [
        ("decoder", 15, {}, 1),
        ("decoder", 16, {}, 2),
        ("decoder", 17, {"lanes": 2}, 2),
        ("encoder", 40, {}, 4),
        ("decoder", 64, {}, 8),
        ("decoder", 512, {}, 8),
        ("decoder", 128, {"lanes": 2}, 2),
        ("decoder", 128, {"keys": 1}, 1),
        ("decoder", 128, {"lanes": 2, "beat_bits": 128}, 1),
        ("dense", 128, {}, 1),
    ],
)
def test_a_core_has_keys_for_its_context(kind, context, given, keys):
    """The cache has room for the tokens, the same number in each bank."""
    engine = drawn_program(kind, np.random.default_rng(1), size=32)
    of = fitted(registry.find("stream_engine"), engine, block=1, context=context, **given)
    assert of.config.keys == keys
    assert of.params["cache"] % keys == 0
