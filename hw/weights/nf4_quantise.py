"""Quantiser of 4-bit NormalFloat vectors, by blocks."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from seedbed.hw.parts.delay_line import delay_line, delayed
from seedbed.hw.parts.replicate import replicate
from seedbed.spec import Nf4Config

__all__ = ["Nf4Quantise", "codes_layout", "interval", "latency", "values_layout"]

#: Thresholds between the sixteen levels.
LIMITS = 15


def values_layout(config: Nf4Config, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of numbers."""
    fields = {"values": data.ArrayLayout(signed(config.values.width), lanes), "last": 1}
    return data.StructLayout(fields)


def codes_layout(config: Nf4Config, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of codes."""
    codes = data.ArrayLayout(4, lanes)
    return data.StructLayout({"codes": codes, "peak": config.peak_width, "last": 1})


def interval(config: Nf4Config) -> int:
    """Return :attr:`Nf4Quantise.interval`."""
    return LIMITS // config.thresholds


def latency(config: Nf4Config) -> int:
    """Return :attr:`Nf4Quantise.latency`."""
    return _stages(config) + interval(config) + 6


def _stages(config: Nf4Config) -> int:
    return (config.lanes - 1).bit_length()


class Nf4Quantise(wiring.Component):
    """Codes of 4 bits and a peak per block of numbers, without a division.

    With the integer levels L_c of f fraction bits, and s low bits that a peak does not have::

        peak   = min(ceil(max|x| / 2^s), 2^peak_width - 1)
        code_k = how many c = 0 .. 14 have x_k > floor(peak (L_c + L_(c+1)) 2^s / 2^(f + 1))

    A FIFO stores the block while a tree finds the greatest magnitude of each beat. Then
    ``thresholds`` multipliers compute as many thresholds per cycle, and every lane counts those
    that it exceeds. The next blocks are accepted meanwhile.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.Nf4Config`.

    Members
    -------
    i : In(stream of struct)
        ``values`` (lanes x signed(values.width)) and ``last`` with a vector's last beat. A block
        has block / lanes beats, a vector's last one may have fewer. Lanes after a vector's end
        must be 0.
    o : Out(stream of struct)
        ``codes`` (lanes x unsigned(4)), ``peak`` (unsigned(peak_width)) of the beat's block, and
        ``last``; one beat per input beat.

    Latency: ``latency`` cycles from a block's last beat to its first beat of codes. Throughput: a
    beat every ``interval`` cycles, 15 / thresholds.
    Source: InstantFT, section 3.2; QLoRA (arXiv:2305.14314), section 3.
    """

    def __init__(self, config: Nf4Config):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(values_layout(config, config.lanes))),
                "o": Out(stream.Signature(codes_layout(config, config.lanes))),
            }
        )
        self._beats = config.block // config.lanes
        # At least one bit each: Verilog has no signals of width 0.
        fields = {"peak": config.peak_width, "final": range(max(2, self._beats)), "last": 1}
        self._block = data.StructLayout(fields)

    @property
    def interval(self) -> int:
        """Cycles per beat."""
        return interval(self.config)

    @property
    def stages(self) -> int:
        """Stages of the tree."""
        return _stages(self.config)

    @property
    def rows(self) -> int:
        """Beats that the FIFO holds.

        A block, and the beats until its first beat has been compared with all thresholds.
        """
        # A memory of one row would have no address.
        return max(3, self._beats + (self.stages + 4) // self.interval + 1)

    @property
    def latency(self) -> int:
        """Cycles from a block's last beat to the first beat of its codes."""
        return latency(self.config)

    def elaborate(self, platform):
        m = Module()
        width = self.config.lanes * self.config.values.width
        m.submodules.rows = rows = SyncFIFOBuffered(width=width, depth=self.rows)
        m.submodules.blocks = blocks = SyncFIFO(width=self._block.size, depth=self.rows)
        fire = Signal()
        m.d.comb += [
            self.i.ready.eq(rows.w_rdy),
            fire.eq(self.i.valid & rows.w_rdy),
            rows.w_en.eq(fire),
            rows.w_data.eq(self.i.payload.values),
        ]
        self._collect(m, fire, blocks)
        self._count(m, rows, blocks)
        return m

    def _collect(self, m: Module, fire: Signal, blocks: SyncFIFO) -> None:
        """Find the peak of each block."""
        config = self.config
        beat = Signal(self._block["final"].shape)
        ends = Signal()
        m.d.comb += ends.eq(self.i.payload.last | (beat == self._beats - 1))
        with m.If(fire):
            m.d.sync += beat.eq(Mux(ends, 0, beat + 1))
        keys = [self._key(value) for value in self.i.payload.values]
        pipeline = [fire & ends, fire, beat == 0, beat, self.i.payload.last]
        names = ("ends", "valid", "first", "final", "last")
        for k in range(self.stages):
            pairs = [keys[j : j + 2] for j in range(0, len(keys), 2)]
            keys = [delayed(m, _greatest(*pair), 1, f"key_{k}") for pair in pairs]
            pipeline = [
                delayed(m, value, 1, f"{name}_{k}", reset=name == "ends")
                for name, value in zip(names, pipeline, strict=True)
            ]
        ends, valid, first, final, last = pipeline
        greatest = Signal(config.peak_width + 1, reset_less=True)
        with m.If(valid):
            m.d.sync += greatest.eq(Mux(first, keys[0], _greatest(greatest, *keys)))
        # Rounding up is applied once, to the greatest, and saturates.
        increment, truncated = greatest[0], greatest[1:]
        block = Signal(self._block)
        m.d.comb += [
            blocks.w_data.eq(block),
            blocks.w_en.eq(delayed(m, ends, 1, "done", reset=True)),
            block.peak.eq(truncated + (increment & ~truncated.all())),
            block.final.eq(delayed(m, final, 1, "done_final")),
            block.last.eq(delayed(m, last, 1, "done_last")),
        ]

    def _key(self, value: Value) -> Value:
        """Return |value| truncated to a peak's bits, with the increment for rounding up as bit 0.

        For a negative number it is the one's complement that is truncated. Keys compare as the
        magnitudes do.
        """
        sign, shift = value[-1], self.config.shift
        increment = sign | value[:shift].any()
        return Cat(increment, value[shift:-1] ^ sign.replicate(self.config.peak_width))

    def _count(self, m: Module, rows: SyncFIFOBuffered, blocks: SyncFIFO) -> None:
        """Count the thresholds that each number exceeds; a pending output beat stalls this."""
        enable = Signal()
        m.d.comb += enable.eq(~self.o.valid | self.o.ready)
        group, flags = self._walk(m, enable, blocks)
        taps = {
            name: delay_line(m, value, 5, name, enable=enable, reset=name == "final")
            for name, value in flags.items()
        }
        shift = self.config.level_fraction + 1 - self.config.shift
        limits = []
        for t in range(self.config.thresholds):
            middle = delayed(m, self._middle(group, t), 1, f"middle_{t}", enable=enable)
            product = (taps["peak"][1] * middle)[shift:].as_signed()
            limit = delayed(m, product, 1, f"limit_{t}", enable=enable)
            # Fan-out from a multiplier, whose site is fixed, to all lanes.
            limits.append(replicate(m, limit, self.config.lanes, f"limit_{t}", enable=enable))
        m.d.comb += rows.r_en.eq(enable & taps["final"][3])
        values = data.View(self.i.payload.values.shape(), rows.r_data)
        codes = Signal(self.o.payload.codes.shape(), reset_less=True)
        for lane, value in enumerate(values):
            comparisons = Cat(value > limit[lane] for limit in limits)
            exceeds = delayed(m, comparisons, 1, f"exceeds_{lane}", enable=enable)
            count = sum(exceeds[1:], exceeds[0])
            with m.If(enable):
                m.d.sync += codes[lane].eq(Mux(taps["first"][4], 0, codes[lane]) + count)
        m.d.comb += [
            self.o.valid.eq(taps["final"][5]),
            self.o.payload.codes.eq(codes),
            self.o.payload.peak.eq(taps["peak"][5]),
            self.o.payload.last.eq(taps["last"][5]),
        ]

    def _walk(self, m: Module, enable: Signal, blocks: SyncFIFO) -> tuple[Signal, dict[str, Value]]:
        """Return the group of thresholds of this cycle, and what is pipelined with it."""
        block = data.View(self._block, blocks.r_data)
        group = Signal(range(max(2, self.interval)))
        row = Signal(self._block["final"].shape)
        final = Signal()
        block_done = Signal()
        m.d.comb += [
            final.eq(group == self.interval - 1),
            block_done.eq(row == block.final if self._beats > 1 else 1),
            blocks.r_en.eq(enable & final & block_done),
        ]
        with m.If(enable & blocks.r_rdy):
            m.d.sync += group.eq(Mux(final, 0, group + 1))
            with m.If(final):
                m.d.sync += row.eq(Mux(block_done, 0, row + 1))
        return group, {
            "final": final & blocks.r_rdy,
            "first": group == 0,
            "peak": block.peak,
            "last": block.last & block_done,
        }

    def _middle(self, group: Signal, t: int) -> Value:
        """Return the middle between two levels that multiplier ``t`` is to multiply."""
        config = self.config
        # Twice a middle is less than twice the greatest level.
        shape = signed(config.level_fraction + 2)
        return Array(Const(c, shape) for c in config.middles[t :: config.thresholds])[group]


def _greatest(a: Value, b: Value | None = None) -> Value:
    """Return the greater of two unsigned numbers, or the only one."""
    return a if b is None else Mux(a > b, a, b)
