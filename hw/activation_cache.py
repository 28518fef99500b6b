"""Between the engine's store and the forward cache: 4-bit codes one way, numbers the other."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.forward_cache import ForwardCache, request_layout
from seedbed.hw.nf4 import Nf4Dequantise
from seedbed.hw.nf4_quantise import Nf4Quantise
from seedbed.spec.instantft import InstantFtConfig

__all__ = ["ActivationCache"]

#: The ports of the cache that go to the memory.
MEMORY = ("o_command", "o_write", "i_response", "i_read")


class ActivationCache(wiring.Component):
    """A forward cache that takes and gives rows of activations.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.instantft.InstantFtConfig`.
    address_width
        Of the engine's store.

    Members
    -------
    buffer_select : In(1)
        Where a fetch's numbers go, steady until its answer.
    i, o
        Requests and answers of :class:`~seedbed.hw.forward_cache.ForwardCache`. An answer to a
        fetch comes when all numbers are in the store.
    i_rows : In(stream of struct)
        ``values`` (lanes), ``last`` (of a vector): what the engine's ``SCAN`` gives.
    o_fill : Out(stream of struct)
        ``address`` and as many ``values`` as the dequantiser has lanes.
    o_command, o_write, i_response, i_read
        To the memory.
    """

    def __init__(self, config: InstantFtConfig, address_width: int):
        self.config = config
        number = signed(config.values.width)
        self._cache = ForwardCache(config.forward_cache)
        self._quantise = Nf4Quantise(config.nf4)
        self._dequantise = Nf4Dequantise(config.nf4)
        rows = {"values": data.ArrayLayout(number, config.lanes), "last": 1}
        several = data.ArrayLayout(number, config.nf4.dequantise_lanes)
        fill = {"address": address_width, "values": several}
        cache = self._cache.signature.members
        super().__init__(
            {
                "buffer_select": In(1),
                "i": In(stream.Signature(request_layout())),
                "o": Out(stream.Signature(data.StructLayout({"status": 3}))),
                "i_rows": In(stream.Signature(data.StructLayout(rows))),
                "o_fill": Out(stream.Signature(data.StructLayout(fill))),
                **{name: cache[name] for name in MEMORY},
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.cache = cache = self._cache
        m.submodules.quantise = quantise = self._quantise
        m.submodules.dequantise = dequantise = self._dequantise
        plan = self.config.engine.plan
        flipped = wiring.flipped
        wiring.connect(m, flipped(self.i), cache.i)
        for name in MEMORY:
            ends = getattr(cache, name), flipped(getattr(self, name))
            wiring.connect(m, *(ends if name[0] == "o" else ends[::-1]))
        codes = _apart(m, quantise.o, "codes")
        wiring.connect(m, _apart(m, self._padded(m, cache.o_codes), "fetched"), dequantise.i)
        rows, out, fill = self.i_rows, dequantise.o, self.o_fill
        vector = Signal(range(len(plan.cached)))
        m.d.comb += [
            quantise.i.valid.eq(rows.valid),
            rows.ready.eq(quantise.i.ready),
            quantise.i.payload.last.eq(rows.payload.last),
            quantise.i.payload.values.eq(rows.payload.values),
            cache.i_codes.valid.eq(codes.valid),
            codes.ready.eq(cache.i_codes.ready),
            cache.i_codes.payload.codes.eq(codes.payload.codes),
            cache.i_codes.payload.peak.eq(codes.payload.peak),
            cache.i_codes.payload.last.eq(codes.payload.last & (vector == len(plan.cached) - 1)),
        ]
        with m.If(codes.valid & codes.ready & codes.payload.last):
            m.d.sync += vector.eq(vector + 1)
            with m.If(cache.i_codes.payload.last):
                m.d.sync += vector.eq(0)
        # Vector by vector, each in whole beats of memory.
        config = self.config.forward_cache
        counts = [beats * config.fetch_pieces for beats in config.vector_beats]
        place = Signal(range(len(counts) + 1))
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
            with m.Switch(place):
                for k, (region, count) in enumerate(zip(plan.cached, counts, strict=True)):
                    with m.Case(k):
                        m.d.sync += [address.eq(region.first), left.eq(count - 1)]
        with m.Elif(out.valid & fill.ready):
            m.d.sync += [address.eq(address + config.fetch_lanes), left.eq(left - 1)]
            with m.If(left == 0):
                m.d.sync += [idle.eq(1), place.eq(place + 1)]
                with m.If(place == len(counts) - 1):
                    m.d.sync += place.eq(0)
        # Codes that the cache has given are still on their way for some cycles.
        given = Signal()
        with m.If(cache.o_codes.valid & cache.o_codes.ready):
            m.d.sync += given.eq(1)
        with m.If(out.valid & out.ready & out.payload.last):
            m.d.sync += given.eq(0)
        m.d.comb += [
            self.o.valid.eq(cache.o.valid & ~given),
            self.o.payload.eq(cache.o.payload),
            cache.o.ready.eq(self.o.ready & ~given),
        ]
        return m

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
        left = Signal(range(max(config.lengths) + 1))
        length, final = Signal.like(left), Signal()
        out = stream.Signature(source.payload.shape()).create(path=("padded",))
        m.d.comb += [
            out.payload.eq(source.payload),
            out.valid.eq(source.valid),
            source.ready.eq(out.ready),
        ]
        with m.Switch(vector):
            for k, (count, beats) in enumerate(
                zip(config.lengths, config.vector_beats, strict=True)
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


def _apart(m, source, name: str):
    """Return the stream ``source`` behind a queue of two, over which no ready passes at once.

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
