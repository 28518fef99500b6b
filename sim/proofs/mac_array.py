"""Proofs of the array of multipliers."""

from itertools import product

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, Value, signed

from seedbed.hw.mac_array import MacArray
from seedbed.sim.proofs.bench import around, happens, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import MacArrayConfig

__all__ = ["PROOFS", "queue"]


def queue(m: Module, inside: dict[str, Signal], prefix: str, depth: int) -> None:
    """Assert what holds of the places of a queue, which an induction has to know."""
    level, produce, consume = (inside[f"{prefix}.{n}"] for n in ("level", "produce", "consume"))
    ahead = Signal(range(2 * depth))
    m.d.comb += [
        ahead.eq(consume + level),
        Assert(level <= depth),
        Assert(produce < depth),
        Assert(consume < depth),
        Assert(produce == Mux(ahead >= depth, ahead - depth, ahead)),
    ]


def room(dut: MacArray) -> Module:
    """Every frame that is let in has a place among the results; sums wait for their reader."""
    m, inside = around(dut)
    stream_rules(m, dut.o)
    queue(m, inside, "fifo", dut.results)
    ends = [inside[f"ends_d{k}"] for k in range(1, dut.latency)]
    m.d.comb += [
        Assert(inside["frames"] == sum(ends, inside["fifo.level"])),
        Assert(inside["frames"] <= dut.results),
        Assert(~inside["w_en"] | inside["fifo.w_rdy"]),
    ]
    happens(m, ~dut.i.ready & transfer(dut.o))
    return m


def sums(dut: MacArray) -> Module:
    """Form each frame's sums at once, straight from the definition, and send them after."""
    m, inside = around(dut)
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
    # As many registers as the array has, so that both accumulate in the same cycle.
    line = [transfer(dut.i), transfer(dut.i) & beat.last, beat.first, *totals]
    for _ in range(dut.latency - 1):
        before, line = line, [Signal(Value.cast(value).shape()) for value in line]
        m.d.sync += [new.eq(old) for new, old in zip(line, before, strict=True)]
    valid, ends, first, *totals = line
    kept, frames = ([Signal(signed(width)) for _ in totals] for _ in range(2))
    m.d.comb += [
        *(f.eq(Mux(first, 0, k) + t) for f, k, t in zip(frames, kept, totals, strict=True)),
        Assert(inside["accumulator"] == Cat(kept)),
        Assert(inside["w_en"] == ends),
    ]
    with m.If(valid):
        m.d.comb += Assert(inside["w_data"] == Cat(frames))
        m.d.sync += Cat(kept).eq(Cat(frames))
    # In the last way, where an earlier one differs.
    different = sum((frame != frames[-1] for frame in frames[:-1]), Const(0)) == config.ways - 1
    happens(m, ends & ~first & (frames[-1] == -(1 << (width - 1))) & different)
    return m


def tap(dut: MacArray) -> Module:
    """Multiply at once, and delay as long as the array does."""
    m, _ = around(dut)
    config, beat = dut.config, dut.i.payload
    activations = [*beat.activations] * config.ways
    products = [w * x for w, x in zip(beat.weights, activations, strict=True)]
    taken = past(m, past(m, transfer(dut.i)))
    before = [past(m, past(m, value)) for value in products]
    with m.If(taken):
        m.d.comb += [Assert(t == p) for t, p in zip(dut.products, before, strict=True)]
    happens(m, taken & (before[0] < 0) & (before[-1] > 0))
    return m


NO_ROOM = Mutant(
    name="frames are let in without a place",
    old="self.i.ready.eq(frames != self.results)",
    new="self.i.ready.eq(1)",
)
LEAVES_LATE = Mutant(
    name="a frame keeps its place when it has left",
    old="(moved & self.i.payload.last) - taken",
    new="(moved & self.i.payload.last) - (taken & ~moved)",
)
CARRIES_ON = Mutant(
    name="a frame begins with the sum of the last one",
    old="Mux(first, 0, old)",
    new="old",
)
COUNTS_ALL = Mutant(
    name="a block that is off counts",
    old="Mux(o, s << Cat(Const(0, 2), shift[2:]), 0)",
    new="s << Cat(Const(0, 2), shift[2:])",
)
UNSIGNED = Mutant(
    name="an exponent's sign is not flipped",
    old="e.as_unsigned() ^ (1 << (width - 1))",
    new="e.as_unsigned() ^ 0",
)
ONE_WAY = Mutant(
    name="all ways have the sum of the first",
    old="Mux(first, 0, old) + total",
    new="Mux(first, 0, old) + totals.values[0]",
)
ONE_LANE = Mutant(
    name="all products have the first activation",
    old="zip(weights, activations * config.ways, strict=True)",
    new="zip(weights, activations[:1] * len(weights), strict=True)",
)
EARLY = Mutant(
    name="products come a cycle early",
    old="taps = zip(self.products, products.values, strict=True)",
    new="taps = zip(self.products, entry.values, strict=True)",
)
TINY = {"weight_width": 2, "activation_width": 2, "accumulator_width": 7, "results": 2}

PROOFS = tuple(
    Proof(
        name=f"mac_array_{harness.__name__}_{size}",
        core="mac_array",
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
            MacArrayConfig(lanes=2, blocks=2, exponent_width=1, **TINY),
            room,
            2,
            "Every frame that is let in has a place among the results; a sum waits, unchanged, "
            "until it is taken.",
            (NO_ROOM, LEAVES_LATE),
        ),
        (
            "2x2",
            MacArrayConfig(lanes=2, blocks=2, exponent_width=1, **TINY),
            sums,
            8,
            "A sum is that of its frame's products, each block's shifted by its exponent.",
            (CARRIES_ON, COUNTS_ALL, UNSIGNED),
        ),
        (
            "2x2x2",
            MacArrayConfig(lanes=2, blocks=2, ways=2, exponent_width=0, **TINY),
            sums,
            7,
            "Each way's sum is that of its own weights' products with the shared activations.",
            (CARRIES_ON, COUNTS_ALL, ONE_WAY),
        ),
        (
            "2x2x2",
            MacArrayConfig(lanes=2, blocks=1, ways=2, exponent_width=0, products=True, **TINY),
            tap,
            3,
            "Products stand at their port two cycles after their beat.",
            (ONE_LANE, EARLY),
        ),
        (
            "4x2",
            MacArrayConfig(lanes=4, blocks=1, exponent_width=2, **TINY),
            sums,
            9,
            "A sum is that of its frame's products, each block's shifted by its exponent.",
            (CARRIES_ON, COUNTS_ALL, UNSIGNED),
        ),
    ]
)
