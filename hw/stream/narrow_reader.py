"""Reads a vector of each token, and shifts it to fewer bits."""

from functools import reduce
from operator import or_

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.stream.stream_layouts import (
    SHIFT_BITS,
    STORE_CYCLES,
    element_layout,
    is_in,
    unwritten_layout,
    values_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD

__all__ = ["NarrowReader"]

#: Beats that are read and not taken at most: one for each cycle from an address to its number.
DEPTH = STORE_CYCLES + 4


class NarrowReader(wiring.Component):
    """Gives ``round(x / 2^s)`` of vectors x, saturated, with the least s that each one needs.

    The first pass over a vector is an OR of ``x XOR sign``. Then the vectors are read again,
    interleaved: ``run`` beats of each of them, up to the last. This is done for ``vectors`` of
    them, and then for those that are left.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the end:
    at, stride, length : In
        The place of the first vector, the beats to the next one, the elements of each.
    count : In
        Vectors. Where there are more than ``vectors``, they follow each other without a gap, and
        ``run`` is all of a vector.
    run : In
        Beats of a vector before those of the next one. What is beyond the length is 0.
    waits : In(1)
        The store's port is another part's.
    of_matrix : In
        As of :class:`~seedbed.hw.stream.operand_reader.OperandReader`.
    small : In(1)
        Numbers have 8 bits, not 16.
    exact : In(1)
        Vectors are not shifted.
    read, address, data : Out, Out, In
        The store's port; data comes ``STORE_CYCLES`` after its address.
    valid, pop, values, shift : Out, In, Out, Out
        There is a beat; it is taken; its numbers and their shift.
    shifts : Out
        The shift of each vector, from the first beat on.
    done : Out(1)
        All beats have been taken. In the cycle of ``start``, it is of the vectors before.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        beats = config.unit.length_bits
        super().__init__(
            {
                "start": In(1),
                "at": In(PLACE["place"]),
                "stride": In(PLACE["place"]),
                "length": In(config.unit.length_bits),
                "count": In(RECORD["repeat"]),
                "run": In(beats),
                "waits": In(1),
                **({"of_matrix": In(unwritten_layout())} if config.chains else {}),
                "small": In(1),
                "exact": In(1),
                "read": Out(1),
                "address": Out(range(config.store)),
                "data": In(element_layout(config)),
                "valid": Out(1),
                "pop": In(1),
                "values": Out(values_layout(config)),
                "shift": Out(SHIFT_BITS),
                "shifts": Out(data.ArrayLayout(SHIFT_BITS, config.vectors)),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        vector = Signal(range(max(2, config.vectors)))
        beat = Signal(config.unit.length_bits)
        run = Signal.like(self.run)
        # The next beat, the next vector, and below, the first one; how many there are from it on.
        place = Signal.like(self.at)
        base = Signal.like(self.at)
        issue = Signal()
        searching, reading = Signal(name="searching"), Signal(name="reading")
        left = Signal(config.unit.length_bits + 1)
        room = self._output(m, issue & reading, vector, left)
        inside, ended, run_ends = self._ends(m, beat, run)
        m.d.comb += [
            left.eq(Mux(inside, self.length - beat * config.lanes, 0)),
            self.read.eq(issue),
            self.address.eq(place),
        ]
        there = self._there(place, inside)
        origin = Signal.like(self.at)
        rest = Signal.like(self.count)
        last_vector = (vector + 1 == rest) | (vector == config.vectors - 1)
        settled = self._search(m, issue & searching, vector, left, self.start, ended)

        def restart(at):
            m.d.sync += [each.eq(0) for each in (vector, beat, run)]
            m.d.sync += [each.eq(at) for each in (place, base, origin)]

        with m.FSM():
            with m.State("IDLE"):
                restart(self.at)
                m.d.sync += rest.eq(self.count)
                m.d.comb += self.done.eq(~self.valid & room[1])
                with m.If(self.start):
                    m.next = "SEARCH"
                    with m.If(self.exact):
                        m.next = "READ"
            with m.State("SEARCH"):
                m.d.comb += [searching.eq(1), issue.eq(there)]
                self._go_on(m, issue, ended, vector, beat, place, base)
                with m.If(issue & ended & last_vector):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                restart(origin)
                with m.If(settled):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += [reading.eq(1), issue.eq(room[0] & there)]
                self._walk(m, issue, run_ends, vector, beat, run, place, base, last_vector)
                with m.If(issue & run_ends & last_vector & ended):
                    m.next = "IDLE"
                    m.d.sync += rest.eq(rest - config.vectors)
                    with m.If(rest > config.vectors):
                        restart(place + 1)
                        m.next = "SEARCH"
        return m

    def _ends(self, m, beat, run) -> tuple[Signal, Signal, Signal]:
        """Return whether a beat has elements, is the last one that has, or ends its run."""
        lanes = self.config.lanes
        # Registers: they are read in the cycle after the start at the earliest.
        beats, last_of_run = Signal.like(beat, name="beats"), Signal.like(run, name="last_of_run")
        m.d.sync += [
            beats.eq(self.length + (lanes - 1) >> lanes.bit_length() - 1),
            last_of_run.eq(self.run - 1),
        ]
        inside, ended, run_ends = (Signal(name=name) for name in ("inside", "ended", "run_ends"))
        m.d.comb += [
            inside.eq(beat < beats),
            ended.eq(beat + 1 >= beats),
            run_ends.eq(run == last_of_run),
        ]
        return inside, ended, run_ends

    def _there(self, place, inside) -> Value:
        """Return whether a beat may be read: it is in the store, and the port is free."""
        there = ~self.waits
        if self.config.chains:
            # What is kept may be a result that is yet to come; its runs may go on beyond it.
            there &= ~(is_in(self.of_matrix, place) & self.small & inside)
        return there

    def _go_on(self, m, issue, ended, vector, beat, place, base) -> None:
        """Go to the next beat of a vector, or to the next vector."""
        with m.If(issue):
            m.d.sync += [beat.eq(beat + 1), place.eq(place + 1)]
        with m.If(issue & ended):
            m.d.sync += [
                beat.eq(0), place.eq(base + self.stride), base.eq(base + self.stride),
                vector.eq(vector + 1),
            ]  # fmt: skip

    def _walk(self, m, issue, run_ends, vector, beat, run, place, base, last_vector) -> None:
        """Go to the next beat: of this run, of the next vector, or of the next run of the first."""
        with m.If(issue):
            m.d.sync += [beat.eq(beat + 1), run.eq(run + 1), place.eq(place + 1)]
            with m.If(run_ends):
                m.d.sync += run.eq(0)
                with m.If(last_vector):
                    m.d.sync += [
                        vector.eq(0), place.eq(base + self.run), base.eq(base + self.run),
                    ]  # fmt: skip
                with m.Else():
                    m.d.sync += [
                        vector.eq(vector + 1), beat.eq(beat - run),
                        place.eq(place - run + self.stride),
                    ]  # fmt: skip

    def _search(self, m, comes, vector, left, start, ended) -> Signal:
        """Find the shift of each vector; return whether all of them are there."""
        config, unit = self.config, self.config.unit
        among = Cat(left > k for k in range(config.lanes))
        inside = delayed(m, among, STORE_CYCLES, "searched_inside")
        number = delayed(m, vector, STORE_CYCLES + 1, "searched")
        last = delayed(m, ended, STORE_CYCLES + 1, "search_ends")
        _, *on_way = delay_line(m, comes, STORE_CYCLES + 1, "search", reset=True)
        ones = Signal(unit.residual_width - 1, reset_less=True)
        found = [
            (x[:-1] ^ x[-1].replicate(len(x) - 1)) & inside[k].replicate(len(x) - 1)
            for k, x in enumerate(self.data)
        ]
        m.d.sync += ones.eq(reduce(or_, found))
        so_far = Signal.like(ones)
        total = Signal.like(ones)
        m.d.comb += total.eq(so_far | ones)
        shift = Signal(SHIFT_BITS)
        for k in range(1 << SHIFT_BITS):
            # The sign has a bit of its own.
            for small, width in ((0, unit.width), (1, unit.cache_width)):
                place = width - 2 + k
                if k and place < len(ones):
                    with m.If((self.small == small) & total[place]):
                        m.d.comb += shift.eq(k)
        with m.If(on_way[-1]):
            m.d.sync += so_far.eq(Mux(last, 0, total))
            with m.If(last):
                m.d.sync += self.shifts[number].eq(shift)
        with m.If(start):
            m.d.sync += [so_far.eq(0), *(each.eq(0) for each in self.shifts)]
        return ~Cat(on_way).any()

    def _output(self, m, comes, vector, left) -> tuple:
        """Shift, round and saturate; return whether a beat may be read, and whether none is."""
        config = self.config
        layout = data.StructLayout({"values": values_layout(config), "shift": SHIFT_BITS})
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=DEPTH)
        inside = delayed(m, Cat(left > k for k in range(config.lanes)), STORE_CYCLES, "inside")
        shift = Signal(SHIFT_BITS, reset_less=True)
        m.d.sync += shift.eq(Array(self.shifts)[delayed(m, vector, STORE_CYCLES - 1, "vector")])
        beat = Signal(layout, reset_less=True)
        taken = layout(fifo.r_data)
        for k, (x, to) in enumerate(zip(self.data, beat.values, strict=True)):
            m.d.sync += to.eq(Mux(inside[k], self._narrowed(m, x, shift, k), 0))
        m.d.sync += beat.shift.eq(shift)
        _, *on_way = delay_line(m, comes, STORE_CYCLES + 1, "comes", reset=True)
        # Beats that are on their way or in the queue.
        outstanding = Signal(range(DEPTH + 1))
        m.d.sync += outstanding.eq(outstanding + comes - (self.pop & fifo.r_rdy))
        m.d.comb += [
            fifo.w_data.eq(beat),
            fifo.w_en.eq(on_way[-1]),
            fifo.r_en.eq(self.pop),
            self.valid.eq(fifo.r_rdy),
            self.values.eq(taken.values),
            self.shift.eq(taken.shift),
        ]
        return outstanding != DEPTH, ~Cat(on_way).any()

    def _narrowed(self, m, x, shift, k: int) -> Value:
        """Return ``round(x / 2^shift)``, saturated.

        What does not fit is found beside the shift: bits that differ from the sign, or a number
        that rounds up to one bit more.
        """
        unit, sign = self.config.unit, x[-1]
        doubled = Signal(signed(unit.width + 1), name=f"doubled_{k}")
        total = Signal(signed(unit.width + 1), name=f"rounded_{k}")
        number = Signal(signed(unit.width), name=f"narrowed_{k}")
        m.d.comb += [
            # The bit below the last one rounds.
            doubled.eq((Cat(Const(0, 1), x).as_signed() >> shift)[: unit.width + 1]),
            total.eq((doubled >> 1) + doubled[0]),
            number.eq(total),
        ]
        for small, width in ((0, unit.width), (1, unit.cache_width)):
            most = width - 1
            # Bit n of those above is one of them after a shift by n, and the last after any.
            beyond = [
                differs & (shift <= n) if n + 1 < 1 << SHIFT_BITS else differs
                for n, differs in enumerate(bit != sign for bit in x[most:-1])
            ]
            rounds = total[width] != total[most]
            with m.If((self.small == small) & (Cat(beyond).any() | rounds)):
                m.d.comb += number.eq(Mux(sign, -1 << most, (1 << most) - 1))
        return number
