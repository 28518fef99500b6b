from random import Random

import numpy as np
import pytest
from strided import strided

from seedbed.golden.fixed import Saturations
from seedbed.hw.adapters import layer_engine
from seedbed.hw.adapters.instantft import COUNTERS, InstantFt
from seedbed.hw.adapters.train_adapters import TrainAdapters
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.instantft import Fault, Session, case
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.sim.memory_bench import MemoryBench
from seedbed.spec.fixed import Q8_16, Fixed
from seedbed.spec.instantft import INSTANTFT_STATUS, InstantFtConfig
from seedbed.spec.network import Layer, NetworkConfig

#: Simulated in seconds, whatever is done with it.
MICRO = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 4, 4), outputs=2, kernel=3, padding=1, pool=2),
        Layer(name="b", kind="dense", inputs=(2, 2, 2), outputs=3, relu=False),
    )
)
SMALL = InstantFtConfig(network=MICRO, lanes=8, ways=2, rank=2, entries=4)
WIDE = {"values": Q8_16, "accumulators": Q8_16}
#: Rows of images with a beat that is partly filled; several channels; a last layer with a map.
MAPS = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(2, 3, 3), outputs=4, kernel=2, padding=1, pool=2),
        Layer(name="b", kind="conv", inputs=(4, 2, 2), outputs=3, kernel=2, relu=False),
    )
)
STRIDED = strided(1, 2, 3, 3)
#: Maps that are stored twice: with padding for the next layer, and densely for the cache.
PADDED = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 5, 5), outputs=3, kernel=3, padding=1),
        Layer(name="b", kind="conv", inputs=(3, 5, 5), outputs=4, kernel=3, padding=1, stride=2),
        Layer(name="c", kind="conv", inputs=(4, 3, 3), outputs=2, kernel=3, padding=1, pool=2),
        Layer(name="d", kind="dense", inputs=(2, 1, 1), outputs=3, relu=False),
    )
)
CONFIGS = [
    InstantFtConfig(network=MICRO, lanes=16, ways=2, rank=2, entries=3, block=32),
    InstantFtConfig(network=MICRO, lanes=8, ways=1, rank=1, entries=3, **WIDE),
    InstantFtConfig(network=MAPS, lanes=8, ways=4, rank=4, entries=3),
    # Two beats of memory a row, and one.
    InstantFtConfig(network=MICRO, lanes=32, ways=2, rank=2, entries=3, beat_bits=64),
    InstantFtConfig(network=MICRO, lanes=8, ways=2, rank=2, entries=3, beat_bits=32),
    InstantFtConfig(network=STRIDED, lanes=8, ways=2, rank=2, entries=3),
    InstantFtConfig(network=PADDED, lanes=8, ways=2, rank=2, entries=3),
    InstantFtConfig(network=PADDED, lanes=32, ways=2, rank=2, entries=3),
]
RATE = 80000


def session(config, seed=1, **params):
    return Session(config=config, rng=np.random.default_rng(seed), **params)


def loaded(config, seed=1, **params):
    """Return a session behind its parameters' two packets."""
    made = session(config, seed, **params)
    for trainable in (False, True):
        made.load(trainable=trainable)
    return made


def test_matches_model():
    """Every command, and every fault with good jobs behind it."""
    simulate(InstantFt(SMALL), case(SMALL, Random(5)), stalls=Stalls.BOTH, seed=5)


def test_job_matches_model():
    """Without stalls, as fast as the core is."""
    script = loaded(SMALL)
    script.train([[0, 3, 1], [1, 3, 0]], batch=2, rate=RATE)
    script.order("read")
    simulate(InstantFt(SMALL), Case(phases=script.phases(), quiet=True))


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS))
def test_configurations_match_model(config, stalls):
    script = loaded(config)
    script.train([[0, 2], [2, 0]], batch=2, rate=RATE)
    script.order("read")
    script.infer([1])
    simulate(InstantFt(config), Case(phases=script.phases(), quiet=True), stalls=stalls, seed=7)


def bench(config, seed):
    return MemoryBench(InstantFt(config), config.forward_cache.page, seed)


def counters(ctx, dut):
    return {name: ctx.get(getattr(dut.counters, name)) for name in COUNTERS}


def test_behind_a_slow_memory():
    """Late bursts with gaps; what is counted; what is in memory at the end."""
    config = SMALL
    script = loaded(config)
    before = script.model.saturations.count
    script.train([[0, 2, 1], [2, 1, 0]], batch=2, rate=RATE)
    saturated = script.model.saturations.count - before
    script.order("read")
    first = script.phases()
    script.infer([1, 0])
    second = script.phases()

    async def process(ctx):
        for phase in first:
            assert await played.run_phase(ctx, phase) == played.expected(phase)
        seen = counters(ctx, played.dut)
        assert seen.pop("cycles") > 1000
        assert seen == {
            "samples": 6, "hits": 3, "misses": 3, "batches": 4, "saturations": saturated,
        }  # fmt: skip
        for phase in second:
            assert await played.run_phase(ctx, phase) == played.expected(phase)
        seen = counters(ctx, played.dut)
        assert (seen["samples"], seen["misses"]) == (2, 2)
        assert seen["batches"] == seen["hits"] == 0

    played = bench(config, 3)
    played.run(process)
    entries = script.memory.entries
    assert sorted(entries) == [0, 1, 2]
    beats = config.forward_cache.beats
    assert played.memory.cells == {
        index * beats + k: word
        for index, entry in entries.items()
        for k, word in enumerate(script.memory.model.words(entry))
    }


#: Formats so narrow that nothing stays within them.
NARROW = {
    "values": Fixed(12, 8), "weights": Fixed(8, 5), "adapters": Fixed(8, 6),
    "gradients": Fixed(7, 5), "accumulators": Fixed(10, 7), "peak_width": 8,
}  # fmt: skip


@pytest.mark.parametrize("network", [MICRO, PADDED], ids=["dense", "padded"])
def test_saturates_as_the_model_does(monkeypatch, network):
    """Both ends of every format are reached, and as many numbers are counted.

    A map that is stored twice is counted once.
    """
    ends = set()
    fit = Saturations.saturate

    def watched(self, numbers, form):
        beyond = [np.any(numbers < form.low), np.any(numbers > form.high)]
        ends.update((form, end) for end in (0, 1) if beyond[end])
        return fit(self, numbers, form)

    monkeypatch.setattr(Saturations, "saturate", watched)
    config = InstantFtConfig(network=network, lanes=8, ways=2, rank=2, entries=4, **NARROW)
    script = session(config, seed=4, gain=6.0)
    rng, form = script.rng, config.adapters
    lora = script.model.lora
    lora.b = [rng.integers(form.low, form.high + 1, b.shape) for b in lora.b]
    for trainable in (False, True):
        script.load(trainable=trainable)
    script.train([[0, 1, 2, 3]] * 2, batch=4, rate=(1 << config.lora.rate_width) - 1)
    counted = script.model.saturations.count
    script.order("read")
    wanted = {
        (getattr(config, name), end)
        for name in ("values", "adapters", "gradients", "accumulators")
        for end in (0, 1)
    }
    assert wanted <= ends
    phases = script.phases()

    async def process(ctx):
        for phase in phases:
            assert await played.run_phase(ctx, phase) == played.expected(phase)
        assert counters(ctx, played.dut)["saturations"] == counted

    played = bench(config, 4)
    played.run(process)


def test_faults_leave_the_adapters_of_whole_batches():
    """One behind the other: in the first batch, and behind a whole one."""
    script = loaded(SMALL)
    script.train([[0, 1, 2]], batch=1, rate=RATE)
    last = SMALL.forward_cache.beats - 1
    for fault in (
        Fault(0, "short", 7),
        Fault(2, "long"),
        Fault(1, "index", (1 << 16) - SMALL.entries),
        Fault(2, "fetch", last),
        Fault(1, "burst", -1),
        Fault(2, "burst", -last),
        Fault(0, "burst", 1),
    ):
        script.train([[0, 1, 2]], batch=2, rate=RATE, fault=fault)
        script.order("read")
    script.order("forget")
    for burst in (0, 1):
        script.train([[1, 0, 2]], batch=2, rate=RATE, fault=Fault(2, "store", burst))
        script.train([[1, 2]], batch=2, rate=RATE)
        script.order("forget")
    script.order("read")
    simulate(InstantFt(SMALL), Case(phases=script.phases(), quiet=True), seed=8)


def test_garbage_from_memory_leaves_no_trace():
    """Whatever an entry's beats hold when one has an error: samples after it are the model's."""
    config = CONFIGS[0]
    script = loaded(config)
    for beat in range(config.forward_cache.beats):
        script.train([[0]], batch=1, rate=RATE)
        script.train([[0]], batch=1, rate=RATE, fault=Fault(0, "fetch", beat))
        script.order("forget")
        script.train([[1, 2]], batch=1, rate=RATE)
    script.order("read")
    simulate(InstantFt(config), Case(phases=script.phases(), quiet=True))


def test_every_status_is_tested():
    kinds = ("short", "long", "index", "fetch", "store", "burst")
    ends = {Fault(0, kind).status for kind in kinds}
    assert ends | {"ok", "command", "parameters"} == set(INSTANTFT_STATUS)


def test_parameters_wait_for_what_still_runs():
    """A packet that is there too early is not written while gradients are still added up."""
    script = loaded(SMALL)
    script.train([[0, 1]], batch=2, rate=RATE, fault=Fault(1, "index"))
    *first, job = script.phases()
    script.discarding = False
    script.load(trainable=True)
    script.order("read")
    packet, read = script.phases()
    rest = job.inputs | {"i": [], "i_parameters": packet.inputs["i_parameters"]}
    job = [
        Phase(inputs={"i": job.inputs["i"]}),
        Phase(inputs=rest, outputs=job.outputs, after=job.after),
    ]
    simulate(InstantFt(SMALL), Case(phases=[*first, *job, read], quiet=True))


def test_commands_wait_for_the_end_of_a_packet():
    script = loaded(SMALL)
    script.order("read")
    *_, packet, read = script.phases()
    words = packet.inputs["i_parameters"]
    phases = [
        Phase(inputs={"i_parameters": words[:5]}),
        # The command is there first, for `i` is idle until the rest of the packet comes.
        Phase(inputs={"i": read.inputs["i"], "i_parameters": words[5:]}, outputs=read.outputs),
    ]
    simulate(InstantFt(SMALL), Case(phases=phases, quiet=True), stalls=Stalls.VALID, seed=3)


def snapshots(script, job):
    """Return the adapters' words before a job and behind each of its batches."""
    found = []
    update = script.model.lora.update

    def kept(*arguments):
        update(*arguments)
        found.append((list(script.model.lora.a), list(script.model.lora.b)))

    found.append((list(script.model.lora.a), list(script.model.lora.b)))
    script.model.lora.update = kept
    job()
    script.model.lora.update = update
    return found


def words_of(script):
    """Return what `read` must give."""
    script.order("read")
    return script.phases()[-1]


async def intact(played, ctx, script, states):
    """Read the adapters behind a reset: they must be one of ``states``; go on from there."""
    script.known.clear()
    script.memory.entries.clear()
    script.discarding = False
    found = {}
    for k, (a, b) in enumerate(states):
        script.model.lora.a, script.model.lora.b = list(a), list(b)
        found[tuple(words_of(script).outputs["o_parameters"])] = k
    came = await played.run_phase(ctx, words_of(script))
    now = found[tuple(came["o_parameters"])]
    script.model.lora.a, script.model.lora.b = (list(part) for part in states[now])
    return now


def test_reset_in_the_middle_of_a_job():
    """Adapters are those of as many whole batches as were over, and the next job works."""
    script = loaded(SMALL)
    setup = script.phases()
    random = Random(1)

    async def process(ctx):
        for phase in setup:
            await played.run_phase(ctx, phase)
        for memory in (True, False, False, False):
            epochs = [[0, 1, 2], [2, 0, 1]]
            states = snapshots(script, lambda e=epochs: script.train(e, batch=2, rate=RATE))
            [job] = script.phases()
            came = await played.run_phase(ctx, job, cycles=random.randint(50, 2500))
            await played.reset(ctx, memory=memory)
            results = len(came["o"])
            # Batches are of two, one, two and one sample.
            over = [0, 0, 1, 2, 2, 3, 4, 4][results]
            assert await intact(played, ctx, script, states) in (over - 1, over)
        script.train([[1, 2]], batch=2, rate=RATE)
        phase = script.phases()[-1]
        assert await played.run_phase(ctx, phase) == played.expected(phase)

    played = bench(SMALL, 1)
    played.run(process)


def test_reset_in_the_middle_of_an_update(monkeypatch):
    """The old adapters or the new ones, never a mixture: in every twentieth cycle of an update."""
    script = loaded(SMALL)
    setup = script.phases()
    seen, trainers = [], []

    class Trainer(TrainAdapters):
        def elaborate(self, platform):
            trainers.append(self)
            return super().elaborate(platform)

    monkeypatch.setattr(layer_engine, "TrainAdapters", Trainer)

    async def process(ctx):
        for phase in setup:
            await played.run_phase(ctx, phase)
        busy = trainers[0].updating
        for cycle in range(0, 1000, 20):
            states = snapshots(script, lambda: script.train([[0]], batch=1, rate=RATE))
            [job] = script.phases()
            await played.run_phase(ctx, job, until=busy)
            for _ in range(cycle):
                await ctx.tick()
            over = not ctx.get(busy)
            await played.reset(ctx)
            seen.append(await intact(played, ctx, script, states))
            assert seen[-1] == over or not over
            if over:
                break

    played = bench(SMALL, 2)
    played.run(process)
    assert seen[0] == 0
    assert seen[-1] == 1


@pytest.mark.parametrize("trainable", [False, True])
def test_reset_in_the_middle_of_a_packet(trainable):
    """Adapters are the old ones until the last word of new ones has come."""
    script = loaded(SMALL)
    setup = script.phases()
    old = [(list(script.model.lora.a), list(script.model.lora.b))]

    async def process(ctx):
        for phase in setup:
            await played.run_phase(ctx, phase)
        script.model.lora.a = [a + 1 for a in script.model.lora.a]
        script.load(trainable=trainable)
        [packet] = script.phases()
        for cycles in (9, 150):
            await played.run_phase(ctx, packet, cycles=cycles)
            await played.reset(ctx)
            assert await intact(played, ctx, script, old) == 0

    played = bench(SMALL, 1)
    played.run(process)
