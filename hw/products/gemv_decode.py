"""Decodes the beats of a matrix's rows to weights."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.gemv_layouts import groups_layout
from seedbed.hw.weights import lut_dequantize, seedlm_decompress, trellis_decompress
from seedbed.hw.weights.lut_dequantize import LutDequantize
from seedbed.hw.weights.seedlm_decompress import SeedlmDecompress
from seedbed.hw.weights.trellis_decompress import TrellisDecompress
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import CODE_BITS, EXPONENT_BITS

__all__ = ["GemvDecode", "latency"]


def latency(config: GemvConfig) -> int:
    """Return :attr:`GemvDecode.latency`."""
    if config.decompress:
        return 1 + seedlm_decompress.latency(config.decompress)
    if config.trellis:
        return 1 + trellis_decompress.latency(config.trellis)
    return lut_dequantize.latency(config.dequantize) if config.dequantize else 1


class GemvDecode(wiring.Component):
    """Gives the weights of each beat of a row, some cycles later. It never stalls.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`.

    Members
    -------
    start : In(1)
        A pulse before a job: nothing that was accepted before counts any more.
    plain : In(1)
        Weights are plain, steady during a job. Only with the decodes ``seedlm`` and ``groups``.
    table : In(1)
        The next beat is one of a table. Only with the decode ``lut4``.
    ready : Out(1)
        The next beat may be given.
    fire, data, last : In
        A beat of a row; ``last`` with its last one.
    groups, of_weights : In, Out
        Scales and minima of the beat, and those of the weights. Only with the decode ``groups``.
    abort : In(1)
        Ends a row with an arbitrary beat.
    valid, last_weights : Out
        Weights of a beat are there, and they are the last of their row.
    weights, exponents, on : Out
        As :class:`~seedbed.hw.products.mac_array.MacArray` takes them; exponents only where it has
        any.

    Latency: ``latency`` cycles, 1 if plain; the decompressor's or dequantizer's otherwise, and one
    more with ``seedlm`` and ``trellis``. Throughput: a beat every cycle. A row of ``lut4`` takes
    16 / level_load cycles or more, and each beat of its table table_levels / level_load, which are
    those of the weights before it if there are enough.
    """

    def __init__(self, config: GemvConfig):
        self.config = config
        mac = config.mac
        members = {
            "start": In(1),
            "plain": In(1),
            "table": In(1),
            "ready": Out(1),
            "fire": In(1),
            "data": In(config.beat_bits),
            "last": In(1),
            "abort": In(1),
            "valid": Out(1),
            "last_weights": Out(1),
            "weights": Out(data.ArrayLayout(signed(mac.weight_width), mac.lanes)),
            "on": Out(data.ArrayLayout(1, mac.blocks)),
        }
        if mac.exponent_width:
            exponents = data.ArrayLayout(signed(mac.exponent_width), mac.blocks)
            members["exponents"] = Out(exponents)
        if config.decode == "groups":
            layout = groups_layout(config)
            members |= {"groups": In(layout), "of_weights": Out(layout)}
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from a beat to its weights."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        if self.config.dequantize:
            self._dequantize(m)
            return m
        m.d.comb += self.ready.eq(1)
        held = Signal(self.config.beat_bits, reset_less=True)
        held_last = Signal(reset_less=True)
        held_valid = Signal()
        m.d.sync += [
            held_valid.eq(self.fire | self.abort),
            held.eq(self.data),
            held_last.eq(self.last),
        ]
        if self.config.decompress:
            self._decompress(m, held, held_valid, held_last)
        elif self.config.trellis:
            self._follow_trellis(m, held, held_valid, held_last)
        else:
            m.d.comb += [
                self.valid.eq(held_valid),
                self.last_weights.eq(held_last),
                *(on.eq(1) for on in self.on),
            ]
            if self.config.decode == "groups":
                m.d.sync += self.of_weights.eq(self.groups)
            for lane, weight in enumerate(self.weights):
                m.d.comb += weight.eq(self._stored(held, lane))
        return m

    def _stored(self, held, lane):
        """Return a plain weight of a beat or, of ``groups``, a code of either width."""
        config = self.config
        if config.decode != "groups":
            return self._plain(held, lane)
        code = held[lane * CODE_BITS :][:CODE_BITS]
        plain = self._plain(held, lane) if lane < config.plain_lanes else 0
        return Mux(self.plain, plain, code)

    def _plain(self, held, lane):
        """Return a plain weight of a beat."""
        width = self.config.plain_width
        return held[lane * width : (lane + 1) * width].as_signed()

    def _decompress(self, m, held, valid, last):
        """Give the weights of the decompressor or, of plain weights, those of the beat."""
        config, bits, plain = self.config, self.config.block_bits, self.plain
        m.submodules.decompress = decompress = SeedlmDecompress(config.decompress)
        packed = decompress.o.payload
        m.d.comb += [
            decompress.i.valid.eq(valid & ~plain),
            decompress.i.payload.last.eq(last),
            decompress.o.ready.eq(1),
            self.valid.eq(Mux(plain, valid, decompress.o.valid)),
            self.last_weights.eq(Mux(plain, last, packed.last)),
        ]
        for b, block in enumerate(decompress.i.payload.blocks):
            m.d.comb += block.eq(held[bits * b : bits * (b + 1)])
        for lane, weight in enumerate(packed.weights):
            first = lane // config.block * config.block
            if lane < config.plain_lanes:
                weight = Mux(plain, self._plain(held, lane), weight)
            elif first < config.plain_lanes:
                weight = Mux(plain, 0, weight)
            m.d.comb += self.weights[lane].eq(weight)
        for b, exponent in enumerate(packed.exponents):
            m.d.comb += [
                self.exponents[b].eq(Mux(plain, -8, exponent)),
                self.on[b].eq(~plain | (b * config.block < config.plain_lanes)),
            ]

    def _follow_trellis(self, m, held, valid, last):
        """Give the weights of symbols."""
        m.submodules.trellis = trellis = TrellisDecompress(self.config.trellis)
        m.d.comb += [
            trellis.i.valid.eq(valid),
            trellis.i.payload.symbols.eq(held),
            trellis.i.payload.last.eq(last),
            trellis.o.ready.eq(1),
            self.valid.eq(trellis.o.valid),
            self.last_weights.eq(trellis.o.payload.last),
            self.weights.eq(trellis.o.payload.weights),
            self.on[0].eq(1),
        ]

    def _dequantize(self, m):
        """Keep a beat of a table until it is loaded, and give the weights of codes."""
        config, load = self.config, self.config.dequantize.load
        dequantize = LutDequantize(config.dequantize)
        m.submodules.dequantize = ResetInserter(self.start)(dequantize)
        levels, codes, found = dequantize.i_levels, dequantize.i, dequantize.o
        width, parts = config.level_width * load, config.table_levels // load
        kept = Signal(width * parts, reset_less=True)
        exponent = Signal(signed(EXPONENT_BITS), reset_less=True)
        left = Signal(range(parts + 1))
        free = Signal()
        m.d.comb += [
            free.eq((left == 0) | ((left == 1) & levels.ready)),
            levels.valid.eq(left != 0),
            levels.payload.levels.eq(kept[:width]),
            levels.payload.exponent.eq(exponent),
            self.ready.eq(Mux(self.table, free, codes.ready)),
            codes.valid.eq(self.fire & ~self.table),
            codes.payload.codes.eq(self.data),
            codes.payload.last.eq(self.last),
            found.ready.eq(1),
        ]
        with m.If(levels.valid & levels.ready):
            m.d.sync += [left.eq(left - 1), kept.eq(kept >> width)]
        with m.If(self.fire & self.table):
            m.d.sync += [
                left.eq(parts),
                kept.eq(self.data),
                exponent.eq(self.data[-EXPONENT_BITS:]),
            ]
        with m.If(self.start):
            m.d.sync += left.eq(0)
        # The beat that ends an aborted row has no table.
        abort = delayed(m, self.abort, dequantize.latency, "abort", reset=True)
        m.d.comb += [
            self.valid.eq(found.valid | abort),
            self.last_weights.eq(found.payload.last | abort),
            self.exponents[0].eq(found.payload.exponents[0]),
            self.weights.eq(found.payload.weights),
            self.on[0].eq(1),
        ]
