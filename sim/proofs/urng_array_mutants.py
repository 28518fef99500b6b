"""Mutants of the generator array, and the proofs that must fail for each."""

from seedbed.sim.prove import Mutant

__all__ = ["MUTANTS", "NO_REPAIR_GROWN"]

STEP = "product(self.config.lfsr.matrix, states[(j + 1) % lanes])"
SINGULAR = Mutant(
    name="a singular step",
    old=STEP,
    new=STEP.replace(".matrix", ".matrix[:-1] + self.config.lfsr.matrix[:1]"),
)
WRONG_STEP = Mutant(
    name="one step too many",
    old=STEP,
    new="product(self.config.lfsr.jump(self.config.leap + 1), states[(j + 1) % lanes])",
)
WRONG_LANE = Mutant(
    name="the wrong neighbour's state", old=STEP, new=STEP.replace("(j + 1)", "(j + 2)")
)
NO_ROTATION = Mutant(name="no rotation", old=STEP, new=STEP.replace("(j + 1)", "j"))
NOT_FREE = Mutant(
    name="advances without a transfer",
    old="free.eq(~valid | self.o.ready)",
    new="free.eq(1)",
)
VALID_FALLS = Mutant(
    name="a seed that is not accepted clears valid",
    old="with m.If(free & self.i_seeds.valid):\n            m.d.sync += [v",
    new="with m.If(self.i_seeds.valid):\n            m.d.sync += [v",
)
VALID_WAITS = Mutant(
    name="valid waits for ready",
    old="self.o.valid.eq(valid)",
    new="self.o.valid.eq(valid & self.o.ready)",
)
STILL_VALID = Mutant(
    name="valid while seeds are loaded",
    old="v.eq(seed.last)",
    new="v.eq(1)",
)
RUNS_DRY = Mutant(
    name="steps while seeds are loaded and none is valid",
    old="with m.If(Mux(lane_valid, self.o.ready, self.i_seeds.valid)):",
    new="with m.If(~lane_valid | self.o.ready):",
)
SEED_LANE = Mutant(
    name="states do not rotate while seed bits are shifted in",
    old="Cat(states[(j + 1) % len(states)][1:], bits[j])",
    new="Cat(states[j][1:], bits[j])",
)
FLAGS_KEPT = Mutant(
    name="flags of ones are not cleared at the end of a frame",
    old="ones.eq(Mux(seed.last, 0, rotated | Cat(seed.bits)))",
    new="ones.eq(rotated | Cat(seed.bits))",
)
FLAGS_LANE = Mutant(
    name="flags of ones do not rotate",
    old="rotated = Cat(ones[1:], ones[0])",
    new="rotated = ones",
)
NO_REPAIR = Mutant(
    name="no repair",
    old="Cat(seed.bits) | Mux(seed.last, ~rotated, 0)",
    new="Cat(seed.bits)",
)
NO_REPAIR_GROWN = Mutant(name="no repair", old="word[-1] | ~word.any()", new="word[-1]")
ENTRY_SINGULAR = Mutant(
    name="a singular step from generator to generator",
    old="entry = config.lfsr.jump(config.leap + config.spacing)",
    new="entry = config.lfsr.matrix[:-1] + config.lfsr.matrix[:1]",
)
ENTRY_SHORT = Mutant(
    name="generators one beat closer than their spacing",
    old="config.lfsr.jump(config.leap + config.spacing)",
    new="config.lfsr.jump(config.spacing)",
)
OLD_LANES = Mutant(
    name="the array grows from the old states of its lanes",
    old="Mux(growing, product(entry, states[-1]), rotated[-1])",
    new="rotated[-1]",
)
GROWS_SHORT = Mutant(
    name="grows for one cycle less", old="counter.jump(-1)", new="counter.jump(-2)"
)
START_ANY = Mutant(
    name="a word is accepted while an output beat is pending",
    old="self.i_seeds.ready.eq(free & ~growing)",
    new="self.i_seeds.ready.eq(~growing)",
)
AHEAD_HERE = Mutant(
    name="ahead is the current state",
    old="init=gf2.apply(config.lfsr.matrix, config.seeds[0])",
    new="init=config.seeds[0]",
)
AHEAD_LATE = Mutant(
    name="ahead does not see the new word",
    old="Mux(start, word, ahead)",
    new="ahead",
)

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
