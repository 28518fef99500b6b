"""One slice of a FIFO whose slices are far apart on the device."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["BeatFifo"]

#: Bits per segment; each segment has separate pointers. 70 bits fill five LUTRAMs of 14 bits
#: (UltraScale+), and 16 FIFOs of 171 bits are a fan-out of 48 for ready.
SEGMENT_BITS = 70


class BeatFifo(wiring.Component):
    """A FIFO in LUTRAM; several of them, written together, are one wide FIFO.

    The net of ``ready`` is long, so each segment has one LUT and one register on it. In the next
    cycle the segment reads the next beat or the same beat again. The output is the memory's
    asynchronous read data: the path from the registers is one LUT per address bit and the memory.

    Parameters
    ----------
    width
        Bits of a beat.
    depth
        Beats, a power of two.

    Members
    -------
    reset : In(1)
        Empties the FIFO.
    write, data : In
        Write enable and a beat. The writer must not write to a full FIFO.
    ready : In(1)
        With ``valid``, the beat at ``o`` is transferred.
    o, valid : Out
        The oldest beat, from the second cycle after its write on.
    level : Out
        How many beats are stored, including the beat of the previous cycle.
    """

    def __init__(self, width: int, depth: int):
        self.depth = depth
        super().__init__(
            {
                "reset": In(1),
                "write": In(1),
                "data": In(width),
                "ready": In(1),
                "o": Out(width),
                "valid": Out(1),
                "level": Out(range(depth + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        segments = [self._segment(m, k) for k in range(-(-len(self.o) // SEGMENT_BITS))]
        level, valid = segments[0]
        m.d.comb += [self.level.eq(level), self.valid.eq(valid)]
        return m

    def _segment(self, m, index):
        """Store some of the bits; return the level and valid."""
        bits = slice(SEGMENT_BITS * index, min(SEGMENT_BITS * (index + 1), len(self.o)))
        width = bits.stop - bits.start
        m.submodules[f"storage_{index}"] = storage = Memory(shape=width, depth=self.depth, init=[])
        put, get = storage.write_port(), storage.read_port(domain="comb")

        def register(name, shape=1, **options):
            return Signal(shape, name=f"{name}_{index}", reset_less=True, **options)

        # Pointers have one bit more than an address, to distinguish full from empty. The read
        # pointer is that of the previous cycle's beat; its increment is a register, for timing.
        shape = self.level.shape()
        write_pointer, read_pointer = (
            register(name, shape, attrs={"keep": True})
            for name in ("write_pointer", "read_pointer")
        )
        next_read = register("next_read", shape, init=1)
        # Of the previous cycle: whether the beat was transferred, whether there is a beat at the
        # current read pointer, and one after that.
        popped, first_valid, second_valid = (
            register(name) for name in ("popped", "first_valid", "second_valid")
        )
        level, address = (Signal(shape, name=f"{name}_{index}") for name in ("level", "address"))
        valid = Signal(name=f"valid_{index}")
        m.d.comb += [
            level.eq(write_pointer - read_pointer),
            address.eq(Mux(popped, next_read, read_pointer)),
            valid.eq(Mux(popped, second_valid, first_valid)),
            put.addr.eq(write_pointer),
            put.data.eq(self.data[bits]),
            put.en.eq(self.write),
            get.addr.eq(address),
            self.o[bits].eq(get.data),
        ]
        one, two, three = level.any(), level[1:].any(), level[2:].any() | level[:2].all()
        m.d.sync += [
            popped.eq(valid & self.ready),
            read_pointer.eq(address),
            first_valid.eq(Mux(popped, two, one)),
            second_valid.eq(Mux(popped, three, two)),
        ]
        with m.If(popped):
            m.d.sync += next_read.eq(next_read + 1)
        with m.If(self.write):
            m.d.sync += write_pointer.eq(write_pointer + 1)
        with m.If(self.reset):
            m.d.sync += [
                state.eq(0)
                for state in (popped, first_valid, second_valid, write_pointer, read_pointer)
            ]
            m.d.sync += next_read.eq(1)
        return level, valid
