"""Jobs of the application ``sentence``: what is sent, and what must come back."""

import zlib
from collections.abc import Sequence

import numpy as np
from amaranth.hdl import signed
from amaranth.lib import data

from seedbed.boards.stream_job import StreamJob, act_packets
from seedbed.boards.streams import Input, Output, packet
from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_parameters import image_bytes
from seedbed.golden.stream_engine import StreamEngine
from seedbed.hw.stream.stream_layouts import TOKEN_BITS, job_layout, status_layout
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
    """A program for a board, and blocks of tokens, each of which is a text of its own.

    Parameters
    ----------
    config
        That of the board.
    engine
        The model with the program.
    blocks
        The tokens of each text.
    memory
        The board's memory.

    Raises ``ValueError`` for a program that the core does not take, and for a text that has too
    many tokens or none.
    """

    def __init__(
        self,
        config: StreamEngineConfig,
        engine: StreamEngine,
        blocks: Sequence[np.ndarray],
        memory: SdramConfig,
    ):
        self.config, self.engine, self.blocks = config, engine, blocks
        for tokens in blocks:
            if not 1 <= len(tokens) <= config.block:
                raise ValueError(
                    f"a text must have 1..{config.block} tokens on this board, not {len(tokens)}"
                )
        image = engine_image(
            config, engine.program, engine.parameters, block=config.block, context=config.block
        )
        self.image = image_bytes(config, image.beats)
        if len(self.image) > memory.bytes:
            raise ValueError(
                f"the program has {len(self.image)} bytes, and the memory {memory.bytes}"
            )
        self.crc = zlib.crc32(self.image) or 1

    def vectors(self) -> list[np.ndarray]:
        """Return the result of each text, of the model."""
        found = []
        for tokens in self.blocks:
            self.engine.start()
            found.append(self.engine.run(tokens))
        return found

    def job(self, vectors: Sequence[np.ndarray], *, stored: bool) -> StreamJob:
        """Return the job; with ``stored``, the memory has the program."""
        config, found = self.config, inputs(self.config)
        acts = [
            Act(
                name="load", inputs=command(config, "load"), outputs=ended(config, "load"),
                messages=messages("load"),
            )
        ]  # fmt: skip
        for k, (tokens, vector) in enumerate(zip(self.blocks, vectors, strict=True)):
            acts.append(
                Act(
                    name=f"text {k + 1}",
                    inputs=command(config, "run", start=1)
                    | {"i_tokens": tokens.astype("<u4").reshape(-1, 1)},
                    outputs=ended(config, "run") | {"o": self._elements(vector)},
                    messages=messages("run"),
                )
            )
        packets = [each for act in acts for each in act_packets(act, found, INPUTS)]
        if not stored:
            packets.insert(0, packet(found, "program", self.image))
        layouts = {"o": element_layout(config), "o_status": status_layout(config)}
        return StreamJob(np.concatenate(packets), acts, outputs(config), layouts)

    def _elements(self, vectors: np.ndarray) -> np.ndarray:
        """Return the elements of vectors (count, elements), filled up to whole beats."""
        padded = whole_beats(self.config, vectors).reshape(len(vectors), -1)
        last = np.zeros(padded.shape, np.int64)
        last[:, -1] = 1
        layout = element_layout(self.config)
        return pack(layout, padded.size, value=padded.reshape(-1), last=last.reshape(-1))
