from random import Random

import numpy as np
import pytest

from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.golden.engine_passes import PassEngine
from seedbed.hw.stream.stream_engine import StreamEngine
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import Blocks, case, job, status, token_payloads
from seedbed.sim.cases.stream_engine import limits as saved
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.harness import simulate, with_stalls
from seedbed.sim.hostile.stream_engine_frames import hostile_program
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import KINDS

SMALL = {
    "lanes": 2, "products": 2, "beat_bits": 128, "store": 512, "cache": 256, "records": 64,
    "block": 4, "context": 16, "columns": 64, "address_bits": 16, "burst": 8,
    "timeout_cycles": 400, "drain_cycles": 16,
}  # fmt: skip
GROUPS = {
    **SMALL, "products": 8, "beat_bits": 512, "store": 2048, "cache": 1024, "columns": 100,
    "burst": 4, "groups": True,
}  # fmt: skip
CONFIGS = [
    StreamEngineConfig(**SMALL),
    StreamEngineConfig(**{**SMALL, "vectors": 2}),
    StreamEngineConfig(**{**SMALL, "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 4}),
    StreamEngineConfig(**{**SMALL, "products": 4, "cache": 512, "choose": True}),
    StreamEngineConfig(**{**SMALL, "trellis": 4, "kept": 200}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2, "trellis": 2}
    ),
    StreamEngineConfig(**{**SMALL, "seedlm": True}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "beat_bits": 256, "vectors": 4, "seedlm": True}
    ),
    StreamEngineConfig(**GROUPS),
    StreamEngineConfig(**{**GROUPS, "lanes": 8, "vectors": 2}),
    StreamEngineConfig(**{**SMALL, "keys": 2}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "keys": 2, "beat_bits": 256, "vectors": 2}
    ),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 8, "keys": 4, "beat_bits": 256, "vectors": 4}
    ),
]
TRELLIS, CHOOSES = CONFIGS[4], CONFIGS[3]
EXTERNAL = [
    StreamEngineConfig(**{**SMALL, "external": True}),
    StreamEngineConfig(**{**SMALL, "products": 8, "external": True}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 8, "beat_bits": 256, "vectors": 2, "trellis": 2},
        external=True,
    ),
    StreamEngineConfig(**{**SMALL, "keys": 2, "external": True}),
    StreamEngineConfig(
        **{**SMALL, "lanes": 4, "products": 4, "keys": 4, "beat_bits": 256, "external": True}
    ),
]


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls, kind):
    """Two blocks of a program, the second after the first, bit for bit; a third is too long."""
    simulate(StreamEngine(config), case(config, Random(4), kinds=[kind]), stalls=stalls, seed=4)


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize(("config", "stalls"), with_stalls(EXTERNAL), ids=str)
def test_keys_in_memory_match_the_model(config, stalls, kind):
    """Those of two layers, which share the cache."""
    phases = case(config, Random(4), kinds=[kind], layers=2)
    simulate(StreamEngine(config), phases, stalls=stalls, seed=4)


@pytest.mark.parametrize("config", [c for c in (*CONFIGS, *EXTERNAL) if c.keys > 1], ids=str)
def test_blocks_begin_in_any_bank(config):
    """Blocks of one token, and then others: their tokens are in all banks, and some in none."""
    phases = case(config, Random(5), kinds=["decoder"], sizes=(1, 2, 4, 1))
    simulate(StreamEngine(config), phases, seed=5)


#: The ports of the memory.
MEMORY = ("o_command", "o_write", "i_response", "i_read")


class Server:
    """A memory around the core: bursts in order, after random delays, and one fault on request.

    ``fault`` is what happens at beat ``at``: an error, a wrong ``last``, silence, or one more beat;
    or at the write ``at``: "refused", "mute", or "again", one more answer. ``limits`` are the
    addresses that may be written.
    """

    def __init__(self, dut, beats, random, *, fault="", at=0):
        self.dut, self.beats, self.random = dut, list(beats), random
        self.fault, self.at = fault, at
        self.queue: list[tuple[int, bool]] = []
        self.given = 0
        self.bursts = 0
        self.limits = {"first": 0, "end": 0}
        self.writes: list[int] = []
        self.data: list[int] = []
        self.answers = 0

    async def run(self, ctx):
        command, read = self.dut.o_command, self.dut.i_read
        ticks = aiter(ctx.tick().sample(
            command.valid, command.ready, command.payload.address, command.payload.length,
            command.payload.write, read.valid, read.ready,
        ))  # fmt: skip
        wait = 0
        while True:
            ctx.set(command.ready, self.fault != "deaf" and self.random.random() < 0.7)
            if self.queue and not wait and self.random.random() < 0.8:
                address, last = self.queue[0]
                error = 0
                if self.given == self.at and self.fault in ("error", "last"):
                    error, last = self.fault == "error", last ^ (self.fault == "last")
                data = self.beats[address] if address < len(self.beats) else 0
                beat = {"data": data, "error": error, "last": last}
                ctx.set(read.payload, read.payload.shape().const(beat))
                ctx.set(read.valid, not (self.fault == "silent" and self.given == self.at))
            _, _, valid, ready, address, length, write, offered, taken = await anext(ticks)
            wait = max(0, wait - 1)
            if valid and ready and write:
                assert self.limits["first"] <= address < self.limits["end"]
                assert not length
                self.writes.append(address)
            elif valid and ready:
                if not self.queue:
                    wait = self.random.randrange(12)
                self.queue += [(address + k, k == length) for k in range(length + 1)]
                self.bursts += 1
            if offered and taken:
                ctx.set(read.valid, 0)
                again = self.fault == "stray" and self.given == self.at
                self.given += 1
                if not again:
                    self.queue.pop(0)

    async def run_writes(self, ctx):
        """Take beats that are written, and answer each after its command."""
        write, response = self.dut.o_write, self.dut.i_response
        ticks = aiter(ctx.tick().sample(
            write.valid, write.ready, write.payload.data, response.valid, response.ready,
        ))  # fmt: skip
        while True:
            ctx.set(write.ready, self.random.random() < 0.7)
            if self.writes and self.data and self.random.random() < 0.1:
                at_fault = self.answers == self.at
                again = self.fault == "again" and at_fault
                if not again:
                    address, data = self.writes.pop(0), self.data.pop(0)
                    self.beats += [0] * (address + 1 - len(self.beats))
                    self.beats[address] = data
                self.answers += 1
                ctx.set(response.payload.error, self.fault == "refused" and at_fault)
                ctx.set(response.valid, not (self.fault == "mute" and at_fault))
            _, _, valid, ready, data, answered, taken = await anext(ticks)
            if valid and ready:
                self.data.append(data)
            if answered:
                assert taken
                ctx.set(response.valid, 0)

    def forget(self, ctx):
        """Forget all bursts: the core has been reset, or does not wait for them any more."""
        self.queue.clear()
        ctx.set(self.dut.i_read.valid, 0)
        if self.dut.config.writes:
            self.writes.clear()
            self.data.clear()
            ctx.set(self.dut.i_response.valid, 0)


def drawn(config=CONFIGS[0], kind="dense", seed=1, context=8):
    rng = np.random.default_rng(seed)
    engine = drawn_program(kind, rng, size=8, layers=1, trellis=config.trellis, keeps=True)
    image = engine_image(config, engine.program, engine.parameters, block=4, context=context)
    return rng, engine, image


def without_memory(phase):
    """Return a phase whose memory is served by someone else."""
    inputs = {name: beats for name, beats in phase.inputs.items() if name not in MEMORY}
    outputs = {name: beats for name, beats in phase.outputs.items() if name not in MEMORY}
    return Phase(inputs=inputs, outputs=outputs)


class Session:
    """A core with its memory, in a simulation."""

    def __init__(self, beats, config=CONFIGS[0], seed=1, **fault):
        self.dut = StreamEngine(config)
        self.server = Server(self.dut, beats, Random(seed), **fault)
        self.bench = ResetBench(self.dut, others=MEMORY)

    async def expect(self, ctx, phase):
        phase = without_memory(phase)
        assert await self.bench.run_phase(ctx, phase) == self.bench.expected(phase)

    def run(self, process):
        writes = [self.server.run_writes] if self.dut.config.writes else []
        self.bench.run(process, self.server.run, *writes)


def inside_a_matrix(config, image, tokens):
    """Return the number of a beat that is read of the rows of a trellis code."""
    passes = PassEngine(config, image.beats)
    passes.load()
    passes.run(tokens)
    matrix = next(each["address"] for each in passes.records if each["kind"] == "trellis")
    at = next(k for k, (address, *_) in enumerate(passes.accesses) if address == matrix)
    assert passes.accesses[at][1] > 4
    return sum(beats for _, beats, *_ in passes.accesses[:at]) + 2


@pytest.mark.parametrize("fault", ["error", "last", "silent", "stray"])
@pytest.mark.parametrize(("config", "at"), [(CONFIGS[0], 0), (CONFIGS[0], 20), (CONFIGS[0], 50),
                                            (TRELLIS, None)], ids=str)  # fmt: skip
def test_an_error_of_the_memory_ends_a_command(fault, config, at):
    """Loading or running; the next command is right."""
    rng, engine, image = drawn(config)
    blocks = Blocks(config, image, engine)
    tokens = rng.integers(0, WORDS, 3)
    if at is None:
        at = inside_a_matrix(config, image, tokens)
    session = Session(image.beats, config, fault=fault, at=at)
    load, run = blocks.load(), blocks.run(tokens, start=True)
    more = blocks.run(rng.integers(0, WORDS, 2))
    ended = []

    async def process(ctx):
        for phase in (load, run):
            found = await session.bench.run_phase(
                ctx, Phase(inputs=without_memory(phase).inputs, outputs={"o_status": [0]})
            )
            ended.extend(found["o_status"])
        session.server.fault = ""
        if fault == "silent":
            session.server.forget(ctx)
        for phase in (load, run, more):
            await session.expect(ctx, phase)

    session.run(process)
    assert status(config, "load", "memory") in ended or status(config, "run", "memory") in ended


@pytest.mark.parametrize(
    ("config", "after"),
    [*((CONFIGS[0], after) for after in (3, 40, 150, 400, 800)), (TRELLIS, 300), (TRELLIS, 600)],
    ids=str,
)
def test_a_reset_in_the_middle(config, after):
    """The core then has no program."""
    rng, engine, image = drawn(config)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    tokens = rng.integers(0, WORDS, 4)
    load, run = blocks.load(), blocks.run(tokens, start=True)

    async def process(ctx):
        begun = without_memory(load)
        both = Phase(
            inputs={
                "i": begun.inputs["i"] + run.inputs["i"], "i_tokens": run.inputs["i_tokens"]
            },
            outputs={"o_status": [0, 0]},
        )  # fmt: skip
        await session.bench.run_phase(ctx, both, cycles=after)
        await session.bench.reset(ctx)
        session.server.forget(ctx)
        missing = Phase(
            inputs={"i": [job(config, "run")], "i_tokens": token_payloads(config, [1])},
            outputs={"o_status": [status(config, "run", "missing")]},
        )
        for phase in (missing, load, run):
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("late", [1, 7])
def test_beats_that_come_after_a_reset_are_discarded(late):
    """They come when the next command has begun, and are not counted as beats of its burst."""
    config = CONFIGS[0]
    rng, engine, image = drawn(config)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    server, load = session.server, blocks.load()
    run = blocks.run(rng.integers(0, WORDS, 3), start=True)
    begun = Phase(inputs=without_memory(load).inputs, outputs={"o_status": [0]})
    ended = Phase(outputs=without_memory(load).outputs)

    async def process(ctx):
        await session.bench.run_phase(ctx, begun, cycles=2)
        while len(server.queue) < config.burst:
            await ctx.tick()
        server.fault, server.at = "silent", server.given
        await session.bench.reset(ctx)
        ctx.set(session.dut.i_read.valid, 0)
        del server.queue[:-late]
        await session.bench.run_phase(ctx, begun, cycles=6)
        server.fault = ""
        assert await session.bench.run_phase(ctx, ended) == session.bench.expected(ended)
        await session.expect(ctx, run)

    session.run(process)


@pytest.mark.parametrize("config", [CONFIGS[0], EXTERNAL[0]], ids=str)
def test_a_memory_that_takes_no_command_ends_a_command(config):
    """So it does the next one, until the memory takes commands again."""
    rng, engine, image = drawn(config, "decoder", context=9)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    session.server.limits = blocks.limits
    load, run = blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)
    more = blocks.run(rng.integers(0, WORDS, 2))

    async def process(ctx):
        await session.expect(ctx, load)
        session.server.fault = "deaf"
        for phase, kind in ((run, "run"), (load, "load"), (load, "load")):
            begun = Phase(inputs=without_memory(phase).inputs, outputs={"o_status": [0]})
            found = await session.bench.run_phase(ctx, begun)
            assert found["o_status"] == [status(config, kind, "memory")]
        session.server.fault = ""
        for phase in (load, run, more):
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("fault", ["refused", "mute", "again"])
@pytest.mark.parametrize("at", [0, 3, 5])
def test_an_error_of_a_write_ends_a_block(fault, at):
    """The next command is right."""
    config = EXTERNAL[0]
    rng, engine, image = drawn(config, "decoder", context=9)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config, fault=fault, at=at)
    session.server.limits = blocks.limits
    load, run = blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)
    more = blocks.run(rng.integers(0, WORDS, 2))

    async def process(ctx):
        await session.expect(ctx, load)
        begun = Phase(inputs=without_memory(run).inputs, outputs={"o_status": [0]})
        found = await session.bench.run_phase(ctx, begun)
        assert found["o_status"] == [status(config, "run", "memory")]
        session.server.fault = ""
        for phase in (run, more):
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("after", [500, 900, 1500, 2500])
def test_a_reset_while_keys_are_saved(after):
    """The core then has no program, and writes nothing of the block before."""
    config = EXTERNAL[0]
    rng, engine, image = drawn(config, "decoder", context=9)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    session.server.limits = blocks.limits
    load, run = blocks.load(), blocks.run(rng.integers(0, WORDS, 4), start=True)
    more = blocks.run(rng.integers(0, WORDS, 1))

    async def process(ctx):
        for phase in (load, run):
            begun = Phase(inputs=without_memory(phase).inputs, outputs={"o_status": [0]})
            await session.bench.run_phase(ctx, begun, cycles=after)
        await session.bench.reset(ctx)
        session.server.forget(ctx)
        for phase in (load, run, more):
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("other", [{"first": 1}, {"end": -1}])
def test_keys_outside_of_what_may_be_written_are_refused(other):
    """Before anything is done."""
    config = EXTERNAL[0]
    *_, image = drawn(config, "decoder")
    limits = {name: value + other.get(name, 0) for name, value in saved(config, image).items()}
    session = Session(image.beats, config)

    async def process(ctx):
        assert PassEngine(config, image.beats).load(**limits) == "damaged"
        load = Phase(
            inputs={"i": [job(config, "load", **limits)]},
            outputs={"o_status": [status(config, "load", "damaged")]},
        )
        await session.expect(ctx, load)

    session.run(process)


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        *((CONFIGS[0], seed) for seed in range(3)), (TRELLIS, 3), (TRELLIS, 4),
        *((EXTERNAL[0], seed) for seed in range(3)),
    ],
    ids=str,
)  # fmt: skip
def test_hostile_programs_end(config, seed):
    """Each is refused or ends; parts of the store that it writes are the core's own."""
    random = Random(seed)
    rng, engine, image = drawn(config)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config, seed=seed)
    good = [blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)]
    load = Phase(inputs=good[0].inputs, outputs=good[0].outputs)
    seen = set()

    async def process(ctx):
        for _ in range(12):
            session.server.beats = hostile_program(random, config)
            session.server.limits = {"first": 900, "end": random.randrange(900, 1300)}
            limits = session.server.limits if config.external else {}
            for kind in ("load", "run"):
                fields = limits if kind == "load" else {"start": 1}
                inputs = {"i": [job(config, kind, **fields)]}
                if kind == "run":
                    inputs["i_tokens"] = token_payloads(config, [random.randrange(WORDS), 1])
                phase = Phase(inputs=inputs, outputs={"o_status": [0]})
                (ended,) = (await session.bench.run_phase(ctx, phase))["o_status"]
                seen.add(ended)
        session.server.beats = list(image.beats)
        session.server.limits = blocks.limits
        for phase in (load, good[1]):
            await session.expect(ctx, phase)

    session.run(process)
    assert {
        status(config, "load"),
        status(config, "load", "damaged"),
        status(config, "run"),
        status(config, "run", "missing"),
    } <= seen


@pytest.mark.parametrize("config", [CONFIGS[0], TRELLIS], ids=str)
def test_a_damaged_program_is_refused(config):
    """A bit of its header or of a record is another one: nothing is run."""
    random = Random(5)
    rng, engine, image = drawn(config)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)
    good = [blocks.load(), blocks.run(rng.integers(0, WORDS, 3), start=True)]
    size = 2 * (1 + len(image.names))

    async def process(ctx):
        for k in range(40):
            beats = list(image.beats)
            beats[k if k < 2 else random.randrange(size)] ^= 1 << random.randrange(128)
            session.server.beats = beats
            passes = PassEngine(config, tuple(beats))
            name = passes.load()
            assert name in ("damaged", "size")
            load = Phase(
                inputs={"i": [job(config, "load")]},
                outputs={"o_status": [status(config, "load", name)]},
            )
            await session.expect(ctx, load)
        missing = Phase(
            inputs={"i": [job(config, "run")], "i_tokens": token_payloads(config, [1])},
            outputs={"o_status": [status(config, "run", "missing")]},
        )
        await session.expect(ctx, missing)
        session.server.beats = list(image.beats)
        for phase in good:
            await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"lanes": 16}, ValueError, r"lanes must be a power of two in 2\.\.8, not 16"),
        ({"products": 4}, ValueError, r"products must be a power of two in 8\.\.64, not 4"),
        ({"vectors": 3}, ValueError, "vectors must be 1, 2 or 4, not 3"),
        ({"beat_bits": 256}, ValueError, r"beat_bits must be a power of two in 512\.\.1024, not"),
        ({"store": 15}, ValueError, r"store must be in 16\.\.16384, not 15"),
        ({"cache": 1 << 19}, ValueError, r"cache must be in 16\.\.262144, not 524288"),
        ({"records": 3}, ValueError, r"records must be in 4\.\.4096, not 3"),
        ({"block": 0}, ValueError, r"block must be in 1\.\.256, not 0"),
        ({"block": 9, "context": 8}, ValueError, r"context must be in 9\.\.512, not 8"),
        ({"columns": 0}, ValueError, r"columns must be in 1\.\.16383, not 0"),
        ({"address_bits": 33}, ValueError, r"address_bits must be in 8\.\.32, not 33"),
        ({"burst": 128}, ValueError, r"burst must be a power of two in 1\.\.64, not 128"),
        ({"kept": 1}, ValueError, r"kept must be in 0\.\.0, not 1"),
        ({"trellis": 3}, ValueError, "trellis must be 0, 2 or 4, not 3"),
        (
            {"lanes": 2, "products": 2, "beat_bits": 128, "trellis": 2},
            ValueError,
            "beat_bits must be at least 256 with trellis = 2, not 128",
        ),
        ({"external": 1}, TypeError, "external must be True or False, not 1"),
        (
            {"lanes": 2, "products": 32, "beat_bits": 128, "external": True},
            ValueError,
            "products must be at most the 16 bytes of a beat with external = True",
        ),
        ({"choose": 1}, TypeError, "choose must be True or False, not 1"),
        ({"classes": 1}, ValueError, r"classes must be 0 or in 2\.\.256, not 1"),
        ({"classes": 257}, ValueError, r"classes must be in 0\.\.256, not 257"),
        ({"inputs": 1}, TypeError, "inputs must be True or False, not 1"),
        ({"timeout_cycles": 15}, ValueError, r"timeout_cycles must be in 16\.\.65535, not 15"),
        ({"drain_cycles": 7}, ValueError, r"drain_cycles must be in 8\.\.65535, not 7"),
        ({"block": "1"}, TypeError, r"block must be an integer in 1\.\.256, not '1'"),
    ],
)
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        StreamEngineConfig(**params)


@pytest.mark.parametrize("config", [CONFIGS[0], CHOOSES], ids=str)
def test_a_program_that_chooses_is_refused_by_a_core_that_cannot(config):
    rng = np.random.default_rng(1)
    engine = drawn_program("dense", rng, size=8, layers=1, chooses=True)
    image = engine_image(CHOOSES, engine.program, engine.parameters, block=4, context=8)
    blocks = Blocks(config, image, engine)
    session = Session(image.beats, config)

    async def process(ctx):
        phase = blocks.load()
        name = "ok" if config.choose else "damaged"
        assert phase.outputs["o_status"] == [status(config, "load", name)]
        await session.expect(ctx, phase)

    session.run(process)


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[-1]], ids=str)
def test_a_program_for_another_trellis_code_is_refused(config):
    """So is one whose header names none, in a core without a code."""
    *_, image = drawn(TRELLIS)
    record = {"kind": KINDS.index("trellis"), "last": 1, "length": 8, "rows": 3}
    sizes = {"block": 1, "context": 1, "tokens": 1}
    hidden = header_and_records(config, sizes, [record])
    session = Session(image.beats, config)

    async def process(ctx):
        for beats in (image.beats, hidden):
            session.server.beats = list(beats)
            name = PassEngine(config, tuple(beats)).load()
            assert name == ("ok" if config.trellis and beats is hidden else "damaged")
            load = Phase(
                inputs={"i": [job(config, "load")]},
                outputs={"o_status": [status(config, "load", name)]},
            )
            await session.expect(ctx, load)

    session.run(process)
