"""Between the engine's store and the forward cache: 4-bit codes one way, numbers the other."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.layer_readouts import rows_layout
from seedbed.hw.engine.store_writes import fill_layout
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.hw.memory.forward_cache_layouts import answer_layout, request_layout
from seedbed.hw.memory.memory_port import pass_memory, user_members
from seedbed.hw.weights.nf4 import Nf4Dequantise
from seedbed.hw.weights.nf4_quantise import Nf4Quantise
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["ActivationCache"]


class ActivationCache(wiring.Component):
    """A forward cache that takes and gives rows of activations.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.

    Members
    -------
    buffer_select : In(1)
        Where a fetch's numbers go, steady until its answer.
    i, o
        Requests and answers of :class:`~seedbed.hw.memory.forward_cache.ForwardCache`. An answer to
        a fetch comes when all numbers are in the store.
    i_rows : In(stream of :func:`~seedbed.hw.engine.layer_readouts.rows_layout`)
        What the engine's ``SCAN`` gives.
    o_fill : Out(stream of :func:`~seedbed.hw.engine.store_writes.fill_layout`)
        To the engine's store, as many numbers as the dequantiser has lanes.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: InstantFtConfig):
        self.config = config
        cache = config.forward_cache
        super().__init__(
            {
                "buffer_select": In(1),
                "i": In(stream.Signature(request_layout())),
                "o": Out(stream.Signature(answer_layout())),
                "i_rows": In(stream.Signature(rows_layout(config.engine))),
                "o_fill": Out(stream.Signature(fill_layout(config.engine))),
                **user_members(cache.address_bits, cache.beat_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.cache = cache = ForwardCache(self.config.forward_cache)
        wiring.connect(m, wiring.flipped(self.i), cache.i)
        pass_memory(m, self, cache)
        self._store(m, cache)
        last = self._fetch(m, cache)
        # Codes that the cache has given are still in flight for some cycles.
        in_flight = Signal()
        with m.If(cache.o_codes.valid & cache.o_codes.ready):
            m.d.sync += in_flight.eq(1)
        with m.If(last):
            m.d.sync += in_flight.eq(0)
        m.d.comb += [
            self.o.valid.eq(cache.o.valid & ~in_flight),
            self.o.payload.eq(cache.o.payload),
            cache.o.ready.eq(self.o.ready & ~in_flight),
        ]
        return m

    def _store(self, m, cache):
        """Quantise the rows of all vectors, one frame for the cache.

        A row may have more codes than a beat of memory.
        """
        lanes = self.config.forward_cache.store_lanes
        pieces = self.config.lanes // lanes
        vectors = len(self.config.engine.plan.schedule.cached)
        m.submodules.quantise = quantise = Nf4Quantise(self.config.nf4)
        codes = _queued(m, quantise.o, "codes")
        vector, piece = Signal(range(vectors)), Signal(range(max(2, pieces)))
        whole = piece == pieces - 1
        wiring.connect(m, wiring.flipped(self.i_rows), quantise.i)
        m.d.comb += [
            cache.i_codes.valid.eq(codes.valid),
            codes.ready.eq(cache.i_codes.ready & whole),
            cache.i_codes.payload.codes.eq(
                codes.payload.codes.as_value().word_select(piece, 4 * lanes)
            ),
            cache.i_codes.payload.peak.eq(codes.payload.peak),
            cache.i_codes.payload.last.eq(codes.payload.last & whole & (vector == vectors - 1)),
        ]
        with m.If(codes.valid & codes.ready & codes.payload.last):
            m.d.sync += vector.eq(vector + 1)
            with m.If(cache.i_codes.payload.last):
                m.d.sync += vector.eq(0)
        if pieces > 1:
            m.d.sync += piece.eq(piece + (codes.valid & cache.i_codes.ready))

    def _fetch(self, m, cache):
        """Dequantise what is fetched, and say where it goes; return whether the last of it does.

        It comes vector by vector, each in whole beats of memory.
        """
        config = self.config.forward_cache
        m.submodules.dequantise = dequantise = Nf4Dequantise(self.config.nf4)
        wiring.connect(m, _queued(m, self._padded(m, cache.o_codes), "fetched"), dequantise.i)
        out, fill = dequantise.o, self.o_fill
        regions = self.config.engine.plan.schedule.cached
        counts = [beats * config.fetch_pieces for beats in config.vector_beats]
        vector = Signal(range(len(counts) + 1))
        left = Signal(range(max(counts) + 1))
        address = Signal(len(fill.payload.address) - 1, reset_less=True)
        idle = Signal(init=1)
        m.d.comb += [
            fill.valid.eq(out.valid),
            out.ready.eq(fill.ready & ~idle),
            fill.payload.values.eq(out.payload.values),
            fill.payload.address.eq(address + (self.buffer_select << len(address))),
        ]
        with m.If(idle):
            # A cycle between vectors: which one begins where.
            m.d.comb += fill.valid.eq(0)
            m.d.sync += idle.eq(0)
            with m.Switch(vector):
                for k, (region, count) in enumerate(zip(regions, counts, strict=True)):
                    with m.Case(k):
                        m.d.sync += [address.eq(region.first), left.eq(count - 1)]
        with m.Elif(out.valid & fill.ready):
            m.d.sync += [address.eq(address + config.fetch_lanes), left.eq(left - 1)]
            with m.If(left == 0):
                m.d.sync += [idle.eq(1), vector.eq(vector + 1)]
                with m.If(vector == len(counts) - 1):
                    m.d.sync += vector.eq(0)
        return out.valid & out.ready & out.payload.last

    def _padded(self, m, source):
        """Return the stream of fetched codes with that of 0 after each vector's end.

        The store's numbers there are 0 and must stay so, whatever memory gives: the network and the
        adapters read whole rows.
        """
        config = self.config.forward_cache
        zero = self.config.nf4.levels.index(0)
        vector = Signal(range(len(config.lengths)))
        # Of the vector: beats before this one, all of memory's that fill it up included, and
        # numbers that are left.
        beat = Signal(range(max(config.vector_beats) * config.fetch_pieces))
        left = Signal(range(max(self.config.cached) + 1))
        length, final = Signal.like(left), Signal()
        out = stream.Signature(source.payload.shape()).create(path=("padded",))
        m.d.comb += [
            out.payload.eq(source.payload),
            out.valid.eq(source.valid),
            source.ready.eq(out.ready),
        ]
        with m.Switch(vector):
            for k, (count, beats) in enumerate(
                zip(self.config.cached, config.vector_beats, strict=True)
            ):
                with m.Case(k):
                    m.d.comb += [
                        length.eq(count),
                        final.eq(beat == beats * config.fetch_pieces - 1),
                    ]
        numbers = Mux(beat == 0, length, left)
        for k, code in enumerate(out.payload.codes):
            with m.If(numbers <= k):
                m.d.comb += code.eq(zero)
        with m.If(out.valid & out.ready):
            inside = numbers > config.fetch_lanes
            m.d.sync += [
                left.eq(Mux(inside, numbers - config.fetch_lanes, 0)),
                beat.eq(beat + 1),
            ]
            with m.If(final):
                m.d.sync += [beat.eq(0), vector.eq(vector + 1)]
            with m.If(out.payload.last):
                m.d.sync += vector.eq(0)
        return out


def _queued(m, source, name: str):
    """Return the stream ``source`` after a two-entry FIFO, which cuts the ready path.

    Without it, a store that is busy would hold up the memory's answers in the same cycle.
    """
    layout = source.payload.shape()
    m.submodules[name] = fifo = SyncFIFO(width=layout.size, depth=2)
    queued = stream.Signature(layout).create(path=(name,))
    m.d.comb += [
        fifo.w_data.eq(source.payload),
        fifo.w_en.eq(source.valid),
        source.ready.eq(fifo.w_rdy),
        queued.payload.eq(fifo.r_data),
        queued.valid.eq(fifo.r_rdy),
        fifo.r_en.eq(queued.ready),
    ]
    return queued
