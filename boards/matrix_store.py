"""Matrices in the board's memory: stored beat by beat, and read row by row."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect

from seedbed.boards.streams import Input, beat_layout
from seedbed.hw.memory.memory_port import pass_memory, user_members
from seedbed.hw.products.gemv_layouts import scale_layout
from seedbed.spec import SdramConfig
from seedbed.spec.gemv import MANTISSA_BITS

__all__ = ["MatrixStore", "RowScales", "add_store", "feed_rows", "rows_layout"]

#: Beats of a burst that is read.
BURST = 256


class MatrixStore(wiring.Component):
    """Writes beats of matrices to the memory, and reads a matrix as rows of beats.

    A beat is written as a burst of one. The beats of a matrix are read in bursts of 256.

    Parameters
    ----------
    memory
        The memory, :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i_store : In(stream of struct)
        ``data``, a beat; ``tag``, the address of a packet's first beat; ``last``.
    i : In(stream of struct)
        A matrix to read: ``address`` and ``beats`` of it, and ``row_beats``, those of a row.
    o : Out(stream of struct)
        ``data``, and ``last`` with the last beat of a row.
    stop : In(1)
        No further burst is read, and the beats of earlier ones are discarded; the next beat that
        is stored is a packet's first. The users of ``i_store``, ``i`` and ``o`` are reset.
    busy : Out(1)
        A beat is written, or a matrix is read.
    error : Out(1)
        A response or a beat of the memory has an error.
    o_command, o_write, i_response, i_read
        Those of :func:`seedbed.hw.memory.memory_port.user_members`.
    """

    def __init__(self, memory: SdramConfig):
        self.memory = memory
        self.store = Input("matrix", memory.beat_bits, memory.address_bits)
        beat = data.StructLayout({"data": memory.beat_bits, "last": 1})
        super().__init__(
            {
                "i_store": In(stream.Signature(beat_layout(self.store))),
                "i": In(stream.Signature(rows_layout(memory))),
                "o": Out(stream.Signature(beat)),
                "stop": In(1),
                "busy": Out(1),
                "error": Out(1),
                **user_members(memory.address_bits, memory.beat_bits),
            }
        )

    def elaborate(self, platform):
        m = Module()
        command, write, read = self.o_command, self.o_write, self.i_read
        # Beats that are not asked for, that have not come, and the number of a beat in its row.
        asked, left, row = (Signal(self.memory.address_bits + 1) for _ in range(3))
        # The next address; whether the next beat that is stored is a packet's first.
        address, row_beats = Signal(self.memory.address_bits), Signal.like(row)
        first, place = Signal(init=1), Signal(self.memory.address_bits)
        sent, written, offered = Signal(), Signal(), Signal()
        m.d.comb += [
            place.eq(Mux(first, self.i_store.payload.tag, address)),
            write.payload.last.eq(1),
            self.i_response.ready.eq(1),
            self.o.payload.data.eq(read.payload.data),
            self.o.payload.last.eq(row == row_beats),
            self.error.eq(
                (read.valid & read.ready & read.payload.error)
                | (self.i_response.valid & self.i_response.payload.error)
            ),
        ]
        m.d.sync += offered.eq(command.valid & ~command.ready)
        with m.FSM() as machine:
            with m.State("IDLE"):
                m.d.comb += [
                    self.i_store.ready.eq(~self.stop),
                    self.i.ready.eq(~self.stop & ~self.i_store.valid),
                ]
                m.d.sync += [sent.eq(0), written.eq(0), row.eq(1)]
                m.d.sync += write.payload.data.eq(self.i_store.payload.data)
                with m.If(self.stop):
                    m.d.sync += first.eq(1)
                with m.Elif(self.i_store.valid):
                    m.d.sync += [address.eq(place), first.eq(self.i_store.payload.last)]
                    m.next = "WRITE"
                with m.Elif(self.i.valid):
                    m.d.sync += [
                        address.eq(self.i.payload.address),
                        asked.eq(self.i.payload.beats),
                        left.eq(self.i.payload.beats),
                        row_beats.eq(self.i.payload.row_beats),
                    ]
                    m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += [
                    command.payload.write.eq(1),
                    command.payload.address.eq(address),
                    command.valid.eq(~sent),
                    write.valid.eq(~written),
                ]
                m.d.sync += [
                    sent.eq(sent | command.ready),
                    written.eq(written | write.ready),
                ]
                with m.If(self.i_response.valid):
                    m.d.sync += address.eq(address + 1)
                    m.next = "IDLE"
            with m.State("READ"):
                m.d.comb += [
                    command.payload.address.eq(address),
                    command.payload.length.eq(Mux(asked < BURST, asked, BURST) - 1),
                    # A command that is offered stays until its transfer.
                    command.valid.eq((asked != 0) & (~self.stop | offered)),
                    self.o.valid.eq(read.valid & ~self.stop),
                    read.ready.eq(self.o.ready | self.stop),
                ]
                with m.If(command.valid & command.ready):
                    m.d.sync += [
                        address.eq(address + BURST),
                        asked.eq(asked - command.payload.length - 1),
                    ]
                with m.If(read.valid & read.ready):
                    m.d.sync += [left.eq(left - 1), row.eq(Mux(row == row_beats, 1, row + 1))]
                with m.If((left == 0) | (self.stop & ~command.valid & (left == asked))):
                    m.next = "IDLE"
        m.d.comb += self.busy.eq(~machine.ongoing("IDLE"))
        return m


class RowScales(wiring.Component):
    """Takes the first beat of each row as its scale: mantissa and exponent, a byte each.

    Parameters
    ----------
    memory
        The memory, :class:`~seedbed.spec.SdramConfig`.

    Members
    -------
    i : In(stream of struct)
        Rows of a :class:`MatrixStore`.
    clear : In(1)
        The next beat is a row's first, and no scale is stored.
    o : Out(stream of struct)
        The rows without their first beats.
    o_scales : Out(stream of :func:`~seedbed.hw.products.gemv_layouts.scale_layout`)
        Their scales. The next row's first beat waits for the transfer.
    """

    def __init__(self, memory: SdramConfig):
        beat = data.StructLayout({"data": memory.beat_bits, "last": 1})
        super().__init__(
            {
                "i": In(stream.Signature(beat)),
                "clear": In(1),
                "o": Out(stream.Signature(beat)),
                "o_scales": Out(stream.Signature(scale_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        rows, scale = self.i, self.o_scales
        first = Signal(init=1)
        m.d.comb += [
            self.o.payload.eq(rows.payload),
            self.o.valid.eq(rows.valid & ~first),
            rows.ready.eq(Mux(first, ~scale.valid, self.o.ready)),
        ]
        with m.If(scale.ready):
            m.d.sync += scale.valid.eq(0)
        with m.If(rows.valid & rows.ready):
            m.d.sync += first.eq(rows.payload.last)
            with m.If(first):
                m.d.sync += [
                    scale.valid.eq(1),
                    scale.payload.mantissa.eq(rows.payload.data),
                    scale.payload.exponent.eq(rows.payload.data[MANTISSA_BITS:]),
                ]
        with m.If(self.clear):
            m.d.sync += [first.eq(1), scale.valid.eq(0)]
        return m


def rows_layout(memory: SdramConfig) -> data.StructLayout:
    """Return the layout of a matrix to read, see :class:`MatrixStore`."""
    count = memory.address_bits + 1
    return data.StructLayout({"address": memory.address_bits, "beats": count, "row_beats": count})


def feed_rows(m, memory: SdramConfig, store: MatrixStore, engine) -> None:
    """Connect the rows of a matrix store to an engine, and their scales if it takes any."""
    if not engine.config.trellis:
        connect(m, store.o, engine.i_weights)
        return
    m.submodules.scales = scales = RowScales(memory)
    connect(m, store.o, scales.i)
    connect(m, scales.o, engine.i_weights)
    connect(m, scales.o_scales, engine.i_scales)
    m.d.comb += scales.clear.eq(store.stop)


def add_store(m, app, memory: SdramConfig) -> MatrixStore:
    """Add a matrix store to an application, and connect it to its memory port; return it."""
    m.submodules.store = store = MatrixStore(memory)
    pass_memory(m, app, store)
    return store
