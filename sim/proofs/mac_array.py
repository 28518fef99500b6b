"""Proofs of the array of multipliers."""

from amaranth.hdl import Assert, Module, Mux, Signal, Value, signed

from seedbed.hw.mac_array import MacArray
from seedbed.sim.proofs.bench import around, happens, stream_rules, transfer
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
    ends = [inside[f"ends_{k}"] for k in range(1, dut.latency)]
    m.d.comb += [
        Assert(inside["frames"] == sum(ends, inside["fifo.level"])),
        Assert(inside["frames"] <= dut.results),
        Assert(~inside["w_en"] | inside["fifo.w_rdy"]),
    ]
    happens(m, ~dut.i.ready & transfer(dut.o))
    return m


def sums(dut: MacArray) -> Module:
    """Form each frame's sum at once, straight from the definition, and send it after."""
    m, inside = around(dut)
    config, beat = dut.config, dut.i.payload
    least = -(1 << config.exponent_width >> 1)
    width = config.accumulator_width
    total = Value.cast(0)
    for b in range(config.blocks):
        lanes = range(b * config.block, (b + 1) * config.block)
        block = sum((beat.weights[lane] * beat.activations[lane] for lane in lanes), Value.cast(0))
        shifted = block
        if config.exponent_width:
            for e in range(least, -least):
                shifted = Mux(beat.exponents[b] == e, block << (e - least), shifted)
        total = total + Mux(beat.on[b], shifted, 0)
    # As many registers as the array has, so that both accumulate in the same cycle.
    line = [transfer(dut.i), transfer(dut.i) & beat.last, beat.first, total]
    for _ in range(dut.latency - 1):
        before, line = line, [Signal(Value.cast(value).shape()) for value in line]
        m.d.sync += [new.eq(old) for new, old in zip(line, before, strict=True)]
    valid, ends, first, total = line
    kept, frame = Signal(signed(width)), Signal(signed(width))
    m.d.comb += [
        frame.eq(Mux(first, 0, kept) + total),
        Assert(inside["accumulator"] == kept),
        Assert(inside["w_en"] == ends),
    ]
    with m.If(valid):
        m.d.comb += Assert(inside["w_data"] == frame.as_unsigned())
        m.d.sync += kept.eq(frame)
    happens(m, ends & ~first & (frame == -(1 << (width - 1))))
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
    old="Mux(first, 0, accumulator)",
    new="accumulator",
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
            "4x2",
            MacArrayConfig(lanes=4, blocks=1, exponent_width=2, **TINY),
            sums,
            9,
            "A sum is that of its frame's products, each block's shifted by its exponent.",
            (CARRIES_ON, COUNTS_ALL, UNSIGNED),
        ),
    ]
)
