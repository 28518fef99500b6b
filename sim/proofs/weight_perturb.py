"""Proofs of the perturbing stage: its sums, the rows that it perturbs, and replay."""

from functools import partial

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value, signed

from seedbed.hw.generators.perturbation_rows import Kind, PerturbationRows
from seedbed.hw.generators.weight_perturb import Mode, WeightPerturb
from seedbed.sim.proofs.bench import (
    cover,
    duplicates_equal,
    free_inputs,
    past,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import WeightPerturbConfig
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.lutopt import SEED_BITS
from seedbed.spec.weight_perturb import MASK_LANES

__all__ = ["PROOFS"]

#: States of the commands' machine, in the order of the component.
IDLE, SEED, EXPAND, SKIP = range(4)
#: The lane whose row is compared: not in use in the buffered rows 0 and 2 of the configuration.
LANE = 5


def sums(dut: WeightPerturb) -> Module:
    """Add and clamp the numbers of a lane by definition, stage by stage."""
    m, inside = free_inputs(dut)
    stream_rules(m, dut.o)
    advance = dut.o.ready | ~dut.o.valid
    most = (1 << dut.config.bits) - 1
    weight = inside["weights_d1"][:8].as_signed()
    magnitude = inside["numbers.magnitudes"][: dut.config.bits]
    exact, negative = weight + Mux(inside["numbers.signs"][0], -magnitude, magnitude), weight < 0
    stages = []
    for k in (2, 3, 4):
        exact_now, weight_now = Signal(signed(10), name=f"exact_{k}"), Signal(signed(8))
        with m.If(advance):
            m.d.sync += [exact_now.eq(exact), weight_now.eq(weight)]
        stages.append((inside[f"valid_d{k}"], exact_now, weight_now))
        exact, weight = exact_now, weight_now
        with m.If(inside[f"valid_d{k}"]):
            m.d.comb += [Assert(exact - weight <= most), Assert(exact - weight >= -most)]
    (first, exact, weight), (second, before, old), (last, given, _) = stages
    negative = old < 0
    with m.If(first):
        m.d.comb += [
            Assert(inside["sum_0"] == exact[:8]),
            Assert(inside["negative_0_d1"] == (weight < 0)),
        ]
    with m.If(second):
        m.d.comb += [
            Assert(inside["upper_0"][:8] == Mux(before > LIMIT, LIMIT, before)[:8]),
            Assert(inside["other_0"] == before[2:6].any()),
            Assert(
                inside["low_0"] == negative & (before[7] ^ before[6]) & (before[6] | ~before[1])
            ),
        ]
    out = dut.o.payload[0]
    clamped = Mux(given > LIMIT, LIMIT, Mux(given < -LIMIT, -LIMIT, given))
    with m.If(last):
        m.d.comb += [Assert(out == clamped), Assert(out != -128)]
    cover(m, last & (given > LIMIT), last & (given < -LIMIT), last & (given == -LIMIT))
    return m


def _idle(m: Module, inside: dict[str, Signal]) -> None:
    """Assert when the generator has a row, and when a seed is being expanded."""
    state, valid = inside["numbers.fsm_state"], inside["numbers.generator.valid"]
    expands = inside["numbers.generator.seeder.o__valid"]
    duplicates_equal(m, inside, r"numbers\.generator\.valid_\d+", valid)
    m.d.comb += [
        Assert(state <= SKIP),
        Assert(valid ^ expands),
        Assert((state == EXPAND) | valid),
        Assert(expands | (inside["numbers.generator.seeder.count"] == 0)),
    ]


def rows(dut: WeightPerturb) -> Module:
    """Compute the number of a lane of each accepted row by definition; check its registers."""
    m, inside = free_inputs(dut)
    _idle(m, inside)
    stream_rules(m, dut.o)
    config, given, b = dut.config, dut.i.payload, dut.config.bits
    words = [
        inside[f"numbers.generator.state_{lane % config.count}"]
        for lane in range(LANE, LANE + max(MASK_LANES) + 1)
    ]
    command = inside["numbers.command"]
    magnitude, zeros = command[34 : 34 + len(dut.i_command.payload.magnitude)], command[-4:]
    mask = Cat(*(words[o][k % b] for k, o in reversed(list(enumerate(MASK_LANES)))))
    update, perturb = given.mode == Mode.UPDATE, given.mode == Mode.PERTURB
    buffered = given.row < config.buffered
    used = Mux(buffered, Array([*(u > LANE for u in config.used), 1])[given.row], 1)
    drawn = update | (perturb & ~buffered)
    rounded = _rounded(m, words[0][:b], magnitude)
    number = Cat(Mux(update, Cat(rounded, words[0][1:b]), words[0][:b]), words[0][b])
    expected, entry, kept, minus, weights, moved = (
        Signal(shape) for shape in (b + 1, 8, b, 1, len(Value.cast(given.weights)), 1)
    )
    with m.If(dut.o.ready | ~dut.o.valid):
        m.d.sync += [
            expected.eq(Mux(drawn & used & (mask >= zeros), number, 0)),
            entry.eq(Mux(perturb & buffered, given.row, config.buffered)),
            kept.eq(Cat((magnitude > k) & ~update for k in range(b)) | 1),
            minus.eq(given.subtract),
            weights.eq(Value.cast(given.weights)),
            moved.eq(transfer(dut.i)),
        ]
    low = LANE * (b + 1)
    m.d.comb += Assert(inside["valid_d1"] == moved)
    with m.If(transfer(dut.i) & drawn):
        m.d.comb += Assert(inside["numbers.generator.valid"])
    with m.If(moved):
        m.d.comb += [
            Assert(inside["numbers.row_numbers"][low : low + b + 1] == expected),
            Assert(inside["numbers.kept_d1"] == kept),
            Assert(inside["numbers.subtract_d1"] == minus),
            Assert(inside["weights_d1"] == weights),
        ]
    with m.If(transfer(dut.i)):
        address = Mux(perturb & buffered, given.row, config.buffered)
        m.d.comb += [
            Assert(inside["numbers.read__addr"] == address),
            Assert(inside["numbers.read__en"]),
        ]
    cover(
        m,
        moved & (expected != 0) & (zeros != 0) & dut.o.valid & ~dut.o.ready,
        moved & (entry == 1) & (expected == 0),
    )
    return m


def _rounded(m: Module, word: Value, magnitude: Value) -> Signal:
    """Return a magnitude below 2^magnitude, divided by 2^(magnitude - 1), rounded."""
    up = Signal()
    for shift in range(len(word)):
        low = shift // 2
        lost = word[:shift]
        random = (lost[:low] << 1) if shift % 2 else lost[:low]
        # 0 and what is above the bits of a word is not allowed, and taken modulo 4.
        with m.If((magnitude - 1)[:2] == shift):
            m.d.comb += up.eq(word[shift] | (lost[low:] > random))
    return up


def replay(dut: WeightPerturb) -> Module:
    """Count the generator's steps since its seed; compare with the row that is to come."""
    m, inside = free_inputs(dut)
    _idle(m, inside)
    command, given, rows = dut.i_command.payload, dut.i.payload, dut.config.rows
    state, skip, skipped = (inside[f"numbers.{name}"] for name in ("fsm_state", "skip", "skipped"))
    seeded, valid = inside["numbers.i_seed__valid"], inside["numbers.generator.valid"]
    steps, expected = Signal(range(2 * rows)), Signal(range(2 * rows))
    # The seed of the step, and that of the generator; the reset state is that of seed 0.
    last, seed = Signal(SEED_BITS), Signal(SEED_BITS)
    drawn = transfer(dut.i) & (
        (given.mode == Mode.UPDATE)
        | ((given.mode == Mode.PERTURB) & (given.row >= dut.config.buffered))
    )
    with m.If(valid & seeded):
        m.d.sync += [steps.eq(0), seed.eq(inside["numbers.i_seed__payload"])]
    with m.Elif(valid & inside["numbers.o__ready"]):
        m.d.sync += steps.eq(steps + 1)
    returned = Signal()
    with m.If(transfer(dut.i_command)):
        first = Mux(command.kind == Kind.RESTART, 0, dut.config.buffered)
        m.d.sync += [expected.eq(first), returned.eq(command.kind != Kind.SEED)]
        with m.If(command.kind == Kind.SEED):
            m.d.sync += last.eq(command.seed)
    with m.Elif(drawn):
        m.d.sync += expected.eq(expected + 1)
    m.d.comb += [
        Assert(inside["numbers.command"][2 : 2 + SEED_BITS] == last),
        Assert((state == IDLE) | (expected == Mux(skip, dut.config.buffered, 0))),
        Assert((state == SEED) | (seed == last)),
        Assert((state != IDLE) | (steps == expected)),
        Assert((state != EXPAND) | (steps == 0)),
        Assert((state != SKIP) | ((steps == skipped) & skip & (skipped < dut.config.buffered))),
        Assert((state == SKIP) | (skipped == 0)),
    ]
    cover(m, returned & drawn & (steps == 1), returned & drawn & (steps == dut.config.buffered))
    return m


def buffer(dut: WeightPerturb) -> Module:
    """Count the rows that are written after a seed; compare reads and writes of a cycle."""
    m, inside = free_inputs(dut)
    command, buffered = dut.i_command, dut.config.buffered
    state, fill, seeding, skipped, write, read, written_row, read_row = (
        inside[f"numbers.{name}"]
        for name in (
            "fsm_state",
            "fill",
            "seeding",
            "skipped",
            "write__en",
            "read__en",
            "write__addr",
            "read__addr",
        )
    )
    seeded, written = Signal(), Signal(range(buffered + 2))
    m.d.sync += written.eq(written + write)
    with m.If(transfer(command) & (command.payload.kind == Kind.SEED)):
        m.d.sync += [seeded.eq(1), written.eq(0)]
    m.d.comb += [
        Assert(~(read & write & (read_row == written_row))),
        Assert(~transfer(dut.i) | read),
        Assert(~transfer(dut.i) | ~seeded | (written == buffered)),
        Assert(~write | (written_row == written)),
        # What the induction needs.
        Assert(state <= SKIP),
        Assert(~write | (fill & ((state == SKIP) | (state == IDLE)))),
        Assert(~fill | (seeded & inside["numbers.skip"])),
        Assert(seeding | ~seeded | (written == buffered)),
        Assert((state == SKIP) | (skipped == 0)),
        Assert(skipped < buffered),
    ]
    with m.If(seeding):
        steps = Mux(state == IDLE, buffered, Mux(state == SKIP, skipped, 0))
        m.d.comb += Assert(written + write == steps)
    before = past(m, write)
    cover(m, before & transfer(dut.i) & (read_row == buffered - 1), before & read & ~seeding)
    return m


small = partial(WeightPerturbConfig, lanes=8, ways=2, rows=16)

PROOFS = (
    Proof(
        name="weight_perturb_sums",
        says="An output is the weight plus or minus the magnitude of its number, in -127..127; a "
        "valid row is stable until its transfer.",
        component=WeightPerturb,
        config=small(),
        harness=sums,
        reach=9,
        mutants=(
            Mutant("-128 stays", "(sums[6] | ~sums[1])", "sums[6]"),
            Mutant(
                "a negative sum of a positive weight wraps",
                "~negative & sums[7] & ~sums[6]",
                "~negative & sums[7]",
            ),
            Mutant("rows saturate during a stall", "m.If(advance & above)", "m.If(above)"),
        ),
    ),
    Proof(
        name="weight_perturb_rows",
        says="A row has the number that the generator gives in its transfer, if it needs one, "
        "and the buffer's entry of its index, if it is buffered; its mask, range and rounding are "
        "those of the definition; a valid row is stable until its transfer.",
        component=WeightPerturb,
        config=small(used=(5, 8, 3)),
        harness=rows,
        reach=40,
        mutants=(
            Mutant(
                "a stall does not keep a row's numbers",
                "signal.eq(self.advance & (~enabled | one))",
                "signal.eq(~enabled | one)",
                part=PerturbationRows,
            ),
            Mutant(
                "the last row of the buffer is read for all others",
                "Mux(buffered, row[: len(read.addr)], depth - 1)",
                "Mux(buffered, row[: len(read.addr)], depth - 2)",
                part=PerturbationRows,
            ),
            Mutant(
                "rows are accepted during a return",
                "~draw.seeding & (~needed | ~draw.busy)",
                "~draw.seeding",
                part=PerturbationRows,
            ),
        ),
    ),
    Proof(
        name="weight_perturb_buffer",
        says="No row of the buffer is read in the cycle in which it is written; after a seed, no "
        "row is accepted before all rows of the buffer are written.",
        component=WeightPerturb,
        config=small(used=(5, 8, 3)),
        harness=buffer,
        reach=32,
        mutants=(
            Mutant(
                "rows are accepted during the last write",
                "busy.eq(writing)",
                "busy.eq(0)",
                part=PerturbationRows,
            ),
            Mutant(
                "rows that are not accepted are read",
                "self.advance & ~writing",
                "self.advance",
                part=PerturbationRows,
            ),
        ),
    ),
    Proof(
        name="weight_perturb_replay",
        says="After a return, the generator has the seed of the step, and has stepped once for "
        "each row before the one that is drawn.",
        component=WeightPerturb,
        config=small(used=(5, 8, 3)),
        harness=replay,
        reach=32,
        mutants=(
            Mutant(
                "a rewind steps over one row less",
                "last = draw.skipped == self.config.buffered - 1",
                "last = draw.skipped == self.config.buffered - 1 - ~fill",
                part=PerturbationRows,
            ),
            Mutant(
                "a restart steps over the buffered rows",
                "given.payload.kind != Kind.RESTART",
                "1",
                part=PerturbationRows,
            ),
        ),
    ),
)
