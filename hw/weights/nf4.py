"""4-bit NormalFloat vectors, quantised and dequantised by blocks."""

from amaranth.hdl import Array, Const, Module, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.weights import nf4_quantise
from seedbed.hw.weights.nf4_quantise import Nf4Quantise, codes_layout, values_layout
from seedbed.spec import Nf4Config

__all__ = ["Nf4", "Nf4Dequantise", "Nf4Quantise", "codes_layout", "values_layout"]


class Nf4Dequantise(wiring.Component):
    """The numbers that codes represent, with one multiplier per lane.

    With the integer levels L_c of f fraction bits and s bits that a peak does not have::

        x_k' = floor(peak L_c 2^s / 2^f + 1/2), c = code_k

    Three pipeline stages: the look-up of the level, the product, and the rounding. A pending output
    beat stalls them.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.Nf4Config`.

    Members
    -------
    i : In(stream of struct)
        ``codes`` (dequantise_lanes x unsigned(4)), ``peak`` (unsigned(peak_width)), ``last``.
    o : Out(stream of struct)
        ``values`` (dequantise_lanes x signed(values.width)), ``last``; one beat per input beat.

    Latency: ``latency`` cycles, 3. Throughput: a beat every cycle.
    Source: InstantFT, section 3.2; QLoRA (arXiv:2305.14314), section 3.
    """

    latency = 3
    interval = 1

    def __init__(self, config: Nf4Config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(codes_layout(config, config.dequantise_lanes))),
                "o": Out(stream.Signature(values_layout(config, config.dequantise_lanes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, beat = self.config, self.i.payload
        enable = Signal()
        m.d.comb += [enable.eq(~self.o.valid | self.o.ready), self.i.ready.eq(enable)]
        shape = signed(config.level_fraction + 2)
        levels = Array(Const(level, shape) for level in config.levels)
        shift = config.level_fraction - config.shift
        peak = delayed(m, beat.peak, 1, "peak", enable=enable)
        for lane, code in enumerate(beat.codes):
            level = delayed(m, levels[code], 1, f"level_{lane}", enable=enable)
            product = delayed(m, peak * level, 1, f"product_{lane}", enable=enable)
            rounded = (product + (1 << shift >> 1)) >> shift
            rounded = rounded[: config.values.width]
            value = delayed(m, rounded, 1, f"value_{lane}", enable=enable)
            m.d.comb += self.o.payload.values[lane].eq(value)
        valid = delayed(m, self.i.valid, self.latency, "valid", enable=enable, reset=True)
        last = delayed(m, beat.last, self.latency, "last", enable=enable)
        m.d.comb += [self.o.valid.eq(valid), self.o.payload.last.eq(last)]
        return m


class Nf4(wiring.Component):
    """Quantiser and dequantiser of 4-bit NormalFloat: :class:`Nf4Quantise`, :class:`Nf4Dequantise`.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.Nf4Config`.

    Members
    -------
    i_values : In(stream of struct)
        vectors to quantise. ``lanes`` numbers per beat.
        values : next numbers; 0 after the end of the vector
        last : last beat of the vector
    o_codes : Out(stream of struct)
        quantised vectors. ``lanes`` numbers per beat.
        codes : 4-bit NormalFloat codes
        peak : peak magnitude of the block
        last : last beat of the vector
    i_codes : In(stream of struct)
        codes to dequantise. ``dequantise_lanes`` numbers per beat.
        codes : 4-bit NormalFloat codes
        peak : peak magnitude of the block
        last : last beat of the vector
    o_values : Out(stream of struct)
        dequantised vectors. ``dequantise_lanes`` numbers per beat.
        values : dequantised numbers
        last : last beat of the vector

    Latency: ``dequantise_latency`` cycles to dequantise; ``quantise_latency`` from the last beat of
    a block to its first codes. The quantiser and the dequantiser share no logic.
    Throughput: 1 beat per cycle to dequantise; 1 beat per ``interval`` cycles to quantise.
    Source: InstantFT, section 3.2; QLoRA (arXiv:2305.14314), section 3.
    """

    dequantise_latency = Nf4Dequantise.latency

    def __init__(self, config: Nf4Config):
        self.config = config
        lanes, fetched = config.lanes, config.dequantise_lanes
        super().__init__(
            {
                "i_values": In(stream.Signature(values_layout(config, lanes))),
                "o_codes": Out(stream.Signature(codes_layout(config, lanes))),
                "i_codes": In(stream.Signature(codes_layout(config, fetched))),
                "o_values": Out(stream.Signature(values_layout(config, fetched))),
            }
        )

    @property
    def quantise_latency(self) -> int:
        """Cycles from a block's last beat to the first beat of its codes."""
        return nf4_quantise.latency(self.config)

    @property
    def interval(self) -> int:
        """Cycles per beat of the quantiser."""
        return nf4_quantise.interval(self.config)

    def elaborate(self, platform):
        m = Module()
        m.submodules.quantise = quantise = Nf4Quantise(self.config)
        m.submodules.dequantise = dequantise = Nf4Dequantise(self.config)
        for outer, inner in (
            (self.i_values, quantise.i),
            (self.o_codes, quantise.o),
            (self.i_codes, dequantise.i),
            (self.o_values, dequantise.o),
        ):
            wiring.connect(m, wiring.flipped(outer), inner)
        return m
