"""Gives the numbers, factors and addends of a pass to the vector unit, beat by beat."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.stream.stream_layouts import (
    STORE_CYCLES,
    element_layout,
    is_unwritten,
    unwritten_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE

__all__ = ["OPERANDS", "OperandReader"]

#: What is read for a pass. Each may be of the store.
OPERANDS = ("numbers", "factors", "addends")
#: Beats of an operand that are on their way, or wait for those of the others.
DEPTH = STORE_CYCLES + 3


class OperandReader(wiring.Component):
    """Reads the operands of a pass that are in the store: one beat of one of them a cycle.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start, beats : In
        A pulse, and the beats of the pass.
    NAME_on, NAME_at : In
        For each of ``OPERANDS``: whether it is read, and from where; with ``start``.
    unwritten, of_matrix : In
        Beats of the store that are not read yet; those of a matrix, where they are read as they
        come.
    waits : In(1)
        The store's port is another part's.
    wrap : In
        After so many beats, factors are read again from the first one.
    read, address, data : Out, Out, In
        The store's port; data comes ``STORE_CYCLES`` after its address.
    valid, pop, NAME : Out, In, Out
        There is a beat of every operand that is read; it is taken; the beat.

    Throughput: a beat every one, two or three cycles, as there are operands that are read.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        beat, address = element_layout(config), range(config.store)
        ports = {
            "start": In(1),
            "beats": In(config.unit.length_bits),
            "wrap": In(config.unit.length_bits),
            "unwritten": In(unwritten_layout()),
            **({"of_matrix": In(unwritten_layout())} if config.chains else {}),
            "waits": In(1),
            "read": Out(1),
            "address": Out(address),
            "data": In(beat),
            "valid": Out(1),
            "pop": In(1),
        }
        for name in OPERANDS:
            ports |= {f"{name}_on": In(1), f"{name}_at": In(PLACE["place"]), name: Out(beat)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        count = len(OPERANDS)
        eligible = Signal(count)
        valid = Signal(count)
        issue = Signal(count)
        turn = Signal(range(count))
        places = [
            self._operand(m, name, issue[k], eligible[k], valid[k])
            for k, name in enumerate(OPERANDS)
        ]
        m.d.comb += [self.read.eq(issue.any()), self.valid.eq(valid.all())]
        # Operands take turns, so that none has to wait for another one.
        with m.Switch(turn):
            for first in range(count):
                with m.Case(first):
                    for k in reversed(range(first, first + count)):
                        with m.If(eligible[k % count]):
                            m.d.comb += [
                                issue.eq(1 << k % count),
                                self.address.eq(places[k % count]),
                            ]
                            m.d.sync += turn.eq((k + 1) % count)
        return m

    def _operand(self, m, name, issue, eligible, valid) -> Signal:
        """Count the beats of an operand, and keep those that wait; return the next place."""
        on_in, at = getattr(self, f"{name}_on"), getattr(self, f"{name}_at")
        on = Signal(name=f"{name}_reads")
        _, *on_way = delay_line(m, issue, STORE_CYCLES, f"{name}_comes", reset=True)
        left = Signal.like(self.beats, name=f"{name}_left")
        place, first = (
            Signal.like(at, name=f"{name}_{what}", reset_less=True) for what in ("place", "first")
        )
        fifo = SyncFIFO(width=element_layout(self.config).size, depth=DEPTH)
        m.submodules[f"{name}_fifo"] = fifo
        # Beats that are on their way or wait: a counter, as their sum is a path through adders.
        outstanding = Signal(range(DEPTH + 1), name=f"{name}_outstanding")
        m.d.sync += outstanding.eq(outstanding + issue - (self.pop & on))
        m.d.comb += [
            eligible.eq(
                (left != 0) & (outstanding < DEPTH) & ~is_unwritten(self, place) & ~self.waits
            ),
            valid.eq(~on | fifo.r_rdy),
            fifo.w_data.eq(self.data),
            fifo.w_en.eq(on_way[-1]),
            fifo.r_en.eq(self.pop & on),
            Value.cast(getattr(self, name)).eq(Mux(on, fifo.r_data, 0)),
        ]
        with m.If(issue):
            m.d.sync += [left.eq(left - 1), place.eq(place + 1)]
        if name == "factors":
            wrap = Signal.like(self.wrap)
            with m.If(issue):
                m.d.sync += wrap.eq(wrap + 1)
                with m.If(wrap + 1 == self.wrap):
                    m.d.sync += [wrap.eq(0), place.eq(first)]
            with m.If(self.start):
                m.d.sync += wrap.eq(0)
        with m.If(self.start):
            m.d.sync += [
                on.eq(on_in),
                left.eq(Mux(on_in, self.beats, 0)),
                place.eq(at),
                first.eq(at),
            ]
        return place
