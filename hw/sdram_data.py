"""Data pins of an SDRAM: beats that are written, and beats that are read."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.forward_cache_layouts import response_layout
from seedbed.hw.memory_port import read_layout, write_layout
from seedbed.spec import SdramConfig

__all__ = ["SdramData"]


class SdramData(wiring.Component):
    """Moves words between the data pins and beats.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    read, write, first, last : In(1)
        The command of this cycle is a read or a write, the first one of its beat, the last one of
        its burst.
    may_read, may_write : Out(1)
        A beat may be read; a beat to write is there, and a response can be stored.
    i_write, o_response, o_read
        See :func:`~seedbed.hw.memory_port.memory_members`. ``error`` of a response says that a
        ``last`` was missing or too early; ``error`` of a beat is 0.
    dq_o, dq_oe : Out(16), Out(1)
        The data pins and their output enable, registers: a cycle after the command.
    dq_i : In(16)
        The data pins, ``1 + latency + pad_cycles`` cycles after a read.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        super().__init__(
            {
                "read": In(1),
                "write": In(1),
                "first": In(1),
                "last": In(1),
                "may_read": Out(1),
                "may_write": Out(1),
                "i_write": In(stream.Signature(write_layout(config.beat_bits))),
                "o_response": Out(stream.Signature(response_layout())),
                "o_read": Out(stream.Signature(read_layout(config.beat_bits))),
                "dq_o": Out(16),
                "dq_oe": Out(1),
                "dq_i": In(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        self._write(m)
        self._read(m)
        return m

    def _write(self, m):
        """Send the words of a beat, and answer a burst."""
        config, beat = self.config, self.i_write.payload
        # The next beat, and what is left of the current one.
        held, held_valid, held_last = Signal(config.beat_bits), Signal(), Signal()
        words = Signal(config.beat_bits)
        left = Signal(range(config.burst))
        error, response = Signal(), self.o_response
        takes = self.write & self.first
        m.d.comb += [
            self.i_write.ready.eq(~held_valid | takes),
            self.may_write.eq((held_valid | ~self.first) & ~(response.valid & self.last)),
        ]
        with m.If(self.i_write.ready):
            m.d.sync += [
                held_valid.eq(self.i_write.valid),
                held.eq(beat.data),
                held_last.eq(beat.last),
            ]
        with m.If(self.write & self.first):
            m.d.sync += [self.dq_o.eq(held), words.eq(held >> 16)]
        with m.Else():
            m.d.sync += [self.dq_o.eq(words), words.eq(words >> 16)]
        with m.If(self.write):
            m.d.sync += [left.eq(config.burst - 1), self.dq_oe.eq(1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += self.dq_oe.eq(0)
        with m.If(response.ready):
            m.d.sync += response.valid.eq(0)
        self._answer(m, error, held_last)

    def _answer(self, m, error, held_last):
        """Compare each beat's ``last`` with the burst's end, and answer at its end."""
        config, response = self.config, self.o_response
        # The last access of a beat whose first one saw the end of its burst.
        ends, marked = Signal(), Signal()
        count = Signal(range(config.accesses))
        wrong = Signal()
        m.d.comb += ends.eq(count == config.accesses - 1)
        with m.If(self.write):
            m.d.sync += count.eq(count + 1) if config.accesses > 1 else []
            with m.If(self.first):
                m.d.sync += marked.eq(held_last)
        last = held_last if config.accesses == 1 else marked
        m.d.comb += wrong.eq(self.write & ends & (last != self.last))
        with m.If(self.write):
            m.d.sync += error.eq(error | wrong)
            with m.If(self.last):
                m.d.sync += [
                    error.eq(0),
                    response.valid.eq(1),
                    response.payload.error.eq(error | wrong),
                ]

    def _read(self, m):
        """Collect the words of each beat; count the places for beats that were not asked for."""
        config, out = self.config, self.o_read
        depth = config.read_beats
        m.submodules.beats = beats = fifo.SyncFIFOBuffered(width=config.beat_bits + 1, depth=depth)
        places = Signal(range(depth + 1), init=depth)
        taken, given = self.read & self.first, out.valid & out.ready
        m.d.sync += places.eq(places - taken + given)
        # From the command to its first word.
        delay = Signal(1 + config.latency + config.pad_cycles)
        last = Signal.like(delay)
        m.d.sync += [
            delay.eq(Cat(self.read, delay)),
            last.eq(Cat(self.last, last)),
        ]
        words = Signal(config.beat_bits)
        word, left = Signal(range(config.words)), Signal(range(config.burst + 1))
        ends = Signal()
        current = delay[-1] | (left != 0)
        with m.If(delay[-1]):
            m.d.sync += [left.eq(config.burst - 1), ends.eq(last[-1])]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        complete = Signal()
        m.d.sync += complete.eq(current & (word == config.words - 1))
        with m.If(current):
            m.d.sync += [words.eq(Cat(words[16:], self.dq_i)), word.eq(word + 1)]
        m.d.comb += [
            self.may_read.eq((places != 0) | ~self.first),
            beats.w_data.eq(Cat(words, ends)),
            beats.w_en.eq(complete),
            out.valid.eq(beats.r_rdy),
            out.payload.data.eq(beats.r_data),
            out.payload.last.eq(beats.r_data[-1]),
            out.payload.error.eq(Const(0)),
            beats.r_en.eq(out.ready),
        ]
