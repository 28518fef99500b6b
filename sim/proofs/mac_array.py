"""Proofs of the array of multipliers."""

from functools import partial
from itertools import product

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, signed

from seedbed.hw.products.mac_array import MacArray
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import MacArrayConfig

__all__ = ["PROOFS", "fifo_invariants"]


def fifo_invariants(m: Module, inside: dict[str, Signal], prefix: str, depth: int) -> None:
    """Assert the invariants of a FIFO's level and pointers, which an induction needs."""
    level, produce, consume = (inside[f"{prefix}.{n}"] for n in ("level", "produce", "consume"))
    expected = Signal(range(2 * depth))
    m.d.comb += [
        expected.eq(consume + level),
        Assert(level <= depth),
        Assert(produce < depth),
        Assert(consume < depth),
        Assert(produce == Mux(expected >= depth, expected - depth, expected)),
    ]


def room(dut: MacArray) -> Module:
    """Every accepted frame has a free entry in the result FIFO; sums obey the stream rules."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    fifo_invariants(m, inside, "fifo", dut.results)
    ends = [inside[f"ends_d{k}"] for k in range(1, dut.latency)]
    m.d.comb += [
        Assert(inside["in_flight"] == sum(ends, inside["fifo.level"])),
        Assert(inside["in_flight"] <= dut.results),
        Assert(~inside["w_en"] | inside["fifo.w_rdy"]),
    ]
    cover(m, ~dut.i.ready & transfer(dut.o))
    return m


def sums(dut: MacArray) -> Module:
    """Compute each frame's sums in one cycle, by definition, and delay them."""
    m, inside = free_inputs(dut)
    config, beat = dut.config, dut.i.payload
    least = -(1 << config.exponent_width >> 1)
    width = config.accumulator_width
    totals = [Value.cast(0)] * config.ways
    for way, b in product(range(config.ways), range(config.blocks)):
        lanes = range(b * config.block, (b + 1) * config.block)
        own = [*beat.weights][way * config.lanes :]
        block = sum((own[lane] * beat.activations[lane] for lane in lanes), Value.cast(0))
        shifted = block
        if config.exponent_width:
            for e in range(least, -least):
                shifted = Mux(beat.exponents[b] == e, block << (e - least), shifted)
        totals[way] = totals[way] + Mux(beat.on[b], shifted, 0)
    # The same latency as the array's, so that both accumulate in the same cycle.
    pipeline = [transfer(dut.i), transfer(dut.i) & beat.last, beat.first, *totals]
    for _ in range(dut.latency - 1):
        before, pipeline = pipeline, [Signal(Value.cast(value).shape()) for value in pipeline]
        m.d.sync += [new.eq(old) for new, old in zip(pipeline, before, strict=True)]
    valid, ends, first, *totals = pipeline
    accumulators, frames = ([Signal(signed(width)) for _ in totals] for _ in range(2))
    m.d.comb += [
        *(f.eq(Mux(first, 0, k) + t) for f, k, t in zip(frames, accumulators, totals, strict=True)),
        Assert(inside["accumulator"] == Cat(accumulators)),
        Assert(inside["w_en"] == ends),
    ]
    with m.If(valid):
        m.d.comb += Assert(inside["w_data"] == Cat(frames))
        m.d.sync += Cat(accumulators).eq(Cat(frames))
    # In the last way, where the others differ.
    different = sum((frame != frames[-1] for frame in frames[:-1]), Const(0)) == config.ways - 1
    cover(m, ends & ~first & (frames[-1] == -(1 << (width - 1))) & different)
    return m


def tap(dut: MacArray) -> Module:
    """Multiply in one cycle, and delay as long as the array does."""
    m, _ = free_inputs(dut)
    config, beat = dut.config, dut.i.payload
    activations = [*beat.activations] * config.ways
    products = [w * x for w, x in zip(beat.weights, activations, strict=True)]
    taken = past(m, past(m, transfer(dut.i)))
    before = [past(m, past(m, value)) for value in products]
    with m.If(taken):
        m.d.comb += [Assert(t == p) for t, p in zip(dut.products, before, strict=True)]
    cover(m, taken & (before[0] < 0) & (before[-1] > 0))
    return m


NO_CREDIT = Mutant(
    "frames are accepted without credit",
    "self.i.ready.eq(in_flight != self.results)",
    "self.i.ready.eq(1)",
)
CREDIT_LOST = Mutant(
    "credit is not returned with a simultaneous input transfer",
    "(fire & self.i.payload.last) - result_fire",
    "(fire & self.i.payload.last) - (result_fire & ~fire)",
)
NO_CLEAR = Mutant("a frame begins with the previous frame's sum", "Mux(first, 0, old)", "old")
COUNTS_ALL = Mutant(
    "a block that is off counts",
    "Mux(o, s << Cat(Const(0, 2), shift[2:]), 0)",
    "s << Cat(Const(0, 2), shift[2:])",
)
UNSIGNED = Mutant(
    "an exponent's sign is not flipped",
    "e.as_unsigned() ^ (1 << (width - 1))",
    "e.as_unsigned() ^ 0",
)
ONE_WAY = Mutant(
    "all ways have the sum of the first",
    "Mux(first, 0, old) + total",
    "Mux(first, 0, old) + totals.values[0]",
)
ONE_LANE = Mutant(
    "all products have the first activation",
    "zip(weights * config.vectors, activations * config.ways, strict=True)",
    "zip(weights, activations[:1] * len(weights), strict=True)",
)
EARLY = Mutant(
    "products are a cycle early",
    "taps = zip(self.products, products.values, strict=True)",
    "taps = zip(self.products, entry.values, strict=True)",
)
tiny = partial(MacArrayConfig, weight_width=2, activation_width=2, accumulator_width=7, results=2)

PROOFS = tuple(
    Proof(
        name=f"mac_array_{harness.__name__}_{size}",
        says=says,
        component=MacArray,
        config=config,
        harness=harness,
        depth=depth,
        reach=16,
        mutants=mutants,
    )
    for size, config, harness, depth, says, mutants in [
        (
            "2x2",
            tiny(lanes=2, blocks=2, exponent_width=1),
            room,
            2,
            "Every accepted frame has a free entry in the result FIFO; a valid sum is stable until "
            "its transfer.",
            (NO_CREDIT, CREDIT_LOST),
        ),
        (
            "2x2",
            tiny(lanes=2, blocks=2, exponent_width=1),
            sums,
            8,
            "A sum is that of its frame's products, each block's shifted by its exponent.",
            (NO_CLEAR, COUNTS_ALL, UNSIGNED),
        ),
        (
            "2x2x2",
            tiny(lanes=2, blocks=2, ways=2, exponent_width=0),
            sums,
            7,
            "Each way's sum is that of its own weights' products with the shared activations.",
            (NO_CLEAR, COUNTS_ALL, ONE_WAY),
        ),
        (
            "2x2x2",
            tiny(lanes=2, blocks=1, ways=2, exponent_width=0, products=True),
            tap,
            3,
            "Products are at their port two cycles after their beat.",
            (ONE_LANE, EARLY),
        ),
        (
            "4x2",
            tiny(lanes=4, blocks=1, exponent_width=2),
            sums,
            9,
            "A sum is that of its frame's products, each block's shifted by its exponent.",
            (NO_CLEAR, COUNTS_ALL, UNSIGNED),
        ),
    ]
)
