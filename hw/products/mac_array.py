"""Array of multipliers, whose products are summed by block, beat and frame."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.spec import MacArrayConfig

__all__ = ["MacArray", "Stage", "beat_layout", "latency", "tree_levels"]


def tree_levels(numbers: int, additions: int) -> int:
    """Return the stages of an adder tree."""
    return -(-(numbers - 1).bit_length() // additions)


@dataclass(frozen=True)
class Stage:
    """Parallel values of a pipeline stage, their greatest magnitude, and the stage's cycle."""

    values: list[Value]
    peak: int
    cycle: int

    def registered(self, m: Module, values: list[Value], peak: int, name: str) -> "Stage":
        """Register each of ``values``, with the width that ``peak`` needs; return that stage."""
        shape, cycle = signed(peak.bit_length() + 1), self.cycle + 1
        registers = [Signal(shape, reset_less=True, name=f"{name}_{cycle}") for _ in values]
        m.d.sync += [register.eq(value) for register, value in zip(registers, values, strict=True)]
        return Stage(registers, peak, cycle)

    def parts(self, size: int) -> list["Stage"]:
        """Return stages of ``size`` values each."""
        starts = range(0, len(self.values), size)
        return [replace(self, values=self.values[k : k + size]) for k in starts]

    def summed(self, m: Module, additions: int, name: str) -> "Stage":
        """Return the sum of all values: an adder tree of two or four to one per stage."""
        level, fan_in = self, 1 << additions
        while len(level.values) > 1:
            groups = [level.values[k : k + fan_in] for k in range(0, len(level.values), fan_in)]
            peak = min(len(level.values), fan_in) * level.peak
            level = level.registered(m, [sum(group[1:], group[0]) for group in groups], peak, name)
        return level


def _concatenated(stages: list[Stage]) -> Stage:
    """Return one stage with the values of all ``stages``, which have the same cycle."""
    return replace(stages[0], values=[value for stage in stages for value in stage.values])


def latency(config: MacArrayConfig) -> int:
    """Return :attr:`MacArray.latency`."""
    trees = sum(tree_levels(numbers, config.additions) for numbers in (config.block, config.blocks))
    return 2 + trees + (2 if config.exponent_width else 1) + 1


def beat_layout(config: MacArrayConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i``."""
    fields = {
        "weights": data.ArrayLayout(signed(config.weight_width), config.ways * config.lanes),
        "activations": data.ArrayLayout(
            signed(config.activation_width), config.vectors * config.lanes
        ),
    }
    if config.exponent_width:
        fields["exponents"] = data.ArrayLayout(signed(config.exponent_width), config.blocks)
    return data.StructLayout(
        fields | {"on": data.ArrayLayout(1, config.blocks), "first": 1, "last": 1}
    )


class MacArray(wiring.Component):
    """Dot products of a frame's weights and activations, exact, with an exponent for each block.

    With weights w of ways g and activations x in lanes l, and exponents e of blocks b::

        o_g = sum over beats, over blocks b that are on, of 2^(e_b - e_min) sum over l in b of
              w_gl x_l

    Every lane of a way has one multiplier between registers, as a DSP block has. An adder tree sums
    a block. Two stages of left shifts apply its exponent without loss. A second tree sums the beat,
    and an accumulator the frame. Ways share the activations, ``on``, and the control; vectors share
    the weights, the exponents, ``on``, and the control. The pipeline never stalls. Back-pressure is
    credit-based: a frame is accepted only if the result FIFO has a free entry for it.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.MacArrayConfig`.
    more
        Fields that a beat has beside those below, for a subclass.

    Members
    -------
    i : In(stream of struct)
        beats of a frame
        weights (ways * lanes x signed(weight_width)) : weights, way by way
        activations (vectors * lanes x signed(activation_width)) : activations, shared by all ways.
            They are vector by vector.
        exponents (blocks x signed(exponent_width)) : weight exponents, one per block of lanes. The
            field exists only if they have bits.
        on (blocks x 1 bit) : block enables; 0 excludes the products of the block
        first : first beat of the frame. It clears the accumulators.
        last : last beat of the frame. The sums are output.
    o : Out(stream of struct)
        sums of a frame
        sums (ways * vectors x signed(accumulator_width)) : exact sums, one per way. They are way by
            way or, of several vectors, vector by vector.
    products : Out(ways * vectors * lanes x signed(weight_width + activation_width))
        products of the beat accepted 2 cycles earlier; no handshake. Only with ``config.products``.
        The delay is ``product_latency``. The order is way by way or vector by vector, and blocks
        that are off are included. Without a transfer the products are undefined. The port is the
        multipliers' output register.

    A frame without ``last`` has no result; the next ``first`` clears its sums. Beats of which only
    the products are needed, as in an outer product, are therefore sent without ``last``.

    Latency: ``latency`` cycles from the last beat of a frame to its sums.
    Throughput: 1 beat per cycle. This holds for frames of one beat too, unless ``results`` is set
    to less.
    """

    interval = 1
    product_latency = 2

    def __init__(self, config: MacArrayConfig, more: Mapping[str, Any] = MappingProxyType({})):
        self.config = config
        self._sums = data.ArrayLayout(signed(config.accumulator_width), config.sums)
        members = {
            "i": In(stream.Signature(data.StructLayout({**beat_layout(config).members, **more}))),
            "o": Out(stream.Signature(data.StructLayout({"sums": self._sums}))),
        }
        if config.products:
            product = signed(config.weight_width + config.activation_width)
            members["products"] = Out(data.ArrayLayout(product, config.sums * config.lanes))
        super().__init__(members)

    @property
    def latency(self) -> int:
        """Cycles from a frame's last beat to its sums."""
        return latency(self.config)

    @property
    def results(self) -> int:
        """Frames that may be in flight."""
        return self.config.results or self.latency + 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = SyncFIFO(width=self._sums.size, depth=self.results)
        fire = Signal()
        result_fire = Signal()
        in_flight = Signal(range(self.results + 1))
        m.d.comb += [
            self.i.ready.eq(in_flight != self.results),
            fire.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(fifo.r_rdy),
            self.o.payload.sums.eq(fifo.r_data),
            fifo.r_en.eq(self.o.ready),
            result_fire.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += in_flight.eq(in_flight + (fire & self.i.payload.last) - result_fire)
        totals = self._beat(m)
        valid = delayed(m, fire, totals.cycle, "valid")
        ends = delayed(m, fire & self.i.payload.last, totals.cycle, "ends", reset=True)
        first = delayed(m, self.i.payload.first, totals.cycle, "first")
        accumulator = Signal(self._sums, reset_less=True)
        sums = data.View(self._sums, fifo.w_data)
        m.d.comb += fifo.w_en.eq(ends)
        for new, old, total in zip(sums, accumulator, totals.values, strict=True):
            m.d.comb += new.eq(Mux(first, 0, old) + total)
        with m.If(valid):
            m.d.sync += accumulator.eq(sums)
        return m

    def _beat(self, m) -> Stage:
        """Multiply, and sum each block and then the beat: one value per sum."""
        config, beat = self.config, self.i.payload
        weights = [delayed(m, w, 1, "weight") for w in beat.weights]
        activations = [delayed(m, x, 1, "activation") for x in beat.activations]
        factors = zip(weights * config.vectors, activations * config.ways, strict=True)
        entry = Stage([w * x for w, x in factors], config.product_peak, 1)
        products = entry.registered(m, entry.values, entry.peak, "product")
        if config.products:
            taps = zip(self.products, products.values, strict=True)
            m.d.comb += [tap.eq(product) for tap, product in taps]
        blocks = enumerate(products.parts(config.block))
        sums = _concatenated(
            [block.summed(m, config.additions, f"block_{b}") for b, block in blocks]
        )
        parts = self.scaled(m, sums)
        return _concatenated([part.summed(m, config.additions, "beat") for part in parts])

    def scaled(self, m, sums: Stage) -> list[Stage]:
        """Return the numbers that are added up for each sum of a beat, from the block sums."""
        return self._shifted(m, sums).parts(self.config.blocks)

    def _shifted(self, m, sums: Stage) -> Stage:
        """Shift each block's sum by its exponent; one that is off becomes 0."""
        width, peak = self.config.exponent_width, sums.peak
        shifts = [Const(0, 2)] * len(sums.values)
        if width:
            # e - e_min is e with its sign flipped.
            raw = [e.as_unsigned() ^ (1 << (width - 1)) for e in self.i.payload.exponents]
            shifts = [delayed(m, shift[:width], sums.cycle, "shift") for shift in raw]
            shifts *= self.config.vectors
        # Two bits of the shift per stage: one LUT6 per bit of the sum.
        on = delayed(m, Value.cast(self.i.payload.on), sums.cycle, "on")
        coarse = [
            Mux(o, s << Cat(Const(0, 2), shift[2:]), 0)
            for o, s, shift in zip([*on] * self.config.sums, sums.values, shifts, strict=True)
        ]
        sums = sums.registered(m, coarse, peak << (self.config.shifts & ~3), "coarse")
        if not width:
            return sums
        blocks = shifts[: self.config.blocks]
        fine = [delayed(m, shift[:2], 1, "fine") for shift in blocks] * self.config.vectors
        scaled = [s << shift for s, shift in zip(sums.values, fine, strict=True)]
        return sums.registered(m, scaled, peak << self.config.shifts, "scaled")
