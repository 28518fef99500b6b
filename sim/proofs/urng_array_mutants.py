"""Mutants of the generator array, and the proofs that must fail for each."""

from seedbed.sim.prove import Mutant

__all__ = ["MUTANTS", "NO_REPAIR_GROWN"]

STEP = "product(self.config.lfsr.matrix, states[(j + 1) % lanes])"
SINGULAR = Mutant(
    "a singular step", STEP, STEP.replace(".matrix", ".matrix[:-1] + self.config.lfsr.matrix[:1]")
)
WRONG_STEP = Mutant(
    "one step too many",
    STEP,
    "product(self.config.lfsr.jump(self.config.leap + 1), states[(j + 1) % lanes])",
)
WRONG_LANE = Mutant("the wrong neighbour's state", STEP, STEP.replace("(j + 1)", "(j + 2)"))
NO_ROTATION = Mutant("no rotation", STEP, STEP.replace("(j + 1)", "j"))
NOT_FREE = Mutant("advances without a transfer", "free.eq(~valid | self.o.ready)", "free.eq(1)")
VALID_FALLS = Mutant(
    "a seed that is not accepted clears valid",
    "with m.If(free & self.i_seeds.valid):\n            m.d.sync += [v",
    "with m.If(self.i_seeds.valid):\n            m.d.sync += [v",
)
VALID_WAITS = Mutant(
    "valid waits for ready", "self.o.valid.eq(valid)", "self.o.valid.eq(valid & self.o.ready)"
)
STILL_VALID = Mutant("valid while seeds are loaded", "v.eq(seed.last)", "v.eq(1)")
RUNS_DRY = Mutant(
    "steps while seeds are loaded and none is valid",
    "with m.If(Mux(lane_valid, self.o.ready, self.i_seeds.valid)):",
    "with m.If(~lane_valid | self.o.ready):",
)
SEED_LANE = Mutant(
    "states do not rotate while seed bits are shifted in",
    "Cat(states[(j + 1) % len(states)][1:], bits[j])",
    "Cat(states[j][1:], bits[j])",
)
FLAGS_KEPT = Mutant(
    "flags of ones are not cleared at the end of a frame",
    "ones.eq(Mux(seed.last, 0, rotated | Cat(seed.bits)))",
    "ones.eq(rotated | Cat(seed.bits))",
)
FLAGS_LANE = Mutant(
    "flags of ones do not rotate", "rotated = Cat(ones[1:], ones[0])", "rotated = ones"
)
NO_REPAIR = Mutant("no repair", "Cat(seed.bits) | Mux(seed.last, ~rotated, 0)", "Cat(seed.bits)")
NO_REPAIR_GROWN = Mutant("no repair", "word[-1] | ~word.any()", "word[-1]")
ENTRY_SINGULAR = Mutant(
    "a singular step from generator to generator",
    "entry = config.lfsr.jump(config.leap + config.spacing)",
    "entry = config.lfsr.matrix[:-1] + config.lfsr.matrix[:1]",
)
ENTRY_SHORT = Mutant(
    "generators one beat closer than their spacing",
    "config.lfsr.jump(config.leap + config.spacing)",
    "config.lfsr.jump(config.spacing)",
)
OLD_LANES = Mutant(
    "the array grows from the old states of its lanes",
    "Mux(growing, product(entry, states[-1]), rotated[-1])",
    "rotated[-1]",
)
GROWS_SHORT = Mutant("grows for one cycle less", "counter.jump(-1)", "counter.jump(-2)")
START_ANY = Mutant(
    "a word is accepted while an output beat is pending",
    "self.i_seeds.ready.eq(free & ~growing)",
    "self.i_seeds.ready.eq(~growing)",
)
AHEAD_HERE = Mutant(
    "ahead is the current state",
    "init=gf2.apply(config.lfsr.matrix, config.seeds[0])",
    "init=config.seeds[0]",
)
AHEAD_LATE = Mutant("ahead does not see the new word", "Mux(start, word, ahead)", "ahead")

#: By proof and seeding.
MUTANTS = {
    ("never_zero", "serial"): (SINGULAR, SEED_LANE),
    ("never_zero", "repair"): (SINGULAR, NO_REPAIR, FLAGS_KEPT, FLAGS_LANE),
    ("never_zero", "grown"): (SINGULAR, ENTRY_SINGULAR),
    ("rotation", "serial"): (WRONG_LANE, NO_ROTATION, WRONG_STEP, SEED_LANE),
    ("rotation", "repair"): (WRONG_LANE, WRONG_STEP, NO_REPAIR),
    ("rotation", "grown"): (WRONG_LANE, NO_ROTATION, WRONG_STEP, ENTRY_SHORT),
    ("replay", "serial"): (RUNS_DRY,),
    ("replay", "repair"): (RUNS_DRY, FLAGS_KEPT),
    ("replay", "grown"): (OLD_LANES,),
    ("stream", "serial"): (NOT_FREE, VALID_FALLS),
    ("stream", "repair"): (NOT_FREE, VALID_FALLS),
    ("stream", "grown"): (NOT_FREE, START_ANY),
    ("latency", "serial"): (VALID_WAITS, STILL_VALID),
    ("latency", "repair"): (VALID_WAITS, STILL_VALID),
    ("latency", "grown"): (VALID_WAITS, GROWS_SHORT),
    ("ahead", "grown"): (AHEAD_HERE, AHEAD_LATE),
}
