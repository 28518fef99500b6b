import numpy as np
import pytest

from seedbed.golden.skid_buffer import SkidBuffer
from seedbed.spec import SkidBufferConfig


def test_keeps_beats():
    sent = np.arange(16)
    assert SkidBuffer(SkidBufferConfig(width=4)).beats(sent).tolist() == list(range(16))


@pytest.mark.parametrize("payload", [16, -1])
def test_refuses_what_has_more_bits(payload):
    with pytest.raises(ValueError, match=f"a payload must have 4 bits, not {payload}"):
        SkidBuffer(SkidBufferConfig(width=4)).beats(np.array([0, payload]))
