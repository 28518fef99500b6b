"""Proofs of the SDRAM controller: its commands keep to the chip's times, and are never blocked."""

from dataclasses import replace

from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from seedbed.hw.memory.sdram_accesses import SdramAccesses, access_layout
from seedbed.hw.memory.sdram_commands import QUEUE, SdramCommands
from seedbed.sim.proofs.bench import cover, free_inputs, past, transfer
from seedbed.sim.proofs.clock_crossing import CROSSING
from seedbed.sim.prove import Mutant, Proof
from seedbed.spec import SdramChip, SdramConfig

__all__ = ["PROOFS"]

#: A chip of two banks whose times are 2 to 7 cycles.
CHIP = SdramChip(
    rcd=20, rp=20, ras=40, rc=70, rrd=30, wr=20, rfc=40, mrd=30, refresh=150, row_bits=11,
    column_bits=3, bank_bits=1,
)  # fmt: skip
CONFIG = SdramConfig(
    clock_mhz=100, beat_bits=32, refresh_group=2, power_up_us=0, retention=0, other=CHIP
)
#: Cycles that are counted since a command.
OLDEST = 15


def _age(m: Module, event: Value, name: str) -> Signal:
    """Return how many cycles ago something happened last, up to ``OLDEST``."""
    age = Signal(range(OLDEST + 1), name=f"age_{name}", init=OLDEST)
    m.d.sync += age.eq(Mux(event, 1, Mux(age == OLDEST, OLDEST, age + 1)))
    return age


def _queue(m: Module, dut: SdramCommands, inside: dict[str, Signal]) -> list:
    """Return the entries of the queue with their valid bits; assert that their rows are open."""
    m.d.comb += Value.cast(dut.available).eq(AnySeq(3))
    payload, pending = Value.cast(dut.i.payload), past(m, dut.i.valid & ~dut.i.ready)
    kept = dut.i.valid & (payload == past(m, payload))
    layout = access_layout(dut.config)
    last = layout(Value.cast(inside["access"]))
    same = (dut.i.payload.bank == last.bank) & (dut.i.payload.row == last.row)
    # Of the accesses: the proof sdram_accesses.
    m.d.comb += [Assume(~pending | kept), Assume(~dut.i.valid | ~dut.i.payload.same | same)]
    level = inside["queue.level"]
    entries = [(level > k, layout(Value.cast(inside[f"queue.entry_{k}"]))) for k in range(QUEUE)]
    # States in the order of their first mention: precharge, refresh, ready, mode.
    state = inside["fsm_state"]
    closed = (state == 1) | (state == 3)
    m.d.comb += [
        Assert(level <= QUEUE),
        Assert(~closed | ((level == 0) & (inside["is_open"] == 0))),
    ]

    def opened(access):
        """Return whether the bank of an access has an open row, and whether it is that of it."""
        row = Mux(access.bank, *(inside[f"open_row_{k}"] for k in (1, 0)))
        is_open = inside["is_open"].bit_select(access.bank, 1)
        return is_open, is_open & (row == access.row)

    for valid, entry in entries:
        m.d.comb += Assert(~valid | opened(entry)[1])
    # What is stored of the rows is that of today's.
    is_open, hit = opened(last)
    given_open, given_hit = opened(dut.i.payload)
    looked = inside["looked"]
    m.d.comb += [
        Assert(~inside["waits"] | (inside["bank"] == Const(1) << last.bank)),
        Assert(inside["closed"] == ~is_open),
        Assert(inside["hit"] == hit),
        Assert(~looked | (dut.i.valid & pending)),
        Assert(~looked | (inside["matches"].any() == given_hit)),
        Assert(~looked | (inside["bank_is_open"] == given_open)),
    ]
    for bank in range(2):
        count = sum(valid & (entry.bank == bank) for valid, entry in entries)
        m.d.comb += Assert(inside[f"queued_{bank}"] == count)
    return entries


def rows(dut: SdramAccesses) -> Module:
    """Compare each access with the one before it, and its end with the burst's."""
    m, inside = free_inputs(dut)
    access, fire = dut.o.payload, transfer(dut.o)
    before, column = Signal.like(inside["address"]), len(access.column)
    with m.If(fire):
        m.d.sync += before.eq(inside["address"])
    place = Cat(access.bank, access.row)
    m.d.comb += [
        Assert(~(dut.o.valid & access.same) | (place == before[column:])),
        Assert(~dut.o.valid | (access.last == (inside["left"] == 0))),
        # An invariant that the induction needs.
        Assert(
            ~(dut.o.valid & access.same)
            | ((inside["address"] == (before + 1)[: len(before)]) & ~before[:column].all())
        ),
    ]
    cover(m, fire & access.same & access.last, fire & ~access.same & (place == before[column:]))
    return m


def times(dut: SdramCommands) -> Module:
    """Decode the commands, and compare the time since earlier ones with the chip's."""
    m, inside = free_inputs(dut)
    chip, config, o = dut.config.figures, dut.config, dut.o
    _queue(m, dut, inside)
    code = Cat(o.ras, o.cas, o.we)
    activate, precharge, refresh, mode = (code == k for k in (0b001, 0b101, 0b011, 0b111))
    read, write, any_command = code == 0b010, code == 0b110, code != 0
    every = o.a[10]
    cycles = config.cycles
    since = {"refresh": _age(m, refresh, "refresh"), "mode": _age(m, mode, "mode")}
    since |= {"read": _age(m, read, "read"), "access": _age(m, read | write, "access")}
    since |= {"activate": _age(m, activate, "activate")}
    is_open = Signal(2)
    for k in range(2):
        this = o.ba == k
        closes = precharge & (every | this)
        activated = _age(m, activate & this, f"activate_{k}")
        precharged = _age(m, closes & is_open[k], f"precharge_{k}")
        wrote, was_read = _age(m, write & this, f"write_{k}"), _age(m, read & this, f"read_{k}")
        with m.If(closes):
            m.d.sync += is_open[k].eq(0)
        with m.If(activate & this):
            m.d.sync += is_open[k].eq(1)
        m.d.comb += [
            Assert(~((read | write) & this) | is_open[k]),
            Assert(~((read | write) & this) | (activated >= cycles(chip.rcd))),
            Assert(~(activate & this) | ~is_open[k]),
            Assert(~(activate & this) | (activated >= cycles(chip.rc))),
            Assert(~((activate & this) | refresh | mode) | (precharged >= cycles(chip.rp))),
            Assert(~(refresh | mode) | ~is_open[k]),
            Assert(~(closes & is_open[k]) | (activated >= cycles(chip.ras))),
            Assert(~closes | (wrote >= config.burst - 1 + cycles(chip.wr))),
            Assert(~closes | (was_read >= config.burst)),
            # An invariant that the induction needs: a command is output a cycle later.
            Assert(is_open[k] == past(m, inside["is_open"][k])),
        ]
    m.d.comb += [
        Assert(~any_command | (since["refresh"] >= cycles(chip.rfc))),
        Assert(~any_command | (since["mode"] >= cycles(chip.mrd))),
        Assert(~activate | (since["activate"] >= cycles(chip.rrd))),
        Assert(~(read | write) | (since["access"] >= config.burst)),
        Assert(~write | (since["read"] >= config.latency + config.burst + 1)),
    ]
    cover(m, write & (since["read"] < 8), activate & (since["activate"] < 8))
    return m


def progress(dut: SdramCommands) -> Module:
    """Count the cycles in which an access of the queue waits, whatever the user does."""
    m, inside = free_inputs(dut)
    _queue(m, dut, inside)
    config = dut.config
    level, issue = inside["queue.level"], inside["issue"]
    most = config.latency + config.burst
    waited = Signal(range(most + 4))
    m.d.sync += waited.eq(Mux(issue | (level == 0), 0, waited + 1))
    due = inside["due"]
    m.d.comb += [
        Assert(waited <= most),
        # Invariants that the induction needs.
        Assert(inside["busy"] < config.burst - 1),
        Assert(inside["reading"] < most),
        Assert((past(m, due) < config.refresh_group) | ~inside["pushed"]),
    ]
    cover(m, (waited == most) & issue, (due >= config.refresh_group) & (level == 2))
    return m


PROOFS = (
    CROSSING,
    Proof(
        name="sdram_accesses",
        says="An access that names the row of the access before it has that row, and the last "
        "access of a burst is marked.",
        component=SdramAccesses,
        config=SdramConfig(beat_bits=256, other=replace(CHIP, column_bits=5)),
        harness=rows,
        depth=2,
        reach=12,
        mutants=(
            Mutant("the end of a row is missed", "same.eq(~access.column.all())", "same.eq(1)"),
            Mutant("a burst ends early", "last.eq(left == 1)", "last.eq(left == 2)"),
        ),
    ),
    Proof(
        name="sdram_times",
        says="Every command has the distances to earlier ones that the chip needs (tRCD, tRP, "
        "tRAS, tRC, tRRD, tWR, tRFC, tMRD), and reads and writes are of open rows and do not "
        "overlap at the data pins.",
        component=SdramCommands,
        config=CONFIG,
        harness=times,
        depth=12,
        reach=62,
        mutants=(
            Mutant(
                "a row is closed too early",
                "active = max(cycles(chip.ras), cycles(chip.rc) - cycles(chip.rp))",
                "active = 2",
            ),
            Mutant(
                "no cycle between read and write",
                "turn = config.latency + burst",
                "turn = config.latency + burst - 1",
            ),
        ),
    ),
    Proof(
        name="sdram_progress",
        says="An access in the queue is issued within a latency and a burst after the one before, "
        "whatever the user does, and none enters from the cycle on after that in which a group of "
        "refreshes is due.",
        component=SdramCommands,
        config=CONFIG,
        harness=progress,
        depth=10,
        reach=85,
        mutants=(
            Mutant(
                "the queue waits for data",
                "(queue.level != 0) & busy[-1]",
                "(queue.level != 0) & self.available.place & busy[-1]",
            ),
        ),
    ),
)
