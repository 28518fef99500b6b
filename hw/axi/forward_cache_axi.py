"""The forward cache with AXI4 and AXI4-Stream ports."""

from amaranth.hdl import Cat, ClockDomain, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from seedbed.hw.axi.axi import axi_memory, axi_stream
from seedbed.hw.memory.forward_cache import ForwardCache
from seedbed.spec import ForwardCacheConfig

__all__ = ["ADDRESS_BITS", "ForwardCacheAxi", "connect_memory"]

ADDRESS_BITS = 32
#: Bits of an offset in a page of 4 KiB, whose boundary an AXI burst must not cross.
PAGE_BITS = 12

_INCREASING = 0b01
#: Normal, non-cacheable, bufferable memory.
_BUFFERABLE = 0b0011


def connect_memory(m, ports, core, base, beat_bytes: int):
    """Connect a core's memory ports to the five channels of the AXI4 port ``m_axi``.

    ``base`` is the byte address of the core's memory; its low 12 bits are ignored.
    """
    command, write = core.o_command, core.o_write
    response, read = core.i_response, core.i_read
    size = beat_bytes.bit_length() - 1
    # The base is page-aligned, so that the adder has the page bits only.
    offset = Signal(ADDRESS_BITS)
    m.d.comb += offset.eq(Cat(Const(0, size), command.payload.address))
    pages = base[PAGE_BITS:] + offset[PAGE_BITS:]
    for channel in ("aw", "ar"):
        fields = {
            "id": 0, "addr": Cat(offset[:PAGE_BITS], pages), "len": command.payload.length,
            "size": size, "burst": _INCREASING, "lock": 0, "cache": _BUFFERABLE, "prot": 0,
        }  # fmt: skip
        for name, value in fields.items():
            m.d.comb += getattr(ports, f"m_axi_{channel}{name}").eq(value)
    m.d.comb += [
        ports.m_axi_awvalid.eq(command.valid & command.payload.write),
        ports.m_axi_arvalid.eq(command.valid & ~command.payload.write),
        command.ready.eq(
            (ports.m_axi_awready & command.payload.write)
            | (ports.m_axi_arready & ~command.payload.write)
        ),
        ports.m_axi_wdata.eq(write.payload.data),
        ports.m_axi_wstrb.eq(~0),
        ports.m_axi_wlast.eq(write.payload.last),
        ports.m_axi_wvalid.eq(write.valid),
        write.ready.eq(ports.m_axi_wready),
        # SLVERR and DECERR.
        response.payload.error.eq(ports.m_axi_bresp[1]),
        response.valid.eq(ports.m_axi_bvalid),
        ports.m_axi_bready.eq(response.ready),
        read.payload.data.eq(ports.m_axi_rdata),
        read.payload.error.eq(ports.m_axi_rresp[1]),
        read.payload.last.eq(ports.m_axi_rlast),
        read.valid.eq(ports.m_axi_rvalid),
        ports.m_axi_rready.eq(read.ready),
    ]


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
            | axi_memory("m_axi", ADDRESS_BITS, config.beat_bits)
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
        connect_memory(m, self, cache, self.base_address, self.config.beat_bytes)
        return m
