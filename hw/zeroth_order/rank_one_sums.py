"""What perturbations of rank 1 add to the sums of a frame: one sum of signed activations."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.output_queue import writer_members
from seedbed.hw.engine.weight_stage import mark_layout
from seedbed.hw.generators.rank_one import RankOneNumbers, inputs_layout, outputs_layout
from seedbed.hw.parts.delay_line import delayed
from seedbed.spec.engine import FRAMES
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["RankOneSums", "beat_mark_layout"]


def beat_mark_layout(config: ZoTrainerConfig) -> data.StructLayout:
    """Return the layout of what is known of a beat: its row and step, ``first`` and ``last``."""
    return data.StructLayout(mark_layout(config.engine) | {"first": 1, "last": 1})


def _sum(a, b, carry):
    """Return a + b + carry of signed values: the carry comes from a bit below, without a LUT."""
    return (Cat(1, a).as_signed() + Cat(carry, b).as_signed()) >> 1


class RankOneSums(wiring.Component):
    """Adds k 2^(c - 1) a_o (sum of b_k x_k) to the sums of a frame, of each output o.

    Weights are not changed on the way: with rank 1, what they would add to all sums is one sum over
    the inputs, which each output takes with its own sign or not at all. An adder tree has the
    activations with the signs of their inputs; a negative one is inverted, and its missing 1 is the
    carry of an adder.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`, with ``rank1``.

    Members
    -------
    mark : In(:func:`beat_mark_layout`)
        A beat, in the cycle in which the array takes it.
    activations : In(lanes numbers)
        Of the beat.
    inputs, outputs : In
        Of its row, as :class:`~seedbed.hw.generators.rank_one.RankOneNumbers` outputs them.
    perturb, subtract, magnitude : In
        Whether sums are perturbed, whether k is -1, and c. Steady while steps run.
    i_sums, o_sums : In, Out(stream of struct)
        ``sums`` of a frame, from the array and to the writer.
    conflict : Out(1)
        Sums have come before what is added to them: for assertions.

    Latency: 0 cycles from sums to sums. Throughput: a beat a cycle.
    """

    #: Cycles from a beat's row to its numbers.
    ahead = RankOneNumbers.latency

    def __init__(self, config: ZoTrainerConfig):
        assert config.rank_one
        self.config, self.rank_one = config, config.rank_one
        # The signature of an input is flipped.
        sums = writer_members(config.engine)["i"].signature.flip()
        one = self.rank_one
        super().__init__(
            {
                "mark": In(beat_mark_layout(config)),
                "activations": In(data.ArrayLayout(signed(8), config.lanes)),
                "inputs": In(inputs_layout(one)),
                "outputs": In(outputs_layout(one)),
                "perturb": In(1),
                "subtract": In(1),
                "magnitude": In(range(one.bits + 1)),
                "i_sums": In(sums),
                "o_sums": Out(sums),
                "conflict": Out(1),
            }
        )

    @property
    def added_shape(self):
        """Format of what is added, of the longest frame."""
        beats = max(step.beats for step in self.config.engine.plan.steps)
        return signed((self.rank_one.peak * self.config.lanes * beats << 7).bit_length() + 1)

    def elaborate(self, platform):
        m = Module()
        mark, shape = self.mark, self.added_shape
        total, carry, cycles = self._tree(m)
        perturbed = self.perturb & (mark.step < self.config.schedule.steps)
        first = delayed(m, mark.first, cycles, "first")
        valid = delayed(m, mark.valid, cycles, "valid", reset=True)
        ends = delayed(m, mark.valid & mark.last, cycles + 1, "ends", reset=True)
        negative = delayed(m, self.outputs.negative, cycles + 1, "negative")
        gate = self.outputs.perturbed & perturbed.replicate(self.config.ways)
        on = delayed(m, gate, cycles + 1, "on")
        frame = Signal(shape, reset_less=True)
        with m.If(valid):
            m.d.sync += frame.eq(_sum(frame & ~first.replicate(len(frame)), total, carry))
        layout = data.StructLayout({"added": shape} | dict(outputs_layout(self.rank_one).members))
        m.submodules.frames = frames = SyncFIFO(width=layout.size, depth=FRAMES)
        entry, found = data.View(layout, frames.w_data), data.View(layout, frames.r_data)
        m.d.comb += [
            entry.added.eq(frame << (self.magnitude - 1).as_unsigned()[:3]),
            entry.negative.eq(negative),
            entry.perturbed.eq(on),
            frames.w_en.eq(ends),
        ]
        given, out = self.i_sums, self.o_sums
        m.d.comb += [
            out.valid.eq(given.valid),
            given.ready.eq(out.ready),
            frames.r_en.eq(given.valid & given.ready),
            self.conflict.eq(given.valid & ~frames.r_rdy | ends & ~frames.w_rdy),
        ]
        for way, (of, to) in enumerate(zip(given.payload.sums, out.payload.sums, strict=True)):
            minus = Signal(name=f"minus_{way}")
            term = Signal(shape, name=f"term_{way}")
            # A term that is not added is 0, and its sign is plus.
            m.d.comb += [
                minus.eq((found.negative[way] ^ self.subtract) & found.perturbed[way]),
                term.eq(Mux(found.perturbed[way], found.added ^ minus.replicate(len(term)), 0)),
                to.eq(_sum(of, term, minus)),
            ]
        return m

    def _tree(self, m):
        """Add the signed activations of a beat; return the sum, a carry, and their cycle."""
        inputs = self.inputs
        values, carries = [], []
        for lane, activation in enumerate(self.activations):
            value = Signal(signed(8), name=f"signed_{lane}", reset_less=True)
            negative = Signal(name=f"borrow_{lane}", reset_less=True)
            signs = inputs.negative[lane].replicate(8)
            m.d.sync += [
                value.eq((activation ^ signs) & inputs.used[lane].replicate(8)),
                negative.eq(inputs.negative[lane] & inputs.used[lane]),
            ]
            values.append(value)
            carries.append(negative)
        cycle, width = 1, 8
        while len(values) > 1:
            cycle, width = cycle + 1, width + 1
            pairs = list(zip(values[::2], values[1::2], strict=True))
            used, carries = carries[: len(pairs)], carries[len(pairs) :]
            values = []
            for k, ((left, right), one) in enumerate(zip(pairs, used, strict=True)):
                values.append(Signal(signed(width), name=f"sum_{cycle}_{k}", reset_less=True))
                m.d.sync += values[-1].eq(_sum(left, right, one))
            carries = [delayed(m, each, 1, f"borrow_{cycle}_{k}") for k, each in enumerate(carries)]
        (total,), (carry,) = values, carries
        return total, carry, cycle
