"""Kept weights that are tuned in external memory."""

from random import Random

import numpy as np
import pytest

from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.golden.engine_passes import PassEngine
from seedbed.golden.kept_weights import KeptTuner, trainable
from seedbed.golden.stream_engine import StreamEngine as Model
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.stream_engine import Blocks, case, job, status, token_payloads
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.hostile.stream_engine_frames import hostile_program
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import KINDS
from tests.cores.test_stream_engine import SMALL, Session, without_memory

CONFIGS = [
    StreamEngineConfig(**{**SMALL, "trellis": 4, "kept": 200, "tune": 4}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2, "trellis": 2},
        kept=300, tune=5, external=True, choose=True,
    ),
]  # fmt: skip
TUNES = CONFIGS[0]


def drawn(config=TUNES, kind="dense", seed=1, *, plain=False, size=8):
    rng = np.random.default_rng(seed)
    engine = drawn_program(kind, rng, size=size, layers=1, trellis=config.trellis, keeps=True)
    if not plain:
        engine = Model(engine.program, trainable(engine.parameters, config.tune))
    image = engine_image(config, engine.program, engine.parameters, block=4, context=12)
    return rng, engine, image


def all_of(blocks):
    """Return the range of all kept weights."""
    first = blocks.limits["first"]
    return first, first + blocks.image.kept_beats


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls, kind):
    """Blocks before and after kept weights are changed; ranges elsewhere are refused."""
    phases = case(config, Random(4), kinds=[kind], sizes=(3, 1, 2))
    simulate(StreamEngine(config), phases, stalls=stalls, seed=4)


def test_an_image_without_fraction_bits_is_run_as_before():
    """Its kept weights are not marked: a command to tune them changes nothing."""
    config = TUNES
    rng, engine, image = drawn(plain=True)
    blocks = Blocks(config, image, engine)
    blocks.limits = {"first": 0, "end": len(image.beats)}
    phases = [blocks.load(), blocks.run(rng.integers(0, WORDS, 3))]
    kept = next(each for each in blocks.passes.records if each["kind"] == "trellis")
    stop = kept["address"] + kept["constant"]
    before = bytes(blocks.passes.raw)
    phases.append(blocks.tune(kept["address"], stop, seed=5, delta=7))
    assert stop > kept["address"]
    assert bytes(blocks.passes.raw) == before
    phases.append(blocks.run(rng.integers(0, WORDS, 2)))
    simulate(StreamEngine(config), Case(phases=phases, quiet=True, retains=True), seed=2)


def test_a_step_and_its_parts():
    """The perturbations of a step cancel, and the model of parameters is that of memory."""
    config = TUNES
    _, engine, image = drawn()
    tuner = KeptTuner(config, engine.parameters, image)
    first = tuner.words.copy()
    for delta in (6, -12, 6):
        tuner.tune(seed=77, delta=delta)
    assert (tuner.words == first).all()
    for delta in (6, -12, 6 + 2):
        tuner.tune(seed=77, delta=delta)
    changed = tuner.words.astype(np.uint16) - first.astype(np.uint16)
    assert {*changed.view(np.int16).tolist()} == {0, 2, -2}
    blocks = Blocks(config, image, engine)
    blocks.load()
    for delta in (6, -12, 6 + 2):
        blocks.passes.tune(*all_of(blocks), seed=77, delta=delta)
    size = config.beat_bits // 8
    found = np.frombuffer(bytes(blocks.passes.raw), "<u4")[blocks.limits["first"] * size // 4 :]
    assert (found[: len(tuner.words)] == tuner.words).all()


@pytest.mark.parametrize("fault", ["error", "last", "silent", "stray", "refused", "mute", "again"])
@pytest.mark.parametrize("at", [0, 3, 16])
def test_an_error_of_the_memory_ends_a_command(fault, at):
    """What is written is right until then, nothing is written after it, and the next one is right.

    The host writes the image again.
    """
    config = TUNES
    rng, engine, image = drawn(size=24)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    session.server.limits = blocks.limits
    first, end = all_of(blocks)
    assert end - first > 17
    load, run = blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)
    tune = blocks.tune(first, end, seed=9, delta=3)
    more = blocks.run(rng.integers(0, WORDS, 2))
    changed = [
        int.from_bytes(blocks.passes.raw[k * 16 : k * 16 + 16], "little")
        for k in range(len(image.beats))
    ]

    async def process(ctx):
        for phase in (load, run):
            await session.expect(ctx, phase)
        session.server.fault, session.server.at = fault, at
        if fault in ("error", "last", "silent", "stray"):
            session.server.at += session.server.given
        begun = Phase(inputs=without_memory(tune).inputs, outputs={"o_status": [0]})
        found = await session.bench.run_phase(ctx, begun)
        # One more answer may come when all beats have been answered, and the command has ended.
        if fault != "again" or found["o_status"] != [status(config, "tune")]:
            assert found["o_status"] == [status(config, "tune", "memory")]
        session.server.fault = ""
        if fault == "silent":
            session.server.forget(ctx)
        # No answer comes later than the core waits for.
        while session.server.writes:
            await ctx.tick()
        await ctx.tick().repeat(config.drain_cycles)
        for k, (beat, before) in enumerate(zip(session.server.beats, image.beats, strict=True)):
            assert beat in (before, changed[k])
        for phase in (load, run):
            session.server.beats = list(image.beats)
            await session.expect(ctx, phase)
        await session.expect(ctx, tune)
        assert session.server.beats == changed
        await session.expect(ctx, more)

    session.run(process)


@pytest.mark.parametrize("after", [5, 30, 60, 100, 200])
def test_a_reset_while_weights_are_changed(after):
    """The core then has no program, and changes nothing without one."""
    config = TUNES
    rng, engine, image = drawn()
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    session.server.limits = blocks.limits
    load, tune = blocks.load(), blocks.tune(*all_of(blocks), seed=9, delta=3)
    run = blocks.run(rng.integers(0, WORDS, 3), start=True)

    async def process(ctx):
        await session.expect(ctx, load)
        begun = Phase(inputs=without_memory(tune).inputs, outputs={"o_status": [0]})
        await session.bench.run_phase(ctx, begun, cycles=after)
        await session.bench.reset(ctx)
        session.server.forget(ctx)
        missing = Phase(
            inputs=without_memory(tune).inputs,
            outputs={"o_status": [status(config, "tune", "missing")]},
        )
        await session.expect(ctx, missing)
        session.server.beats = list(image.beats)
        for phase in (load, tune, run):
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_programs_and_ranges_end(seed):
    """Nothing is written where the command to load does not allow it."""
    config, random = TUNES, Random(seed)
    rng, engine, image = drawn()
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config, seed=seed)
    good = [blocks.load(), blocks.tune(*all_of(blocks), seed=9, delta=3)]
    good.append(blocks.run(rng.integers(0, WORDS, 3), start=True))
    seen = set()

    async def process(ctx):
        for _ in range(12):
            session.server.beats = hostile_program(random, config)
            session.server.limits = {"first": 900, "end": random.randrange(900, 1300)}
            stop = session.server.limits["end"]
            ranges = {"first": random.choice([899, 900, 930]), "end": stop - random.choice([0, 9])}
            commands = [
                job(config, "load", **session.server.limits), job(config, "run", start=1),
                job(config, "tune", **ranges, seed=random.randrange(1 << 24), delta=-9),
            ]  # fmt: skip
            for k, command in enumerate(commands):
                inputs = {"i": [command]}
                if k == 1:
                    inputs["i_tokens"] = token_payloads(config, [random.randrange(WORDS), 1])
                phase = Phase(inputs=inputs, outputs={"o_status": [0]})
                seen.update((await session.bench.run_phase(ctx, phase))["o_status"])
        session.server.beats = list(image.beats)
        session.server.limits = blocks.limits
        for phase in good:
            await session.expect(ctx, phase)

    session.run(process)
    assert status(config, "tune", "missing") in seen
    assert seen & {status(config, "tune", name) for name in ("ok", "damaged")}


@pytest.mark.parametrize(
    ("trellis", "fraction", "constant", "wanted"),
    [
        (4, 0, 1, "ok"), (5, 4, 1, "ok"), (5, 4, 1 | 77 << 16, "ok"),
        (4, 0, 1 | 77 << 16, "damaged"), (5, 4, 51, "damaged"), (5, 3, 1, "damaged"),
        (5, 0, 1, "damaged"), (4, 4, 1, "damaged"),
        (1, 4, 1, "damaged"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tune", [4, 0])
def test_the_format_of_kept_weights_is_checked(tune, trellis, fraction, constant, wanted):
    """A core without it refuses programs whose kept weights have fraction bits."""
    config = StreamEngineConfig(**{**SMALL, "trellis": 4, "kept": 200, "tune": tune})
    record = {"kind": KINDS.index("trellis"), "last": 1, "length": 8, "rows": 3}
    sizes = {"block": 1, "context": 1, "tokens": 1, "trellis": trellis, "fraction": fraction}
    beats = header_and_records(config, sizes, [record | {"constant": constant}])
    name = PassEngine(config, tuple(beats)).load()
    if tune:
        assert name == wanted
    elif trellis != 4:
        assert name == "damaged"
    session = Session(beats, config)

    async def process(ctx):
        load = Phase(
            inputs={"i": [job(config, "load")]},
            outputs={"o_status": [status(config, "load", name)]},
        )
        await session.expect(ctx, load)

    session.run(process)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"tune": 1}, r"tune must be in 0\.\.0, not 1"),
        ({"trellis": 4, "kept": 4, "tune": 13}, r"tune must be in 0\.\.12, not 13"),
        (
            {"beat_bits": 1024, "trellis": 4, "kept": 4, "tune": 1, "burst": 32},
            "beat_bits must be at most 512 with tune, not 1024",
        ),
    ],
)
def test_refuses(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        StreamEngineConfig(**params)


def test_refuses_kept_weights_of_another_fraction():
    _, engine, _ = drawn()
    for tune, sentence in (
        (0, "kept weights with fraction bits need tune of the core"),
        (3, "all kept weights must have 3 fraction bits, as the core's have"),
    ):
        core = StreamEngineConfig(**{**SMALL, "trellis": 4, "kept": 200, "tune": tune})
        with pytest.raises(ValueError, match=sentence):
            engine_image(core, engine.program, engine.parameters, block=4, context=8)
    _, engine, _ = drawn(plain=True)
    with pytest.raises(ValueError, match="must differ by at most 7 from its trellis code"):
        trainable(engine.parameters, 12)
