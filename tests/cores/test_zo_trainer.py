from dataclasses import replace
from random import Random

import numpy as np
import pytest
from strided import strided

from seedbed.golden.training_log import TrainingJob, TrainingLog, digest
from seedbed.golden.zo_trainer import LogEntry
from seedbed.golden.zo_trainer import ZoTrainer as Model
from seedbed.hw.engine.pipeline_timing import cycles
from seedbed.hw.generators.perturbation_rows import rewind
from seedbed.hw.zeroth_order.zo_steps import log_layout
from seedbed.hw.zeroth_order.zo_trainer import ZoTrainer
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.zo_trainer import (
    case,
    class_payloads,
    drawn,
    job,
    log_payload,
    read_out,
    sample_payloads,
    schedule_payloads,
    status,
    training,
    word_payloads,
)
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.sim.memories import checked, memories
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.spec.zo_trainer import ZoTrainerConfig

#: Nothing is read again: all rows come from the generator, in order.
MLP = NetworkConfig(
    (
        Layer(name="a", kind="dense", inputs=(1, 3, 4), outputs=5),
        Layer(name="b", kind="dense", inputs=(5, 1, 1), outputs=3, relu=False),
    )
)
#: Three convolutions, one of them with a map of one pixel.
THREE = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 6, 6), outputs=3, kernel=3, padding=1, pool=2),
        Layer(name="b", kind="conv", inputs=(3, 3, 3), outputs=4, kernel=2, padding=1),
        Layer(name="c", kind="conv", inputs=(4, 4, 4), outputs=4, kernel=4),
        Layer(name="d", kind="dense", inputs=(4, 1, 1), outputs=3, relu=False),
    )
)
#: One buffered row.
ONE = NetworkConfig(
    (
        Layer(name="a", kind="conv", inputs=(1, 3, 3), outputs=2, kernel=2),
        Layer(name="b", kind="dense", inputs=(2, 2, 2), outputs=3, relu=False),
    )
)
STRIDED = strided(1, 3, 4, 3)
SMALL = ZoTrainerConfig(network="tiny", lanes=8, ways=2, batch=8)
RANK_1 = replace(SMALL, perturbation="rank1", levels=4, fraction=6)
CONFIGS = [
    SMALL,
    ZoTrainerConfig(network="tiny", lanes=16, ways=4, magnitude_bits=3, fraction=0, batch=2),
    ZoTrainerConfig(network=MLP, lanes=8, ways=2, batch=3),
    ZoTrainerConfig(network=THREE, lanes=16, ways=1, batch=2),
    ZoTrainerConfig(network=ONE, lanes=8, ways=2, batch=2),
    ZoTrainerConfig(network="tiny", tail=2, lanes=8, ways=2, batch=8),
    ZoTrainerConfig(network="tiny", tail=1, lanes=16, ways=4, magnitude_bits=3, batch=2),
    ZoTrainerConfig(network=STRIDED, tail=1, lanes=8, ways=2, batch=2),
    RANK_1,
    ZoTrainerConfig(
        network="tiny", lanes=16, ways=4, magnitude_bits=6, fraction=8, batch=2,
        perturbation="rank1",
    ),
    ZoTrainerConfig(
        network=THREE, lanes=16, ways=1, batch=2, perturbation="rank1", levels=4, fraction=6
    ),
    ZoTrainerConfig(
        network=STRIDED, tail=1, lanes=8, ways=2, batch=2, perturbation="rank1", levels=4
    ),
]  # fmt: skip
SCHEDULE = [(0, 3, 4, 5)]


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS))
def test_matches_model(config, stalls):
    simulate(ZoTrainer(config), case(config, Random(7), samples=2), stalls=stalls, seed=7)


def session(config=SMALL, seed=1):
    """Return a generator, a model, and the phases that load parameters and a schedule."""
    rng = np.random.default_rng(seed)
    model = drawn(config, rng)
    return (
        rng,
        model,
        [
            Phase(inputs={"i_parameters": word_payloads(config, model.words())}),
            Phase(inputs={"i_schedule": schedule_payloads(config, SCHEDULE)}),
        ],
    )


async def expect(bench, ctx, phase):
    """Run a phase to its last transfer, and compare all outputs."""
    came = await bench.run_phase(ctx, phase)
    assert {name: beats for name, beats in came.items() if beats} == phase.outputs


def test_a_sample_takes_two_passes_and_little_more():
    rng, model, loaded = session()
    phases = training(model, rng, samples=4, batch=4, schedule=SCHEDULE)
    moved = simulate(ZoTrainer(SMALL), Case(phases=loaded + phases, quiet=True)).transfers
    first, *_, last = moved["o"][:3]
    one = cycles(SMALL.engine, *SMALL.engine.plan.base)
    back = rewind(SMALL.perturb) + 1
    assert 2 * one < (last - first) / 2 <= 2 * (one + back) + 60


def test_a_job_begins_with_one_step_whatever_came_before():
    """The average is of the job: each job's first step is a whole one, and later ones differ."""
    rng, model, loaded = session(RANK_1)
    phases, levels = [], []
    for _ in range(2):
        begun = len(phases)
        phases += training(model, rng, samples=6, batch=1, schedule=SCHEDULE)
        log = [
            log_layout(RANK_1).from_bits(payload)
            for phase in phases[begun:]
            for payload in phase.outputs.get("o_log", ())
        ]
        levels.append([entry.level for entry in log])
    assert [each[0] for each in levels] == [2, 2]
    assert len({level for each in levels for level in each}) > 2
    simulate(ZoTrainer(RANK_1), Case(phases=loaded + phases + [read_out(model)], quiet=True))


def test_outputs_come_in_the_order_of_the_page():
    """The log of a batch is before its last class, and the status after everything else."""
    rng, model, loaded = session()
    train = training(model, rng, samples=3, batch=2, schedule=SCHEDULE)
    case = Case(phases=[*loaded, *train, read_out(model)], quiet=True)
    moved = simulate(ZoTrainer(SMALL), case).transfers
    (first, second), classes, ends = moved["o_log"], moved["o"], moved["o_status"]
    train_end, read_end = ends[-2:]
    order = [classes[0], first, classes[1], second, classes[2], train_end]
    order += [*moved["o_parameters"], read_end]
    assert order == sorted(set(order))
    assert len(classes) == 3


def test_a_buffered_row_is_read_long_after_it_is_written(monkeypatch):
    """A pass begins with a return, which takes longer than the buffer's last write."""
    config = ZoTrainerConfig(network=ONE, lanes=8, ways=2, batch=2)
    assert config.perturb.used == (4,)
    found, events = [], []

    def kept(design):
        top = checked(design)
        found.extend(memory for path, memory in memories(top) if path.endswith(".buffer"))
        return top

    async def watch(ctx):
        ((read,), (write,)) = found[0]._read_ports, found[0]._write_ports
        ticks = ctx.tick().sample(write._en, read._en & (read._addr == 0))
        async for _, _, *event in ticks:
            events.append(tuple(event))

    monkeypatch.setattr("seedbed.sim.harness.checked", kept)
    simulate(ZoTrainer(config), case(config, Random(7), samples=2), around=watch)
    writes = [cycle for cycle, (write, _) in enumerate(events) if write]
    reads = [next(k for k, (_, read) in enumerate(events) if read and k >= w) for w in writes]
    assert len(writes) > 1
    assert min(r - w for r, w in zip(reads, writes, strict=True)) > rewind(config.perturb)


def test_every_fault_ends_a_job_and_the_next_one_is_right():
    config = SMALL
    rng, model, loaded = session()
    image = rng.integers(0, 256, config.layers[0].inputs)
    good = {"samples": 1, "epochs": 1, "batch": 1, "exponent": model.exponent}
    phases = [
        Phase(
            inputs={"i": [job(config, "infer", **good)]},
            outputs={"o_status": [status("infer", "parameters")]},
        ),
        Phase(
            inputs={"i": [job(config, "read")]},
            outputs={"o_status": [status("read", "parameters")]},
        ),
        loaded[0],
        Phase(
            inputs={"i": [job(config, "train", **good)]},
            outputs={"o_status": [status("train", "schedule")]},
        ),
    ]
    wrong = [[(1, 3, 4, 1)], [(0, 0, 4, 1)], [(0, 5, 4, 1)], [(0, 3, 4, 1), (2, 1, 0, 1)] * 2]
    wrong.append([(k, 1, 0, 1) for k in range(9)])
    for entries in wrong:
        phases += [
            Phase(inputs={"i_schedule": schedule_payloads(config, entries)}),
            Phase(
                inputs={"i": [job(config, "train", **good)]},
                outputs={"o_status": [status("train", "schedule")]},
            ),
        ]
    phases.append(loaded[1])
    for name in ({"samples": 0}, {"epochs": 0}, {"batch": 0}, {"batch": config.batch + 1}):
        phases.append(
            Phase(
                inputs={"i": [job(config, "train", **good | name)]},
                outputs={"o_status": [status("train", "command")]},
            )
        )
    for beats in (config.image_beats - 1, config.image_beats + 2):
        sent = sample_payloads(config, image, 0, rng, beats)
        # A batch that is broken off leaves the weights as they were; what comes is discarded.
        rest = sample_payloads(config, image, 0, rng)
        phases += [
            Phase(
                inputs={"i": [job(config, "infer", **good)], "i_samples": sent + rest},
                outputs={"o_status": [status("infer", "sample")]},
            ),
            read_out(model),
        ]
    phases += training(model, rng, samples=2, batch=2, schedule=SCHEDULE)
    simulate(ZoTrainer(config), Case(phases=phases, quiet=True), stalls=Stalls.BOTH, seed=4)


def test_a_label_that_is_no_class_is_reported_and_does_not_count():
    config = SMALL
    rng, model, loaded = session()
    image = rng.integers(0, 256, (1, *config.layers[0].inputs))
    fields = {"samples": 1, "epochs": 1, "batch": 1, "exponent": model.exponent}
    sent = sample_payloads(config, image[0], config.classes, rng)
    dut = ZoTrainer(config)

    async def process(ctx):
        for phase in loaded:
            await bench.run_phase(ctx, phase)
        run = Phase(
            inputs={"i": [job(config, "train", **fields)], "i_samples": sent},
            outputs={"o": [0], "o_log": [0], "o_status": [0]},
        )
        came = await bench.run_phase(ctx, run)
        assert came["o"][0] & 1 << 3
        assert came["o_status"] == [status("train", steps=1)]
        await expect(bench, ctx, read_out(model))

    bench = ResetBench(dut)
    bench.run(process)


@pytest.mark.parametrize("after", [40, 300, 700, 1100, 1200])
def test_a_reset_in_the_middle(after):
    """The weights are those of a step's start or end, or are loaded again."""
    config = SMALL
    rng, model, loaded = session()
    schedule, run = training(model, rng, samples=2, batch=2, schedule=SCHEDULE)
    del schedule
    fresh = session()

    async def process(ctx):
        for phase in loaded:
            await bench.run_phase(ctx, phase)
        await bench.run_phase(ctx, run, cycles=after)
        await bench.reset(ctx)
        again = fresh[1]
        for phase in (*fresh[2], *training(again, fresh[0], samples=2, batch=1, schedule=SCHEDULE)):
            await expect(bench, ctx, phase)
        await expect(bench, ctx, read_out(again))

    bench = ResetBench(ZoTrainer(config))
    bench.run(process)


@pytest.mark.parametrize("config", [SMALL, CONFIGS[4], RANK_1], ids=["full-zo", "cls2", "rank-1"])
def test_weights_after_a_reset_are_of_one_side_of_an_update_or_are_refused(config):
    random = Random(3)
    rng, model, loaded = session(config)
    fields = {"samples": 1, "epochs": 1, "batch": 1, "seed": 5, "exponent": model.exponent}
    image = rng.integers(0, 256, (1, *config.layers[0].inputs))
    before = word_payloads(config, model.words())
    best, entry = model.step(image, np.array([1]), seed=5, magnitude=3, zeros=4, update_bits=5)
    classes = class_payloads(config, best)
    after = word_payloads(config, model.words())
    assert entry.sign
    assert before != after
    # Until the log's entry is taken, which begins the update; then until the sample's class.
    log = [log_payload(config, entry)]
    sent = sample_payloads(config, image[0], 1, rng)
    inputs = {"i": [job(config, "train", **fields)], "i_samples": sent}
    train = Phase(inputs=inputs, outputs={"o_log": log})
    rest = Phase(inputs={}, outputs={"o": [0]})
    read = Phase(
        inputs={"i": [job(config, "read")]}, outputs={"o_parameters": [0], "o_status": [0]}
    )
    outputs = {"o_log": log, "o": classes, "o_status": [status("train", steps=1)]}
    every = Phase(inputs=inputs, outputs=outputs)
    moved = simulate(ZoTrainer(config), Case(phases=[*loaded, every], quiet=True)).transfers
    total = moved["o"][0] - moved["o_log"][0]
    between = sorted(random.sample(range(8, total - 4), 2))
    found = []

    async def process(ctx):
        for ticks in (0, *between, *range(total - 2, total + 5, 2)):
            for phase in loaded:
                await bench.run_phase(ctx, phase)
            assert (await bench.run_phase(ctx, train))["o_log"] == log
            if ticks:
                await bench.run_phase(ctx, rest, cycles=ticks)
            await bench.reset(ctx)
            came = await bench.run_phase(ctx, read, cycles=config.parameter_beats * 8)
            words = came["o_parameters"]
            assert came["o_status"] == [status("read", "ok" if words else "parameters")]
            found.append({str(before): "start", str(after): "end"}[str(words)] if words else "")
            await bench.reset(ctx)

    bench = ResetBench(ZoTrainer(config))
    bench.run(process)
    # In this order, each of them.
    assert found == sorted(found, key=["start", "", "end"].index)
    assert set(found) == {"start", "", "end"}


@pytest.mark.parametrize("seed", range(2))
def test_a_job_goes_on_after_resets_at_any_cycle(seed):
    """The host replays the entries of the log that came, and asks for what remains."""
    config, random = SMALL, Random(seed)
    rng, model, _ = session(seed=seed)
    first, exponents = model.weights, model.exponents
    images = rng.integers(0, 256, (3, *config.layers[0].inputs))
    labels = rng.integers(0, config.classes, 3)
    schedule = ((0, 3, 4, 1), (1, 2, 9, 1))
    whole = TrainingJob(samples=3, epochs=2, batch=2, seed=(1 << 32) - 2, schedule=schedule)
    log = TrainingLog(config=config, exponents=exponents, first=digest(first), entries=())
    resets, parts = 0, []

    async def process(ctx):
        nonlocal log, resets
        while rest := whole.remaining(len(log.entries)):
            now = Model(config, log.replay(first, exponents), exponents)
            part = rest[0]
            phases = [
                Phase(inputs={"i_parameters": word_payloads(config, now.words())}),
                Phase(inputs={"i_schedule": schedule_payloads(config, list(part.schedule))}),
                train(part, now.exponent),
            ]
            left = random.randrange(200, 2500)
            for phase in phases:
                came = await bench.run_phase(ctx, phase, cycles=left)
            entries = tuple(logged(config, payload) for payload in came["o_log"])
            parts.append(part.samples)
            log = replace(log, entries=log.entries + entries)
            if came["o_status"]:
                assert came["o_status"] == [status("train", steps=len(entries))]
            else:
                resets += 1
                await bench.reset(ctx)

    def train(part, exponent):
        fields = {"samples": part.samples, "epochs": part.epochs, "batch": part.batch}
        # An epoch that was broken off goes on with its last samples.
        places = [*range(3)][-part.samples :] * part.epochs
        sent = [
            payload
            for place in places
            for payload in sample_payloads(config, images[place], labels[place], rng)
        ]
        command = job(config, "train", **fields, seed=part.seed, exponent=exponent)
        return Phase(inputs={"i": [command], "i_samples": sent}, outputs={"o_status": [0]})

    bench = ResetBench(ZoTrainer(config))
    bench.run(process)
    steps = iter(range(whole.steps))
    for epoch in range(whole.epochs):
        _, magnitude, zeros, _ = schedule[epoch > 0]
        for part in (slice(0, 2), slice(2, 3)):
            at = (whole.seed + next(steps)) & 0xFFFFFFFF
            model.step(images[part], labels[part], seed=at, magnitude=magnitude, zeros=zeros)
    found = log.replay(first, exponents)
    assert all((found[name] == values).all() for name, values in model.weights.items())
    assert len(log.entries) == whole.steps
    assert resets > 1
    # An epoch was broken off.
    assert 1 in parts


def logged(config, payload):
    """Return an entry of the log."""
    fields = log_layout(config).from_bits(payload)
    return LogEntry(fields.seed, fields.phase.magnitude, fields.phase.zeros, fields.sign)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"network": "lenet"}, r"network must be one of .*tiny, not 'lenet'"),
        ({"batch": 0}, r"batch must be in 1\.\.4096, not 0"),
        ({"magnitude_bits": 7}, r"magnitude_bits must be in 1\.\.6, not 7"),
        ({"fraction": 9}, r"fraction must be in 0\.\.8, not 9"),
        ({"perturbation": "rank2"}, r"perturbation must be one of full, rank1, not 'rank2'"),
        ({"levels": 2, "perturbation": "rank1"}, r"levels must be 1 or 4, not 2"),
        ({"levels": 4}, r"levels must be 1 with perturbation 'full', not 4"),
        ({"lanes": 12}, r"lanes must be a power of two, not 12"),
        ({"tail": 3}, r"tail must be in 0\.\.2, not 3"),
        ({"network": THREE, "tail": 2}, r"c is trained by backpropagation: it must be dense"),
        ({"network": "tiny", "tail": 2, "ways": 8}, r"ways must divide the channels before a tail"),
        ({"network": NetworkConfig(MLP.layers[:1])}, r"a gives the logits: it must be dense"),
    ],
)
def test_refuses(params, sentence):
    with pytest.raises(ValueError, match=sentence):
        ZoTrainerConfig(**params)
