"""Reads a part of external memory in bursts, and gives as many beats as were asked for."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.spec import StreamEngineConfig

__all__ = ["BEATS_BITS", "BurstReader"]

#: Bits of the number of beats of a part.
BEATS_BITS = 32


class BurstReader(wiring.Component):
    """Reads parts one after another. A burst ends at every multiple of ``burst`` beats.

    After an error of the memory, the beats that are left are 0, and no burst begins: who takes them
    needs no way out. After a reset or an error, nothing is asked for until the memory is silent.

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
        There was an error since ``clear``: a beat with an error, a burst of another length, a beat
        that nothing asked for, or a command that is not taken, or no beat, for ``timeout_cycles``.
    quiet : Out(1)
        No beat of an earlier part is to be expected any more.

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
                "quiet": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read = self.i_read
        dirty = Signal(init=1)
        fire = Signal()
        fault = Signal()
        drained = Signal()
        outstanding = self._commands(m, fire, fault, drained)
        takes = (self.left != 0) & ~self.failed & self.quiet
        m.d.comb += [
            self.quiet.eq(~dirty),
            fire.eq(read.valid & read.ready),
            self.o.valid.eq(Mux(self.failed, self.left != 0, read.valid & takes)),
            self.o.payload.eq(Mux(self.failed, 0, read.payload.data)),
            # A beat that nothing asked for is taken, too.
            read.ready.eq(~takes | self.o.ready),
        ]
        with m.If(self.start):
            m.d.sync += self.left.eq(self.beats)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += self.left.eq(self.left - 1)
        self._monitor(m, fire, fault, drained, outstanding)
        with m.If(fault):
            m.d.sync += [dirty.eq(1), self.failed.eq(1)]
        with m.Else():
            with m.If(drained):
                m.d.sync += dirty.eq(0)
            with m.If(self.clear):
                m.d.sync += self.failed.eq(0)
        return m

    def _commands(self, m, fire, fault, drained) -> Signal:
        """Give the commands of a part; return how many beats are outstanding."""
        config, out = self.config, self.o_command
        width = config.burst.bit_length() - 1
        address = Signal(config.address_bits, reset_less=True)
        rest = Signal(BEATS_BITS)
        outstanding = Signal(BEATS_BITS)
        room = Signal(range(config.burst + 1))
        size = Signal.like(room)
        issued = Signal.like(room)
        m.d.comb += [
            room.eq(config.burst - address[:width]),
            size.eq(Mux(rest < room, rest, room)),
        ]
        with m.If(out.valid & out.ready):
            m.d.comb += issued.eq(out.payload.length + 1)
            m.d.sync += out.valid.eq(0)
        with m.If((rest != 0) & self.quiet & (~out.valid | out.ready)):
            m.d.sync += [
                out.valid.eq(1),
                out.payload.address.eq(address),
                out.payload.length.eq(size - 1),
                rest.eq(rest - size),
                address.eq(address + size),
            ]
        with m.If(fault):
            m.d.sync += rest.eq(0)
        with m.Elif(self.start & ~self.failed):
            m.d.sync += [rest.eq(self.beats), address.eq(self.address)]
        m.d.sync += outstanding.eq(outstanding + issued - (fire & (outstanding != 0)))
        with m.If(drained):
            m.d.sync += outstanding.eq(0)
        return outstanding

    def _monitor(self, m, fire, fault, drained, outstanding) -> None:
        """Compare beats with what was asked for, and count the cycles without one."""
        config, read = self.config, self.i_read
        place = Signal(range(max(2, config.burst)), reset_less=True)
        silence = Signal(range(max(config.timeout_cycles, config.drain_cycles) + 1))
        wrong = Signal()
        timed_out = Signal()
        page_ends = place == config.burst - 1
        m.d.comb += [
            timed_out.eq(silence >= config.timeout_cycles),
            wrong.eq(
                read.payload.error
                | (read.payload.last != (page_ends | (self.left == 1)))
                | (outstanding == 0)
            ),
            # A command that is not taken stays, and is waited for as long by every part.
            fault.eq(
                ~self.failed
                & (
                    (self.quiet & fire & wrong)
                    | (self.quiet & timed_out & (outstanding != 0))
                    | (timed_out & self.o_command.valid & (self.left != 0))
                )
            ),
            drained.eq(
                ~self.quiet
                & ~self.o_command.valid
                & (silence >= config.drain_cycles)
                & ((outstanding == 0) | timed_out)
            ),
        ]
        with m.If(self.start):
            m.d.sync += place.eq(self.address[: config.burst.bit_length() - 1])
        with m.Elif(fire):
            m.d.sync += place.eq(Mux(page_ends, 0, place + 1))
        idle = self.quiet & (outstanding == 0) & ~self.o_command.valid
        with m.If(read.valid | self.start | idle):
            m.d.sync += silence.eq(0)
        with m.Elif(silence != max(config.timeout_cycles, config.drain_cycles)):
            m.d.sync += silence.eq(silence + 1)
