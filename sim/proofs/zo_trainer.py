"""Proof of the zeroth-order trainer's update: every row once, in order, after its read."""

from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.hdl._ast import AnySeq

from seedbed.hw.zeroth_order.zero_order_update import ZeroOrderUpdate
from seedbed.sim.proofs import rank_one
from seedbed.sim.proofs.bench import cover, free_inputs, past
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["PROOFS"]

LATENCY = ZeroOrderUpdate.latency


def update(dut: ZeroOrderUpdate) -> Module:
    """Count the rows that are read and written."""
    m, inside = free_inputs(dut)
    rows = dut.config.schedule.rows
    reads, writes = Signal(range(rows + 1), init=rows), Signal(range(rows + 1), init=rows)
    m.d.comb += [dut.start.eq(AnySeq(1)), Assume(~dut.start | ~dut.busy)]
    m.d.sync += [reads.eq(reads + dut.read.valid), writes.eq(writes + dut.write.valid)]
    with m.If(dut.start):
        m.d.sync += [reads.eq(0), writes.eq(0)]
    # What was read so many cycles before.
    read, in_flight = (dut.read.valid, dut.read.row), []
    for _ in range(LATENCY):
        read = tuple(past(m, value) for value in read)
        in_flight.append(read[0])
    m.d.comb += [
        Assert(dut.read.valid == (reads < rows)),
        Assert(~dut.read.valid | (dut.read.row == reads)),
        Assert(dut.write.valid == read[0]),
        Assert(~dut.write.valid | ((dut.write.row == read[1]) & (dut.write.row == writes))),
        Assert(writes + sum(in_flight, 0) == reads),
        Assert(dut.busy == (writes < rows)),
        # What an induction has to know.
        Assert(inside["walking"] | (inside["row"] == 0)),
    ]
    last = dut.write.valid & (dut.write.row == rows - 1)
    started = Signal(range(3))
    m.d.sync += started.eq(started + (dut.start & (started < 2)))
    cover(m, last & (started == 1), dut.read.valid & (started == 2))
    return m


#: Four rows of a layer and one of the next.
FIVE = ZoTrainerConfig(
    network=NetworkConfig(
        (
            Layer(name="a", kind="dense", inputs=(1, 3, 4), outputs=4),
            Layer(name="b", kind="dense", inputs=(4, 1, 1), outputs=2, relu=False),
        )
    ),
    lanes=8,
    ways=2,
)

PROOFS = (
    Proof(
        name="zo_trainer_update",
        says="An update reads each row once, in order, and writes each row once, in order, as many "
        "cycles after its read as the memory and the stage take; it is busy until the last write.",
        component=ZeroOrderUpdate,
        config=FIVE,
        harness=update,
        depth=LATENCY + 2,
        reach=16,
        mutants=(
            Mutant(
                "the last row is left out",
                "self.config.schedule.rows - 1",
                "self.config.schedule.rows - 2",
            ),
            Mutant(
                "the next update does not begin with row 0",
                "[walking.eq(0), row.eq(0)]",
                "[walking.eq(0)]",
            ),
            Mutant(
                "a row is written a cycle early",
                "self.write.eq(reads[-1])",
                "self.write.eq(reads[-2])",
            ),
            Mutant(
                "an update is not busy after its last read",
                "self.busy.eq(walking | Cat(read.valid for read in reads[1:]).any())",
                "self.busy.eq(walking)",
            ),
        ),
    ),
    *rank_one.PROOFS,
)
