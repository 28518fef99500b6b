"""Proofs of the fine-tuning core's ways in: every pixel and every parameter finds its place."""

from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.hdl._ast import AnySeq

from seedbed.hw.engine.image_loader import ImageLoader
from seedbed.hw.engine.parameter_loader import ParameterLoader
from seedbed.sim.proofs.bench import cover, free_inputs, past, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.instantft import InstantFtConfig
from seedbed.spec.network import Layer, NetworkConfig

__all__ = ["PROOFS"]


def pixels(dut: ImageLoader) -> Module:
    """Follow an image by row and column, and hold every write against the map's own addresses."""
    m, inside = free_inputs(dut)
    m.d.comb += dut.buffer_select.eq(AnySeq(1))
    plan, given, put = dut.config.plan, dut.i, dut.o
    region, ways = plan.image, plan.ways
    rows, along = region.shape[0], region.shape[1] * region.shape[2]
    y, x = Signal(range(rows)), Signal(range(along + ways))
    complete = Signal()
    row_last = x + ways >= along
    final = row_last & (y == rows - 1) & ~complete
    place = region.origin + y * region.stride + x
    buffer_select = dut.buffer_select << (len(put.payload.address) - 1)
    m.d.comb += [
        Assert(put.valid == (given.valid & ~complete)),
        Assert(given.ready == (put.ready | complete)),
        Assert(dut.done == (transfer(given) & given.payload.last & final)),
        Assert(dut.length_error == (transfer(given) & given.payload.last & ~final)),
    ]
    with m.If(put.valid):
        m.d.comb += [
            Assert(put.payload.address == place + buffer_select),
            Assert(put.payload.count == Mux(row_last, along - x, ways)),
            Assert(put.payload.values.as_value() == given.payload.values.as_value()),
        ]
    with m.If(transfer(given)):
        m.d.sync += [x.eq(Mux(row_last, 0, x + ways)), complete.eq(complete | final)]
        with m.If(row_last):
            m.d.sync += y.eq(Mux(y == rows - 1, 0, y + 1))
        with m.If(given.payload.last):
            m.d.sync += [x.eq(0), y.eq(0), complete.eq(0)]
    # What an induction has to know.
    m.d.comb += Assert(inside["discard"] == complete)
    with m.If(~complete):
        m.d.comb += [
            Assert(inside["row"] == y),
            Assert(inside["beat"] * ways == x),
            Assert(inside["offset"] == y * region.stride + x),
            Assert((x < along) & (y < rows)),
        ]
    cover(
        m,
        dut.done,
        dut.length_error & ~complete,
        dut.length_error & complete,
        transfer(put) & past(m, dut.done),
    )
    return m


def packets(dut: ParameterLoader) -> Module:
    """Count a packet's words, and hold each against its place."""
    m, inside = free_inputs(dut)
    m.d.comb += dut.accepts.eq(AnySeq(1))
    plan, given = dut.config.plan, dut.i
    pairs = plan.ways * plan.lanes // 2
    trainable = given.payload.trainable
    words = Mux(trainable, plan.trainable_rows, plan.frozen_rows) * pairs
    most = max(plan.trainable_rows, plan.frozen_rows) * pairs
    count = Signal(range(most + 1))
    kind = Signal()
    m.d.comb += [
        # A packet is for one memory.
        Assume(~given.valid | (count == 0) | (trainable == kind)),
        Assert(given.ready == dut.accepts),
        Assert(dut.load == (transfer(given) & (count < words))),
        Assert(~dut.load | (dut.row * pairs + dut.pair == count)),
        Assert(dut.length_error == (transfer(given) & given.payload.last & (count != words - 1))),
    ]
    with m.If(transfer(given)):
        m.d.sync += [kind.eq(trainable), count.eq(count + (count < words))]
        with m.If(given.payload.last):
            m.d.sync += count.eq(0)
    kept = Mux(kind, plan.trainable_rows, plan.frozen_rows) * pairs
    m.d.comb += [
        Assert((count == 0) | (count <= kept)),
        Assert(inside["complete"] == ((count != 0) & (count == kept))),
        Assert(inside["complete"] | (dut.row * pairs + dut.pair == count)),
        Assert(dut.pair < pairs),
    ]
    fits = transfer(given) & given.payload.last & ~dut.length_error
    cover(m, fits, dut.length_error & ~dut.load, dut.length_error & dut.load & trainable)
    return m


#: Two channels, three columns: a row of six numbers in beats of four.
TINY = InstantFtConfig(
    network=NetworkConfig(
        (
            Layer(name="a", kind="conv", inputs=(2, 3, 3), outputs=1, kernel=2, padding=1, pool=2),
            Layer(name="b", kind="dense", inputs=(4, 1, 1), outputs=2, relu=False),
        )
    ),
    lanes=8,
).engine
#: As few words as there can be of either sort.
SHORT = InstantFtConfig(
    network=NetworkConfig(
        (Layer(name="a", kind="dense", inputs=(2, 1, 1), outputs=2, relu=False),)
    ),
    rank=1,
    lanes=8,
    ways=1,
).engine

OVERFULL = Mutant(
    "what is left complete of a row's last beat is written",
    "put.payload.count.eq(along - (beats - 1) * ways)",
    "put.payload.count.eq(ways)",
)
DENSE = Mutant(
    "rows have no padding between them", "step = region.stride - (beats - 1) * ways", "step = ways"
)
EARLY = Mutant(
    "an image may end with any row",
    "ends.eq(row_last & (row == rows - 1) & ~discard)",
    "ends.eq(row_last & ~discard)",
)
SPILLS = Mutant(
    "what is too much is written",
    "put.valid.eq(given.valid & ~discard)",
    "put.valid.eq(given.valid)",
)
LONG = Mutant("a packet that is too long fits", "(complete | ~ends)", "(~complete & ~ends)")
KEEPS = Mutant(
    "a short packet's place is kept for the next",
    "m.d.sync += [self.pair.eq(0), self.row.eq(0), complete.eq(0)]",
    "m.d.sync += complete.eq(0)",
)

PROOFS = (
    Proof(
        name="instantft_pixels",
        says="Each number of an image is written to its own place, what is too much to none, and "
        "an image is done exactly if it ends with its last number.",
        component=ImageLoader,
        config=TINY,
        harness=pixels,
        reach=10,
        mutants=(OVERFULL, DENSE, EARLY, SPILLS),
    ),
    Proof(
        name="instantft_packets",
        says="A packet of parameters goes to its rows in order, each word once, and fits exactly "
        "if it has as many words as they have.",
        component=ParameterLoader,
        config=SHORT,
        harness=packets,
        mutants=(LONG, KEEPS),
    ),
)
