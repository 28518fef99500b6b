"""Proofs of 4-bit NormalFloat: peaks, codes and numbers, each by its definition."""

from functools import partial

from amaranth.hdl import Assert, Module, Mux, Signal, Value

from seedbed.hw.weights.nf4 import Nf4Dequantise
from seedbed.hw.weights.nf4_quantise import Nf4Quantise
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import Nf4Config
from seedbed.spec.fixed import Fixed

__all__ = ["PROOFS"]


def _delays(m: Module, enable, value, stages: int) -> list[Signal]:
    """Return ``value`` delayed by one stage, by two, and so on."""
    taps = []
    for _ in range(stages):
        value = Value.cast(value)
        before = Signal(value.shape())
        with m.If(enable):
            m.d.sync += before.eq(value)
        taps.append(before)
        value = before
    return taps


def peaks(dut: Nf4Quantise) -> Module:
    """Track the greatest magnitude of each block, in units of a peak, by definition."""
    m, inside = free_inputs(dut)
    config, beat = dut.config, dut.i.payload
    unit, most = 1 << config.shift, (1 << config.peak_width) - 1
    largest = Value.cast(0)
    for value in beat.values:
        size = (Mux(value < 0, -value, value).as_unsigned() + unit - 1) >> config.shift
        largest = Mux(size > largest, size, largest)
    # As many registers as the tree has stages, and one for the block's greatest so far.
    fire, ends = transfer(dut.i), Signal()
    begins, last = Signal(init=1), config.block // config.lanes - 1
    m.d.comb += [
        ends.eq(beat.last | (inside["beat"] == last)),
        Assert(begins == (inside["beat"] == 0)),
        Assert(inside["beat"] <= last),
    ]
    with m.If(fire):
        m.d.sync += begins.eq(ends)
    signals = [fire, fire & ends, begins, largest]
    valid, closes, first, size = ([v, *_delays(m, 1, v, dut.stages)][-1] for v in signals)
    greatest = Signal(size.shape())
    with m.If(valid):
        m.d.sync += greatest.eq(Mux(~first & (greatest > size), greatest, size))
    key, written = inside["greatest"], inside["block"][: config.peak_width]
    done = _delays(m, 1, closes, 1)[0]
    m.d.comb += [
        Assert(inside["done_d1"] == done),
        Assert(key[1:] + key[0] == greatest),
        Assert(written == Mux(greatest > most, most, greatest)),
    ]
    cover(m, done & (greatest > most), done & (greatest == 1))
    return m


def codes(dut: Nf4Quantise) -> Module:
    """Count the thresholds that each number exceeds, from its row and peak."""
    m, inside = free_inputs(dut)
    config, per, enable = dut.config, dut.config.thresholds, inside["enable"]
    stream_rules(m, dut.o)
    fifo_invariants(m, inside, "blocks", dut.rows)
    rows, ready = inside["rows.inner_level"], inside["rows.r_rdy"]
    # A block is one row: each row that is not yet compared is in one of these stages.
    incoming = [inside[f"ends_{k}_d1"] for k in range(dut.stages)] + [inside["done_d1"]]
    in_pipeline = [inside[f"final_d{k}"] for k in range(1, 4)]
    m.d.comb += [
        Assert(rows + ready == sum([*incoming, *in_pipeline], inside["blocks.level"])),
        Assert(ready | (rows == incoming[0])),
        Assert(rows < dut.rows),
        Assert(inside["beat"] == 0),
        Assert(ready | ~inside["final_d3"]),
        Assert(inside["blocks.w_rdy"] | ~inside["done_d1"]),
    ]
    # At each of the five stages: valid, the group of thresholds, and the row.
    valid_at = [inside["blocks.r_rdy"], *_delays(m, enable, inside["blocks.r_rdy"], 5)]
    group = [inside["group"], *_delays(m, enable, inside["group"], 5)]
    row = [None, None, None, inside["rows.r_data"], *_delays(m, enable, inside["rows.r_data"], 2)]
    first_peak = inside["blocks.r_data"][: config.peak_width]
    peak = [first_peak, *(inside[f"peak_d{k}"] for k in range(1, 6))]
    final = [valid_at[k] & (group[k] == dut.interval - 1) for k in range(6)]
    m.d.comb += Assert(Mux(valid_at[0], group[0] < dut.interval, group[0] == 0))
    for k in range(1, 6):
        # The groups of a row are consecutive, with the same peak and row.
        continues = valid_at[k] & ~final[k]
        consecutive = (group[k - 1] == group[k] + 1) & (peak[k - 1] == peak[k])
        if k > 3:
            consecutive &= row[k - 1] == row[k]
        m.d.comb += [
            Assert(inside[f"final_d{k}"] == final[k]),
            Assert(continues == (valid_at[k - 1] & (group[k - 1] != 0))),
            Assert(~continues | consecutive),
        ]
        if k < 5:
            m.d.comb += Assert(~valid_at[k] | (inside[f"first_d{k}"] == (group[k] == 0)))
    shift = config.level_fraction + 1 - config.shift

    def limit(k: int, c: int) -> Value:
        return (peak[k] * config.middles[c]) >> shift

    values = dut.i.payload.values.shape()
    for g in range(dut.interval):
        at_group = [valid_at[k] & (group[k] == g) for k in range(6)]
        for t, c in enumerate(range(g * per, (g + 1) * per)):
            m.d.comb += [
                Assert(~at_group[1] | (inside[f"middle_{t}_d1"] == config.middles[c])),
                Assert(~at_group[2] | (inside[f"limit_{t}_d1"] == limit(2, c))),
                Assert(~at_group[3] | (inside[f"limit_{t}_copy_0"] == limit(3, c))),
            ]
            for lane, value in enumerate(values(row[4])):
                more = inside[f"exceeds_{lane}_d1"][t]
                m.d.comb += Assert(~at_group[4] | (more == (value > limit(4, c))))
        for value, code in zip(values(row[5]), dut.o.payload.codes, strict=True):
            found = [value > limit(5, c) for c in range((g + 1) * per)]
            m.d.comb += Assert(~at_group[5] | (code == sum(found[1:], found[0])))
    cover(m, transfer(dut.o) & (dut.o.payload.codes[0] == 15), ~dut.i.ready)
    return m


def numbers(dut: Nf4Dequantise) -> Module:
    """Compute each number by definition, and delay it."""
    m, inside = free_inputs(dut)
    config, enable = dut.config, inside["enable"]
    stream_rules(m, dut.o)
    valid = [dut.i.valid, *_delays(m, enable, dut.i.valid, 3)]
    last = [dut.i.payload.last, *_delays(m, enable, dut.i.payload.last, 3)]
    peak = [dut.i.payload.peak, *_delays(m, enable, dut.i.payload.peak, 3)]
    m.d.comb += [Assert(inside[f"valid_d{k}"] == valid[k]) for k in range(1, 4)]
    m.d.comb += [Assert(inside[f"last_d{k}"] == last[k]) for k in range(1, 4)]
    m.d.comb += Assert(inside["peak_d1"] == peak[1])
    for lane, given in enumerate(dut.i.payload.codes):
        code = [given, *_delays(m, enable, given, 3)]
        for c, level in enumerate(config.levels):
            at_group = [valid[k] & (code[k] == c) for k in range(4)]
            doubled = (peak[3] * level) << (config.shift + 1)
            half_up = (doubled + (1 << config.level_fraction)) >> (config.level_fraction + 1)
            m.d.comb += [
                Assert(~at_group[1] | (inside[f"level_{lane}_d1"] == level)),
                Assert(~at_group[2] | (inside[f"product_{lane}_d1"] == peak[2] * level)),
                Assert(~at_group[3] | (dut.o.payload.values[lane] == half_up)),
            ]
    cover(m, transfer(dut.o) & dut.o.payload.last & (dut.o.payload.values[0] < 0))
    return m


TRUNCATES = Mutant(
    "a peak is truncated", "increment = sign | value[:shift].any()", "increment = sign"
)
WRAPS = Mutant(
    "the greatest peak wraps around",
    "truncated + (increment & ~truncated.all())",
    "truncated + increment",
)
NO_RESTART = Mutant(
    "a block begins with the previous block's peak",
    "Mux(first, keys[0], _greatest(greatest, *keys))",
    "_greatest(greatest, *keys)",
)
EQUAL_COUNTS = Mutant("a threshold that is equal counts", "value > limit", "value >= limit")
NO_CLEAR = Mutant("a count is not cleared", 'Mux(taps["first"][4], 0, codes[lane])', "codes[lane]")
LEAVES_EARLY = Mutant(
    "a row is read before its last thresholds",
    'rows.r_en.eq(enable & taps["final"][3])',
    'rows.r_en.eq(enable & taps["first"][3])',
)
NO_STALL = Mutant(
    "the pipeline does not stall", "enable.eq(~self.o.valid | self.o.ready)", "enable.eq(1)"
)
TRUNCATES_NUMBER = Mutant(
    "a number is truncated", "(product + (1 << shift >> 1)) >> shift", "product >> shift"
)

tiny = partial(Nf4Config, values=Fixed(6, 2), peak_width=4, level_fraction=6)
STABLE = "a valid beat is stable until its transfer."

PROOFS = (
    Proof(
        name="nf4_peaks_2x2",
        says="A block's peak is the greatest magnitude of its beats, rounded up.",
        component=Nf4Quantise,
        config=tiny(block=4, lanes=2),
        harness=peaks,
        depth=3,
        mutants=(TRUNCATES, WRAPS, NO_RESTART),
    ),
    Proof(
        name="nf4_codes_1",
        says=f"A code is how many thresholds its number exceeds; no row is lost; {STABLE}",
        component=Nf4Quantise,
        config=tiny(block=1, thresholds=5),
        harness=codes,
        reach=20,
        mutants=(EQUAL_COUNTS, NO_CLEAR, LEAVES_EARLY, NO_STALL),
    ),
    Proof(
        name="nf4_numbers_2",
        says=f"A number is its level times the peak, rounded; {STABLE}",
        component=Nf4Dequantise,
        config=tiny(block=2),
        harness=numbers,
        mutants=(TRUNCATES_NUMBER, NO_STALL),
    ),
)
