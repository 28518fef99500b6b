"""Walks over the rows that an update by zeroth order rewrites, one read and one write each."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.parts.delay_line import delay_line
from seedbed.hw.zeroth_order.perturb_stage import PerturbStage
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["ZeroOrderUpdate"]


class ZeroOrderUpdate(wiring.Component):
    """Reads every row of a schedule, and writes it after the perturbing stage.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.zo_trainer.ZoTrainerConfig`.

    Members
    -------
    start : In(1)
        Begins with row 0. The stage's generator is at row 0 and not busy.
    busy : Out(1)
        Until the last row is written.
    read : Out(struct)
        ``valid`` and ``row``: a request to the memory, and to the stage.
    write : Out(struct)
        ``valid`` and ``row``: the row that comes from the stage is written, as
        :class:`~seedbed.hw.engine.parameter_memory.ParameterMemory` has it.

    Latency: ``latency`` cycles from a row's read to its write. Throughput: a row a cycle.
    """

    latency = ParameterMemory.latency + PerturbStage.latency - ParameterMemory.write_latency

    def __init__(self, config: ZoTrainerConfig):
        self.config = config
        row = data.StructLayout({"valid": 1, "row": range(max(config.schedule.rows, 2))})
        super().__init__({"start": In(1), "busy": Out(1), "read": Out(row), "write": Out(row)})

    def elaborate(self, platform):
        m = Module()
        walking = Signal()
        row = Signal.like(self.read.row)
        m.d.comb += [self.read.valid.eq(walking), self.read.row.eq(row)]
        reads = delay_line(m, self.read, self.latency, "read", reset=True)
        m.d.comb += [
            self.write.eq(reads[-1]),
            self.busy.eq(walking | Cat(read.valid for read in reads[1:]).any()),
        ]
        with m.If(walking):
            m.d.sync += row.eq(row + 1)
            with m.If(row == self.config.schedule.rows - 1):
                m.d.sync += [walking.eq(0), row.eq(0)]
        with m.If(self.start):
            m.d.sync += walking.eq(1)
        return m
