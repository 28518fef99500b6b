"""Commands of an SDRAM: initialisation, refresh, rows that are opened ahead, reads and writes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.sdram_accesses import access_layout
from seedbed.hw.parts.shift_queue import ShiftQueue
from seedbed.spec import SdramConfig
from seedbed.spec.sdram import POWER_UP_REFRESHES

__all__ = ["SdramCommands", "pin_layout", "resource_layout"]

#: Accesses whose rows are open and that have not been issued.
QUEUE = 4
#: Refreshes that may be due.
DUE = 15
#: Address bit of a precharge of all banks.
ALL_BANKS = 1 << 10


def pin_layout(config: SdramConfig) -> data.StructLayout:
    """Return the layout of a command at the pins; 1 is active, also where a pin is low then."""
    bits = {
        "ras": 1,
        "cas": 1,
        "we": 1,
        "ba": config.figures.bank_bits,
        "a": config.figures.row_bits,
    }
    return data.StructLayout(bits)


def resource_layout() -> data.StructLayout:
    """Return a bit for each thing that an access may need.

    That is a place for the beat that is read, the beat to write, and a place for its response.
    """
    return data.StructLayout({"place": 1, "beat": 1, "answer": 1})


# Commands by their ras, cas and we.
_ACTIVATE, _READ, _WRITE = 0b001, 0b010, 0b110
_PRECHARGE, _REFRESH, _MODE = 0b101, 0b011, 0b111


class SdramCommands(wiring.Component):
    """Gives commands in an order and at times that the chip allows.

    The row of an access at ``i`` is looked up in a cycle, unless it is that of the access before
    it. The access then waits until its row is open and its data can be transferred, and enters a
    queue. Rows are opened and closed in the order of the accesses, while those of the queue are
    issued: a long burst is not interrupted where it changes to another bank. Nothing delays the
    queue, so that a user that pauses does not delay refreshes.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i : In(stream of :func:`~seedbed.hw.memory.sdram_accesses.access_layout`)
    available : In(:func:`resource_layout`)
        What accesses may need and none in the queue has claimed.
    claimed : Out(:func:`resource_layout`)
        What an access claims that enters the queue.
    o : Out(struct)
        The command of this cycle, :func:`pin_layout`; all 0 is none.
    read, write, first, last : Out(1)
        The command is a read, or a write; the first one of its beat, the last one of its burst.
    configured : Out(1)
        The chip is initialised.
    refreshed : Out(1)
        A pulse for each refresh.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(access_layout(config))),
                "available": In(resource_layout()),
                "claimed": Out(resource_layout()),
                "o": Out(pin_layout(config)),
                "read": Out(1),
                "write": Out(1),
                "first": Out(1),
                "last": Out(1),
                "configured": Out(1),
                "refreshed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.queue = queue = ShiftQueue(self.i.payload.shape(), QUEUE)
        waiting = _Waiting(config)
        m.d.comb += [
            queue.data.eq(waiting.access),
            queue.push.eq(waiting.pushed),
            self.claimed.eq(Mux(waiting.pushed, Value.cast(waiting.needs), 0)),
        ]
        due = self._refreshes(m)
        self._lookup(m, waiting)
        closable, quiet = self._banks(m, queue, waiting)
        column = self._column(m, queue, waiting)
        row = self._row(m, queue, waiting, due, closable, quiet)
        m.d.comb += self.o.eq(Mux(self.read | self.write, Value.cast(column), Value.cast(row)))
        return m

    def _refreshes(self, m):
        """Count the refreshes that are due."""
        config = self.config
        timer = Signal(range(config.refresh_cycles))
        tick = Signal()
        due = Signal(range(DUE + 1), init=POWER_UP_REFRESHES, name="due")
        m.d.comb += tick.eq(timer == 0)
        with m.If(tick | ~self.configured):
            m.d.sync += timer.eq(config.refresh_cycles - 1)
        with m.Else():
            m.d.sync += timer.eq(timer - 1)
        m.d.sync += due.eq(due + (tick & self.configured & (due != DUE)) - self.refreshed)
        return due

    def _lookup(self, m, waiting):
        """Compare the row at ``i`` with that of its bank; take the access into ``waiting``."""
        given, access, looked = self.i.payload, waiting.access, Signal(name="looked")
        banks = range(len(waiting.is_open))
        matches, opens = Signal(len(banks), name="matches"), Signal(name="bank_is_open")
        taken, changes = Signal(), (waiting.opens | waiting.closes).any()
        m.d.comb += [
            self.i.ready.eq((~waiting.waits | waiting.pushed) & (given.same | looked)),
            taken.eq(self.i.valid & self.i.ready),
        ]
        rows = [Signal(len(given.row), name=f"open_row_{k}") for k in banks]
        m.d.sync += [
            looked.eq(self.i.valid & ~taken & ~changes),
            matches.eq(
                Cat(waiting.is_open[k] & (given.bank == k) & (rows[k] == given.row) for k in banks)
            ),
            opens.eq((waiting.is_open & (Const(1) << given.bank)).any()),
            waiting.is_open.eq((waiting.is_open | waiting.opens) & ~waiting.closes),
            waiting.waits.eq(taken | (waiting.waits & ~waiting.pushed)),
        ]
        for k in banks:
            with m.If(waiting.opens[k]):
                m.d.sync += rows[k].eq(access.row)
        with m.If(taken):
            m.d.sync += [
                access.eq(given),
                waiting.bank.eq(Const(1) << given.bank),
                waiting.needs.place.eq(~given.write & given.first),
                waiting.needs.beat.eq(given.write & given.first),
                waiting.needs.answer.eq(given.write & given.last),
            ]
            with m.If(~given.same):
                m.d.sync += [waiting.hit.eq(matches.any()), waiting.closed.eq(~opens)]
        # A command of a single bank is for the access that waits.
        with m.If(waiting.opens.any()):
            m.d.sync += [waiting.hit.eq(1), waiting.closed.eq(0)]
        with m.If(waiting.closes.any()):
            m.d.sync += [waiting.hit.eq(0), waiting.closed.eq(1)]

    def _banks(self, m, queue, waiting):
        """Return whether the bank of the access may be precharged, and all; a cycle later."""
        config, chip, head, issue = self.config, self.config.figures, queue.head, waiting.issue
        cycles, burst = config.cycles, config.burst
        active = max(cycles(chip.ras), cycles(chip.rc) - cycles(chip.rp))
        written = burst - 1 + cycles(chip.wr)
        closable, quiet = Signal(name="closable"), Signal(name="quiet")
        free, ready = [], []
        for k in range(1 << chip.bank_bits):
            count = Signal(range(QUEUE + 1), name=f"queued_{k}")
            row, words = _timer(m, f"row_{k}", active), _timer(m, f"w_{k}", written)
            popped = issue & (head.bank == k)
            m.d.sync += count.eq(count + (waiting.pushed & waiting.bank[k]) - popped)
            # The result is used a cycle later.
            with m.If(popped):
                m.d.sync += words.eq(Mux(head.write, _after(written - 2), _after(burst - 2)))
            with m.If(waiting.opens[k]):
                m.d.sync += row.eq(_after(active - 2))
            free.append(count == 0)
            ready.append(row[-1] & words[-1])
        m.d.sync += [
            closable.eq(
                waiting.waits & ~waiting.pushed & (waiting.bank & Cat(free) & Cat(ready)).any()
            ),
            quiet.eq((queue.level == 0) & Cat(ready).all()),
        ]
        return closable, quiet

    def _column(self, m, queue, waiting):
        """Read and write: one access after the other, as the data pins allow."""
        config, head, issue = self.config, queue.head, waiting.issue
        burst = config.burst
        # A cycle is left between the last word that is read and the first one that is written.
        turn = config.latency + burst
        busy, reading = _timer(m, "busy", burst), _timer(m, "reading", turn + 1)
        access, issued = Signal(access_layout(config), name="issued_access"), Signal(name="issued")
        o = Signal(pin_layout(config), name="column_command")
        m.d.comb += [
            issue.eq((queue.level != 0) & busy[-1] & (~head.write | reading[-1])),
            queue.pop.eq(issue),
            self.read.eq(issued & ~access.write),
            self.write.eq(issued & access.write),
            self.first.eq(access.first),
            self.last.eq(access.last),
            o.cas.eq(1),
            o.we.eq(access.write),
            o.ba.eq(access.bank),
            o.a.eq(access.column << (burst.bit_length() - 1)),
        ]
        m.d.sync += [issued.eq(issue), access.eq(head)]
        with m.If(issue):
            m.d.sync += busy.eq(_after(burst - 1))
        with m.If(issue & ~head.write):
            m.d.sync += reading.eq(_after(turn))
        return o

    def _row(self, m, queue, waiting, due, closable, quiet):
        """Initialise the chip, refresh it, and open the row of each access."""
        config, chip, access = self.config, self.config.figures, waiting.access
        cycles = config.cycles
        power_up = max(1, cycles(1000 * config.power_up_us))
        wait = _timer(m, "wait", max(power_up, 64), init=power_up - 1)
        code, refreshes, may = Signal(3), Signal(name="refreshes"), Signal()
        o = Signal(pin_layout(config), name="row_command")
        missing = Value.cast(waiting.needs) & ~Value.cast(self.available)
        m.d.comb += may.eq(missing == 0)
        m.d.sync += [
            Cat(o.ras, o.cas, o.we).eq(code),
            o.ba.eq(access.bank),
            o.a.eq(Mux(waiting.closed, access.row, 0)),
            refreshes.eq(0),
        ]

        def then(time: float, less: int = 0):
            return wait.eq(_after(cycles(time) - 1 - less))

        with m.FSM():
            with m.State("PRECHARGE"):
                m.d.sync += o.a.eq(ALL_BANKS)
                with m.If(wait[-1] & quiet):
                    m.d.comb += [code.eq(_PRECHARGE), waiting.closes.eq(~0)]
                    m.d.sync += then(chip.rp)
                    m.next = "REFRESH"
            with m.State("REFRESH"), m.If(wait[-1]):
                m.d.comb += [code.eq(_REFRESH), self.refreshed.eq(1)]
                m.d.sync += then(chip.rfc)
                with m.If(due == 1):
                    m.next = "READY"
                    with m.If(~self.configured):
                        m.next = "MODE"
            with m.State("MODE"):
                m.d.sync += o.a.eq(config.mode)
                with m.If(wait[-1]):
                    m.d.comb += code.eq(_MODE)
                    m.d.sync += [then(chip.mrd), self.configured.eq(1)]
                    m.next = "READY"
            with m.State("READY"):
                pauses = Mux(waiting.waits, ~may, ~self.i.valid)
                with m.If(refreshes):
                    m.next = "PRECHARGE"
                with m.Else():
                    m.d.sync += refreshes.eq((due >= config.refresh_group) | ((due != 0) & pauses))
                with m.If(~refreshes & waiting.waits & wait[-1]):
                    with m.If(waiting.hit):
                        m.d.comb += waiting.pushed.eq((queue.level != QUEUE) & may)
                    with m.Elif(waiting.closed & ~waiting.issue):
                        m.d.comb += [code.eq(_ACTIVATE), waiting.opens.eq(waiting.bank)]
                        # The queue delays an access by a cycle.
                        m.d.sync += then(max(chip.rcd, chip.rrd), 1)
                    with m.Elif(closable & ~waiting.issue):
                        m.d.comb += [code.eq(_PRECHARGE), waiting.closes.eq(waiting.bank)]
                        m.d.sync += then(chip.rp)
        return o


class _Waiting:
    """The access that waits to enter the queue, and what is known of its row.

    ``hit`` and ``closed`` say that its row is open, and that none of its bank is. They stay for the
    access after it. ``opens`` and ``closes`` are banks whose rows are opened and closed.
    """

    def __init__(self, config: SdramConfig):
        banks = 1 << config.figures.bank_bits
        self.access = Signal(access_layout(config), name="access")
        self.needs = Signal(resource_layout(), name="needs")
        self.waits, self.pushed = Signal(name="waits"), Signal(name="pushed")
        self.bank, self.is_open = Signal(banks, name="bank"), Signal(banks, name="is_open")
        self.hit, self.closed = Signal(name="hit"), Signal(name="closed", init=1)
        self.opens, self.closes = Signal(banks, name="opens"), Signal(banks, name="closes")
        self.issue = Signal(name="issue")


def _timer(m: Module, name: str, most: int, init: int = 0) -> Signal:
    """Return a counter down to -1: its sign says that it has ended, without a comparison."""
    timer = Signal(range(-1, most), name=name, init=_after(init))
    with m.If(~timer[-1]):
        m.d.sync += timer.eq(timer - 1)
    return timer


def _after(cycles: int) -> int:
    """Return the value of a timer that has ended so many cycles after the next one."""
    return max(0, cycles) - 1
