"""An Amaranth design with two cores: uniform numbers through a register slice.

Run ``python noise.py``. It simulates the design, compares the numbers with those of the golden
model, and writes noise.v.
"""

from pathlib import Path

from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import Out, connect, flipped
from amaranth.sim import Simulator

from seedbed.golden.urng_array import UrngArray as Model
from seedbed.hw.generators.urng_array import UrngArray
from seedbed.hw.parts.skid_buffer import SkidBuffer
from seedbed.sim.tools import setup_environment
from seedbed.spec import SkidBufferConfig, UrngConfig


class Noise(wiring.Component):
    """``lanes`` random numbers per beat; ready may be driven by deep logic.

    The array uses its default seeds: ``i_seeds`` is not connected, and its valid is 0.
    """

    def __init__(self, config: UrngConfig):
        self.config = config
        self.shape = data.ArrayLayout(config.width, config.lanes)
        super().__init__({"o": Out(stream.Signature(self.shape))})

    def elaborate(self, platform):
        m = Module()
        width = self.config.lanes * self.config.width
        m.submodules.generators = generators = UrngArray(self.config)
        m.submodules.slice = slice_ = SkidBuffer(SkidBufferConfig(width=width), self.shape)
        connect(m, generators.o, slice_.i)
        connect(m, slice_.o, flipped(self.o))
        return m


def simulate(config: UrngConfig, beats: int) -> list[list[int]]:
    """Return the first ``beats`` beats of the design."""
    design = Noise(config)
    found: list[list[int]] = []

    async def receive(ctx):
        for _ in range(beats):
            words = await stream_get(ctx, design.o)
            found.append([words[lane] for lane in range(config.lanes)])

    simulator = Simulator(design)
    simulator.add_clock(1e-8)
    simulator.add_testbench(receive)
    simulator.run()
    return found


async def stream_get(ctx, port):
    """Transfer one beat, and return its payload."""
    ctx.set(port.ready, 1)
    (payload,) = await ctx.tick().sample(port.payload).until(port.valid)
    ctx.set(port.ready, 0)
    return payload


def main() -> None:
    """Check the design against the model, and emit it."""
    config = UrngConfig(lanes=31, width=8)
    assert simulate(config, 100) == Model(config).beats(100).tolist()
    setup_environment()  # finds the yosys that came with seedbed
    Path("noise.v").write_text(verilog.convert(Noise(config), name="noise"))
    print("100 beats are equal to the model's; the design is in noise.v")


if __name__ == "__main__":
    main()
