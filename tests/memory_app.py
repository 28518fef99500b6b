"""Application for tests: writes and reads bursts, and measures their cycles."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from seedbed.boards.memory import MEMORY_REGISTERS, memory_ports
from seedbed.boards.registers import Register, ports
from seedbed.spec import SdramConfig

MEMORY = SdramConfig(retention=64)
REGISTERS = (
    *MEMORY_REGISTERS,
    Register("address", "write", "of the first burst, in beats"),
    Register("length", "write", "beats of a burst - 1"),
    Register("stride", "write", "beats from a burst to the next one"),
    Register("bursts", "write", "number of bursts"),
    Register("write", "strobe", "writes them"),
    Register("read", "strobe", "reads them, and counts beats that differ"),
    Register("busy", "read", "1: a job runs"),
    Register("cycles", "read", "of the job"),
    Register("errors", "read", "beats that differ, and errors of the memory"),
)


def beat(address):
    """Return the beat at an address: 64 bits."""
    return Cat(address[:16], ~address[:16], address[8:] ^ 0x5AA5, address * 0x9E37)[:64]


class Top(wiring.Component):
    def __init__(self):
        super().__init__(ports(REGISTERS) | memory_ports(MEMORY))

    def elaborate(self, platform):
        m = Module()
        control, status = self.control, self.status
        writing, reading = Signal(), Signal()
        commands, bursts = Signal(32), Signal(32)
        base, place, offset, cycles, errors = (Signal(32) for _ in range(5))
        data_base = Signal(32)
        ends = offset == control.length
        m.d.comb += [
            place.eq(data_base + offset),
            status.busy.eq(writing | reading),
            status.cycles.eq(cycles),
            status.errors.eq(errors),
            self.o_command.valid.eq(commands != 0),
            self.o_command.payload.address.eq(base),
            self.o_command.payload.length.eq(control.length),
            self.o_command.payload.write.eq(writing),
            self.o_write.valid.eq(writing & (data_base != control.address + self._span(control))),
            self.o_write.payload.data.eq(beat(place)),
            self.o_write.payload.last.eq(ends),
            self.i_response.ready.eq(1),
            self.i_read.ready.eq(1),
        ]
        with m.If(status.busy):
            m.d.sync += cycles.eq(cycles + 1)
        with m.If(self.o_command.valid & self.o_command.ready):
            m.d.sync += [commands.eq(commands - 1), base.eq(base + control.stride)]
        fire = (self.o_write.valid & self.o_write.ready) | self.i_read.valid
        with m.If(fire):
            m.d.sync += offset.eq(offset + 1)
            with m.If(ends):
                m.d.sync += [offset.eq(0), data_base.eq(data_base + control.stride)]
        wrong = (self.i_read.payload.data != beat(place)) | self.i_read.payload.error
        with m.If(self.i_read.valid & (wrong | (self.i_read.payload.last != ends))):
            m.d.sync += errors.eq(errors + 1)
        with m.If(self.i_response.valid & self.i_response.payload.error):
            m.d.sync += errors.eq(errors + 1)
        with m.If(self.i_response.valid | (self.i_read.valid & ends)):
            m.d.sync += bursts.eq(bursts - 1)
            with m.If(bursts == 1):
                m.d.sync += [writing.eq(0), reading.eq(0)]
        with m.If((control.write | control.read) & ~status.busy):
            m.d.sync += [
                writing.eq(control.write), reading.eq(control.read),
                commands.eq(control.bursts), bursts.eq(control.bursts),
                base.eq(control.address), data_base.eq(control.address),
                offset.eq(0), cycles.eq(0), errors.eq(0),
            ]  # fmt: skip
        return m

    def _span(self, control):
        return (control.bursts * control.stride)[:32]
