"""Asks a memory for parts of it in bursts, and compares the beats that come with them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.hw.memory.silence import silence
from seedbed.spec import SparseTrainerConfig, StreamEngineConfig

__all__ = ["BurstReads"]


class BurstReads(wiring.Component):
    """Reads parts one after another. A burst ends at every multiple of ``page`` beats.

    After a reset, a fault or a stop, beats are discarded, and no burst begins: until all beats that
    were asked for have come or, but for a stop, until the memory is silent. A command that is
    not taken stays, and is waited for as long by every part.

    Parameters
    ----------
    config
        Configuration of a core: bits of an address and of a beat, and how long it waits.
    page
        Beats, a power of two.
    beats_bits
        Bits of the number of beats of a part.

    Members
    -------
    start, address, beats : In
        A pulse, while nothing waits, and the part.
    waits, ends : In(1)
        Beats of the part have not come; of these, the next one is the last.
    stop : In(1)
        The rest of the part is not needed.
    o_command, i_read : Out(stream), In(stream)
        The memory.
    o : Out(stream)
        The beats of the part.
    fault : Out(1)
        A beat with an error, a burst of another length, a beat that nothing asked for, or a command
        that is not taken, or no beat, for ``timeout_cycles``.
    quiet, drained : Out(1)
        No beat of an earlier part is to be expected; a pulse: so it is from the next cycle on.
    stuck : Out(1)
        A command has not been taken for ``timeout_cycles``.

    Latency: 2 cycles from ``start`` to the first command. Throughput: a beat every cycle.
    """

    def __init__(
        self, config: SparseTrainerConfig | StreamEngineConfig, *, page: int, beats_bits: int
    ):
        self.config, self.page = config, page
        super().__init__(
            {
                "start": In(1),
                "address": In(config.address_bits),
                "beats": In(beats_bits),
                "waits": In(1),
                "ends": In(1),
                "stop": In(1),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
                "o": Out(stream.Signature(config.beat_bits)),
                "fault": Out(1),
                "quiet": Out(1),
                "drained": Out(1),
                "stuck": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read, takes = self.i_read, self.waits & self.quiet
        fire = Signal()
        outstanding = self._commands(m, fire)
        m.d.comb += [
            fire.eq(read.valid & read.ready),
            self.o.valid.eq(read.valid & takes),
            self.o.payload.eq(read.payload.data),
            # A beat that nothing asked for is taken, too.
            read.ready.eq(~takes | self.o.ready),
        ]
        self._monitor(m, fire, outstanding)
        return m

    def _commands(self, m, fire) -> Signal:
        """Give the commands of a part; return how many beats are outstanding."""
        out = self.o_command
        width = self.page.bit_length() - 1
        place = Signal.like(self.address, reset_less=True)
        rest = Signal.like(self.beats)
        outstanding = Signal.like(self.beats)
        room = Signal(range(self.page + 1))
        size = Signal.like(room)
        issued = Signal.like(room)
        m.d.comb += [
            room.eq(self.page - place[:width]),
            size.eq(Mux(rest < room, rest, room)),
        ]
        with m.If(out.valid & out.ready):
            m.d.comb += issued.eq(out.payload.length + 1)
            m.d.sync += out.valid.eq(0)
        with m.If((rest != 0) & self.quiet & (~out.valid | out.ready)):
            m.d.sync += [
                out.valid.eq(1),
                out.payload.address.eq(place),
                out.payload.length.eq(size - 1),
                rest.eq(rest - size),
                place.eq(place + size),
            ]
        with m.If(self.fault | self.stop):
            m.d.sync += rest.eq(0)
        with m.Elif(self.start):
            m.d.sync += [rest.eq(self.beats), place.eq(self.address)]
        m.d.sync += outstanding.eq(outstanding + issued - (fire & (outstanding != 0)))
        with m.If(self.drained):
            m.d.sync += outstanding.eq(0)
        return outstanding

    def _monitor(self, m, fire, outstanding) -> None:
        """Compare beats with what was asked for, and wait for those that are not needed."""
        page, read, command = self.page, self.i_read, self.o_command
        in_page = Signal(range(max(2, page)), reset_less=True)
        # Beats are discarded; only silence says that no more come.
        dirty = Signal(init=1)
        suspect = Signal(init=1)
        wrong = Signal()
        page_ends = in_page == page - 1
        idle = self.quiet & (outstanding == 0) & ~command.valid
        # The beats of a command that is taken late come later still.
        active = read.valid | self.start | idle | (command.valid & command.ready)
        silent, timed_out = silence(
            m, active, drain=self.config.drain_cycles, timeout=self.config.timeout_cycles
        )
        m.d.comb += [
            self.quiet.eq(~dirty),
            self.stuck.eq(timed_out & command.valid),
            wrong.eq(
                read.payload.error
                | (read.payload.last != (page_ends | self.ends))
                | (outstanding == 0)
            ),
            self.fault.eq(
                (self.quiet & fire & wrong)
                | (self.quiet & timed_out & (outstanding != 0))
                | (self.stuck & self.waits)
            ),
            self.drained.eq(
                dirty & ~command.valid & (silent | ~suspect) & ((outstanding == 0) | timed_out)
            ),
        ]
        with m.If(self.start):
            m.d.sync += in_page.eq(self.address[: page.bit_length() - 1])
        with m.Elif(fire & self.quiet):
            m.d.sync += in_page.eq(Mux(page_ends, 0, in_page + 1))
        with m.If(self.fault):
            m.d.sync += [dirty.eq(1), suspect.eq(1)]
        with m.Elif(self.drained):
            m.d.sync += [dirty.eq(0), suspect.eq(0)]
        with m.Elif(self.stop):
            m.d.sync += dirty.eq(1)
