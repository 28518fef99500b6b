"""Proofs of the vector unit: places of results, rounding and saturation, sums and leading ones."""

from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.hdl._ast import AnySeq
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from seedbed.hw.vectors.vector_layouts import OPERATION_CODES, control_layout
from seedbed.hw.vectors.vector_pipeline import RESULTS
from seedbed.hw.vectors.vector_rounding import VectorRounding
from seedbed.hw.vectors.vector_statistics import WIDTH, VectorStatistics
from seedbed.hw.vectors.vector_unit import DEPTH, VectorUnit
from seedbed.sim.proofs.bench import cover, free_inputs, past, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import VectorUnitConfig

__all__ = ["PROOFS"]


def _free(component: wiring.Component) -> tuple[Module, dict[str, Signal]]:
    """Return a harness of a component whose ports are no streams, with free inputs."""
    m, inside = free_inputs(component)
    for name, member in component.signature.members.items():
        if member.flow is In:
            value = Value.cast(getattr(component, name))
            m.d.comb += value.eq(AnySeq(len(value)))
    return m, inside


def places(dut: VectorUnit) -> Module:
    """Count the results in the pipeline and in the queue, with any commands and stalls."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    layout = control_layout(dut.config)
    first = layout(inside["control"])
    results = [inside["valid"] & first.output]
    for k in range(1, RESULTS + 1):
        control = layout(inside[f"pipeline.control_d{k}"])
        results.append(inside[f"pipeline.valid_d{k}"] & control.output)
    level, popped, first_valid, second_valid = (
        inside[f"queue.{name}_0"] for name in ("level", "popped", "first_valid", "second_valid")
    )
    read, after = inside["queue.read_pointer_0"], inside["queue.next_read_0"]
    m.d.comb += [
        Assert(inside["outstanding"] == sum(results, Const(0)) + level - popped),
        Assert(inside["outstanding"] <= DEPTH),
        Assert(~popped | (level >= 1)),
        Assert(~first_valid | (level >= 1)),
        Assert(~second_valid | (level >= 2)),
        Assert(level <= DEPTH),
        Assert(after == (read + 1)[: len(after)]),
    ]
    # No beat is taken while statistics that it uses or replaces are incomplete, and every beat has
    # all that it needs.
    taken = [transfer(port) for port in (dut.i, dut.i_factors, dut.i_addends)]

    def is_(name):
        return dut.i_commands.payload.operation == OPERATION_CODES[name]

    m.d.comb += [
        Assert(~inside["summing"] | ~taken[0] | is_("score")),
        Assert(~inside["comparing"] | ~taken[0] | ~(is_("score") | is_("power"))),
        Assert(taken[0] | ~(taken[1] | taken[2])),
        Assert(~taken[0] | dut.i_commands.valid),
    ]
    cover(m, transfer(dut.o) & dut.o.payload.last, inside["waits"], inside["outstanding"] == 12)
    cover(m, taken[0] & inside["summing"], taken[0] & inside["comparing"])
    return m


def results(dut: VectorRounding) -> Module:
    """Compare a result with its definition: stage by stage, from the numbers before it."""
    m, inside = _free(dut)
    config = dut.config
    coarse, sign, beyond, kept, half, overflow, total, negative = (
        inside[name]
        for name in (
            "coarse", "sign", "beyond", "kept", "half", "overflow", "sum", "negative",
        )
    )  # fmt: skip
    ready = past(m, Const(1))
    # Twice the sum of products, for the bit that rounds; shifted coarsely.
    number = past(m, Cat(Const(0, 1), dut.total)).as_signed()
    shifted = Signal(signed(len(number)))
    with m.Switch(past(m, dut.shift[4:])):
        for n in range(4):
            with m.Case(n):
                m.d.comb += shifted.eq(number >> 16 * n)
    fits = shifted == Cat(coarse, sign).as_signed()
    # Then finely.
    fine = past(m, Cat(coarse, sign)).as_signed() >> past(m, inside["fine_d1"])
    in_range = fine == Cat(half, kept).as_signed()
    subtract, rounded = past(m, dut.subtract), past(m, kept).as_signed() + past(m, half)
    before, over, under = (
        past(m, total).as_signed(),
        past(m, inside["overflow_d1"]),
        past(m, negative),
    )
    wide, angle, outside = past(m, dut.wide), past(m, dut.angle), past(m, dut.outside)
    wanted = Signal(dut.value.shape())
    for is_wide, form in {1: config.residual, 0: config.vector}.items():
        low = Mux(over, under, before < form.low)
        high = Mux(over, ~under, before > form.high)
        with m.If(wide == is_wide):
            m.d.comb += wanted.eq(Mux(low, form.low, Mux(high, form.high, before)))
    with m.If(angle):
        m.d.comb += wanted.eq(before[: config.sine_angle_bits])
    with m.If(outside):
        m.d.comb += wanted.eq(0)
    addend, overflowed, signed_before = (
        past(m, dut.addend),
        past(m, overflow),
        past(m, inside["sign_d1"]),
    )
    was_beyond, was_negative = past(m, beyond), past(m, sign)
    with m.If(ready):
        m.d.comb += [
            Assert(sign == number[-1]),
            Assert(beyond == ~fits),
            Assert(overflow == (was_beyond | ~in_range)),
            Assert(inside["sign_d1"] == was_negative),
            Assert(total == addend.as_signed() + Mux(subtract, -rounded, rounded)),
            Assert(inside["overflow_d1"] == overflowed),
            Assert(negative == (signed_before ^ subtract)),
            Assert(dut.value == wanted),
        ]
    cover(m, ready & over & (dut.value > 0), ready & angle & (wanted != 0))
    cover(m, ready & ~over & (dut.value == config.vector.low))
    return m


def sums(dut: VectorStatistics) -> Module:
    """Add the same numbers, compare the same results, and shift the sum by definition.

    A vector begins when the one before is complete, and its beats end with one of ``last``.
    """
    m, inside = _free(dut)
    total, place, shifting, arrived = (
        inside[name] for name in ("total", "place", "shifting", "arrived")
    )
    opened, kept = Signal(), Signal(WIDTH)
    begun = Signal.like(place)
    to_mean = Signal()
    added = dut.add_products | dut.add_values
    last = (dut.add_products & dut.products_last) | (dut.add_values & dut.values_last)
    closing = inside["summed_d1"] | inside["summed_d2"]
    m.d.comb += [
        Assume(~(dut.add_products & dut.add_values)),
        Assume(opened | ~added),
        Assume(~dut.start_sum | ~(opened | closing | shifting)),
        Assume(~dut.start_peak | ~past(m, dut.compare)),
        # The first elements of a beat are within the length.
        Assume(~dut.outside[0]),
        Assert(~opened | ~(closing | shifting)),
        Assert(inside["summed_d1"] + inside["summed_d2"] + shifting <= 1),
    ]
    bits = dut.config.table_fraction + 1
    by_products, by_values = past(m, dut.add_products), past(m, dut.add_values)
    products = past(m, dut.products[0] + dut.products[1])
    values = past(m, dut.values[0].as_unsigned()[:bits] + dut.values[1].as_unsigned()[:bits])
    with m.If(dut.start_sum):
        m.d.sync += [
            opened.eq(1),
            kept.eq(dut.constant),
            to_mean.eq(dut.mean),
            begun.eq(Mux(dut.mean, 38 - dut.shift, WIDTH - 1)),
        ]
    with m.Elif(by_products):
        m.d.sync += kept.eq(kept + products)
    with m.Elif(by_values):
        m.d.sync += kept.eq(kept + values)
    with m.If(last):
        m.d.sync += opened.eq(0)
    m.d.comb += [
        Assert(by_products == inside["by_products_d1"]),
        Assert(by_values == inside["by_values_d1"]),
        Assert(past(m, last) == inside["summed_d1"]),
        Assert(~(inside["by_products_d1"] | inside["by_values_d1"]) | opened | closing),
        Assert(inside["to_mean"] == to_mean),
        Assert(place <= begun),
        Assert(shifting | ~(opened | closing) | (place == begun)),
        Assert(shifting | ~(opened | closing) | (total == kept)),
        Assert(~(shifting & arrived) | to_mean | total[-1] | (place == 0)),
    ]
    moved, before_place = past(m, shifting & ~arrived), past(m, place)
    before_total, steps = past(m, total), before_place - place
    with m.If(moved):
        m.d.comb += [
            Assert((steps == 1) | (steps == 8)),
            Assert(total == Mux(steps == 1, before_total << 1, before_total << 8)[:WIDTH]),
            # No bit of a sum is shifted out above the leading one.
            Assert(to_mean | ~before_total[-1]),
            Assert(to_mean | (steps == 1) | ~before_total[-8:].any()),
        ]
    greatest = Signal.like(dut.greatest)
    outside, compared = past(m, dut.outside), past(m, dut.compare)
    before = [past(m, value).as_signed() for value in dut.values]
    with m.If(dut.start_peak):
        m.d.sync += greatest.eq(dut.config.residual.low)
    with m.Elif(compared):
        best: Value = greatest
        for k, value in enumerate(before):
            best = Mux(~outside[k] & (value > best), value, best)
        m.d.sync += greatest.eq(best)
    m.d.comb += [
        Assert(compared == inside["compare_d1"]),
        Assert(dut.greatest == greatest),
    ]
    cover(m, shifting & arrived & (place == 46) & ~to_mean, shifting & arrived & to_mean)
    return m


TINY = VectorUnitConfig(lanes=2, width=8)

PROOFS = (
    Proof(
        name="vector_unit_places",
        says="A result has a place in the queue, with any commands and stalls; no beat is taken "
        "while statistics that it uses or replaces are incomplete; a valid beat is stable until "
        "its transfer.",
        component=VectorUnit,
        config=TINY,
        harness=places,
        depth=1,
        reach=18,
        mutants=(
            Mutant(
                "a place is free before its result is taken",
                "popped.eq(valid & self.o.ready)",
                "popped.eq(valid)",
            ),
            Mutant(
                "a command does not wait for statistics",
                "ready = command.valid & known & ~waits & (outstanding != DEPTH)",
                "ready = command.valid & known & (outstanding != DEPTH)",
            ),
            Mutant(
                "shares do not wait for the greatest score",
                'comparing & (is_["score"] | is_["power"])',
                'comparing & is_["score"]',
            ),
            Mutant(
                "a sum has a place in the queue",
                'out = fire & ~(is_["sum"] | is_["square"])',
                'out = fire & ~is_["square"]',
            ),
            Mutant(
                "factors are taken without their elements",
                "others = [p.valid | ~Value.cast(n) for p, n in reads.items() if p is not port]",
                "others = [Value.cast(1), Value.cast(1)]",
            ),
        ),
    ),
    Proof(
        name="vector_unit_results",
        says="A sum of products is shifted, rounded, added to the addend or subtracted from it, "
        "and saturated, as each stage is defined.",
        component=VectorRounding,
        config=TINY,
        harness=results,
        depth=2,
        reach=6,
        mutants=(
            Mutant("truncated", "half ^ self.subtract)", "self.subtract)"),
            Mutant("an overflow is not seen", "beyond | (above & reach).any()", "beyond"),
            Mutant("a narrow result is a wide one", "(sign ^ self.wide)", "(~sign)"),
            Mutant("a result that is negative saturates high", "sign ^ self.subtract", "sign"),
        ),
    ),
    Proof(
        name="vector_unit_sums",
        says="A sum has every number of its vector once; it is shifted to its leading one or to "
        "its mean, and no bit is lost; the greatest result is the greatest.",
        component=VectorStatistics,
        config=TINY,
        harness=sums,
        depth=2,
        reach=12,
        mutants=(
            Mutant(
                "a sum begins where the last one ended",
                "total.eq(self.constant)",
                "total.eq(total)",
            ),
            Mutant("a leading one is shifted out", "~total[-8:].any()", "~total[-7:].any()"),
            Mutant(
                "elements beyond the length are compared",
                "~outside[2 * k + 1] & (b > a)",
                "(b > a)",
            ),
            Mutant(
                "comparison without a sign",
                "(b > a)",
                "(b.as_unsigned() > a.as_unsigned())",
            ),
        ),
    ),
)
