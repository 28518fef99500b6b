"""Reads a sample from external memory, and gives its tokens and vectors."""

from amaranth.hdl import Array, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.data import StructLayout
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.burst_reads import BurstReads
from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.hw.stream.stream_layouts import input_layout, token_layout
from seedbed.spec.stream_trainer import SAMPLE_WORD, StreamTrainerConfig

__all__ = ["HEAD_BITS", "VECTORS_BITS", "SampleReader", "sample_beats"]

#: Bits of the number of beats of a sample's tokens, and of the number of beats of its vectors.
HEAD_BITS, VECTORS_BITS = 8, 20


def sample_beats(config: StreamTrainerConfig, head: Value, vectors: Value | int) -> Value:
    """Return the beats of memory of a sample with such a head, and so many beats of vectors."""
    per = config.sample_vectors
    return head + ((vectors + (per - 1)) >> per.bit_length() - 1)


class SampleReader(wiring.Component):
    """Reads all of a sample, then gives its tokens and, where the engine takes some, its vectors.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamTrainerConfig`.

    Members
    -------
    start, address, head, vectors : In
        A pulse, while no sample is read; where the sample is, the beats of its tokens, and the
        beats of its vectors as the engine takes them.
    beats : Out
        Beats of memory of a sample with such a head and vectors.
    fetched, failed : Out(1)
        A pulse: the sample has been read, or not, because of an error of the memory.
    settled, stuck : Out(1)
        No beat and no command of the sample is on its way; a command is not taken.
    give : In(1)
        A pulse after ``fetched``: tokens are given, then vectors.
    o_tokens, o_vectors : Out(stream)
        As :class:`~seedbed.hw.stream.stream_engine.StreamEngine` takes them. The last word of the
        head is the last token in any case.
    o_command, i_read : Out(stream), In(stream)
        The memory.

    Throughput: a beat of memory, a token, or a beat of vectors each cycle.
    """

    def __init__(self, config: StreamTrainerConfig):
        self.config = config
        vectors = {"o_vectors": Out(stream.Signature(input_layout(config)))}
        super().__init__(
            {
                "start": In(1),
                "address": In(config.address_bits),
                "head": In(HEAD_BITS),
                "vectors": In(VECTORS_BITS),
                "beats": Out(VECTORS_BITS + 1),
                "fetched": Out(1),
                "failed": Out(1),
                "settled": Out(1),
                "stuck": Out(1),
                "give": In(1),
                "o_tokens": Out(stream.Signature(token_layout(config))),
                **(vectors if config.inputs else {}),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # What an earlier sample has left is dropped.
        fifo = SyncFIFOBuffered(width=config.beat_bits, depth=config.sample)
        m.submodules.beats = ResetInserter(self.start)(fifo)
        m.submodules.bursts = bursts = BurstReads(
            config, page=config.burst, beats_bits=len(self.beats)
        )
        wiring.connect(m, wiring.flipped(self.i_read), bursts.i_read)
        wiring.connect(m, bursts.o_command, wiring.flipped(self.o_command))
        left = Signal.like(self.beats)
        takes = Signal()
        m.d.comb += [
            self.beats.eq(sample_beats(config, self.head, self.vectors if config.inputs else 0)),
            bursts.start.eq(self.start),
            bursts.address.eq(self.address),
            bursts.beats.eq(self.beats),
            bursts.waits.eq(left != 0),
            bursts.ends.eq(left == 1),
            bursts.o.ready.eq(fifo.w_rdy),
            fifo.w_data.eq(bursts.o.payload),
            fifo.w_en.eq(takes),
            takes.eq(bursts.o.valid & fifo.w_rdy),
            self.failed.eq(bursts.fault & (left != 0)),
            self.fetched.eq(takes & (left == 1) & ~self.failed),
            self.settled.eq(bursts.quiet & ~bursts.o_command.valid),
            self.stuck.eq(bursts.stuck),
        ]
        with m.If(self.start):
            m.d.sync += left.eq(self.beats)
        with m.Elif(self.failed):
            m.d.sync += left.eq(0)
        with m.Elif(takes):
            m.d.sync += left.eq(left - 1)
        self._give(m, fifo)
        return m

    def _give(self, m, fifo) -> None:
        """Cut the beats into words of tokens, then into beats of vectors."""
        config = self.config
        word = Signal(StructLayout(SAMPLE_WORD))
        index = Signal(range(config.words), reset_less=True)
        head = Signal(HEAD_BITS, reset_less=True)
        tokens, drop = self.o_tokens, Signal()
        last = Signal()
        m.d.comb += [
            word.eq(_parts(fifo.r_data, 32)[index]),
            last.eq(word.last | ((head == 1) & (index == config.words - 1))),
            tokens.payload.token.eq(word.token),
            tokens.payload.label.eq(word.label),
            tokens.payload.last.eq(last),
            fifo.r_en.eq(drop),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.give):
                m.d.sync += [index.eq(0), head.eq(self.head)]
                m.next = "TOKENS"
            with m.State("TOKENS"):
                m.d.comb += tokens.valid.eq(fifo.r_rdy)
                with m.If(fifo.r_rdy & tokens.ready):
                    m.d.comb += drop.eq(last | (index == config.words - 1))
                    m.d.sync += [index.eq(index + 1), head.eq(head - drop)]
                    with m.If(last):
                        m.next = "REST" if config.inputs else "IDLE"
            if config.inputs:
                self._vectors(m, fifo, head, drop)

    def _vectors(self, m, fifo, head, drop) -> None:
        """Drop the rest of the head, and give the beats of vectors."""
        config, out = self.config, self.o_vectors
        place = Signal(range(config.sample_vectors), reset_less=True, name="vector_place")
        left = Signal(VECTORS_BITS, reset_less=True, name="vectors_left")
        m.d.comb += [
            out.payload.values.eq(_parts(fifo.r_data, 16 * config.lanes)[place]),
            out.payload.last.eq(left == 1),
        ]
        with m.State("REST"):
            m.d.sync += [place.eq(0), left.eq(self.vectors)]
            with m.If(head == 0):
                m.next = "VECTORS"
            with m.Elif(fifo.r_rdy):
                m.d.comb += drop.eq(1)
                m.d.sync += head.eq(head - 1)
        with m.State("VECTORS"):
            m.d.comb += out.valid.eq(fifo.r_rdy)
            with m.If(fifo.r_rdy & out.ready):
                ends = place == config.sample_vectors - 1
                m.d.comb += drop.eq(ends | out.payload.last)
                m.d.sync += [place.eq(Mux(ends, 0, place + 1)), left.eq(left - 1)]
                with m.If(out.payload.last):
                    m.next = "IDLE"


def _parts(beat: Value, width: int) -> Array:
    """Return the parts of a beat of so many bits, the lowest first."""
    return Array([beat[k : k + width] for k in range(0, len(beat), width)])
