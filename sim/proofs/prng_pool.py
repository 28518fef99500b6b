"""Proofs of the pool of pre-generated numbers, with the contents that it has from reset on."""

from itertools import pairwise

from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data

from seedbed.hw.generators.prng_pool import PrngPool
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import PoolConfig

__all__ = ["PROOFS"]


def windows(dut: PrngPool) -> Module:
    """Track the position by its definition; check every beat against the numbers from there on."""
    m, inside = free_inputs(dut, idle=("i_pool",))
    config = dut.config
    size, request = config.size, dut.i.payload
    m.d.comb += [Assume(request.start < size), Assume(request.count <= config.lanes)]
    numbers = Array(Const(number, signed(config.width)) for number in config.numbers * 2)
    position = Signal(range(size))
    begin = Mux(request.seek, request.start, position)
    beats = [(dut.o.valid, dut.o.payload)]
    if config.register:
        beats.append((inside["valid"], data.View(dut.o.payload.shape(), inside["beat"])))
    # The request of each beat in flight, newest last.
    requests = [
        Signal(data.StructLayout({"begin": range(size), "count": request.count.shape(), "last": 1}))
        for _ in beats
    ]
    advance = ~dut.o.valid | dut.o.ready
    with m.If(advance):
        m.d.sync += [old.eq(new) for old, new in pairwise(requests)]
    with m.If(transfer(dut.i)):
        ends = begin + request.count
        m.d.sync += [
            requests[-1].begin.eq(begin),
            requests[-1].count.eq(request.count),
            requests[-1].last.eq(request.last),
            position.eq(Mux(ends >= size, ends - size, ends)),
        ]
    with m.If(inside["end"] >= size):
        m.d.comb += Assert(position == inside["end"] - size)
    with m.Else():
        m.d.comb += Assert(position == inside["end"])
    m.d.comb += [Assert(position < size), Assert(inside["end"] < size + config.lanes)]
    for (valid, beat), request_of in zip(beats, requests, strict=True):
        m.d.comb += Assert(request_of.begin < size)
        with m.If(valid):
            window = Cat(numbers[request_of.begin + j] for j in range(config.lanes))
            m.d.comb += [
                Assert(Cat(beat.lanes) == window),
                Assert(beat.count == request_of.count),
                Assert(beat.last == request_of.last),
            ]
    wraps = transfer(dut.o) & (requests[0].begin > size - config.lanes)
    cover(m, wraps & past(m, transfer(dut.o)))
    return m


def stream(dut: PrngPool) -> Module:
    """Any requests and loads: the stream rules; no request is accepted during a load."""
    m, _ = free_inputs(dut)
    stream_rules(m, dut.o)
    with m.If(dut.i_pool.valid):
        m.d.comb += Assert(~dut.i.ready)
    cover(m, dut.i_pool.valid & dut.i.valid & dut.o.valid & dut.o.ready, transfer(dut.i_pool))
    return m


NO_WRAP = Mutant(
    "the position does not wrap around",
    "position.eq(Mux(at_least(end, size), rest, end))",
    "position.eq(end)",
)
INCREMENT_BY_LANES = Mutant(
    "the position is incremented by all lanes",
    "end.eq(start + request.count)",
    "end.eq(start + config.lanes)",
)
RUNS_OVER = Mutant(
    "advances without a transfer", "advance.eq(~self.o.valid | self.o.ready)", "advance.eq(1)"
)
CONFIGS = {
    "5x4": PoolConfig(size=5, width=4, lanes=2, banks=2),
    "5x4_short": PoolConfig(size=5, width=4, lanes=2, banks=2, register=False),
    "11x4": PoolConfig(size=11, width=4, lanes=3, banks=4, register=False),
}

PROOFS = tuple(
    Proof(
        name=f"prng_pool_{harness.__name__}_{size}",
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
            "A beat is the n numbers from the start, or from the last request's end.",
            (NO_WRAP, INCREMENT_BY_LANES),
        ),
        (stream, "A valid beat is stable until its transfer.", (RUNS_OVER,)),
    ]
)
