"""The stage that perturbs rows of weights on their way to the multipliers, and updates them."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.generators.perturbation_rows import PerturbationRows, command_layout, rewind
from seedbed.hw.parts.delay_line import delay_line
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.weight_perturb import WeightPerturbConfig

__all__ = ["Mode", "WeightPerturb", "row_layout"]


class Mode(IntEnum):
    """What becomes of a row."""

    PASS = 0
    PERTURB = 1
    UPDATE = 2


def row_layout(config: WeightPerturbConfig) -> data.StructLayout:
    """Return the layout of a row and what becomes of it, see :class:`WeightPerturb`."""
    weights = data.ArrayLayout(signed(8), config.count)
    row = range(max(config.rows, 2))
    return data.StructLayout({"weights": weights, "mode": Mode, "subtract": 1, "row": row})


class WeightPerturb(wiring.Component):
    """Adds numbers that a seed names to rows of int8 weights.

    With weights w, and the perturbation z of :class:`~seedbed.spec.WeightPerturbConfig`::

        PASS      o = clamp(w)
        PERTURB   o = clamp(w + z), or clamp(w - z) with subtract
        UPDATE    o = clamp(w + u), or clamp(w - u) with subtract
        clamp(v) = min(max(v, -127), 127)

    u is z rounded to one bit, -1, 0 or 1, pseudo-stochastically: with z's range 2^c - 1, its
    magnitude is shifted right by c - 1, and the shifted bits decide, as in NITI. z is the same
    at each pass over the rows: to go back is to seed again. The weights are never changed.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.WeightPerturbConfig`.

    Members
    -------
    i_command : In(stream of struct)
        commands. Taken between rows, or while those that come are buffered or passed on.
        kind : 0 SEED, 1 REWIND to the first row that is not buffered, 2 RESTART at row 0. ``SEED``
            draws the perturbations of a new step. ``RESTART`` is for an update.
        seed (unsigned(32)) : SEED: any word; determines all perturbations of the step
        magnitude : SEED: c, bits of the greatest magnitude 2^c - 1
        zeros : SEED: n, p_zero in sixteenths
    i : In(stream of struct)
        rows of weights. Buffered rows come in any order; others that are perturbed in ascending
        order, each once after a ``REWIND``. All rows of an update come in order after a
        ``RESTART``.
        weights (ways * lanes x signed(8)) : weights, way by way: -127 to 127
        mode : 0 PASS, 1 PERTURB, 2 UPDATE
        subtract : 1: the perturbation, or its rounded sign, is subtracted
        row : index of the row
    o : Out(stream of ArrayLayout(signed(8), ways * lanes))
        rows: perturbed, updated or unchanged weights, -127 to 127

    Latency: ``latency`` cycles from a row to its output; ``rewind`` from a rewind to the first row
    that needs the generator.
    Throughput: 1 row per cycle. A row waits while the generator is busy with a command, if it needs
    it: until ``rewind`` cycles after a ``REWIND`` or ``RESTART``. After a ``SEED``, every row
    waits, for one cycle more if there are buffered rows.
    Source: ElasticZO, Algorithm 2; the masks and the buffer are the library's.
    """

    latency = 4

    def __init__(self, config: WeightPerturbConfig):
        self.config = config
        super().__init__(
            {
                "i_command": In(stream.Signature(command_layout(config))),
                "i": In(stream.Signature(row_layout(config))),
                "o": Out(stream.Signature(data.ArrayLayout(signed(8), config.count))),
            }
        )

    @property
    def rewind(self) -> int:
        """Cycles from a ``REWIND`` to the first row that needs the generator."""
        return rewind(self.config)

    def elaborate(self, platform):
        m = Module()
        given, out = self.i, self.o
        m.submodules.numbers = numbers = PerturbationRows(self.config)
        wiring.connect(m, wiring.flipped(self.i_command), numbers.i_command)
        advance, fire = Signal(), Signal()
        valid = delay_line(m, fire, self.latency, "valid", enable=advance, reset=True)
        m.d.comb += [
            out.valid.eq(valid[-1]),
            advance.eq(out.ready | ~out.valid),
            numbers.advance.eq(advance),
            numbers.empty.eq(~Cat(valid[1:]).any()),
            numbers.request.eq(given.valid),
            numbers.perturb.eq(given.payload.mode == Mode.PERTURB),
            numbers.update.eq(given.payload.mode == Mode.UPDATE),
            numbers.subtract.eq(given.payload.subtract),
            numbers.row.eq(given.payload.row),
            given.ready.eq(advance & numbers.ready),
            fire.eq(given.valid & numbers.ready),
        ]
        rows = delay_line(m, given.payload.weights, numbers.latency, "weights", enable=advance)
        for k, (weight, to) in enumerate(zip(rows[-1], out.payload, strict=True)):
            total = self._sum(weight, numbers.magnitudes[k], numbers.signs[k])
            m.d.comb += to.eq(self._saturated(m, advance, weight[-1], total, k))
        return m

    def _sum(self, weight, magnitude, sign) -> Value:
        """Return the weight and the number, 8 bits that may wrap."""
        # With one's complement and a borrow from below the least significant bit. The weight is the
        # first operand, which carry chains take without a LUT.
        plus = ~sign
        addend = Cat(magnitude ^ plus.replicate(len(magnitude)), plus.replicate(8))[:8]
        return (Cat(0, weight) - Cat(plus, addend))[1:9]

    def _saturated(self, m, advance, negative, total, k) -> Signal:
        """Return a lane's sum, saturated: at 127 in one stage, at -127 in the next.

        A synchronous set or reset of the registers takes no LUT in a bit's path. Numbers are
        smaller than 64: the weight's sign and the sum's two most significant bits show a wrap.
        """
        sums = Signal(8, name=f"sum_{k}", reset_less=True)
        # A flip-flop of ECP5 powers up with the value that its set or reset gives it.
        upper = Signal(signed(8), init=LIMIT, name=f"upper_{k}", reset_less=True)
        lower = Signal(signed(8), init=-LIMIT, name=f"lower_{k}", reset_less=True)
        negative = delay_line(m, negative, 1, f"negative_{k}", enable=advance)[-1]
        above = ~negative & sums[7] & ~sums[6]
        # A wrap, or a sum of -128 or -127 if no other bit is 1.
        low = Signal(name=f"low_{k}", reset_less=True)
        other = Signal(name=f"other_{k}", reset_less=True)
        with m.If(advance):
            m.d.sync += [
                low.eq(negative & (sums[7] ^ sums[6]) & (sums[6] | ~sums[1])),
                other.eq(sums[2:6].any()),
                sums.eq(total),
                upper.eq(sums),
                lower.eq(upper),
            ]
        # Flip-flops of FPGAs reset whether enabled or not: the enable is in the condition.
        with m.If(advance & above):
            m.d.sync += upper.eq(LIMIT)
        with m.If(advance & low & (upper[6] | ~other)):
            m.d.sync += lower.eq(-LIMIT)
        return lower
