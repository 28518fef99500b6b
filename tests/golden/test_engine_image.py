"""Memory images of programs, run pass by pass, against the programs themselves."""

import numpy as np
import pytest

from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_passes import PassEngine
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.spec import StreamEngineConfig

CONFIG = StreamEngineConfig(lanes=2, beat_bits=128, context=64)


@pytest.mark.parametrize("config", [CONFIG, StreamEngineConfig(lanes=4, vectors=2)], ids=str)
@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_passes_of_an_image_are_its_program(kind, config):
    """Several blocks one after another; then from the first token again."""
    engine = drawn_program(kind, np.random.default_rng(3), size=16)
    image = engine_image(config, engine.program, engine.parameters, block=9, context=24)
    assert len(image.names) > len(engine.program.operations)
    passes = PassEngine(config, image.beats)
    assert passes.load() == "ok"
    rng = np.random.default_rng(4)
    for _ in range(2):
        engine.start()
        for k, size in enumerate((9, 1, 4)):
            tokens = rng.integers(0, WORDS, size)
            status, found = passes.run(tokens, start=not k)
            assert status == "ok"
            assert (np.array(found) == engine.run(tokens)).all()
