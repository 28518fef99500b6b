# amaranth: UnusedElaboratable=no
"""Programs in the emitted streamed engine, whose results are compared with the model's."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from seedbed.golden.engine_image import EngineImage
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.kept_weights import KeptTuner
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.stream.stream_engine import StreamEngine as Core
from seedbed.hw.stream.stream_layouts import (
    input_layout,
    job_layout,
    result_layout,
    status_layout,
    token_layout,
)
from seedbed.sim.cases.stream_engine import input_payloads, job, limits, status, token_payloads
from seedbed.sim.job import Act, Difference, Memory, check
from seedbed.sim.payloads import pack, words
from seedbed.sim.verilog.cosim import Bench, Cosim, Probes
from seedbed.spec import STREAM_ENGINE_STATUS, StreamEngineConfig
from seedbed.spec.stream_engine import Matrix

__all__ = ["Block", "RtlProgram", "bench", "command", "ended", "messages", "whole_beats"]


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a block of tokens took in the core.

    Parameters
    ----------
    tokens, cycles, beats
        Tokens, cycles, and beats that were read from the memory.
    kinds
        Cycles by kind of operation; those in which a matrix runs are the matrix's.
    """

    tokens: int
    cycles: int
    beats: int
    kinds: dict[str, int]


def bench(top: str, config: StreamEngineConfig) -> Bench:
    """Return the testbench of a core, which counts the cycles of each record.

    Those in which a matrix runs whose record has been left are counted apart. The modules of its
    Verilog begin with ``top``.
    """
    walker = f"top.rootp->{top}_packed__DOT__core__DOT__walker__DOT__"
    names = ["fsm_state", "index", *(["flight"] if config.ahead else [])]
    flight = f"{walker}flight" if config.ahead else "false"
    probes = Probes(
        signals=[
            (f"{walker}fsm_state != 0 && !{flight}", f"{walker}index"),
            (flight, "0"),
        ],
        rows=config.records,
        visible=[(f"{top}_walker", name) for name in names],
    )
    return Bench(Core(config).signature, probes=probes, page=config.burst)


class RtlProgram:
    """A program in the emitted core, used as its model is.

    Parameters
    ----------
    cosim
        The core's process, with :func:`bench`.
    config
        That of the core.
    engine
        The model, which computes the same.
    image
        The memory image of its program.
    memory
        How the core's memory behaves.
    block
        More tokens than these are several blocks, one after another.

    Raises :class:`~seedbed.sim.harness.Mismatch` for a status or a result that differs.
    """

    def __init__(
        self, cosim: Cosim, config: StreamEngineConfig, engine: StreamEngine, image: EngineImage,
        *, memory: Memory, block: int,
    ):  # fmt: skip
        self.cosim, self.config, self.engine, self.block = cosim, config, engine, block
        #: What each block of tokens took.
        self.blocks: list[Block] = []
        self._names, self.image = image.names, image
        #: Cycles of commands that tuned kept weights.
        self.tunings: list[int] = []
        #: Kept weights, where they can be tuned.
        self.tuner = KeptTuner(config, engine.parameters, image) if image.kept_beats else None
        raw = image_bytes(config, image.beats)
        cosim.fill(memory, len(image.beats) + image.saved, np.frombuffer(raw, "<u4"))
        self._act("load", command(config, "load", **limits(config, image)), {})
        self.start()

    def start(self) -> None:
        """Forget the tokens so far."""
        self._starts = True
        self.engine.start()

    def run(
        self, tokens: np.ndarray, *, inputs: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Return the result for tokens, which is that of the model.

        ``inputs`` and ``labels``: the vectors and classes that come with the tokens.
        """
        parts = [slice(k, k + self.block) for k in range(0, len(tokens), self.block)]
        return np.concatenate(
            [
                self._run(
                    tokens[part],
                    None if inputs is None else inputs[part],
                    None if labels is None else labels[part],
                )
                for part in parts
            ]
        )

    def _run(self, tokens, given, labels) -> np.ndarray:
        config = self.config
        vectors = self.engine.run(tokens, inputs=given, labels=labels)
        inputs = command(config, "run", start=int(self._starts))
        classes = () if labels is None else labels.tolist()
        payloads = token_payloads(config, tokens.tolist(), classes)
        inputs["i_tokens"] = words(payloads, token_layout(config))
        if config.inputs:
            inputs["i_vectors"] = words(input_payloads(config, given), input_layout(config))
        self._starts = False
        result = self._act("run", inputs, {"o": self._beats(vectors)})
        kinds = dict.fromkeys(self._names, 0)
        of_record, of_flight = result.counts
        for name, count in zip(self._names, of_record.tolist(), strict=False):
            kinds[name] += count
        if of_flight[0]:
            kinds[Matrix.__name__] += int(of_flight[0])
        self.blocks.append(
            Block(tokens=len(tokens), cycles=result.cycles, beats=result.beats, kinds=kinds)
        )
        return vectors

    def tune(self, *, seed: int, delta: int) -> None:
        """Change all kept weights by delta times random signs, and those of the model."""
        assert self.tuner
        first, end = self.image.tuned
        fields = {"first": first, "end": end, "seed": seed}
        result = self._act("tune", command(self.config, "tune", **fields, delta=delta), {})
        self.tunings.append(result.cycles)
        self.tuner.tune(seed=seed, delta=delta)

    def _act(self, kind, inputs, outputs):
        act = Act(
            name=kind,
            inputs=inputs,
            outputs=outputs | ended(self.config, kind),
            messages=messages(kind),
        )
        # Some cycles between acts, for what would come too late.
        result = self.cosim.run(act, settle=16)
        check([act], {kind: result})
        return result

    def _beats(self, vectors: np.ndarray) -> np.ndarray:
        """Return the beats of vectors (count, elements)."""
        beats = whole_beats(self.config, vectors)
        size = len(beats) // len(vectors)
        last = np.arange(len(beats)) % size == size - 1
        return pack(result_layout(self.config), len(beats), values=beats, last=last)


def whole_beats(config: StreamEngineConfig, vectors: np.ndarray) -> np.ndarray:
    """Return vectors (count, elements) as beats (beats, lanes), each vector filled up with 0."""
    padded = np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % config.lanes)))
    return padded.reshape(-1, config.lanes)


def command(config: StreamEngineConfig, kind: str, **fields: int) -> dict[str, np.ndarray]:
    """Return the inputs of a command."""
    return {"i": words([job(config, kind, **fields)], job_layout(config))}


def ended(config: StreamEngineConfig, kind: str) -> dict[str, np.ndarray]:
    """Return the outputs of a command that ends without an error, besides its result."""
    return {"o_status": words([status(config, kind)], status_layout(config))}


def messages(kind: str) -> dict:
    """Return the sentences for differences of a command's outputs."""
    return {"o": _unequal, "o_status": partial(_failed, kind)}


def _unequal(of: Difference) -> str:
    return f"beat {of.at} of the result is not the model's"


def _failed(kind: str, of: Difference) -> str:
    ((name,), _) = of.fields("status")
    return f"the command to {kind} ended with the status {STREAM_ENGINE_STATUS[name]}"
