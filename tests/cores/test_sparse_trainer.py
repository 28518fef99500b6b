# amaranth: UnusedElaboratable=no
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from seedbed.golden.sparse_trainer import LogEntry
from seedbed.hw.kept.sparse_trainer import SparseTrainer
from seedbed.hw.kept.sparse_trainer_layouts import log_layout
from seedbed.hw.memory.memory_port import read_layout
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.sparse_trainer import (
    case,
    drawn,
    entry_payloads,
    faults,
    job,
    load,
    read_out,
    reads,
    refused,
    row_payloads,
    sample_payloads,
    status,
    training,
)
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import DenseLayer, SparseTrainerConfig
from seedbed.spec.fixed import Fixed
from seedbed.spec.sparse_trainer import require_layers
from tests.cores.test_stream_engine import Server, without_memory

SMALL = SparseTrainerConfig(
    block=4, latent=1, width=8, layers=3, columns=20, classes=5, entries=16, batch=4, beat_bits=32,
    activation_width=12, value_width=12, number_width=6, most_shift=9, address_bits=12, burst=8,
    drain_cycles=16, timeout_cycles=400,
)  # fmt: skip
CONFIGS = [
    SMALL,
    # One bias per beat, one activation per group, and a class for each label.
    replace(SMALL, block=3, latent=2, plain_width=11, classes=4, layers=2, entries=7),
    replace(SMALL, beat_bits=128, block=8, activation_width=16, logits=Fixed(16, 8), burst=2),
    replace(SMALL, layers=1, columns=6, activation_width=20, value_width=16, most_shift=0),
    # Trellis codes: rows of several beats, and of one, with several scales a beat.
    replace(SMALL, decode="trellis"),
    replace(SMALL, decode="trellis", bits=3, state_bits=8, beat_bits=128, activation_width=16),
    # The other sources of perturbations.
    replace(SMALL, source="urng"),
    replace(SMALL, source="pool", layers=2),
]
GOOD = {"samples": 1, "epochs": 1, "batch": 1}


@pytest.mark.parametrize(("config", "stalls"), with_stalls(CONFIGS), ids=str)
def test_matches_model(config, stalls):
    simulate(SparseTrainer(config), case(config, Random(7)), stalls=stalls, seed=7)


def session(config=SMALL, seed=1, sizes=(18, 14, 5)):
    """Return a generator and a model."""
    rng = np.random.default_rng(seed)
    return rng, drawn(config, rng, sizes)


def test_every_fault_ends_a_job_and_the_next_one_is_right():
    config = SMALL
    rng, model = session()
    phases = faults(model)
    # Ten tables that are refused, and the right one.
    assert sum("i_layers" in phase.inputs for phase in phases) == 11
    sent = np.vstack([model.entries(0)[[0, 1, 1, 3, 4]], model.entries(1)])
    repeated = Phase(
        inputs={"i": [job(config, "load")], "i_entries": entry_payloads(config, sent)},
        outputs={"o_status": [status("load", "repeated")]},
    )
    phases += [repeated, refused(config, "infer", "entries", **GOOD), load(model)[1]]
    x = rng.integers(-9, 9, model.layers[0].columns)
    group = config.gemv.group
    beats = -(-len(x) // group)
    for count in (1, beats - 1, beats + 2):
        sent = sample_payloads(config, x, 0, beats=count) + sample_payloads(config, x, 0)
        bad = Phase(
            inputs={"i": [job(config, "train", **GOOD)], "i_samples": sent},
            outputs={"o_status": [status("train", "sample")]},
        )
        phases += [bad, read_out(model)]
    phases += [training(model, rng, samples=2, batch=2), read_out(model)]
    # Without pauses of the inputs: samples that come before their command are discarded.
    simulate(SparseTrainer(config), Case(phases=phases, quiet=True), stalls=Stalls.READY, seed=4)


def test_a_plain_layer_is_refused_with_a_trellis_code():
    config = replace(SMALL, decode="trellis")
    rng, model = session(config)
    rows = row_payloads(config, [model.layers[0], replace(model.layers[1], plain=True)])
    phases = [
        Phase(inputs={"i_layers": rows}),
        refused(config, "load", "layers"),
        *load(model),
        training(model, rng, samples=2, batch=2),
        read_out(model),
    ]
    simulate(SparseTrainer(config), Case(phases=phases, quiet=True), stalls=Stalls.READY, seed=4)
    with pytest.raises(ValueError, match="layer 1 must not be plain, with the decode trellis"):
        require_layers(config, [model.layers[0], replace(model.layers[1], plain=True)])


def _damaged(beats, k, change, config=SMALL):
    layout = read_layout(config.beat_bits)
    found = layout.from_bits(beats[k])
    fields = {name: getattr(found, name) for name in ("data", "error", "last")}
    return [*beats[:k], layout.const(fields | change(fields)).as_bits(), *beats[k + 1 :]]


@pytest.mark.parametrize("fault", ["error", "early", "missing", "silent", "stray"])
@pytest.mark.parametrize("at", [0, 9, 40])
def test_an_error_of_the_memory_ends_a_job(fault, at):
    config = SMALL
    rng, model = session()
    x = rng.integers(-9, 9, model.layers[0].columns)
    _, beats, after = reads(model, 1)
    ends = [k for k, beat in enumerate(beats) if read_layout(config.beat_bits).from_bits(beat).last]
    middle = [k for k in range(len(beats)) if k not in ends]
    change = {
        "error": lambda f: {"error": 1},
        "early": lambda f: {"last": 1},
        "missing": lambda f: {"last": 0},
        "silent": lambda f: {},
        "stray": lambda f: {},
    }[fault]
    k = min((k for k in (ends if fault == "missing" else middle) if k >= at), default=ends[-1])
    beats = _damaged(beats, k, change)
    if fault == "silent":
        beats = beats[:k]
    sent = {"i": [job(config, "train", **GOOD)], "i_samples": sample_payloads(config, x, 1)}
    dut = SparseTrainer(config)

    async def process(ctx):
        for phase in load(model):
            await bench.run_phase(ctx, phase)
        if fault == "stray":
            await bench.run_phase(ctx, Phase(inputs={"i_read": beats[:1]}))
        run = Phase(
            inputs=sent | ({} if fault == "stray" else {"i_read": beats}),
            outputs={"o_status": [0]},
            after={"i_read": {"o_command": after}},
        )
        came = await bench.run_phase(ctx, run, cycles=3000)
        assert came["o_status"] == [status("train", "memory")]
        assert not came["o_log"]
        bench.clear_inputs(ctx)
        for phase in (read_out(model), training(model, rng, samples=1, batch=1), read_out(model)):
            came = await bench.run_phase(ctx, phase)
            assert came == bench.expected(phase)

    bench = ResetBench(dut)
    bench.run(process)


class Session:
    """A core with its memory, in a simulation."""

    def __init__(self, model):
        cells, self.model = model.beats(), model
        beats = [cells.get(address, 0) for address in range(max(cells) + 1)]
        self.dut = SparseTrainer(model.config)
        self.server = Server(self.dut, beats, Random(1))
        self.bench = ResetBench(self.dut, others=("o_command", "i_read"))

    async def expect(self, ctx, *phases):
        for phase in map(without_memory, phases):
            assert await self.bench.run_phase(ctx, phase) == self.bench.expected(phase)

    def run(self, process):
        self.bench.run(process, self.server.run)


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, decode="trellis")], ids=str)
@pytest.mark.parametrize("kind", ["train", "infer"])
def test_a_memory_that_takes_no_command_ends_a_job(config, kind):
    """So it does the next one, until the memory takes commands again; an abort ends one, too."""
    rng, model = session(config)
    around = Session(model)
    x = rng.integers(-9, 9, model.layers[0].columns)
    lost = {"i": [job(config, kind, **GOOD)], "i_samples": sample_payloads(config, x, 1)}

    async def process(ctx):
        await around.expect(ctx, *load(model))
        around.server.fault = "deaf"
        for _ in range(3):
            failed = Phase(inputs=lost, outputs={"o_status": [status(kind, "memory")]})
            await around.expect(ctx, failed)
        await around.bench.run_phase(ctx, Phase(inputs=lost), cycles=100)
        stop = Phase(
            inputs={"i": [job(config, "abort")]}, outputs={"o_status": [status(kind, "aborted")]}
        )
        await around.expect(ctx, stop, read_out(model))
        around.server.fault = ""
        await around.expect(ctx, training(model, rng, samples=2, batch=1), read_out(model))

    around.run(process)


@pytest.mark.parametrize("after", [20, 50])
def test_beats_that_come_after_a_reset_are_discarded(after):
    rng, model = session()
    around = Session(model)
    run = without_memory(training(session()[1], rng, samples=3, batch=1))

    async def process(ctx):
        await around.expect(ctx, *load(model))
        await around.bench.run_phase(ctx, run, cycles=after)
        await around.bench.reset(ctx)
        assert around.server.queue
        await around.expect(ctx, *load(model), training(model, rng, samples=2, batch=2))
        await around.expect(ctx, read_out(model))

    around.run(process)


@pytest.mark.parametrize("after", [3, 30, 60, 100, 150, 200, 250, 300, 330, 360, 400])
def test_an_abort_ends_a_job_between_updates(after):
    """The values are those of the steps in the log."""
    config = SMALL
    rng, model = session()
    before = load(model)
    run = training(model, rng, samples=3, batch=1, rate=60000, shift=2)
    stop = Phase(inputs={"i": [job(config, "abort")]}, outputs={"o_status": [0]})

    async def process(ctx):
        for phase in before:
            await bench.run_phase(ctx, phase)
        began = await bench.run_phase(ctx, run, cycles=after)
        # The memory does not answer any more.
        bench.clear_inputs(ctx)
        came = await bench.run_phase(ctx, stop)
        log = began["o_log"] + came["o_log"]
        assert came["o_status"] == [status("train", "aborted", steps=len(log))]
        bench.clear_inputs(ctx)
        fresh = session()[1]
        for step in log:
            entry = log_layout(config).from_bits(step)
            fresh.replay(LogEntry(entry.seed, entry.gain))
        for phase in (read_out(fresh), training(fresh, rng, samples=2, batch=2), read_out(fresh)):
            assert await bench.run_phase(ctx, phase) == bench.expected(phase)

    bench = ResetBench(SparseTrainer(config))
    bench.run(process)


def test_outputs_come_in_the_order_of_the_page():
    """The classes of a batch are before its entry of the log, and the status after all others."""
    rng, model = session()
    run = training(model, rng, samples=4, batch=2, rate=100, shift=3)
    case = Case(phases=[*load(model), run, read_out(model)], quiet=True)
    moved = simulate(SparseTrainer(SMALL), case).transfers
    (first, second), classes, ends = moved["o_log"], moved["o"], moved["o_status"]
    order = [*classes[:2], first, *classes[2:], second, ends[-2], *moved["o_entries"], ends[-1]]
    assert order == sorted(set(order))
    assert len(classes) == 4


def test_a_step_takes_its_passes_and_little_more():
    """An update takes a cycle for each entry, and latencies."""
    config = SMALL
    rng, model = session()
    run = training(model, rng, samples=4, batch=4, rate=100, shift=3)
    phases = [*load(model), run, training(model, rng, samples=4, batch=2, rate=100, shift=3)]
    moved = simulate(SparseTrainer(config), Case(phases=phases, quiet=True)).transfers
    first, *_, last = moved["o"][:4]
    one = (last - first) / 6
    beats = sum(config.layer_beats(layer) for layer in model.layers)
    vectors = sum(-(-layer.columns // config.gemv.group) for layer in model.layers)
    assert beats + vectors < one < beats + vectors + 60 * len(model.layers)
    # From a batch's last result to the next batch's first one.
    step = moved["o"][6] - moved["o"][5] - 2 * one
    entries = sum(layer.entries for layer in model.layers)
    assert entries < step < entries + 40 * len(model.layers) + 40


@pytest.mark.parametrize("after", [40, 300, 700])
def test_a_reset_in_the_middle(after):
    """The core then refuses to train, until layers and entries are loaded again."""
    config = SMALL
    rng, model = session()
    before = load(model)
    run = training(model, rng, samples=3, batch=1)

    async def process(ctx):
        for phase in before:
            await bench.run_phase(ctx, phase)
        await bench.run_phase(ctx, run, cycles=after)
        await bench.reset(ctx)
        fresh = session()[1]
        again = [refused(SMALL, "train", "layers", **GOOD), *load(fresh)]
        for phase in (*again, training(fresh, rng, samples=2, batch=2), read_out(fresh)):
            assert await bench.run_phase(ctx, phase) == bench.expected(phase)

    bench = ResetBench(SparseTrainer(config))
    bench.run(process)


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ({"decode": "lut4"}, ValueError, "decode must be one of seedlm, trellis, not 'lut4'"),
        ({"decode": "trellis", "bits": 5}, ValueError, r"bits must be in 2\.\.4, not 5"),
        ({"layers": 17}, ValueError, r"layers must be in 1\.\.16, not 17"),
        ({"columns": 1}, ValueError, r"columns must be in 2\.\.65536, not 1"),
        ({"classes": 1}, ValueError, r"classes must be in 2\.\.256, not 1"),
        ({"columns": 8}, ValueError, r"classes must be in 2\.\.8, not 10"),
        ({"entries": 0}, ValueError, r"entries must be in 1\.\.65536, not 0"),
        ({"batch": 4097}, ValueError, r"batch must be in 1\.\.4096, not 4097"),
        ({"beat_bits": 48}, ValueError, r"beat_bits must be a power of two in 32\.\.1024, not 48"),
        ({"beat_bits": "64"}, TypeError, r"beat_bits must be a power of two in 32.*, not '64'"),
        ({"activation_width": 25}, ValueError, r"activation_width must be in 2\.\.24, not 25"),
        ({"logits": 12}, TypeError, "logits must be a number format such as"),
        ({"address_bits": 33}, ValueError, r"address_bits must be in 4\.\.32, not 33"),
        ({"burst": 3}, ValueError, r"burst must be a power of two in 2\.\.256, not 3"),
        ({"drain_cycles": 0}, ValueError, r"drain_cycles must be in 1\.\.65536, not 0"),
        ({"timeout_cycles": 255}, ValueError, r"timeout_cycles must be in 256.*, not 255"),
        (
            {"columns": 8192},
            ValueError,
            "a sum must have 62 bits at most, not the 64 bits of 8192 columns and activations of "
            "16 bits",
        ),
    ],
)  # fmt: skip
def test_refuses(params, error, sentence):
    with pytest.raises(error, match=sentence):
        SparseTrainerConfig(**params)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"columns": 0}, r"columns must be in 1\.\.65536, not 0"),
        ({"rows": 0}, r"rows must be in 1\.\.65536, not 0"),
        ({"address": -1}, "address must be in"),
        ({"bias_shift": 16}, r"bias_shift must be in 0\.\.15, not 16"),
        ({"shift": 48}, r"shift must be in 0\.\.47, not 48"),
        ({"scale": 8}, r"scale must be in 0\.\.7, not 8"),
    ],
)
def test_a_layer_refuses(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        DenseLayer(**{"columns": 4, "rows": 4} | fields)


def test_a_network_must_fit():
    require_layers(SMALL, [DenseLayer(columns=20, rows=5, address=4000)])
    with pytest.raises(ValueError, match="the address of layer 0 must be in"):
        require_layers(SMALL, [DenseLayer(columns=20, rows=5, address=4090)])
