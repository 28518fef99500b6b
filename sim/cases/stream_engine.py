"""Case of the streamed engine: random programs, blocks of tokens one after another, and faults."""

from collections.abc import Sequence
from random import Random

import numpy as np

from seedbed.golden.engine_image import EngineImage, engine_image
from seedbed.golden.engine_passes import PassEngine
from seedbed.golden.kept_weights import take_values, trainable
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.memory.memory_port import (
    command_layout,
    read_layout,
    response_layout,
    write_layout,
)
from seedbed.hw.stream.stream_layouts import (
    input_layout,
    job_layout,
    result_layout,
    status_layout,
    token_layout,
)
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.stream_programs import PROGRAMS, WORDS, drawn_program
from seedbed.spec import STREAM_ENGINE_STATUS, StreamEngineConfig
from seedbed.spec.stream_engine import SIGN_BITS

__all__ = [
    "Blocks", "bursts", "case", "drawn", "input_payloads", "job", "limits", "read_part", "status",
    "token_payloads",
]  # fmt: skip


def bursts(config: StreamEngineConfig, address: int, beats: int) -> list[tuple[int, int]]:
    """Return the bursts of a part of memory: first beats, and beats."""
    found, stop = [], address + beats
    while address < stop:
        size = min(stop - address, config.burst - address % config.burst)
        found.append((address, size))
        address += size
    return found


def read_part(
    config: StreamEngineConfig, address: int, raw: bytes
) -> tuple[list[int], list[int], list[int]]:
    """Return what a memory takes and gives when a part of it is read, whole beats ``raw``.

    Commands, beats, and for each beat the commands up to that of its burst.
    """
    size = config.beat_bits // 8
    command, read = command_layout(config.address_bits), read_layout(config.beat_bits)
    commands, beats, after = [], [], []
    for at, length in bursts(config, address, len(raw) // size):
        fields = {"address": at, "write": 0, "length": length - 1}
        commands.append(command.const(fields).as_bits())
        for k in range(at - address, at - address + length):
            fields = {
                "data": int.from_bytes(raw[k * size : (k + 1) * size], "little"),
                "error": 0, "last": k == at - address + length - 1,
            }  # fmt: skip
            beats.append(read.const(fields).as_bits())
            after.append(len(commands))
    return commands, beats, after


def job(config: StreamEngineConfig, kind: str, **fields: int) -> int:
    """Return a command."""
    return job_layout(config).const({"kind": config.kinds.index(kind), **fields}).as_bits()


def limits(config: StreamEngineConfig, image: EngineImage) -> dict[str, int]:
    """Return what a command to load an image has of the addresses that are written."""
    if not config.writes:
        return {}
    first, end = image.limits
    return {"first": first, "end": end}


def status(config: StreamEngineConfig, kind: str, name: str = "ok") -> int:
    """Return how a command ended."""
    codes = {"kind": config.kinds.index(kind), "status": STREAM_ENGINE_STATUS.index(name)}
    return status_layout(config).const(codes).as_bits()


def token_payloads(
    config: StreamEngineConfig, tokens: Sequence[int], labels: Sequence[int] = ()
) -> list[int]:
    """Return the beats of a block of tokens, with their classes where the core takes some."""
    layout, last = token_layout(config), len(tokens) - 1
    classes: list[dict] = [{} for _ in tokens]
    if config.classes:
        classes = [{"label": int(label)} for label in labels] or [{"label": 0} for _ in tokens]
    return [
        layout.const({"token": int(token), "last": k == last, **classes[k]}).as_bits()
        for k, token in enumerate(tokens)
    ]


def input_payloads(config: StreamEngineConfig, vectors: np.ndarray) -> list[int]:
    """Return the beats of the vectors of a block, int64 (tokens, elements)."""
    padded = np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % config.lanes)))
    beats = padded.reshape(-1, config.lanes)
    last = len(beats) - 1
    return [
        input_layout(config).const({"values": beat, "last": k == last}).as_bits()
        for k, beat in enumerate(beats.tolist())
    ]


def drawn(
    config: StreamEngineConfig, kind: str, rng: np.random.Generator, *, layers: int = 1
) -> StreamEngine:
    """Return a random program, whose kept weights are tuned where a core can.

    Its results are losses where a core has them, or chosen where it can do that; it begins with
    vectors where a core takes them, and is dense.
    """
    # The decoder has four heads.
    engine = drawn_program(
        kind, rng, size=4 * config.products, layers=layers, trellis=config.trellis,
        seedlm=config.seedlm, groups=config.groups, keeps=config.kept > 0, tune=config.tune,
        chooses=config.choose and not config.classes,
        judges=config.classes > 0, inputs=config.inputs,
    )  # fmt: skip
    if not config.tune:
        return engine
    return StreamEngine(engine.program, trainable(engine.parameters, config.tune))


class Blocks:
    """Runs commands on the model; gives the phases of a core that does the same.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.
    image
        The memory image of a program, from beat ``address`` on.
    engine
        The program.
    """

    def __init__(
        self, config: StreamEngineConfig, image: EngineImage, engine: StreamEngine,
    ):  # fmt: skip
        self.config, self.engine, self.image = config, engine, image
        self.passes = PassEngine(config, image.beats)
        self.limits = limits(config, image)

    def load(self) -> Phase:
        """Return the phase of a command that loads the program."""
        name = self.passes.load(**self.limits)
        inputs = {"i": [job(self.config, "load", **self.limits)]}
        return self._phase(inputs, {"o_status": [status(self.config, "load", name)]})

    def run(
        self, tokens: np.ndarray, *, start: bool = False, inputs: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> Phase:  # fmt: skip
        """Return the phase of a block of tokens, whose result is that of the program.

        ``inputs`` and ``labels``: the vectors and classes that come with the tokens. Without these,
        they depend on the tokens.
        """
        config, program = self.config, self.engine.program
        if inputs is None:
            length = program.vectors[program.operations[0].target].length
            inputs = np.random.default_rng(tokens).integers(
                -1 << 15, 1 << 15, (len(tokens), length)
            )
        if labels is None:
            # Some are no class.
            labels = tokens % (config.classes + 2)
        given = {"inputs": inputs, "labels": labels}
        name, found = self.passes.run(tokens, start=start, **given)
        if start:
            self.engine.start()
        outputs = {"o_status": [status(config, "run", name)]}
        if name == "ok":
            wanted = self.engine.run(tokens, **given)
            assert (np.array(found) == wanted).all()
            outputs["o"] = [beat for vector in wanted for beat in self._result(vector)]
        beats = {
            "i": [job(config, "run", start=start)],
            "i_tokens": token_payloads(config, tokens.tolist(), labels.tolist()),
        }
        if config.inputs:
            beats["i_vectors"] = input_payloads(config, inputs)
        return self._phase(beats, outputs)

    def tune(self, first: int, end: int, *, seed: int, delta: int) -> Phase:
        """Return the phase of a command that changes kept weights.

        Those of the program are changed with them.
        """
        before = bytes(self.passes.raw)
        name = self.passes.tune(first, end, seed=seed, delta=delta)
        start = self.image.limits[0] * self.config.beat_bits // 8
        words = np.frombuffer(bytes(self.passes.raw[start:]), "<u4")
        take_values(self.config, self.engine.parameters, self.image, words)
        inputs = {
            "i": [job(self.config, "tune", first=first, end=end, seed=seed, delta=delta)]
        }  # fmt: skip
        return self._phase(inputs, {"o_status": [status(self.config, "tune", name)]}, before)

    def _result(self, vector: np.ndarray) -> list[int]:
        lanes, layout = self.config.lanes, result_layout(self.config)
        beats = np.zeros((-(-len(vector) // lanes), lanes), np.int64)
        beats.flat[: len(vector)] = vector
        last = len(beats) - 1
        return [
            layout.const({"values": beat, "last": k == last}).as_bits()
            for k, beat in enumerate(beats.tolist())
        ]

    def _phase(self, inputs: dict, outputs: dict, raw: bytes | bytearray = b"") -> Phase:
        """Add the commands to the memory, and its beats and answers.

        ``raw``: the memory before the command, where beats that are read are then written.
        """
        config, size = self.config, self.config.beat_bits // 8
        command, write = command_layout(config.address_bits), write_layout(config.beat_bits)
        raw = raw or self.passes.raw
        commands, beats, read_after, writes, write_after = [], [], [], [], []
        for address, count, *data in self.passes.accesses:
            if data:
                # A beat that is written is a burst of its own.
                fields = {"address": address, "write": 1, "length": 0}
                commands.append(command.const(fields).as_bits())
                writes.append(write.const({"data": data[0], "last": 1}).as_bits())
                write_after.append(len(commands))
                continue
            part = bytes(raw[address * size : (address + count) * size])
            asked, given, after = read_part(config, address, part.ljust(count * size, b"\0"))
            read_after += [len(commands) + each for each in after]
            commands += asked
            beats += given
        self.passes.accesses.clear()
        inputs, outputs = inputs | {"i_read": beats}, outputs | {"o_command": commands}
        waits = {"i_read": {"o_command": read_after}}
        if config.writes:
            inputs["i_response"] = [response_layout().const({"error": 0}).as_bits()] * len(writes)
            outputs["o_write"] = writes
            every = list(range(1, len(writes) + 1))
            waits["i_response"] = {"o_command": write_after, "o_write": every}
        return Phase(inputs=inputs, outputs=outputs, after=waits)


def _tunings(blocks: Blocks, rng: np.random.Generator) -> list[Phase]:
    """Return commands that change all kept weights, some of them, and none as they are elsewhere.

    Some values saturate.
    """
    first, end = blocks.image.tuned
    middle = int(rng.integers(first, end + 1))
    ranges = [(first, end, 9), (first, middle, 1 << 14), (middle, middle, 5), (middle, end, -7)]
    ranges += [(first - 1, end, 3), (first, blocks.limits["end"] + 1, 3)]
    return [
        blocks.tune(low, high, seed=int(rng.integers(1, 1 << SIGN_BITS)), delta=delta)
        for low, high, delta in ranges
    ]


def case(
    config: StreamEngineConfig,
    random: Random,
    *,
    kinds: Sequence[str] = tuple(PROGRAMS),
    layers: int = 1,
    sizes: Sequence[int] = (3, 1),
) -> Case:
    """Return loads and blocks of programs of some kinds; the last block is refused.

    Programs choose where the core can, and their kept weights are tuned between blocks where it can
    do that.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    phases: list[Phase] = []
    for kind in kinds:
        engine, block = drawn(config, kind, rng, layers=layers), max(sizes)
        image = engine_image(
            config, engine.program, engine.parameters, block=block, context=sum(sizes)
        )
        blocks = Blocks(config, image, engine)
        phases.append(blocks.load())
        for k, count in enumerate(sizes):
            phases.append(blocks.run(rng.integers(0, WORDS, count), start=not k))
            if config.tune:
                phases += _tunings(blocks, rng)
        phases.append(blocks.run(rng.integers(0, WORDS, 1)))
    return Case(phases=phases, quiet=True, retains=True)
