"""The AXI4 port of a core's memory."""

from collections.abc import Iterable

from amaranth.hdl import Cat, Const, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from seedbed.spec.axi_registers import PAGE_BITS

__all__ = ["ADDRESS_BITS", "axi_memory", "connect_memory", "connect_reads"]

ADDRESS_BITS = 32
_INCREASING = 0b01
#: Normal, non-cacheable, bufferable memory.
_BUFFERABLE = 0b0011


def axi_memory(bits: int) -> dict[str, Member]:
    """Return the members of the AXI4 manager port ``m_axi``, with ``bits`` of data."""
    address = {
        "id": Out(1), "addr": Out(ADDRESS_BITS), "len": Out(8), "size": Out(3), "burst": Out(2),
        "lock": Out(1), "cache": Out(4), "prot": Out(3), "valid": Out(1), "ready": In(1),
    }  # fmt: skip
    fields = {f"{channel}{field}": m for channel in ("aw", "ar") for field, m in address.items()}
    fields |= {
        "wdata": Out(bits), "wstrb": Out(bits // 8), "wlast": Out(1), "wvalid": Out(1),
        "wready": In(1), "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        "rid": In(1), "rdata": In(bits), "rresp": In(2), "rlast": In(1), "rvalid": In(1),
        "rready": Out(1),
    }  # fmt: skip
    return {f"m_axi_{field}": member for field, member in fields.items()}


def connect_memory(m, ports, core, base: Value) -> None:
    """Connect a core's memory ports to the five channels of the port ``m_axi``.

    ``base`` is the byte address of the core's memory; its low 12 bits are ignored.
    """
    command, write, response = core.o_command, core.o_write, core.i_response
    _commands(m, ports, core, base, ("aw", "ar"))
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
    ]
    _beats(m, ports, core)


def connect_reads(m, ports, core, base: Value) -> None:
    """Connect as :func:`connect_memory` a core that only reads; the write channels are idle."""
    _commands(m, ports, core, base, ("ar",))
    m.d.comb += [
        ports.m_axi_arvalid.eq(core.o_command.valid),
        core.o_command.ready.eq(ports.m_axi_arready),
    ]
    _beats(m, ports, core)
    m.d.comb += ports.m_axi_bready.eq(1)


def _commands(m, ports, core, base: Value, channels: Iterable[str]) -> None:
    """Connect the fields of a core's commands to the channels of addresses."""
    command = core.o_command.payload
    size = (len(ports.m_axi_wstrb)).bit_length() - 1
    # The base is page-aligned, so that the adder has the page bits only.
    offset = Signal(ADDRESS_BITS)
    m.d.comb += offset.eq(Cat(Const(0, size), command.address))
    pages = base[PAGE_BITS:] + offset[PAGE_BITS:]
    for channel in channels:
        fields = {
            "id": 0, "addr": Cat(offset[:PAGE_BITS], pages), "len": command.length,
            "size": size, "burst": _INCREASING, "lock": 0, "cache": _BUFFERABLE, "prot": 0,
        }  # fmt: skip
        for name, value in fields.items():
            m.d.comb += getattr(ports, f"m_axi_{channel}{name}").eq(value)


def _beats(m, ports, core) -> None:
    """Connect the beats that are read."""
    read = core.i_read
    m.d.comb += [
        read.payload.data.eq(ports.m_axi_rdata),
        # SLVERR and DECERR.
        read.payload.error.eq(ports.m_axi_rresp[1]),
        read.payload.last.eq(ports.m_axi_rlast),
        read.valid.eq(ports.m_axi_rvalid),
        ports.m_axi_rready.eq(read.ready),
    ]
