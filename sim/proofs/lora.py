"""Proofs of the adapters' ways in, and of the walk complete their outer products."""

from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst, AnySeq

from seedbed.hw.adapters.outer_products import OuterProducts
from seedbed.hw.engine.vector_loader import VectorLoader
from seedbed.sim.proofs.bench import cover, free_inputs, past, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.lora import LoraConfig

__all__ = ["PROOFS"]


def chosen(number, values):
    """Return the ``number``-th of some integers."""
    found = Const(0, 1)
    for k, value in enumerate(values):
        found = Mux(number == k, int(value), found)
    return found


def products(dut: OuterProducts) -> Module:
    """Count outer products and their rows: the left factors first, then row by row."""
    m, inside = free_inputs(dut)
    plan, beat = dut.config.plan, dut.beat
    products = plan.schedule.outer_products
    m.d.comb += [
        dut.start.eq(AnySeq(1)),
        dut.buffer_select.eq(AnyConst(1)),
        Assume(~dut.start | ~dut.busy),
    ]
    number, done = Signal(range(len(products) + 1)), Signal(range(99))
    busy = Signal()
    count = chosen(number, (p.count for p in products))
    with m.If(busy):
        m.d.sync += done.eq(done + 1)
        with m.If(done == count):
            m.d.sync += [done.eq(0), number.eq(number + 1)]
            m.d.sync += busy.eq(number != len(products) - 1)
    with m.If(dut.start):
        m.d.sync += [busy.eq(1), number.eq(0), done.eq(0)]
    left = chosen(number, (p.left for p in products))
    right = chosen(number, (p.right for p in products)) + (done - 1) * plan.lanes
    top = dut.buffer_select << (len(beat.address) - 1)
    row = chosen(number, (p.row for p in products)) + done - 1
    begins = done == 0
    counts = chosen(number, (not p.duplicate for p in products))
    m.d.comb += [
        Assert(beat.left == past(m, busy & begins)),
        Assert(beat.right == past(m, busy & ~begins)),
        Assert(
            ~(beat.left | beat.right) | (beat.address == past(m, Mux(begins, left, right) + top))
        ),
        Assert(~beat.right | (beat.row == past(m, row))),
        Assert(~beat.right | (beat.counts == past(m, counts))),
        # What an induction has to know.
        Assert(dut.busy == busy),
    ]
    with m.If(busy):
        m.d.comb += [
            Assert(number < len(products)),
            Assert(done <= count),
            Assert(inside["number"] == number),
            Assert(inside["left"] == Mux(begins, 0, count + 1 - done)),
        ]
        with m.If(~begins):
            m.d.comb += [Assert(inside["row"] == row), Assert(inside["address"] == right + top)]
    with m.Else():
        m.d.comb += Assert(inside["number"] == 0), Assert(inside["left"] == 0)
    cover(m, beat.right & ~dut.busy, beat.right & ~beat.counts)
    return m


def vectors(dut: VectorLoader) -> Module:
    """Follow a packet by vector and number, and hold every write against the plan's addresses."""
    m, inside = free_inputs(dut)
    m.d.comb += dut.buffer_select.eq(AnySeq(1))
    plan, given, put = dut.config.plan, dut.i, dut.o
    ways = plan.ways
    regions = plan.schedule.inputs
    lengths = [region.shape[2] for region in regions]
    vector, place = Signal(range(len(regions))), Signal(range(max(lengths) + ways))
    complete = Signal()
    length = chosen(vector, lengths)
    vector_last = place + ways >= length
    final = vector_last & (vector == len(regions) - 1) & ~complete
    half = dut.buffer_select << (len(put.payload.address) - 1)
    m.d.comb += [
        Assert(put.valid == (given.valid & ~complete)),
        Assert(given.ready == (put.ready | complete)),
        Assert(dut.done == (transfer(given) & given.payload.last & final)),
        Assert(dut.length_error == (transfer(given) & given.payload.last & ~final)),
    ]
    with m.If(put.valid):
        first = chosen(vector, (region.first for region in regions))
        m.d.comb += [
            Assert(put.payload.address == first + place + half),
            Assert(put.payload.count == Mux(vector_last, length - place, ways)),
            Assert(put.payload.values.as_value() == given.payload.values.as_value()),
        ]
    with m.If(transfer(given)):
        m.d.sync += [place.eq(Mux(vector_last, 0, place + ways)), complete.eq(complete | final)]
        with m.If(vector_last):
            m.d.sync += vector.eq(Mux(vector == len(regions) - 1, 0, vector + 1))
        with m.If(given.payload.last):
            m.d.sync += [place.eq(0), vector.eq(0), complete.eq(0)]
    m.d.comb += Assert(inside["discard"] == complete)
    with m.If(~complete):
        m.d.comb += [
            Assert(vector < len(regions)),
            Assert(place < length),
            Assert(inside["number"] == vector),
            Assert(inside["beat"] * ways == place),
        ]
    cover(
        m,
        dut.done,
        dut.length_error & ~complete,
        dut.length_error & complete,
        transfer(put) & past(m, dut.done),
    )
    return m


#: Rows in twos, copies of one row and of two, and vectors that end within a beat.
TINY = LoraConfig(widths=(9, 3), classes=3, rank=2, lanes=8, ways=2).engine

PROOFS = (
    Proof(
        name="lora_outer_products",
        says="Outer products are walked one by one: the factors that are held first, then each row "
        "once, with the accumulators' row that is its own.",
        component=OuterProducts,
        config=TINY,
        harness=products,
        depth=2,
        reach=28,
        mutants=(
            Mutant(
                "an outer product has a row too few",
                "with m.If(left == 1):",
                "with m.If(left <= 2):",
            ),
            Mutant(
                "the next sample begins where this one ended",
                "Mux(last, 0, number + 1)",
                "number + 1",
            ),
            Mutant(
                "neighbouring numbers instead of rows",
                "address.eq(address + plan.lanes)",
                "address.eq(address + 1)",
            ),
            Mutant(
                "what is there twice counts twice",
                "rom([not product.duplicate for product in products])",
                "rom([1 for product in products])",
            ),
        ),
    ),
    Proof(
        name="lora_vectors",
        says="Each number of a sample's vectors and logits is written to its own place, what is "
        "too much to none, and a sample is done exactly if it ends with its last number.",
        component=VectorLoader,
        config=TINY,
        harness=vectors,
        reach=14,
        mutants=(
            Mutant(
                "what is left complete of a vector's last beat is written",
                "put.payload.count.eq(Mux(vector_last, rest, ways))",
                "put.payload.count.eq(ways)",
            ),
            Mutant(
                "a sample may end with any vector",
                "ends.eq(vector_last & (number == len(vectors) - 1) & ~discard)",
                "ends.eq(vector_last & ~discard)",
            ),
            Mutant(
                "what is too much is written",
                "put.valid.eq(given.valid & ~discard)",
                "put.valid.eq(given.valid)",
            ),
        ),
    ),
)
