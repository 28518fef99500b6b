"""Case of the trainer of programs: commands of its engine, and trainings on samples in memory."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np

from seedbed.golden.engine_image import engine_image
from seedbed.golden.stream_trainer import (
    Sample,
    Work,
    head_beats,
    sample_bytes,
    train,
    training,
)
from seedbed.hw.kept.stream_trainer_layouts import job_layout, log_layout, status_layout
from seedbed.hw.stream import stream_layouts
from seedbed.sim.case import Case, Phase
from seedbed.sim.cases.stream_engine import Blocks, drawn, read_part
from seedbed.sim.cases.stream_programs import WORDS
from seedbed.spec.stream_engine import Program
from seedbed.spec.stream_trainer import (
    STREAM_TRAINER_KINDS,
    STREAM_TRAINER_STATUS,
    StreamTrainerConfig,
)

__all__ = ["Trainings", "case", "drawn_samples", "job", "status"]

#: Streams of the memory, in and out.
_READ, _ANSWERS, _COMMANDS, _WRITES = "i_read", "i_response", "o_command", "o_write"


def job(config: StreamTrainerConfig, kind: str, **fields: int) -> int:
    """Return a command."""
    fields["kind"] = STREAM_TRAINER_KINDS.index(kind)
    return job_layout(config).const(fields).as_bits()


def status(kind: str, name: str = "ok", steps: int = 0) -> int:
    """Return how a command ended."""
    codes = {
        "kind": STREAM_TRAINER_KINDS.index(kind), "status": STREAM_TRAINER_STATUS.index(name),
    }  # fmt: skip
    return status_layout().const({**codes, "steps": steps}).as_bits()


def _joined(parts: Sequence[Phase], own: Phase) -> Phase:
    """Return the phase of all that the memory does in ``parts``, and the streams of ``own``."""
    ports = _READ, _ANSWERS, _COMMANDS, _WRITES
    beats: dict[str, list[int]] = {name: [] for name in ports}
    after: dict[str, dict[str, list[int]]] = {
        _READ: {_COMMANDS: []}, _ANSWERS: {_COMMANDS: [], _WRITES: []},
    }  # fmt: skip
    for part in parts:
        for name, counts in after.items():
            for output, each in counts.items():
                seen = len(beats[output])
                each += [count + seen for count in part.after[name][output]]
        for name in ports:
            beats[name] += (part.inputs | part.outputs)[name]
    inputs = own.inputs | {name: beats[name] for name in (_READ, _ANSWERS)}
    outputs = own.outputs | {name: beats[name] for name in (_COMMANDS, _WRITES)}
    return Phase(inputs=inputs, outputs=outputs, after=after)


class Trainings:
    """Runs commands on the models; gives the phases of a core that does the same.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamTrainerConfig`.
    blocks
        The engine's commands, with the program.
    samples
        Of the same head and number of beats of vectors.
    """

    def __init__(self, config: StreamTrainerConfig, blocks: Blocks, samples: Sequence[Sample]):
        self.config, self.blocks, self.samples = config, blocks, samples
        #: The beats of a sample's tokens, and its place after the program.
        self.head = head_beats(config, samples)
        self.first = blocks.image.limits[1] + 3
        self._raw = [sample_bytes(config, each, self.head) for each in samples]
        self._parts: list[Phase] = []
        self._results: list[int] = []
        self._delta = 0

    @property
    def beats(self) -> list[int]:
        """What the memory holds at first: the program, then the samples."""
        found = list(self.blocks.image.beats)
        found += [0] * (self.first - len(found))
        size = self.config.beat_bits // 8
        raw = b"".join(self._raw)
        return found + [
            int.from_bytes(raw[k : k + size], "little") for k in range(0, len(raw), size)
        ]

    def given(self, phase: Phase) -> Phase:
        """Return the phase of a command of the engine."""
        engine = self.config.engine
        command = stream_layouts.job_layout(engine).from_bits(phase.inputs["i"][0])
        ended = stream_layouts.status_layout(engine).from_bits(phase.outputs["o_status"][0])
        kind = engine.kinds[command.kind]
        fields = {name: command[name] for name, _ in stream_layouts.job_layout(engine)}
        inputs = {"i": [job(self.config, **fields | {"kind": kind})]}
        outputs = {"o_status": [status(kind, STREAM_TRAINER_STATUS[ended.status])]}
        return replace(phase, inputs=phase.inputs | inputs, outputs=phase.outputs | outputs)

    def command(self, work: Work, **other: int) -> int:
        """Return the command to train, or one with other fields."""
        fields = training(
            self.config, self.samples, work, address=self.first, tuned=self.blocks.image.tuned
        )
        return job(self.config, "train", **fields | other)

    def train(self, work: Work) -> Phase:
        """Return the phase of a training."""
        layout = log_layout(self.config)
        log = [
            layout.const({"seed": step.seed, "change": step.change}).as_bits()
            for step, *_ in train(self.config, self, self.samples, work)
        ]
        outputs = {
            "o": self._results, "o_log": log, "o_status": [status("train", steps=len(log))],
        }  # fmt: skip
        own = Phase(inputs={"i": [self.command(work)]}, outputs=outputs)
        found = _joined(self._parts, own)
        self._parts, self._results = [], []
        return found

    # As a program whose kept weights are tuned.

    def start(self) -> None:
        """Have the next block begin at the first position: each block of a training does."""

    def run(
        self, tokens: np.ndarray, *, inputs: np.ndarray | None, labels: np.ndarray
    ) -> np.ndarray:
        """Run a sample, which is read first."""
        given = {"inputs": inputs, "labels": labels}
        self.blocks.engine.start()
        found = np.array(self.blocks.engine.run(tokens, **given))
        phase = self.blocks.run(tokens, start=True, **given)
        self._parts += [self._read(tokens), phase]
        if self._delta < 0:
            self._results += phase.outputs["o"]
        return found

    def tune(self, *, seed: int, delta: int) -> None:
        """Change kept weights."""
        self._parts.append(self.blocks.tune(*self.blocks.image.tuned, seed=seed, delta=delta))
        self._delta = delta

    def _read(self, tokens: np.ndarray) -> Phase:
        """Return what the memory does when a sample is read."""
        k = next(k for k, each in enumerate(self.samples) if each.tokens is tokens)
        size = self.config.beat_bits // 8
        raw = self._raw
        address = self.first + sum(map(len, raw[:k])) // size
        commands, beats, after = read_part(self.config, address, raw[k])
        inputs, outputs = {_READ: beats, _ANSWERS: []}, {_COMMANDS: commands, _WRITES: []}
        none: dict[str, list[int]] = {_COMMANDS: [], _WRITES: []}
        return Phase(
            inputs=inputs, outputs=outputs, after={_READ: {_COMMANDS: after}, _ANSWERS: none}
        )


def drawn_samples(
    config: StreamTrainerConfig, program: Program, rng: np.random.Generator, sizes: Sequence[int]
) -> list[Sample]:
    """Return random samples of a program that ends with a loss, with vectors where it takes some.

    Some of their classes are none.
    """
    first, last = program.operations[0], program.operations[-1]
    length, classes = (program.vectors[name].length for name in (first.target, *last.sources))
    found = []
    for size in sizes:
        tokens = rng.integers(0, WORDS, size)
        labels = rng.integers(0, classes + 1, size)
        inputs = rng.integers(-1 << 15, 1 << 15, (size, length)) if config.inputs else None
        found.append(Sample(tokens, labels, inputs))
    return found


def case(
    config: StreamTrainerConfig,
    random: Random,
    *,
    kinds: Sequence[str] = ("encoder",),
    sizes: Sequence[int] = (3, 1, 2),
) -> Case:
    """Return trainings of programs of some kinds, with commands of the engine before and after.

    Samples are of some numbers of tokens, all of one where vectors come with them. A training that
    cannot be run is refused.
    """
    rng = np.random.default_rng(random.getrandbits(32))
    engine_config, phases = config.engine, []
    for kind in kinds:
        engine, block = drawn(engine_config, kind, rng), max(sizes)
        image = engine_image(
            engine_config, engine.program, engine.parameters, block=block, context=block
        )
        blocks = Blocks(engine_config, image, engine)
        counts = [block] * len(sizes) if config.inputs else sizes
        trainings = Trainings(config, blocks, drawn_samples(config, engine.program, rng, counts))
        phases.append(trainings.given(blocks.load()))
        tokens = rng.integers(0, WORDS, 2)
        phases.append(trainings.given(blocks.run(tokens, start=True)))
        work = Work(
            batch=min(2, config.batch), epochs=2, seed=random.randrange(1, 1 << 23),
            eps=random.randrange(200, 2000), rate=900, decay=400, shift=random.randrange(11, 17),
            most=3000,
        )  # fmt: skip
        refused = [{"batch": config.batch + 1}, {"delta": 0}, {"most": 32767}, {"seed": 1 << 23}]
        for other in refused:
            phases.append(
                Phase(
                    inputs={"i": [trainings.command(work, **other)]},
                    outputs={"o_status": [status("train", "command")]},
                )
            )
        phases.append(
            Phase(inputs={"i": [job(config, "abort")]}, outputs={"o_status": [status("abort")]})
        )
        phases.append(trainings.train(work))
        phases.append(trainings.given(blocks.run(tokens, start=True)))
    return Case(phases=phases, quiet=True, retains=True)
