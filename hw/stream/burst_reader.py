"""Reads a part of external memory in bursts, and gives as many beats as were asked for."""

from amaranth.hdl import Module, Mux
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.burst_reads import BurstReads
from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.spec import StreamEngineConfig

__all__ = ["BEATS_BITS", "BurstReader"]

#: Bits of the number of beats of a part.
BEATS_BITS = 32


class BurstReader(wiring.Component):
    """Reads parts one after another, in bursts that end at every multiple of ``burst`` beats.

    After an error of the memory, the beats that are left are 0, and no burst begins: who takes them
    needs no way out.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start, address, beats : In
        A pulse, while ``left`` is 0, and the part. Of 0 beats, there is nothing to take.
    clear : In(1)
        A pulse, while ``left`` is 0: errors are forgotten.
    o_command, i_read : Out(stream), In(stream)
        The memory.
    o : Out(stream)
        The beats.
    left : Out
        Beats that have not been taken.
    failed : Out(1)
        There was a fault since ``clear``, see :class:`~seedbed.hw.memory.burst_reads.BurstReads`.

    Latency: 2 cycles from ``start`` to the first command. Throughput: a beat every cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "address": In(config.address_bits),
                "beats": In(BEATS_BITS),
                "clear": In(1),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
                "o": Out(stream.Signature(config.beat_bits)),
                "left": Out(BEATS_BITS),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.bursts = bursts = BurstReads(config, page=config.burst, beats_bits=BEATS_BITS)
        wiring.connect(m, wiring.flipped(self.i_read), bursts.i_read)
        wiring.connect(m, bursts.o_command, wiring.flipped(self.o_command))
        m.d.comb += [
            bursts.start.eq(self.start & ~self.failed),
            bursts.address.eq(self.address),
            bursts.beats.eq(self.beats),
            bursts.waits.eq((self.left != 0) & ~self.failed),
            bursts.ends.eq(self.left == 1),
            bursts.o.ready.eq(self.o.ready),
            self.o.valid.eq(Mux(self.failed, self.left != 0, bursts.o.valid)),
            self.o.payload.eq(Mux(self.failed, 0, bursts.o.payload)),
        ]
        with m.If(self.start):
            m.d.sync += self.left.eq(self.beats)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += self.left.eq(self.left - 1)
        with m.If(bursts.fault):
            m.d.sync += self.failed.eq(1)
        with m.Elif(self.clear):
            m.d.sync += self.failed.eq(0)
        return m
