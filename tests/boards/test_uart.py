"""The serial receiver and transmitter against the models of cocotbext-uart."""

from pathlib import Path

import pytest
from amaranth.back.verilog import convert
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from seedbed.hw.host.uart import UartReceiver, UartTransmitter
from seedbed.sim.harness import Mismatch
from seedbed.sim.verilog.verilate import run_tests

BUILD = Path(__file__).parents[2] / "build" / "cocotb"


class Echo(wiring.Component):
    """Returns every byte that it receives."""

    i_line: In(1, init=1)
    o_line: Out(1, init=1)

    def __init__(self, divisor, sent):
        self.divisor, self.sent = divisor, sent
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver = receiver = UartReceiver(self.divisor)
        m.submodules.transmitter = transmitter = UartTransmitter(self.sent)
        connect(m, receiver.o, transmitter.i)
        m.d.comb += [receiver.rx.eq(self.i_line), self.o_line.eq(transmitter.tx)]
        return m


def echo(tmp_path, *, divisor, sent=None, percent=100, count=256, tests):
    verilog = tmp_path / "echo.v"
    verilog.write_text(
        convert(Echo(divisor, sent or divisor), name="echo", strip_internal_attrs=True)
    )
    setup = {"divisor": divisor, "percent": percent, "count": count, "seed": 5}
    return run_tests(verilog, "echo", "uart_bench", tests, setup, seed=5, build=BUILD)


#: The slower line's bits are longer; a faster one would fill the register between the two. Of a
#: line whose bits take many cycles, an eighth of all bytes.
@pytest.mark.parametrize(
    ("divisor", "percent", "count"),
    [(20, 100, 256), (20, 102, 256), (4, 100, 256), (260, 103, 32)],
)
def test_bytes_of_another_uart(tmp_path, divisor, percent, count):
    tests = ("returns_every_byte", "recovers_from_reset")
    assert echo(tmp_path, divisor=divisor, percent=percent, count=count, tests=tests)["tests"] == 2


def test_another_baud_rate_is_noticed(tmp_path):
    with pytest.raises(Mismatch):
        echo(tmp_path, divisor=20, sent=23, tests=("returns_every_byte",))
