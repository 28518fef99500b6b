"""Proofs of perturbations of rank 1: their memories, updates, and the levels of steps."""

from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal, signed
from amaranth.hdl._ast import AnySeq

from seedbed.hw.engine.parameter_memory import ParameterMemory
from seedbed.hw.generators.perturbation_rows import Kind
from seedbed.hw.generators.rank_one import RankOneNumbers
from seedbed.hw.loss.step_levels import StepLevels
from seedbed.hw.zeroth_order.rank_one_update import RankOneUpdate
from seedbed.sim.proofs.bench import cover, duplicates_equal, free_inputs, past, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.elasticzo import LIMIT
from seedbed.spec.network import Layer, NetworkConfig
from seedbed.spec.rank_one import RankOneConfig
from seedbed.spec.zo_trainer import ZoTrainerConfig

__all__ = ["PROOFS"]

#: States of the machine that fills the memories, in the order of the component.
IDLE, SEED, EXPAND, FILL = range(4)


def memories(dut: RankOneNumbers) -> Module:
    """Count the words that are written after a seed; compare reads and writes of a cycle."""
    m, inside = free_inputs(dut)
    config, command = dut.config, dut.i_command
    words = config.inputs + config.outputs
    m.d.comb += [
        dut.request.eq(AnySeq(1)),
        dut.row.eq(AnySeq(len(dut.row))),
        Assume(~dut.request | command.ready),
        Assume(dut.row < len(config.rows)),
    ]
    state, word, requested = (inside[name] for name in ("fsm_state", "word", "requested_d1"))
    valid, expands = inside["generator.valid"], inside["generator.seeder.o__valid"]
    duplicates_equal(m, inside, r"generator\.valid_\d+", valid)
    seeded, written = Signal(), Signal(range(words + 2))
    ports = {
        kind: {
            name: inside[f"{name}_{kind}__{end}"]
            for name, end in (("read", "addr"), ("write", "addr"))
        }
        | {f"{name}s": inside[f"{name}_{kind}__en"] for name in ("read", "write")}
        for kind in ("input", "output")
    }
    writes = [port["writes"] for port in ports.values()]
    m.d.sync += written.eq(written + (writes[0] | writes[1]))
    with m.If(transfer(command) & (command.payload.kind == Kind.SEED)):
        m.d.sync += [seeded.eq(1), written.eq(0)]
    for port in ports.values():
        clash = port["reads"] & port["writes"] & (port["read"] == port["write"])
        m.d.comb += Assert(~clash)
    m.d.comb += [
        Assert(~(writes[0] & writes[1])),
        Assert(~(command.ready & seeded) | (written == words)),
        Assert(~writes[0] | (ports["input"]["write"] == written)),
        Assert(~writes[1] | (ports["output"]["write"] == written - config.inputs)),
        # A word of the generator is there for each that is written.
        Assert((state != FILL) | valid),
        # What the induction needs.
        Assert((state == IDLE) | seeded),
        Assert(~requested | (state == IDLE) | (state == SEED)),
        Assert((state == IDLE) | (written == word)),
        Assert((state == FILL) | (word == 0)),
        Assert(word < words),
        Assert(valid ^ expands),
        Assert((state == EXPAND) | valid),
        Assert(expands | (inside["generator.seeder.count"] == 0)),
    ]
    cover(m, past(m, writes[1]) & command.ready & dut.request, requested & seeded)
    return m


def update(dut: RankOneUpdate) -> Module:
    """Count the parts that are read and written, and compute the values by definition."""
    m, inside = free_inputs(dut)
    rows, parts = dut.config.schedule.rows, dut.parts
    count = rows * parts
    for name in ("weights", "inputs", "outputs"):
        port = getattr(dut, name).as_value()
        m.d.comb += port.eq(AnySeq(len(port)))
    m.d.comb += [
        dut.start.eq(AnySeq(1)),
        dut.subtract.eq(AnySeq(1)),
        dut.level.eq(AnySeq(2)),
        Assume(~dut.start | ~dut.busy),
        Assume(dut.weights[0] != -128),
    ]
    reads, writes = (Signal(range(count + 1), init=count, name=n) for n in ("reads", "writes"))
    m.d.sync += [reads.eq(reads + dut.read.valid), writes.eq(writes + dut.write.valid)]
    with m.If(dut.start):
        m.d.sync += [reads.eq(0), writes.eq(0)]
    fields, in_flight = (dut.read.valid, dut.read.row, dut.read.part), []
    for _ in range(dut.latency):
        fields = tuple(past(m, value) for value in fields)
        in_flight.append(fields[0])
    read, write = dut.read, dut.write
    m.d.comb += [
        Assert(read.valid == (reads < count)),
        Assert(~read.valid | (read.part * rows + read.row == reads)),
        Assert(~read.valid | (read.row < rows)),
        Assert(write.valid == fields[0]),
        Assert(~write.valid | ((write.row == fields[1]) & (write.part == fields[2]))),
        Assert(writes + sum(in_flight, 0) == reads),
        Assert(dut.busy == (writes < count)),
        # What an induction has to know.
        Assert(inside["walking"] | ((inside["row"] == 0) & (inside["part"] == 0))),
    ]
    expected = _value(m, dut, write.part)
    for _ in range(ParameterMemory.load_latency):
        expected = past(m, expected)
    begun = Signal(range(ParameterMemory.load_latency + 1))
    m.d.sync += begun.eq(Mux(begun == ParameterMemory.load_latency, begun, begun + 1))
    with m.If(begun == ParameterMemory.load_latency):
        m.d.comb += Assert(dut.values[0] == expected.as_signed())
    last = write.valid & (write.row == rows - 1) & (write.part == parts - 1)
    cover(m, last, begun.any() & (dut.values[0] == -LIMIT))
    return m


def _value(m: Module, dut: RankOneUpdate, part) -> Signal:
    """Return the first weight of a part, moved and saturated, by definition."""
    blocks = dut.config.lanes // 8
    lane, way = (part % blocks) * 8, part // blocks
    bit = {name: (dut.inputs[name] >> lane)[0] for name in ("negative", "used", "half")} | {
        f"output_{name}": (dut.outputs[name] >> way)[0] for name in ("negative", "perturbed")
    }
    u, moved, found = Signal(signed(3)), Signal(signed(10)), Signal(signed(8))
    size = Mux(dut.level == 3, 2, Mux(dut.level == 2, 1, Mux(dut.level == 1, bit["half"], 0)))
    on = bit["used"] & bit["output_perturbed"]
    m.d.comb += [
        u.eq(Mux(on, Mux(bit["negative"] ^ bit["output_negative"], -size, size), 0)),
        moved.eq(dut.weights[0] + Mux(dut.subtract, -u, u)),
        found.eq(Mux(moved > LIMIT, LIMIT, Mux(moved < -LIMIT, -LIMIT, moved))),
    ]
    return found


def levels(dut: StepLevels) -> Module:
    """Find the level and the average by definition."""
    m, inside = free_inputs(dut)
    m.d.comb += [
        dut.begin.eq(AnySeq(1)),
        dut.take.eq(AnySeq(1)),
        dut.size.eq(AnySeq(dut.width)),
    ]
    average, first = inside["average"], inside["first"]
    mean = average >> 6
    fits = Cat(4 * dut.size < mean, 4 * dut.size < 3 * mean, 2 * dut.size < 3 * mean)
    level = Mux(fits[0], 0, Mux(fits[1], 1, Mux(fits[2], 2, 3)))
    wide = Signal(dut.width + 8)
    m.d.sync += wide.eq(average)
    with m.If(dut.take):
        m.d.sync += wide.eq(Mux(first, dut.size << 6, average + dut.size - mean))
    started = Signal()
    m.d.sync += started.eq(1)
    m.d.comb += [
        Assert(dut.level == Mux(first, 2, level)),
        Assert(~started | (average == wide)),
        Assert(first == _first(m, dut)),
    ]
    cover(m, *(dut.take & ~first & (dut.level == k) for k in range(4)))
    return m


def _first(m: Module, dut: StepLevels) -> Signal:
    """Return whether no magnitude was taken since a job began."""
    fresh = Signal(init=1)
    with m.If(dut.begin):
        m.d.sync += fresh.eq(1)
    with m.Elif(dut.take):
        m.d.sync += fresh.eq(0)
    return fresh


#: Two words of inputs and three of outputs, three rows of which are of one layer.
NUMBERS = RankOneConfig(
    lanes=8, ways=2, used=(8, 5), outputs=3, rows=((0, 0), (0, 1), (1, 0), (1, 1), (2, 1))
)
#: A row in parts of both ways.
SMALL = ZoTrainerConfig(
    network=NetworkConfig(
        (Layer(name="a", kind="dense", inputs=(1, 2, 4), outputs=5, relu=False),)
    ),
    lanes=8,
    ways=2,
    perturbation="rank1",
    levels=4,
)

PROOFS = (
    Proof(
        name="zo_trainer_rank_one_memories",
        says="No word of the numbers of inputs and outputs is read in the cycle in which it is "
        "written; after a seed, no row is accepted before each word of both memories is written "
        "once, with a word of the generator.",
        component=RankOneNumbers,
        config=NUMBERS,
        harness=memories,
        reach=32,
        mutants=(
            Mutant(
                "the last word is not written",
                "m.If(word == words - 1)",
                "m.If(word == words - 2)",
            ),
            Mutant(
                "rows are accepted while the memories are filled",
                "m.d.comb += [filling.eq(1),",
                "m.d.comb += [self.i_command.ready.eq(1), filling.eq(1),",
            ),
            Mutant(
                "words are written before the generator has its state",
                'with m.State("EXPAND"), m.If(generator.o.valid):',
                'with m.State("EXPAND"):',
            ),
        ),
    ),
    Proof(
        name="zo_trainer_rank_one_update",
        says="An update reads and writes each part of each row once, in order; what it writes is "
        "the weight moved by the level of the step against the sign, in -127..127.",
        component=RankOneUpdate,
        config=SMALL,
        harness=update,
        depth=8,
        reach=20,
        mutants=(
            Mutant(
                "the last row is left out",
                "self.config.schedule.rows - 1",
                "self.config.schedule.rows - 2",
            ),
            Mutant("half a step moves all inputs", "(~halves | half[k])", "(~halves | 1)"),
            Mutant("-128 stays", "Mux(total < -LIMIT,", "Mux(total < -LIMIT - 1,"),
            Mutant(
                "an update is not busy after its last read",
                "self.busy.eq(walking | Cat(read.valid for read in reads[1:]).any())",
                "self.busy.eq(walking)",
            ),
        ),
    ),
    Proof(
        name="zo_trainer_levels",
        says="A step's level is that of its magnitude relative to the average, which does not "
        "overflow; the first magnitude of a job is one step, and begins the average.",
        component=StepLevels,
        config=4,
        harness=levels,
        depth=2,
        reach=24,
        mutants=(
            Mutant("the average does not begin", "average.eq(size << AVERAGE_BITS)", "first.eq(0)"),
            Mutant("half a step for all below it", "(size << 2 < mean)", "(size << 3 < mean)"),
            Mutant("a job keeps the average", "m.d.sync += first.eq(1)", "m.d.sync += first.eq(0)"),
        ),
    ),
)
