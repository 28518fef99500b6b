"""Commands of an SDRAM: initialisation, refresh, rows that are opened ahead, reads and writes."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.sdram_accesses import access_layout
from seedbed.hw.parts.shift_queue import ShiftQueue
from seedbed.spec import SdramConfig
from seedbed.spec.sdram import POWER_UP_REFRESHES

__all__ = ["SdramCommands", "pin_layout"]

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


# Commands by their ras, cas and we.
_ACTIVATE, _READ, _WRITE = 0b001, 0b010, 0b110
_PRECHARGE, _REFRESH, _MODE = 0b101, 0b011, 0b111


class SdramCommands(wiring.Component):
    """Gives commands in an order and at times that the chip allows.

    An access waits until its row is open and its data can be transferred, and enters a queue. Rows
    are opened and closed in the order of the accesses, while those of the queue are issued: a long
    burst is not interrupted where it changes to another bank. Nothing delays the queue, so that a
    user that pauses does not delay refreshes.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i : In(stream of :func:`~seedbed.hw.memory.sdram_accesses.access_layout`)
    may : In(1)
        The access at ``i`` can be transferred: there is a place for its beat, or its beat is there.
    pushed : Out(1)
        It enters the queue.
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
                "may": In(1),
                "pushed": Out(1),
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
        m.submodules.queue = queue = ShiftQueue(self.i.payload.shape(), QUEUE)
        issue, quiet = Signal(name="issue"), Signal(name="quiet")
        due = self._refreshes(m)
        free, ready = self._banks(m, queue.head, issue)
        self._issue(m, queue, issue)
        m.d.comb += [
            quiet.eq((queue.level == 0) & Cat(ready).all()),
            queue.data.eq(self.i.payload),
            queue.push.eq(self.pushed),
            self.i.ready.eq(self.pushed),
        ]
        self._open(m, queue, issue, quiet, due, free, ready)
        return m

    def _refreshes(self, m):
        """Count the refreshes that are due."""
        config = self.config
        timer = Signal(range(config.refresh_cycles))
        tick = Signal()
        due = Signal(range(DUE + 1), init=POWER_UP_REFRESHES)
        m.d.comb += tick.eq(timer == 0)
        with m.If(tick | ~self.configured):
            m.d.sync += timer.eq(config.refresh_cycles - 1)
        with m.Else():
            m.d.sync += timer.eq(timer - 1)
        m.d.sync += due.eq(due + (tick & self.configured & (due != DUE)) - self.refreshed)
        return due

    def _banks(self, m, head, issue):
        """Return for each bank whether no access is queued, and whether it may be precharged."""
        config, chip = self.config, self.config.figures
        cycles, burst = config.cycles, config.burst
        active = max(cycles(chip.ras), cycles(chip.rc) - cycles(chip.rp))
        written = burst - 1 + cycles(chip.wr)
        self._activated = Signal(1 << chip.bank_bits)
        free, ready = [], []
        for k in range(1 << chip.bank_bits):
            count = Signal(range(QUEUE + 1), name=f"queued_{k}")
            row, words = (
                Signal(range(active), name=f"row_{k}"),
                Signal(range(written), name=f"w_{k}"),
            )
            popped = issue & (head.bank == k)
            pushed = self.pushed & (self.i.payload.bank == k)
            m.d.sync += [
                count.eq(count + pushed - popped),
                row.eq(Mux(row == 0, 0, row - 1)),
                words.eq(Mux(words == 0, 0, words - 1)),
            ]
            with m.If(popped):
                m.d.sync += words.eq(Mux(head.write, written, burst) - 1)
            with m.If(self._activated[k]):
                m.d.sync += row.eq(active - 1)
            free.append(count == 0)
            ready.append((row == 0) & (words == 0))
        return free, ready

    def _issue(self, m, queue, issue):
        """Read and write: one access after the other, as the data pins allow."""
        config, head = self.config, queue.head
        burst = config.burst
        # A cycle is left between the last word that is read and the first one that is written.
        turn = config.latency + burst
        busy = Signal(range(burst))
        reading = Signal(range(turn + 1))
        m.d.comb += [
            issue.eq((queue.level != 0) & (busy == 0) & (~head.write | (reading == 0))),
            queue.pop.eq(issue),
            self.read.eq(issue & ~head.write),
            self.write.eq(issue & head.write),
            self.first.eq(head.first),
            self.last.eq(head.last),
        ]
        m.d.sync += [
            busy.eq(Mux(issue, burst - 1, Mux(busy == 0, 0, busy - 1))),
            reading.eq(Mux(self.read, turn, Mux(reading == 0, 0, reading - 1))),
        ]
        with m.If(issue):
            m.d.comb += [
                self.o.cas.eq(1),
                self.o.we.eq(head.write),
                self.o.ba.eq(head.bank),
                self.o.a.eq(head.column << (burst.bit_length() - 1)),
            ]

    def _command(self, m, code: int, **fields):
        """Give a command, in a cycle without a read or write."""
        m.d.comb += [self.o[name].eq(code >> k & 1) for k, name in enumerate(("ras", "cas", "we"))]
        m.d.comb += [self.o[name].eq(value) for name, value in fields.items()]

    def _open(self, m, queue, issue, quiet, due, free, ready):
        """Initialise the chip, refresh it, and open the row of each access."""
        config, chip, access = self.config, self.config.figures, self.i.payload
        cycles = config.cycles
        power_up = max(1, cycles(1000 * config.power_up_us))
        wait = Signal(range(max(power_up, 64)), init=power_up - 1)
        is_open = Signal(1 << chip.bank_bits)
        rows = Array(Signal(chip.row_bits, name=f"open_row_{k}") for k in range(len(is_open)))
        hit, idle, bank = Signal(), Signal(), Const(1) << access.bank
        waits = ~self.i.valid | ~self.may
        refreshes = (due >= config.refresh_group) | ((due != 0) & waits)
        m.d.comb += [
            hit.eq((is_open & bank).any() & (rows[access.bank] == access.row)),
            idle.eq((wait == 0) & ~issue),
        ]
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)

        def then(time: float, less: int = 0):
            return wait.eq(max(0, cycles(time) - 1 - less))

        with m.FSM():
            with m.State("PRECHARGE"), m.If(idle & quiet):
                self._command(m, _PRECHARGE, a=ALL_BANKS)
                m.d.sync += [then(chip.rp), is_open.eq(0)]
                m.next = "REFRESH"
            with m.State("REFRESH"), m.If(idle):
                self._command(m, _REFRESH)
                m.d.comb += self.refreshed.eq(1)
                m.d.sync += then(chip.rfc)
                with m.If(due == 1):
                    m.next = "READY"
                    with m.If(~self.configured):
                        m.next = "MODE"
            with m.State("MODE"), m.If(idle):
                self._command(m, _MODE, a=config.mode)
                m.d.sync += [then(chip.mrd), self.configured.eq(1)]
                m.next = "READY"
            with m.State("READY"):
                with m.If(refreshes):
                    m.next = "PRECHARGE"
                with m.Elif(self.i.valid & hit & (wait == 0)):
                    m.d.comb += self.pushed.eq((queue.level != QUEUE) & self.may)
                with m.Elif(self.i.valid & ~hit & idle):
                    with m.If(~(is_open & bank).any()):
                        self._command(m, _ACTIVATE, ba=access.bank, a=access.row)
                        m.d.comb += self._activated.eq(bank)
                        m.d.sync += [
                            is_open.eq(is_open | bank),
                            rows[access.bank].eq(access.row),
                            # The queue delays an access by a cycle.
                            then(max(chip.rcd, chip.rrd), 1),
                        ]
                    with m.Elif((Cat(free) & Cat(ready) & bank).any()):
                        self._command(m, _PRECHARGE, ba=access.bank)
                        m.d.sync += [then(chip.rp), is_open.eq(is_open & ~bank)]
        return m
