"""Products of a query and keys, and of shares and values, which are kept on the chip."""

from amaranth.hdl import Array, Module, Mux, Signal, Value, signed
from amaranth.lib import memory, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.stream.stream_layouts import (
    element_layout,
    kept_layout,
    products_layout,
)
from seedbed.spec import StreamEngineConfig
from seedbed.spec.engine_records import PLACE, RECORD

__all__ = ["AttendProducts"]

#: Beats of sums that are begun and not taken at most.
DEPTH = 8


class AttendProducts(wiring.Component):
    """Keeps keys and values, and multiplies them: ``lanes`` products a cycle.

    Scores: a sum for each token t of a query and its key, ``lanes`` tokens in a beat::

        sum over k of q_k key_tk

    Mixes: a sum for each element k of a head, ``lanes`` elements in a beat::

        sum over t of share_t value_tk 2^(shift of t)

    Parameters
    ----------
    config
        :class:`~seedbed.spec.StreamEngineConfig`.

    Members
    -------
    start : In(1)
        A pulse, and with it what follows, which is steady to the last beat:
    mix : In(1)
        Mixes, not scores.
    tokens, head : In
        Tokens, and beats of a head.
    at, cache_at, row : In
        Places of the query or the shares in the store, and of the first token's key or value in the
        cache; beats from a token to the next one there.
    read, address, data : Out, Out, In
        The store's port; data comes a cycle after its address.
    write, write_at, kept : In
        A beat of a key or a value is written to the cache.
    valid, pop, o : Out, In, Out
        There is a beat of sums; it is taken; the sums and the shifts of the keys.

    Throughput: ``lanes`` products a cycle.
    """

    def __init__(self, config: StreamEngineConfig):
        self.config = config
        cache = range(config.cache)
        super().__init__(
            {
                "start": In(1),
                "mix": In(1),
                "tokens": In(range(config.context + 1)),
                "head": In(RECORD["head"]),
                "at": In(PLACE["place"]),
                "cache_at": In(cache),
                "row": In(cache),
                "read": Out(1),
                "address": Out(range(config.store)),
                "data": In(element_layout(config)),
                "write": In(1),
                "write_at": In(cache),
                "kept": In(kept_layout(config)),
                "valid": Out(1),
                "pop": In(1),
                "o": Out(products_layout(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, lanes = self.config, self.config.lanes
        m.submodules.cache = cache = memory.Memory(
            shape=kept_layout(config), depth=config.cache, init=[]
        )
        write, read = cache.write_port(), cache.read_port()
        token = Signal.like(self.tokens)
        beat = Signal.like(self.head)
        # The key or value of the next product, and that of the next loop.
        place = Signal.like(self.cache_at)
        base = Signal.like(self.cache_at)
        issue, first, last, beat_ends = (
            Signal(name=name) for name in ("issue", "first", "last", "beat_ends")
        )
        last_token, last_beat = token + 1 == self.tokens, beat + 1 == self.head
        lane = token[: lanes.bit_length() - 1]
        m.d.comb += [
            first.eq(Mux(self.mix, token == 0, beat == 0)),
            last.eq(Mux(self.mix, last_token, last_beat)),
            beat_ends.eq(last & (self.mix | last_token | lane.all())),
            self.read.eq(issue),
            self.address.eq(self.at + Mux(self.mix, token >> len(lane), beat)),
            read.addr.eq(place),
            write.en.eq(self.write),
            write.addr.eq(self.write_at),
            write.data.eq(self.kept),
        ]
        self._loops(m, issue, last, last_token, last_beat, token, beat, place, base)
        started = issue & first & (self.mix | (lane == 0))
        room = self._credit(m, started)
        running = Signal()
        m.d.comb += issue.eq(running & (room | ~(first & (self.mix | (lane == 0)))))
        with m.If(self.start):
            m.d.sync += running.eq(1)
        with m.Elif(issue & last_token & last_beat):
            m.d.sync += running.eq(0)
        self._sums(m, read.data, issue, first, last, beat_ends, lane)
        return m

    def _loops(self, m, issue, last, last_token, last_beat, token, beat, place, base) -> None:
        """Count tokens within beats for a mix, and beats within tokens for scores."""
        with m.If(issue):
            with m.If(self.mix):
                m.d.sync += [token.eq(token + 1), place.eq(place + self.row)]
                with m.If(last):
                    m.d.sync += [token.eq(0), beat.eq(beat + 1)]
                    m.d.sync += [place.eq(base + 1), base.eq(base + 1)]
            with m.Else():
                m.d.sync += [beat.eq(beat + 1), place.eq(place + 1)]
                with m.If(last):
                    m.d.sync += [beat.eq(0), token.eq(token + 1)]
                    m.d.sync += [place.eq(base + self.row), base.eq(base + self.row)]
        with m.If(self.start):
            m.d.sync += [
                token.eq(0), beat.eq(0), place.eq(self.cache_at), base.eq(self.cache_at),
            ]  # fmt: skip

    def _credit(self, m, started) -> Signal:
        """Count beats that are begun and not taken; return whether there is room for one more."""
        begun = Signal(range(DEPTH + 1))
        room = Signal()
        m.d.comb += room.eq(begun != DEPTH)
        m.d.sync += begun.eq(begun + started - (self.valid & self.pop))
        return room

    def _sums(self, m, kept, issue, first, last, beat_ends, lane) -> None:
        """Multiply, add, and collect the sums of a beat."""
        config, lanes = self.config, self.config.lanes
        shape = signed(config.unit.sum_width)
        of_lane, mix = delayed(m, lane, 1, "of_lane"), self.mix
        # Flags of the stage of the data, of the products, and of the sums.
        flags = {"comes": issue, "first": first, "last": issue & last, "ends": issue & beat_ends}
        at = {name: delay_line(m, value, 3, name, reset=True) for name, value in flags.items()}
        share = Signal(signed(config.unit.factor_bits + 1))
        m.d.comb += share.eq(Array(self.data)[of_lane])
        sums = [Signal(shape, name=f"sum_{k}", reset_less=True) for k in range(lanes)]
        for k, (x, number) in enumerate(zip(self.data, kept.numbers, strict=True)):
            width = config.unit.width
            product = Signal(signed(2 * width + 1), name=f"product_{k}", reset_less=True)
            operand = Signal(signed(config.unit.factor_bits + 1), name=f"operand_{k}")
            other = Signal(signed(width), name=f"other_{k}")
            m.d.comb += [
                operand.eq(Mux(mix, share, x)),
                other.eq(Mux(mix, number << kept.shift, number)),
            ]
            m.d.sync += product.eq(operand * other)
            with m.If(at["comes"][2]):
                m.d.sync += sums[k].eq(Mux(at["first"][2], 0, sums[k]) + product)
        total = Signal(shape)
        m.d.comb += total.eq(sum(sums[1:], sums[0]))
        self._collect(m, sums, total, delayed(m, kept.shift, 2, "shift"),
                      delayed(m, of_lane, 2, "lane"), at["last"][3], at["ends"][3])  # fmt: skip

    def _collect(self, m, sums, total, shift, lane, last, ends) -> None:
        """Put the sums of a beat together, and into the queue."""
        layout = products_layout(self.config)
        m.submodules.fifo = fifo = SyncFIFO(width=layout.size, depth=DEPTH)
        collected = Signal(layout, reset_less=True)
        with m.If(last):
            with m.If(self.mix):
                m.d.sync += [to.eq(each) for to, each in zip(collected.sums, sums, strict=True)]
            with m.Else():
                m.d.sync += [collected.sums[lane].eq(total), collected.shifts[lane].eq(shift)]
        m.d.comb += [
            fifo.w_data.eq(collected),
            fifo.w_en.eq(delayed(m, ends, 1, "whole", reset=True)),
            fifo.r_en.eq(self.pop),
            self.valid.eq(fifo.r_rdy),
            Value.cast(self.o).eq(fifo.r_data),
        ]
