"""Two users of a board's memory, which are reset at any time."""

from random import Random

import pytest
from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from seedbed.boards.image_store import ImageStore, share_memory
from seedbed.hw.memory.memory_port import user_members
from seedbed.sim.memory import Memory
from seedbed.spec import SdramConfig

MEMORY = SdramConfig(beat_bits=128)
#: Beats of a burst of the other user, and of an image.
LENGTH, BEATS = 5, 8
RESETS = 12


class Writer(wiring.Component):
    """Writes bursts to address 0, one after the other, as long as it is enabled."""

    def __init__(self):
        super().__init__({"enable": In(1)} | user_members(MEMORY.address_bits, MEMORY.beat_bits))

    def elaborate(self, platform):
        m = Module()
        command, write, left = self.o_command, self.o_write, Signal(range(LENGTH + 1))
        m.d.comb += [
            command.payload.write.eq(1),
            command.payload.length.eq(LENGTH - 1),
            write.payload.data.eq(left),
            write.payload.last.eq(left == 1),
            self.i_response.ready.eq(1),
            self.i_read.ready.eq(1),
        ]
        with m.FSM():
            with m.State("COMMAND"):
                m.d.comb += command.valid.eq(self.enable)
                m.d.sync += left.eq(LENGTH)
                with m.If(command.valid & command.ready):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += write.valid.eq(left != 0)
                m.d.sync += left.eq(left - (write.valid & write.ready))
                with m.If(self.i_response.valid):
                    m.next = "COMMAND"
        return m


class Shared(wiring.Component):
    """A memory's port that both use, with their reset."""

    def __init__(self):
        super().__init__(
            {"hold": In(1), "enable": In(1)} | user_members(MEMORY.address_bits, MEMORY.beat_bits)
        )
        self.images = ImageStore(MEMORY, base=64, beats=BEATS, ways=4, label=4)

    def elaborate(self, platform):
        m = Module()
        writer = Writer()
        reset = ResetInserter(share_memory(m, self, writer, self.images, hold=self.hold))
        m.submodules.writer, m.submodules.images = reset(writer), reset(self.images)
        m.d.comb += writer.enable.eq(self.enable)
        return m


@pytest.mark.parametrize("seed", range(2))
def test_no_burst_that_is_written_is_cut_by_a_reset(seed):
    """The memory's model asserts that every burst ends with its last beat."""
    dut, random = Shared(), Random(seed)
    memory, images = Memory(dut, page=64, random=Random(seed)), dut.images
    found = []

    async def store(ctx, index, pixels):
        for k, value in enumerate(pixels):
            payload = {"data": value, "tag": index, "last": k == BEATS - 1}
            ctx.set(images.i_store.payload, payload)
            ctx.set(images.i_store.valid, 1)
            await ctx.tick().until(images.i_store.ready)
        ctx.set(images.i_store.valid, 0)

    async def drive(ctx):
        ctx.set(images.o.ready, 1)
        for reset in range(RESETS):
            ctx.set(dut.enable, reset % 3 != 0)
            await store(ctx, reset, [reset] * BEATS)
            await ctx.tick().repeat(random.randint(1, 300))
            ctx.set(dut.enable, 0)
            ctx.set(dut.hold, 1)
            await ctx.tick().repeat(250)
            assert not memory.writes
            ctx.set(dut.hold, 0)
            await ctx.tick()
            await store(ctx, 0, range(BEATS))
            ctx.set(images.i_show.payload.data, 0)
            ctx.set(images.i_show.valid, 1)
            await ctx.tick().until(images.i_show.ready)
            ctx.set(images.i_show.valid, 0)
            part = []
            while len(part) < BEATS:
                _, _, valid, pixels = await ctx.tick().sample(
                    images.o.valid, images.o.payload.pixels
                )
                part += [pixels] if valid else []
            found.append(part)

    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    simulator.add_testbench(memory.run, background=True)
    simulator.add_testbench(drive)
    simulator.run()
    assert found == [list(range(BEATS))] * RESETS
