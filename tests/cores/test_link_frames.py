import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from seedbed.golden.host_link import encode
from seedbed.hw.host.link_frames import FrameTransmitter
from seedbed.hw.host.uart import UartReceiver, UartTransmitter
from seedbed.sim.case import Case, Phase
from seedbed.sim.harness import Stalls, simulate, with_stalls
from seedbed.spec import HostLinkConfig


@pytest.mark.parametrize(
    ("length", "stalls"), [*with_stalls([1, 8, 249, 250, 251, 254, 255]), (250, Stalls.NONE)]
)
def test_every_length_of_a_group(length, stalls):
    """The CRC's four bytes follow: their sum is at and around the longest group."""
    packets = [bytes([value]) * length for value in (7, 0)]
    packets.append((b"\1" * 253 + b"\0" + b"\2" * 254 + b"\0")[-length:])
    sent = [b | (k == length - 1) << 8 for raw in packets for k, b in enumerate(raw)]
    frames = b"".join(map(encode, packets))
    case = Case(phases=[Phase(inputs={"i": sent}, outputs={"o": list(frames)})], quiet=True)
    simulate(FrameTransmitter(HostLinkConfig()), case, stalls=stalls, seed=2)


def over_a_line(sent, *, divisor, other=None, ready=True, gap=0):
    """The bytes that a receiver outputs for those that a transmitter with another clock sends."""
    m = Module()
    m.submodules.tx = tx = UartTransmitter(other or divisor)
    m.submodules.rx = rx = UartReceiver(divisor)
    m.d.comb += rx.rx.eq(tx.tx)
    received = []

    async def send(ctx):
        for byte in sent:
            ctx.set(tx.i.payload, byte)
            ctx.set(tx.i.valid, 1)
            await ctx.tick().until(tx.i.ready)
            ctx.set(tx.i.valid, 0)
            if gap:
                await ctx.tick().repeat(gap)
        await ctx.tick().repeat(3 * divisor)

    async def receive(ctx):
        ctx.set(rx.o.ready, ready)
        async for _, _, valid, byte in ctx.tick().sample(rx.o.valid, rx.o.payload):
            if valid:
                received.append(byte)

    simulator = Simulator(m)
    simulator.add_clock(1e-8)
    simulator.add_testbench(send)
    simulator.add_testbench(receive, background=True)
    simulator.run()
    return received


BYTES = [0x00, 0xFF, 0x55, 0xAA, 0x01, 0x80, 0x00, 0x00, 0xFE]


@pytest.mark.parametrize("gap", [0, 1, 5])
@pytest.mark.parametrize("divisor", [4, 5, 20])
def test_a_line_carries_bytes(divisor, gap):
    assert over_a_line(BYTES, divisor=divisor, gap=gap) == BYTES


@pytest.mark.parametrize("other", [39, 41])
def test_a_clock_may_differ(other):
    assert over_a_line(BYTES, divisor=40, other=other) == BYTES


def test_a_byte_that_is_not_accepted_stays():
    assert set(over_a_line([5, 6, 7], divisor=4, ready=False)) == {5}


def test_noise_is_no_start_bit():
    """A low level that is shorter than half a bit is ignored, and a byte without a stop bit."""
    rx = UartReceiver(16)
    levels = [1] * 20 + [0] * 4 + [1] * 200 + [0] * 16 * 10 + [1] * 200
    byte = [0] + [0x35 >> k & 1 for k in range(8)] + [1]
    levels += [level for level in byte for _ in range(16)] + [1] * 20
    received = []

    async def drive(ctx):
        ctx.set(rx.o.ready, 1)
        for level in levels:
            ctx.set(rx.rx, level)
            _, _, valid, value = await ctx.tick().sample(rx.o.valid, rx.o.payload)
            received.extend([value] if valid else [])

    simulator = Simulator(rx)
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    simulator.run()
    assert received == [0x35]
