"""Images in the board's memory, next to another user of it: stored once, shown by index."""

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from seedbed.boards.port_registers import PortRegisters
from seedbed.boards.streams import Input, beat_layout
from seedbed.hw.memory.memory_port import connect_memory, user_members
from seedbed.spec import SdramConfig
from seedbed.spec.plan import Plan

__all__ = ["ImageStore", "beats_of", "room", "share_memory", "shown"]

#: Images of which the reading has begun, at most.
READING = 2
#: Bursts in flight of all users, at most.
BURSTS = 8


class ImageStore(wiring.Component):
    """Writes images to the memory, and reads them as beats of pixels.

    An image is a burst. A read begins when a buffer has room for all of it, so that the other
    user's bursts are not stopped by an image that nobody takes.

    Parameters
    ----------
    memory
        The memory, :class:`~seedbed.spec.SdramConfig`.
    base
        The address of the first image, in beats.
    beats, ways
        Beats of an image, and bytes of each.
    label
        Bits of a label.

    Members
    -------
    i_store : In(stream of struct)
        ``data``, a beat of pixels; ``tag``, the image's index, 16 bits; ``last``.
    i_show : In(stream of struct)
        ``data``: the index of an image to read, and from bit 16 on its label.
    o : Out(stream of struct)
        ``pixels``, ``label``, ``index`` and ``last`` of the image.
    writable : In(1)
        No other user writes.
    storing : Out(1)
        An image is written: from its command to its response. A reset may not come meanwhile.
    o_command, o_write, i_response, i_read
        Those of :func:`seedbed.hw.memory.memory_port.user_members`.
    """

    def __init__(self, memory: SdramConfig, *, base: int, beats: int, ways: int, label: int):
        self.memory, self.base, self.beats = memory, base, beats
        self.store, self.show = Input("store", 8 * ways, 16), Input("show", 16 + label)
        #: Pixel beats of a beat of the memory, and beats of the memory of an image.
        self.ratio = memory.beat_bits // (8 * ways)
        self.words = -(-beats // self.ratio)
        if not 1 <= self.words <= 256:
            raise ValueError(f"an image must have 1..256 beats of the memory, not {self.words}")
        #: The distance of two images, a power of two.
        self.stride = 1 << (self.words - 1).bit_length()
        layout = data.StructLayout({"pixels": 8 * ways, "label": label, "index": 16, "last": 1})
        super().__init__(
            {
                "i_store": In(stream.Signature(beat_layout(self.store))),
                "i_show": In(stream.Signature(beat_layout(self.show))),
                "o": Out(stream.Signature(layout)),
                "writable": In(1),
                "storing": Out(1),
                **user_members(memory.address_bits, memory.beat_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command = self.o_command.payload
        wants, index, idle = self._write(m)
        # An image is read after it is written.
        reads = self._read(m) & idle
        m.d.comb += [
            self.o_command.valid.eq(wants | reads),
            command.write.eq(wants),
            command.length.eq(self.words - 1),
            command.address.eq(self._address(Mux(wants, index, self.i_show.payload.data[:16]))),
            self.i_show.ready.eq(self.o_command.ready & reads & ~wants),
        ]
        return m

    def _address(self, index):
        return self.base + (index << (self.stride - 1).bit_length())

    def _write(self, m):
        """Collect and write images; return the command's valid and index, and whether it idles."""
        given, bits = self.i_store, len(self.i_store.payload.data)
        m.submodules.collected = collected = fifo.SyncFIFOBuffered(
            width=self.memory.beat_bits, depth=self.stride
        )
        part, count, filled = Signal(self.memory.beat_bits), Signal(range(self.ratio)), Signal()
        left, index, wants = Signal(range(self.words + 1)), Signal(16), Signal()
        m.d.sync += filled.eq(0)
        m.d.comb += [
            # A cycle late: no path from the host's words to a memory of LUTs.
            collected.w_data.eq(part),
            collected.w_en.eq(filled),
            self.o_write.payload.data.eq(collected.r_data),
            self.o_write.payload.last.eq(left == 1),
            self.i_response.ready.eq(1),
        ]
        with m.FSM() as machine:
            with m.State("COLLECT"):
                m.d.comb += given.ready.eq(collected.w_rdy)
                m.d.sync += [left.eq(self.words), index.eq(given.payload.tag)]
                with m.If(given.valid & given.ready):
                    m.d.sync += [
                        part.eq(Cat(part[bits:], given.payload.data)),
                        count.eq(count + 1),
                    ]
                    with m.If(count == self.ratio - 1):
                        m.d.sync += [filled.eq(1), count.eq(0)]
                    with m.If(given.payload.last):
                        m.next = "ALIGN"
            with m.State("ALIGN"):
                # The last beat of the memory is filled up.
                m.d.sync += [part.eq(Cat(part[bits:], Const(0, bits))), count.eq(count + 1)]
                with m.If(count == 0):
                    m.d.sync += count.eq(0)
                    m.next = "COMMAND"
                with m.Elif(count == self.ratio - 1):
                    m.d.sync += [filled.eq(1), count.eq(0)]
                    m.next = "COMMAND"
            with m.State("COMMAND"):
                m.d.comb += wants.eq(self.storing)
                with m.If(self.writable):
                    m.d.sync += self.storing.eq(1)
                with m.If(wants & self.o_command.ready):
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [
                    self.o_write.valid.eq(collected.r_rdy & (left != 0)),
                    collected.r_en.eq(self.o_write.valid & self.o_write.ready),
                ]
                m.d.sync += left.eq(left - collected.r_en)
                with m.If(self.i_response.valid):
                    m.d.sync += self.storing.eq(0)
                    m.next = "COLLECT"
        return wants, index, machine.ongoing("COLLECT")

    def _read(self, m):
        """Read images into a buffer and output them; return whether a command is wanted."""
        # With fewer, the second of two beats at once would find the first one on its way.
        depth = max(4, READING * self.stride)
        m.submodules.buffer = buffer = fifo.SyncFIFOBuffered(
            width=self.memory.beat_bits, depth=depth
        )
        m.submodules.shown = shown = fifo.SyncFIFOBuffered(
            width=len(self.i_show.payload.data), depth=READING + 1
        )
        reserved, place = Signal(range(depth + 1)), Signal(range(self.beats))
        part = Signal(range(self.ratio))
        out, bits = self.o.payload, len(self.o.payload.pixels)
        begins, fire, ends = Signal(), Signal(), Signal()
        last = place == self.beats - 1
        m.d.comb += [
            begins.eq(self.i_show.valid & self.i_show.ready),
            shown.w_data.eq(self.i_show.payload.data),
            shown.w_en.eq(begins),
            buffer.w_data.eq(self.i_read.payload.data),
            buffer.w_en.eq(self.i_read.valid),
            self.i_read.ready.eq(1),
            self.o.valid.eq(buffer.r_rdy & shown.r_rdy),
            out.pixels.eq(buffer.r_data.word_select(part, bits)),
            Value.cast(out)[bits : bits + len(out.label)].eq(shown.r_data[16:]),
            out.index.eq(shown.r_data[:16]),
            out.last.eq(last),
            fire.eq(self.o.valid & self.o.ready),
            ends.eq(fire & (last | (part == self.ratio - 1))),
            buffer.r_en.eq(ends),
            shown.r_en.eq(fire & last),
        ]
        m.d.sync += reserved.eq(reserved + Mux(begins, self.words, 0) - ends)
        with m.If(fire):
            m.d.sync += [place.eq(Mux(last, 0, place + 1)), part.eq(Mux(ends, 0, part + 1))]
        return self.i_show.valid & shown.w_rdy & (reserved <= depth - self.words)


def beats_of(plan: Plan) -> int:
    """Return the beats of an image of a network: every row begins in a new one."""
    rows, columns, channels = plan.image.shape
    return rows * -(-columns * channels // plan.ways)


def room(memory: SdramConfig, *, beats: int, ways: int, base: int = 0) -> int:
    """Return for how many images a memory has room from the address ``base`` on."""
    words = -(-beats * 8 * ways // memory.beat_bits)
    left = max(0, (1 << memory.address_bits) - base)
    return min(1 << 16, left >> (words - 1).bit_length())


def shown(places: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the payloads that show images, given by their places: uint32 (count, 1)."""
    return (places | labels[places].astype(np.int64) << 16).astype("<u4")[:, None]


def share_memory(m, port, user, store, *, hold):
    """Connect two users to a memory: ``user``, which has precedence, and an image store.

    ``port`` has the members of :func:`seedbed.hw.memory.memory_port.user_members`. Reads are
    returned in the order of the commands. While an image is stored, ``user`` does not write.

    Returns the reset of both users: ``hold``, but not before the end of a burst that is written,
    and a cycle later. Memory would take the beats of the next burst for the rest of a cut one.
    """
    stopped = Signal()
    sizes = len(port.o_command.payload.address), len(port.o_write.payload.data)
    mine, theirs = PortRegisters(*sizes), PortRegisters(*sizes)
    for name, registers, member in (("user", mine, user), ("store", theirs, store)):
        m.submodules[f"{name}_registers"] = ResetInserter(stopped)(registers)
        connect_memory(m, member, registers)
    m.submodules.owners = owners = fifo.SyncFIFOBuffered(width=1, depth=BURSTS)
    # A command that is offered stays until its transfer.
    waits, held, of_images, fire = Signal(), Signal(), Signal(), Signal()
    writing = Signal(range(BURSTS * 2))
    first, second, command = mine.o_command, theirs.o_command, port.o_command
    allowed = first.valid & ~(first.payload.write & store.storing) & (writing != 2 * BURSTS - 1)
    offered = Mux(of_images, second.valid, allowed)
    is_write = Mux(of_images, second.payload.write, first.payload.write)
    m.d.comb += [
        of_images.eq(Mux(waits, held, ~allowed)),
        command.valid.eq(offered & (is_write | owners.w_rdy) & ~stopped),
        command.payload.address.eq(Mux(of_images, second.payload.address, first.payload.address)),
        command.payload.write.eq(is_write),
        command.payload.length.eq(Mux(of_images, second.payload.length, first.payload.length)),
        fire.eq(command.valid & command.ready),
        first.ready.eq(fire & ~of_images),
        second.ready.eq(fire & of_images),
        owners.w_data.eq(of_images),
        owners.w_en.eq(fire & ~is_write),
    ]
    m.d.sync += [waits.eq(command.valid & ~command.ready), held.eq(of_images)]
    # Pending at the user's port or in its registers: a write burst, and a burst of any kind.
    pending, given = user.o_write.valid | mine.o_write.valid, user.o_command
    wants = pending | given.valid | first.valid
    starts = pending | given.valid & given.payload.write | first.valid & first.payload.write
    own = store.storing
    done = mine.i_response.valid & mine.i_response.ready
    m.d.sync += writing.eq(writing + (fire & is_write & ~of_images) - done)
    m.d.comb += [
        store.writable.eq((writing == 0) & ~wants),
        port.o_write.valid.eq(Mux(own, theirs.o_write.valid, mine.o_write.valid) & ~stopped),
        port.o_write.payload.data.eq(
            Mux(own, theirs.o_write.payload.data, mine.o_write.payload.data)
        ),
        port.o_write.payload.last.eq(
            Mux(own, theirs.o_write.payload.last, mine.o_write.payload.last)
        ),
        theirs.o_write.ready.eq(port.o_write.ready & own & ~stopped),
        mine.o_write.ready.eq(port.o_write.ready & ~own & ~stopped),
        theirs.i_response.valid.eq(port.i_response.valid & own),
        mine.i_response.valid.eq(port.i_response.valid & ~own),
        port.i_response.ready.eq(Mux(own, theirs.i_response.ready, mine.i_response.ready)),
    ]
    read = port.i_read
    for each, chosen in ((mine, ~owners.r_data), (theirs, owners.r_data)):
        m.d.comb += [
            each.i_read.valid.eq(read.valid & owners.r_rdy & chosen),
            each.i_response.payload.error.eq(port.i_response.payload.error),
        ]
        m.d.comb += [
            each.i_read.payload[name].eq(read.payload[name]) for name in ("data", "error", "last")
        ]
    m.d.comb += [
        read.ready.eq(owners.r_rdy & Mux(owners.r_data, theirs.i_read.ready, mine.i_read.ready)),
        owners.r_en.eq(read.valid & read.ready & read.payload.last),
    ]
    idle = (writing == 0) & ~store.storing & ~starts
    m.d.sync += stopped.eq(hold & (idle | stopped))
    return stopped
