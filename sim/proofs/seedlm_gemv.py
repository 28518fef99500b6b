"""Proofs of the matrix-vector product: what is let in comes out, and every job comes to its end."""

from amaranth.hdl import Assert, Const, Module, Signal

from seedbed.hw.seedlm_gemv import SeedlmGemv
from seedbed.sim.proofs.bench import around, happens, past, stream_rules, transfer
from seedbed.sim.proofs.mac_array import queue
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SeedlmGemvConfig

__all__ = ["PROOFS"]


def _around(dut: SeedlmGemv) -> tuple[Module, dict[str, Signal]]:
    """Return the harness, with what an induction has to know of the engine's rows."""
    m, inside = around(dut)
    limit = dut.latency + 1
    queue(m, inside, "mac.fifo", limit + 1)
    # Rows by where they are: on the way to the multipliers, in their pipeline, or waiting as sums.
    line = inside["decompress.valid"] & inside["decompress.last"]
    held = inside["held_valid"] & inside["held"][-1]
    ends = [inside[f"mac.ends_d{k}"] for k in range(1, dut.plain_latency - 1)]
    stages = ("loading", "running", "flushing", "breaks", "fails")
    busy = [inside[name] for name in stages]
    waits = ~sum(busy[1:], busy[0]).any()
    flying = inside["flying"]
    m.d.comb += [
        Assert(inside["mac.frames"] == sum(ends, inside["mac.fifo.level"])),
        Assert(flying == sum(line, inside["mac.frames"]) + held),
        Assert(flying <= limit + inside["fails"]),
        Assert(sum(busy[1:], busy[0]) <= 1),
        Assert(inside["fsm_state"] < 7),
        # A job that has not begun or has ended leaves no row, not even a part of one, behind.
        Assert(~(waits | inside["loading"]) | (flying == 0)),
        Assert(~(inside["flushing"] | inside["fails"]) | (flying != 0)),
    ]
    # Behind the last beat that was let in comes no end of a row only while its row is open.
    opened = (inside["running"] | inside["breaks"]) & (inside["beat"] != 0)
    younger = Const(0)
    for valid, last in [
        (inside["held_valid"], inside["held"][-1]),
        *zip(inside["decompress.valid"], inside["decompress.last"], strict=True),
    ]:
        m.d.comb += Assert(~valid | last | younger | opened)
        younger = younger | valid
    writes = inside["memory.loading"] | inside["memory.padding"]
    m.d.comb += [
        Assert(~opened | (inside["beat"] <= inside["memory.last_row"])),
        Assert(~(inside["running"] | opened | inside["memory.done"]) | ~writes),
        Assert(~inside["loading"] | (inside["beat"] == 0)),
        Assert(~inside["running"] | ~inside["memory.done"]),
    ]
    m.d.comb += Assert(~(inside["plain"] & inside["decompress.valid"].any()))
    return m, inside


def room(dut: SeedlmGemv) -> Module:
    """Every beat finds the multipliers ready, and every sum a place; results keep the rules."""
    m, inside = _around(dut)
    stream_rules(m, dut.o)
    m.d.comb += [
        Assert(~inside["valid"] | inside["mac.i__ready"]),
        Assert(~inside["mac.w_en"] | inside["mac.fifo.w_rdy"]),
    ]
    happens(m, inside["running"] & ~dut.i_weights.ready & transfer(dut.o))
    return m


def jobs(dut: SeedlmGemv) -> Module:
    """Count each job's results: as many as rows, and then the last, or a fault's."""
    m, inside = _around(dut)
    result, rows = dut.o.payload, inside["rows"]
    given = Signal(dut.config.row_width + 1)
    asked = Signal.like(given)
    with m.If(inside["accepts"]):
        m.d.sync += [given.eq(0), asked.eq(dut.i.payload.rows)]
    with m.Elif(transfer(dut.o)):
        m.d.sync += given.eq(given + 1)
    flying = inside["flying"]
    with m.If(inside["running"] | inside["flushing"]):
        m.d.comb += Assert(given + flying + rows == asked)
    with m.If(inside["loading"]):
        m.d.comb += [Assert(given == 0), Assert(rows == asked)]
    m.d.comb += [
        Assert(~inside["running"] | (rows != 0)),
        Assert(~inside["loading"] | (rows != 0)),
        Assert(~inside["flushing"] | (rows == 0)),
        Assert(~(inside["breaks"] | inside["fails"]) | (inside["status"] != 0)),
    ]
    ends = transfer(dut.o) & result.last
    with m.If(ends & (result.status == 0)):
        m.d.comb += Assert(given + 1 == asked)
    with m.If(transfer(dut.o) & (result.status != 0)):
        m.d.comb += [Assert(result.last), Assert(result.sum == 0)]
    # Once it is over, the next cycle takes a command.
    with m.If(past(m, ends)):
        m.d.comb += Assert(dut.i.ready)
    happens(m, ends & (result.status == 0) & (given == 1), ends & (result.status == 3))
    return m


NO_CREDIT = Mutant(
    name="rows are let in without a place",
    old="dropping | (running & (flying != self._limit))",
    new="dropping | running",
)
NO_PLACE = Mutant(
    name="a job that is broken off has no place for its last result",
    old="results=self._limit + 1",
    new="results=self._limit",
)
ANY_END = Mutant(
    name="any row may be the last result",
    old="self.o.payload.last.eq(faulty | (flushing & final))",
    new="self.o.payload.last.eq(faulty | flushing)",
)
LEFT_BEHIND = Mutant(
    name="a fault leaves its row without an end",
    old="enters.eq(breaks | (moved & (weights.last | ends)))",
    new="enters.eq(breaks | (moved & ends))",
)
ONE_SHORT = Mutant(
    name="a job ends a row early",
    old="with m.If(enters & (rows == 1)):",
    new="with m.If(enters & (rows <= 2)):",
)
TINY = SeedlmGemvConfig(
    block=2, latent=1, width=3, beat_bits=16, plain_width=8, activation_width=2, columns=4,
    row_width=4,
)  # fmt: skip

PROOFS = tuple(
    Proof(
        name=f"seedlm_gemv_{harness.__name__}",
        core="seedlm_gemv",
        says=says,
        component=SeedlmGemv,
        config=TINY,
        harness=harness,
        depth=2,
        reach=32,
        mutants=mutants,
    )
    for harness, says, mutants in [
        (
            room,
            "No beat stalls behind the input: multipliers and results have room for all that is "
            "let in. A result waits, unchanged, until it is taken.",
            (NO_CREDIT, NO_PLACE, ANY_END),
        ),
        (
            jobs,
            "A job gives a result a row, the last with `last`, or ends with one fault; then the "
            "next is taken, and no row is left behind.",
            (LEFT_BEHIND, ONE_SHORT),
        ),
    ]
)
