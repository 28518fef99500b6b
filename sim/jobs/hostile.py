"""Streams of random commands, packets, samples and memory faults, each followed by a good job.

A frame is what one sender might do wrong: it runs to its end, or until a reset. The good job after
it must give what the model says, whatever the frame was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.golden.stream_trainer import Work
from seedbed.hw.adapters import instantft
from seedbed.hw.engine.parameter_loader import packet_layout
from seedbed.hw.products import gemv_layouts
from seedbed.sim.case import Phase
from seedbed.sim.cases import gemv, sparse_trainer, stream_trainer
from seedbed.sim.cases import instantft as fine_tuning
from seedbed.sim.cases.stream_engine import Blocks, drawn, input_payloads, job, token_payloads
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.memory_bench import PORTS
from seedbed.sim.verilog.script import step
from seedbed.spec import GemvConfig, SparseTrainerConfig, StreamEngineConfig, StreamTrainerConfig
from seedbed.spec.engine_records import HEADER, KINDS, RECORD, RECORD_BITS, unpacked
from seedbed.spec.instantft import INSTANTFT_KINDS, InstantFtConfig

__all__ = [
    "HOSTILE",
    "Hostile",
    "gemv_frames",
    "hostile_program",
    "instantft_frames",
    "sparse_trainer_frames",
    "stream_engine_programs",
    "stream_trainer_frames",
]

#: Fields of records of hostile programs are below these, so that a simulation ends; others are any
#: number.
FEW = {"repeat": 4, "length": 70, "rows": 9, "head": 5, "group": 3, "address": 300}
#: Fields of their headers, which are often within the core's sizes.
SIZES = {"frame": 1 << 16, "store": 520, "row": 1 << 16, "cache": 260, "tokens": 1 << 24}


def _define(name: str, steps: list[str]) -> list[str]:
    return [f"define {name}", *steps, "end"]


def instantft_frames(config: InstantFtConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.adapters.instantft.InstantFt`."""
    random = Random(seed)
    script = fine_tuning.Session(config=config, rng=np.random.default_rng(seed))
    for trainable in (False, True):
        script.load(trainable=trainable)
    script.order("forget")
    # After a failed command, samples are dropped until the next one is taken.
    phases = script.phases()
    script.train([[0, 2], [2, 1]], batch=2, rate=config.lora.rate(0.02))
    script.order("read")
    script.infer([1])
    good = []
    for phase in [*phases, *script.phases()]:
        for name in fine_tuning.INPUTS:
            good += [step("send", name, phase.inputs[name])] * bool(phase.inputs[name])
        for name in fine_tuning.OUTPUTS:
            good += [step("expect", name, phase.outputs[name])] * bool(phase.outputs[name])
        good.append("done")
    yield from _define("good", ["ignore 0", *good])
    images = [_image(config, random) for _ in range(64)]
    for k, image in enumerate(images):
        yield from _define(f"image{k}", [step("send", "i_samples", image)])
    last, clear = instantft.result_layout(config)["last"].offset, INSTANTFT_KINDS.index("clear")
    yield "call good"
    for _ in range(frames):
        yield "ignore 1"
        for _ in range(random.choice((0, 0, 1, 2))):
            kind = random.choice(("error", "error", "short", "long", "response"))
            yield f"fault {random.randrange(3)} {kind} {random.randrange(7)}"
        match random.randrange(4):
            case 0:
                yield step("send", "i_parameters", _packet(config, random))
                yield "done"
                # The next command says whether the packet fitted.
                yield step("send", "i", [_command(config, kind=clear)])
                yield f"until o {last}"
            case 1:
                yield f"stray {random.choice((0, 1, 1, 2, 5))}"
                yield "cycles 100"
            case _:
                yield from _job(config, random, len(images), last)
        if random.random() < 0.2:
            yield f"reset {random.randrange(2)}"
        # What is queued belongs to the frame: an image is sent to its end.
        yield "done"
        yield "heal"
        yield "cycles 20"
        yield "call good"


def _command(config: InstantFtConfig, **fields: int) -> int:
    names = ("samples", "epochs", "batch", "rate")
    return instantft.command_layout(config).const(dict.fromkeys(names, 0) | fields).as_bits()


def _image(config: InstantFtConfig, random: Random) -> list[int]:
    layout = instantft.sample_layout(config)
    rows, columns, channels = config.engine.plan.image.shape
    beats = rows * -(-columns * channels // config.ways)
    if random.random() < 0.1:
        beats = max(1, beats + random.choice((-7, -1, 1, 2, 9)))
    index = random.choice((*range(config.entries), *range(config.entries), config.entries, 65535))
    return [
        layout.const(
            {
                "pixels": [random.randrange(256) for _ in range(config.ways)],
                "label": random.randrange(config.softmax_loss.classes),
                "index": index,
                "last": k == beats - 1,
            }
        ).as_bits()
        for k in range(beats)
    ]


def _packet(config: InstantFtConfig, random: Random) -> list[int]:
    layout = packet_layout(config.engine)
    plan, trainable = config.engine.plan, random.randrange(2)
    rows = plan.trainable_rows if trainable else plan.frozen_rows
    beats = rows * plan.ways * plan.lanes // 2
    beats = random.choice((beats, beats - 1, beats + 1, 1, random.randrange(1, 2 * beats)))
    low, high = -(1 << (config.engine.word - 1)), 1 << (config.engine.word - 1)
    return [
        layout.const(
            {
                "word": [random.randrange(low, high) for _ in range(2)],
                "trainable": trainable,
                "last": k == beats - 1,
            }
        ).as_bits()
        for k in range(beats)
    ]


def _job(config: InstantFtConfig, random: Random, images: int, last: int) -> Iterator[str]:
    """Yield a random command and as many images as it may take, or fewer, and then a reset."""
    kind = random.choice((*[0] * 12, *range(8)))
    samples = random.choice((0, *range(1, 4), *range(1, 4)))
    epochs = random.choice((0, 1, 2, 1, 2, 2))
    fields = {
        "kind": kind,
        "samples": samples,
        "epochs": epochs,
        "batch": random.choice((0, 1, 2, 3, 1, 2, 3, 256, 257, 511)),
        "rate": random.randrange(1 << config.lora.rate_width),
    }
    yield step("send", "i", [_command(config, **fields)])
    jobs = ("train", "infer")
    takes = kind in map(INSTANTFT_KINDS.index, jobs) or kind >= len(INSTANTFT_KINDS)
    for _ in range(takes * samples * epochs):
        yield f"call image{random.randrange(images)}"
    if takes and random.random() < 0.3:
        yield f"cycles {random.randrange(3000)}"
        yield f"reset {random.randrange(2)}"
    else:
        if random.random() < 0.1:
            yield f"forget {1 + random.randrange(1000)}"
        yield f"until o {last}"


def gemv_frames(config: GemvConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.products.gemv.Gemv`."""
    random, rng = Random(seed), np.random.default_rng(seed)
    most = config.columns

    def drawn() -> gemv.Job:
        return gemv.Job.random(
            config, rng, rows=random.randint(1, 4), columns=random.randint(1, min(most, 40)),
            plain=random.random() < 0.5,
        )  # fmt: skip

    jobs = 8
    for k in range(jobs):
        phase = gemv.phase(config, drawn())
        # Until its command is taken, what comes counts to the frame before, and is dropped.
        rest = {name: sent for name, sent in phase.inputs.items() if name != "i"}
        steps = [step("send", "i", phase.inputs["i"]), "done"]
        steps += [step("send", name, payloads) for name, payloads in rest.items()]
        steps += [step("expect", name, payloads) for name, payloads in phase.outputs.items()]
        yield from _define(f"good{k}", ["ignore 0", *steps, "done"])
    clear = gemv.command(config, clear=True)
    last = gemv_layouts.result_layout(config)["last"].offset
    for _ in range(frames):
        yield "ignore 1"
        phase = gemv.phase(config, drawn())
        ports = {name: list(payloads) for name, payloads in phase.inputs.items()}
        flags = {
            "i_vector": 1 << gemv_layouts.vector_layout(config)["last"].offset,
            "i_weights": 1 << gemv_layouts.weights_layout(config)["last"].offset,
        }
        if config.trellis:
            # Any bit: a scale has no `last`.
            flags["i_scales"] = 1
        name = random.choice(tuple(flags))
        beats, place = ports[name], random.randrange(len(ports[name]))
        ends, cut = True, False
        match random.randrange(6):
            case 0:
                beats[place] ^= flags[name]
            case 1:
                del beats[place:]
                cut = True
            case 2:
                shape = random.choice(((0, 1), (1, 0), (0, 0)))
                ports["i"] = [gemv.command(config, *shape, plain=random.random() < 0.5)]
            case 3:
                # Without its `last`, the frame goes on into what follows.
                beats[-1] &= ~flags[name]
            case 4:
                ports["i"].append(clear)
                ends = False
            case 5:
                cut = True
        for port, payloads in ports.items():
            yield step("send", port, payloads)
        if cut and random.random() < 0.5:
            yield f"cycles {random.randrange(60)}"
            yield "reset 0"
        elif cut:
            yield "cycles 400"
            yield step("send", "i", [clear])
        elif ends:
            yield f"until o {last}"
        # A clear leaves what was offered to the next job: the sender takes care, or resets.
        if not ends:
            yield "cycles 300"
            yield "reset 0"
        yield "done"
        # The answer to a clear may still come.
        yield "cycles 100"
        yield f"call good{random.randrange(jobs)}"


def hostile_program(random: Random, config: StreamEngineConfig) -> list[int]:
    """Return a program with a right CRC, records that nobody made, and no parameters."""
    records = []
    for _ in range(random.randint(1, 4)):
        record = {name: _field(random, name) for name in RECORD}
        more = ("save", "restore") * config.external + ("seedlm",) * config.seedlm
        record["kind"] = random.choice([0, 0, 0, 1, 2, 3, *map(KINDS.index, more)])
        if record["kind"] == KINDS.index("save"):
            record["address"] += 900
        record["operation"] %= 13
        records.append(record)
    header = {name: random.randrange(SIZES[name]) for name in ("frame", "store", "row", "cache")}
    header |= {"block": 4, "context": 16, "tokens": random.choice([3, WORDS])}
    header["trellis"] = random.choice([0, config.code_field])
    return header_and_records(config, header, records)


def _field(random: Random, name: str) -> Any:
    """Return a random value of a field of a record."""
    form = RECORD[name]
    if isinstance(form, dict):
        return {part: random.getrandbits(bits) for part, bits in form.items()}
    if name == "address" and random.random() < 0.1:
        return random.getrandbits(form)
    return random.randrange(min(1 << form, FEW.get(name, 1 << form)))


def _mutated(random: Random, config: StreamEngineConfig, beats: Sequence[int]) -> list[int]:
    """Return a program with some other fields, and a right CRC."""
    words = b"".join(beat.to_bytes(config.beat_bits // 8, "little") for beat in beats)
    size = RECORD_BITS // 8
    header = unpacked(int.from_bytes(words[:size], "little"), HEADER)
    places = range(size, size * (header.pop("records") + 1), size)
    records = [unpacked(int.from_bytes(words[k : k + size], "little"), RECORD) for k in places]
    for _ in range(random.choice((1, 1, 2, 4))):
        match random.randrange(8):
            case 0:
                name = random.choice([*SIZES])
                header[name] = random.randrange(SIZES[name])
            case 1:
                a, b = (random.randrange(len(records)) for _ in range(2))
                records[a], records[b] = records[b], records[a]
            case 2:
                del records[random.randrange(len(records)) :][1:]
            case _:
                name = random.choice([*RECORD])
                random.choice(records)[name] = _field(random, name)
    del header["crc"]
    return header_and_records(config, header, records)


def stream_engine_programs(config: StreamEngineConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile programs of :class:`~seedbed.hw.stream.stream_engine.StreamEngine`.

    Each is loaded and run, some with an error of the memory, and a good program after it.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    images = []
    for kind in PROGRAMS:
        engine = drawn_program(
            kind, rng, size=4 * config.products, layers=1, trellis=config.trellis,
            seedlm=config.seedlm, keeps=config.kept > 0, chooses=config.choose,
            judges=config.classes > 0, inputs=config.inputs,
        )  # fmt: skip
        image = engine_image(config, engine.program, engine.parameters, block=4, context=8)
        blocks = Blocks(config, image, engine)
        good = ["heal", _stored(image.beats)]
        for phase in (blocks.load(), blocks.run(rng.integers(0, WORDS, 2), start=True)):
            good += _steps(phase)
        yield from _define(kind, ["ignore 0", *good])
        images.append(image.beats)
    writes = {"first": 900, "end": 1300} if config.external else {}
    for frame in range(frames):
        yield "ignore 1"
        yield _stored(
            hostile_program(random, config)
            if random.random() < 0.5
            else _mutated(random, config, random.choice(images))
        )
        if random.random() < 0.1:
            kind = random.choice(("error", "short", "long", *["response"] * config.external))
            yield f"fault {random.randrange(40)} {kind} {random.randrange(4)}"
        elif random.random() < 0.05:
            yield "deaf"
        tokens = [random.randrange(WORDS) for _ in range(random.randint(1, 5))]
        yield step("send", "i", [job(config, "load", **writes), job(config, "run", start=1)])
        yield step("send", "i_tokens", token_payloads(config, tokens))
        if config.inputs:
            vectors = rng.integers(-1 << 15, 1 << 15, (random.randint(1, 5), 4 * config.products))
            yield step("send", "i_vectors", input_payloads(config, vectors))
        # The bit is the kind of the command that has ended.
        yield "until o_status 0"
        yield f"call {[*PROGRAMS][frame % len(PROGRAMS)]}"


def stream_trainer_frames(config: StreamTrainerConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.kept.stream_trainer.StreamTrainer`.

    Programs, samples and commands to train that may be damaged, errors of the memory, aborts and
    resets, and a good training after each.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    engine = drawn(config.engine, "dense", rng)
    image = engine_image(config.engine, engine.program, engine.parameters, block=3, context=3)
    blocks = Blocks(config.engine, image, engine)
    samples = stream_trainer.drawn_samples(config, engine.program, rng, (3, 3))
    of = stream_trainer.Trainings(config, blocks, samples)
    work = Work(batch=2, seed=9, eps=40, rate=900, shift=9, most=99)
    yield from _define("image", [_stored(of.beats)])
    good = ["ignore 0", "heal", "call image"]
    for phase in (of.given(blocks.load()), of.train(work)):
        good += _steps(phase)
    yield from _define("good", good)
    limits = {"first": 900, "end": 1300}
    for _ in range(frames):
        yield "ignore 1"
        match random.randrange(3):
            case 0:
                yield _stored(hostile_program(random, config))
            case 1:
                yield _stored(_mutated(random, config, image.beats))
            case _:
                yield "call image"
        match random.randrange(8):
            case 0 | 1:
                kind = random.choice(("error", "short", "long", "response"))
                yield f"fault {random.randrange(60)} {kind} {random.randrange(4)}"
            case 2:
                yield "deaf"
        fields = {
            "address": random.randrange(of.first + 3), "samples": random.randrange(4),
            "epochs": random.randrange(3), "batch": random.randrange(4),
            "head": random.randrange(4), "seed": random.randrange(1 << 24),
            "first": random.choice((900, 899)), "end": random.randrange(880, 1000),
        }  # fmt: skip
        if config.inputs:
            fields["vectors"] = random.randrange(80)
        some = {name: fields[name] for name in fields if random.random() < 0.3}
        ranges = {name: limits[name] for name in limits if name not in some}
        train = of.command(work, **some | ranges)
        load = stream_trainer.job(config, "load", **limits)
        yield step("send", "i", [load, train])
        if random.random() < 0.8:
            # The bit is the kind of the training, which ends in any case.
            yield "until o_status 0"
        else:
            yield f"cycles {random.randrange(3000)}"
            if random.random() < 0.5:
                yield step("send", "i", [stream_trainer.job(config, "abort")])
                yield f"cycles {random.randrange(900)}"
            yield f"reset {random.randrange(2)}"
        yield "heal"
        yield "cycles 200"
        yield "call good"


def sparse_trainer_frames(config: SparseTrainerConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile frames for :class:`~seedbed.hw.kept.sparse_trainer.SparseTrainer`.

    A job with an error of the memory, a memory that takes no command, samples that are too long, an
    abort or a reset, and a good job after it.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    model = sparse_trainer.drawn(config, rng, (18, 14, 5))
    phases = sparse_trainer.load(model)
    phases += [sparse_trainer.classified(model, rng, 2)]
    phases += [sparse_trainer.training(model, rng, samples=2, batch=1)]
    phases += [sparse_trainer.read_out(model)]
    good = ["ignore 0"]
    for phase in phases:
        good += _steps(phase)
    yield from _define("good", good)
    for address, beat in model.beats().items():
        yield step("store", str(address), [beat])
    yield "call good"
    for _ in range(frames):
        yield "ignore 1"
        match random.randrange(4):
            case 0:
                yield "deaf"
            case 1:
                yield f"forget {1 + random.randrange(200)}"
            case _:
                kind = random.choice(("error", "short", "long"))
                yield f"fault {random.randrange(30)} {kind} {random.randrange(1, 4)}"
        kind, count = random.choice(("train", "infer")), random.choice((1, 1, 1, 2))
        job = sparse_trainer.job(config, kind, samples=count, epochs=1, batch=1)
        x = rng.integers(-99, 99, (count, model.layers[0].columns))
        beats = random.choice((0, 0, 0, 2, 30))
        samples = [sparse_trainer.sample_payloads(config, each, 1, beats=beats) for each in x]
        yield step("send", "i_samples", [beat for sample in samples for beat in sample])
        if count > 1 or beats or random.random() < 0.3:
            # What is left of the samples goes with a reset.
            yield step("send", "i", [job])
            yield f"cycles {random.randrange(900)}"
            if random.random() < 0.5:
                yield step("send", "i", [sparse_trainer.job(config, "abort")])
                yield f"cycles {random.randrange(900)}"
            yield f"reset {random.randrange(2)}"
        else:
            # The bit is the kind of the read, which waits for the end of the job.
            yield step("send", "i", [job, sparse_trainer.job(config, "read")])
            yield "until o_status 1"
        yield "heal"
        yield "cycles 200"
        # A beat that came after the end is the error of the next command.
        yield step("send", "i", [sparse_trainer.job(config, "abort")])
        yield "until o_status 2"
        yield "call good"


def _steps(phase: Phase) -> list[str]:
    """Return the steps of a phase, but for those of the memory."""
    both = (("send", phase.inputs), ("expect", phase.outputs))
    steps = [
        step(word, name, payloads)
        for word, ports in both
        for name, payloads in ports.items()
        if name not in PORTS
    ]
    return [*steps, "done"]


def _stored(beats: Sequence[int]) -> str:
    return step("store", "0", beats)


@dataclass(frozen=True)
class Hostile:
    """Frames for one configuration of a core: its small one, with ``more`` in it."""

    core: str
    config: str
    #: ``steps(config, frames=..., seed=...)`` yields the script.
    steps: Callable[..., Iterator[str]]
    more: Mapping[str, Any] = field(default_factory=dict)


#: The script's memory gives a burst's first beat after up to 41 cycles: a core that has lost count
#: of the beats, as after a burst that was too long, must wait for longer until none can come.
_SILENT = {"drain_cycles": 64}
_TRELLIS = {"trellis": 4, "kept": 200, "vectors": 2, "choose": True}
HOSTILE = (
    Hostile("instantft", "small", instantft_frames),
    Hostile("gemv", "small", gemv_frames),
    Hostile("gemv", "small, lut4", gemv_frames, {"decode": "lut4", "level_load": 4}),
    Hostile("gemv", "small, trellis", gemv_frames, {"decode": "trellis"}),
    Hostile("gemv", "small, plain, 2 vectors", gemv_frames, {"decode": "plain", "vectors": 2}),
    Hostile("stream_engine", "small", stream_engine_programs, _SILENT),
    Hostile("stream_engine", "small, 2 vectors", stream_engine_programs, _SILENT | {"vectors": 2}),
    Hostile("stream_engine", "small, trellis", stream_engine_programs, _SILENT | _TRELLIS),
    Hostile("stream_engine", "small, seedlm", stream_engine_programs, _SILENT | {"seedlm": True}),
    Hostile(
        "stream_engine", "small, keys in memory", stream_engine_programs,
        _SILENT | {"external": True},
    ),
    Hostile(
        "stream_engine", "small, vectors in and losses", stream_engine_programs,
        _SILENT | {"classes": 60, "inputs": True},
    ),
    Hostile("stream_trainer", "small", stream_trainer_frames, _SILENT),
    Hostile(
        "stream_trainer", "small, vectors in", stream_trainer_frames, _SILENT | {"inputs": True}
    ),
    Hostile("sparse_trainer", "small", sparse_trainer_frames, _SILENT),
    Hostile(
        "sparse_trainer", "small, trellis", sparse_trainer_frames, _SILENT | {"decode": "trellis"}
    ),
)  # fmt: skip
