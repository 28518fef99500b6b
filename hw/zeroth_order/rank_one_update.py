"""Updates by perturbations of rank 1: some lanes of a row at a time, in a walk over all rows."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.layer_readouts import RowParts
from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.generators.rank_one import RankOneNumbers, inputs_layout, outputs_layout
from seedbed.hw.parts.delay_line import delay_line
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.step_levels import LEVELS
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["RankOneUpdate"]


class RankOneUpdate(wiring.Component):
    """Reads part after part of all rows, and writes w - g u, saturated.

    u is the product of an output's and an input's number; half of it has those inputs alone that
    half a step moves, and two steps are twice it. A part is :attr:`RowParts.LANES` weights: of all
    rows the first part, then the second, and so on. No part is read again before it is written.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`, with ``rank1``.

    Members
    -------
    start : In(1)
        Begins, with row 0.
    subtract, level : In
        Whether u is subtracted; the level of the step. Steady while ``busy``.
    busy : Out(1)
        Until the last part's write.
    read : Out(struct)
        ``valid``, ``row`` and ``part``: a request to the memory.
    request, request_row : Out
        To the numbers, in the cycle from which they have their latency to the part's weights.
    weights : In(RowParts.LANES numbers)
        The part, ``RowParts.latency`` after its request.
    inputs, outputs : In
        Of its row, in that cycle.
    write : Out(struct)
        ``valid``, ``row`` and ``part``: the part is written, as a load of the memory.
    values : Out(RowParts.LANES numbers)
        The part, ``ParameterMemory.load_latency`` cycles after ``write``.

    Latency: ``latency`` cycles from a part's read to its write. Throughput: a part a cycle.
    """

    def __init__(self, config: ZoTrainerConfig):
        assert config.rank_one
        self.config, self.rank_one = config, config.rank_one
        self.parts = RowParts.parts_of(config.engine)
        #: From a part's request to its weights.
        self.latency = RowParts.latency_of(config.engine)
        row = {"row": range(max(config.schedule.rows, 2)), "part": range(max(self.parts, 2))}
        walk = data.StructLayout({"valid": 1} | row)
        numbers = data.ArrayLayout(signed(8), RowParts.LANES)
        super().__init__(
            {
                "start": In(1),
                "subtract": In(1),
                "level": In(range(len(LEVELS))),
                "busy": Out(1),
                "read": Out(walk),
                "request": Out(1),
                "request_row": Out(row["row"]),
                "weights": In(numbers),
                "inputs": In(inputs_layout(self.rank_one)),
                "outputs": In(outputs_layout(self.rank_one)),
                "write": Out(walk),
                "values": Out(numbers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        walking = Signal()
        row = Signal.like(self.read.row)
        part = Signal.like(self.read.part)
        m.d.comb += [
            self.read.valid.eq(walking),
            self.read.row.eq(row),
            self.read.part.eq(part),
        ]
        reads = delay_line(m, self.read, self.latency, "read", reset=True)
        asked = reads[self.latency - RankOneNumbers.latency]
        m.d.comb += [
            self.request.eq(asked.valid),
            self.request_row.eq(asked.row),
            self.write.eq(reads[-1]),
            self.busy.eq(walking | Cat(read.valid for read in reads[1:]).any()),
        ]
        with m.If(walking):
            m.d.sync += row.eq(row + 1)
            with m.If(row == self.config.schedule.rows - 1):
                m.d.sync += [row.eq(0), part.eq(part + 1)]
                with m.If(part == self.parts - 1):
                    m.d.sync += [walking.eq(0), part.eq(0)]
        with m.If(self.start):
            m.d.sync += walking.eq(1)
        self._changes(m, reads[-1].part)
        return m

    def _changes(self, m, part):
        """Make the part's values of its weights: a sum, and then its saturation."""
        # Two registers are what a load has from its request to its values.
        assert ParameterMemory.load_latency == 2
        config, count = self.config, RowParts.LANES
        # Blocks of a way: a power of two.
        bits = (config.lanes // count).bit_length() - 1
        block, way = part[:bits] if bits else Const(0, 1), part[bits:]
        negative, used, half = (
            Cat(*self.inputs[name]).word_select(block, count)
            for name in ("negative", "used", "half")
        )
        on = Array(self.outputs.perturbed)[way]
        minus = Array(self.outputs.negative)[way] ^ self.subtract
        two, none = (self.level == LEVELS.index(name) for name in ("two", "none"))
        halves = self.level == LEVELS.index("half")
        for k, (weight, to) in enumerate(zip(self.weights, self.values, strict=True)):
            moves, sign = Signal(name=f"moves_{k}"), Signal(name=f"sign_{k}")
            change = Signal(signed(3), name=f"change_{k}")
            total = Signal(signed(9), name=f"total_{k}", reset_less=True)
            value = Signal(signed(8), name=f"value_{k}", reset_less=True)
            m.d.comb += [
                moves.eq(on & used[k] & ~none & (~halves | half[k])),
                sign.eq(negative[k] ^ minus),
                # 1, 2, -1 or -2, or 0.
                change.eq(Cat(moves & ~two, moves & (two | sign), moves & sign)),
                to.eq(value),
            ]
            m.d.sync += [
                total.eq(weight + change),
                value.eq(Mux(total > LIMIT, LIMIT, Mux(total < -LIMIT, -LIMIT, total))),
            ]
