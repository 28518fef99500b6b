"""Proofs of 4-bit NormalFloat: peaks, codes and numbers, each straight from its definition."""

from amaranth.hdl import Assert, Module, Mux, Signal, Value

from seedbed.hw.nf4 import Nf4Dequantise
from seedbed.hw.nf4_quantise import Nf4Quantise
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import Nf4Config
from seedbed.spec.fixed import Fixed

__all__ = ["PROOFS"]


def _line(m: Module, step, value, steps: int) -> list[Signal]:
    """Return ``value`` as it was one step before, two, and so on."""
    line = []
    for _ in range(steps):
        value = Value.cast(value)
        before = Signal(value.shape())
        with m.If(step):
            m.d.sync += before.eq(value)
        line.append(before)
        value = before
    return line


def peaks(dut: Nf4Quantise) -> Module:
    """Keep the greatest magnitude of each block, in units of a peak, from the definition."""
    m, inside = free_inputs(dut)
    config, beat = dut.config, dut.i.payload
    unit, most = 1 << config.shift, (1 << config.peak_width) - 1
    largest = Value.cast(0)
    for value in beat.values:
        size = (Mux(value < 0, -value, value).as_unsigned() + unit - 1) >> config.shift
        largest = Mux(size > largest, size, largest)
    # As many registers as the tree has stages, and one with what has come of the block.
    moved, ends = transfer(dut.i), Signal()
    begins, last = Signal(init=1), config.block // config.lanes - 1
    m.d.comb += [
        ends.eq(beat.last | (inside["beat"] == last)),
        Assert(begins == (inside["beat"] == 0)),
        Assert(inside["beat"] <= last),
    ]
    with m.If(moved):
        m.d.sync += begins.eq(ends)
    line = [moved, moved & ends, begins, largest]
    valid, closes, first, size = ([v, *_line(m, 1, v, dut.stages)][-1] for v in line)
    kept = Signal(size.shape())
    with m.If(valid):
        m.d.sync += kept.eq(Mux(~first & (kept > size), kept, size))
    key, written = inside["greatest"], inside["block"][: config.peak_width]
    done = _line(m, 1, closes, 1)[0]
    m.d.comb += [
        Assert(inside["done"] == done),
        Assert(key[1:] + key[0] == kept),
        Assert(written == Mux(kept > most, most, kept)),
    ]
    cover(m, done & (kept > most), done & (kept == 1))
    return m


def codes(dut: Nf4Quantise) -> Module:
    """Count the limits that each number exceeds, from the row and the peak that are at hand."""
    m, inside = free_inputs(dut)
    config, per, step = dut.config, dut.config.thresholds, inside["step"]
    stream_rules(m, dut.o)
    fifo_invariants(m, inside, "blocks", dut.rows)
    rows, ready = inside["rows.inner_level"], inside["rows.r_rdy"]
    # A block is one row: each that has come in and has not been compared is at one of these places.
    coming = [inside[f"ends_{k}"] for k in range(dut.stages)] + [inside["done"]]
    going = [inside[f"final_at_{k}"] for k in range(1, 4)]
    m.d.comb += [
        Assert(rows + ready == sum([*coming, *going], inside["blocks.level"])),
        Assert(ready | (rows == coming[0])),
        Assert(rows < dut.rows),
        Assert(inside["beat"] == 0),
        Assert(ready | ~inside["final_at_3"]),
        Assert(inside["blocks.w_rdy"] | ~inside["done"]),
    ]
    # What is at each of the five stages: whether anything, which group of limits, of which row.
    there = [inside["blocks.r_rdy"], *_line(m, step, inside["blocks.r_rdy"], 5)]
    group = [inside["group"], *_line(m, step, inside["group"], 5)]
    row = [None, None, None, inside["rows.r_data"], *_line(m, step, inside["rows.r_data"], 2)]
    first_peak = inside["blocks.r_data"][: config.peak_width]
    peak = [first_peak, *(inside[f"peak_at_{k}"] for k in range(1, 6))]
    final = [there[k] & (group[k] == dut.interval - 1) for k in range(6)]
    m.d.comb += Assert(Mux(there[0], group[0] < dut.interval, group[0] == 0))
    for k in range(1, 6):
        # The groups of a row follow each other, with the peak and the row in their places.
        goes_on = there[k] & ~final[k]
        follows = (group[k - 1] == group[k] + 1) & (peak[k - 1] == peak[k])
        if k > 3:
            follows &= row[k - 1] == row[k]
        m.d.comb += [
            Assert(inside[f"final_at_{k}"] == final[k]),
            Assert(goes_on == (there[k - 1] & (group[k - 1] != 0))),
            Assert(~goes_on | follows),
        ]
        if k < 5:
            m.d.comb += Assert(~there[k] | (inside[f"first_at_{k}"] == (group[k] == 0)))
    cut = config.level_fraction + 1 - config.shift

    def limit(k: int, c: int) -> Value:
        return (peak[k] * config.middles[c]) >> cut

    values = dut.i.payload.values.shape()
    for g in range(dut.interval):
        here = [there[k] & (group[k] == g) for k in range(6)]
        for t, c in enumerate(range(g * per, (g + 1) * per)):
            m.d.comb += [
                Assert(~here[1] | (inside[f"middle_{t}"] == config.middles[c])),
                Assert(~here[2] | (inside[f"limit_{t}"] == limit(2, c))),
                Assert(~here[3] | (inside[f"limit_{t}_copy_0"] == limit(3, c))),
            ]
            for lane, value in enumerate(values(row[4])):
                more = inside[f"exceeds_{lane}"][t]
                m.d.comb += Assert(~here[4] | (more == (value > limit(4, c))))
        for value, code in zip(values(row[5]), dut.o.payload.codes, strict=True):
            found = [value > limit(5, c) for c in range((g + 1) * per)]
            m.d.comb += Assert(~here[5] | (code == sum(found[1:], found[0])))
    cover(m, transfer(dut.o) & (dut.o.payload.codes[0] == 15), ~dut.i.ready)
    return m


def numbers(dut: Nf4Dequantise) -> Module:
    """Form each number straight from the definition, and send it after."""
    m, inside = free_inputs(dut)
    config, step = dut.config, inside["step"]
    stream_rules(m, dut.o)
    valid = [dut.i.valid, *_line(m, step, dut.i.valid, 3)]
    last = [dut.i.payload.last, *_line(m, step, dut.i.payload.last, 3)]
    peak = [dut.i.payload.peak, *_line(m, step, dut.i.payload.peak, 3)]
    m.d.comb += [Assert(inside[f"valid_{k}"] == valid[k]) for k in range(1, 4)]
    m.d.comb += [Assert(inside[f"last_{k}"] == last[k]) for k in range(1, 4)]
    m.d.comb += Assert(inside["peak"] == peak[1])
    for lane, given in enumerate(dut.i.payload.codes):
        code = [given, *_line(m, step, given, 3)]
        for c, level in enumerate(config.levels):
            here = [valid[k] & (code[k] == c) for k in range(4)]
            whole = (peak[3] * level) << (config.shift + 1)
            half_up = (whole + (1 << config.level_fraction)) >> (config.level_fraction + 1)
            m.d.comb += [
                Assert(~here[1] | (inside[f"level_{lane}"] == level)),
                Assert(~here[2] | (inside[f"product_{lane}"] == peak[2] * level)),
                Assert(~here[3] | (dut.o.payload.values[lane] == half_up)),
            ]
    cover(m, transfer(dut.o) & dut.o.payload.last & (dut.o.payload.values[0] < 0))
    return m


ROUNDS_DOWN = Mutant(
    name="a peak is cut and not rounded up",
    old="up = sign | value[:shift].any()",
    new="up = sign",
)
WRAPS = Mutant(
    name="the greatest peak wraps around",
    old="cut + (up & ~cut.all())",
    new="cut + up",
)
CARRIES_ON = Mutant(
    name="a block begins with the peak of the last one",
    old="Mux(first, keys[0], _greatest(greatest, *keys))",
    new="_greatest(greatest, *keys)",
)
EQUAL_COUNTS = Mutant(
    name="a limit that is met counts",
    old="value > limit",
    new="value >= limit",
)
KEEPS_COUNT = Mutant(
    name="a count begins with the last one",
    old='Mux(line["first"], 0, code)',
    new="code",
)
LEAVES_EARLY = Mutant(
    name="a row leaves before its last limits",
    old='rows.r_en.eq(step & line["final"])',
    new='rows.r_en.eq(step & line["first"])',
)
RUNS_ON = Mutant(
    name="a beat does not wait",
    old="step.eq(~self.o.valid | self.o.ready)",
    new="step.eq(1)",
)
CUTS = Mutant(
    name="a number is cut and not rounded",
    old="(product + (1 << cut >> 1)) >> cut",
    new="product >> cut",
)

TINY = {"values": Fixed(6, 2), "peak_width": 4, "level_fraction": 6}
WAITS = "a beat waits, unchanged, until it is taken."

PROOFS = tuple(
    Proof(
        name=f"nf4_{harness.__name__}_{size}",
        core="nf4",
        says=says,
        component=component,
        config=config,
        harness=harness,
        depth=depth,
        reach=reach,
        mutants=mutants,
    )
    for size, component, config, harness, depth, reach, says, mutants in [
        (
            "2x2",
            Nf4Quantise,
            Nf4Config(block=4, lanes=2, **TINY),
            peaks,
            3,
            12,
            "A block's peak is its greatest magnitude, rounded up, of as many beats as it has.",
            (ROUNDS_DOWN, WRAPS, CARRIES_ON),
        ),
        (
            "1",
            Nf4Quantise,
            Nf4Config(block=1, thresholds=5, **TINY),
            codes,
            1,
            20,
            f"A code is how many limits its number exceeds; no row is lost; {WAITS}",
            (EQUAL_COUNTS, KEEPS_COUNT, LEAVES_EARLY, RUNS_ON),
        ),
        (
            "2",
            Nf4Dequantise,
            Nf4Config(block=2, **TINY),
            numbers,
            1,
            12,
            f"A number is its level times the peak, rounded; {WAITS}",
            (CUTS, RUNS_ON),
        ),
    ]
)
