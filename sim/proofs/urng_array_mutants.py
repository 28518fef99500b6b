"""Ways to break the generator array, and the proofs that must notice each."""

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
    name="moves whether or not the beat is taken",
    old="free.eq(~valid | self.o.ready)",
    new="free.eq(1)",
)
VALID_FALLS = Mutant(
    name="a seed that waits clears valid",
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
    name="steps while it waits for seeds",
    old="with m.If(Mux(near, self.o.ready, self.i_seeds.valid)):",
    new="with m.If(~near | self.o.ready):",
)
SEED_LANE = Mutant(
    name="seed bits stay at their lane",
    old="Cat(states[(j + 1) % len(states)][1:], bits[j])",
    new="Cat(states[j][1:], bits[j])",
)
MARKS_STAY = Mutant(
    name="marks of ones are kept from frame to frame",
    old="ones.eq(Mux(seed.last, 0, moved | Cat(seed.bits)))",
    new="ones.eq(moved | Cat(seed.bits))",
)
MARKS_LANE = Mutant(
    name="marks of ones do not move along",
    old="moved = Cat(ones[1:], ones[0])",
    new="moved = ones",
)
NO_REPAIR = Mutant(
    name="no repair",
    old="Cat(seed.bits) | Mux(seed.last, ~moved, 0)",
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
    name="the array grows from what was in its lanes",
    old="Mux(growing, product(entry, states[-1]), moved[-1])",
    new="moved[-1]",
)
GROWS_SHORT = Mutant(
    name="grows for one cycle less", old="counter.jump(-1)", new="counter.jump(-2)"
)
START_ANY = Mutant(
    name="a word is accepted over a waiting beat",
    old="self.i_seeds.ready.eq(free & ~growing)",
    new="self.i_seeds.ready.eq(~growing)",
)
AHEAD_HERE = Mutant(
    name="ahead is the present state",
    old="init=gf2.apply(config.lfsr.matrix, config.seeds[0])",
    new="init=config.seeds[0]",
)
AHEAD_LATE = Mutant(
    name="ahead does not see the new word",
    old="Mux(start, word, ahead)",
    new="ahead",
)

#: By proof and way of seeding.
MUTANTS = {
    ("never_zero", "serial"): (SINGULAR, SEED_LANE),
    ("never_zero", "repair"): (SINGULAR, NO_REPAIR, MARKS_STAY, MARKS_LANE),
    ("never_zero", "grown"): (SINGULAR, ENTRY_SINGULAR),
    ("rotation", "serial"): (WRONG_LANE, NO_ROTATION, WRONG_STEP, SEED_LANE),
    ("rotation", "repair"): (WRONG_LANE, WRONG_STEP, NO_REPAIR),
    ("rotation", "grown"): (WRONG_LANE, NO_ROTATION, WRONG_STEP, ENTRY_SHORT),
    ("replay", "serial"): (RUNS_DRY,),
    ("replay", "repair"): (RUNS_DRY, MARKS_STAY),
    ("replay", "grown"): (OLD_LANES,),
    ("stream", "serial"): (NOT_FREE, VALID_FALLS),
    ("stream", "repair"): (NOT_FREE, VALID_FALLS),
    ("stream", "grown"): (NOT_FREE, START_ANY),
    ("latency", "serial"): (VALID_WAITS, STILL_VALID),
    ("latency", "repair"): (VALID_WAITS, STILL_VALID),
    ("latency", "grown"): (VALID_WAITS, GROWS_SHORT),
    ("ahead", "grown"): (AHEAD_HERE, AHEAD_LATE),
}
