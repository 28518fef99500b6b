"""Vectors that come with tokens, and losses, in the streamed engine."""

from random import Random

import numpy as np
import pytest

from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_passes import PassEngine
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import (
    Blocks,
    case,
    drawn,
    input_payloads,
    job,
    status,
    token_payloads,
)
from seedbed.sim.cases.stream_programs import WORDS
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.hostile.stream_engine_frames import hostile_program
from seedbed.spec import StreamEngineConfig
from tests.cores.test_stream_engine import SMALL, Session, without_memory

#: Programs begin with vectors and end with losses; in the second one, they may also choose.
CONFIGS = [
    StreamEngineConfig(**{**SMALL, "classes": 60, "inputs": True, "trellis": 4}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2},
        classes=53, inputs=True, choose=True,
    ),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["dense", "encoder", "decoder"])
@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls, kind):
    """Losses of each token, or of a block; vectors, or a packet that the program does not read."""
    simulate(StreamEngine(config), case(config, Random(4), kinds=[kind]), stalls=stalls, seed=4)


def dense(config, rng):
    """Return a dense network and its memory image."""
    engine = drawn(config, "dense", rng)
    return engine, engine_image(config, engine.program, engine.parameters, block=4, context=16)


class Dense(Session):
    """A core with a dense network in its memory, and commands to it."""

    def __init__(self, config, seed=1):
        self.config, self.rng = config, np.random.default_rng(seed)
        engine, self.image = dense(config, self.rng)
        super().__init__(self.image.beats, config, seed)
        self.blocks = Blocks(config, self.image, engine)
        self.length = engine.program.vectors[engine.program.operations[0].target].length

    def run_block(self, count=3):
        return self.blocks.run(self.rng.integers(0, WORDS, count), start=True)

    def other(self, beats, name, *, count=3, kind="run"):
        """Return a block with so many beats of vectors, and how it ends."""
        config = self.config
        values = self.rng.integers(-99, 99, (1, beats * config.lanes))
        tokens = token_payloads(config, [1] * count, [1] * count)
        inputs = {"i": [job(config, kind, start=1)], "i_tokens": tokens}
        inputs["i_vectors"] = input_payloads(config, values)
        return Phase(inputs=inputs, outputs={"o_status": [status(config, kind, name)]})

    async def ends(self, ctx, phase):
        """Run a phase; its results do not count."""
        found = await self.bench.run_phase(ctx, phase)
        assert found["o_status"] == phase.outputs["o_status"]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_another_number_of_vectors_ends_a_block(config):
    """One beat too few or too many, one beat, many; the next block is right, and as before."""
    session = Dense(config)
    beats = 3 * -(-session.length // config.lanes)
    load, good = session.blocks.load(), [session.run_block() for _ in range(5)]

    async def process(ctx):
        await session.expect(ctx, load)
        await session.expect(ctx, good[0])
        for count, block in zip((beats - 1, beats + 1, 1, 5 * beats), good[1:], strict=True):
            await session.ends(ctx, session.other(count, "tokens"))
            await session.expect(ctx, block)

    session.run(process)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_vectors_of_a_block_that_is_refused_are_taken(config):
    """Without a program, with too many tokens, and after an error of the memory."""
    session = Dense(config)
    beats = 3 * -(-session.length // config.lanes)
    load, good = session.blocks.load(), session.run_block()
    failing = session.run_block()

    async def process(ctx):
        await session.ends(ctx, session.other(beats, "missing"))
        await session.expect(ctx, load)
        await session.ends(ctx, session.other(beats, "tokens", count=5))
        # The rows of the first matrix.
        session.server.fault, session.server.at = "error", session.server.given + 2
        begun = Phase(inputs=without_memory(failing).inputs, outputs={"o_status": [0]})
        found = await session.bench.run_phase(ctx, begun)
        assert found["o_status"] == [status(config, "run", "memory")]
        session.server.fault = ""
        await session.expect(ctx, load)
        await session.expect(ctx, good)

    session.run(process)


@pytest.mark.parametrize("after", [20, 60, 300, 700])
def test_a_reset_while_vectors_come(after):
    """The core then has no program, and no rest of a packet."""
    config = CONFIGS[0]
    session = Dense(config)
    load, run = session.blocks.load(), session.run_block()

    async def process(ctx):
        await session.expect(ctx, load)
        begun = Phase(inputs=without_memory(run).inputs, outputs={"o_status": [0]})
        await session.bench.run_phase(ctx, begun, cycles=after)
        await session.bench.reset(ctx)
        session.server.forget(ctx)
        await session.ends(ctx, session.other(1, "missing"))
        await session.expect(ctx, load)
        await session.expect(ctx, run)

    session.run(process)


@pytest.mark.parametrize("missing", ["classes", "inputs"])
def test_a_core_without_them_refuses_a_program(missing):
    options = {"classes": 60, "inputs": True}
    _, image = dense(StreamEngineConfig(**SMALL, **options), np.random.default_rng(1))
    lacks = StreamEngineConfig(**SMALL, **{k: v for k, v in options.items() if k != missing})
    core = Session(image.beats, lacks)

    async def process(ctx):
        assert PassEngine(lacks, image.beats).load() == "damaged"
        load = Phase(
            inputs={"i": [job(lacks, "load")]},
            outputs={"o_status": [status(lacks, "load", "damaged")]},
        )
        await core.expect(ctx, load)

    core.run(process)


@pytest.mark.parametrize("seed", range(2))
def test_hostile_programs_end(seed):
    """With any number of vectors; a good program follows."""
    config, random = CONFIGS[0], Random(seed)
    session = Dense(config, seed)
    load, good = session.blocks.load(), session.run_block()

    async def process(ctx):
        for _ in range(12):
            session.server.beats = hostile_program(random, config)
            for kind in ("load", "run"):
                phase = session.other(random.randrange(1, 40), "ok")
                if kind == "load":
                    phase = Phase(inputs={"i": [job(config, kind)]}, outputs={"o_status": [0]})
                await session.bench.run_phase(ctx, phase)
        session.server.beats = list(session.image.beats)
        for phase in (load, good):
            await session.expect(ctx, phase)

    session.run(process)
