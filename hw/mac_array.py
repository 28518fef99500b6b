"""Multipliers in parallel, whose products are summed by block, beat and frame."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.spec import MacArrayConfig

__all__ = ["MacArray", "beat_layout", "latency"]

#: Numbers that are added in one stage of an adder tree: two levels of adders.
WAYS = 4


def _levels(numbers: int) -> int:
    """Return the stages of an adder tree."""
    return ((numbers - 1).bit_length() + 1) // 2


@dataclass(frozen=True)
class _Stage:
    """Signed values that stand side by side, their greatest magnitude, and how many cycles in."""

    values: list[Value]
    peak: int
    cycle: int

    def then(self, m: Module, values: list[Value], peak: int, name: str) -> "_Stage":
        """Put a register behind each of ``values``, as wide as ``peak`` needs."""
        shape, cycle = signed(peak.bit_length() + 1), self.cycle + 1
        kept = [Signal(shape, reset_less=True, name=f"{name}_{cycle}") for _ in values]
        m.d.sync += [register.eq(value) for register, value in zip(kept, values, strict=True)]
        return _Stage(kept, peak, cycle)

    def added(self, m: Module, name: str) -> "_Stage":
        """Add neighbours until one is left, four to one in a stage."""
        level = self
        while len(level.values) > 1:
            fours = [level.values[k : k + WAYS] for k in range(0, len(level.values), WAYS)]
            peak = min(len(level.values), WAYS) * level.peak
            level = level.then(m, [sum(four[1:], four[0]) for four in fours], peak, name)
        return level


def latency(config: MacArrayConfig) -> int:
    """Return :attr:`MacArray.latency`."""
    trees = _levels(config.block) + _levels(config.blocks)
    return 2 + trees + (2 if config.exponent_width else 1) + 1


def beat_layout(config: MacArrayConfig) -> data.StructLayout:
    """Return the layout of a beat at the port ``i``."""
    fields = {
        "weights": data.ArrayLayout(signed(config.weight_width), config.lanes),
        "activations": data.ArrayLayout(signed(config.activation_width), config.lanes),
    }
    if config.exponent_width:
        fields["exponents"] = data.ArrayLayout(signed(config.exponent_width), config.blocks)
    return data.StructLayout(
        fields | {"on": data.ArrayLayout(1, config.blocks), "first": 1, "last": 1}
    )


class MacArray(wiring.Component):
    """Dot product of a frame's weights and activations, exact, with an exponent for each block.

    With weights w and activations x in lanes l, and exponents e of blocks b::

        o = sum over beats, over blocks b that are on, of 2^(e_b - e_min) sum over l in b of w_l x_l

    Every lane has one multiplier between registers, as a DSP block has; an adder tree sums a
    block, two stages of shifts apply its exponent, to the left, so that no bit is lost; a second
    tree sums the beat, and an accumulator the frame. Nothing stalls on the way: a frame is let in
    only where a place among the results is free for it.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.MacArrayConfig`.

    Members
    -------
    i : In(stream of struct)
        ``weights`` (lanes x signed(weight_width)), ``activations`` (lanes x
        signed(activation_width)), ``exponents`` (blocks x signed(exponent_width); only where there
        are any), ``on`` (blocks x 1 bit: a block that is off counts as 0), ``first`` (the sum
        begins anew) and ``last`` (it is given out).
    o : Out(stream of struct)
        ``sum`` (signed(accumulator_width)), one a frame.

    A frame that is left without ``last`` gives nothing; the next ``first`` forgets it.

    Latency: ``latency`` cycles from the last beat to the sum. Throughput: a beat every cycle, of
    frames of one beat too, unless ``results`` is set to less.
    """

    interval = 1

    def __init__(self, config: MacArrayConfig):
        self.config = config
        result = {"sum": signed(config.accumulator_width)}
        super().__init__(
            {
                "i": In(stream.Signature(beat_layout(config))),
                "o": Out(stream.Signature(data.StructLayout(result))),
            }
        )
        self._fifo = SyncFIFO(width=config.accumulator_width, depth=self.results)

    @property
    def latency(self) -> int:
        """Cycles from a frame's last beat to its sum."""
        return latency(self.config)

    @property
    def results(self) -> int:
        """Frames that may be on their way."""
        return self.config.results or self.latency + 1

    def elaborate(self, platform):
        m = Module()
        m.submodules.fifo = fifo = self._fifo
        moved = Signal()
        taken = Signal()
        frames = Signal(range(self.results + 1))
        m.d.comb += [
            self.i.ready.eq(frames != self.results),
            moved.eq(self.i.valid & self.i.ready),
            self.o.valid.eq(fifo.r_rdy),
            self.o.payload.sum.eq(fifo.r_data),
            fifo.r_en.eq(self.o.ready),
            taken.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += frames.eq(frames + (moved & self.i.payload.last) - taken)
        total = self._beat(m)
        valid = self._later(m, moved, total.cycle, "valid")
        ends = self._later(m, moved & self.i.payload.last, total.cycle, "ends", reset=True)
        first = self._later(m, self.i.payload.first, total.cycle, "first")
        accumulator = Signal(self.o.payload.sum.shape(), reset_less=True)
        m.d.comb += [
            fifo.w_data.eq(Mux(first, 0, accumulator) + total.values[0]),
            fifo.w_en.eq(ends),
        ]
        with m.If(valid):
            m.d.sync += accumulator.eq(fifo.w_data)
        return m

    def _later(self, m, value, cycles: int, name: str, *, reset: bool = False):
        """Return ``value`` so many cycles later."""
        shape = Value.cast(value).shape()
        for k in range(1, cycles + 1):
            before = value
            value = Signal(shape, reset_less=not reset, name=f"{name}_{k}")
            m.d.sync += value.eq(before)
        return value

    def _beat(self, m) -> _Stage:
        """Multiply, and sum each block and then the beat."""
        config, beat = self.config, self.i.payload
        factors = [
            (self._later(m, w, 1, "weight"), self._later(m, x, 1, "activation"))
            for w, x in zip(beat.weights, beat.activations, strict=True)
        ]
        entry = _Stage([w * x for w, x in factors], config.product_peak, 1)
        products = entry.then(m, entry.values, entry.peak, "product")
        blocks = [
            _Stage(products.values[k : k + config.block], products.peak, products.cycle)
            for k in range(0, config.lanes, config.block)
        ]
        blocks = [block.added(m, f"block_{b}") for b, block in enumerate(blocks)]
        sums = _Stage([s for b in blocks for s in b.values], blocks[0].peak, blocks[0].cycle)
        return self._scaled(m, sums).added(m, "beat")

    def _scaled(self, m, sums: _Stage) -> _Stage:
        """Shift each block's sum by its exponent; one that is off becomes 0."""
        width, peak = self.config.exponent_width, sums.peak
        shifts = [Const(0, 2)] * len(sums.values)
        if width:
            # e - e_min is e with its sign flipped.
            raw = [e.as_unsigned() ^ (1 << (width - 1)) for e in self.i.payload.exponents]
            shifts = [self._later(m, shift[:width], sums.cycle, "shift") for shift in raw]
        # Two bits of the shift a stage: one LUT6 for a bit of the sum.
        on = self._later(m, Value.cast(self.i.payload.on), sums.cycle, "on")
        coarse = [
            Mux(o, s << Cat(Const(0, 2), shift[2:]), 0)
            for o, s, shift in zip(on, sums.values, shifts, strict=True)
        ]
        sums = sums.then(m, coarse, peak << (self.config.shifts & ~3), "coarse")
        if not width:
            return sums
        fine = [self._later(m, shift[:2], 1, "fine") for shift in shifts]
        scaled = [s << shift for s, shift in zip(sums.values, fine, strict=True)]
        return sums.then(m, scaled, peak << self.config.shifts, "scaled")
