"""Proofs of the streamed engine: which record begins beside another."""

from dataclasses import replace

from amaranth.hdl import Assert, Assume, Cat, Module, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.stream.record_loops import matrix_flight
from seedbed.hw.stream.record_walker import RecordWalker
from seedbed.hw.stream.stream_layouts import is_given, record_kinds
from seedbed.sim.proofs.bench import cover, free, free_inputs, past, steady
from seedbed.sim.proofs.stream_engine_memory import SMALL
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec.engine_records import NUMBERS

__all__ = ["PROOFS"]


def begins(dut: RecordWalker) -> Module:
    """See when records begin."""
    m, _ = free_inputs(dut)
    free(
        m,
        *(
            getattr(dut, name)
            for name in ("start", "header", "record", "ended", "idle", "failed", "count")
        ),
    )
    # A record is there for a cycle before it begins.
    is_pass = past(m, record_kinds(dut.config, dut.record)["pass"])
    m.d.comb += Assert(~dut.begins | dut.idle | is_pass)
    cover(m, dut.begins & is_pass & ~dut.idle, dut.begins & ~is_pass)
    return m


def flights(dut: RecordWalker) -> Module:
    """See what is done while a matrix runs whose record has been left."""
    m, inside = free_inputs(dut)
    ports = "start", "record", "ended", "idle", "failed", "left", "matrix_done", "matrix_loading"
    free(m, *(getattr(dut, name) for name in ports))
    # A program and a block stay what they are.
    steady(m, dut.header, dut.count)
    record, vectors = dut.record, dut.config.vectors
    is_ = record_kinds(dut.config, record)
    # States are numbered in the order in which they are named.
    state = inside["fsm_state"]
    names = (
        "IDLE", "FETCH", "TAKE", "PLACE", "MULTIPLY", "BEGIN", "ASK", "SKIP", "ROW", "CONSTANTS",
        "WEIGHTS",
    )  # fmt: skip
    begins, runs_record = state == names.index("BEGIN"), state == len(names)
    leaves = dut.leaves & AnySeq(1)
    m.d.comb += [
        Assume(~dut.start | (state == names.index("IDLE"))),
        # A record comes in the cycle after it is taken.
        Assume(past(m, dut.take) | (Value.cast(record) == past(m, Value.cast(record)))),
        Assume(~is_["matrix"] | (dut.ended == (dut.matrix_done | leaves))),
    ]
    # A matrix that has begun and not ended: its first token, and where its results belong.
    runs, target = Signal(), Signal.like(record.target_place.place)
    token = Signal.like(inside["token"])
    with m.If(dut.begins & is_["matrix"]):
        m.d.sync += [
            runs.eq(1),
            token.eq(inside["token"]),
            target.eq(record.target_place.place),
        ]
        m.d.comb += Assert(~runs)
    with m.Elif(dut.matrix_done):
        m.d.sync += runs.eq(0)
    of_it = (inside["token"] >= token) & (inside["token"] < token + vectors)
    given = is_given(dut.config, record)
    quiet = (is_["pass"] & ~given) | is_["keep"]
    places = {name: record[f"{name}_place"] for name in ("number", "factor", "addend", "target")}
    has = {name: (place.place == target) & ~place.shared for name, place in places.items()}
    if dut.config.chains:
        # It has results as they come, or writes elsewhere.
        in_place = (record.numbers == NUMBERS.index("store")) & has["number"]
        other = quiet & (is_["keep"] | ~has["target"] | in_place)
    else:
        keeps = is_["keep"] & ~has["number"]
        other = quiet & (keeps | ~Cat(has.values()).any())
    matrix_runs = runs_record & is_["matrix"]
    ends = inside["ends"] & ~dut.failed
    rows = [NUMBERS.index(name) for name in ("token", "position")]
    of_table = is_["pass"] & Cat(record.numbers == k for k in rows).any()
    m.d.comb += [
        Assert(~(dut.begins & runs) | (quiet & ~of_it) | other),
        Assert(~(dut.read & runs) | (is_["matrix"] & begins & (dut.left == 0))),
        Assert(~(dut.follows & of_it) | ~has["number"]),
        Assert(~(dut.done & runs) | dut.matrix_done),
        Assert(dut.flight == (runs & ~matrix_runs)),
        # What an induction has to know.
        Assert(state <= len(names)),
        Assert(~(runs_record & inside["may_leave"]) | (is_["matrix"] & ~given & ~ends)),
        Assert(~matrix_runs | (runs & (inside["token"] == token))),
        Assert(~matrix_runs | (record.target_place.place == target)),
        Assert(~dut.flight | (inside["flight_token"] == token)),
        Assert(~dut.flight | (inside["flight_target"] == target)),
        Assert((state <= names.index("PLACE")) | ~inside["blocked"]),
        Assert((state < names.index("ROW")) | runs_record | of_table),
        Assert(~runs | matrix_runs | (state != names.index("IDLE"))),
    ]
    cover(m, dut.begins & is_["pass"] & runs, dut.begins & runs & of_it, dut.read & runs)
    return m


PROOFS = (
    Proof(
        name="stream_engine_begins",
        says="A record of another kind than a pass begins when no result of a pass is on its way.",
        component=RecordWalker,
        config=SMALL,
        harness=begins,
        depth=1,
        reach=12,
        mutants=(
            Mutant(
                "a matrix begins before its vector has been written",
                "self.idle | walk.does",
                "1 | walk.does",
            ),
        ),
    ),
    Proof(
        name="stream_engine_flights",
        says="While a matrix runs whose record has been left, no other matrix begins, and no "
        "record of its tokens but one with other vectors than its results; these are no vectors "
        "that are read ahead; memory is asked only for the rows of the next matrix, when those of "
        "this one have come; a program ends after it.",
        component=RecordWalker,
        config=replace(SMALL, vectors=2, block=5),
        harness=flights,
        depth=3,
        reach=18,
        mutants=(
            Mutant(
                "records of its tokens do not wait",
                "(quiet & (~same | apart)) | keeps",
                "quiet | keeps",
                part=matrix_flight,
            ),
            Mutant(
                "its results are kept before they have been written",
                'is_["keep"] & ~has["number"]',
                'is_["keep"]',
                part=matrix_flight,
            ),
            Mutant(
                "words of memory are asked for between its rows",
                " & ~walk.words",
                "",
                part=matrix_flight,
            ),
            Mutant(
                "the next matrix begins before its end",
                "walk.asked & ~walk.flight &",
                "walk.asked &",
            ),
            Mutant(
                "rows are asked for before those of this one have come",
                "& ~walk.asked & (self.left == 0)",
                "& ~walk.asked",
            ),
            Mutant(
                "its results are vectors of the next matrix too early",
                ' & ~has["number"]))',
                "))",
                part=matrix_flight,
            ),
            Mutant(
                "a program ends before it",
                "self.ended & ~(walk.flight & walk.ends)",
                "self.ended",
            ),
        ),
    ),
    Proof(
        name="stream_engine_chains",
        says="So it is with one token, whose results are read as they come: no record writes in "
        "their place but one that reads them.",
        component=RecordWalker,
        config=replace(SMALL, block=5),
        harness=flights,
        depth=3,
        reach=18,
        mutants=(
            Mutant(
                "a record writes where results are yet to come",
                '| ~has["target"] | (walk.numbers["store"] & has["number"])',
                '| ~has["target"] | has["number"]',
                part=matrix_flight,
            ),
        ),
    ),
)
