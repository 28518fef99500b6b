"""Changes the kept weights of a program in external memory, by random signs."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.lfsr import Lfsr
from seedbed.hw.parts.fixed_requantize import overflows
from seedbed.hw.stream.beat_writer import beat_layout
from seedbed.hw.stream.burst_reader import BEATS_BITS
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import KEPT, KEPT_BITS
from seedbed.spec.fixed import Fixed
from seedbed.spec.stream_engine import SIGN_BITS, TUNED_BEATS

__all__ = ["DELTA_BITS", "WeightTuner"]

#: Bits of what is added to values: those of a value.
DELTA_BITS = KEPT["difference"]


def _entry_layout() -> data.StructLayout:
    """Return the layout of a kept weight."""
    rest = KEPT_BITS - sum(KEPT.values())
    return data.StructLayout({**KEPT, "difference": signed(KEPT["difference"]), "rest": rest})


class WeightTuner(wiring.Component):
    """Makes ``clamp(v + delta z)`` of each value v in a range of memory; z is +1 or -1.

    Some beats are read, and wait until all of them have come; then they are written, each at its
    address. So no address is read after its write began, and the memory never has a read that waits
    for a write. An entry that is not marked stays as it is: what fills a beat is none. z of the
    entries of a beat are the lowest bits of a word of a generator, 1 for +1.

    After an error of the memory, nothing more is written.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`, with weights that can be tuned.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows:
    first, end : In
        The range, from the first beat to that before the end.
    seed, delta : In
        The generator's state, nonzero; what is added.
    read, read_address, read_beats, left, i : Out, Out, Out, In, In(stream)
        A part of memory that is read; beats of it that have not come; its beats.
    o : Out(stream)
        Beats that are written, with their addresses.
    idle : In(1)
        Beats that were taken are in memory.
    failed : In(1)
        The memory had an error.
    busy, done : Out(1)
        From the start to the end; a pulse at the end.

    Latency: that of the memory for every 16 beats. Throughput: a beat every 3 cycles besides.
    Source: MeZO (arXiv:2305.17333), algorithm 1: perturbations in place, again by their seed.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "first": In(config.address_bits),
                "end": In(config.address_bits + 1),
                "seed": In(SIGN_BITS),
                "delta": In(signed(DELTA_BITS)),
                "read": Out(1),
                "read_address": Out(config.address_bits),
                "read_beats": Out(BEATS_BITS),
                "left": In(BEATS_BITS),
                "i": In(stream.Signature(config.beat_bits)),
                "o": Out(stream.Signature(beat_layout(config))),
                "idle": In(1),
                "failed": In(1),
                "busy": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = beats = SyncFIFO(width=self.config.beat_bits, depth=TUNED_BEATS)
        m.submodules.signs = signs = Lfsr(self.config.signs)
        address = Signal(self.config.address_bits + 1)
        stop = Signal.like(self.end)
        takes = Signal()
        m.d.comb += [
            beats.w_data.eq(self.i.payload),
            beats.w_en.eq(self.i.valid & self.i.ready),
            beats.r_en.eq(takes),
            signs.i_seed.valid.eq(self.start),
            signs.i_seed.payload.eq(self.seed),
            signs.o.ready.eq(self.start | takes),
            self.o.payload.address.eq(address),
        ]
        with m.If(takes):
            m.d.sync += address.eq(address + 1)
        self._change(m, beats.r_data, signs.o.payload)
        self._sequence(m, beats, address, stop, takes)
        return m

    def _sequence(self, m, beats, address, stop, takes) -> None:
        """Read a part, write it, and so on to the end."""
        part = TUNED_BEATS - address[: TUNED_BEATS.bit_length() - 1]
        rest = stop - address
        m.d.comb += [
            self.read_address.eq(address),
            self.read_beats.eq(Mux(rest < part, rest, part)),
        ]
        with m.FSM() as states:
            m.d.comb += self.busy.eq(~states.ongoing("IDLE"))
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += [address.eq(self.first), stop.eq(self.end)]
                m.next = "PART"
            with m.State("PART"):
                m.next = "END"
                with m.If((address < stop) & ~self.failed):
                    m.d.comb += self.read.eq(1)
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.left == 0):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    self.o.valid.eq(beats.r_rdy & ~self.failed),
                    takes.eq(beats.r_rdy & (self.failed | self.o.ready)),
                ]
                with m.If(~beats.r_rdy):
                    m.next = "PART"
            with m.State("END"), m.If(self.idle):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"

    def _change(self, m, beat, signs) -> None:
        """Change the values of a beat."""
        form = Fixed(DELTA_BITS, 0)
        added = [Signal(signed(DELTA_BITS + 1), name=name) for name in ("minus", "plus")]
        with m.If(self.start):
            m.d.sync += [added[0].eq(-self.delta), added[1].eq(self.delta)]
        entries = data.ArrayLayout(_entry_layout(), self.config.signs.leap)(beat)
        changed = []
        for entry, sign in zip(entries, signs, strict=False):
            total = Signal(signed(DELTA_BITS + 2), name="total")
            value = Mux(overflows(total, form), Mux(total[-1], form.low, form.high), total)
            m.d.comb += total.eq(entry.difference + Mux(sign, added[1], added[0]))
            kept = Mux(entry.trainable, value[:DELTA_BITS], entry.difference)
            changed.append(Cat(kept[:DELTA_BITS], Value.cast(entry)[DELTA_BITS:]))
        m.d.comb += self.o.payload.data.eq(Cat(changed))
