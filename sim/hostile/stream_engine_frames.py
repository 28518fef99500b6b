"""Hostile programs of ``stream_engine``."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from seedbed.golden.engine_image import engine_image, header_and_records
from seedbed.sim.cases.stream_engine import Blocks, input_payloads, job, token_payloads
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.sim.hostile.frames import SILENT, Hostile, define, steps_of, stored
from seedbed.sim.verilog.script import step
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import HEADER, KINDS, RECORD, RECORD_BITS, unpacked

__all__ = ["HOSTILE", "hostile_program", "mutated_program"]

#: Fields of records of hostile programs are below these, so that a simulation ends; others are any
#: number.
FEW = {"repeat": 4, "length": 70, "rows": 9, "head": 5, "group": 3, "address": 300}
#: Fields of their headers, which are often within the core's sizes.
SIZES = {"frame": 1 << 16, "store": 520, "row": 1 << 16, "cache": 260, "tokens": 1 << 24}


def hostile_program(random: Random, config: StreamEngineConfig) -> list[int]:
    """Return a program with a right CRC, records that nobody made, and no parameters."""
    records = []
    for _ in range(random.randint(1, 4)):
        record = {name: _field(random, name) for name in RECORD}
        more = ("save", "restore") * config.external
        more += (config.packed,) * config.wide_sums
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


def mutated_program(random: Random, config: StreamEngineConfig, beats: Sequence[int]) -> list[int]:
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


def _frames(config: StreamEngineConfig, *, frames: int, seed: int) -> Iterator[str]:
    """Yield a script of hostile programs of :class:`~seedbed.hw.stream.stream_engine.StreamEngine`.

    Each is loaded and run, some with an error of the memory, and a good program after it.
    """
    random, rng = Random(seed), np.random.default_rng(seed)
    images = []
    for kind in PROGRAMS:
        engine = drawn_program(
            kind, rng, size=4 * config.products, layers=1, trellis=config.trellis,
            seedlm=config.seedlm, groups=config.groups, keeps=config.kept > 0,
            chooses=config.choose, judges=config.classes > 0, inputs=config.inputs,
        )  # fmt: skip
        image = engine_image(config, engine.program, engine.parameters, block=4, context=8)
        blocks = Blocks(config, image, engine)
        good = ["heal", stored(image.beats)]
        for phase in (blocks.load(), blocks.run(rng.integers(0, WORDS, 2), start=True)):
            good += steps_of(phase)
        yield from define(kind, ["ignore 0", *good])
        images.append(image.beats)
    writes = {"first": 900, "end": 1300} if config.external else {}
    for frame in range(frames):
        yield "ignore 1"
        yield stored(
            hostile_program(random, config)
            if random.random() < 0.5
            else mutated_program(random, config, random.choice(images))
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


TRELLIS = {"trellis": 4, "kept": 200, "vectors": 2, "choose": True}
GROUPS = {"groups": True, "products": 8, "beat_bits": 512, "burst": 4, "cache": 1024}
HOSTILE = (
    Hostile("small", _frames, SILENT),
    Hostile("small, 2 vectors", _frames, SILENT | {"vectors": 2}),
    Hostile("small, trellis", _frames, SILENT | TRELLIS),
    Hostile("small, seedlm", _frames, SILENT | {"seedlm": True}),
    Hostile("small, groups", _frames, SILENT | GROUPS),
    Hostile("small, keys in memory", _frames, SILENT | {"external": True}),
    Hostile("small, 2 keys", _frames, SILENT | {"external": True, "keys": 2}),
    Hostile("small, vectors in and losses", _frames, SILENT | {"classes": 60, "inputs": True}),
)
