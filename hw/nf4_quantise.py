"""Quantiser of 4-bit NormalFloat vectors, by blocks."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from seedbed.hw.replicate import replicate
from seedbed.spec import Nf4Config

__all__ = ["Nf4Quantise", "codes_layout", "later", "values_layout"]

#: Limits between the sixteen levels.
LIMITS = 15
#: Lanes that share a copy of the limits.
SHARING = 16


def values_layout(config: Nf4Config, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of numbers."""
    fields = {"values": data.ArrayLayout(signed(config.values.width), lanes), "last": 1}
    return data.StructLayout(fields)


def codes_layout(config: Nf4Config, lanes: int) -> data.StructLayout:
    """Return the layout of a beat of codes."""
    codes = data.ArrayLayout(4, lanes)
    return data.StructLayout({"codes": codes, "peak": config.peak_width, "last": 1})


def later(m: Module, step, value, name: str, *, reset: bool = False) -> Signal:
    """Return ``value`` one step later."""
    value = Value.cast(value)
    kept = Signal(value.shape(), reset_less=not reset, name=name)
    with m.If(step):
        m.d.sync += kept.eq(value)
    return kept


class Nf4Quantise(wiring.Component):
    """Codes of 4 bits and a peak for each block of numbers, without a division.

    With the integer levels L_c of f fraction bits and s bits that a peak does not have::

        peak   = min(ceil(max|x| / 2^s), 2^peak_width - 1)
        code_k = how many c = 0 .. 14 have x_k > floor(peak (L_c + L_(c+1)) 2^s / 2^(f + 1))

    A block waits in a small buffer until its peak is known, while a tree takes the greatest of
    each beat. Then ``thresholds`` multipliers make as many limits a cycle, and every lane counts
    those that it exceeds. The next blocks come in meanwhile.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.Nf4Config`.

    Members
    -------
    i : In(stream of struct)
        ``values`` (lanes x signed(values.width)) and ``last`` with a vector's last beat. A block
        has block / lanes beats, a vector's last one may have fewer. Lanes behind a vector's end
        are to be given as 0.
    o : Out(stream of struct)
        ``codes`` (lanes x unsigned(4)), ``peak`` (unsigned(peak_width)), that of the beat's block,
        and ``last``; a beat for each that came in.

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
        # At least one bit each: Verilog has no signals of none.
        fields = {"peak": config.peak_width, "final": range(max(2, self._beats)), "last": 1}
        self._block = data.StructLayout(fields)

    @property
    def interval(self) -> int:
        """Cycles a beat."""
        return LIMITS // self.config.thresholds

    @property
    def stages(self) -> int:
        """Stages of the tree."""
        return (self.config.lanes - 1).bit_length()

    @property
    def rows(self) -> int:
        """Beats that the buffer holds.

        A block, and what comes in until its first beat has been compared with all limits.
        """
        # A memory of one row, of what is not compared, would have no address.
        return max(3, self._beats + (self.stages + 4) // self.interval + 1)

    @property
    def latency(self) -> int:
        """Cycles from a block's last beat to the first beat of its codes."""
        return self.stages + self.interval + 6

    def elaborate(self, platform):
        m = Module()
        width = self.config.lanes * self.config.values.width
        m.submodules.rows = rows = SyncFIFOBuffered(width=width, depth=self.rows)
        m.submodules.blocks = blocks = SyncFIFO(width=self._block.size, depth=self.rows)
        moved = Signal()
        m.d.comb += [
            self.i.ready.eq(rows.w_rdy),
            moved.eq(self.i.valid & rows.w_rdy),
            rows.w_en.eq(moved),
            rows.w_data.eq(self.i.payload.values),
        ]
        self._collect(m, moved, blocks)
        self._count(m, rows, blocks)
        return m

    def _collect(self, m: Module, moved: Signal, blocks: SyncFIFO) -> None:
        """Take the peak of each block that comes in."""
        config = self.config
        beat = Signal(self._block["final"].shape)
        ends = Signal()
        m.d.comb += ends.eq(self.i.payload.last | (beat == self._beats - 1))
        with m.If(moved):
            m.d.sync += beat.eq(Mux(ends, 0, beat + 1))
        keys = [self._key(value) for value in self.i.payload.values]
        line = [moved & ends, moved, beat == 0, beat, self.i.payload.last]
        names = ("ends", "valid", "first", "final", "last")
        for k in range(self.stages):
            pairs = [keys[j : j + 2] for j in range(0, len(keys), 2)]
            keys = [later(m, 1, _greatest(*pair), f"key_{k}") for pair in pairs]
            line = [
                later(m, 1, value, f"{name}_{k}", reset=name == "ends")
                for name, value in zip(names, line, strict=True)
            ]
        ends, valid, first, final, last = line
        greatest = Signal(config.peak_width + 1, reset_less=True)
        with m.If(valid):
            m.d.sync += greatest.eq(Mux(first, keys[0], _greatest(greatest, *keys)))
        # What is rounded up is the greatest of all, once, and stays where it has no bit to go to.
        up, cut = greatest[0], greatest[1:]
        block = Signal(self._block)
        m.d.comb += [
            blocks.w_data.eq(block),
            blocks.w_en.eq(later(m, 1, ends, "done", reset=True)),
            block.peak.eq(cut + (up & ~cut.all())),
            block.final.eq(later(m, 1, final, "done_final")),
            block.last.eq(later(m, 1, last, "done_last")),
        ]

    def _key(self, value: Value) -> Value:
        """Return |value| cut to a peak's bits, and below it whether 1 is to be added to round up.

        Of a negative number it is one's complement that is cut. Keys are in the order of what they
        stand for.
        """
        sign, shift = value[-1], self.config.shift
        up = sign | value[:shift].any()
        return Cat(up, value[shift:-1] ^ sign.replicate(self.config.peak_width))

    def _count(self, m: Module, rows: SyncFIFOBuffered, blocks: SyncFIFO) -> None:
        """Count the limits that each number exceeds, in a pipeline that a waiting beat stops."""
        config = self.config
        step = Signal()
        m.d.comb += step.eq(~self.o.valid | self.o.ready)
        block = data.View(self._block, blocks.r_data)
        group = Signal(range(max(2, self.interval)))
        row = Signal(self._block["final"].shape)
        final = Signal()
        leaves = Signal()
        m.d.comb += [
            final.eq(group == self.interval - 1),
            leaves.eq(row == block.final if self._beats > 1 else 1),
            blocks.r_en.eq(step & final & leaves),
        ]
        with m.If(step & blocks.r_rdy):
            m.d.sync += group.eq(Mux(final, 0, group + 1))
            with m.If(final):
                m.d.sync += row.eq(Mux(leaves, 0, row + 1))
        line = {
            "final": final & blocks.r_rdy,
            "first": group == 0,
            "peak": block.peak,
            "last": block.last & leaves,
        }

        def stage(k: int) -> None:
            for name, value in line.items():
                line[name] = later(m, step, value, f"{name}_at_{k}", reset=name == "final")

        middles = [
            later(m, step, self._middle(group, t), f"middle_{t}") for t in range(config.thresholds)
        ]
        stage(1)
        cut = config.level_fraction + 1 - config.shift
        limits = [
            later(m, step, (line["peak"] * middle)[cut:].as_signed(), f"limit_{t}")
            for t, middle in enumerate(middles)
        ]
        stage(2)
        # From a multiplier, which stands where one is, to the lanes of either side.
        limits = [
            replicate(m, limit, config.lanes, f"limit_{t}", fanout=SHARING, enable=step)
            for t, limit in enumerate(limits)
        ]
        stage(3)
        m.d.comb += rows.r_en.eq(step & line["final"])
        values = data.View(self.i.payload.values.shape(), rows.r_data)
        exceeds = [
            later(m, step, Cat(value > limit[lane] for limit in limits), f"exceeds_{lane}")
            for lane, value in enumerate(values)
        ]
        stage(4)
        codes = Signal(self.o.payload.codes.shape(), reset_less=True)
        with m.If(step):
            for code, more in zip(codes, exceeds, strict=True):
                count = sum(more[1:], more[0])
                m.d.sync += code.eq(Mux(line["first"], 0, code) + count)
        stage(5)
        m.d.comb += [
            self.o.valid.eq(line["final"]),
            self.o.payload.codes.eq(codes),
            self.o.payload.peak.eq(line["peak"]),
            self.o.payload.last.eq(line["last"]),
        ]

    def _middle(self, group: Signal, t: int) -> Value:
        """Return the middle between two levels that multiplier ``t`` is at."""
        config = self.config
        # Twice a middle is less than twice the greatest level.
        shape = signed(config.level_fraction + 2)
        return Array(Const(c, shape) for c in config.middles[t :: config.thresholds])[group]


def _greatest(a: Value, b: Value | None = None) -> Value:
    """Return the greater of two unsigned numbers, or the only one."""
    return a if b is None else Mux(a > b, a, b)
