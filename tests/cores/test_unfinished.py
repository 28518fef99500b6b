"""Every packet that is left unfinished can be ended, and a good job follows, in every job core."""

# amaranth: UnusedElaboratable=no
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pytest
from amaranth.lib.wiring import In

from seedbed.flow.cores.registry import CORES
from seedbed.hw.adapters import instantft, lora
from seedbed.hw.adapters.gradient_writer import gradient_layout
from seedbed.hw.engine.conv_engine import image_layout
from seedbed.hw.engine.parameter_loader import packet_layout, words_layout
from seedbed.hw.engine.requantize import sums_layout, values_layout
from seedbed.hw.engine.sample_intake import sample_layout
from seedbed.hw.engine.vector_loader import vectors_layout
from seedbed.hw.loss.loss_sign import sign_layout
from seedbed.hw.products import sparse_layouts
from seedbed.hw.tail.tail_weights import weights_layout
from seedbed.sim.case import Phase
from seedbed.sim.cases import (
    bp_tail,
    conv_engine,
    forward_cache,
    gemv,
    host_link,
    loss_sign,
    requantize,
    sparse_mac,
    sparse_trainer,
    stream_engine,
    stream_trainer,
    zo_trainer,
)
from seedbed.sim.cases import instantft as fine_tuning
from seedbed.sim.cases import lora as adapters
from seedbed.sim.harness import stream_ports
from seedbed.sim.reset_bench import ResetBench
from seedbed.spec import LORA_STATUS
from seedbed.spec.instantft import INSTANTFT_KINDS, INSTANTFT_STATUS


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """Beats that end in the middle of a packet, and what ends it.

    Parameters
    ----------
    stream
        The input whose packet is not finished.
    begun
        What is sent, by port.
    way_out
        What is sent then, phase by phase: an abort, or a beat with ``last``.
    answer
        What the last of ``way_out`` gives, by port.
    """

    stream: str
    begun: dict[str, list[int]]
    way_out: list[dict[str, list[int]]]
    answer: dict[str, list[int]] = field(default_factory=dict)


Script = tuple[list[Unfinished], Callable[[], list[Phase]]]


def ended(layout, **fields) -> list[int]:
    """Return a beat of zeros with ``last``."""
    return [layout.const({"last": 1, **fields}).as_bits()]


def of_sparse_trainer(config) -> Script:
    rng = np.random.default_rng(1)

    def drawn():
        return sparse_trainer.drawn(config, np.random.default_rng(2), (18, 14, 5))

    def good():
        model = drawn()
        loads = sparse_trainer.load(model)
        run = sparse_trainer.training(model, rng, samples=2, batch=1, rate=60000, shift=2)
        return [*loads, run, sparse_trainer.read_out(model)]

    model = drawn()
    table, entries = sparse_trainer.load(model)
    sample = sparse_trainer.sample_payloads(config, rng.integers(-9, 9, 18), 0)
    fields = {"samples": 1, "epochs": 1, "batch": 1}
    train, abort = (
        sparse_trainer.job(config, "train", **fields),
        sparse_trainer.job(config, "abort"),
    )
    rows = table.inputs["i_layers"]
    stop = [{"i": [abort]}]

    def aborted(kind, name="aborted"):
        return {"o_status": [sparse_trainer.status(kind, name)]}

    load = {name: beats[:2] for name, beats in entries.inputs.items()}
    return [
        Unfinished(stream="i_layers", begun={"i_layers": rows[:1]}, way_out=stop,
                   answer=aborted("abort", "ok")),
        Unfinished(stream="i_entries", begun=load, way_out=stop, answer=aborted("load")),
        Unfinished(stream="i_layers", begun={"i_layers": rows[:1] * 5}, way_out=stop,
                   answer=aborted("abort", "ok")),
        Unfinished(stream="i_samples", begun={"i": [train], "i_samples": sample[:1]},
                   way_out=stop, answer=aborted("train")),
        Unfinished(stream="i_read", begun={"i": [train], "i_samples": sample}, way_out=stop,
                   answer=aborted("train")),
    ], good  # fmt: skip


def of_zo_trainer(config) -> Script:
    rng = np.random.default_rng(1)

    def good():
        model = zo_trainer.drawn(config, rng)
        loaded = Phase(inputs={"i_parameters": zo_trainer.word_payloads(config, model.words())})
        run = zo_trainer.training(model, rng, samples=2, batch=1, schedule=[(0, 3, 4, 5)])
        return [loaded, *run, zo_trainer.read_out(model)]

    fields = {"samples": 1, "epochs": 1, "batch": 1}
    train = {"i": [zo_trainer.job(config, "train", **fields)]}
    words = zo_trainer.word_payloads(config, np.ones((4, 2), int))[:2]
    entry, last = (
        zo_trainer.schedule_payloads(config, [(k, 3, 4, 5) for k in range(n)])[0] for n in (2, 1)
    )
    image = ended(sample_layout(config))
    return [
        Unfinished(stream="i_parameters", begun={"i_parameters": words},
                   way_out=[{"i_parameters": ended(words_layout(config.engine))}, train],
                   answer={"o_status": [zo_trainer.status("train", "parameters")]}),
        Unfinished(stream="i_schedule", begun={"i_schedule": [entry]},
                   way_out=[{"i_schedule": [last]}, train],
                   answer={"o_status": [zo_trainer.status("train", "schedule")]}),
        Unfinished(stream="i_samples", begun={**train, "i_samples": [0]},
                   way_out=[{"i_samples": image}],
                   answer={"o_status": [zo_trainer.status("train", "sample")]}),
    ], good  # fmt: skip


def of_instantft(config) -> Script:
    script = fine_tuning.Session(config=config, rng=np.random.default_rng(1))

    def good():
        for trainable in (False, True):
            script.load(trainable=trainable)
        script.discarding = True
        script.order("forget")
        script.train([[0, 2]], batch=2, rate=config.lora.rate(0.02))
        script.order("read")
        return script.phases()

    def command(kind, **fields):
        fields = {"samples": 0, "epochs": 0, "batch": 0, "rate": 0} | fields
        layout = instantft.command_layout(config)
        return layout.const({"kind": INSTANTFT_KINDS.index(kind), **fields}).as_bits()

    def failed(name):
        layout = instantft.result_layout(config)
        return {"o": ended(layout, status=INSTANTFT_STATUS.index(name))}

    words = packet_layout(config.engine)
    return [
        *(
            Unfinished(stream="i_parameters",
                       begun={"i_parameters": [words.const({"trainable": of}).as_bits()] * 3},
                       way_out=[{"i_parameters": ended(words, trainable=of)},
                                {"i": [command("clear")]}],
                       answer=failed("parameters"))
            for of in (0, 1)
        ),
        Unfinished(stream="i_samples",
                   begun={"i": [command("infer", samples=1, epochs=1)], "i_samples": [0]},
                   way_out=[{"i_samples": ended(sample_layout(config))}],
                   answer=failed("sample")),
    ], good  # fmt: skip


def of_lora(config) -> Script:
    script = adapters.Session(config=config, rng=np.random.default_rng(1))

    def good():
        script.load()
        found = [script.phase()]
        for _ in range(2):
            script.sample(train=True)
        script.update(adapters.half(config))
        script.sample(train=False)
        script.read()
        return [*found, script.phase()]

    def command(kind):
        return {"i": [lora.command_layout(config).const({"kind": kind}).as_bits()]}

    def failed(name):
        return {"o": ended(lora.result_layout(config), status=LORA_STATUS.index(name))}

    words, x = words_layout(config.engine), vectors_layout(config.engine)
    sample = [0] * (config.sample_beats - 1) + ended(x)
    train, infer, update, clear = map(command, range(4))
    return [
        Unfinished(stream="i_parameters", begun={"i_parameters": [0] * 3},
                   way_out=[{"i_parameters": ended(words)}, clear], answer=failed("parameters")),
        Unfinished(stream="i_x", begun={**infer, "i_x": [0]}, way_out=[{"i_x": ended(x)}],
                   answer=failed("sample")),
        Unfinished(stream="i_gradient", begun={**train, "i_x": sample, "i_gradient": [0]},
                   way_out=[{"i_gradient": ended(gradient_layout(config.engine))}, update],
                   answer=failed("gradients")),
    ], good  # fmt: skip


def of_bp_tail(config) -> Script:
    random, draw = Random(1), bp_tail._Samples(config, Random(1))
    nothing = [
        np.zeros((n, m), int)
        for n, m in zip((*config.inputs[1:], config.classes), config.inputs, strict=True)
    ]

    def good():
        weights = draw.rng.integers(-128, 128, (config.classes, config.inputs[-1]))
        draw.model.load(weights)
        sent = [beat for _ in range(2) for beat in draw.one()]
        return [
            Phase(inputs={"i_weights": bp_tail.weight_packet(config, weights)}),
            Phase(inputs={"i": sent}),
            Phase(inputs={"i_update": bp_tail.command(5)},
                  outputs={"o": bp_tail.response(config, draw.model.update(5))}),
        ]  # fmt: skip

    failed = {"o": bp_tail.response(config, nothing, length_error=1)}
    update = {"i_update": bp_tail.command(0)}
    begun = bp_tail.packet(config, [1] * 9, 0, random)[:1]
    weights = ended(weights_layout(config))
    return [
        Unfinished(stream="i", begun={"i": begun}, way_out=[update], answer=failed),
        Unfinished(stream="i_weights", begun={"i_weights": [0] * 3},
                   way_out=[{"i_weights": weights}, update], answer=failed),
    ], good  # fmt: skip


def of_conv_engine(config) -> Script:
    rng = np.random.default_rng(1)

    def good():
        model = conv_engine.drawn(config, rng)
        (x,) = conv_engine.images(config, rng, 1)
        return [
            Phase(inputs={"i_parameters": conv_engine.word_payloads(config, model.words())}),
            Phase(inputs={"i": conv_engine.image_payloads(config, x, rng)},
                  outputs={"o": conv_engine.ran(model, x)}),
        ]  # fmt: skip

    whole = conv_engine.image_payloads(config, conv_engine.images(config, rng, 1)[0], rng)
    return [
        Unfinished(stream="i_parameters", begun={"i_parameters": [0] * 3},
                   way_out=[{"i_parameters": ended(words_layout(config.engine))}, {"i": whole}],
                   answer={"o": [conv_engine.fault(config, "parameters")]}),
        Unfinished(stream="i", begun={"i": whole[:2]}, way_out=[{"i": ended(image_layout(config))}],
                   answer={"o": [conv_engine.fault(config, "image")]}),
    ], good  # fmt: skip


def of_gemv(config) -> Script:
    rng = np.random.default_rng(1)

    def good():
        return [gemv.phase(config, gemv.Job.random(config, rng, rows=3, columns=30, plain=False))]

    whole = good()[0].inputs
    clear = [{"i": [gemv.command(config, clear=True)]}]
    cleared = {"o": gemv.results(config, [], "cleared")}
    cut = {"i_vector": whole["i_vector"][:1], "i_weights": []}
    return [
        Unfinished(stream="i_vector", begun=whole | cut, way_out=clear, answer=cleared),
        Unfinished(stream="i_weights", begun=whole | {"i_weights": whole["i_weights"][:1]},
                   way_out=clear, answer=cleared),
    ], good  # fmt: skip


def of_sparse_mac(config) -> Script:
    bench = sparse_mac.Bench(config=config, rng=np.random.default_rng(1))

    def drawn():
        return sparse_mac.Matrix.random(config, bench.rng, rows=5, columns=9, count=12)

    def good():
        matrix = drawn()
        load = [bench.load(matrix)] if config.entries else []
        return [*load, bench.product(matrix, k=1), bench.update(matrix), bench.product(matrix)]

    matrix = drawn()
    begun, whole = bench.load(matrix).inputs, bench.product(matrix).inputs
    clear = {"i": bench.command("product", matrix, clear=1)}
    sums = {"i_sums": ended(sparse_layouts.result_layout(config))}
    cleared = {"o": bench.results(np.zeros(0), "cleared")}
    first = {name: beats[:1] for name, beats in whole.items()}
    few = {name: beats[: 1 + 2 * (name == "i_entries")] for name, beats in begun.items()}
    part = {"i": whole["i"], "i_vector": whole["i_vector"]}
    return [
        Unfinished(stream="i_entries", begun=few, way_out=[clear], answer=cleared),
        Unfinished(stream="i_vector", begun={"i": first["i"], "i_vector": first["i_vector"]},
                   way_out=[clear, sums], answer=cleared),
        Unfinished(stream="i_sums", begun=part, way_out=[clear, sums], answer=cleared),
    ], good  # fmt: skip


def of_forward_cache(config) -> Script:
    script = forward_cache.Session(config=config, rng=np.random.default_rng(1))

    def good():
        script.clear()
        script.store(1)
        script.fetch(1)
        return [script.phase()]

    script.store(0, last=1)
    frame = script.phase()
    first, second = frame.inputs["i_codes"]
    return [
        Unfinished(stream="i_codes", begun={"i": frame.inputs["i"], "i_codes": [first]},
                   way_out=[{"i_codes": [second]}, {"i_response": frame.inputs["i_response"]}],
                   answer={"o": frame.outputs["o"]}),
    ], good  # fmt: skip


def of_loss_sign(config) -> Script:
    def good():
        return loss_sign.case(config, Random(1), batches=1).phases

    beats = loss_sign.frame(config, [0] * config.classes, 0, 0, batch_last=True)
    error = {"o": [sign_layout(config).const({"sign": 0, "error": 1}).as_bits()]}
    return [
        Unfinished(stream="i", begun={"i": beats[:1]}, way_out=[{"i": beats[-1:]}, {"i": beats}],
                   answer=error),
    ], good  # fmt: skip


def of_requantize(config) -> Script:
    def good():
        return requantize.case(config, Random(1), layers=2).phases

    empty = ended(sums_layout(config), square_last=1)
    return [
        Unfinished(stream="i", begun={"i": [0] * 2}, way_out=[{"i": empty}],
                   answer={"o": ended(values_layout(config))}),
    ], good  # fmt: skip


def of_host_link(config) -> Script:
    def good():
        return host_link.case(config, Random(1), requests=3).phases

    return [Unfinished(stream="i", begun={"i": [5, 7, 7]}, way_out=[{"i": [0]}])], good


def of_stream_engine(config) -> Script:
    def good():
        return stream_engine.case(config, Random(1), kinds=["dense"]).phases

    open_, last = stream_engine.token_payloads(config, [1, 1])
    begun = {"i": [stream_engine.job(config, "run")], "i_tokens": [open_] * 7}
    return [
        Unfinished(stream="i_tokens", begun=begun, way_out=[{"i_tokens": [last]}],
                   answer={"o_status": [stream_engine.status(config, "run", "missing")]}),
    ], good  # fmt: skip


def of_stream_trainer(config) -> Script:
    def good():
        return stream_trainer.case(config, Random(1), kinds=["dense"]).phases

    open_, last = stream_engine.token_payloads(config, [1, 1])
    begun = {"i": [stream_trainer.job(config, "run")], "i_tokens": [open_] * 7}
    return [
        Unfinished(stream="i_tokens", begun=begun, way_out=[{"i_tokens": [last]}],
                   answer={"o_status": [stream_trainer.status("run", "missing")]}),
    ], good  # fmt: skip


SCRIPTS = {
    name.removeprefix("of_"): script
    for name, script in list(globals().items())
    if name.startswith("of_")
}
#: Streams of packets that are not left unfinished here.
OTHERS = {
    ("forward_cache", "i_read"): "memory, whose silence has a limit: see test_forward_cache",
    ("instantft", "i_read"): "as in forward_cache",
    ("stream_engine", "i_read"): "as in forward_cache: see test_stream_engine",
    ("stream_trainer", "i_read"): "as in forward_cache: see test_stream_trainer",
}
#: Cores without commands, or whose commands end with their beats: their streams go on with the
#: next beat.
WITHOUT_COMMANDS = {
    "lfsr", "urng_array", "lutopt", "scale_lut", "prng_pool", "perturbation", "tree_grng",
    "skid_buffer", "seedlm_decompress", "lut_dequantize", "mac_array", "nf4", "softmax_loss",
    "weight_perturb", "trellis_decompress", "vector_unit",
}  # fmt: skip


def apart(phase: Phase) -> list[Phase]:
    """Return a phase of one command as two: its data after the command's transfer."""
    if len(phase.inputs.get("i", [])) != 1:
        return [phase]
    rest = {name: beats for name, beats in phase.inputs.items() if name != "i" and beats}
    if not rest:
        return [phase]
    return [Phase(inputs={"i": phase.inputs["i"]}), replace(phase, inputs=rest)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_good_job_follows_an_unfinished_packet(name):
    core = CORES[name]
    config = core.configure(core.small)
    episodes, good = SCRIPTS[name](config)

    async def process(ctx):
        for each in episodes:
            await bench.run_phase(ctx, Phase(inputs=each.begun), cycles=2000)
            # What the beginning gives comes before the way out.
            await bench.run_phase(ctx, Phase(outputs=dict.fromkeys(outputs, [0] * 999)), cycles=200)
            *before, last = each.way_out
            for inputs in before:
                await bench.run_phase(ctx, Phase(inputs=inputs))
            came = await bench.run_phase(ctx, Phase(inputs=last, outputs=each.answer))
            assert {port: came[port] for port in each.answer} == each.answer, each.stream
            bench.clear_inputs(ctx)
            for phase in good():
                came = [await bench.run_phase(ctx, part) for part in apart(phase)]
                joined = {port: [n for part in came for n in part[port]] for port in came[0]}
                assert joined == bench.expected(phase), (each.stream, phase)

    outputs = core.streams(config)[1]
    bench = ResetBench(core.component(config), random=Random(3))
    bench.run(process)


def last_streams() -> Iterator[tuple[str, str]]:
    """Yield core and name of every input stream of packets of the cores with commands."""
    for name in SCRIPTS:
        signature = CORES[name].signature(CORES[name].configure(CORES[name].small))
        for port, flow in stream_ports(signature):
            shape = signature.members[port].signature.members["payload"].shape
            if flow is In and "last" in getattr(shape, "members", ()):
                yield name, port


def test_every_stream_of_packets_is_tried():
    """Of ``sdram``, a burst has as many beats as its command says."""
    tried = {
        (name, each.stream)
        for name, script in SCRIPTS.items()
        for each in script(CORES[name].configure(CORES[name].small))[0]
    }
    assert set(last_streams()) <= tried | set(OTHERS)
    assert set(CORES) == set(SCRIPTS) | WITHOUT_COMMANDS | {"sdram"}
