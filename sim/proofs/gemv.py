"""Proofs of the matrix-vector product: every accepted row has its result; every job ends."""

from amaranth.hdl import Assert, Const, Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.products import mac_array, row_scale
from seedbed.hw.products.gemv_decode import GemvDecode
from seedbed.hw.products.gemv_engine import GemvEngine
from seedbed.hw.weights import trellis_decompress
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import GemvConfig

__all__ = ["PROOFS"]


def _harness(dut: GemvEngine) -> tuple[Module, dict[str, Signal]]:
    """Return the harness, with the invariants of the rows in flight that an induction needs."""
    m, inside = free_inputs(dut)
    limit = dut.latency + 1
    fifo_invariants(m, inside, "mac.fifo", limit + 1)
    m.d.comb += Value.cast(dut.refuse).eq(AnySeq(1))
    # Rows by where they are: before the multipliers, in their pipeline, or in the result FIFO.
    decoded = _decoded(inside, dut.config)
    ends = [inside[f"mac.ends_d{k}"] for k in range(1, mac_array.latency(dut.config.mac))]
    stages = ("loading", "running", "flushing", "aborting", "draining")
    busy = [inside[name] for name in stages]
    idle = ~sum(busy[1:], busy[0]).any()
    in_flight = inside["in_flight"]
    scaled = [inside[f"scale.valid_d{k + 1}"] for k in range(row_scale.latency(dut.config))]
    m.d.comb += [
        Assert(inside["mac.in_flight"] == sum(ends, inside["mac.fifo.level"])),
        Assert(
            in_flight == sum([*scaled, *(v & last for v, last in decoded)], inside["mac.in_flight"])
        ),
        Assert(in_flight <= limit + inside["draining"]),
        Assert(sum(busy[1:], busy[0]) <= 1),
        Assert(inside["fsm_state"] < 7),
        # Before and after a job there is no row in flight, not even a part of one.
        Assert(~(idle | inside["loading"]) | (in_flight == 0)),
        Assert(~(inside["flushing"] | inside["draining"]) | (in_flight != 0)),
    ]
    # Only an unfinished row has a last accepted beat that is not the end of a row.
    opened = (inside["running"] | inside["aborting"]) & (inside["beat"] != 0)
    younger = Const(0)
    for valid, last in decoded:
        m.d.comb += Assert(~valid | last | younger | opened)
        younger = younger | valid
    writes = inside["memory.loading"] | inside["memory.padding"]
    m.d.comb += [
        Assert(~opened | (inside["beat"] <= inside["memory.last_row"])),
        Assert(~(inside["running"] | opened | inside["memory.done"]) | ~writes),
        Assert(~inside["loading"] | (inside["beat"] == 0)),
        Assert(~inside["running"] | ~inside["memory.done"]),
    ]
    if dut.config.decompress:
        m.d.comb += Assert(~(inside["plain"] & inside["decode.decompress.valid"].any()))
    if dut.config.dequantize:
        m.d.comb += [
            Assert(inside["tables"] <= 2 * dut.config.table_beats),
            Assert(~inside["table"] | (inside["beat"] == 0)),
        ]
    if dut.config.trellis:
        fifo_invariants(m, inside, "scale.fifo", limit + 1)
        # Every row before the multiplier has its scale; only the last result of a failed job has
        # none.
        rows = inside["scale.fifo.level"] + sum(scaled, Const(0))
        m.d.comb += Assert((rows == in_flight) | (inside["draining"] & (rows + 1 == in_flight)))
        # The result of a failed job is 0 from the cycle on in which it comes to the output.
        failed = dut.o.valid & (dut.o.payload.status != 0)
        m.d.comb += Assert(~failed | (Value.cast(dut.o.payload.sum) == 0))
    return m, inside


def _decoded(inside: dict[str, Signal], config: GemvConfig) -> list[tuple[Value, Value]]:
    """Return valid and last of each stage before the multipliers, the youngest first."""
    if config.dequantize:
        found = []
        for k in (1, 2):
            abort = inside[f"decode.abort_d{k}"]
            valid = inside[f"decode.dequantize.valid_d{k}"]
            found.append((valid | abort, inside[f"decode.dequantize.last_d{k}"] | abort))
        return found
    held = (inside["decode.held_valid"], inside["decode.held_last"])
    if config.trellis:
        stages = range(1, trellis_decompress.latency(config.trellis) + 1)
        names = [[f"decode.trellis.{name}_d{k}" for name in ("valid", "last")] for k in stages]
        return [held, *((inside[valid], inside[last]) for valid, last in names)]
    if not config.decompress:
        return [held]
    valids, lasts = inside["decode.decompress.valid"], inside["decode.decompress.last"]
    return [held, *zip(valids, lasts, strict=True)]


def room(dut: GemvEngine) -> Module:
    """The multipliers are always ready, and the result FIFO never overflows; stream rules hold."""
    m, inside = _harness(dut)
    stream_rules(m, dut.o)
    valid = inside["decode.valid"]
    m.d.comb += [
        Assert(~valid | inside["mac.i__ready"]),
        Assert(~inside["mac.w_en"] | inside["mac.fifo.w_rdy"]),
    ]
    if dut.config.trellis:
        m.d.comb += [
            Assert(~(inside["fire"] & inside["row_end"]) | transfer(dut.i_scales)),
            Assert(~inside["scale.w_en"] | inside["scale.fifo.w_rdy"]),
        ]
    cover(m, inside["running"] & ~dut.i_weights.ready & transfer(dut.o))
    return m


def jobs(dut: GemvEngine) -> Module:
    """Count each job's results: one per row, the last with ``last``, or an error's."""
    m, inside = _harness(dut)
    result, rows = dut.o.payload, inside["rows"]
    given = Signal(dut.config.row_width + 1)
    requested = Signal.like(given)
    with m.If(inside["accepts"]):
        m.d.sync += [given.eq(0), requested.eq(dut.i.payload.rows)]
    with m.Elif(transfer(dut.o)):
        m.d.sync += given.eq(given + 1)
    in_flight = inside["in_flight"]
    with m.If(inside["running"] | inside["flushing"]):
        m.d.comb += Assert(given + in_flight + rows == requested)
    with m.If(inside["loading"]):
        m.d.comb += [Assert(given == 0), Assert(rows == requested)]
    m.d.comb += [
        Assert(~inside["running"] | (rows != 0)),
        Assert(~inside["loading"] | (rows != 0)),
        Assert(~inside["flushing"] | (rows == 0)),
        Assert(~(inside["aborting"] | inside["draining"]) | (inside["status"] != 0)),
    ]
    ends = transfer(dut.o) & result.last
    with m.If(ends & (result.status == 0)):
        m.d.comb += Assert(given + 1 == requested)
    with m.If(transfer(dut.o) & (result.status != 0)):
        m.d.comb += [Assert(result.last), Assert(result.sum == 0)]
    # After a job, a command is accepted in the next cycle.
    with m.If(past(m, ends)):
        m.d.comb += Assert(dut.i.ready)
    cover(m, ends & (result.status == 0) & (given == 1), ends & (result.status == 3))
    return m


NO_CREDIT = Mutant(
    "rows are accepted without credit",
    "room.eq((job.in_flight != self._limit) & ready)",
    "room.eq(ready)",
)
NO_ENTRY = Mutant(
    "an aborted job has no entry for its last result",
    "results=self._limit + 1",
    "results=self._limit",
)
ANY_END = Mutant(
    "any row may be the last result",
    "job.error_result | (job.flushing & job.last_in_flight)",
    "job.error_result | job.flushing",
)
ROW_NOT_ENDED = Mutant(
    "an error leaves its row without an end",
    "job.fire & (weights.last | row_end) & ~job.table",
    "job.fire & row_end",
)
ONE_SHORT = Mutant(
    "a job ends a row early", "job.row_accepted & (rows == 1)", "job.row_accepted & (rows <= 2)"
)
NO_TABLE = Mutant(
    "codes do not wait for their table",
    "self.ready.eq(Mux(self.table, free, codes.ready))",
    "self.ready.eq(1)",
    part=GemvDecode,
)
NO_SCALE = Mutant(
    "rows do not wait for their scales", "ready & (~row_end | self.i_scales.valid)", "ready"
)
FEWER_SCALES = Mutant(
    "the scale of a row has no entry",
    "RowScale(self.config, self._limit + 1)",
    "RowScale(self.config, self._limit // 2)",
)
TINY = GemvConfig(
    block=2, latent=1, width=3, beat_bits=16, plain_width=8, activation_width=2, columns=4,
    row_width=4,
)  # fmt: skip

TINY_LUT4 = GemvConfig(
    decode="lut4", beat_bits=24, level_width=2, level_load=4, activation_width=2, columns=8,
    row_width=3,
)  # fmt: skip
TINY_TRELLIS = GemvConfig(
    decode="trellis", bits=2, state_bits=4, code=((1, 2), (4, 8)), beat_bits=16, activation_width=2,
    columns=16, row_width=5,
)  # fmt: skip
TINY_PLAIN = GemvConfig(
    decode="plain", beat_bits=16, plain_width=8, activation_width=2, columns=4, row_width=4
)

NOT_ZERO = Mutant(
    "a failed job's result is not cleared after another one", "Mux(scale.o.valid, 2, 1)", "1"
)
#: Mutants that only some decoders have.
MUTANTS = {
    (room, "lut4"): (NO_TABLE,),
    (jobs, "lut4"): (NO_TABLE,),
    (room, "trellis"): (NO_CREDIT, NO_SCALE, FEWER_SCALES),
    (jobs, "trellis"): (ROW_NOT_ENDED, ONE_SHORT, NOT_ZERO),
}
PROOFS = tuple(
    Proof(
        name=f"gemv_{harness.__name__}{'' if config is TINY else '_' + config.decode}",
        says=says,
        component=GemvEngine,
        config=config,
        harness=harness,
        depth=2,
        reach=40,
        mutants=MUTANTS.get((harness, config.decode), mutants),
    )
    for config in (TINY, TINY_LUT4, TINY_TRELLIS, TINY_PLAIN)
    for harness, says, mutants in [
        (
            room,
            "The pipeline never stalls: the multipliers are ready and the result FIFO has room for "
            "every accepted row. A valid result is stable until its transfer.",
            (NO_CREDIT, NO_ENTRY, ANY_END),
        ),
        (
            jobs,
            "A job gives one result per row, the last with `last`, or ends with one error; then "
            "the next is accepted, and no row is in flight.",
            (ROW_NOT_ENDED, ONE_SHORT),
        ),
    ]
)
