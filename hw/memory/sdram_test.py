"""Self-test of a memory: address lines, data lines, and whether it keeps what was written."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.memory.memory_port import memory_members, user_members
from seedbed.spec import SdramConfig

__all__ = ["SdramTest", "status_layout"]


def status_layout(config: SdramConfig) -> data.StructLayout:
    """Return the layout of the status, see :class:`~seedbed.hw.memory.sdram.Sdram`."""
    return data.StructLayout({"done": 1, "failed": 1, "lines": config.address_bits, "bits": 16})


class SdramTest(wiring.Component):
    """Tests a memory once after a reset, and then connects its user.

    A beat with a pattern of its own is written to each address with one bit set, and then to
    address 0. After ``config.retention`` refreshes all are read. A second pass has the complements.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i_command, i_write, o_response, o_read
        For the user, see :func:`~seedbed.hw.memory.memory_port.memory_members`.
    o_command, o_write, i_response, i_read
        For the memory.
    configured, refreshed : In(1)
        The memory is initialised; a pulse for each refresh.
    status : Out(struct)
        :func:`status_layout`.
    """

    def __init__(self, config: SdramConfig):
        self.config = config
        members = memory_members(config.address_bits, config.beat_bits)
        members |= user_members(config.address_bits, config.beat_bits)
        members |= {"configured": In(1), "refreshed": In(1), "status": Out(status_layout(config))}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        command, write, read = self.o_command, self.o_write, self.i_read
        # Address bit k, or address 0 for k = address_bits; in the second pass, the complements.
        self._k, self._inverse = Signal(range(config.address_bits + 1)), Signal()
        # The burst's command and its beat were transferred.
        self._asked, self._sent = Signal(), Signal()
        address, pattern = Signal(config.address_bits), Signal(config.beat_bits)
        wrong, self._wrong = Signal(config.beat_bits), Signal(16)
        m.d.comb += [
            address.eq(Const(1) << self._k),
            pattern.eq(Cat(self._words(m)) ^ self._inverse.replicate(config.beat_bits)),
            wrong.eq(read.payload.data ^ pattern),
            command.payload.address.eq(address),
            write.payload.eq(Cat(pattern, 1)),
        ]
        m.d.sync += self._wrong.eq(
            _any(wrong[at : at + 16] for at in range(0, config.beat_bits, 16))
        )
        with m.If(command.valid & command.ready):
            m.d.sync += self._asked.eq(1)
        with m.If(write.valid & write.ready):
            m.d.sync += self._sent.eq(1)
        self._sequence(m, address)
        return m

    def _sequence(self, m, address):
        """Write, wait and read twice; then connect the user."""
        config, status, k = self.config, self.status, self._k
        command, write, response, read = self.o_command, self.o_write, self.i_response, self.i_read
        waits = Signal(range(max(2, config.retention + 1)))
        last = k == config.address_bits

        def following(state):
            m.d.sync += [self._asked.eq(0), self._sent.eq(0), k.eq(k + 1)]
            with m.If(last):
                m.d.sync += k.eq(0)
                m.next = state

        # The only beat that is read, and the only response, are waited for.
        m.d.comb += [read.ready.eq(1), response.ready.eq(1)]
        # Beside the register that the status goes out of: the user may be far from there.
        connected = Signal()
        m.d.sync += connected.eq(status.done)
        with m.If(connected):
            self._connect(m)
        with m.Else(), m.FSM():
            with m.State("INITIALISATION"), m.If(self.configured):
                m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    command.valid.eq(~self._asked),
                    command.payload.write.eq(1),
                    write.valid.eq(~self._sent),
                ]
                m.d.sync += waits.eq(config.retention)
                with m.If(response.valid):
                    following("RETENTION")
            with m.State("RETENTION"):
                m.d.sync += waits.eq(waits - self.refreshed)
                with m.If(waits == 0):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += command.valid.eq(~self._asked)
                with m.If(read.valid):
                    m.next = "COMPARE"
            with m.State("COMPARE"):
                m.next = "READ"
                with m.If(self._wrong != 0):
                    m.d.sync += status.failed.eq(1)
                with m.If(last):
                    m.d.sync += status.bits.eq(status.bits | self._wrong)
                    m.d.sync += self._inverse.eq(1)
                with m.Elif(self._wrong != 0):
                    m.d.sync += status.lines.eq(status.lines | address)
                following("WRITE")
                with m.If(last & self._inverse):
                    m.d.sync += status.done.eq(1)
                    m.next = "END"
            with m.State("END"):
                pass

    def _connect(self, m):
        """Connect the user; every answer of a memory that failed the test has an error."""
        failed = self.status.failed
        m.d.comb += [
            self.o_command.valid.eq(self.i_command.valid),
            self.o_command.payload.eq(self.i_command.payload),
            self.i_command.ready.eq(self.o_command.ready),
            self.o_write.valid.eq(self.i_write.valid),
            self.o_write.payload.eq(self.i_write.payload),
            self.i_write.ready.eq(self.o_write.ready),
            self.o_response.valid.eq(self.i_response.valid),
            self.o_response.payload.error.eq(self.i_response.payload.error | failed),
            self.i_response.ready.eq(self.o_response.ready),
            self.o_read.valid.eq(self.i_read.valid),
            self.o_read.payload.eq(self.i_read.payload),
            self.o_read.payload.error.eq(self.i_read.payload.error | failed),
            self.i_read.ready.eq(self.o_read.ready),
        ]

    def _words(self, m):
        """Return the words of the beat at address bit k: its bits and their complement."""
        number = Signal(5)
        m.d.comb += number.eq(self._k)
        base = Cat(number, ~number, number, 0)
        return [base ^ (0x5A5A if w % 2 else 0xA5A5) ^ (w << 8) for w in range(self.config.words)]


def _any(words):
    """Return the bitwise OR of some words."""
    total = Const(0, 16)
    for word in words:
        total = total | word
    return total
