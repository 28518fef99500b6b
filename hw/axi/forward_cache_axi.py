"""The forward cache with AXI4 and AXI4-Stream ports."""

from amaranth.hdl import ClockDomain, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_stream
from seedbed.hw.axi.axi_memory import ADDRESS_BITS, axi_memory, connect_memory
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.spec import ForwardCacheConfig

__all__ = ["ForwardCacheAxi"]


class ForwardCacheAxi(wiring.Component):
    """:class:`~seedbed.hw.memory.forward_cache.ForwardCache` with AXI's names, clock and reset.

    Parameters
    ----------
    config
        :class:`~seedbed.spec.ForwardCacheConfig`.

    Members
    -------
    aclk : In(1)
        clock, rising edge
    aresetn : In(1)
        reset, synchronous, active low
    base_address : In(32)
        byte address of the entries in memory. The low 12 bits are ignored. It must be stable during
        a request. The ``bytes`` of memory from there on must not be used otherwise.
    s_axis_request_* : In(24 bits)
        AXI4-Stream, requests. Bits 15..0 are the index, 17..16 the kind, see
        seedbed.spec.FORWARD_CACHE_KINDS. tlast is ignored.
    m_axis_answer_* : Out(8 bits)
        AXI4-Stream, responses, one per request. It is the status, see
        seedbed.spec.FORWARD_CACHE_STATUS; tlast is 1.
    s_axis_codes_* : In
        AXI4-Stream, one frame per store. One entry per packet: ``store_lanes`` codes of 4 bits per
        beat, their block's peak in tuser.
    m_axis_codes_* : Out
        AXI4-Stream, one frame per hit. One entry per packet: ``fetch_lanes`` codes of 4 bits per
        beat, their block's peak in tuser.
    m_axi_* : ``beat_bits`` bits of data
        AXI4 to the memory. Bursts are incrementing, of whole beats, all with identifier 0.

    Latency: that of forward_cache, plus that of the memory.
    Throughput: limited by the memory.
    """

    def __init__(self, config: ForwardCacheConfig):
        self.config = config
        peak = config.peak_width
        super().__init__(
            {"aclk": In(1), "aresetn": In(1), "base_address": In(ADDRESS_BITS)}
            | axi_stream("s_axis_request", 24, In)
            | axi_stream("m_axis_answer", 8, Out)
            | axi_stream("s_axis_codes", 4 * config.store_lanes, In, user=peak)
            | axi_stream("m_axis_codes", 4 * config.fetch_lanes, Out, user=peak)
            | axi_memory(config.beat_bits)
        )

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = sync = ClockDomain()
        m.d.comb += [sync.clk.eq(self.aclk), sync.rst.eq(~self.aresetn)]
        m.submodules.cache = cache = ForwardCache(self.config)
        request, answer, stored, fetched = cache.i, cache.o, cache.i_codes, cache.o_codes
        m.d.comb += [
            Value.cast(request.payload).eq(self.s_axis_request_tdata),
            request.valid.eq(self.s_axis_request_tvalid),
            self.s_axis_request_tready.eq(request.ready),
            self.m_axis_answer_tdata.eq(answer.payload.status),
            self.m_axis_answer_tlast.eq(1),
            self.m_axis_answer_tvalid.eq(answer.valid),
            answer.ready.eq(self.m_axis_answer_tready),
            Value.cast(stored.payload.codes).eq(self.s_axis_codes_tdata),
            stored.payload.peak.eq(self.s_axis_codes_tuser),
            stored.payload.last.eq(self.s_axis_codes_tlast),
            stored.valid.eq(self.s_axis_codes_tvalid),
            self.s_axis_codes_tready.eq(stored.ready),
            self.m_axis_codes_tdata.eq(Value.cast(fetched.payload.codes)),
            self.m_axis_codes_tuser.eq(fetched.payload.peak),
            self.m_axis_codes_tlast.eq(fetched.payload.last),
            self.m_axis_codes_tvalid.eq(fetched.valid),
            fetched.ready.eq(self.m_axis_codes_tready),
        ]
        connect_memory(m, self, cache, self.base_address)
        return m
