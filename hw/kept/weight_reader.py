"""Reads a layer's biases, scales of rows, and rows of weights from external memory."""

from amaranth.hdl import Array, Const, Module, Mux, ResetInserter, Signal, signed
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from seedbed.hw.kept.layer_table import layer_layout
from seedbed.hw.memory.burst_reads import BurstReads
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
        See :class:`~seedbed.hw.memory.burst_reads.BurstReads`.
    drain : In(1)
        Beats are discarded, and no burst begins.
    drained : Out(1)
        No beat is to be expected any more, but for one that is asked for by a command that the
        memory has not taken for ``timeout_cycles``. Only with ``drain``.

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
        config, layer = self.config, self.layer
        bias_bits = config.beat_biases.bit_length() - 1
        scaled = config.gemv.trellis is not None
        # Of a layer: all beats, those before its rows, and those that have not come.
        total = Signal(len(layer.beats) + 1 + scaled)
        head_beats = Signal(config.row_width + scaled)
        left = Signal.like(total)
        bias_beats = (layer.rows + (config.beat_biases - 1)) >> bias_bits
        scale_bits = config.beat_scales.bit_length() - 1
        scale_beats = (layer.rows + (config.beat_scales - 1)) >> scale_bits
        m.d.comb += [
            head_beats.eq(bias_beats + scale_beats if scaled else bias_beats),
            total.eq(layer.beats + head_beats),
        ]
        beats = self._bursts(m, total, left)
        head_left = Signal.like(head_beats)
        beat = Signal.like(layer.row_beats)
        in_head = Signal()
        row_end = Signal()
        fire = Signal()
        m.d.comb += [
            in_head.eq(head_left != 0),
            row_end.eq(beat + 1 == layer.row_beats),
            fire.eq(beats.valid & beats.ready),
            self.o_weights.valid.eq(beats.valid & ~in_head),
            self.o_weights.payload.data.eq(beats.payload),
            self.o_weights.payload.last.eq(row_end),
            beats.ready.eq(in_head | self.o_weights.ready),
        ]
        with m.If(fire):
            with m.If(in_head):
                m.d.sync += head_left.eq(head_left - 1)
            with m.Else():
                m.d.sync += beat.eq(Mux(row_end, 0, beat + 1))
            m.d.sync += left.eq(left - 1)
        with m.If(self.start):
            m.d.sync += [left.eq(total), head_left.eq(head_beats), beat.eq(0)]
        with m.If(self.drain):
            m.d.sync += [left.eq(0), head_left.eq(0)]
        in_biases = in_head
        if scaled:
            in_biases = head_left > scale_beats
            self._scales(m, fire & in_head & ~in_biases)
        self._biases(m, fire & in_biases, head_left, head_beats)
        return m

    def _bursts(self, m, total, left):
        """Ask for the beats of a layer, and return the stream of them."""
        config = self.config
        m.submodules.bursts = bursts = BurstReads(config, page=config.page, beats_bits=len(total))
        wiring.connect(m, wiring.flipped(self.i_read), bursts.i_read)
        wiring.connect(m, bursts.o_command, wiring.flipped(self.o_command))
        m.d.comb += [
            bursts.start.eq(self.start),
            bursts.address.eq(self.layer.address),
            bursts.beats.eq(total),
            bursts.waits.eq(left != 0),
            bursts.ends.eq(left == 1),
            bursts.stop.eq(self.drain),
            self.fault.eq(bursts.fault),
            # A command that is not taken is waited for by the next layer, too.
            self.drained.eq(self.drain & (bursts.drained | bursts.stuck)),
        ]
        return bursts.o

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
