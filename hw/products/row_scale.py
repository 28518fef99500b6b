"""Multiplies the sums of a matrix's rows by the scales of the rows."""

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delayed
from seedbed.hw.products.gemv_layouts import scale_layout
from seedbed.spec import GemvConfig
from seedbed.spec.gemv import EXPONENT_BITS

__all__ = ["RowScale", "latency"]


def latency(config: GemvConfig) -> int:
    """Return :attr:`RowScale.latency`, 0 for weights without scales."""
    return 4 if config.trellis else 0


class RowScale(wiring.Component):
    """Gives ``sum mantissa 2^(exponent + 8)`` of each row, exactly, modulo 2^dense_width.

    Scales come before the sums of their rows and wait in a FIFO. Its read pointer follows the sums,
    so that a sum never waits for a scale. One multiplier for each vector is between registers, as a
    DSP block has them. Two stages of left shifts apply the exponent.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`, with the decode ``trellis``.
    rows
        Rows whose scales are stored at most.

    Members
    -------
    scale, write : In
        The scale of a row, and whether it is stored.
    clear : In(1)
        The next sum that comes to the output is 0.
    i : In(stream of array of signed(accumulator_width))
        Sums of a row, one of each vector.
    o : Out(stream of array of signed(dense_width))
        The scaled sums.

    Latency: ``latency`` cycles.
    Throughput: 1 row per cycle.
    """

    interval = 1

    def __init__(self, config: GemvConfig, rows: int):
        self.config = config
        self.rows = rows
        sums = config.mac.accumulator_width * config.vectors
        super().__init__(
            {
                "scale": In(scale_layout()),
                "write": In(1),
                "clear": In(1),
                "i": In(stream.Signature(sums)),
                "o": Out(stream.Signature(config.dense_width * config.vectors)),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a sum to the scaled sum."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        config, enable = self.config, Signal()
        m.submodules.fifo = fifo = SyncFIFO(width=scale_layout().size, depth=self.rows)
        m.d.comb += [
            fifo.w_data.eq(Value.cast(self.scale)),
            fifo.w_en.eq(self.write),
            fifo.r_en.eq(self.i.valid & enable),
            enable.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(enable),
            self.o.valid.eq(
                delayed(m, self.i.valid, self.latency, "valid", enable=enable, reset=True)
            ),
        ]
        scale = scale_layout()(delayed(m, fifo.r_data, 1, "scale", enable=enable))
        # exponent + 8 is the exponent with its sign flipped.
        shift = scale.exponent.as_unsigned() ^ (1 << EXPONENT_BITS - 1)
        coarse = delayed(m, shift, 1, "coarse", enable=enable)
        fine = delayed(m, coarse[:2], 1, "fine", enable=enable)
        width = config.mac.accumulator_width
        for v in range(config.vectors):
            total = delayed(m, self.i.payload[width * v :][:width], 1, f"sum_{v}", enable=enable)
            values = [total.as_signed() * scale.mantissa]
            for shifted, name in ((Cat(Const(0, 2), coarse[2:]), "product"), (fine, "shifted")):
                register = Signal(
                    signed(min(len(values[-1]), config.dense_width)),
                    reset_less=True,
                    name=f"{name}_{v}",
                )
                with m.If(enable):
                    m.d.sync += register.eq(values[-1])
                values.append(register << shifted)
            out = self.o.payload[config.dense_width * v :][: config.dense_width]
            result = Signal(signed(config.dense_width), reset_less=True, name=f"result_{v}")
            with m.If(enable):
                m.d.sync += result.eq(values[-1])
                with m.If(self.clear):
                    m.d.sync += result.eq(0)
            m.d.comb += out.eq(result)
        return m
