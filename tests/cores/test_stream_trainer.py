"""The trainer of programs: trainings without a host, and how they end."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from seedbed.golden.engine_image import engine_image
from seedbed.golden.kept_weights import tuned
from seedbed.golden.stream_trainer import Sample, Work, sample_bytes
from seedbed.golden.tuning_log import deltas
from seedbed.hw.kept.stream_trainer import StreamTrainer
from seedbed.hw.kept.stream_trainer_layouts import log_layout, status_layout
from seedbed.hw.memory.memory_port import command_layout
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import Blocks, drawn
from seedbed.sim.cases.stream_programs import WORDS
from seedbed.sim.cases.stream_trainer import Trainings, case, drawn_samples, job, status
from seedbed.sim.harness import Stalls, simulate
from seedbed.sim.memory_bench import PORTS
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import STREAM_TRAINER_STATUS, StreamTrainerConfig
from tests.cores.test_stream_engine import SMALL, Server, without_memory

CONFIG = StreamTrainerConfig(**SMALL, kept=200, tune=4, classes=60, sample=40, batch=4)
VECTORS = replace(CONFIG, inputs=True)
OTHER = StreamTrainerConfig(
    **SMALL | {"lanes": 4, "products": 4, "beat_bits": 256, "vectors": 2}, kept=200, tune=3,
    classes=50, sample=33, batch=3, inputs=True, trellis=2, external=True,
)  # fmt: skip
WORK = Work(batch=2, seed=77, eps=9, rate=900, shift=9, most=20)


@pytest.mark.parametrize("config", [CONFIG, VECTORS, OTHER], ids=str)
def test_matches_model(config):
    """The simulations of reports have an encoder, with all kinds of stalls."""
    phases = case(config, Random(2), kinds=["dense"])
    simulate(StreamTrainer(config), phases, stalls=Stalls.BOTH, seed=2)


def trainings(config, *, seed=1, sizes=(3, 3, 3)):
    """Return a dense program, and random samples of it."""
    rng = np.random.default_rng(seed)
    engine = drawn(config.engine, "dense", rng)
    image = engine_image(config.engine, engine.program, engine.parameters, block=4, context=4)
    blocks = Blocks(config.engine, image, engine)
    return Trainings(config, blocks, drawn_samples(config, engine.program, rng, sizes))


class Session:
    """A core with its memory, in a simulation."""

    def __init__(self, of, seed=1):
        self.of, self.dut = of, StreamTrainer(of.config)
        self.server = Server(self.dut, of.beats, Random(seed))
        self.server.limits = of.blocks.limits
        self.bench = ResetBench(self.dut, others=PORTS)
        self.load = of.given(of.blocks.load())

    @property
    def words(self):
        """The kept weights in memory."""
        return self.kept(self.server.beats)

    def kept(self, beats):
        """Return the kept weights in the beats of a memory."""
        size = self.of.config.beat_bits // 8
        some = beats[slice(*self.of.blocks.image.tuned)]
        return np.frombuffer(b"".join(beat.to_bytes(size, "little") for beat in some), "<u4")

    def replayed(self, log):
        """Return the kept weights after the steps of a log."""
        config, layout = self.of.config, log_layout(self.of.config)
        words = self.kept(self.of.beats)
        for step in map(layout.from_bits, log):
            for delta in deltas(WORK.eps, step.change):
                words = tuned(config.engine, words, seed=step.seed, delta=delta)
        return words

    async def expect(self, ctx, phase):
        phase = without_memory(phase)
        assert await self.bench.run_phase(ctx, phase) == self.bench.expected(phase)

    async def begin(self, ctx, command, cycles):
        """Begin a training; return its log after some cycles, or its status if it has ended."""
        phase = Phase(inputs={"i": [command]}, outputs={"o_status": [0]})
        found = await self.bench.run_phase(ctx, phase, cycles=cycles)
        return found["o_log"], found["o_status"]

    async def end(self, ctx, *inputs):
        phase = Phase(inputs={"i": list(inputs)}, outputs={"o_status": [0]})
        found = await self.bench.run_phase(ctx, phase)
        (code,) = found["o_status"]
        return found["o_log"], status_layout().from_bits(code)

    def run(self, process):
        self.bench.run(process, self.server.run, self.server.run_writes)


def test_an_aborted_training_takes_its_perturbation_back():
    """The values are those of the steps in the log, and the next training is right."""
    of = trainings(CONFIG)
    session = Session(of)
    good = of.train(WORK)
    steps = []

    async def process(ctx):
        await session.expect(ctx, session.load)
        for after in (1, 60, 300, 500, 700, 900, 1300, 9000):
            log, ended = await session.begin(ctx, of.command(replace(WORK, epochs=9)), after)
            assert not ended
            more, code = await session.end(ctx, job(CONFIG, "abort"))
            log += more
            steps.append(code.steps)
            assert STREAM_TRAINER_STATUS[code.status] == "aborted"
            assert code.steps == len(log)
            assert (session.words == session.replayed(log)).all()
            session.server.beats = list(of.beats)
        await session.expect(ctx, good)
        assert (session.words == session.replayed(good.outputs["o_log"])).all()

    session.run(process)
    assert min(steps) == 0 < max(steps)


@pytest.mark.parametrize("fault", ["error", "last", "silent", "stray", "refused", "mute"])
def test_an_error_of_the_memory_ends_a_training(fault):
    """The next one is right, on the image as it was at first."""
    of = trainings(CONFIG)
    session = Session(of)
    good = of.train(WORK)

    async def process(ctx):
        server = session.server
        for at in (0, 30, 110):
            await session.expect(ctx, session.load)
            # Fewer beats are written than read.
            server.fault, server.at = fault, server.answers + at // 8
            if fault in ("error", "last", "silent", "stray"):
                server.at = at + server.given
            log, ended = await session.begin(ctx, of.command(WORK), 20000)
            code = status_layout().from_bits(ended[0])
            assert STREAM_TRAINER_STATUS[code.status] == "memory"
            assert code.steps in (len(log), len(log) - 1)
            server.fault = ""
            if fault == "silent":
                server.forget(ctx)
            while server.writes:
                await ctx.tick()
            await ctx.tick().repeat(CONFIG.drain_cycles)
            server.beats = list(of.beats)
        for phase in (session.load, good):
            await session.expect(ctx, phase)
        assert (session.words == session.replayed(good.outputs["o_log"])).all()

    session.run(process)


@pytest.mark.parametrize(("fault", "number"), [("error", 2), ("last", 0), ("stray", 3)])
def test_a_sample_with_an_error_changes_nothing(fault, number):
    """Of either pass: the perturbation is taken back."""
    of = trainings(CONFIG)
    session = Session(of)
    before = session.words.copy()

    async def process(ctx):
        server = session.server
        await session.expect(ctx, session.load)
        phase = of.train(WORK)
        # Beats that are read before a sample: those of weights that are changed, and of passes.
        addresses = [
            at
            for command in phase.outputs["o_command"]
            for at in _reads(CONFIG, command)
        ]  # fmt: skip
        places = [k for k, at in enumerate(addresses) if at >= of.first]
        server.fault, server.at = fault, server.given + places[number]
        log, ended = await session.begin(ctx, of.command(WORK), 20000)
        code = status_layout().from_bits(ended[0])
        assert STREAM_TRAINER_STATUS[code.status] == "memory"
        assert not log
        assert (session.words == before).all()

    session.run(process)


def _reads(config, command):
    """Return the addresses of a burst that is read."""
    fields = command_layout(config.address_bits).from_bits(command)
    return [] if fields.write else range(fields.address, fields.address + fields.length + 1)


def test_a_reset_in_the_middle():
    """The core then has no program, and trains nothing without one."""
    of = trainings(CONFIG)
    session = Session(of)
    good = of.train(WORK)

    async def process(ctx):
        missing = Phase(
            inputs={"i": [of.command(WORK)]}, outputs={"o_status": [status("train", "missing")]}
        )
        for after in (5, 100, 400, 700, 1100):
            await session.expect(ctx, session.load)
            await session.begin(ctx, of.command(WORK), after)
            await session.bench.reset(ctx)
            session.server.forget(ctx)
            before = session.words.copy()
            await session.expect(ctx, missing)
            assert (session.words == before).all()
            session.server.beats = list(of.beats)
        for phase in (session.load, good):
            await session.expect(ctx, phase)

    session.run(process)


REFUSED = [
    ({"samples": 0}, "command"), ({"epochs": 0}, "command"), ({"batch": 0}, "command"),
    ({"batch": 5}, "command"), ({"head": 0}, "command"), ({"head": 40}, "command"),
    ({"vectors": 0}, "command"), ({"vectors": 1 << 19}, "command"), ({"delta": -1}, "command"),
    ({"delta": 16385, "most": 0}, "command"), ({"delta": 16384, "most": 16384}, "command"),
    ({"seed": 0}, "command"), ({"end": 60000}, "damaged"), ({"first": 0}, "damaged"),
    ({"vectors": 1}, "tokens"), ({"address": 0}, "tokens"),
]  # fmt: skip


def test_a_training_that_cannot_be_run_is_refused():
    """Nothing is changed by it, or it is taken back."""
    of = trainings(VECTORS)
    session = Session(of)
    before = session.words.copy()

    async def process(ctx):
        await session.expect(ctx, session.load)
        for fields, name in REFUSED:
            _, code = await session.end(ctx, of.command(WORK, **fields))
            assert (STREAM_TRAINER_STATUS[code.status], code.steps) == (name, 0), fields
            assert (session.words == before).all(), fields

    session.run(process)


def test_the_greatest_perturbation_fits():
    """eps and `most` are as large as they may be, so that values saturate."""
    of = trainings(CONFIG)
    session = Session(of)
    good = of.train(Work(batch=3, seed=5, eps=16384, rate=65535, shift=0, most=16383))
    changes = [log_layout(CONFIG).from_bits(beat).change for beat in good.outputs["o_log"]]
    assert changes[0] in (-16383, 16383)

    async def process(ctx):
        for phase in (session.load, good):
            await session.expect(ctx, phase)

    session.run(process)


def test_the_last_word_of_a_head_is_the_last_token():
    """Though the word has no mark, and a sample with too many tokens ends the training."""
    of = trainings(CONFIG, sizes=(4, 4))
    session = Session(of)
    for k in (of.first, of.first + 1):
        session.server.beats[k] &= ~sum(1 << 32 * word + 23 for word in range(4))
    session.server.limits = of.blocks.limits
    good = of.train(WORK)

    async def process(ctx):
        for phase in (session.load, good):
            await session.expect(ctx, phase)
        two = of.command(WORK, head=2, samples=1, batch=1)
        _, code = await session.end(ctx, two)
        assert STREAM_TRAINER_STATUS[code.status] == "tokens"

    session.run(process)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"tune": 0}, r"tune must be in 1\.\.12, not 0"),
        ({"classes": 0}, r"classes must be in 2\.\.256, not 0"),
        ({"sample": 1}, r"sample must be in 2\.\.4096, not 1"),
        ({"batch": 4097}, r"batch must be in 1\.\.4096, not 4097"),
    ],
)
def test_refuses(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(CONFIG, **params)


def test_refuses_samples():
    tokens = np.arange(5) % WORDS
    with pytest.raises(ValueError, match=r"a sample must have 1\.\.4 tokens in 1 beats, not 5"):
        _bytes(Sample(tokens, tokens), 1)
    with pytest.raises(ValueError, match="a sample must have 40 beats at most, not 42"):
        _bytes(Sample(tokens, tokens, np.zeros((5, 64), np.int64)), 2)
    with pytest.raises(ValueError, match=r"most must be in 0\.\.32758, not 40000"):
        replace(WORK, most=40000)


def _bytes(sample, head):
    return sample_bytes(VECTORS, sample, head)
