"""The matrix-vector product with AXI4-Stream and AXI4-Lite ports."""

from amaranth.hdl import ClockDomain, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_stream, octets
from seedbed.hw.axi.registers import RegisterBlock, register_members, status_word
from seedbed.hw.products.gemv import Gemv
from seedbed.spec import GemvConfig
from seedbed.spec.axi_registers import AXI_REGISTERS

__all__ = ["GemvAxi"]


class GemvAxi(wiring.Component):
    """:class:`~seedbed.hw.products.gemv.Gemv` with AXI's names, clock and reset.

    The registers are ``gemv`` of :data:`~seedbed.spec.axi_registers.AXI_REGISTERS`.
    An unknown address, and a value that a register does not hold, are answered with SLVERR and
    change nothing.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.GemvConfig`, without a side path: another one is refused with a
        ``ValueError``.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    s_axi_control_* : 32 bits of data, 5 of address
        AXI4-Lite, control registers
    s_axis_vector_* : In
        AXI4-Stream, input vector. One vector per packet, or several side by side: ``group``
        activations of each per beat, vector by vector, each in whole bytes. There are no byte
        strobes: activations after the last column are ignored.
    s_axis_weights_* : In
        AXI4-Stream, matrix. One row of the matrix per packet, ``beat_bits`` per beat, with its
        table in front.
    s_axis_scales_* : In
        AXI4-Stream, scales, one per row. With ``trellis`` only. A beat is the mantissa in its low
        byte and the exponent in its high byte, in two's complement; tlast is ignored.
    m_axis_result_* : Out
        AXI4-Stream, results, one per row. One job's results per packet: the sum of each vector
        sign-extended to whole bytes, and the status in tuser. The status is 0 except in the extra
        last beat of a job that ended with an error.

    Latency: that of gemv.
    Throughput: 1 beat of weights per cycle.
    """

    def __init__(self, config: GemvConfig):
        if config.sparse:
            raise ValueError(
                f"gemv_axi has no ports for a side path: entries must be None, not {config.entries}"
            )
        self.config = config
        lane = octets(config.activation_width) * config.vectors
        results = octets(config.dense_width) * config.vectors
        scales = axi_stream("s_axis_scales", 16, In) if config.trellis else {}
        super().__init__(
            {"aclk": In(1), "aresetn": In(1)}
            | register_members(AXI_REGISTERS["gemv"])
            | axi_stream("s_axis_vector", config.group * lane, In)
            | axi_stream("s_axis_weights", config.beat_bits, In)
            | scales
            | axi_stream("m_axis_result", results, Out, user=3)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.gemv = gemv = Gemv(self.config)
        block = RegisterBlock(m, self, AXI_REGISTERS["gemv"])
        lane = octets(self.config.activation_width)
        vector, weights, result = gemv.i_vector, gemv.i_weights, gemv.o
        width = self.config.activation_width
        for j in range(self.config.vectors * self.config.group):
            to = Value.cast(vector.payload.lanes)[j * width : (j + 1) * width]
            m.d.comb += to.eq(self.s_axis_vector_tdata[j * lane : (j + 1) * lane])
        width = self.config.dense_width
        for v in range(self.config.vectors):
            value = Value.cast(result.payload.sum)[v * width : (v + 1) * width].as_signed()
            to = self.m_axis_result_tdata[v * octets(width) : (v + 1) * octets(width)]
            m.d.comb += to.eq(value)
        m.d.comb += [
            vector.payload.last.eq(self.s_axis_vector_tlast),
            vector.valid.eq(self.s_axis_vector_tvalid),
            self.s_axis_vector_tready.eq(vector.ready),
            weights.payload.data.eq(self.s_axis_weights_tdata),
            weights.payload.last.eq(self.s_axis_weights_tlast),
            weights.valid.eq(self.s_axis_weights_tvalid),
            self.s_axis_weights_tready.eq(weights.ready),
            self.m_axis_result_tuser.eq(result.payload.status),
            self.m_axis_result_tlast.eq(result.payload.last),
            self.m_axis_result_tvalid.eq(result.valid),
            result.ready.eq(self.m_axis_result_tready),
        ]
        if self.config.trellis:
            m.d.comb += [
                gemv.i_scales.payload.mantissa.eq(self.s_axis_scales_tdata[:8]),
                gemv.i_scales.payload.exponent.eq(self.s_axis_scales_tdata[8:]),
                gemv.i_scales.valid.eq(self.s_axis_scales_tvalid),
                self.s_axis_scales_tready.eq(gemv.i_scales.ready),
            ]
        self._registers(m, block, gemv)
        return m

    def _registers(self, m, block, gemv):
        command, result, lite = gemv.i.payload, gemv.o, block.lite
        busy = Signal()
        done = Signal()
        status = Signal(3)
        pending = Signal()
        clear_job = Signal()
        kept = {
            "columns": Signal(len(command.columns), name="columns"),
            "rows": Signal(len(command.rows), name="rows"),
        }
        if self.config.decode == "seedlm":
            kept["mode"] = Signal(1, name="mode")
            m.d.comb += command.plain.eq(kept["mode"])
        m.d.comb += [
            gemv.i.valid.eq(pending),
            command.columns.eq(kept["columns"]),
            command.rows.eq(kept["rows"]),
            command.clear.eq(clear_job),
        ]
        with m.If(gemv.i.ready):
            m.d.sync += pending.eq(0)
        with m.If(result.valid & result.ready), m.If(result.payload.last):
            m.d.sync += [busy.eq(0), done.eq(1), status.eq(result.payload.status)]
        start, clear = lite.write_data[0], lite.write_data[1]
        with block.writes():
            with block.write("control"):
                m.d.comb += lite.write_refused.eq(pending | (busy & start & ~clear))
                with m.If(lite.write & ~lite.write_refused & lite.write_strobe[0]):
                    m.d.sync += [pending.eq(start | clear), clear_job.eq(clear)]
                    with m.If(start & ~clear):
                        m.d.sync += [busy.eq(1), done.eq(0)]
            # A pending command must not change.
            block.hold(kept, pending)
        block.show({"status": status_word(busy, done, status)} | kept)
