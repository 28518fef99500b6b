"""Proofs of the forward cache: bursts cover a part, and every request comes to its end."""

from contextlib import suppress

from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.memory.bursts import Bursts
from seedbed.hw.memory.entry_converter import EntryConverter
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.sim.proofs.bench import cover, free_inputs, stream_rules, transfer
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import FORWARD_CACHE_KINDS, FORWARD_CACHE_STATUS, ForwardCacheConfig

__all__ = ["PROOFS", "at_state"]

DONE, MISS, RANGE, MEMORY, FRAME = range(len(FORWARD_CACHE_STATUS))
STORE, CLEAR = map(FORWARD_CACHE_KINDS.index, ("store", "clear"))


def _codes(state: Signal) -> dict[str, int]:
    """Return the code of each state of a state machine, by name."""
    codes = {}
    for code in range(1 << len(state)):
        with suppress(KeyError):
            codes[state.decoder(code).partition("/")[0]] = code
    return codes


def at_state(state: Signal, *names: str) -> Value:
    """Return whether a state machine is in one of the states of these names."""
    codes = _codes(state)
    return state.matches(*(codes[name] for name in names))


def bursts(dut: Bursts) -> Module:
    """Follow a part beat by beat, from its definition, and hold every command against it."""
    m, inside = free_inputs(dut)
    config, command = dut.config, dut.o.payload
    for value in (dut.start, dut.index, dut.skip, dut.rest, dut.write):
        m.d.comb += value.eq(AnySeq(len(value)))
    left = Signal(range(config.beats + 1))
    place = Signal.like(inside["first"])
    write = Signal()
    page = config.page
    m.d.comb += [
        Assume(~dut.start | ~dut.busy),
        Assume(dut.index < config.entries),
        Assume(dut.skip + dut.rest < config.beats),
        Assume((left == 0) | (dut.write == write)),
        Assert(dut.busy == (left != 0)),
    ]
    stream_rules(m, dut.o)
    with m.If(dut.o.valid):
        m.d.comb += [
            Assert(command.address == place),
            Assert(command.length < left),
            Assert((place % page) + command.length < page),
            Assert(command.write == write),
            # None is shorter than it must be.
            Assert((command.length + 1 == left) | ((place + command.length + 1) % page == 0)),
        ]
    with m.If(transfer(dut.o)):
        m.d.sync += [left.eq(left - command.length - 1), place.eq(place + command.length + 1)]
    with m.If(dut.start):
        m.d.sync += [
            left.eq(dut.rest + 1),
            place.eq(dut.index * config.beats + dut.skip),
            write.eq(dut.write),
        ]
    # What is not commanded yet comes after the command that waits.
    ahead = Mux(dut.o.valid, command.length + 1, 0)
    with m.If(inside["pending"]):
        m.d.comb += [
            Assert(left == ahead + inside["rest"] + 1),
            Assert(inside["address"] == (place + ahead)[: len(place)]),
        ]
    with m.Elif(dut.o.valid):
        m.d.comb += Assert(left == ahead)
    m.d.comb += Assert(place + left <= config.entries * config.beats)
    cover(m, transfer(dut.o) & inside["pending"] & (place % page != 0) & ~command.write)
    return m


def answers(dut: ForwardCache) -> Module:
    """Count what each request asks of memory and what is moved; look at both when it is answered.

    Memory and both sides' codes do anything at any time.
    """
    m, inside = free_inputs(dut)
    config = dut.config
    for port in (dut.o, dut.o_codes, dut.o_write, dut.o_command):
        stream_rules(m, port)
    control, converter = inside["fsm_state"], inside["converter.fsm_state"]
    stores, status, out_of_range = inside["stores"], inside["status"], inside["out_of_range"]
    full, left, idle = inside["converter.full"], inside["converter.left"], inside["converter.idle"]
    outstanding, busy = inside["monitor.writes"], inside["bursts.busy"]
    lost, timed_out = inside["converter.lost"], inside["monitor.timed_out"]
    command = dut.o_command.payload
    asks = Signal()
    wrong = Signal()
    substituted = Signal()
    # Memory gave something before the request that it was not asked for.
    distrusted = Signal()
    wide = range(4 * config.beats)
    commanded, moved, owed = Signal(wide), Signal(wide), Signal(wide)
    error = dut.i_response.payload.error
    with m.If(transfer(dut.i)):
        m.d.sync += [asks.eq(1), wrong.eq(0), commanded.eq(0), moved.eq(0)]
    with m.Elif(transfer(dut.o)):
        m.d.sync += asks.eq(0)
    with m.If(transfer(dut.o_command)):
        m.d.sync += commanded.eq(commanded + command.length + 1)
    answered = transfer(dut.i_response) & (owed != 0)
    m.d.sync += owed.eq(owed + (transfer(dut.o_command) & command.write) - answered)
    with m.If(timed_out & at_state(control, "LAST")):
        m.d.sync += owed.eq(0)
    # Bursts of a fetch that have not come to their end, as far as memory is waited for.
    reading = Signal(wide)
    read_ends = transfer(dut.i_read) & dut.i_read.payload.last & (reading != 0)
    m.d.sync += reading.eq(reading + (transfer(dut.o_command) & ~command.write) - read_ends)
    with m.If(timed_out & at_state(control, "DRAIN")):
        m.d.sync += reading.eq(0)
    # Of a fetch, the beats of the entry: memory's, or substitutes after a fault.
    steps = at_state(converter, "HEADS", "FETCH") & inside["converter.steps"]
    with m.If(transfer(dut.o_write) | steps):
        m.d.sync += moved.eq(moved + 1)
    fetches = at_state(converter, "HEADS", "FETCH")
    last = inside["converter.ends"]
    failed = (answered & error) | (
        fetches
        & transfer(dut.i_read)
        & (dut.i_read.payload.error | (dut.i_read.payload.last != last))
    )
    with m.If(failed):
        m.d.sync += wrong.eq(1)
    with m.If(at_state(control, "LOOK")):
        m.d.sync += distrusted.eq(inside["memory_error"] & ~out_of_range)
    with m.If(transfer(dut.i) | transfer(dut.o)):
        m.d.sync += [substituted.eq(0), distrusted.eq(0)]
    with m.Elif(steps & ~transfer(dut.i_read)):
        m.d.sync += substituted.eq(1)
    m.d.comb += [
        Assert(dut.i.ready == (~asks & ~at_state(control, "RESET", "SETTLE"))),
        Assert(asks == ~at_state(control, "RESET", "SETTLE", "IDLE")),
        Assert(~asks | ~(substituted | (lost & at_state(control, "LAST"))) | (status != DONE)),
        Assert(~dut.o.valid | asks),
        Assert(control < len(_codes(control))),
        Assert(converter < len(_codes(converter))),
        Assert(outstanding == owed),
        Assert(~asks | ~wrong | (status != DONE)),
    ]
    with m.If(dut.o.valid):
        m.d.comb += [
            Assert(owed == 0),
            Assert(reading == 0),
            Assert(commanded == moved),
            Assert((commanded == 0) | (commanded == config.beats) | (status == FRAME)),
        ]
        with m.If((status == DONE) & (inside["kind"] <= STORE)):
            m.d.comb += Assert(commanded == config.beats)
    # Nothing waits for itself: a port is open, or the next cycle is another.
    opened = [dut.i.ready, dut.i_codes.ready, outstanding != 0, fetches & dut.i_read.ready]
    offered = [p.valid for p in (dut.o, dut.o_codes, dut.o_write, dut.o_command)]
    goes = [
        inside["over"],
        inside["converter.loads"],
        inside["bursts.pending"],
        idle & ~busy & at_state(control, "CODES"),
        at_state(control, "RESET", "CLEAR", "SEEK", "LOOK"),
        # These end when memory has been silent for a while.
        at_state(control, "SETTLE", "DRAIN"),
    ]
    m.d.comb += Assert(sum([*opened, *offered, *goes], Const(0)) != 0)
    # What an induction has to know.
    part = Mux(at_state(converter, "CODES", "PEAKS", "HEADS", "FETCH"), left + 1, 0)
    rest = Mux(at_state(converter, "HEADS"), config.code_beats, 0)
    comes = moved + part + rest + (full & stores)
    ahead = Mux(inside["bursts.pending"], inside["bursts.rest"] + 1, 0)
    ahead = ahead + Mux(dut.o_command.valid, command.length + 1, 0) + commanded
    m.d.comb += [
        Assert(at_state(control, "CODES", "LAST") | (idle & ~busy & (outstanding == 0))),
        Assert(~distrusted | (at_state(control, "LAST", "DRAIN", "ANSWER") & (status == MEMORY))),
        Assert(~at_state(control, "LAST", "DRAIN") | out_of_range | (inside["kind"] <= STORE)),
        Assert(~at_state(control, "LAST", "DRAIN", "ANSWER") | stores | (status != FRAME)),
        Assert(idle | (inside["converter.writes"] == stores)),
        Assert(~dut.o_command.valid | (command.write == stores)),
        Assert(~at_state(converter, "CODES") | at_state(control, "CODES")),
        Assert(~at_state(converter, "PEAKS", "HEADS", "FETCH") | at_state(control, "LAST")),
        Assert(~at_state(converter, "PEAKS") | stores),
        Assert(~at_state(converter, "HEADS") | ~full),
        Assert(~at_state(control, "LOOK") | (inside["kind"] <= CLEAR) | out_of_range),
        Assert(~at_state(converter, "HEADS", "FETCH") | ~stores),
        Assert(~at_state(control, "CODES") | (stores & (status != RANGE) & ~out_of_range)),
        Assert(~at_state(control, "CODES", "LAST", "DRAIN") | (status != MISS)),
        Assert(~at_state(control, "LAST", "DRAIN") | (out_of_range == (status == RANGE))),
        Assert(owed <= commanded),
        Assert(~at_state(converter, "PEAKS", "HEADS") | (left < config.peak_beats)),
        Assert(~at_state(converter, "CODES", "FETCH") | (left < config.code_beats)),
        Assert(~at_state(converter, "CODES") | (status != FRAME)),
    ]
    # Until something goes wrong, each burst that is left has its last beat to come.
    page, bits = config.page, config.page.bit_length() - 1
    bursts_left = Mux(part != 0, inside["converter.column"] + part + rest + page - 1, 0) >> bits
    unsent = inside["bursts.address"][:bits] + inside["bursts.rest"] + page
    uncommanded = Mux(inside["bursts.pending"], unsent >> bits, 0) + dut.o_command.valid
    m.d.comb += [
        Assert(inside["monitor.reads"] == reading),
        Assert(at_state(control, "LAST", "DRAIN") | (reading == 0)),
        Assert(~stores | (reading == 0)),
        Assert(stores | (reading + uncommanded <= config.most_bursts(config.beats))),
        Assert(lost | ~at_state(control, "LAST") | stores | (bursts_left == reading + uncommanded)),
    ]
    with m.If(at_state(control, "CODES")):
        m.d.comb += [Assert(comes == config.code_beats), Assert(ahead == config.code_beats)]
    with m.If(at_state(control, "CLEAR", "SEEK", "LOOK")):
        m.d.comb += [Assert(comes == 0), Assert(ahead == 0), Assert(status == DONE)]
        m.d.comb += Assert((inside["kind"] == CLEAR) == at_state(control, "CLEAR"))
    with m.If(at_state(control, "LAST", "DRAIN", "ANSWER")):
        none = (status == RANGE) | (status == MISS) | (inside["kind"] == CLEAR) | distrusted
        whole = Mux(status == FRAME, config.code_beats, config.beats)
        m.d.comb += [Assert(comes == Mux(none, 0, whole)), Assert(ahead == Mux(none, 0, whole))]
    cover(
        m,
        transfer(dut.o) & stores & (status == DONE),
        transfer(dut.o) & (status == FRAME) & wrong,
        transfer(dut.o) & ~stores & (status == DONE) & (commanded != 0),
    )
    return m


CROSSES = Mutant("a burst crosses a boundary", "Mux(crosses, ~address[:width], rest)", "rest")
STAYS = Mutant(
    "the second burst begins where the first did",
    "address[width:].eq(address[width:] + 1)",
    "address[width:].eq(address[width:])",
)
WRONG_ENTRY = Mutant(
    "an entry begins elsewhere",
    "total - (value << place), factor + 1",
    "total - (value << place), factor - 1",
)
EAGER = Mutant(
    "a store is answered before memory has",
    "over.eq(converter.idle & ~bursts.busy & (monitor.writes == 0))",
    "over.eq(converter.idle & ~bursts.busy)",
)
FORGIVES = Mutant(
    "an error is not looked at",
    "monitor.answered & self.i_response.payload.error",
    "monitor.answered & 0",
)
OVERRUNS = Mutant(
    "the commands for peaks do not wait",
    "m.If(converter.idle & ~bursts.busy)",
    "m.If(converter.idle)",
)
BREAKS_OFF = Mutant(
    "a broken frame is not waited for",
    'with m.If(job.status != _STATUS["frame"]):',
    'with m.If(job.status == _STATUS["done"]):',
)
BELIEVES_LAST = Mutant(
    "a burst of another length is not noticed",
    "self._fetches & (read.payload.last != self._ends)",
    "self._fetches & 0",
    part=EntryConverter,
)
LEAVES_BEATS = Mutant(
    "beats of a burst that went wrong are not waited for",
    "drained.eq(monitor.silent & ((monitor.reads == 0) | timed_out))",
    "drained.eq(monitor.silent)",
)
TAKES_ANYTHING = Mutant(
    "a fetch goes on though nothing comes",
    "self._comes.eq(read.valid | self.lost)",
    "self._comes.eq(1)",
    part=EntryConverter,
)
TINY = ForwardCacheConfig(
    lengths=(9,),
    entries=2,
    block=8,
    beat_bits=32,
    store_lanes=4,
    fetch_lanes=8,
    burst=2,
    drain_cycles=2,
    timeout_cycles=3,
)

PROOFS = (
    Proof(
        name="forward_cache_bursts",
        says="The bursts of a part are its beats, each once and in order; none crosses a boundary, "
        "and none ends before one.",
        component=Bursts,
        config=ForwardCacheConfig(
            lengths=(20, 30),
            entries=11,
            block=8,
            peak_width=16,
            beat_bits=32,
            store_lanes=4,
            fetch_lanes=4,
            burst=4,
        ),
        harness=bursts,
        depth=2,
        mutants=(CROSSES, STAYS, WRONG_ENTRY),
    ),
    Proof(
        name="forward_cache_answers",
        says="A request has one answer, when as many beats have moved as were commanded and no "
        "burst is outstanding: all of an entry, none, or a broken frame's codes. None ends well "
        "after an error, a burst of another length or a beat that memory did not give, whatever "
        "memory does; and nothing waits for itself.",
        component=ForwardCache,
        config=TINY,
        harness=answers,
        depth=2,
        reach=28,
        mutants=(
            EAGER,
            FORGIVES,
            OVERRUNS,
            BREAKS_OFF,
            BELIEVES_LAST,
            LEAVES_BEATS,
            TAKES_ANYTHING,
        ),
    ),
)
