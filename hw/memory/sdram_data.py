"""Data pins of an SDRAM: beats that are written, and beats that are read."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import read_layout, response_layout, write_layout
from seedbed.hw.memory.sdram_commands import QUEUE, resource_layout
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
    available : Out(:func:`~seedbed.hw.memory.sdram_commands.resource_layout`)
        Whether there is a place for another beat that is read, another beat to write, and a place
        for another response; registers.
    claimed : In(:func:`~seedbed.hw.memory.sdram_commands.resource_layout`)
        An access claims them, and enters the queue of commands.
    i_write, o_response, o_read
        See :func:`~seedbed.hw.memory.memory_port.memory_members`. ``error`` of a response says that
        a ``last`` was missing or too early; ``error`` of a beat is 0.
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
                "available": Out(resource_layout()),
                "claimed": In(resource_layout()),
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

    def _credits(self, m, name, most, give, *, init=0):
        """Count what is not claimed. ``available`` is a register, and ``claimed`` late."""
        count, take = Signal(range(most + 1), name=name, init=init), self.claimed[name]
        some, given = Signal(name=f"{name}_available", init=int(init > 0)), Signal()
        m.d.sync += [
            given.eq(give),
            count.eq(count + given - take),
            some.eq(given | (count > 1) | ((count == 1) & ~take)),
        ]
        m.d.comb += self.available[name].eq(some)

    def _write(self, m):
        """Send the words of a beat."""
        config = self.config
        m.submodules.written = beats = fifo.SyncFIFO(width=config.beat_bits + 1, depth=QUEUE)
        words = Signal(config.beat_bits)
        left = Signal(range(config.burst))
        first = self.write & self.first
        m.d.comb += [
            beats.w_data.eq(self.i_write.payload),
            beats.w_en.eq(self.i_write.valid),
            self.i_write.ready.eq(beats.w_rdy),
            beats.r_en.eq(first),
        ]
        with m.If(first):
            m.d.sync += [self.dq_o.eq(beats.r_data), words.eq(beats.r_data[16:-1])]
        with m.Else():
            m.d.sync += [self.dq_o.eq(words), words.eq(words >> 16)]
        with m.If(self.write):
            m.d.sync += [left.eq(config.burst - 1), self.dq_oe.eq(1)]
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Else():
            m.d.sync += self.dq_oe.eq(0)
        self._answer(m, beats.r_data[-1])
        response = self.o_response.valid & self.o_response.ready
        self._credits(m, "beat", QUEUE, self.i_write.valid & self.i_write.ready)
        self._credits(m, "answer", QUEUE, response, init=QUEUE)

    def _answer(self, m, marked):
        """Compare each beat's ``last`` with the burst's end, and answer at its end."""
        config = self.config
        m.submodules.answers = answers = fifo.SyncFIFO(width=1, depth=QUEUE)
        # The beat's ``last``, which comes with its first access; an earlier beat's was wrong.
        stored, error = Signal(), Signal()
        count = Signal(range(max(2, config.accesses)))
        last, wrong = Mux(self.first, marked, stored), Signal()
        ends = count == config.accesses - 1
        m.d.comb += [
            wrong.eq(error | (ends & (last != self.last))),
            answers.w_data.eq(wrong),
            answers.w_en.eq(self.write & self.last),
            self.o_response.valid.eq(answers.r_rdy),
            self.o_response.payload.error.eq(answers.r_data),
            answers.r_en.eq(self.o_response.ready),
        ]
        with m.If(self.write):
            m.d.sync += [stored.eq(last), error.eq(wrong & ~self.last)]
            if config.accesses > 1:
                m.d.sync += count.eq(count + 1)

    def _read(self, m):
        """Collect the words of each beat."""
        config, out = self.config, self.o_read
        depth = config.read_beats
        m.submodules.beats = beats = fifo.SyncFIFOBuffered(width=config.beat_bits + 1, depth=depth)
        self._credits(m, "place", depth, out.valid & out.ready, init=depth)
        # From the command to its first word.
        delay = Signal(1 + config.latency + config.pad_cycles)
        last = Signal.like(delay)
        m.d.sync += [
            delay.eq(Cat(self.read, delay)),
            last.eq(Cat(self.last, last)),
        ]
        words = Signal(config.beat_bits)
        word, ends, current = Signal(range(config.words)), Signal(), Signal()
        # Below 0 in the last word of a read.
        left = Signal(range(-1, config.burst), init=-1)
        m.d.sync += current.eq(delay[-2] | ~left[-1])
        with m.If(delay[-2]):
            m.d.sync += left.eq(config.burst - 2)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        with m.If(delay[-1]):
            m.d.sync += ends.eq(last[-1])
        complete = Signal()
        m.d.sync += complete.eq(current & (word == config.words - 1))
        with m.If(current):
            m.d.sync += [words.eq(Cat(words[16:], self.dq_i)), word.eq(word + 1)]
        m.d.comb += [
            beats.w_data.eq(Cat(words, ends)),
            beats.w_en.eq(complete),
            out.valid.eq(beats.r_rdy),
            out.payload.data.eq(beats.r_data),
            out.payload.last.eq(beats.r_data[-1]),
            out.payload.error.eq(Const(0)),
            beats.r_en.eq(out.ready),
        ]
