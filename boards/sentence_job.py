"""Jobs of the application ``sentence``: what is sent, and what must come back."""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.boards.stream_job import StreamJob, act_packets
from seedbed.boards.streams import Input, Output, packet
from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.kept_weights import KeptTuner
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.stream.stream_layouts import TOKEN_BITS, job_layout, status_layout
from seedbed.sim.cases.stream_engine import limits
from seedbed.sim.job import Act
from seedbed.sim.jobs.stream_job import command, ended, messages, whole_beats
from seedbed.sim.payloads import pack
from seedbed.spec import SdramConfig, StreamEngineConfig

__all__ = ["Sentences", "element_layout", "inputs", "outputs"]

#: Ports for packets, by the core's.
INPUTS = {"i": "command", "i_tokens": "tokens"}


def element_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the layout of an element of a result; ``last`` is the last one of its vector."""
    return data.StructLayout({"value": signed(config.unit.residual_width), "last": 1})


def inputs(config: StreamEngineConfig) -> tuple[Input, ...]:
    """Return the ports for packets; the tag of a program is the address of its first beat."""
    return (
        Input("program", config.beat_bits, config.address_bits),
        Input("command", job_layout(config).size),
        Input("tokens", TOKEN_BITS),
    )


def outputs(config: StreamEngineConfig) -> tuple[Output, ...]:
    """Return the ports for words to the host: elements of results, and status."""
    return (
        Output("vectors", element_layout(config).size),
        Output("status", status_layout(config).size),
    )


class Sentences:
    """A program for a board, used as its model is: what is done is collected as a job.

    Each text is a block of tokens of its own.

    Parameters
    ----------
    config
        That of the board.
    engine
        The model with the program.
    memory
        The board's memory.

    Raises ``ValueError`` for a program that the core does not take.
    """

    def __init__(self, config: StreamEngineConfig, engine: StreamEngine, memory: SdramConfig):
        self.config, self.engine = config, engine
        image = engine_image(
            config, engine.program, engine.parameters, block=config.block, context=config.block
        )
        self.image = image_bytes(config, image.beats)
        if len(self.image) > memory.bytes:
            raise ValueError(
                f"the program has {len(self.image)} bytes, and the memory {memory.bytes}"
            )
        self.crc = zlib.crc32(self.image) or 1
        #: Kept weights, where they can be tuned, and where they are.
        self.tuner = KeptTuner(config, engine.parameters, image) if image.kept_beats else None
        #: The beats of kept weights: the first one, and the one after the last.
        self.kept = image.tuned
        self.texts = 0
        self._acts: list[Act] = []
        self._act("load", "load", command(config, "load", **limits(config, image)))

    def start(self) -> None:
        """Forget the tokens so far; so the board does with each text."""
        self.engine.start()

    def run(self, tokens: np.ndarray) -> np.ndarray:
        """Return the result of a text.

        Raises ``ValueError`` for a text that has too many tokens or none.
        """
        if not 1 <= len(tokens) <= self.config.block:
            raise ValueError(
                f"a text must have 1..{self.config.block} tokens on this board, not {len(tokens)}"
            )
        self.start()
        vectors = self.engine.run(tokens)
        self.texts += 1
        inputs = command(self.config, "run", start=1)
        inputs["i_tokens"] = tokens.astype("<u4").reshape(-1, 1)
        self._act(f"text {self.texts}", "run", inputs, {"o": self._elements(vectors)})
        return vectors

    def tune(self, *, seed: int, delta: int) -> None:
        """Change all kept weights by delta times random signs, and those of the model."""
        assert self.tuner
        first, end = self.kept
        fields = {"first": first, "end": end, "seed": seed, "delta": delta}
        self._act("tuning", "tune", command(self.config, "tune", **fields))
        self.tuner.tune(seed=seed, delta=delta)

    def job(self, *, stored: bool) -> StreamJob:
        """Return the job so far; with ``stored``, the memory has the program."""
        found = inputs(self.config)
        packets = [each for act in self._acts for each in act_packets(act, found, INPUTS)]
        if not stored:
            packets.insert(0, packet(found, "program", self.image))
        layouts = {"o": element_layout(self.config), "o_status": status_layout(self.config)}
        return StreamJob(np.concatenate(packets), self._acts, outputs(self.config), layouts)

    def _act(self, name: str, kind: str, inputs: dict, results: Mapping = MappingProxyType({})):
        wanted = {**ended(self.config, kind), **results}
        self._acts.append(Act(name=name, inputs=inputs, outputs=wanted, messages=messages(kind)))

    def _elements(self, vectors: np.ndarray) -> np.ndarray:
        """Return the elements of vectors (count, elements), filled up to whole beats."""
        padded = whole_beats(self.config, vectors).reshape(len(vectors), -1)
        last = np.zeros(padded.shape, np.int64)
        last[:, -1] = 1
        layout = element_layout(self.config)
        return pack(layout, padded.size, value=padded.reshape(-1), last=last.reshape(-1))
