"""Proofs of the sparse part: each entry once, in its row; values saturate; every pass ends."""

from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnyConst, AnySeq
from amaranth.lib import wiring

from seedbed.hw.products.sparse_entries import SparseEntries
from seedbed.hw.products.sparse_lane import SHIFTED, UPDATED, SparseLane
from seedbed.hw.products.sparse_mac import SparseMac
from seedbed.hw.products.sparse_rows import SparseRows
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.proofs.forward_cache import at_state
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SPARSE_MAC_STATUS, SparseMacConfig
from seedbed.spec.sparse_mac import GAIN_FRACTION

__all__ = ["PROOFS"]

ORDER, REPEATED, RANGE = map(SPARSE_MAC_STATUS.index, ("order", "repeated", "range"))


def _free(m: Module, *ports: Value) -> None:
    """Drive ports with any values."""
    for port in map(Value.cast, ports):
        m.d.comb += port.eq(AnySeq(len(port)))


def _steady(m: Module, *ports: Value) -> None:
    """Drive ports with any values that never change."""
    for port in map(Value.cast, ports):
        m.d.comb += port.eq(AnyConst(len(port)))


def entries(dut: SparseEntries) -> Module:
    """Compare every entry with the one before, by definition; count those that are given."""
    m, inside = free_inputs(dut)
    _free(m, dut.start, dut.count, dut.run, dut.ce)
    _steady(m, dut.rows, dut.columns)
    given, out = dut.i.payload, dut.o
    # A pass begins before it runs, and what it has is given in `run` alone.
    m.d.comb += [dut.streamed.eq(1), Assume(~(dut.start & dut.run))]
    count, taken, released = Signal(32), Signal(32), Signal(32)
    before_row, before_column = Signal.like(given.row), Signal.like(given.column)
    begun, stopped, ended = Signal(), Signal(3), Signal()
    fire = transfer(dut.i)
    with m.If(dut.start):
        m.d.sync += [count.eq(dut.count), taken.eq(0)]
    with m.Elif(fire):
        m.d.sync += taken.eq(taken + 1)
    is_after = (given.row > before_row) | (
        (given.row == before_row) & (given.column > before_column)
    )
    same = (given.row == before_row) & (given.column == before_column)
    outside = (given.row >= dut.rows) | (given.column >= dut.columns)
    wrong = Signal(3)
    m.d.comb += wrong.eq(Mux(outside, RANGE, Mux(~begun | is_after, 0, Mux(same, REPEATED, ORDER))))
    good = fire & (stopped == 0) & (wrong == 0)
    last = dut.run & dut.ce & (taken == count) & ~inside["ended"]
    with m.If(~dut.run):
        m.d.sync += [begun.eq(0), stopped.eq(0), released.eq(0), ended.eq(0)]
    with m.Elif(fire):
        m.d.sync += [begun.eq(1), before_row.eq(given.row), before_column.eq(given.column)]
        with m.If(stopped == 0):
            m.d.sync += stopped.eq(wrong)
    with m.If(good):
        m.d.sync += released.eq(released + 1)
    m.d.comb += [
        Assert((count - taken)[:32] == ~inside["left"]),
        Assert(taken <= count),
        Assert(stopped == dut.error),
        Assert(begun == inside["begun"]),
        Assert(~begun | ((out.entry.row == before_row) & (out.entry.column == before_column))),
    ]
    # In the cycle after its transfer an entry is given, if it is right, and no other one is.
    run_before = past(m, dut.run)
    ends = (last | (fire & (wrong != 0))) & (stopped == 0)
    good_before, ends_before, entry = past(m, good), past(m, ends), past(m, given)
    out_before, ce_before, fire_before = past(m, out), past(m, dut.ce), past(m, fire)
    with m.If(run_before & ce_before):
        m.d.comb += [
            Assert(out.valid == good_before),
            Assert(out.end == ends_before),
            Assert(~out.valid | (Value.cast(out.entry) == entry)),
        ]
    with m.If(run_before & ~ce_before):
        m.d.comb += [Assert(Value.cast(out) == out_before), Assert(~fire_before)]
    with m.If(~run_before):
        m.d.comb += Assert(~out.valid & ~out.end)
    cover(m, out.end & (dut.error == ORDER), out.end & (dut.error == 0) & (taken == 2))
    return m


def values(dut: SparseLane) -> Module:
    """Compute each product and each updated value by definition.

    The pipeline never stalls here: its state depends on as many cycles as it has stages, which is
    the induction's depth.
    """
    m, _ = free_inputs(dut)
    config = dut.config
    m.d.comb += [dut.ce.eq(1), dut.run.eq(1), Assume(~(dut.i.valid & dut.i.end))]
    _free(m, dut.i, dut.activations, dut.error)
    # Numbers are odd.
    m.d.comb += dut.number.eq(AnySeq(len(dut.number)) | 1)
    _steady(m, dut.update, dut.perturb, dut.negative, dut.scale, dut.shift, dut.gain)
    m.d.comb += Assume(~dut.update | (dut.scale == 0))
    high = (1 << (config.value_width - 1)) - 1

    def clamp(value) -> Value:
        return Mux(value > high, high, Mux(value < ~high, ~high, value))

    def delayed(value, cycles: int) -> Value:
        for _ in range(cycles):
            before = Signal(value.shape())
            m.d.sync += before.eq(value)
            value = before
        return value

    value, number = dut.i.entry.value, dut.number
    scaled = number << dut.scale
    perturbed = clamp(
        value + Mux(dut.perturb, Mux(dut.negative, -scaled, scaled), Const(0, 2).as_signed())
    )
    # The activation comes a cycle after its entry.
    products = delayed(perturbed, 1) * dut.activations[0] << dut.shift
    step = (((dut.gain * number) << dut.shift) + (1 << (GAIN_FRACTION - 1))) >> GAIN_FRACTION
    new = clamp(value - step)
    full = delayed(Const(1), UPDATED)
    product_found = dut.products[0] == delayed(products, SHIFTED - 1)
    new_found = dut.o.entry.value == delayed(new, UPDATED)
    m.d.comb += [
        Assert(~full | dut.update | ~dut.valid | product_found),
        Assert(~full | ~dut.update | ~dut.o.valid | new_found),
    ]
    moved = delayed(value, UPDATED)
    cover(
        m,
        dut.o.valid & dut.update & (dut.o.entry.value == high) & (moved < 0),
        dut.o.valid & dut.update & (dut.o.entry.value == ~high) & (moved > 0),
        dut.valid & ~dut.update & dut.negative & dut.perturb & (dut.products[0] != 0),
    )
    return m


def rows(dut: SparseRows) -> Module:
    """Add the products of one row, which is any, by definition, and look at its result."""
    m, inside = free_inputs(dut)
    _free(m, dut.valid, dut.row, dut.products, dut.ended, dut.error, dut.report, dut.status)
    _free(m, dut.start, dut.run, dut.drain)
    _steady(m, dut.rows)
    stream_rules(m, dut.o)
    watched = Signal.like(dut.row)
    m.d.comb += watched.eq(AnyConst(len(watched)))
    next_row, given = inside["next_row"], inside["row_given"]
    # Products come in ascending order of their rows, all of them of the matrix, and none at the
    # end. A matrix has one start and one run, which ends with its last row.
    newest, some, fresh = Signal.like(dut.row), Signal(), Signal()
    run_before, last_before = past(m, dut.run), past(m, given & dut.last_row)
    waits, product = past(m, dut.valid & ~dut.taken), past(m, Cat(dut.row, dut.products))
    m.d.comb += [
        Assume(~dut.valid | (dut.run & ~dut.ended & (dut.row < dut.rows))),
        Assume(~(dut.valid & some) | (dut.row >= newest)),
        Assume(~(waits & dut.run) | (dut.valid & (Cat(dut.row, dut.products) == product))),
        Assume(~past(m, dut.run & dut.ended) | dut.ended | ~dut.run),
        Assume(~(dut.start & dut.run) & (~dut.run | fresh)),
        Assume(~last_before | ~dut.run),
        Assume(dut.rows != 0),
        # The states of the pass are one at a time.
        Assume(~(dut.report & (dut.run | dut.drain)) & ~(dut.drain & dut.run)),
    ]
    with m.If(dut.start):
        m.d.sync += [fresh.eq(1), some.eq(0)]
    with m.Elif(run_before & ~dut.run):
        m.d.sync += [fresh.eq(0), some.eq(0)]
    with m.Elif(dut.valid):
        m.d.sync += [some.eq(1), newest.eq(dut.row)]
    total = Signal.like(dut.o.payload.sum)
    with m.If(~dut.run):
        m.d.sync += total.eq(0)
    with m.Elif(dut.taken & (dut.row == watched)):
        m.d.sync += total.eq(total + dut.products[0])
    m.d.comb += [
        # A row is passed over only if a product of a later one is there, or none comes any more.
        Assert(~dut.run | (next_row < dut.rows)),
        Assert(~fresh | run_before | (next_row == 0)),
        Assert(~dut.run | dut.ended | Mux(some, next_row <= newest, next_row == 0)),
        Assert(~dut.valid | (dut.row >= next_row)),
        Assert(~(given & (next_row == watched)) | dut.ended | (dut.valid & (dut.row > watched))),
        # A product is added in its row.
        Assert(~dut.taken | (dut.valid & (dut.row == next_row))),
        Assert(~(dut.run & (next_row < watched)) | (total == 0)),
        Assert(~(dut.run & (next_row == watched)) | (inside["totals"].as_signed() == total)),
    ]
    expected = (dut.i.payload.sum + total)[: len(dut.o.payload.sum)]
    given_before, expected = past(m, given & (next_row == watched)), past(m, expected)
    none_before = past(m, dut.free & ~given & ~dut.report)
    m.d.comb += [
        Assert(~given_before | (dut.o.valid & (dut.o.payload.status == 0))),
        Assert(~given_before | (dut.o.payload.sum.as_unsigned() == expected)),
        Assert(~none_before | ~dut.o.valid),
    ]
    cover(
        m,
        given & (next_row == watched) & (total > dut.products[0]) & (watched == 2),
        given & (next_row == watched) & (total == 0) & (watched == 1) & ~dut.ended,
    )
    return m


def passes(dut: SparseMac) -> Module:
    """Look at every result: sums, one per row, or one of an error; then a command is accepted."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    stream_rules(m, dut.o_entries)
    state, command = inside["fsm_state"], inside["command"]
    out = dut.o.payload
    product = inside["product"]
    next_row = inside["rows.next_row"]
    row_count = dut.i.payload.shape()(command).rows
    idle = at_state(state, "IDLE", "DISCARD")
    m.d.comb += [
        Assert(state < 7),
        # A last result is the last one, and a result that is not the last is a row's.
        Assert(~(dut.o.valid & out.last) | at_state(state, "WAIT")),
        Assert(~(dut.o.valid & ~out.last) | (product & ~idle & ~at_state(state, "WAIT", "LOAD"))),
        Assert(~at_state(state, "WAIT") | (dut.o.valid & out.last)),
        Assert((out.status == 0) | ~dut.o.valid | ((out.sum == 0) & out.last)),
        Assert(~(dut.o.valid & out.last & product & (out.status == 0)) | (next_row == row_count)),
        Assert(~dut.o_entries.valid | at_state(state, "RUN")),
        Assert(~(transfer(dut.i_entries) | transfer(dut.i_vector)) | ~at_state(state, "IDLE")),
        Assert(~transfer(dut.i_sums) | (product & at_state(state, "RUN", "DRAIN"))),
        Assert(~dut.i.ready | idle | dut.i.payload.clear),
    ]
    # An error that is not reported yet is known.
    report = at_state(state, "DRAIN") | (at_state(state, "REPORT") & product)
    m.d.comb += Assert(~report | (inside["status"] != 0))
    done = transfer(dut.o) & out.last
    with m.If(past(m, done)):
        m.d.comb += Assert(idle)
    cover(m, done & product & (out.status == 0), done & (out.status == 1))
    return m


TWICE = Mutant(
    "an entry of a stalled pipeline is taken twice",
    "with m.If(self.start | (self.ce & issue)):",
    "with m.If(self.start | (self.ce & issue & ~left[1:].all())):",
)
EQUAL_PASSES = Mutant(
    "a repeated entry is in order",
    "with m.Elif(begun & (entry.row == before.row) & (entry.column == before.column)):",
    "with m.Elif(0):",
)
ANY_ORDER = Mutant(
    "columns need not be sorted",
    "after.eq(Cat(entry.column, entry.row) >= Cat(before.column, before.row))",
    "after.eq(entry.row >= before.row)",
)
ONE_MORE_ROW = Mutant(
    "a row after the last is in the matrix", "entry.row >= self.rows", "entry.row > self.rows"
)
WRAPS = Mutant(
    "new values wrap around",
    'clamped, _ = saturate(m, less, Fixed(config.value_width, 0), "new_value")',
    "clamped = less[: config.value_width].as_signed()",
)
WRAPS_PERTURBED = Mutant(
    "perturbed values wrap around",
    'clamped, _ = saturate(m, moved, form, f"perturbed_{vector}")',
    "clamped = moved[: form.width].as_signed()",
)
NO_CARRY = Mutant(
    "a perturbation is subtracted in one's complement",
    "carry = negative & perturb",
    "carry = Const(0)",
)
TRUNCATES = Mutant("a step is not rounded", "Cat(~half, ~step)", "Cat(1, ~step)")
ANY_ROW = Mutant(
    "a product is added to the next row",
    "self.taken.eq(self.valid & (self.row == row))",
    "self.taken.eq(self.valid)",
)
NO_WAIT = Mutant(
    "a row does not wait for its products",
    "self.run & ((self.valid & ~self.taken) | (self.ended & ~self.error)) & self.free",
    "self.run & ~self.taken & self.free",
)
KEPT = Mutant(
    "a sum stays for a row more", "with m.If(row_given | ~self.run):", "with m.If(~self.run):"
)
LOST_CLEAR = Mutant(
    "a clear in the cycle of a row is lost",
    "with m.Elif(job.clear):\n"
    '                    m.d.sync += job.status.eq(_STATUS["cleared"])\n'
    '                    m.next = "DRAIN"\n                with m.Elif(job.product',
    'with m.Elif(job.clear):\n                    m.next = "DRAIN"\n'
    "                with m.Elif(job.product",
)
NO_END = Mutant(
    "a product does not end with its last row",
    "with m.Elif(rows.fire & rows.last_row):",
    "with m.Elif(0):",
)
NO_REPORT = Mutant(
    "an error of the shape is forgotten",
    'job.status.eq(Mux(shape_error, _STATUS["shape"], 0))',
    "job.status.eq(0)",
)

TINY = SparseMacConfig(
    entries=2, columns=2, group=1, row_width=2, value_width=3, activation_width=3, most_shift=15,
    sum_width=24, number_width=2,
)  # fmt: skip
STREAMED = SparseMacConfig(
    entries=0, columns=4, group=1, row_width=2, value_width=3, activation_width=2, most_shift=0,
    sum_width=8, number_width=2,
)  # fmt: skip


def _proof(
    harness, component: type[wiring.Component], config: SparseMacConfig, says: str, depth: int,
    reach: int, mutants: tuple[Mutant, ...],
) -> Proof:  # fmt: skip
    return Proof(
        name=f"sparse_mac_{harness.__name__}", says=says, component=component,
        config=config, harness=harness, depth=depth, reach=reach, mutants=mutants,
    )  # fmt: skip


PROOFS = (
    _proof(
        entries, SparseEntries, STREAMED,
        "Each entry that is right is given once, with whether it begins a row, and after the last "
        "one an end; one that is not sorted, repeated or out of range ends them.",
        2, 12, (TWICE, EQUAL_PASSES, ANY_ORDER, ONE_MORE_ROW),
    ),
    _proof(
        values, SparseLane, TINY,
        "A product is that of the perturbed and saturated value, and an update is rounded and "
        "saturates.",
        UPDATED + 2, UPDATED + 4, (WRAPS, WRAPS_PERTURBED, NO_CARRY, TRUNCATES),
    ),
    _proof(
        rows, SparseRows, STREAMED,
        "A product is added to the sum of its row, once, and no row is given before its products; "
        "a valid result is stable until its transfer.",
        2, 14, (ANY_ROW, NO_WAIT, KEPT),
    ),
    _proof(
        passes, SparseMac, TINY,
        "A product gives a result for each row, the last with `last`, or ends with one error of "
        "sum 0; other commands give one result; then the next is accepted. Valid results and "
        "entries are stable until their transfer.",
        2, 60, (NO_END, NO_REPORT, LOST_CLEAR),
    ),
)  # fmt: skip
