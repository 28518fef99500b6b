"""Proofs of the pool of pre-generated numbers, with the contents that it has from reset on."""

from itertools import pairwise

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from seedbed.hw.prng_pool import PrngPool
from seedbed.sim.proofs.bench import around, happens, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import PoolConfig

__all__ = ["PROOFS"]


def windows(dut: PrngPool) -> Module:
    """Keep the position by the definition, and hold every beat to the numbers from there on."""
    m, inside = around(dut, idle=("i_pool",))
    config = dut.config
    size, request = config.size, dut.i.payload
    m.d.comb += [Assume(request.start < size), Assume(request.count <= config.lanes)]
    numbers = Array(Const(number, signed(config.width)) for number in config.contents * 2)
    place = Signal(range(size))
    begin = Mux(request.seek, request.start, place)
    beats = [(dut.o.valid, dut.o.payload)]
    if config.register:
        beats.append((inside["valid"], data.View(dut.o.payload.shape(), inside["beat"])))
    # What was asked of each beat on its way, newest last.
    asked = [
        Signal(data.StructLayout({"begin": range(size), "count": request.count.shape(), "last": 1}))
        for _ in beats
    ]
    moves = ~dut.o.valid | dut.o.ready
    with m.If(moves):
        m.d.sync += [old.eq(new) for old, new in pairwise(asked)]
    with m.If(transfer(dut.i)):
        ends = begin + request.count
        m.d.sync += [
            asked[-1].begin.eq(begin),
            asked[-1].count.eq(request.count),
            asked[-1].last.eq(request.last),
            place.eq(Mux(ends >= size, ends - size, ends)),
        ]
    with m.If(inside["end"] >= size):
        m.d.comb += Assert(place == inside["end"] - size)
    with m.Else():
        m.d.comb += Assert(place == inside["end"])
    m.d.comb += [Assert(place < size), Assert(inside["end"] < size + config.lanes)]
    for (valid, beat), what in zip(beats, asked, strict=True):
        m.d.comb += Assert(what.begin < size)
        with m.If(valid):
            window = Cat(numbers[what.begin + j] for j in range(config.lanes))
            m.d.comb += [
                Assert(Cat(beat.lanes) == window),
                Assert(beat.count == what.count),
                Assert(beat.last == what.last),
            ]
    wraps = transfer(dut.o) & (asked[0].begin > size - config.lanes)
    happens(m, wraps & past(m, transfer(dut.o)))
    return m


def stream(dut: PrngPool) -> Module:
    """Any requests and loads: the stream rules, and a load that holds requests back."""
    m, _ = around(dut)
    stream_rules(m, dut.o)
    with m.If(dut.i_pool.valid):
        m.d.comb += Assert(~dut.i.ready)
    happens(m, dut.i_pool.valid & dut.i.valid & dut.o.valid & dut.o.ready, transfer(dut.i_pool))
    return m


NO_WRAP = Mutant(
    name="the position does not wrap around",
    old="position.eq(Mux(at_least(end, size), rest, end))",
    new="position.eq(end)",
)
MOVES_BY_LANES = Mutant(
    name="the position moves on by all lanes",
    old="end.eq(place + request.count)",
    new="end.eq(place + config.lanes)",
)
RUNS_OVER = Mutant(
    name="moves whether or not the beat is taken",
    old="moves.eq(~self.o.valid | self.o.ready)",
    new="moves.eq(1)",
)
CONFIGS = {
    "5x4": PoolConfig(size=5, width=4, lanes=2, banks=2),
    "5x4_short": PoolConfig(size=5, width=4, lanes=2, banks=2, register=False),
    "11x4": PoolConfig(size=11, width=4, lanes=3, banks=4, register=False),
}

PROOFS = tuple(
    Proof(
        name=f"prng_pool_{harness.__name__}_{size}",
        core="prng_pool",
        says=says,
        component=PrngPool,
        config=config,
        harness=harness,
        depth=2,
        mutants=mutants,
    )
    for size, config in CONFIGS.items()
    for harness, says, mutants in [
        (
            windows,
            "A beat is the n numbers from the place asked, or from where the last one ended.",
            (NO_WRAP, MOVES_BY_LANES),
        ),
        (stream, "A beat waits, unchanged, until it is taken.", (RUNS_OVER,)),
    ]
)
