"""Proofs of the streamed engine: what it reads of memory, and what it writes there."""

from dataclasses import replace

from amaranth.hdl import Assert, Assume, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.memory.burst_reads import BurstReads
from seedbed.hw.stream.beat_writer import BeatWriter
from seedbed.hw.stream.burst_reader import BurstReader
from seedbed.hw.stream.cache_exchange import CacheExchange
from seedbed.hw.stream.vector_input import VectorInput
from seedbed.hw.stream.weight_tuner import WeightTuner
from seedbed.sim.proofs.bench import cover, free, free_inputs, past, steady, stream_rules, transfer
from seedbed.sim.proofs.mac_array import fifo_invariants
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import StreamEngineConfig
from seedbed.spec.stream_engine import TUNED_BEATS

__all__ = ["PROOFS", "SMALL"]

SMALL = StreamEngineConfig(
    lanes=2, products=2, beat_bits=128, store=16, cache=16, records=4, block=1, context=5,
    columns=8, address_bits=8, burst=4, timeout_cycles=16, drain_cycles=8,
)  # fmt: skip


def bursts(dut: BurstReader) -> Module:
    """Follow the bursts of parts, whatever the memory gives."""
    m, inside = free_inputs(dut)
    out = dut.o_command
    rest, outstanding, quiet = (
        inside[f"bursts.{name}"] for name in ("rest", "outstanding", "quiet")
    )
    free(m, dut.start, dut.clear, dut.address)
    m.d.comb += [
        dut.beats.eq(AnySeq(3)),
        # A part is asked for when the one before has been taken.
        Assume(~(dut.start | dut.clear) | (dut.left == 0)),
        Assume(~(dut.start & dut.clear)),
    ]
    # Of the part: beats that are not asked for, and not given; where the next burst begins.
    left, missing = Signal.like(dut.left), Signal.like(dut.left)
    place = Signal.like(dut.address)
    length = out.payload.length + 1
    given = transfer(dut.o)
    # A burst of an earlier part, which failed, is not taken yet.
    stale = Signal()
    with m.If(transfer(out)):
        m.d.sync += stale.eq(0)
        with m.If(~stale):
            m.d.sync += [place.eq(place + length), left.eq(left - length)]
        m.d.comb += [
            Assert(stale | (out.payload.address == place)),
            Assert(stale | (length <= left)),
            Assert(~out.payload.write),
        ]
    with m.If(given):
        m.d.sync += missing.eq(missing - 1)
        m.d.comb += Assert(missing != 0)
    with m.If(dut.start | dut.clear):
        m.d.sync += [left.eq(0), stale.eq(out.valid & ~out.ready)]
    with m.If(dut.start):
        m.d.sync += [left.eq(dut.beats), missing.eq(dut.beats), place.eq(dut.address)]
    pending = Mux(out.valid & ~stale, length, 0)
    at = out.payload.address[:2]
    m.d.comb += [
        Assert(~out.valid | (at + length <= dut.config.burst)),
        # What an induction has to know.
        Assert(dut.left == missing),
        Assert(missing < 8),
        Assert(left < 8),
        Assert(~out.payload.write),
        Assert(~dut.failed | (rest == 0)),
        Assert(~dut.failed | ~quiet | ((outstanding == 0) & ~out.valid)),
        Assert(dut.failed | (rest + pending == left)),
        Assert(dut.failed | quiet | ((rest == missing) & (~out.valid | stale))),
        Assert(dut.failed | ~quiet | ~stale),
        Assert(dut.failed | ~quiet | (outstanding + rest + pending == missing)),
        Assert(stale | ~out.valid | (out.payload.address == place)),
        Assert(stale | ~out.valid | (length <= left)),
        Assert((rest == 0) | (inside["bursts.place"] == (place + pending)[: len(place)])),
        Assert(~stale | out.valid),
    ]
    stream_rules(m, out)
    # As many beats come as were asked for, of whatever memory.
    cover(m, past(m, given & (missing == 1)) & dut.failed & (outstanding == 2))
    cover(m, transfer(out) & (out.payload.length == 2) & (left == 4))
    return m


def beats(dut: BeatWriter) -> Module:
    """Follow a beat from where it is taken to its answer, whatever the memory does."""
    m, inside = free_inputs(dut)
    command, write, response = dut.o_command, dut.o_write, dut.i_response
    waits = past(m, dut.reads.valid & ~dut.reads.ready), past(m, Value.cast(dut.reads.payload))
    steady(m, dut.first, dut.end)
    m.d.comb += [
        dut.clear.eq(AnySeq(1)),
        Assume(~dut.clear | dut.idle),
        Assume(~dut.reads.payload.write),
        # Who reads keeps to the rules.
        Assume(~waits[0] | (dut.reads.valid & (Value.cast(dut.reads.payload) == waits[1]))),
    ]
    # The beat that was taken, and what has not been transferred of it.
    address, held = Signal.like(command.payload.address), Signal.like(write.payload.data)
    commands, datas = Signal(), Signal()
    # Beats that are not answered, while the memory has made no error.
    left = Signal(5)
    dirty, failed = inside["dirty"], dut.failed
    taken = transfer(dut.i) & ~failed
    with m.If(transfer(command) & command.payload.write):
        m.d.sync += commands.eq(0)
        m.d.comb += [
            Assert(commands),
            Assert(command.payload.address == address),
            Assert((address >= dut.first) & (address < dut.end)),
            Assert(command.payload.length == 0),
        ]
    with m.If(transfer(write)):
        m.d.sync += datas.eq(0)
        m.d.comb += [Assert(datas), Assert(write.payload.data == held), Assert(write.payload.last)]
    with m.If(taken):
        m.d.sync += [
            commands.eq(1), datas.eq(1), address.eq(dut.i.payload.address),
            held.eq(dut.i.payload.data),
        ]  # fmt: skip
        m.d.comb += [Assert(~commands & ~datas), Assert(~dirty)]
    with m.If(dirty):
        m.d.sync += left.eq(0)
    with m.Else():
        m.d.sync += left.eq(left + taken - (response.valid & (left != 0)))
    m.d.comb += [
        Assert(dirty | ~dut.idle | failed | ((left == 0) & ~commands & ~datas)),
        # What an induction has to know.
        Assert(dirty | (inside["outstanding"] == left)),
        Assert(inside["writes__valid"] == commands),
        Assert(write.valid == datas),
        Assert(~commands | (inside["writes__payload"][: len(address)] == address)),
        Assert(~datas | (write.payload.data == held)),
        Assert(~(commands | datas) | ((address >= dut.first) & (address < dut.end))),
    ]
    for port in (command, write):
        stream_rules(m, port)
    cover(m, taken & past(m, dirty) & (address != dut.i.payload.address) & (address != 0))
    cover(m, (left == 2) & ~dirty & commands & ~datas & dut.reads.valid)
    return m


def parts(dut: WeightTuner) -> Module:
    """Count the beats that are read and written, whatever the memory does."""
    m, inside = free_inputs(dut)
    steady(m, dut.first, dut.end, dut.seed, dut.delta)
    free(m, dut.start, dut.idle, dut.failed)
    left, level, address = Signal.like(dut.left), inside["beats.level"], inside["address"]
    fifo_invariants(m, inside, "beats", TUNED_BEATS)
    m.d.comb += [
        dut.left.eq(left),
        Assume(~dut.start | ~dut.busy),
        Assume(~dut.i.valid | (left != 0)),
        Assume(dut.end <= 1 << len(dut.first)),
    ]
    # The address after the last one that was read.
    until = Signal.like(address)
    with m.If(dut.start):
        m.d.sync += until.eq(dut.first)
    with m.If(dut.read):
        m.d.sync += [left.eq(dut.read_beats), until.eq(until + dut.read_beats)]
        m.d.comb += [
            Assert(left == 0),
            # It goes on where it ended, and all beats before have been written.
            Assert((dut.read_address == until) & (address == until)),
            Assert((dut.read_beats != 0) & (until + dut.read_beats <= dut.end)),
        ]
    with m.Elif(transfer(dut.i)):
        m.d.sync += left.eq(left - 1)
    # States are numbered in the order in which they are named.
    state = inside["fsm_state"]
    idle, part, ends, reads, writes = (state == k for k in range(5))
    m.d.comb += [
        Assert(~dut.o.valid | ((dut.o.payload.address == address) & (address < until))),
        Assert(~dut.o.valid | ((address >= dut.first) & (address < dut.end))),
        Assert(~dut.o.valid | ((left == 0) & ~dut.failed)),
        # What an induction has to know.
        Assert(state <= 4),
        Assert(idle | (inside["stop"] == dut.end)),
        Assert(idle | ((address >= dut.first) & (address <= until))),
        Assert(~(reads | writes) | (until <= dut.end)),
        Assert(~(idle | part | ends) | ((level == 0) & (left == 0))),
        Assert(~(part | ends) | (address == until)),
        Assert(~reads | (level + left == until - address)),
        Assert(~writes | ((left == 0) & (level == until - address))),
        Assert(until - address <= TUNED_BEATS),
    ]
    cover(m, dut.done & (until == dut.first + 2), transfer(dut.o) & (address != dut.first))
    return m


def rows(dut: CacheExchange) -> Module:
    """Count the words and the beats of rows that are saved or restored."""
    m, inside = free_inputs(dut)
    config = dut.config
    bits = (config.weights // config.products).bit_length() - 1
    steady(m, dut.save, dut.tokens, dut.length, dut.at, dut.row, dut.address)
    several = config.keys.bit_length() - 1
    steady(m, dut.first)
    free(m, dut.start, dut.idle, dut.data)
    words = Signal(4)
    m.d.comb += [
        words.eq(dut.length + (config.products - 1) >> config.products.bit_length() - 1),
        Assume((dut.tokens <= 3) & (dut.length != 0) & (dut.length <= 10 * config.products)),
    ]
    of_row = 1 + (words + (1 << bits) - 1 >> bits)
    token, word, base = inside["token"], inside["word"], inside["base"]
    state, second, ended = inside["fsm_state"], inside["second"], inside["ended"]
    # States are numbered in the order in which they are named.
    idle, shifts, reads, restores, ends, takes, gives = (state == k for k in range(7))
    m.d.comb += Assume(~dut.start | idle)
    # Beats that were taken or given since the start, and those of the rows that are done.
    moved, before = Signal(6), Signal(6)
    with m.If(dut.start):
        m.d.sync += [moved.eq(0), before.eq(0)]
    with m.Elif(transfer(dut.i) | transfer(dut.o)):
        m.d.sync += moved.eq(moved + 1)
    last = transfer(dut.i) & restores & (word + 1 == words)
    last |= transfer(dut.o) & second & ended
    with m.If(last):
        m.d.sync += before.eq(before + of_row)
    of_this = Mux(second | restores, 1 + (word >> bits), 0)
    # The last word of the beat that is given has been counted.
    given = Mux(second, 1 + (word - 1 >> bits), 0)
    active = shifts | restores | reads | takes | gives
    # Rows from that of bank 0 on.
    place = dut.first + token
    m.d.comb += Assert(idle | ends | (dut.bank == place[:several]))
    finished = past(m, ends) & idle
    m.d.comb += [
        Assert(~(past(m, ~idle) & idle) | (moved == before)),
        Assert(~finished | (token == dut.tokens)),
        Assert(
            ~transfer(dut.o) | (dut.o.payload.address == (dut.address + moved)[: len(dut.address)])
        ),
        Assert(~dut.write | (dut.place == (base + word * len(dut.word))[: len(dut.place)])),
        # What an induction has to know.
        Assert(state <= 6),
        Assert(idle | (token <= dut.tokens)),
        Assert(~active | (token < dut.tokens)),
        Assert(~ends | ((token == dut.tokens) & (moved == before))),
        Assert(idle | (dut.save == (reads | takes | gives)) | ends),
        Assert(idle | (before == (token * of_row)[:6])),
        Assert(
            idle
            | (inside["address"] == (dut.address + Mux(dut.save, moved, 0))[: len(dut.address)])
        ),
        Assert(idle | ends | (base == (dut.at + (place >> several) * dut.row)[: len(base)])),
        Assert(~(restores | reads | takes) | (word < words)),
        Assert(idle | ends | (dut.place == (base + word * len(dut.word))[: len(dut.place)])),
        Assert(~shifts | ((word == 0) & ~second & (moved == before))),
        Assert(~restores | (~second & (moved == before + of_this))),
        Assert(~(reads | takes) | (moved == before + of_this)),
        Assert(~gives | ((word != 0) & (word <= words) & (moved == before + given))),
        Assert(~gives | (ended == (word == words))),
        Assert(~gives | second | ended),
        Assert(~gives | ~second | ended | (word[:bits] == 0)),
    ]
    cover(m, finished & dut.save & (moved == 4), finished & ~dut.save & (moved == 9))
    return m


def vector_input(dut: VectorInput) -> Module:
    """Compare the beats of a packet with those that passes take."""
    m, inside = free_inputs(dut)
    free(m, dut.start, dut.pop, dut.final, dut.drop)
    awaited, given = inside["awaited"], dut.i.payload
    taken = transfer(dut.i)
    # A block has begun; passes have taken the beat that is their last one of it; a beat of the
    # packet that is the last one was not that one; beats have been discarded.
    begun, whole, differs, dropped = (
        Signal(name=n) for n in ("begun", "whole", "differs", "drops")
    )
    with m.If(dut.pop & dut.final):
        m.d.sync += whole.eq(1)
    with m.If((dut.pop & dut.final) != (taken & given.last)):
        m.d.sync += differs.eq(1)
    with m.If(dut.drop):
        m.d.sync += dropped.eq(1)
    with m.If(dut.start):
        m.d.sync += [begun.eq(1), whole.eq(0), differs.eq(0), dropped.eq(0)]
    values = Value.cast(dut.values)
    m.d.comb += [
        # A block begins when the packet of the one before has come, and passes take what is there,
        # up to the last beat that they take of the block. Then the rest is discarded.
        Assume(~dut.start | ~(awaited | dut.pop | dut.drop)),
        Assume(~dut.pop | (dut.valid & begun & ~whole & ~dropped & ~dut.drop)),
        Assert(~taken | ~dut.ended),
        # No pass waits for a packet that has ended; what it then has are zeros.
        Assert(~dut.ended | (dut.valid & (values == 0))),
        Assert(dut.ended | (values == Value.cast(given.values))),
        Assert(~(whole & dut.ended) | (dut.wrong == differs)),
        # What an induction has to know.
        Assert(~awaited | (dut.wrong == whole)),
        Assert(~awaited | (differs == whole)),
        Assert(awaited | whole | dropped | ~begun | (dut.wrong & differs)),
        Assert(begun | ~(awaited | whole)),
    ]
    cover(m, whole & dut.ended & ~dut.wrong)
    cover(m, whole & dut.ended & dut.wrong)
    return m


PROOFS = (
    Proof(
        name="stream_engine_input",
        says="A block has one packet of vectors, which comes whole; a pass never waits for more "
        "than it has, and the block is wrong unless passes have taken each beat and no other.",
        component=VectorInput,
        config=replace(SMALL, inputs=True),
        harness=vector_input,
        depth=2,
        reach=12,
        mutants=(
            Mutant("beats of the next packet are taken", "awaited & (self.pop", "(self.pop"),
            Mutant("a pass waits for ever", "given.valid | ~awaited", "given.valid"),
            Mutant(
                "a packet that is too short is right",
                "(~awaited | (last != self.final))",
                "(last & ~self.final & 0)",
            ),
            Mutant(
                "a packet that is too long is right", "last != self.final", "last & ~self.final"
            ),
        ),
    ),
    Proof(
        name="stream_engine_bursts",
        says="A part of memory is asked for once, in bursts that cross no boundary; as many beats "
        "are given as were asked for, whatever the memory gives; a valid command is stable until "
        "its transfer.",
        component=BurstReader,
        config=SMALL,
        harness=bursts,
        depth=2,
        reach=20,
        mutants=(
            Mutant(
                "a burst crosses a boundary",
                "room.eq(self.page - place[:width])",
                "room.eq(self.page)",
                part=BurstReads,
            ),
            Mutant(
                "bursts go on after an error",
                "with m.If(self.fault | self.stop):",
                "with m.If(self.stop):",
                part=BurstReads,
            ),
            Mutant(
                "beats go on after the last one",
                "Mux(self.failed, self.left != 0, bursts.o.valid)",
                "Mux(self.failed, 1, bursts.o.valid)",
            ),
        ),
    ),
    Proof(
        name="stream_engine_writes",
        says="A beat is written once, at its address, only where the command to load allows it; a "
        "valid command is stable, whoever reads; there is no answer to come when a record ends "
        "without an error.",
        component=BeatWriter,
        config=replace(SMALL, external=True),
        harness=beats,
        depth=2,
        reach=24,
        mutants=(
            Mutant(
                "beats are written anywhere",
                "(address < self.first) | (address >= self.end)",
                "address < self.first",
            ),
            Mutant(
                "a read takes the place of a write that was offered",
                "writes.valid & (held | ~reads.valid)",
                "writes.valid & ~reads.valid",
            ),
            Mutant(
                "a record ends before the answer",
                "~sending & (outstanding == 0)",
                "~sending",
            ),
        ),
    ),
    Proof(
        name="stream_engine_tuned",
        says="Beats of kept weights are read once each, in their order, and written at their "
        "addresses, in the range of the command; none is read from its write on, and none is "
        "written after an error.",
        component=WeightTuner,
        config=replace(SMALL, trellis=4, kept=4, tune=2),
        harness=parts,
        depth=2,
        reach=16,
        mutants=(
            Mutant(
                "a part ends after the range",
                "Mux(rest < part, rest, part)",
                "part",
            ),
            Mutant(
                "beats are written before all have come",
                "with m.If(self.left == 0):",
                "with m.If(beats.r_rdy):",
            ),
            Mutant(
                "beats are written after an error",
                "beats.r_rdy & ~self.failed",
                "beats.r_rdy",
            ),
        ),
    ),
    Proof(
        name="stream_engine_rows",
        says="Rows that are saved or restored have as many beats as their record asks for, each "
        "word goes to or comes from its own place in the cache, and addresses follow each other.",
        component=CacheExchange,
        config=replace(SMALL, external=True),
        harness=rows,
        depth=2,
        reach=60,
        mutants=(
            Mutant(
                "words of the next row are those of this one",
                "rows.base.eq(base),",
                "rows.base.eq(rows.base),",
            ),
            Mutant(
                "the last beat of a row is left",
                "whole = self.last_word | (self.part == parts - 1)",
                "whole = self.part == parts - 1",
            ),
        ),
    ),
    Proof(
        name="stream_engine_banks",
        says="The rows of as many tokens as there are banks have one place, each in its own bank, "
        "and those of the tokens after them the next one; the first row may be that of any bank.",
        component=CacheExchange,
        config=replace(SMALL, external=True, keys=2),
        harness=rows,
        depth=2,
        reach=60,
        mutants=(
            Mutant(
                "each row has another place",
                "Mux(last_bank, rows.base + self.row, rows.base)",
                "rows.base + self.row",
            ),
            Mutant("the first row is in bank 0", "self.bank.eq(self.first)", "self.bank.eq(0)"),
        ),
    ),
)
