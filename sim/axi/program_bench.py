"""Base class of the testbenches of AXI ports of cores that run programs in memory."""

from collections.abc import Callable

import numpy as np
from amaranth.hdl import Shape
from amaranth.lib import data
from cocotbext.axi import AxiResp

from seedbed.golden.engine_image import engine_image
from seedbed.golden.engine_parameters import image_bytes
from seedbed.hw.axi.program_axi import ELEMENT_BITS
from seedbed.hw.stream.stream_layouts import (
    TOKEN_BITS,
    input_layout,
    result_layout,
    token_layout,
)
from seedbed.sim.axi.axi_bench import AxiBench, fields
from seedbed.sim.case import Phase
from seedbed.sim.cases.stream_engine import Blocks, drawn, input_payloads
from seedbed.sim.cases.stream_programs import WORDS
from seedbed.spec import StreamEngineConfig
from seedbed.spec.axi_registers import AXI_REGISTERS, held
from seedbed.spec.registers import addresses
from seedbed.spec.stream_engine import STREAM_ENGINE_KINDS

__all__ = ["BASE", "BYTES", "ProgramBench"]

#: Where the memory of the core is.
BASE = 0x8765_4000
#: Bytes of a token.
BYTES = ELEMENT_BITS // 8


class ProgramBench(AxiBench):
    """Gives commands and blocks through registers and streams, with a memory at ``BASE``.

    Parameters
    ----------
    dut, config
        As of :class:`~seedbed.sim.axi.axi_bench.AxiBench`.
    name
        The map of the registers.
    job_layout
        The layout of a command.
    """

    def __init__(
        self, dut, config: type[StreamEngineConfig], name: str,
        job_layout: Callable[..., data.StructLayout],
    ):  # fmt: skip
        super().__init__(dut, config, registers=AXI_REGISTERS[name], memory=True)
        self.registers = addresses(held(name, self.config), 4)
        self.job_layout = job_layout(self.config)
        self.tokens, self.results = self.source("tokens"), self.sink("results")
        self.vectors = self.source("vectors") if self.config.inputs else None

    async def begin(self, kind: str = "decoder") -> Blocks:
        """Reset the core; return the commands of a new program, which is in memory."""
        await self.reset()
        await self.write("base", BASE)
        config = getattr(self.config, "engine", self.config)
        engine = drawn(config, kind, self.rng)
        image = engine_image(config, engine.program, engine.parameters, block=3, context=6)
        self.memory.write(BASE, image_bytes(config, image.beats))
        return Blocks(config, image, engine)

    def draw(self, count: int) -> np.ndarray:
        """Return random tokens."""
        return self.rng.integers(0, WORDS, count)

    async def start(self, phase: Phase) -> None:
        """Write the command of a phase to the registers, start it, and send its tokens."""
        [values] = fields(self.job_layout, phase.inputs["i"])
        for name, value in values.items():
            await self.write(name, value & 0xFFFF_FFFF)
        await self.write("control", 1)
        tokens = fields(token_layout(self.config), phase.inputs.get("i_tokens", []))
        self.send_beats(
            self.tokens,
            [
                ((t["token"] | t.get("label", 0) << TOKEN_BITS).to_bytes(BYTES, "little"), 0, last)
                for t in tokens
                for last in [t["last"]]
            ],
        )
        if self.vectors and values["kind"] == STREAM_ENGINE_KINDS.index("run"):
            self._send_vectors(phase)

    def _send_vectors(self, phase: Phase) -> None:
        """Send the vectors of a block: a packet of one beat, if the phase has none."""
        config = self.config
        none = input_payloads(config, np.zeros((1, config.lanes), np.int64))
        size = input_layout(config)["values"].width // 8
        beats = [
            ((beat & (1 << 8 * size) - 1).to_bytes(size, "little"), 0, beat >> 8 * size)
            for beat in phase.inputs.get("i_vectors", none)
        ]
        self.send_beats(self.vectors, beats)

    async def check_results(self, phase: Phase, status: int, *, cut_short: bool = False) -> None:
        """Receive the packet of results that ends a command, and compare it.

        With ``cut_short``, the packet has as many beats of the result as it has.
        """
        lanes = self.config.lanes
        beats = fields(result_layout(self.config), phase.outputs.get("o", []))
        elements = [int(each) for beat in beats for each in beat["values"]]
        elements += [status, *[0] * (lanes - 1)]
        frame = await self.receive(self.results)
        found = np.frombuffer(bytes(frame.tdata), "<i4").tolist()
        assert (found[-lanes:] if cut_short else found) == (
            elements[-lanes:] if cut_short else elements
        )

    async def check_held(self) -> None:
        """Check which values the registers of a command hold, and that they refuse others."""
        for name, field in self.job_layout:
            # A signed register holds words that are sign-extended.
            signed = Shape.cast(field.shape).signed
            most = (1 << field.width - signed) - 1
            for word in (most, most ^ 0xFFFF_FFFF) if signed else (most,):
                await self.write(name, word)
                for wrong in (most + 1, 1 << 31) if field.width < 32 else ():
                    await self.write(name, wrong, refused=True)
                assert await self.read(name) == word
        await self.write("base", BASE + 64, refused=True)
        assert await self.read("base") == BASE
        await self.write("status", 0, refused=True)
        assert (await self.control.read(self.registers["control"], 4)).resp == AxiResp.SLVERR
