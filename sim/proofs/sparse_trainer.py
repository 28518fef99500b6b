"""Proofs of the trainer of kept weights: its memory, its samples, its layers and its entries."""

from dataclasses import replace

from amaranth.hdl import Assert, Assume, Module, Mux, Signal
from amaranth.hdl._ast import AnyConst
from amaranth.lib import data

from seedbed.hw.kept.layer_table import LayerTable, layer_layout
from seedbed.hw.kept.layer_walk import LayerWalk
from seedbed.hw.kept.sample_banks import SampleBanks
from seedbed.hw.kept.weight_reader import WeightReader
from seedbed.hw.memory.burst_reads import BurstReads
from seedbed.sim.proofs.bench import (
    cover,
    free,
    free_inputs,
    past,
    steady,
    stream_rules,
    transfer,
)
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.sparse_trainer import MOST_SHIFT

__all__ = ["PROOFS"]

SMALL = SparseTrainerConfig(
    block=4, latent=1, width=8, layers=3, columns=6, classes=4, entries=7, batch=4, beat_bits=32,
    activation_width=3, value_width=5, number_width=3, most_shift=3, address_bits=5, burst=4,
    drain_cycles=2, timeout_cycles=7,
)  # fmt: skip
#: Of two beats a row at most, too.
SCALED = replace(SMALL, decode="trellis", columns=9, address_bits=6)


def bursts(dut: WeightReader) -> Module:
    """Follow the bursts of layers, whatever the memory gives."""
    m, inside = free_inputs(dut)
    config, layer, out = dut.config, dut.layer, dut.o_command
    rest, quiet = inside["bursts.rest"], inside["bursts.quiet"]
    # A bias has a beat, two scales one.
    head = layer.rows + ((layer.rows + 1) >> 1) if config.gemv.trellis else layer.rows
    beats, total = Signal.like(layer.beats), Signal.like(inside["left"])
    free(m, dut.start, dut.drain)
    steady(m, layer)
    m.d.comb += [
        Assume(~dut.start | ~dut.drain),
        beats.eq(Mux(layer.row_beats == 2, layer.rows << 1, layer.rows)),
        Assume((layer.rows != 0) & (layer.rows <= config.columns)),
        Assume((layer.row_beats == 1) | (layer.row_beats == 2)),
        Assume(layer.beats == beats),
        total.eq(beats + head),
    ]
    # A layer is asked for when the one before has come.
    left, given = Signal.like(total), Signal.like(total)
    place = Signal(config.address_bits)
    fire = transfer(out)
    length, at = out.payload.length + 1, out.payload.address[:2]
    idle = (left == 0) & (given == total)
    # A layer has been asked for; the rest of it is not needed; there was a fault, or it is not.
    begun, stopped, broken = Signal(), Signal(), Signal()
    live = begun & ~stopped
    asking = begun & ~broken
    # A burst of an earlier layer is not taken yet.
    stale = Signal()
    m.d.comb += Assume(~dut.start | ~begun | idle | broken)
    with m.If(fire):
        m.d.comb += [
            Assert(~asking | stale | (out.payload.address == place)),
            Assert(~asking | stale | (length <= left)),
            Assert(~asking | stale | (at + length == config.page) | (length == left)),
            Assert(at + length <= config.page),
            Assert(~out.payload.write),
        ]
        m.d.sync += stale.eq(0)
        with m.If(~stale):
            m.d.sync += [place.eq(place + length), left.eq(left - length)]
    with m.If(inside["fire"]):
        m.d.sync += given.eq(given + 1)
    with m.If(dut.fault | dut.drain):
        m.d.sync += broken.eq(1)
    with m.If(dut.drain):
        m.d.sync += stopped.eq(1)
    with m.If(dut.start):
        m.d.sync += [
            left.eq(total), given.eq(0), place.eq(layer.address), begun.eq(1),
            stopped.eq(0), broken.eq(dut.fault), stale.eq(out.valid & ~out.ready),
        ]  # fmt: skip
    # The rows' beats follow, each row's last one with last.
    rows = given - head
    with m.If(transfer(dut.o_weights)):
        m.d.comb += [
            Assert(live & (given >= head) & (given < total)),
            Assert(dut.o_weights.payload.last == ((layer.row_beats == 1) | rows[0])),
            Assert(dut.o_weights.payload.data == dut.i_read.payload.data),
        ]
    pending = Mux(out.valid & ~stale, length, 0)
    # What an induction has to know.
    m.d.comb += [
        Assert(~asking | (rest + pending == left)),
        Assert(begun | (~out.valid & ~stale)),
        Assert(~asking | ~out.valid | stale | (out.payload.address == place)),
        Assert(~asking | (rest == 0)
               | (inside["bursts.place"] == (place + pending)[: config.address_bits])),
        Assert(~asking | quiet | ((rest == total) & (given == 0) & (~out.valid | stale))),
        Assert(~asking | ~stale | (out.valid & ~quiet)),
        Assert(asking | (rest == 0)),
        Assert(asking | ~quiet | ~out.valid),
        Assert(~out.valid | (at + length <= config.page)),
        Assert(~out.payload.write),
        Assert(~asking | ~out.valid | stale | (at + length == config.page) | (length == left)),
        Assert(~stopped | broken),
        Assert(~live | (inside["left"] == total - given)),
        Assert(~live | (inside["head_left"] == Mux(given < head, head - given, 0))),
        Assert(~live | (inside["beat"] == Mux(given < head, 0,
                                              Mux(layer.row_beats == 1, 0, rows[0])))),
        Assert(live | ((inside["left"] == 0) & (inside["head_left"] == 0))),
        Assert(~live | (given <= total)),
    ]  # fmt: skip
    stream_rules(m, out)
    cover(m, asking & idle & (layer.row_beats == 2) & (layer.rows > 3))
    # A layer ends, and the next one begins, while its command is not taken.
    cover(m, past(m, dut.drained & out.valid) & dut.start & out.valid)
    if config.gemv.trellis:
        came = Mux(given < layer.rows, 0, Mux(given < head, given - layer.rows, head - layer.rows))
        _scales(m, dut, inside, live, came)
    return m


def _scales(m, dut: WeightReader, inside, live, came):
    """Count the scales that are given; ``came`` is how many beats of them have come."""
    taken, count, level = Signal(4), inside["count"], inside["scales.level"]
    with m.If(transfer(dut.o_scales)):
        m.d.sync += taken.eq(taken + 1)
    with m.If(dut.start):
        m.d.sync += taken.eq(0)
    m.d.comb += [
        Assert(~inside["w_en"] | inside["scales.w_rdy"]),
        Assert(~transfer(dut.o_scales) | (live & (taken < 2 * came))),
        # What an induction has to know.
        Assert(live | ((level == 0) & (count == 0))),
        Assert(~live | (2 * level + count + taken == 2 * came)),
        Assert(count <= 2),
        Assert(inside["scales.inner_level"] <= (dut.config.columns + 1) // 2),
    ]
    with m.If(past(m, dut.o_scales.valid & ~dut.o_scales.ready & ~dut.start & ~dut.drain)):
        m.d.comb += Assert(dut.o_scales.valid)
    cover(m, transfer(dut.o_scales) & (taken == 4))


def banks(dut: SampleBanks) -> Module:
    """Record which banks hold a sample, and in which order they came."""
    m, inside = free_inputs(dut)
    free(m, *(getattr(dut, name) for name in ("start", "want", "discard", "release")))
    columns = AnyConst(len(dut.inputs))
    m.d.comb += [
        dut.inputs.eq(columns),
        Assume((dut.inputs != 0) & (dut.inputs <= dut.config.columns)),
        Assume(~dut.release | dut.full),
    ]
    group = dut.config.gemv.group
    beats = Signal.like(dut.inputs)
    m.d.comb += beats.eq((dut.inputs + (group - 1)) // group)
    held, bad, label = Signal(2), Signal(2), [Signal(2, name=f"held_{k}") for k in range(2)]
    bank, row, taken = Signal(), Signal(2), Signal(2)
    put = dut.o
    ends = dut.i.payload.last | (row + 1 == beats)
    with m.If(transfer(put)):
        m.d.comb += [
            Assert(~held.bit_select(bank, 1)),
            Assert((put.payload.bank == bank) & (put.payload.row == row)),
            Assert(put.payload.lanes.as_value() == dut.i.payload.lanes.as_value()),
            Assert(transfer(dut.i)),
        ]
        m.d.sync += row.eq(Mux(ends, 0, row + 1))
        with m.If(ends):
            m.d.sync += [
                held.bit_select(bank, 1).eq(1),
                bad.bit_select(bank, 1).eq(~(dut.i.payload.last & (row + 1 == beats))),
                bank.eq(~bank),
            ]
            for k in range(2):
                with m.If(bank == k):
                    m.d.sync += label[k].eq(dut.i.payload.label)
    with m.If(dut.release):
        m.d.sync += [held.bit_select(dut.bank, 1).eq(0), taken[0].eq(~taken[0])]
    with m.If(dut.discard):
        m.d.sync += row.eq(0)
    with m.If(dut.start):
        m.d.sync += [held.eq(0), bank.eq(0), row.eq(0), taken.eq(0)]
    m.d.comb += [
        Assert(dut.bank == taken[0]),
        Assert(dut.full == held.bit_select(dut.bank, 1)),
        Assert(~dut.full | (dut.bad == bad.bit_select(dut.bank, 1))),
        Assert(~dut.full | (dut.label == Mux(dut.bank, label[1], label[0]))),
        # Without what is discarded, every beat goes to the store.
        Assert(~transfer(dut.i) | dut.discard | transfer(put)),
        # What an induction has to know.
        Assert(held == (inside["full_0"] | (inside["full_1"] << 1))),
        Assert((inside["filled"] == bank) & (inside["row"] == row) & (row < beats)),
        Assert((held == 0) | held.all() | (held.bit_select(dut.bank, 1))),
        Assert((dut.bank == bank) == ((held == 0) | held.all())),
        Assert(inside["inside"] == (row != 0)),
    ]
    for k in range(2):
        m.d.comb += [
            Assert(~held[k] | (inside[f"bad_{k}"] == bad[k])),
            Assert(~held[k] | (inside[f"label_{k}"] == label[k])),
        ]
    cover(m, held.all() & ~bad[0] & bad[1], dut.release & held.all() & ~bad.any())
    return m


def table(dut: LayerTable) -> Module:
    """Add the entries of a table's rows, and say which rows are allowed."""
    m, inside = free_inputs(dut)
    config, given = dut.config, dut.i.payload
    free(m, dut.accepts, dut.index)
    fire, state, bad = transfer(dut.i), inside["fsm_state"], inside["bad"]
    layer = data.View(layer_layout(config), inside["layer"])
    # Of a row: entries of the rows before, their number, and the rows of the last one of them.
    first, count, rows = Signal(6), Signal(3), Signal.like(given.rows)
    total, before = Signal(6), Signal.like(given.rows)
    refused = Signal()
    starts = {name: Mux(dut.begins, 0, value) for name, value in (
        ("total", total), ("count", count), ("refused", refused),
    )}  # fmt: skip
    wrong = (
        (given.columns == 0) | (given.columns > config.columns)
        | (given.rows == 0) | (given.rows > config.columns)
        | ((starts["count"] != 0) & (given.columns != rows))
        | (starts["count"] == config.layers)
        | (given.last & (given.rows > config.classes)) | (given.shift > MOST_SHIFT)
        | (starts["total"] + given.entries > config.entries)
    )  # fmt: skip
    with m.If(fire):
        m.d.sync += [
            first.eq(starts["total"]),
            total.eq(starts["total"] + given.entries),
            count.eq(starts["count"] + 1),
            before.eq(rows),
            rows.eq(given.rows),
            refused.eq(starts["refused"] | wrong),
        ]
        # The numbers after a refused row mean nothing.
        with m.If(starts["refused"]):
            m.d.sync += [total.eq(0), count.eq(1)]
    between = dut.busy & (state == 0)
    with m.If(inside["$signature__en"]):
        m.d.comb += Assert(~refused & (layer.first == first))
    m.d.comb += [
        Assert(~dut.valid | (~refused & ~dut.busy)),
        Assert(~past(m, dut.busy) | dut.busy | (dut.valid == ~refused)),
        # What an induction has to know.
        Assert(dut.busy | ((state == 0) & ~bad & (inside["count"] == 0) & (inside["first"] == 0))),
        Assert(~between | (bad == refused)),
        Assert((state != 1) | (refused == (bad | inside["wrong_row"]))),
        Assert((state < 2) | (bad == refused)),
        Assert(refused | ~between | ((inside["count"] == count) & (inside["first"] == total)
                                     & (inside["before"] == rows))),
        Assert((state == 0) | (layer.rows == rows)),
        Assert(bad | (state == 0) | (
            (inside["count"] + 1 == count) & (inside["first"] == first)
            & (first + layer.entries == total) & (layer.first == first)
            & ((count == 1) | (inside["before"] == before))
        )),
        Assert(state <= 4),
        Assert(refused | ((count <= config.layers) & (total <= config.entries))),
        Assert(refused | (count != 0) | ~dut.busy),
        Assert((state == 0) | dut.busy),
    ]  # fmt: skip
    cover(m, dut.valid & (dut.layers == 2), past(m, dut.busy) & ~dut.busy & ~dut.valid)
    return m


def walk(dut: LayerWalk) -> Module:
    """Count the commands of a walk over a table that gives any layers."""
    m, inside = free_inputs(dut)
    config = dut.config
    free(m, dut.start, dut.hold, dut.ended, dut.given)
    kind, seed = AnyConst(2), AnyConst(len(dut.seed))
    state = inside["fsm_state"]
    active, waits = Signal(), Signal()
    number, at = Signal(range(config.layers)), Signal()
    first, count = Signal.like(dut.layer.first), Signal.like(dut.layer.entries)
    fire = transfer(dut.o)
    m.d.comb += [
        dut.kind.eq(kind),
        dut.seed.eq(seed),
        # Of a table, the last row is one of those that there are.
        Assume((number != config.layers - 1) | dut.given.last),
        Assume(~dut.start | ~active),
    ]
    with m.If(dut.start):
        m.d.sync += [active.eq(1), number.eq(0), at.eq(0)]
    with m.If(state == 2):
        m.d.sync += [first.eq(dut.given.first), count.eq(dut.given.entries)]
    with m.If(fire):
        m.d.comb += [
            Assert(active & ~waits),
            Assert(dut.o.payload.first == first[: len(dut.o.payload.first)]),
            Assert(dut.o.payload.count == count),
            Assert(dut.o.payload.seed == (seed + number)[: len(dut.seed)]),
            Assert(dut.index == number),
        ]
        m.d.sync += waits.eq(1)
    m.d.comb += [
        Assert(dut.fetch == (fire & (kind == 0))),
        Assert(~dut.done | (waits & dut.layer.last)),
        # What an induction has to know.
        Assert(active == (state != 0)),
        Assert(waits == (state == 4)),
        Assert(~active | (dut.index == number)),
        Assert((state < 3) | ((dut.layer.first == first) & (dut.layer.entries == count))),
        Assert((state < 3) | (number != config.layers - 1) | dut.layer.last),
        Assert(state <= 4),
    ]
    with m.If(waits & dut.ended):
        m.d.sync += [waits.eq(0), number.eq(number + 1)]
        with m.If(dut.layer.last):
            m.d.comb += Assert(dut.done)
            m.d.sync += [active.eq(0), number.eq(0)]
    cover(m, dut.done & (number == 1), fire & (number == 2))
    return m


PROOFS = (
    Proof(
        name="sparse_trainer_bursts",
        says="The bursts of a layer are its beats, each once and in order; none crosses a page, "
        "and none ends before one; none begins after an error, or while a command of an earlier "
        "layer is not taken. After its biases, each row has its beats, the last one with `last`, "
        "whatever the memory gives; a valid command is stable until its transfer.",
        component=WeightReader,
        config=SMALL,
        harness=bursts,
        depth=2,
        reach=40,
        mutants=(
            Mutant(
                "a burst crosses a page",
                "room.eq(self.page - place[:width])",
                "room.eq(self.page)",
                part=BurstReads,
            ),
            Mutant(
                "a burst is a beat short",
                "size.eq(Mux(rest < room, rest, room))",
                "size.eq(Mux(rest < room, rest, room - 1))",
                part=BurstReads,
            ),
            Mutant(
                "a row's beats are not counted from its start",
                "beat.eq(Mux(row_end, 0, beat + 1))",
                "beat.eq(beat + 1)",
            ),
            Mutant(
                "the biases are taken for rows",
                "beats.valid & ~in_head",
                "beats.valid",
            ),
            Mutant(
                "a burst begins before a command of an earlier layer is taken",
                "dirty & ~command.valid",
                "dirty",
                part=BurstReads,
            ),
        ),
    ),
    Proof(
        name="sparse_trainer_scales",
        says="With a trellis code the bursts of a layer are its beats, too, and the scales of its "
        "rows are given after they have come, each once, none of the layer before; the FIFO has "
        "room for all of them.",
        component=WeightReader,
        config=SCALED,
        harness=bursts,
        depth=2,
        reach=40,
        mutants=(
            Mutant("a scale is given twice", "count.eq(count - 1)", "count.eq(count)"),
            Mutant(
                "the rest of a layer's scales is given to the next layer",
                "with m.If(clear):",
                "with m.If(self.drain):",
            ),
            Mutant(
                "the scales are taken for biases",
                "in_biases = head_left > scale_beats",
                "in_biases = in_head",
            ),
            Mutant(
                "the scales are taken for rows",
                "beats.valid & ~in_head",
                "beats.valid & (head_left <= scale_beats)",
            ),
        ),
    ),
    Proof(
        name="sparse_trainer_samples",
        says="No beat is written to a bank whose sample is still needed; samples are used in the "
        "order in which they came, with their labels, and one of another length is marked; a "
        "beat that is not discarded is written once.",
        component=SampleBanks,
        config=SMALL,
        harness=banks,
        depth=2,
        reach=16,
        mutants=(
            Mutant("a full bank is written", "takes.eq(~full[filled] & ", "takes.eq("),
            Mutant(
                "a sample that is too long counts",
                "bad[filled].eq(ends != beat.payload.last)",
                "bad[filled].eq(~ends & beat.payload.last)",
            ),
            Mutant(
                "a sample does not begin with row 0",
                "row.eq(Mux(over, 0, row + 1))",
                "row.eq(row + 1)",
            ),
        ),
    ),
    Proof(
        name="sparse_trainer_layers",
        says="A layer that is stored has its entries after those of the layers before it, and "
        "within the memory: no entry belongs to two layers. Its columns are the rows of the layer "
        "before it; a table with another layer is not valid.",
        component=LayerTable,
        config=SMALL,
        harness=table,
        depth=2,
        reach=30,
        mutants=(
            Mutant(
                "entries are those of the layer before",
                "self._first.eq(self._first + layer.entries)",
                "self._first.eq(layer.entries)",
            ),
            Mutant(
                "entries after the end of the memory are allowed",
                "self._first + layer.entries > config.entries",
                "layer.entries > config.entries",
            ),
            Mutant(
                "a refused layer does not refuse the table",
                "self.valid.eq(~self._bad)",
                "self.valid.eq(1)",
            ),
            Mutant(
                "the columns are not those of the layer before",
                "(self._count != 0) & (layer.columns != self._before)",
                "(self._count == 0) & (layer.columns != self._before)",
            ),
        ),
    ),
    Proof(
        name="sparse_trainer_walk",
        says="A walk gives one command for each layer, in order, with the layer's entries and "
        "seed, and none before the layer before it has ended: an update touches each entry once.",
        component=LayerWalk,
        config=SMALL,
        harness=walk,
        depth=2,
        reach=24,
        mutants=(
            Mutant(
                "a layer is walked twice",
                "self.index.eq(self.index + 1)",
                "self.index.eq(self.index)",
            ),
            Mutant(
                "all layers have one seed",
                "command.seed.eq(self.seed + self.index)",
                "command.seed.eq(self.seed)",
            ),
            Mutant(
                "a command does not wait for the end of a layer",
                'with m.State("RUN"), m.If(self.ended):',
                'with m.State("RUN"):',
            ),
        ),
    ),
)
