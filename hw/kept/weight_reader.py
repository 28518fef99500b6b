"""Reads a layer's biases, scales of rows, and rows of weights from external memory."""

from amaranth.hdl import Array, Const, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import layer_layout
from seedbed.hw.memory.memory_port import command_layout, read_layout
from seedbed.hw.products.gemv_layouts import scale_layout, weights_layout
from seedbed.spec import SparseTrainerConfig
from seedbed.spec.gemv import MANTISSA_BITS, SCALE_BITS
from seedbed.spec.sparse_trainer import BIAS_BITS

__all__ = ["WeightReader"]


class WeightReader(wiring.Component):
    """Reads a layer in bursts, which end at every multiple of ``page`` beats.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.SparseTrainerConfig`.

    Members
    -------
    start : In(1)
        A pulse: read the layer at ``layer``.
    layer : In(struct)
        See :func:`~seedbed.hw.kept.layer_table.layer_layout`; steady from ``start`` to the last
        beat.
    o_command, i_read : Out(stream), In(stream)
        The memory.
    o_weights : Out(stream of :func:`~seedbed.hw.products.gemv_layouts.weights_layout`)
        The rows, as they come.
    o_scales : Out(stream of :func:`~seedbed.hw.products.gemv_layouts.scale_layout`)
        The scale of each row. With a trellis code only: its layers have scales after the biases.
    row : In
        A row of the layer.
    bias : Out(signed(32))
        Its bias, ``bias_latency`` cycles later. Not before the first beat of ``o_weights``.
    fault : Out(1)
        A pulse: a beat with an error, a burst of another length, a beat that nothing asked for, or
        no beat for ``timeout_cycles``.
    drain : In(1)
        Beats are discarded, and no burst begins.
    drained : Out(1)
        No beat is to be expected any more. Only with ``drain``.

    Latency: 2 cycles from ``start`` to the first command. Throughput: a beat every cycle.
    """

    bias_latency = 2

    def __init__(self, config: SparseTrainerConfig):
        self.config = config
        scales = {"o_scales": Out(stream.Signature(scale_layout()))} if config.gemv.trellis else {}
        super().__init__(
            {
                "start": In(1),
                "layer": In(layer_layout(config)),
                "o_command": Out(stream.Signature(command_layout(config.address_bits))),
                "i_read": In(stream.Signature(read_layout(config.beat_bits))),
                "o_weights": Out(stream.Signature(weights_layout(config.gemv))),
                "row": In(config.row_width),
                "bias": Out(signed(BIAS_BITS)),
                "fault": Out(1),
                "drain": In(1),
                "drained": Out(1),
                **scales,
            }
        )

    def elaborate(self, platform):
        m = Module()
        config, layer, read = self.config, self.layer, self.i_read
        bias_bits = config.beat_biases.bit_length() - 1
        scaled = config.gemv.trellis is not None
        # Of a layer: all beats, those before its rows, and those that have not come.
        total = Signal(len(layer.beats) + 1 + scaled)
        head_beats = Signal(config.row_width + scaled)
        left = Signal.like(total)
        fire = Signal()
        bias_beats = (layer.rows + (config.beat_biases - 1)) >> bias_bits
        scale_bits = config.beat_scales.bit_length() - 1
        scale_beats = (layer.rows + (config.beat_scales - 1)) >> scale_bits
        m.d.comb += [
            head_beats.eq(bias_beats + scale_beats if scaled else bias_beats),
            total.eq(layer.beats + head_beats),
            fire.eq(read.valid & read.ready),
        ]
        outstanding = self._commands(m, total)
        head_left = Signal.like(head_beats)
        beat = Signal.like(layer.row_beats)
        in_head = Signal()
        in_rows = Signal()
        row_end = Signal()
        m.d.comb += [
            in_head.eq(head_left != 0),
            in_rows.eq(~in_head & (left != 0)),
            row_end.eq(beat + 1 == layer.row_beats),
            self.o_weights.valid.eq(read.valid & in_rows & ~self.drain),
            self.o_weights.payload.data.eq(read.payload.data),
            self.o_weights.payload.last.eq(row_end),
            # A beat that nothing asked for is accepted, too.
            read.ready.eq(self.drain | ~in_rows | self.o_weights.ready),
        ]
        with m.If(fire):
            with m.If(in_head):
                m.d.sync += head_left.eq(head_left - 1)
            with m.Elif(in_rows):
                m.d.sync += beat.eq(Mux(row_end, 0, beat + 1))
            m.d.sync += left.eq(Mux(left == 0, 0, left - 1))
        with m.If(self.start):
            m.d.sync += [left.eq(total), head_left.eq(head_beats), beat.eq(0)]
        with m.If(self.drain):
            m.d.sync += [left.eq(0), head_left.eq(0)]
        in_biases = in_head
        if scaled:
            in_biases = head_left > scale_beats
            self._scales(m, fire & in_head & ~in_biases)
        self._biases(m, fire & in_biases, head_left, head_beats)
        self._monitor(m, fire, left, outstanding)
        return m

    def _commands(self, m, total):
        """Give the commands of a layer; return how many beats are outstanding."""
        config, out = self.config, self.o_command
        width = config.page.bit_length() - 1
        address = Signal(config.address_bits, reset_less=True)
        rest = Signal.like(total)
        outstanding = Signal.like(total)
        room = Signal(range(config.page + 1))
        size = Signal.like(room)
        received = Signal()
        m.d.comb += [
            room.eq(config.page - address[:width]),
            size.eq(Mux(rest < room, rest, room)),
            received.eq(self.i_read.valid & self.i_read.ready & (outstanding != 0)),
        ]
        issued = Signal.like(room)
        with m.If(out.valid & out.ready):
            m.d.comb += issued.eq(out.payload.length + 1)
            m.d.sync += out.valid.eq(0)
        with m.If((rest != 0) & ~self.drain & (~out.valid | out.ready)):
            m.d.sync += [
                out.valid.eq(1),
                out.payload.address.eq(address),
                out.payload.length.eq(size - 1),
                rest.eq(rest - size),
                address.eq(address + size),
            ]
        m.d.sync += outstanding.eq(outstanding + issued - received)
        with m.If(self.start):
            m.d.sync += [rest.eq(total), address.eq(self.layer.address)]
        with m.If(self.drain):
            m.d.sync += rest.eq(0)
            with m.If(self.drained):
                m.d.sync += outstanding.eq(0)
        return outstanding

    def _monitor(self, m, fire, left, outstanding):
        """Compare beats with what was asked for, and count the cycles without one."""
        config, read = self.config, self.i_read
        width = config.page.bit_length() - 1
        place = Signal(width, reset_less=True)
        silence = Signal(range(config.timeout_cycles + 1))
        wrong = Signal()
        timed_out = Signal()
        dirty = Signal()
        m.d.comb += [
            wrong.eq(
                read.payload.error
                | (read.payload.last != (place.all() | (left == 1)))
                | (outstanding == 0)
            ),
            timed_out.eq(silence == config.timeout_cycles),
            self.fault.eq(~self.drain & ((fire & wrong) | (timed_out & (outstanding != 0)))),
            self.drained.eq(
                self.drain
                & ~self.o_command.valid
                & Mux(
                    dirty,
                    (silence >= config.drain_cycles) & ((outstanding == 0) | timed_out),
                    (outstanding == 0) | timed_out,
                )
            ),
        ]
        with m.If(self.start):
            m.d.sync += place.eq(self.layer.address[:width])
        with m.Elif(fire):
            m.d.sync += place.eq(place + 1)
        with m.If(read.valid | self.start | ~(self.drain | (outstanding != 0))):
            m.d.sync += silence.eq(0)
        with m.Elif(~timed_out):
            m.d.sync += silence.eq(silence + 1)
        with m.If(self.fault):
            m.d.sync += dirty.eq(1)
        with m.Elif(self.drained):
            m.d.sync += dirty.eq(0)

    def _scales(self, m, write_enable):
        """Store beats of scales, and give them row by row."""
        config, out, clear = self.config, self.o_scales, self.start | self.drain
        # One more than a layer has: all of them come before its rows.
        depth = -(-config.columns // config.beat_scales) + 1
        fifo = SyncFIFOBuffered(width=config.beat_bits, depth=depth)
        m.submodules.scales = ResetInserter(clear)(fifo)
        scales = Signal(config.beat_bits, reset_less=True)
        count = Signal(range(config.beat_scales + 1))
        m.d.comb += [
            fifo.w_data.eq(self.i_read.payload.data),
            fifo.w_en.eq(write_enable),
            fifo.r_en.eq((count == 0) | ((count == 1) & out.ready)),
            out.valid.eq(count != 0),
            out.payload.mantissa.eq(scales),
            out.payload.exponent.eq(scales[MANTISSA_BITS:]),
        ]
        with m.If(fifo.r_en):
            m.d.sync += [
                scales.eq(fifo.r_data),
                count.eq(Mux(fifo.r_rdy, config.beat_scales, 0)),
            ]
        with m.Elif(out.ready):
            m.d.sync += [scales.eq(scales >> SCALE_BITS), count.eq(count - 1)]
        # The rest of a layer's last beat is no row's.
        with m.If(clear):
            m.d.sync += count.eq(0)

    def _biases(self, m, write_enable, head_left, head_beats):
        """Store beats of biases; read the one of a row."""
        config, count = self.config, self.config.beat_biases
        depth = max(2, -(-config.columns // count))
        words = data.ArrayLayout(signed(BIAS_BITS), count)
        m.submodules.biases = biases = memory.Memory(shape=words, depth=depth, init=[])
        write, read = biases.write_port(), biases.read_port()
        bits = count.bit_length() - 1
        lane = Signal(max(1, bits), reset_less=True)
        m.d.comb += [
            write.addr.eq(head_beats - head_left),
            write.data.eq(self.i_read.payload.data),
            write.en.eq(write_enable),
            read.addr.eq(self.row >> bits),
            # Never together with a write: what a memory shows then differs by family.
            read.en.eq(~write_enable),
        ]
        m.d.sync += [
            lane.eq(self.row[:bits] if bits else Const(0)),
            self.bias.eq(Array(read.data)[lane] if bits else read.data[0]),
        ]
