"""Words of the linear generator that are run in spans."""

from itertools import islice

import numpy as np
import pytest

from seedbed.flow.report.linear_words import BEATS, lutopt_beats
from seedbed.golden.lutopt import Lutopt
from seedbed.spec import LutoptConfig


@pytest.mark.parametrize("lanes", [0, 1, 2])
@pytest.mark.parametrize(
    "config", [LutoptConfig(lanes=8, width=5), LutoptConfig(), LutoptConfig(width=14)], ids=str
)
def test_the_words_are_those_of_the_model(config, lanes):
    chunks = list(islice(lutopt_beats(config, lanes), 3))
    count = len(chunks[0])
    assert count % (8 * BEATS) == 0
    found = np.concatenate(chunks)
    model = Lutopt(config)
    # The first spans, and where a chunk and a span begin.
    for start in (0, count - 1000, 2 * count - 1000):
        model.seed(0, checked=False)
        model.jump(start)
        words = model.beats(2000)
        np.testing.assert_array_equal(found[start : start + 2000], words[:, : lanes or None])
